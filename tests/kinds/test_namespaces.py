"""Namespaces of a server without a cluster: through the API, and to their end, with the controller at work."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds import namespaces
from tests.fakes.asgi import Client
from tests.fakes.clock import settled, until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer, gone

PATH = "/api/v1/namespaces"
TEAM = f"{PATH}/team"
CONTENT = CRONTABS_PATH.replace("default", "team")
LOOK_AGAIN = 0.5


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> None:
    server.serve(CRONTABS)
    server.serve(WIDGETS)
    server.run()


async def create(client: Client, name: str = "team", **metadata: Any) -> Any:
    answer = await client.post(PATH, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}})
    assert answer.status == 201, answer.body
    return answer.json()


async def test_default_is_there(server: LocalServer, client: Client) -> None:
    before = (await client.get(f"{PATH}/default")).json()
    (entry,) = before["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}}
    await namespaces.ensure(server.namespaces, "default")
    assert (await client.get(f"{PATH}/default")).json() == before


async def test_create(client: Client) -> None:
    made = await create(client, labels={"a": "b"})
    assert made == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "team",
            "uid": "uid-2",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"a": "b", "kubernetes.io/metadata.name": "team"},
            "resourceVersion": "3",
            "managedFields": [
                {
                    "manager": "unknown",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-02T03:04:05Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}, "f:kubernetes.io/metadata.name": {}}}},
                }
            ],
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


REFUSED: dict[str, tuple[Any, int, str]] = {
    # name: (body, code, what the message has)
    "a name that is none": (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a.b"}},
        422,
        'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": ',
    ),
    "another kind": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        400,
        'Pod in version "v1" cannot be handled as a Namespace',
    ),
    "a spec that is none": (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": []},
        400,
        'Namespace in version "v1" cannot be handled as a Namespace: '
        "json: cannot unmarshal array into Go struct field Namespace.spec of type v1.NamespaceSpec",
    ),
    "finalizers that are none": (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": [1]}},
        400,
        'Namespace in version "v1" cannot be handled as a Namespace: '
        "json: cannot unmarshal number into Go struct field NamespaceSpec.spec.finalizers of type v1.FinalizerName",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    body, code, message = REFUSED[name]
    answer = await client.post(PATH, body)
    assert (answer.status, answer.message[: len(message)]) == (code, message)


async def test_what_a_client_may_not_say(client: Client) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team"},
        "spec": {"finalizers": ["example.com/mine"], "odd": 1},
        "status": {"phase": "Terminating"},
    }
    answer = await client.post(PATH, body)
    spec = {"finalizers": ["example.com/mine", "kubernetes"]}
    assert (answer.json()["spec"], answer.json()["status"]) == (spec, {"phase": "Active"})
    assert answer.warnings == ['299 - "unknown field \\"spec.odd\\""']
    answer = await client.merge(TEAM, {"spec": {"finalizers": []}, "metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}})
    assert answer.json()["spec"] == spec
    assert answer.json()["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


async def test_status(client: Client) -> None:
    made = await create(client)
    made["status"]["conditions"] = [{"type": "Some", "status": "True"}]
    made["spec"] = {}
    answer = await client.put(f"{TEAM}/status", made)
    assert answer.json()["status"]["conditions"] == [{"type": "Some", "status": "True", "lastTransitionTime": None}]
    assert answer.json()["spec"] == {"finalizers": ["kubernetes"]}
    answer = await client.merge(f"{TEAM}/status", {"status": {"phase": "Terminating"}})
    assert (answer.status, answer.message) == (
        422,
        'Namespace "team" is invalid: status.Phase: Invalid value: "Terminating": '
        "may only be 'Active' if `deletionTimestamp` is empty",
    )


@pytest.mark.parametrize("status", [{"phase": None}, {"phase": ""}, {}, None], ids=["null", "empty", "absent", "no status"])
async def test_a_status_without_a_phase_is_active(client: Client, status: Any) -> None:
    """As of who writes conditions and was not given the phase."""
    made = await create(client)
    answer = await client.put(f"{TEAM}/status", {**made, "status": status})
    assert (answer.status, answer.json().get("status")) == (200, {"phase": "Active"})
    answer = await client.merge(f"{TEAM}/status", {"status": status})
    assert (answer.status, answer.json().get("status")) == (200, {"phase": "Active"})


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_may_not_be_deleted(client: Client, name: str) -> None:
    if name != "default":
        await create(client, name)
    answer = await client.delete(f"{PATH}/{name}")
    assert (answer.status, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert (await client.get(f"{PATH}/{name}")).json()["status"] == {"phase": "Active"}


async def test_there_is_no_deletecollection(client: Client) -> None:
    resources = (await client.get("/api/v1")).json()["resources"]
    assert [(entry["name"], entry["verbs"]) for entry in resources] == [
        ("namespaces", ["create", "delete", "get", "list", "patch", "update", "watch"]),
        ("namespaces/finalize", ["update"]),
        ("namespaces/status", ["get", "patch", "update"]),
    ]


async def test_table(client: Client) -> None:
    tree = (await client.get(PATH, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})).json()
    assert [column["name"] for column in tree["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert tree["rows"][0]["cells"][:2] == ["default", "Active"]


# --- what is in them ---


async def test_nothing_is_created_where_there_is_no_namespace(client: Client) -> None:
    answer = await client.post(CONTENT, crontab())
    assert (answer.status, answer.message) == (404, 'namespaces "team" not found')
    await create(client)
    assert (await client.post(CONTENT, crontab())).status == 201


async def test_delete(client: Client) -> None:
    await create(client)
    answer = await client.delete(TEAM)
    assert (answer.status, answer.json()["kind"], answer.json()["status"]["phase"]) == (200, "Namespace", "Terminating")
    assert "deletionTimestamp" in answer.json()["metadata"]
    await gone(client, TEAM)


async def test_delete_with_what_is_in_it(client: Client) -> None:
    await create(client)
    for name in ("one", "two"):
        await client.post(CONTENT, crontab(name))
    await client.post(CRONTABS_PATH, crontab())
    await client.post(WIDGETS_PATH, widget())
    await client.delete(TEAM)
    await gone(client, TEAM)
    assert (await client.get(CONTENT)).json()["items"] == []
    assert (await client.get(f"{CRONTABS_PATH}/one")).status == 200
    assert (await client.get(f"{WIDGETS_PATH}/one")).status == 200
    await create(client)
    assert (await client.get(CONTENT)).json()["items"] == []


async def test_finalizers_hold_it_up(server: LocalServer, client: Client) -> None:
    await create(client)
    obj = crontab()
    obj["metadata"]["finalizers"] = ["example.com/x"]
    await client.post(CONTENT, obj)
    await client.delete(TEAM)
    await until(lambda: LOOK_AGAIN in server.timers.seconds)
    assert (await client.get(TEAM)).json()["status"]["phase"] == "Terminating"
    refused = await client.post(CONTENT, crontab("two"))
    assert refused.status == 403
    assert refused.message == (
        'crontabs.stable.example.com "two" is forbidden: '
        "unable to create new content in namespace team because it is being terminated"
    )
    assert refused.json()["details"]["causes"] == [
        {"reason": "NamespaceTerminating", "message": "namespace team is being terminated", "field": "metadata.namespace"}
    ]
    # What is there can be changed, or it could never go.
    await client.merge(f"{CONTENT}/one", {"metadata": {"finalizers": None}})
    server.timers.fire(LOOK_AGAIN)
    await gone(client, TEAM)


async def test_its_own_finalizers_hold_it_up(client: Client) -> None:
    await create(client, finalizers=["example.com/x"])
    await client.delete(TEAM)
    await settled()
    left = (await client.get(TEAM)).json()
    assert left["spec"].get("finalizers", []) == []
    await client.merge(TEAM, {"metadata": {"finalizers": None}})
    await gone(client, TEAM)


async def test_watched_to_the_end(client: Client) -> None:
    async with client.watch(f"{PATH}?watch=1&fieldSelector=metadata.name%3Dteam") as watch:
        await create(client)
        await client.delete(TEAM)
        await gone(client, TEAM)
        kinds = [(event["type"], event["object"]["status"]["phase"]) for event in await watch.events(4)]
    # The second change is that of the conditions.
    terminating = [("MODIFIED", "Terminating"), ("MODIFIED", "Terminating"), ("DELETED", "Terminating")]
    assert kinds == [("ADDED", "Active"), *terminating]


# --- what holds them ---


async def test_finalize_changes_finalizers_alone(client: Client) -> None:
    made = await create(client)
    made["spec"] = {"finalizers": ["kubernetes", "example.com/x"]}
    made["status"] = {"phase": "Terminating"}
    answer = await client.put(f"{TEAM}/finalize", made)
    assert (answer.status, answer.json()["spec"], answer.json()["status"]) == (200, made["spec"], {"phase": "Active"})
    made["spec"] = {"finalizers": ["kubernetes", "mine"]}
    del made["metadata"]["resourceVersion"]
    answer = await client.put(f"{TEAM}/finalize", made)
    assert (answer.status, answer.json()["details"]["causes"][0]["field"]) == (422, "spec.finalizers[1]")
    assert "name is neither a standard finalizer name nor is it fully qualified" in answer.message
    made["spec"] = {"finalizers": "kubernetes"}
    assert (await client.put(f"{TEAM}/finalize", made)).status == 400


async def test_a_finalizer_of_others_holds_it_up(client: Client) -> None:
    """The controller gives up its own alone, and the last one is whose it is."""
    made = await create(client)
    made["spec"] = {"finalizers": ["kubernetes", "example.com/x"]}
    await client.put(f"{TEAM}/finalize", made)
    await client.delete(TEAM)
    await settled()
    left = (await client.get(TEAM)).json()
    assert left["spec"] == {"finalizers": ["example.com/x"]}
    left["spec"] = {}
    assert (await client.put(f"{TEAM}/finalize", left)).status == 200
    assert (await client.get(TEAM)).status == 404


async def test_who_empties_the_list_does_not_wait(server: LocalServer, client: Client) -> None:
    """As by `kubectl replace --raw .../finalize` upstream: what is in it stays behind."""
    await create(client)
    obj = crontab()
    obj["metadata"]["finalizers"] = ["example.com/x"]
    await client.post(CONTENT, obj)
    await client.delete(TEAM)
    await until(lambda: LOOK_AGAIN in server.timers.seconds)
    held = (await client.get(TEAM)).json()
    assert held["spec"] == {"finalizers": ["kubernetes"]}
    held["spec"] = {"finalizers": []}
    assert (await client.put(f"{TEAM}/finalize", held)).status == 200
    assert (await client.get(TEAM)).status == 404
    server.timers.fire(LOOK_AGAIN)
    await settled()
    assert [item["metadata"]["name"] for item in (await client.get(CONTENT)).json()["items"]] == ["one"]


async def test_finalize_of_what_is_not_deleted(client: Client) -> None:
    made = await create(client)
    made["spec"] = {}
    answer = await client.put(f"{TEAM}/finalize", made)
    assert (answer.status, answer.json()["spec"]) == (200, {})
    assert (await client.get(TEAM)).json()["status"] == {"phase": "Active"}
