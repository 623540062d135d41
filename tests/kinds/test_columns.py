"""Tables of the built-in kinds: tests/cases/kinds has objects, and the rows that kube-apiserver shows of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.kinds.columns import table
from aggserver.kinds.defaults import set_defaults
from aggserver.meta.times import parse_time
from aggserver.publish.table import encode_table
from aggserver.registry.own_kinds import conformer
from tests.cases.kind_objects import NOW, shown, tables, without_ages
from tests.kinds.written import written

TABLES = tables()
OBJECTS = {(type_name, name): obj for type_name, name, obj in shown()}
LATER = parse_time("2026-01-02T03:04:05Z")


def _shown(type_name: str, obj: dict[str, Any], now: float = LATER) -> dict[str, Any]:
    convertor = table(type_name)
    raw = json.dumps(obj, separators=(",", ":")).encode()
    shown_table: dict[str, Any] = json.loads(encode_table(convertor, [(convertor.row(obj, raw), raw)], "Metadata", {}, now))
    return shown_table


def _stored(type_name: str, obj: dict[str, Any]) -> dict[str, Any]:
    status, deleted = obj.get("status"), obj.pop("deleted", False)
    stored = written(type_name, obj)
    if status is not None:
        stored["status"] = status
        conformer(type_name)(stored)
        set_defaults(stored, type_name)
    stored["metadata"]["creationTimestamp"] = NOW
    if deleted:
        stored["metadata"]["deletionTimestamp"] = NOW
    return stored


@pytest.mark.parametrize(("type_name", "name"), OBJECTS)
def test_rows_are_upstreams(type_name: str, name: str) -> None:
    expected = TABLES[type_name]
    found = _shown(type_name, _stored(type_name, OBJECTS[type_name, name]))
    columns = [[each[key] for key in ("name", "type", "format", "priority")] for each in found["columnDefinitions"]]
    assert columns == expected["columns"]
    (row,) = found["rows"]
    assert without_ages(row["cells"], columns) == expected["rows"][name]["cells"]
    assert row.get("conditions") == expected["rows"][name].get("conditions")


# What controllers of the control plane change in their own time can't be compared with it.
QUOTA = {
    "hard": {"pods": "10", "limits.memory": "2Gi", "requests.cpu": "1500m", "limits.cpu": "4"},
    "used": {"pods": "3", "limits.cpu": "1"},
}
CONDITIONS = {
    "nothing is known": ([], "Unknown"),
    "available": ([{"type": "Available", "status": "True", "reason": "Passed"}], "True"),
    "no reason": ([{"type": "Available", "status": "False"}], "False"),
    "not available": (
        [{"type": "Other", "status": "True"}, {"type": "Available", "status": "False", "reason": "No"}],
        "False (No)",
    ),
}
SIGNED = {
    "pending": ({}, "Pending"),
    "approved": ({"conditions": [{"type": "Approved"}]}, "Approved"),
    "issued": ({"conditions": [{"type": "Approved"}], "certificate": "YQ=="}, "Approved,Issued"),
    "denied": ({"conditions": [{"type": "Approved"}, {"type": "Denied"}]}, "Denied"),
    "failed": ({"conditions": [{"type": "Approved"}, {"type": "Failed"}]}, "Approved,Failed"),
}


def _cells(type_name: str, obj: dict[str, Any], now: float = LATER) -> dict[str, Any]:
    found = _shown(type_name, {"metadata": {"name": "a", "creationTimestamp": NOW}, **obj}, now)
    return dict(zip((each["name"] for each in found["columnDefinitions"]), found["rows"][0]["cells"], strict=True))


def test_a_quota_shows_requests_and_limits() -> None:
    cells = _cells("core/v1.ResourceQuota", {"spec": {}, "status": QUOTA})
    assert cells["Request"] == "pods: 3/10, requests.cpu: 0/1500m"
    assert cells["Limit"] == "limits.cpu: 1/4, limits.memory: 0/2Gi"


@pytest.mark.parametrize(("conditions", "text"), CONDITIONS.values(), ids=CONDITIONS)
def test_an_api_service_shows_whether_it_is_available(conditions: list[dict[str, str]], text: str) -> None:
    cells = _cells(
        "apiregistration/v1.APIService",
        {"spec": {"service": {"namespace": "n", "name": "s"}}, "status": {"conditions": conditions}},
    )
    assert (cells["Service"], cells["Available"]) == ("n/s", text)


def test_an_api_service_of_the_server_itself_is_local() -> None:
    assert _cells("apiregistration/v1.APIService", {"spec": {}})["Service"] == "Local"


@pytest.mark.parametrize(("status", "text"), SIGNED.values(), ids=SIGNED)
def test_a_signing_request_shows_what_was_decided(status: dict[str, Any], text: str) -> None:
    assert _cells("certificates/v1.CertificateSigningRequest", {"spec": {}, "status": status})["Condition"] == text


def test_ages_are_those_at_the_request() -> None:
    ended = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T03:00:05Z"}}
    status = {"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": 3, "lastState": ended}]}
    pod = {"spec": {"containers": [{"name": "a"}]}, "status": status}
    assert _cells("core/v1.Pod", pod)["Restarts"] == "3 (4m ago)"
    assert _cells("core/v1.Pod", pod, LATER + 3600)["Restarts"] == "3 (64m ago)"
    event = {"involvedObject": {}, "lastTimestamp": "2026-01-02T03:04:00Z", "eventTime": "2026-01-02T03:03:05.000000Z"}
    cells = _cells("core/v1.Event", event)
    assert (cells["Last Seen"], cells["First Seen"]) == ("5s", "60s")
    assert _cells("batch/v1.Job", {"spec": {}, "status": {"startTime": "2026-01-02T03:04:00Z"}})["Duration"] == "5s"
