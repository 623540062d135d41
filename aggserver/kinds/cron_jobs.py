"""What the schedule and the time zone of a CronJob must be.

Source: k8s.io/kubernetes pkg/apis/batch/validation/validation.go (validateScheduleFormat, validateTimeZone), v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aggserver.kinds.schedules import ScheduleError, is_known_zone, parse
from aggserver.meta.field import FieldError, Path, invalid
from aggserver.meta.json_types import JSONObject

__all__ = ["schedule_problems"]

_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


def schedule_problems(spec: JSONObject, path: Path) -> Iterator[FieldError]:
    schedule, zone = spec.get("schedule") or "", spec.get("timeZone")
    if schedule:  # that it is required is in the table of checks
        where = path.child("schedule")
        try:
            parse(schedule)
        except ScheduleError as error:
            yield invalid(where, schedule, str(error))
        if "TZ" in schedule:
            yield invalid(where, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    if zone is not None:
        yield from _zone_problems(zone, path.child("timeZone"))


def _zone_problems(zone: str, path: Path) -> Iterator[FieldError]:
    if not zone:
        yield invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield invalid(path, zone, f"unknown time zone {zone}")
            return
    if zone.lower() == "local":
        yield invalid(path, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    elif not is_known_zone(zone):
        yield invalid(path, zone, f"unknown time zone {zone}")
