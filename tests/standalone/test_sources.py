"""The rules and params of a server without a cluster: as they are stored, changed and removed."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from aggserver.admission.sources import Collection
from aggserver.admissionregistration.served import registration_stores
from aggserver.informers.informer import CONTROLLER, Informer
from aggserver.informers.kept_up import kept_up
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.standalone.sources import OwnParams, OwnSources, own_kinds
from tests.fakes.clock import until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, crontab
from tests.fakes.server import LocalServer

BINDING = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "spec": {"policyName": "p", "validationActions": ["Deny"]},
}
V1 = "stable.example.com/v1"


def binding(name: str) -> dict[str, Any]:
    return {**BINDING, "metadata": {"name": name}}


def naming(api_version: str, kind: str) -> Collection:
    """Policies with such params."""
    policies = Collection()
    policies.put({"metadata": {"name": "p"}, "spec": {"paramKind": {"apiVersion": api_version, "kind": kind}}})
    return policies


async def test_rules_are_known_from_before_the_start_and_followed(server: LocalServer) -> None:
    stores = registration_stores(server.environment)
    store, context = stores["validatingadmissionpolicybindings"], Context(CONTROLLER)
    await store.create(WriteRequest(context, WriteOptions()), binding("before"))
    sources = OwnSources(stores)
    task = asyncio.create_task(sources.run())
    await sources.known()
    bindings = sources.rules.validating_policy_bindings
    assert bindings.get("", "before")
    await store.create(WriteRequest(context, WriteOptions()), binding("later"))
    await until(lambda: bindings.get("", "later"))
    await store.delete(context, "before", DeleteOptions())
    await until(lambda: len(bindings) == 1)
    assert [len(each) for each in (sources.rules.validating_policies, sources.rules.mutating_webhooks)] == [0, 0]
    task.cancel()
    for each in stores.values():
        each.end_watches()


async def test_params_are_followed_from_the_first_request(server: LocalServer) -> None:
    server.serve(CRONTABS)
    client = server.client()
    await client.post(CRONTABS_PATH, crontab("one"))
    params = OwnParams(server.engine.installer, [naming(V1, "CronTab")])
    found = await params.find(V1, "CronTab")
    assert found is not None
    assert (found.is_known, found.namespaced) == (True, True)
    assert found.get("default", "one")
    await client.post(CRONTABS_PATH, crontab("two"))
    await until(lambda: found.get("default", "two"))
    await client.delete(f"{CRONTABS_PATH}/one")
    await until(lambda: not found.get("default", "one"))
    assert await params.find(V1, "CronTab") is found
    params.stop()


async def test_params_of_any_kind(server: LocalServer) -> None:
    server.serve(WIDGETS)
    params = OwnParams(server.engine.installer, [])
    namespaces = await params.find("v1", "Namespace")
    assert namespaces is not None
    assert not namespaces.namespaced
    assert namespaces.get("", "default")
    widgets = await params.find(V1, "Widget")
    assert widgets is not None
    assert not widgets.namespaced
    assert await params.find(V1, "CronTab") is None
    assert await params.find("authentication.k8s.io/v1", "SelfSubjectReview") is None
    params.stop()


async def test_params_are_followed_again_after_an_error(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(seconds: float) -> None:
        await sleep(0)

    sleep = asyncio.sleep
    run, runs = Informer.run, list[str]()

    async def failing(informer: Informer) -> None:
        runs.append("started")
        if len(runs) == 1:
            raise ValueError("no")
        await run(informer)

    monkeypatch.setattr(Informer, "run", failing)
    defaults = (kept_up.__kwdefaults__ or {}) | {"sleep": at_once, "clock": lambda: 0.0}
    monkeypatch.setattr(kept_up, "__kwdefaults__", defaults)
    server.serve(CRONTABS)
    await server.client().post(CRONTABS_PATH, crontab("one"))
    params = OwnParams(server.engine.installer, [naming(V1, "CronTab")])
    found = await params.find(V1, "CronTab")
    assert found is not None
    assert found.get("default", "one")
    assert len(runs) == 2
    params.stop()


async def test_params_follow_the_definition_of_their_kind(server: LocalServer) -> None:
    server.serve(CRONTABS)
    params = OwnParams(server.engine.installer, [naming(V1, "CronTab"), naming("v1", "Namespace")])
    first = await params.find(V1, "CronTab")
    others = await params.find("v1", "Namespace")
    changed = copy.deepcopy(CRONTABS)
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["note"] = {"type": "string"}
    server.serve(changed)
    second = await params.find(V1, "CronTab")
    assert second is not None
    assert second is not first
    assert await params.find("v1", "Namespace") is others
    params.stop()


async def test_params_that_no_policy_names_are_dropped(server: LocalServer) -> None:
    server.serve(CRONTABS)
    policies = naming(V1, "CronTab")
    params = OwnParams(server.engine.installer, [policies])
    first = await params.find(V1, "CronTab")
    policies.remove("", "p")
    await params.find("v1", "Namespace")
    assert await params.find(V1, "CronTab") is not first
    params.stop()


async def test_resources_of_a_kind(server: LocalServer) -> None:
    server.serve(CRONTABS)
    (found,) = await own_kinds(server.engine.installer, V1, "CronTab")
    assert (found.group, found.version, found.resource, found.namespaced) == ("stable.example.com", "v1", "crontabs", True)
    with pytest.raises(LookupError, match=r'^no matches for kind "Ghost" in version "v1"$'):
        await own_kinds(server.engine.installer, "v1", "Ghost")
