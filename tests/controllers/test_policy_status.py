"""The status of policies. `tests/integration/test_same_policy_status.py` has what kube-controller-manager writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admissionregistration.served import registration_kinds, registration_stores
from aggserver.controllers.policy_status import PolicyStatusController
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS
from tests.fakes.server import LocalServer

PATH = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> AsyncIterator[None]:
    server.serve(CRONTABS)
    stores = registration_stores(server.environment)
    server.engine.installer.install([("registrations", registration_kinds(stores, server.engine.admission))])
    controller = PolicyStatusController(stores["validatingadmissionpolicies"], server.engine.installer, server.timers.call_later)
    task = asyncio.create_task(controller.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for store in stores.values():
        store.end_watches()


async def checked(client: Client, expression: str, resource: str = "crontabs", **rule: Any) -> Any:
    """The status of a policy with this expression, once it is there."""
    version = CRONTABS["spec"]["versions"][0]["name"]
    rules = [
        {"apiGroups": [CRONTABS["spec"]["group"]], "apiVersions": [version], "resources": [resource], "operations": ["*"], **rule}
    ]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": expression}]}
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "spec": spec}
    answer = await client.post(PATH, {**policy, "metadata": {"name": "p"}})
    assert answer.status == 201, answer.body

    for _ in range(1000):
        status = (await client.get(f"{PATH}/p")).json()["status"]
        if status:
            return status
        await asyncio.to_thread(int)  # the controller checks in a thread
    raise AssertionError("the policy is not checked")


FITTING = {"observedGeneration": 1, "typeChecking": {}}


async def test_a_policy_that_fits(client: Client) -> None:
    assert await checked(client, "object.metadata.labels['a'] == 'b'") == FITTING


async def test_a_policy_that_does_not_fit(client: Client) -> None:
    status = await checked(client, "object.metadata.name == 1")
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert (
        "Kind=CronTab: ERROR: <input>:1:22: found no matching overload for '_==_' applied to '(string, int)'"
        in warning["warning"]
    )


async def test_a_resource_in_singular_and_without_a_group(client: Client) -> None:
    status = await checked(client, "object.metadata.name == 1", resource="crontab", apiGroups=[""])
    assert "expressionWarnings" in status["typeChecking"]


async def test_a_resource_that_is_not_there(client: Client) -> None:
    rule = {"apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"]}
    assert await checked(client, "object.metadata.name == 1", resource="boats", **rule) == FITTING


@pytest.mark.parametrize(
    ("group", "resource", "expression", "told"),
    [
        ("admissionregistration", "validatingadmissionpolicies", "object.spec.failurePolicy == 1", "applied to '(string, int)'"),
        ("admissionregistration", "validatingadmissionpolicies", "object.metadata.generation == 1", ""),
        # A type within itself is an object without fields.
        (
            "apiextensions",
            "customresourcedefinitions",
            "object.spec.versions[0].schema.openAPIV3Schema.type == 1",
            "(string, int)",
        ),
        ("apiextensions", "customresourcedefinitions", "object.spec.versions[0].schema.openAPIV3Schema.not.type == 1", "'type'"),
    ],
)
async def test_built_in_kinds(client: Client, group: str, resource: str, expression: str, told: str) -> None:
    status = await checked(client, expression, resource=resource, apiGroups=[f"{group}.k8s.io"], apiVersions=["v1"])
    warnings = status["typeChecking"].get("expressionWarnings", [])
    assert [told in each["warning"] for each in warnings] == ([True] if told else [])
