"""Definitions through the server's own API, from creation to the end, with the controller at work."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.asgi import Answer, Client
from tests.fakes.clock import settled, until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, definition, version, widget
from tests.fakes.server import LocalServer, gone

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"crontabs.{GROUP}"
ONE = f"{CRDS}/{NAME}"
LOOK_AGAIN = 0.5


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> None:
    server.run()


def condition(crd: Any, type_: str) -> tuple[str, str]:
    found = next((entry for entry in crd["status"]["conditions"] if entry["type"] == type_), {})
    return found.get("status", ""), found.get("reason", "")


async def establish(server: LocalServer, client: Client, crd: Any) -> Any:
    answer = await client.post(CRDS, crd)
    assert answer.status == 201, answer.body
    name = crd["metadata"]["name"]
    assert await server.controller.settled([name]) == {}
    return (await client.get(f"{CRDS}/{name}")).json()


# --- being established ---


async def test_create(client: Client) -> None:
    given = copy.deepcopy(CRONTABS)
    del given["spec"]["names"]["singular"], given["spec"]["names"]["listKind"]
    given["status"] = {"storedVersions": ["v9"]}
    made = (await client.post(CRDS, given)).json()
    assert made["spec"]["names"] == CRONTABS["spec"]["names"]
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}


async def test_established_and_served(server: LocalServer, client: Client) -> None:
    crd = await establish(server, client, CRONTABS)
    assert condition(crd, "NamesAccepted") == ("True", "NoConflicts")
    assert condition(crd, "Established") == ("True", "InitialNamesAccepted")
    assert crd["status"]["acceptedNames"] == CRONTABS["spec"]["names"]
    assert crd["status"]["storedVersions"] == ["v1"]
    assert (await client.post(CRONTABS_PATH, crontab())).status == 201
    assert (await client.get(CRONTABS_PATH.replace("/v1/", "/v1beta1/"))).status == 200
    resources = (await client.get(f"/apis/{GROUP}/v1")).json()["resources"]
    assert [resource["name"] for resource in resources] == ["crontabs", "crontabs/status", "crontabs/scale"]


async def test_one_write_settles_it(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    before = (await client.get(ONE)).json()["metadata"]["resourceVersion"]
    await settled()
    assert (await client.get(ONE)).json()["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
async def test_both_forms_of_a_manifest(server: LocalServer, client: Client, content_type: str) -> None:
    answer = await client.post(CRDS, CRONTABS, content_type=content_type)
    assert answer.status == 201


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    # name: (change of the spec, code, what the message has)
    "a type that is wrong": (
        {"versions": {}},
        400,
        "cannot unmarshal object into Go struct field CustomResourceDefinitionSpec.spec.versions of type",
    ),
    "no spec at all": ({"group": None, "names": None, "scope": None, "versions": None}, 422, "spec.group: Required value"),
    "another group than the name says": ({"group": "other.example.com"}, 422, "metadata.name: Invalid value"),
    "a scope that is none": ({"scope": "Some"}, 422, 'spec.scope: Unsupported value: "Some"'),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    change, code, message = REFUSED[name]
    answer = await client.post(CRDS, {**CRONTABS, "spec": {**CRONTABS["spec"], **change}})
    assert (answer.status, message in answer.message) == (code, True), answer.message


async def test_another_kind(client: Client) -> None:
    answer = await client.post(CRDS, {**CRONTABS, "kind": "Job"})
    assert answer.status == 400
    assert answer.message.startswith('Job in version "apiextensions.k8s.io/v1" cannot be handled as a CustomResourceDefinition')


async def test_unknown_fields(client: Client) -> None:
    odd = {**CRONTABS, "odd": 1, "spec": {**CRONTABS["spec"], "strange": None}}
    answer = await client.post(f"{CRDS}?fieldValidation=Strict", odd)
    assert (answer.status, 'unknown field "odd"' in answer.message) == (400, True)
    answer = await client.post(CRDS, odd)
    assert answer.status == 201
    assert 'unknown field \\"spec.strange\\"' in " ".join(answer.warnings)
    assert "odd" not in answer.json()


# --- changes ---


async def test_a_changed_definition_is_served_changed(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())

    def changed(crd: Any) -> None:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] = {"type": "string"}

    answer = await edit(client, changed)
    assert (answer.status, answer.json()["metadata"]["generation"]) == (200, 2)
    await settled()
    answer = await client.merge(f"{CRONTABS_PATH}/one", {"spec": {"color": "red"}})
    assert (answer.json()["spec"]["color"], answer.warnings) == ("red", [])


async def edit(client: Client, change: Callable[[Any], None], path: str = ONE) -> Answer:
    crd = (await client.get(path)).json()
    change(crd)
    return await client.put(path, crd)


async def test_a_new_storage_version(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())

    def changed(crd: Any) -> None:
        first, second, *_ = crd["spec"]["versions"]
        first["storage"], second["storage"] = False, True

    assert (await edit(client, changed)).json()["status"]["storedVersions"] == ["v1", "v1beta1"]
    await settled()
    assert (await client.get(f"{CRONTABS_PATH}/one")).status == 200
    answer = await client.merge(f"{ONE}/status", {"status": {"storedVersions": ["v1beta1"]}})
    assert answer.json()["status"]["storedVersions"] == ["v1beta1"]


@pytest.mark.parametrize("stored", [[], None], ids=["empty", "null"])
async def test_stored_versions_are_never_none(server: LocalServer, client: Client, stored: Any) -> None:
    await establish(server, client, CRONTABS)
    before = (await client.get(ONE)).json()["metadata"]["resourceVersion"]
    answer = await client.merge(f"{ONE}/status", {"status": {"storedVersions": stored}})
    assert answer.json()["status"]["storedVersions"] == ["v1"]
    assert answer.json()["metadata"]["resourceVersion"] == before


async def test_the_status_keeps_the_spec(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    answer = await client.merge(f"{ONE}/status", {"spec": {"scope": "Cluster"}, "metadata": {"labels": {"a": "b"}}})
    assert answer.json()["spec"]["scope"] == "Namespaced"
    assert answer.json()["metadata"]["labels"] == {"a": "b"}
    assert answer.json()["metadata"]["generation"] == 1


async def test_what_may_not_change(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    answer = await client.merge(ONE, {"spec": {"scope": "Cluster"}})
    assert (answer.status, "spec.scope: Invalid value" in answer.message) == (422, True)


# --- names ---


RIVAL = definition("tabs", "CronTab", version("v1", {}))


async def test_names_that_are_taken(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRDS, RIVAL)
    name = RIVAL["metadata"]["name"]
    assert await server.controller.settled([name]) == {name: '"CronTabList" is already in use'}
    crd = (await client.get(f"{CRDS}/{name}")).json()
    assert condition(crd, "NamesAccepted") == ("False", "ListKindConflict")
    assert condition(crd, "Established") == ("False", "NotAccepted")
    assert (await client.get(f"/apis/{GROUP}/v1/tabs")).status == 404


async def test_two_at_once(server: LocalServer, client: Client) -> None:
    """Both are there before the controller looks at either."""
    for crd in (CRONTABS, RIVAL):
        await client.post(CRDS, crd)
    refused = await server.controller.settled([CRONTABS["metadata"]["name"], RIVAL["metadata"]["name"]])
    assert list(refused) == [RIVAL["metadata"]["name"]]


async def test_names_that_are_given_up(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRDS, RIVAL)
    await server.controller.settled([RIVAL["metadata"]["name"]])
    await client.delete(ONE)
    await gone(client, ONE)
    await until(lambda: server.engine.definitions.get(RIVAL["metadata"]["name"]))
    assert (await client.get(f"/apis/{GROUP}/v1/tabs")).status == 200


# --- the end ---


async def test_delete(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())
    answer = await client.delete(ONE)
    assert answer.status == 200
    marked = answer.json()
    assert "deletionTimestamp" in marked["metadata"]
    assert marked["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert condition(marked, "Terminating") == ("True", "InstanceDeletionPending")
    await gone(client, ONE)
    answer = await client.get(CRONTABS_PATH)
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert (await client.get(f"/apis/{GROUP}")).status == 404


async def test_deleted_what_never_was_established(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRDS, RIVAL)
    await server.controller.settled([RIVAL["metadata"]["name"]])
    await client.delete(f"{CRDS}/{RIVAL['metadata']['name']}")
    await gone(client, f"{CRDS}/{RIVAL['metadata']['name']}")
    assert (await client.get(CRONTABS_PATH)).status == 200


async def test_watches_end_with_the_definition(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())
    async with client.watch(f"{CRONTABS_PATH}?watch=1") as watch:
        await watch.event()
        await client.delete(ONE)
        assert [event["type"] for event in await watch.rest()] == ["DELETED"]


async def test_objects_with_finalizers_hold_it_up(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    obj = crontab()
    obj["metadata"]["finalizers"] = ["example.com/x"]
    await client.post(CRONTABS_PATH, obj)
    await client.delete(ONE)
    await until(lambda: LOOK_AGAIN in server.timers.seconds)
    crd = (await client.get(ONE)).json()
    assert condition(crd, "Terminating") == ("True", "InstanceDeletionInProgress")
    assert "deletionTimestamp" in (await client.get(f"{CRONTABS_PATH}/one")).json()["metadata"]
    refused = await client.post(CRONTABS_PATH, crontab("two"))
    assert (refused.status, refused.json()["reason"]) == (403, "Forbidden")
    assert "create not allowed while custom resource definition is terminating" in refused.message
    (resource, *_) = (await client.get(f"/apis/{GROUP}/v1")).json()["resources"]
    assert resource["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]
    await client.merge(f"{CRONTABS_PATH}/one", {"metadata": {"finalizers": None}})
    server.timers.fire(LOOK_AGAIN)
    await gone(client, ONE)
    assert server.timers.pending == []


UNREADABLE = {
    "its bytes": (b"this is no JSON", "invalid character 'h' in literal true (expecting 'r')"),
    "its embedded resource": (
        b'{"apiVersion":"stable.example.com/v1","kind":"Pod","metadata":{"name":"x"},"spec":{"template":{"metadata":"x"}}}',
        'spec.template.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta',
    ),
}
_TEMPLATE = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
EMBEDDING = definition("pods", "Pod", version("v1", {"spec": {"type": "object", "properties": {"template": _TEMPLATE}}}))


@pytest.mark.parametrize("what", UNREADABLE)
async def test_objects_that_cannot_be_read_hold_it_up(what: str, server: LocalServer, client: Client) -> None:
    """As upstream, which says so in the condition; but here what can be deleted is."""
    await establish(server, client, EMBEDDING)
    name, path = f"pods.{GROUP}", f"/apis/{GROUP}/v1/namespaces/default/pods"
    made = {"apiVersion": f"{GROUP}/v1", "kind": "Pod", "metadata": {"name": "good"}}
    assert (await client.post(path, made)).status == 201
    value, why = UNREADABLE[what]
    revision = await server.storage.create(f"/{GROUP}/pods/default/x", value)
    await client.delete(f"{CRDS}/{name}")
    await until(lambda: bool(server.timers.seconds))
    await settled()
    crd = (await client.get(f"{CRDS}/{name}")).json()
    assert condition(crd, "Terminating") == ("True", "InstanceDeletionFailed")
    assert next(entry["message"] for entry in crd["status"]["conditions"] if entry["type"] == "Terminating") == (
        f"could not list instances: /{GROUP}/pods/default/x at revision {revision} can't be read: {why}"
    )
    assert (await client.get(f"{path}/good")).status == 404
    removed = await client.delete(f"{path}/x?ignoreStoreReadErrorWithClusterBreakingPotential=true")
    assert removed.status == 200, removed.body
    server.timers.fire(server.timers.seconds[0])
    await gone(client, f"{CRDS}/{name}")


async def test_recreated_it_is_empty(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())
    await client.delete(ONE)
    await gone(client, ONE)
    await establish(server, client, CRONTABS)
    assert (await client.get(CRONTABS_PATH)).json()["items"] == []
    assert (await client.post(CRONTABS_PATH, crontab())).status == 201


async def test_finalizers_of_others_keep_the_definition(server: LocalServer, client: Client) -> None:
    await establish(server, client, WIDGETS)
    await client.post(WIDGETS_PATH, widget())
    path = f"{CRDS}/{WIDGETS['metadata']['name']}"
    await client.merge(path, {"metadata": {"finalizers": ["example.com/x"]}})
    await client.delete(path)

    async def emptied() -> bool:
        return (await client.get(path)).json()["metadata"]["finalizers"] == ["example.com/x"]

    for _ in range(100):
        if await emptied():
            break
        await settled()
    crd = (await client.get(path)).json()
    assert condition(crd, "Terminating") == ("False", "InstanceDeletionCompleted")
    await client.merge(path, {"metadata": {"finalizers": None}})
    await gone(client, path)


# --- the start ---


async def test_a_definition_that_cannot_be_read_keeps_no_other_from_being_served(server: LocalServer, client: Client) -> None:
    await server.storage.create(f"/apiextensions.k8s.io/customresourcedefinitions/pods.{GROUP}", b"this is no JSON")
    await establish(server, client, WIDGETS)
    assert (await client.post(WIDGETS_PATH, widget())).status == 201
    assert (await client.get(CRDS)).json()["reason"] == "StorageReadError"
    again = LocalServer(server.storage)
    again.run()
    await again.controller.caught_up()
    assert (await again.client().get(WIDGETS_PATH)).status == 200
    assert (await again.client().get("/readyz")).status == 500
    await again.stop()


async def test_a_definition_that_becomes_unreadable_is_served_as_it_was(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())
    key = f"/apiextensions.k8s.io/customresourcedefinitions/{NAME}"
    current = await server.storage.get(key)
    assert current is not None
    await server.storage.update(key, b"this is no JSON", current.revision)
    await settled()
    assert (await client.get(ONE)).status == 500
    assert (await client.get(f"{CRONTABS_PATH}/one")).status == 200


async def test_what_is_stored_is_served_at_the_start(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    await client.post(CRONTABS_PATH, crontab())
    again = LocalServer(server.storage)
    await again.start()
    again.run()
    await again.controller.caught_up()
    assert (await again.client().get(f"{CRONTABS_PATH}/one")).status == 200
    await again.stop()


async def test_nothing_to_catch_up_with(server: LocalServer) -> None:
    await server.controller.caught_up()


# --- as kubectl shows them ---


async def test_table(server: LocalServer, client: Client) -> None:
    await establish(server, client, CRONTABS)
    tree = (await client.get(CRDS, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})).json()
    assert [column["name"] for column in tree["columnDefinitions"]] == ["Name", "Created At"]
    assert tree["rows"][0]["cells"] == [NAME, "2026-01-02T03:04:05Z"]


# --- what others have stored ---


async def test_a_schema_that_is_not_structural_is_published_as_a_bare_object(server: LocalServer, client: Client) -> None:
    """As one from an older server is: it has neither uid nor generation here."""
    stored = copy.deepcopy(CRONTABS)
    stored["spec"]["versions"] = [
        {**stored["spec"]["versions"][0], "name": name, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name, schema in (
            ("v1", {"type": "object", "properties": {"spec": {}}}),
            ("v2", {"type": "object", "properties": {"spec": {"type": "object"}}}),
        )
    ]
    key = f"/apiextensions.k8s.io/customresourcedefinitions/{NAME}"
    await server.storage.create(key, json.dumps(stored).encode())
    assert await server.controller.settled([NAME]) == {}
    assert condition((await client.get(ONE)).json(), "NonStructuralSchema") == ("True", "Violations")
    found = {}
    for version_ in ("v1", "v2"):
        document = (await client.get(f"/openapi/v3/apis/{GROUP}/{version_}")).json()
        (found[version_],) = [
            schema.get("properties") for name, schema in document["components"]["schemas"].items() if name.endswith(".CronTab")
        ]
    assert found["v1"] is None
    assert "spec" in found["v2"]


# --- in a group that the server has of its own ---


@pytest.mark.parametrize(("plural", "kind"), [("customresourcedefinitions", "CustomResourceDefinition"), ("foos", "Foo")])
async def test_a_built_in_group_stays_as_it_is(server: LocalServer, client: Client, plural: str, kind: str) -> None:
    """Neither takes a definition the place of a built-in kind, nor does its deletion delete the objects of that kind."""
    await establish(server, client, CRONTABS)
    group = "apiextensions.k8s.io"
    before = (await client.get(f"/apis/{group}/v1")).body, (await client.get(f"/apis/{group}")).body
    crd = definition(plural, kind, version("v1", {}), version("v9", {}), scope="Cluster")
    crd["metadata"] = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved"}}
    crd["spec"]["group"] = group
    assert (await client.post(CRDS, crd)).status == 201
    refused = await server.controller.settled([f"{plural}.{group}"])
    assert refused == {f"{plural}.{group}": "definitions in the built-in group apiextensions.k8s.io are not served"}
    made = (await client.get(f"{CRDS}/{plural}.{group}")).json()
    assert condition(made, "Established") == ("True", "InitialNamesAccepted")
    assert ((await client.get(f"/apis/{group}/v1")).body, (await client.get(f"/apis/{group}")).body) == before
    assert (await client.get(f"/apis/{group}/v9/{plural}")).status == 404
    assert (await client.get(f"/apis/{group}/v1/foos")).status == 404
    assert (await client.delete(f"{CRDS}/{plural}.{group}")).status == 200
    await gone(client, f"{CRDS}/{plural}.{group}")
    assert [each["metadata"]["name"] for each in (await client.get(CRDS)).json()["items"]] == [NAME]
    assert (await client.get(CRONTABS_PATH)).status == 200
