"""An operator of CronTabs (../crontab.yaml), with kopf: it checks their schedules, and says so in the status and in Events.

Run it with: kopf run --namespace default crontab_operator.py
"""

import kopf

FIELDS = ("minute", "hour", "day of month", "month", "day of week")


@kopf.on.create("stable.example.com", "v1", "crontabs", id="schedule")
@kopf.on.update("stable.example.com", "v1", "crontabs", field="spec", id="schedule")
def schedule(spec, body, patch, **_):
    given = spec.get("cronSpec", "").split()
    if len(given) != len(FIELDS):
        why = f"cronSpec has {len(given)} fields, not {len(FIELDS)}"
        patch.status["phase"] = "Refused"
        kopf.warn(body, reason="Refused", message=why)
        raise kopf.PermanentError(why)
    patch.status["phase"] = "Scheduled"
    patch.status["schedule"] = dict(zip(FIELDS, given, strict=True))
    kopf.info(body, reason="Scheduled", message=f"Runs {spec.get('replicas', 1)} of {spec.get('image', 'nothing')}")
