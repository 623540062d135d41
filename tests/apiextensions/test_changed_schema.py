"""Objects from before their definition changed: read as the new schema has them, and written so by the next write."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admission.chain import Chain
from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.marks import Marks
from aggserver.apiextensions.serving import DefinitionResource
from aggserver.registry.gate import Gate
from tests.fakes import definitions
from tests.fakes.server import LocalServer

GROUP = "stable.example.com"
BASE = f"/apis/{GROUP}/v1/namespaces/default/crontabs"
STRING = {"type": "string"}


def definition(spec: dict[str, Any], *more: dict[str, Any], **version: Any) -> dict[str, Any]:
    """spec: properties of v1's; more: further versions."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    v1 = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}} | version
    return definitions.definition("crontabs", "CronTab", v1, *more)


OLD = definition({"cron": STRING, "old": STRING, "replicas": {"type": "integer"}})
NEW = definition({"cron": STRING, "color": {**STRING, "default": "red"}, "replicas": {"type": "string"}})
SPEC = {"cron": "*", "old": "x", "replicas": 1}
READ = {"cron": "*", "replicas": 1, "color": "red"}


def crontab(name: str, spec: Any, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": name, **metadata}, "spec": copy.deepcopy(spec)}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    local = LocalServer()
    await local.start()
    local.serve(OLD)
    for name in ("a", "b"):
        await ask(local, "POST", BASE, crontab(name, SPEC))
    yield local
    await local.stop()


async def ask(server: LocalServer, method: str, target: str, body: Any = None, status: int = 0) -> Any:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await server.client().request(method, target, body=body, content_type=kind)
    assert answer.status in ((status,) if status else (200, 201)), answer.body
    return answer.json()


async def kept(server: LocalServer, name: str = "a") -> Any:
    return await server.storage.get(f"/{GROUP}/crontabs/default/{name}")


async def test_reads(server: LocalServer) -> None:
    before = await ask(server, "GET", f"{BASE}/a")
    server.serve(NEW)
    got = await ask(server, "GET", f"{BASE}/a")
    assert (got["spec"], got["metadata"]) == (READ, before["metadata"])
    listed = await ask(server, "GET", BASE)
    assert [item["spec"] for item in listed["items"]] == [READ, READ]
    raw = b'"spec":{"cron":"*","old":"x","replicas":1}'
    assert raw in (await kept(server)).value  # only a write changes what is stored
    server.serve(OLD)
    assert (await ask(server, "GET", f"{BASE}/a"))["spec"] == SPEC


async def test_an_unchanged_schema_is_compiled_once(server: LocalServer) -> None:
    shared: Any = {"marks": Marks(server.storage), "gate": Gate()}
    first = DefinitionResource(server.environment, Chain(), parse(OLD), **shared)
    compiled = first.schema(first.definition.storage_version)
    labelled = {**OLD, "metadata": {**OLD["metadata"], "labels": {"a": "b"}}}
    for crd, same in ((labelled, True), (NEW, False)):
        second = DefinitionResource(server.environment, Chain(), parse(crd), **shared, replacing=first)
        assert (second.schema(second.definition.storage_version) is compiled) is same


async def test_watch(server: LocalServer) -> None:
    server.serve(NEW)
    exchange = server.client().send("GET", f"{BASE}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    await exchange.start()
    assert [event["object"]["spec"] for event in await exchange.events(2)] == [READ, READ]
    await ask(server, "PATCH", f"{BASE}/a", {"spec": {"cron": "new"}})
    await ask(server, "DELETE", f"{BASE}/b")
    changed, deleted = await exchange.events(2)
    assert (changed["type"], changed["object"]["spec"]) == ("MODIFIED", {**READ, "cron": "new"})
    assert (deleted["type"], deleted["object"]["spec"]) == ("DELETED", READ)
    exchange.disconnect()


async def test_a_write_that_changes_nothing_migrates(server: LocalServer) -> None:
    server.serve(NEW)
    got = await ask(server, "GET", f"{BASE}/a")
    written = await ask(server, "PUT", f"{BASE}/a", got)
    assert written["metadata"]["resourceVersion"] != got["metadata"]["resourceVersion"]
    assert written["metadata"]["generation"] == 1
    assert b'"spec":{"cron":"*","replicas":1,"color":"red"}' in (await kept(server)).value
    again = await ask(server, "PUT", f"{BASE}/a", written)
    assert again["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


async def test_what_became_invalid_can_stay_so(server: LocalServer) -> None:
    server.serve(NEW)
    assert (await ask(server, "PATCH", f"{BASE}/a", {"spec": {"cron": "new"}}))["spec"]["replicas"] == 1
    refused = await ask(server, "PATCH", f"{BASE}/a", {"spec": {"replicas": 2}}, status=422)
    assert refused["message"] == (
        f'CronTab.{GROUP} "a" is invalid: spec.replicas: Invalid value: "integer": '
        'spec.replicas in body must be of type string: "integer"'
    )


async def test_selectable_fields_have_the_defaults(server: LocalServer) -> None:
    properties = NEW["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    server.serve(definition(properties, selectableFields=[{"jsonPath": ".spec.color"}]))
    found = await ask(server, "GET", f"{BASE}?fieldSelector=spec.color%3Dred")
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b"]


async def test_another_version_is_read_through_the_stored_one(server: LocalServer) -> None:
    v2 = {"name": "v2", "served": True, "storage": False}
    v2["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {}}}}}
    v2["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = {
        "old": STRING,
        "color": STRING,
        "size": {**STRING, "default": "big"},
    }
    server.serve(definition(NEW["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"], v2))
    # What v1 doesn't know is gone before v2 is asked; defaults are those of the version that is stored.
    assert (await ask(server, "GET", f"{BASE.replace('v1', 'v2')}/a"))["spec"] == {"color": "red"}


async def test_what_can_not_be_decoded_is_dropped(server: LocalServer) -> None:
    template = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    found = await kept(server)
    odd = found.value.replace(b'"generation":1,', b'"labels":{"a":1},').replace(
        b'"old":"x"', b'"template":{"kind":1,"metadata":{"labels":[],"name":"t"}}'
    )
    await server.storage.update(found.key, odd, found.revision)
    server.serve(definition({"template": template}))
    got = await ask(server, "GET", f"{BASE}/a")
    assert got["spec"] == {"template": {"metadata": {"name": "t"}}}
    assert got["metadata"]["generation"] == 1
    assert "labels" not in got["metadata"]
