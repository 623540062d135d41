"""The rules for Jobs and their status, by tables; `tests/integration/cases_kind_updates.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.jobs import job_problems, job_status_problems
from aggserver.meta.field import Path

_START, _END = "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"
_RUN = {"startTime": _START, "completionTime": _END}
_MANY = {"completionMode": "Indexed", "completions": 200_000, "backoffLimitPerIndex": 1}

# Members of the spec, and the fields and the ends of the errors.
SPECS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "plain": ({}, []),
    "always": ({"restart": "Always"}, [("template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')]),
    "unset": ({"restart": None}, [("template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')]),
    "other": ({"restart": "Other"}, [("template.spec.restartPolicy", 'supported values: "OnFailure", "Never"')]),
    "failure policy": (
        {"restart": "OnFailure", "podFailurePolicy": {"rules": []}},
        [("template.spec.restartPolicy", 'only "Never" is supported when podFailurePolicy is specified')],
    ),
    "indexed": ({"completionMode": "Indexed"}, [("completions", "when completion mode is Indexed")]),
    "limits without indexes": (
        {"maxFailedIndexes": 1},
        [
            ("backoffLimitPerIndex", "when maxFailedIndexes is specified"),
            ("maxFailedIndexes", "requires indexed completion mode"),
        ],
    ),
    "many at once": (
        {"completionMode": "Indexed", "completions": 1, "parallelism": 100_001},
        [("parallelism", "must be less than or equal to 100000 when completion mode is Indexed")],
    ),
    "many completions": (
        {**_MANY, "parallelism": 20_000},
        [("maxFailedIndexes", "must be specified when completions is above 100000"), ("parallelism", "limit per index")],
    ),
    "many failed": (
        {**_MANY, "maxFailedIndexes": 100_001},
        [("maxFailedIndexes", "less than or equal to 100000"), ("maxFailedIndexes", "limit per index")],
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_spec(name: str) -> None:
    members, wanted = SPECS[name]
    spec = {name: value for name, value in members.items() if name != "restart"}
    restart = members.get("restart", "Never")
    spec["template"] = {"spec": {"restartPolicy": restart} if restart else {}}
    found = job_problems(spec, Path("spec"))
    assert [each.field for each in found] == [f"spec.{path}" for path, _ in wanted]
    assert all(each.detail.endswith(end) for each, (_, end) in zip(found, wanted, strict=True))


def _stands(*names: str) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": "True"} for name in names]}


_COMPLETE = {**_stands("Complete", "SuccessCriteriaMet"), **_RUN}
_INDEXED = {"completionMode": "Indexed", "completions": 9, "parallelism": 8, "backoffLimitPerIndex": 1}

# The spec, the status before, the status, and the fields that have errors.
STATUSES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = {
    "begun": ({}, {}, {"startTime": _START, "active": 1, "ready": 1}, []),
    "complete": ({}, {}, _COMPLETE, []),
    "complete and nothing else": ({}, {}, _stands("Complete"), ["completionTime", "conditions", "startTime"]),
    "complete of before": ({}, _stands("Complete"), {**_stands("Complete"), "succeeded": 1}, []),
    "ended before it began": ({}, {}, {**_COMPLETE, "startTime": "2026-01-02T03:04:07Z"}, ["completionTime"]),
    "ended, not complete": ({}, {}, _RUN, ["completionTime"]),
    "complete with Pods": ({}, {}, {**_COMPLETE, "active": 1, "terminating": 1}, ["active", "terminating"]),
    "complete with uncounted": ({}, {}, {**_COMPLETE, "uncountedTerminatedPods": {"failed": ["a"]}}, ["uncountedTerminatedPods"]),
    "uncounted twice": (
        {},
        {},
        {"uncountedTerminatedPods": {"succeeded": ["a", ""], "failed": ["a"]}},
        ["uncountedTerminatedPods.succeeded[1]", "uncountedTerminatedPods.failed[0]"],
    ),
    "complete and failed": (
        {},
        {},
        {**_RUN, **_stands("Complete", "SuccessCriteriaMet", "Failed", "FailureTarget")},
        ["conditions"] * 4,
    ),
    "failed": ({}, {}, {"startTime": _START, **_stands("Failed", "FailureTarget")}, []),
    "failed without target": ({}, {}, {"startTime": _START, **_stands("Failed")}, ["conditions"]),
    "not failed any more": ({}, _stands("Failed", "FailureTarget"), {}, ["conditions", "conditions"]),
    "not complete any more": ({}, _COMPLETE, {"startTime": _START}, ["conditions", "conditions"]),
    "counts sink": ({}, {"failed": 2, "succeeded": 2}, {"failed": 1, "succeeded": 1}, ["failed", "succeeded"]),
    "succeeded sinks with its scale": ({**_INDEXED, "parallelism": 9}, {"succeeded": 2}, {"succeeded": 1}, []),
    "ended again": ({}, _COMPLETE, {**_COMPLETE, "completionTime": "2026-01-02T03:04:07Z"}, ["completionTime"]),
    "began again": ({}, {"startTime": _START}, {"startTime": _END}, ["startTime"]),
    "began again while suspended": ({"suspend": True}, {"startTime": _START}, {"startTime": _END}, []),
    "resumed": (
        {},
        {"startTime": _START, **_stands("Suspended")},
        {"startTime": _END, "conditions": [{"type": "Suspended", "status": "False"}]},
        [],
    ),
    "success policy": ({**_INDEXED, "successPolicy": {}}, _stands("Complete"), _stands("Complete"), ["conditions"]),
    "met late": ({}, {**_RUN, **_stands("Complete")}, _COMPLETE, ["conditions"]),
    "more ready": ({}, {}, {"ready": 2, "active": 1}, ["ready"]),
    "below zero": ({}, {}, {"active": -1}, ["active"]),
    "indexes of others": ({}, {}, {"completedIndexes": "1", "failedIndexes": "1"}, ["completedIndexes", "failedIndexes"]),
    "indexes": (_INDEXED, {}, {"completedIndexes": "1,3-5,7", "failedIndexes": "2,8"}, []),
    "overlap": (_INDEXED, {}, {"completedIndexes": "1,3-5,7", "failedIndexes": "2,4-6"}, ["failedIndexes"]),
    "index twice": (_INDEXED, {}, {"completedIndexes": "1,1"}, ["completedIndexes"]),
    "three ends": (_INDEXED, {}, {"completedIndexes": "1-2-3"}, ["completedIndexes"]),
    "no number": (_INDEXED, {}, {"completedIndexes": "1,"}, ["completedIndexes"]),
    "another script's number": (_INDEXED, {}, {"completedIndexes": "٣"}, ["completedIndexes"]),
    "large number": (_INDEXED, {}, {"completedIndexes": "1" * 10_000}, ["completedIndexes"]),
    "large index": (_INDEXED, {}, {"failedIndexes": "9"}, ["failedIndexes"]),
    "backwards": (_INDEXED, {}, {"failedIndexes": "5-4"}, ["failedIndexes"]),
}


@pytest.mark.parametrize("name", STATUSES)
def test_status(name: str) -> None:
    spec, before, status, wanted = STATUSES[name]
    found = job_status_problems({"spec": spec, "status": status}, {"spec": spec, "status": before})
    assert sorted(each.field for each in found) == sorted(f"status.{path}" for path in wanted)
