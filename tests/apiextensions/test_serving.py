"""What is served for a definition: versions, discovery, scopes, deprecation."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.serving import deprecation_warning
from aggserver.meta.resource import ResourceInfo
from tests.fakes.definitions import CRONTABS, GROUP, WIDGETS, definition, version
from tests.fakes.server import LocalServer


@pytest.fixture
def definitions(server: LocalServer) -> Definitions:
    return server.engine.definitions


# --- discovery ---


def test_versions_that_are_served(definitions: Definitions) -> None:
    resource = definitions.set(parse(CRONTABS))
    assert [served.info.version for served in resource.versions] == ["v1", "v1beta1"]


def test_discovery(definitions: Definitions) -> None:
    first, second = (served.resource for served in definitions.set(parse(CRONTABS)).versions)
    assert first.info == ResourceInfo(GROUP, "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
    assert (first.singular, first.short_names) == ("crontab", ("ct",))
    assert first.verbs == ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
    assert [(sub.name, sub.kind) for sub in first.subresources] == [("status", "CronTab"), ("scale", "Scale")]
    assert second.subresources == ()
    # Of the version that objects are stored in, so that clients see where they are the same.
    assert first.storage_version_hash == second.storage_version_hash != ""


def test_scopes_are_made_once(definitions: Definitions) -> None:
    first, second = definitions.set(parse(CRONTABS)).versions
    assert first.scope("") is first.scope("")
    assert first.scope("other") is second.scope("scale") is second.scope("status") is None
    scale = first.scope("scale")
    assert scale is not None
    assert (scale.kind, scale.object_version) == ("Scale", "autoscaling/v1")
    whole = first.scope("")
    assert whole is not None
    assert (whole.kind, whole.info.api_version, whole.object_version) == ("CronTab", f"{GROUP}/v1", f"{GROUP}/v1")
    assert whole.selectable_fields == {"spec.image"}


def test_published(definitions: Definitions) -> None:
    first, second = (served.published for served in definitions.set(parse(CRONTABS)).versions)
    assert [each.name for each in first.resource.subresources] == ["status", "scale"]
    assert second.resource.subresources == ()
    assert first.schema == CRONTABS["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


DEPRECATIONS: dict[str, tuple[list[dict[str, Any]], str]] = {
    # name: (versions, the first one's warning)
    "not at all": ([version("v1", {})], ""),
    "the only one": ([version("v1", {}, deprecated=True)], "stable.example.com/v1 Foo is deprecated"),
    "there is a newer one": (
        [version("v1", {}, deprecated=True), version("v2beta1", {}), version("v2", {}), version("v3", {}, served=False)],
        "stable.example.com/v1 Foo is deprecated; use stable.example.com/v2 Foo",
    ),
    "the newer one is deprecated": (
        [version("v1beta1", {}, deprecated=True), version("v1", {}, deprecated=True)],
        "stable.example.com/v1beta1 Foo is deprecated",
    ),
    "the other one is older": (
        [version("v2", {}, deprecated=True), version("v1", {})],
        "stable.example.com/v2 Foo is deprecated",
    ),
    "in its own words": ([version("v1", {}, deprecated=True, deprecationWarning="stop it")], "stop it"),
}


@pytest.mark.parametrize("name", DEPRECATIONS)
def test_deprecation(name: str) -> None:
    versions, warning = DEPRECATIONS[name]
    found = parse(definition("foos", "Foo", *versions))
    assert deprecation_warning(found, found.versions[0]) == warning


# --- conform ---


CONFORMED: dict[str, tuple[Any, Any, list[str]]] = {
    # name: (object, what is left of it, what was dropped)
    "known": ({"spec": {"size": 1}}, {"spec": {"size": 1}}, []),
    "unknown": ({"odd": 1, "spec": {"size": 1, "x": {}}}, {"spec": {"size": 1}}, ["odd", "spec.x"]),
    "in metadata": ({"metadata": {"name": "a", "odd": 1}}, {"metadata": {"name": "a"}}, ["metadata.odd"]),
    "no version": ({"apiVersion": f"{GROUP}/v9", "spec": {}}, {"apiVersion": f"{GROUP}/v9"}, ["spec"]),
    "other group": ({"apiVersion": "other/v1", "odd": 1}, {"apiVersion": "other/v1", "odd": 1}, []),
    "other kind": ({"kind": "Other", "metadata": {"odd": 1}}, {"kind": "Other"}, ["metadata.odd"]),
}


@pytest.mark.parametrize("name", CONFORMED)
def test_conform(definitions: Definitions, name: str) -> None:
    given, wanted, dropped = CONFORMED[name]
    scope = definitions.set(parse(WIDGETS)).versions[0].scope("")
    assert scope is not None
    kept = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {}}
    obj = {**kept, **copy.deepcopy(given)}
    assert scope.conform(obj) == dropped
    assert obj == {**kept, **wanted}


def test_defaults(definitions: Definitions) -> None:
    crd = definition(
        "foos", "Foo", version("v1", {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}})
    )
    scope = definitions.set(parse(crd)).versions[0].scope("")
    assert scope is not None
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "Foo", "metadata": {}, "spec": {}}
    assert scope.conform(obj) == []
    assert obj["spec"] == {"n": 3}


def _with_default(value: str) -> dict[str, Any]:
    """Properties of a spec and a status with defaults."""
    kept = {"type": "string", **({"default": value} if value else {})}
    status = {"type": "object", "default": {"seen": -1}, "properties": {"seen": {"type": "integer"}}}
    return {"spec": {"type": "object", "properties": {"kept": kept}}, "status": status}


@pytest.mark.parametrize("name", ["v1", "v2"])
@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_writes_are_answered_with_the_defaults_of_what_is_stored(server: LocalServer, name: str, query: str) -> None:
    """A status that is not taken has its default, and what is stored in v1 has those of v1."""
    versions = [version(each, _with_default(value), subresources={"status": {}}) for each, value in (("v1", "x"), ("v2", ""))]
    server.serve(definition("foos", "Foo", *versions))
    where = f"/apis/{GROUP}/{name}/namespaces/default/foos"
    body = {"apiVersion": f"{GROUP}/{name}", "kind": "Foo", "metadata": {"name": "a"}, "spec": {}, "status": {"seen": 5}}
    answers = [await server.client().request("POST", f"{where}{query}", body=json.dumps(body).encode())]
    if not query:
        answers.append(await server.client().request("GET", f"{where}/a"))
    found = [answer.json() for answer in answers]
    assert [(obj["spec"], obj["status"]) for obj in found] == [({"kept": "x"}, {"seen": -1})] * len(answers)


async def test_a_scale_shows_the_defaults_of_what_it_adds(server: LocalServer) -> None:
    scale = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    members = {"replicas": {"type": "integer"}, "kept": {"type": "string", "default": "x"}}
    server.serve(
        definition("foos", "Foo", version("v1", {"spec": {"type": "object", "properties": members}}, subresources=scale))
    )
    client, where = server.client(), f"/apis/{GROUP}/v1/namespaces/default/foos"
    obj = {"apiVersion": f"{GROUP}/v1", "kind": "Foo", "metadata": {"name": "a"}}
    await client.request("POST", where, body=json.dumps(obj).encode())
    written = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}}
    answer = await client.request("PUT", f"{where}/a/scale", body=json.dumps(written).encode())
    assert answer.status == 200
    assert (await client.request("GET", f"{where}/a")).json()["spec"] == {"replicas": 2, "kept": "x"}


async def test_an_embedded_resource_that_the_stored_version_can_not_decode(server: LocalServer) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        version("v1", {"spec": {**anything, "x-kubernetes-embedded-resource": True}}),
        version("v2", {"spec": anything}),
    ]
    server.serve(definition("foos", "Foo", *versions))
    obj = {"apiVersion": f"{GROUP}/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"kind": "X", "apiVersion": None}}
    where = f"/apis/{GROUP}/v2/namespaces/default/foos"
    answer = await server.client().request("POST", where, body=json.dumps(obj).encode())
    assert answer.status == 500
    assert answer.json()["message"] == "spec.apiVersion: Invalid value: null: must be a string"


async def test_an_apply_that_changes_nothing_adds_no_defaults(server: LocalServer) -> None:
    """What is stored in v1 never has the field that v2 has a default for."""
    size = {"size": {"type": "integer"}}
    versions = [
        version("v1", {"spec": {"type": "object", "properties": size}}),
        version("v2", {"spec": {"type": "object", "properties": size | {"kept": {"type": "string", "default": "x"}}}}),
    ]
    server.serve(definition("foos", "Foo", *versions))
    config = {"apiVersion": f"{GROUP}/v2", "kind": "Foo", "metadata": {"name": "a"}, "spec": {"size": 1}}
    where = f"/apis/{GROUP}/v2/namespaces/default/foos/a?fieldManager=m"
    kind = "application/apply-patch+yaml"
    answers = [await server.client().request("PATCH", where, json.dumps(config).encode(), content_type=kind) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
