"""Cases for `test_same_webhooks.py` about built-in kinds: those that are served in two versions, reviews, and Go's types."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.cases_webhooks import allow, deny, hook, judge, op, patches, rules, says
from tests.integration.comparison import MERGE_PATCH, Ask, ask
from tests.integration.webhook_sides import ASKER, Answering, WebhookCase

__all__ = ["CASES"]


def _sent(method: str, where: str, body: Any = None, user: str = ASKER, **more: Any) -> Ask:
    return ask(method, where, body, Impersonate_User=user, Impersonate_Group="system:masters", **more)


def _scaler(version: str, **spec: Any) -> Any:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "$name"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }


_MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "10Mi"}}}


def _at(version: str, end: str = "") -> str:
    return f"/apis/autoscaling/{version}/namespaces/$namespace/horizontalpodautoscalers{end}"


def _scalers(version: str, **spec: Any) -> list[Ask]:
    """What a webhook may be asked about one: all verbs, also of its status."""
    status = {"status": {"desiredReplicas": 2, "currentReplicas": 1}}
    return [
        _sent("POST", _at(version), _scaler(version, **spec)),
        _sent("PATCH", _at(version, "/$name"), {"spec": {"maxReplicas": 7}}, kind=MERGE_PATCH),
        _sent("PATCH", _at(version, "/$name/status"), status, kind=MERGE_PATCH),
        _sent("GET", _at("v2", "/$name")),
        _sent("DELETE", _at(version, "/$name")),
    ]


_EVENTS, _NEW_EVENTS = (f"{where}/namespaces/$namespace/events" for where in ("/api/v1", "/apis/events.k8s.io/v1"))


def _event() -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "$name"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "$namespace"},
        "reason": "Tried",
        "message": "hello",
        "type": "Normal",
    }


def _new_event() -> Any:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "$name"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "$namespace"},
        "eventTime": "2026-01-02T03:04:05.000006Z",
        "reportingController": "example.com/tester",
        "reportingInstance": "tester-1",
        "action": "Trying",
        "reason": "Tried",
        "note": "hello",
        "type": "Normal",
    }


def _events(path: str, event: Any) -> list[Ask]:
    return [_sent("POST", path, event), _sent("GET", f"{path}/$name"), _sent("DELETE", f"{path}/$name")]


def _of_versions() -> dict[str, WebhookCase]:
    older = rules("horizontalpodautoscalers,horizontalpodautoscalers/status", versions="v1", groups="autoscaling")
    newer = rules("horizontalpodautoscalers,horizontalpodautoscalers/status", versions="v2", groups="autoscaling")
    core = rules("events", versions="v1", groups="")
    new = rules("events", versions="v1", groups="events.k8s.io")
    exact: Any = {"matchPolicy": "Exact"}
    labels = patches(op("add", "/metadata/labels", {"a": "b"}))
    use = op("add", "/spec/targetCPUUtilizationPercentage", 33)
    return {
        "scaler-older": WebhookCase([hook(allow, **older), judge(allow, **older)], _scalers("v2", metrics=[_MEMORY])),
        "scaler-newer": WebhookCase([hook(allow, **newer), judge(allow, **newer)], _scalers("v1")),
        "scaler-exact": WebhookCase([judge(allow, **older, **exact)], _scalers("v2")),
        "scaler-both": WebhookCase([judge(allow, "a", **older), judge(allow, "b", **newer)], _scalers("v2")),
        "scaler-older-denies": WebhookCase([judge(deny(message="no"), **older)], _scalers("v2")[:1]),
        "scaler-older-changes": WebhookCase(
            [hook(patches(use, op("add", "/metadata/labels", {"a": "b"})), **older), judge(allow, **newer)],
            [*_scalers("v2", metrics=[_MEMORY])[:1], _sent("GET", _at("v2", "/$name")), *_scalers("v2")[-1:]],
        ),
        "scaler-newer-changes": WebhookCase(
            [hook(patches(op("add", "/spec/metrics", [_MEMORY])), **newer)], [*_scalers("v1")[:1], *_scalers("v1")[-2:]]
        ),
        "scaler-older-breaks": WebhookCase([hook(patches(op("add", "/spec/maxReplicas", "x")), **older)], _scalers("v2")[:1]),
        "scaler-collection": WebhookCase(
            [judge(allow, **older)], [*_scalers("v2")[:1], _sent("DELETE", _at("v2")), _sent("DELETE", _at("v1"))]
        ),
        "scaler-collection-dry": WebhookCase(
            [hook(allow, **older), judge(allow, **older)],
            [
                *_scalers("v2")[:1],
                _sent("DELETE", _at("v2", "?dryRun=All")),
                _sent("GET", _at("v2", "/$name")),
                *_scalers("v2")[-1:],
            ],
        ),
        "event-core": WebhookCase([hook(allow, **core), judge(allow, **core)], _events(_NEW_EVENTS, _new_event())),
        "event-new": WebhookCase([hook(allow, **new), judge(allow, **new)], _events(_EVENTS, _event())),
        "event-exact": WebhookCase([judge(allow, **core, **exact)], _events(_NEW_EVENTS, _new_event())),
        "event-core-changes": WebhookCase([hook(labels, **core), judge(allow, **new)], _events(_NEW_EVENTS, _new_event())),
        "event-new-denies": WebhookCase([judge(deny(message="no"), **new)], _events(_EVENTS, _event())[:1]),
    }


# --- reviews ---


_ABOUT = {"resourceAttributes": {"namespace": "$namespace", "verb": "get", "resource": "pods"}}
_BOB = {**_ABOUT, "user": "bob"}
# What is created where, with which spec; None for a kind without.
_REVIEWS: dict[str, tuple[str, str, Any]] = {
    "SelfSubjectAccessReview": ("authorization.k8s.io", "", _ABOUT),
    "SubjectAccessReview": ("authorization.k8s.io", "", _BOB),
    "LocalSubjectAccessReview": ("authorization.k8s.io", "namespaces/$namespace/", _BOB),
    "SelfSubjectRulesReview": ("authorization.k8s.io", "", {"namespace": "$namespace"}),
    "SelfSubjectReview": ("authentication.k8s.io", "", None),
    "TokenReview": ("authentication.k8s.io", "", {"token": "nonsense"}),
}


def _review(kind: str, case: str, hooks: Any, query: str = "", **more: Any) -> WebhookCase:
    """hooks: functions that make them of the fields of their configuration.

    Reviews are in no namespace, so each case has a user of its own, and webhooks that are asked about nobody else.
    """
    group, within, spec = _REVIEWS[kind]
    user, plural = f"{ASKER}.{case}", f"{kind.lower()}s"
    mine = [{"name": "mine", "expression": f'request.userInfo.username == "{user}"'}]
    fields = {**rules(plural, groups=group), "namespaceSelector": {}, "matchConditions": mine}
    body = {"apiVersion": f"{group}/v1", "kind": kind, **({} if spec is None else {"spec": spec}), "status": {}, **more}
    step = _sent("POST", f"/apis/{group}/v1/{within}{plural}{query}", body, user=user, pick=_in_order)
    return WebhookCase([make(fields) for make in hooks], [step])


def _in_order(body: Any) -> Any:
    """Upstream finds rules in the order of a map."""
    status = body.get("status")
    if isinstance(status, dict) and "resourceRules" in status:
        rules = {name: sorted(value, key=json.dumps) for name, value in status.items() if isinstance(value, list)}
        return {**body, "status": {**status, **rules}}
    return body


def _hooks(answer: Answering, **more: Any) -> Any:
    return lambda fields: hook(answer, **{**fields, **more})


def _judges(answer: Answering, **more: Any) -> Any:
    return lambda fields: judge(answer, **{**fields, **more})


def _of_reviews() -> dict[str, WebhookCase]:
    no, careful, both = deny(message="no"), says(warnings=["careful"]), [_hooks(allow), _judges(allow)]
    unlabelled = {"objectSelector": {"matchLabels": {"a": "b"}}}
    found: dict[str, WebhookCase] = {}
    for kind in _REVIEWS:
        for end, hooks, more in (
            ("", both, {}),
            ("-denied", [_judges(no)], {}),
            ("-denied-early", [_hooks(no)], {}),
            ("-warns", [_judges(careful)], {}),
            ("-dry", both, {"query": "?dryRun=All"}),
            ("-dry-refused", [_judges(allow, sideEffects="NoneOnDryRun")], {"query": "?dryRun=All"}),
            ("-unselected", [_judges(no, **unlabelled)], {}),
            ("-named", both, {"metadata": {"name": "n", "uid": "77"}}),
            ("-relabelled", [_hooks(patches(op("add", "/metadata/labels", {"a": "b"}))), _judges(allow)], {}),
            ("-unasked", [], {}),
            ("-unasked-invalid", [], {"spec": {}, "metadata": {"name": "n"}}),
            ("-broken", [_hooks(patches(op("add", "/spec", "x")))], {}),
        ):
            case = f"{kind.lower()}{end}"
            found[case] = _review(kind, case, hooks, **more)
    whom = patches(op("replace", "/spec/user", "carol"))
    found["review-of-another"] = _review("SubjectAccessReview", "review-of-another", [_hooks(whom), _judges(allow)])
    nothing = patches(op("remove", "/spec/resourceAttributes"))
    found["review-of-nothing"] = _review("SubjectAccessReview", "review-of-nothing", [_hooks(nothing), _judges(allow)])
    return found


CASES = {**_of_versions(), **_of_reviews()}
