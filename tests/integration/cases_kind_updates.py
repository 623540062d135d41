"""Cases for `test_same_kinds.py`: what an update of a built-in kind may change, and in which words others are refused."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, Cases, ask
from tests.integration.kinds import minimal, on, pod_template

__all__ = ["CASES"]

_SPACE = "/api/v1/namespaces/$name"
_CONDITION = {"type": "Own", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}


def _namespace(**members: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name"}, **members}


def _space_status(method: str, body: Any, kind: str = "application/json") -> Ask:
    return ask(method, f"{_SPACE}/status", body, kind=kind)


_NAMESPACES: Cases = {
    "namespace-status-without-phase": [
        ask("POST", "/api/v1/namespaces", _namespace(), compared=False),
        _space_status("PUT", _namespace(status={"conditions": [_CONDITION]})),
        _space_status("PUT", _namespace(status={"phase": ""})),
        _space_status("PUT", _namespace(status=None)),
        _space_status("PUT", _namespace()),
        _space_status("PATCH", {"status": {"phase": None, "conditions": [_CONDITION]}}, MERGE_PATCH),
        _space_status("PATCH", {"status": None}, MERGE_PATCH),
        _space_status("PATCH", [{"op": "remove", "path": "/status/phase"}], JSON_PATCH),
        _space_status("PATCH", _namespace(status={"conditions": [_CONDITION]}), APPLY_PATCH),
        _space_status("PATCH", {"status": {"phase": "Other"}}, MERGE_PATCH),
        ask("DELETE", _SPACE, compared=False),
    ],
}

_POD = "core/pods"
_GATED = {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]}


def _pod(**spec: Any) -> Ask:
    base = minimal(_POD)
    return on("POST", _POD, {**base, "spec": {**base["spec"], **spec}}, compared=False)


def _spec(which: str, **members: Any) -> Ask:
    """A change of the spec. Upstream's text goes on with what differs."""
    return on("PATCH", which, {"spec": members}, kind=MERGE_PATCH, pick=_without_difference)


def _without_difference(body: Any) -> Any:
    if body.get("kind") != "Status":
        return body
    causes = [{**each, "message": each["message"].partition("\n")[0]} for each in body.get("details", {}).get("causes", ())]
    return {**body, "message": body["message"].partition("\n")[0], "details": {**body.get("details", {}), "causes": causes}}


def _affinity(*zones: str, **more: Any) -> Any:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]} for zone in zones]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}, **more}


_PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
_NEAR = {
    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}]
}
_TOLERATIONS = [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}]
_WRONG_TOLERATIONS: list[Any] = [
    {"key": "a b", "operator": "Exists"},
    {"key": "", "value": "v"},
    {"operator": "Equal"},
    {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3},
    {"key": "a", "tolerationSeconds": 3},
    {"key": "a", "value": "b c"},
    {"key": "a", "value": "b" * 64, "operator": "Equal"},
    {"key": "a", "value": "b", "operator": "Exists"},
    {"key": "a", "value": "b", "operator": "Other"},
    {"key": "a", "value": "b", "effect": "Other"},
]
_END = on("DELETE", _POD, compared=False)
_DEPLOYMENT = "apps/deployments"


def _with_toleration(toleration: Any) -> Any:
    spec = minimal(_DEPLOYMENT)["spec"]
    return minimal(_DEPLOYMENT, spec={**spec, "template": pod_template(tolerations=[toleration])})


_PODS: Cases = {
    "pod-gated-node-selector": [
        _pod(**_GATED, nodeSelector={"a": "b"}),
        _spec(_POD, nodeSelector={"c": "d"}),
        _spec(_POD, nodeSelector={"c": "e"}),
        _spec(_POD, nodeSelector=None),
        _spec(_POD, schedulingGates=[_GATED["schedulingGates"][1]], nodeSelector={"e": "f"}),
        _spec(_POD, schedulingGates=None, nodeSelector={"g": "h"}),
        _spec(_POD, nodeSelector={"i": "j"}),
        _END,
    ],
    "pod-gated-affinity": [
        _pod(**_GATED),
        _spec(_POD, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _PREFERRED}}),
        _spec(_POD, affinity=_affinity("a")),
        _spec(_POD, affinity=_affinity("a", "b")),
        _spec(_POD, affinity=_affinity("c", "b")),
        _spec(_POD, affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": None}}),
        _spec(_POD, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}),
        _spec(_POD, affinity=None),
        _spec(_POD, affinity={"podAffinity": _NEAR}),
        _END,
    ],
    "pod-affinity": [
        _pod(),
        _spec(_POD, affinity=_affinity("a")),
        _spec(_POD, affinity={"podAffinity": _NEAR}),
        _spec(_POD, nodeSelector={"a": "b"}),
        _END,
    ],
    "pod-gates": [
        _pod(schedulingGates=_GATED["schedulingGates"][:1]),
        _spec(_POD, **_GATED),
        _spec(_POD, schedulingGates=None),
        _spec(_POD, schedulingGates=_GATED["schedulingGates"][:1]),
        _END,
    ],
    "pod-tolerations": [
        _pod(tolerations=_TOLERATIONS),
        _spec(_POD, tolerations=[*_TOLERATIONS, {"key": "x", "operator": "Exists"}]),
        _spec(_POD, tolerations=[{**_TOLERATIONS[0], "tolerationSeconds": 9}, {"key": "x", "operator": "Exists"}]),
        _spec(_POD, tolerations=None),
        _END,
    ],
    "pod-tolerations-that-are-wrong": [
        _pod(),
        *(_spec(_POD, tolerations=[toleration]) for toleration in _WRONG_TOLERATIONS),
        _spec(_POD, tolerations=_WRONG_TOLERATIONS),
        _END,
        *(on("POST", _POD, minimal(_POD, spec={**minimal(_POD)["spec"], "tolerations": [each]})) for each in _WRONG_TOLERATIONS),
        *(on("POST", _DEPLOYMENT, _with_toleration(each), pick=_without_difference) for each in _WRONG_TOLERATIONS),
    ],
    "pod-tolerations-that-are-right": [
        _pod(),
        *(
            _spec(_POD, tolerations=tolerations)
            for tolerations in (
                [{"operator": "Exists"}],
                [{"operator": "Exists"}, {"key": "a.b/c", "value": "d", "effect": "NoExecute", "tolerationSeconds": -1}],
                [
                    {"operator": "Exists"},
                    {"key": "a.b/c", "value": "d", "effect": "NoExecute"},
                    {"key": "e", "operator": "Equal"},
                ],
            )
        ),
        _END,
    ],
    "pod-grace": [_pod(terminationGracePeriodSeconds=30), _spec(_POD, terminationGracePeriodSeconds=1), _END],
    "pod-deadline": [
        _pod(),
        _spec(_POD, activeDeadlineSeconds=50),
        _spec(_POD, activeDeadlineSeconds=40),
        _spec(_POD, activeDeadlineSeconds=60),
        _spec(_POD, activeDeadlineSeconds=None),
        _spec(_POD, activeDeadlineSeconds=60, nodeName="n"),
        _END,
    ],
    "pod-containers": [
        _pod(),
        _spec(_POD, containers=[{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]),
        _spec(_POD, containers=[{"name": "c", "image": "i", "env": []}]),
        _spec(_POD, containers=[{"name": "c", "image": "i", "env": [{"name": "A"}]}]),
        _spec(_POD, containers=[{"name": "c", "image": " i"}]),
        _END,
    ],
    "pod-image-with-a-space": [on("POST", _POD, {**minimal(_POD), "spec": {"containers": [{"name": "c", "image": "i "}]}})],
    "pod-mirror-annotation": [
        _pod(nodeName="n"),
        on("PATCH", _POD, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a"}}}, kind=MERGE_PATCH),
        on("PATCH", _POD, {"metadata": {"annotations": {"kubernetes.io/config.mirror": "a"}}}, kind=MERGE_PATCH, below="status"),
        _END,
    ],
}

_JOB, _CRON = "batch/jobs", "batch/cronjobs"
_STARTED, _ENDED = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"


def _job(compared: bool = False, restart: str = "Never", **spec: Any) -> Ask:
    base = minimal(_JOB)
    template = {"spec": {**base["spec"]["template"]["spec"], "restartPolicy": restart}}
    # A Job's labels and selector are its own.
    pick = _without_difference if compared else None
    return on("POST", _JOB, {**base, "spec": {"template": template, **spec}}, compared=compared, pick=pick)


def _stands(*types: str, status: str = "True") -> Any:
    return [{"type": name, "status": status, "lastTransitionTime": _STARTED} for name in types]


def _says(**status: Any) -> Ask:
    return on("PATCH", _JOB, {"status": status}, kind=MERGE_PATCH, below="status", pick=_status)


def _status(body: Any) -> Any:
    return body.get("status", {}) if body.get("kind") == "Job" else body


_OVER = on("DELETE", _JOB, query="propagationPolicy=Background", compared=False)
_DONE = {"startTime": _STARTED, "completionTime": _ENDED}

_JOBS: Cases = {
    "job-restarts": [_job(True, "Always"), _job(True, ""), _job(True, "Other")],
    "job-indexes": [
        _job(True, completionMode="Indexed"),
        _job(True, backoffLimitPerIndex=1),
        _job(True, maxFailedIndexes=1),
        _job(True, completionMode="Indexed", completions=2, parallelism=100001),
        _job(True, completionMode="Indexed", completions=2, maxFailedIndexes=3),
        _job(True, completionMode="Indexed", completions=200000, backoffLimitPerIndex=1, parallelism=20000),
        _job(True, completionMode="Indexed", completions=200000, backoffLimitPerIndex=1, parallelism=1, maxFailedIndexes=100001),
    ],
    "cron-job-restarts": [
        on("POST", _CRON, minimal(_CRON, spec={**minimal(_CRON)["spec"], "jobTemplate": {"spec": {"template": pod_template()}}})),
    ],
    "job-completes": [
        _job(),
        _says(conditions=_stands("Complete")),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet"), startTime=_STARTED),
        _says(completionTime=_ENDED),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet"), startTime=_ENDED, completionTime=_STARTED),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet"), **_DONE, active=1, terminating=1),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet"), **_DONE, uncountedTerminatedPods={"succeeded": ["a"]}),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet"), **_DONE, succeeded=1),
        _says(conditions=_stands("SuccessCriteriaMet")),
        _says(conditions=_stands("Complete")),
        _says(completionTime="2026-01-02T03:04:07Z"),
        _says(startTime=None),
        _says(succeeded=0),
        _says(conditions=_stands("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")),
        _OVER,
    ],
    "job-fails": [
        _job(),
        _says(conditions=_stands("Failed"), failed=1),
        _says(conditions=_stands("Failed", "FailureTarget"), startTime=_STARTED, failed=1),
        _says(failed=0),
        _says(conditions=_stands("Failed")),
        _says(conditions=_stands("Failed", "FailureTarget", status="False")),
        _OVER,
    ],
    "job-counts": [
        _job(),
        _says(active=-1, ready=-1, failed=-2, succeeded=-3, terminating=-4),
        _says(active=1, ready=2),
        _says(uncountedTerminatedPods={"succeeded": ["a", ""], "failed": ["a"]}),
        _says(completedIndexes="1", failedIndexes="2"),
        _OVER,
    ],
    "job-index-texts": [
        _job(completionMode="Indexed", completions=9, parallelism=9, backoffLimitPerIndex=1),
        *(_says(completedIndexes=text) for text in ("1-2-3", "a", "9", "1-9", "3-2", "3,1", "1,", "+1,2-3", "-1", "1-a")),
        _says(failedIndexes="3"),
        _says(failedIndexes="5-4"),
        _says(failedIndexes="5-7", succeeded=3),
        _says(succeeded=1),
        _OVER,
    ],
    "job-suspended": [
        _job(suspend=True, completions=0),
        _says(startTime=_STARTED, conditions=_stands("Suspended")),
        _says(startTime=_ENDED),
        _says(startTime=None, completionTime=_ENDED, conditions=_stands("Complete", "SuccessCriteriaMet")),
        _OVER,
    ],
}

_LONG = "a" * 64
_SERVED = {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}


def _named(*names: str, **more: Any) -> Any:
    return {"containers": [{"name": name, "image": "i"} for name in names], **more}


def _data(which: str, **members: Any) -> Ask:
    return on("POST", which, minimal(which, **members), pick=_without_difference)


_WITH_PODS = ("apps/daemonsets", "apps/deployments", "apps/replicasets", "apps/statefulsets", "core/replicationcontrollers")

_NAMES: Cases = {
    "data-keys": [
        *(_data("core/configmaps", data={key: "b"}) for key in ("", "a b", ".", "..", "..a", "é", "a" * 254, "a\n")),
        _data("core/configmaps", data={"a": "b"}, binaryData={"a": "Yg==", "c d": "Yg=="}),
        *(_data("core/secrets", data={key: "Yg=="}) for key in ("", "a b", "..")),
        _data("core/secrets", stringData={"a b": "c"}),
    ],
    "secret-types": [
        on("POST", "core/secrets", minimal("core/secrets", type=f"kubernetes.io/{kind}", stringData=data), query="dryRun=All")
        for kind, data in (
            ("dockercfg", {}),
            ("dockercfg", {".dockercfg": "{}"}),
            ("dockercfg", {".dockercfg": "null"}),
            ("dockercfg", {".dockercfg": ' {"a": {"auth": 1e9}} '}),
            *(("dockercfg", {".dockercfg": text}) for text in ("", "{", "[1]", "x", '{"a": 1,}', '"a"', "3", "{}{}", "true")),
            ("dockerconfigjson", {".dockercfg": "{}"}),
            ("dockerconfigjson", {".dockerconfigjson": "{}"}),
            ("dockerconfigjson", {".dockerconfigjson": "{]"}),
            ("dockerconfigjson", {".dockerconfigjson": '{"a": 1e999}'}),
            ("basic-auth", {}),
            ("basic-auth", {"username": ""}),
            ("basic-auth", {"password": "a"}),
            ("ssh-auth", {}),
            ("ssh-auth", {"ssh-privatekey": ""}),
            ("ssh-auth", {"ssh-privatekey": "a"}),
            ("tls", {}),
            ("tls", {"tls.crt": "a"}),
            ("tls", {"tls.key": ""}),
            ("other", {}),
        )
    ],
    "data-size": [
        on("POST", which, minimal(which, data={"a": text}), query="dryRun=All", pick=lambda body: body.get("message"))
        for which, text in (
            ("core/configmaps", "a" * 2**20),
            ("core/configmaps", "a" * (2**20 + 1)),
            ("core/secrets", "YWFh" * 349525),
            ("core/secrets", "YWFh" * 349526),
        )
    ],
    "container-names": [
        on("POST", _POD, {**minimal(_POD), "spec": spec})
        for spec in (
            _named("a.b"),
            _named(_LONG),
            _named("A_b"),
            _named("a", "a"),
            _named("a", initContainers=[{"name": "a", "image": "i"}, {"name": "b", "image": "i"}, {"name": "b", "image": "i"}]),
        )
    ],
    "container-names-of-templates": [
        on("POST", which, minimal(which, spec={**minimal(which)["spec"], "template": pod_template(**_named("a.b"))}))
        for which in _WITH_PODS
    ],
    "container-names-of-jobs": [
        on("POST", "core/podtemplates", minimal("core/podtemplates", template=pod_template(**_named("a.b")))),
        _job(True, template={"spec": {**_named("a.b"), "restartPolicy": "Never"}}),
    ],
    "pod-name-with-dots": [
        on("POST", _POD, minimal(_POD, {"name": "$name.example.com"}), pick=lambda body: body["kind"]),
        on("DELETE", _POD, name="$name.example.com", compared=False),
    ],
    "service-name-and-address-taken": [
        on("POST", "core/services", minimal("core/services", spec=_SERVED), compared=False),
        on("POST", "core/services", minimal("core/services", spec=_SERVED)),
        on("POST", "core/services", minimal("core/services", spec={**_SERVED, "clusterIP": None})),
        on("DELETE", "core/services", compared=False),
    ],
}

CASES: Cases = _NAMESPACES | _PODS | _JOBS | _NAMES
