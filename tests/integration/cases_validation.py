"""Cases for `test_same_answers.py`: values under a schema with every keyword, and updates of objects that were invalid before.

`Judged` has two versions: v1 judges everything, v2, in which objects are stored, takes all. An object that is made in v2 and
changed in v1 is one from before its schema became strict.
"""

from __future__ import annotations

from typing import Any

from tests.cases.judged import RATCHETING, VALUES
from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask, path, thing

__all__ = ["CASES"]


def _judged(version: str = "v1", **members: Any) -> dict[str, Any]:
    return thing("Judged", version, **members)


def _create(version: str = "v1", *, compared: bool = True, **members: Any) -> Ask:
    return ask("POST", path("judgeds", version=version), _judged(version, **members), compared=compared)


def _before(spec: Any, status: Any = None) -> list[Ask]:
    """An object from before the schema was strict."""
    steps = [_create("v2", spec=spec, compared=False)]
    if status is not None:
        where = path("judgeds", "$name/status", version="v2")
        steps.append(ask("PATCH", where, {"status": status}, kind=MERGE_PATCH, compared=False))
    return steps


def _merge(body: Any, subresource: str = "", **more: Any) -> Ask:
    return ask("PATCH", path("judgeds", f"$name{subresource}"), body, kind=MERGE_PATCH, **more)


def _json(*operations: Any) -> Ask:
    return ask("PATCH", path("judgeds", "$name"), list(operations), kind=JSON_PATCH)


def _get() -> Ask:
    return ask("GET", path("judgeds", "$name"))


_BAD_STATUS = {"phase": "Gone", "replicas": "many"}
_CONDITION = {"type": "a", "status": "True"}

_UPDATES: Cases = {
    "put-invalid": [
        _create(spec={"range": 5}, compared=False),
        ask("PUT", path("judgeds", "$name"), _judged(metadata={"resourceVersion": "$rv1"}, spec={"range": 50, "short": "a"})),
    ],
    "put-invalid-labels": [
        _create(spec={"range": 5}, compared=False),
        ask(
            "PUT",
            path("judgeds", "$name"),
            _judged(metadata={"resourceVersion": "$rv1", "labels": {"a b": "c"}}, spec={"range": 50, "set": ["a", "a"]}),
        ),
    ],
    "put-ratcheted": [
        *_before({"range": 99}),
        ask("PUT", path("judgeds", "$name"), _judged(metadata={"resourceVersion": "$rv1"}, spec={"range": 99, "text": "x"})),
    ],
    "put-embedded-labels": [
        _create(spec={}, compared=False),
        ask(
            "PUT",
            path("judgeds", "$name"),
            _judged(
                metadata={"resourceVersion": "$rv1"},
                spec={"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": []}}},
            ),
        ),
    ],
    "merge-embedded-labels": [
        _create(spec={"template": {"apiVersion": "v1", "kind": "Pod"}}, compared=False),
        _merge({"spec": {"template": {"metadata": {"labels": []}}}}),
    ],
    "json-patch-invalid": [
        _create(spec={"range": 5}, compared=False),
        _json({"op": "replace", "path": "/spec/range", "value": "x"}),
    ],
    "merge-invalid": [_create(spec={"range": 5}, compared=False), _merge({"spec": {"range": 50}})],
    "loose-takes-all": [_create("v2", spec={"range": "x", "set": ["a", "a"]}), _get()],
    "read-in-strict": [_create("v2", spec={"range": "x", "unheard": 1, "text": None}), _get()],
    "nothing-new-in-strict": [
        _create("v2", spec={"unheard": 1, "text": "a"}, compared=False),
        _merge({}),
        ask("GET", path("judgeds", "$name", version="v2")),
    ],
    "create-with-bad-status": [_create(spec={}, status=_BAD_STATUS)],
    "status-good": [_create(spec={}, compared=False), _merge({"status": {"phase": "Ready"}}, "/status")],
    "status-bad": [_create(spec={}, compared=False), _merge({"status": _BAD_STATUS}, "/status")],
    "status-required": [_create(spec={}, compared=False), _merge({"status": {"replicas": 1}}, "/status")],
    "status-text": [_create(spec={}, compared=False), _merge({"status": "x"}, "/status")],
    "status-removed": [*_before({}, {"phase": "Ready"}), _merge({"status": None}, "/status")],
    "status-conditions-twice": [
        _create(spec={}, compared=False),
        _merge({"status": {"phase": "Ready", "conditions": [_CONDITION, _CONDITION]}}, "/status"),
    ],
    "status-of-invalid-spec": [*_before({"range": 99, "set": ["a", "a"]}), _merge({"status": {"phase": "Ready"}}, "/status")],
    "status-twice-with-set-twice": [
        *_before({"set": ["a", "a"]}),
        _merge({"status": {"phase": "Ready", "conditions": [_CONDITION, _CONDITION]}}, "/status"),
    ],
    "status-ratcheted": [*_before({}, _BAD_STATUS), _merge({"status": {"conditions": [_CONDITION]}}, "/status")],
    "status-still-missing": [*_before({}, {"replicas": 1}), _merge({"status": {"replicas": 2}}, "/status")],
    "spec-of-invalid-status": [*_before({}, _BAD_STATUS), _merge({"spec": {"text": "x"}})],
    "label-of-invalid-status": [*_before({"range": 99}, _BAD_STATUS), _merge({"metadata": {"labels": {"a": "b"}}})],
}

CASES: Cases = {
    **{f"value-{name}": [_create(spec=case["spec"])] for name, case in VALUES.items()},
    "value-spec-missing": [_create()],
    "value-spec-null": [_create(spec=None)],
    "value-spec-list": [_create(spec=[])],
    "value-metadata-and-spec": [_create(metadata={"labels": {"a b": "c"}, "name": "A_b"}, spec={"range": 50})],
    "value-other-kind": [ask("POST", path("judgeds"), thing("Other", spec={"range": 50, "set": ["a", "a"]}))],
    **{
        f"ratchet-{name}": [*_before(case["before"]), _merge({"spec": case["change"], "metadata": {"labels": {"new": "er"}}})]
        for name, case in RATCHETING.items()
    },
    **{f"update-{name}": case for name, case in _UPDATES.items()},
}
