"""Rules (x-kubernetes-validations) in requests: what they keep out, what they warn of."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import definitions
from tests.fakes.asgi import Answer
from tests.fakes.server import LocalServer

GROUP = "stable.example.com"
BASE = f"/apis/{GROUP}/v1/namespaces/default/crontabs"
INTEGER = {"type": "integer"}
VALIDATIONS = "x-kubernetes-validations"
NOT_CHECKED = (
    "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def definition(rules: list[dict[str, Any]]) -> dict[str, Any]:
    """rules: of `.spec`, beside those of `.status`."""
    spec = {
        "type": "object",
        "properties": {"low": INTEGER, "high": {**INTEGER, "maximum": 9}, "list": {"type": "array", "items": INTEGER}},
        VALIDATIONS: rules,
    }
    status = {"type": "object", "properties": {"at": {**INTEGER, VALIDATIONS: [{"rule": "self >= oldSelf"}]}}}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    v1 = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    return definitions.definition("crontabs", "CronTab", v1)


ORDERED = {"rule": "self.low <= self.high", "message": "low is higher than high"}
LONG = {"rule": "self.list.all(a, self.list.all(b, a + b >= 0))"}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    local = LocalServer()
    await local.start()
    local.serve(definition([]))
    yield local
    await local.stop()


async def write(server: LocalServer, method: str, path: str, **members: Any) -> Answer:
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": "a"}, **members}
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    return await server.client().request(method, path, headers={"content-type": kind}, body=json.dumps(obj).encode())


async def test_create(server: LocalServer) -> None:
    server.serve(definition([ORDERED]))
    answer = await write(server, "POST", BASE, spec={"low": 2, "high": 1})
    assert answer.status == 422
    assert answer.message == 'CronTab.stable.example.com "a" is invalid: spec: Invalid value: low is higher than high'
    (cause,) = answer.json()["details"]["causes"]
    assert cause == {"reason": "FieldValueInvalid", "message": "Invalid value: low is higher than high", "field": "spec"}
    assert (await write(server, "POST", BASE, spec={"low": 1, "high": 2})).status == 201


async def test_other_errors_come_first(server: LocalServer) -> None:
    server.serve(definition([ORDERED]))
    answer = await write(server, "POST", BASE, spec={"low": 20, "high": 10})
    fields = [cause["field"] for cause in answer.json()["details"]["causes"]]
    assert fields == ["spec.high", "spec"]


async def test_a_wrong_type(server: LocalServer) -> None:
    server.serve(definition([ORDERED]))
    answer = await write(server, "POST", BASE, spec={"low": "x", "high": 1})
    assert answer.message.endswith(f", {NOT_CHECKED}]")


async def test_update(server: LocalServer) -> None:
    server.serve(definition([{"rule": "self.high >= oldSelf.high"}]))
    assert (await write(server, "POST", BASE, spec={"low": 2, "high": 5})).status == 201
    assert (await write(server, "PATCH", f"{BASE}/a", spec={"high": 6})).status == 200
    answer = await write(server, "PATCH", f"{BASE}/a", spec={"high": 5})
    assert answer.message.endswith("is invalid: spec: Invalid value: failed rule: self.high >= oldSelf.high")


async def test_what_was_so_before_is_warned_of(server: LocalServer) -> None:
    await write(server, "POST", BASE, spec={"low": 2, "high": 1})
    server.serve(definition([ORDERED]))
    answer = await write(server, "PATCH", f"{BASE}/a", metadata={"labels": {"x": "y"}})
    assert (answer.status, answer.warnings) == (200, ['299 - "spec: Invalid value: low is higher than high"'])
    refused = await write(server, "PATCH", f"{BASE}/a", spec={"low": 3})
    assert (refused.status, refused.warnings) == (422, [])


async def test_warnings_of_what_is_refused(server: LocalServer) -> None:
    await write(server, "POST", BASE, spec={"low": 2, "high": 1})
    server.serve(definition([ORDERED]))
    answer = await write(server, "PATCH", f"{BASE}/a", metadata={"labels": {"x": "no label!"}})
    assert (answer.status, answer.warnings) == (422, ['299 - "spec: Invalid value: low is higher than high"'])


async def test_status(server: LocalServer) -> None:
    await write(server, "POST", BASE, spec={"low": 2, "high": 1})
    server.serve(definition([ORDERED]))
    assert (await write(server, "PATCH", f"{BASE}/a/status", status={"at": 2})).status == 200
    answer = await write(server, "PATCH", f"{BASE}/a/status", status={"at": 1})
    # The whole object is looked at, and of the spec it is said that it is as wrong as before.
    assert answer.message.endswith("is invalid: status.at: Invalid value: 1: failed rule: self >= oldSelf")
    assert answer.warnings == ['299 - "spec: Invalid value: low is higher than high"']


async def test_rules_that_take_long(server: LocalServer) -> None:
    server.serve(definition([LONG]))
    assert (await write(server, "POST", BASE, spec={"list": [1] * 300})).status == 201


async def test_rules_that_take_too_long(server: LocalServer) -> None:
    server.serve(definition([LONG]))
    answer = await write(server, "POST", BASE, spec={"list": [1] * 1000})
    assert answer.message.endswith(
        f"no further validation rules will be run due to call cost exceeds limit for rule: {LONG['rule']}"
    )
