"""Objects that can't be read: the errors that name them, that other objects are served, and how they are removed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Client
from tests.fakes.definitions import definition, version
from tests.fakes.server import LocalServer

PREFIX = "/stable.example.com/things/default/"
PATH = "/apis/stable.example.com/v1/namespaces/default/things"
OTHER = "/apis/stable.example.com/v1/namespaces/default/others"
USER = UserInfo("jane", groups=("system:authenticated",))
UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
THINGS = definition("things", "Thing", version("v1", {"embedded": EMBEDDED, "spec": {"type": "object"}}))
OTHERS = definition("others", "Other", version("v1", {}))


def body(name: str, kind: str = "Thing", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": "u", "creationTimestamp": "2024-01-01T00:00:00Z", "generation": 1}
    return {"apiVersion": "stable.example.com/v1", "kind": kind, "metadata": metadata, **more}


def encoded(name: str, **more: Any) -> bytes:
    return json.dumps(body(name, **more), separators=(",", ":")).encode()


def embedding(metadata: Any) -> bytes:
    return encoded("x", embedded={"apiVersion": "v1", "kind": "Pod", "metadata": metadata})


def nested(levels: int) -> bytes:
    """A Thing with an embedded resource of so many levels, which kube-apiserver could have stored: it allows 10,000."""
    return encoded("x", embedded="EMBEDDED").replace(
        b'"EMBEDDED"', b'{"apiVersion":"v1","kind":"Pod","deep":' + b"[" * levels + b"]" * levels + b"}"
    )


# Stored bytes, and why they can't be read: kube-apiserver's text, without the object that it shows after "is missing". What is
# nested too deeply here, it reads.
BYTES: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"this is no JSON \xff", "invalid character 'h' in literal true (expecting 'r')"),
    "nothing": (b"", "unexpected end of JSON input"),
    "cut off in the middle": (encoded("x", spec={"a": 1})[:-3], "unexpected end of JSON input"),
    "an array": (b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    "null": (b"null", "Object 'Kind' is missing"),
    "no kind": (b'{"apiVersion":"stable.example.com/v1","metadata":{"name":"x"}}', "Object 'Kind' is missing"),
    "a kind that is a number": (b'{"apiVersion":"v1","kind":3,"metadata":{"name":"x"}}', "Object 'Kind' is missing"),
    "no version": (b'{"kind":"Thing","metadata":{"name":"x"}}', "Object 'apiVersion' is missing"),
    "no metadata": (b'{"apiVersion":"stable.example.com/v1","kind":"Thing"}', "invalid metadata: expected object, got <nil>"),
    "metadata a text": (
        b'{"apiVersion":"stable.example.com/v1","kind":"Thing","metadata":"x"}',
        "invalid metadata: expected object, got string",
    ),
    "embedded metadata a text": (
        embedding("x"),
        'embedded.metadata: Invalid value: "x": json: cannot unmarshal string into Go value of type v1.ObjectMeta',
    ),
    "embedded metadata a number": (
        embedding(3),
        "embedded.metadata: Invalid value: 3: json: cannot unmarshal number into Go value of type v1.ObjectMeta",
    ),
    "embedded metadata an array": (
        embedding([]),
        "embedded.metadata: Invalid value: []: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
    ),
    "nested too deeply": (nested(300), "it is nested too deeply"),
}


def corrupt(revision: int, why: str, name: str = "x") -> str:
    return (
        f"StorageError: corrupt object, Code: 7, Key: {PREFIX}{name}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: object not decodable revision={revision}: {why}"
    )


def told_of_one(revision: int, why: str) -> dict[str, Any]:
    text = corrupt(revision, why)
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {text}",
        "reason": "InternalError",
        "details": {"causes": [{"message": text}]},
        "code": 500,
    }


def told_of_list(*causes: dict[str, str]) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "failed to read one or more things.stable.example.com from the storage",
        "reason": "StorageReadError",
        "details": {"name": "list", "group": "stable.example.com", "kind": "things", "causes": list(causes)},
        "code": 500,
    }


def cause(name: str, revision: int, why: str) -> dict[str, str]:
    return {"reason": "UnexpectedServerResponse", "message": corrupt(revision, why, name), "field": PREFIX + name}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    server = LocalServer(MemoryStorage())
    await server.start()
    server.serve(THINGS)
    server.serve(OTHERS)
    yield server
    await server.stop()


@pytest.fixture
async def client(server: LocalServer) -> Client:
    """A client of the server, where each resource has one object."""
    client = server.client()
    for path, made in ((PATH, body("good")), (OTHER, body("good", "Other"))):
        assert (await client.post(path, made)).status == 201
    return client


@pytest.mark.parametrize("name", BYTES)
@pytest.mark.parametrize("when", ["before the first read", "under a cache"])
async def test_it_is_named_and_all_else_goes_on(
    name: str, when: str, server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    value, why = BYTES[name]
    client = server.client()
    await client.post(OTHER, body("good", "Other"))
    if when == "under a cache":
        assert (await client.post(PATH, body("good"))).status == 201
    revision = await server.storage.create(PREFIX + "x", value)
    if when != "under a cache":
        assert (await client.post(PATH, body("good"))).status == 201

    for target in (f"{PATH}/x", f"{PATH}/x?resourceVersion=0"):
        read = await client.get(target)
        assert (read.status, read.json()) == (500, told_of_one(revision, why))
    for target in (PATH, f"{PATH}?resourceVersion=0", f"{PATH}?limit=9", "/apis/stable.example.com/v1/things"):
        listed = await client.get(target)
        assert (listed.status, listed.json()) == (500, told_of_list(cause("x", revision, why)))
    table = await client.get(PATH, headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert (table.status, table.json()["reason"]) == (500, "StorageReadError")
    for write in (
        client.put(f"{PATH}/x", body("x")),
        client.merge(f"{PATH}/x", {"spec": {}}),
        client.delete(f"{PATH}/x"),
    ):
        written = await write
        assert (written.status, written.json()) == (500, told_of_one(revision, why))
    assert (await client.delete(PATH)).json() == told_of_list(cause("x", revision, why))
    assert (await client.post(PATH, body("x"))).json()["reason"] == "AlreadyExists"

    assert (await client.get(f"{PATH}/good")).status == 200
    assert (await client.get(f"{PATH}?fieldSelector=metadata.name=good")).status == 200
    assert (await client.get(f"{PATH}?limit=1")).json()["items"][0]["metadata"]["name"] == "good"
    assert (await client.get(OTHER)).status == 200
    assert (await client.get(PATH.replace("default", "elsewhere"))).status == 200
    assert (await client.post(PATH, body("new"))).status == 201
    told = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert told == [f"{PREFIX}x at revision {revision} can't be read: {why}"]


async def test_a_list_names_all_and_no_more_than_a_hundred(server: LocalServer, client: Client) -> None:
    revisions = {
        name: await server.storage.create(PREFIX + name, value)
        for name, (value, _) in {"a": BYTES["null"], "b": BYTES["embedded metadata a text"], "c": BYTES["no JSON"]}.items()
    }
    found = (await client.get(PATH)).json()["details"]["causes"]
    assert found == [
        cause("a", revisions["a"], BYTES["null"][1]),
        cause("b", revisions["b"], BYTES["embedded metadata a text"][1]),
        cause("c", revisions["c"], BYTES["no JSON"][1]),
    ]
    for number in range(98):
        await server.storage.create(f"{PREFIX}more-{number:02}", b"x")
    found = (await client.get(PATH)).json()["details"]["causes"]
    assert len(found) == 101
    assert found[99]["field"] == f"{PREFIX}more-96"
    assert found[100] == {"reason": "FieldValueTooMany", "message": "too many errors, the list is truncated"}


async def test_readiness_knows_until_it_is_gone(server: LocalServer, client: Client) -> None:
    async def ready(query: str = "") -> tuple[int, str]:
        answer = await client.get(f"/readyz{query}")
        return answer.status, answer.body.decode()

    assert (await ready("?verbose"))[0] == 200
    revision = await server.storage.create(PREFIX + "x", embedding("x"))
    assert await ready() == (200, "ok"), "nobody has looked inside"
    await client.get(PATH)
    status, text = await ready()
    assert status == 500
    assert "[-]stored-objects failed: reason withheld\n" in text
    assert f"{PREFIX}x at revision {revision} can't be read: embedded.metadata" in (await ready("/stored-objects"))[1]
    assert (await ready("?exclude=stored-objects"))[0] == 200
    assert (await client.get("/livez")).status == 200
    assert (await client.delete(f"{PATH}/x?{UNSAFE}=true")).status == 200
    assert await ready() == (200, "ok")


# The response to the deletion of the object x.
REMOVED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "details": {"name": "x", "kind": "Thing"},
    "code": 200,
}


@pytest.mark.parametrize("name", BYTES)
async def test_it_is_removed_by_who_may(name: str, server: LocalServer, client: Client) -> None:
    revision = await server.storage.create(PREFIX + "x", BYTES[name][0])
    user = server.client(USER)
    server.rules.allowed |= {("jane", "delete", "things")}
    refused = await user.delete(f"{PATH}/x?{UNSAFE}=true")
    assert (refused.status, refused.json()["message"]) == (
        403,
        'things.stable.example.com "x" is forbidden: not permitted to do "unsafe-delete-ignore-read-errors", reason: ',
    )
    assert refused.json()["details"] == {"name": "x", "group": "stable.example.com", "kind": "things"}
    server.rules.allowed |= {("jane", "unsafe-delete-ignore-read-errors", "things")}
    removed = await user.delete(f"{PATH}/x?{UNSAFE}=true")
    assert (removed.status, removed.json()) == (200, REMOVED)
    assert [
        (event.revision, event.value)
        for event in await server.storage.history(PREFIX, revision, await server.storage.revision(), 9)
    ] == [(revision + 1, None)]
    assert (await client.get(f"{PATH}/x")).status == 404
    assert [item["metadata"]["name"] for item in (await client.get(PATH)).json()["items"]] == ["good"]


async def test_what_can_be_read_is_not_removed_so(server: LocalServer, client: Client) -> None:
    for name in ("good", "nobody"):
        refused = await client.delete(f"{PATH}/{name}?{UNSAFE}=true")
        assert (refused.status, refused.json()["message"]) == (
            422,
            f'things.stable.example.com "{name}" is invalid: {UNSAFE}: Invalid value: true: is exclusively used to delete '
            "corrupt object(s), try again by removing this option",
        )
    assert (await client.get(f"{PATH}/good")).status == 200


REFUSED_OPTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all at once": (
        {"dryRun": ["All"], "orphanDependents": True, "gracePeriodSeconds": 0, "preconditions": {"uid": "x"}},
        ["dryRun", "orphanDependents", "gracePeriodSeconds", "preconditions"],
    ),
    "a policy": ({"propagationPolicy": "Background"}, ["propagationPolicy"]),
}


@pytest.mark.parametrize("name", REFUSED_OPTIONS)
async def test_nothing_is_asked_beside(name: str, server: LocalServer, client: Client) -> None:
    await server.storage.create(PREFIX + "x", b"x")
    given, named = REFUSED_OPTIONS[name]
    refused = await client.delete(f"{PATH}/x", {"apiVersion": "v1", "kind": "DeleteOptions", UNSAFE: True, **given})
    assert refused.status == 422
    assert [(entry["field"], entry["message"]) for entry in refused.json()["details"]["causes"]] == [
        (UNSAFE, f"Invalid value: true: cannot be set together with .{other}") for other in named
    ]


async def test_a_collection_is_not_deleted_so(server: LocalServer, client: Client) -> None:
    await server.storage.create(PREFIX + "x", b"x")
    refused = await client.delete(f"{PATH}?{UNSAFE}=true")
    assert (refused.status, refused.json()["message"]) == (
        422,
        f'DeleteOptions.meta.k8s.io "" is invalid: {UNSAFE}: Invalid value: true: is not allowed with DELETECOLLECTION, try '
        "again after removing the option",
    )


OPTION_VALUES = {
    "?" + UNSAFE: 200,
    f"?{UNSAFE}=": 200,
    f"?{UNSAFE}=true": 200,
    f"?{UNSAFE}=false": 500,
    f"?{UNSAFE}=0": 500,
}


@pytest.mark.parametrize("query", OPTION_VALUES)
async def test_the_option_in_the_query(query: str, server: LocalServer, client: Client) -> None:
    await server.storage.create(PREFIX + "x", b"x")
    assert (await client.delete(f"{PATH}/x{query}")).status == OPTION_VALUES[query]


async def test_an_option_of_another_type(client: Client) -> None:
    refused = await client.delete(f"{PATH}/good", {"apiVersion": "v1", "kind": "DeleteOptions", UNSAFE: "yes"})
    assert (refused.status, refused.json()["message"]) == (
        400,
        f"json: cannot unmarshal string into Go struct field DeleteOptions.{UNSAFE} of type bool",
    )


async def test_a_watch_that_would_tell_of_it_ends(server: LocalServer, client: Client) -> None:
    start = (await client.get(PATH)).json()["metadata"]["resourceVersion"]
    async with (
        client.watch(f"{PATH}?watch=true&resourceVersion={start}") as watch,
        client.watch(f"{OTHER}?watch=true&resourceVersion={start}") as other,
    ):
        revision = await server.storage.create(PREFIX + "x", b"x")
        event = await watch.event()
        assert (event["type"], event["object"]["reason"], event["object"]["code"]) == ("ERROR", "StorageReadError", 500)
        assert (
            event["object"]["message"]
            == f"object not decodable revision={revision}: invalid character 'x' looking for beginning of value"
        )
        await client.post(OTHER, body("second", "Other"))
        assert (await other.event())["object"]["metadata"]["name"] == "second"
    # Watches that would have to send it fail: from a revision before its write, or with all current objects.
    async with client.watch(f"{PATH}?watch=true&resourceVersion={start}") as watch:
        assert (await watch.event())["type"] == "ERROR"
    refused = await client.get(f"{PATH}?watch=true&timeoutSeconds=1")
    assert (refused.status, refused.json()["reason"]) == (500, "StorageReadError")
    # A watch from its revision works until it is removed. That ends the watch, since the client may know the object.
    async with client.watch(f"{PATH}?watch=true&resourceVersion={revision}") as watch:
        await client.post(PATH, body("new"))
        assert (await watch.event())["object"]["metadata"]["name"] == "new"
        await client.delete(f"{PATH}/x?{UNSAFE}=true")
        event = await watch.event()
        newest = await server.storage.revision()
        assert (event["type"], event["object"]["reason"]) == ("ERROR", "StorageReadError")
        assert event["object"]["message"].startswith(
            f"saw a DELETED event, but object data is corrupt - object not decodable revision={newest}: "
        )


async def test_lists_of_the_past_are_told_too(server: LocalServer, client: Client) -> None:
    before = (await client.get(PATH)).json()["metadata"]["resourceVersion"]
    revision = await server.storage.create(PREFIX + "x", b"x")
    await client.delete(f"{PATH}/x?{UNSAFE}=true")
    assert (await client.get(PATH)).status == 200
    exact = f"{PATH}?resourceVersionMatch=Exact&resourceVersion="
    assert (await client.get(f"{exact}{before}")).status == 200
    assert (await client.get(f"{exact}{revision}")).json()["reason"] == "StorageReadError"


async def test_a_value_written_over_is_well_again(server: LocalServer, client: Client) -> None:
    revision = await server.storage.create(PREFIX + "x", b"x")
    assert (await client.get(PATH)).status == 500
    await server.storage.update(PREFIX + "x", encoded("x"), revision)
    assert [item["metadata"]["name"] for item in (await client.get(PATH)).json()["items"]] == ["good", "x"]
    assert (await client.get("/readyz")).status == 200


async def test_an_embedded_resource_that_can_be_mended_is(server: LocalServer, client: Client) -> None:
    """As upstream's TestInvalidObjectMetaInStorage: invalid fields are dropped, and null metadata becomes empty."""
    await server.storage.create(PREFIX + "x", embedding({"labels": {"a": "b"}, "annotations": {"a": 1}, "unknown": 1}))
    await server.storage.create(PREFIX + "y", embedding(None))
    assert (await client.get(f"{PATH}/x")).json()["embedded"]["metadata"] == {"labels": {"a": "b"}}
    assert (await client.get(f"{PATH}/y")).json()["embedded"]["metadata"] == {}
    assert (await client.delete(f"{PATH}/x")).status == 200


async def test_a_changed_definition_is_another_look(server: LocalServer, client: Client) -> None:
    await server.storage.create(PREFIX + "x", embedding("x"))
    assert (await client.get(PATH)).status == 500
    server.serve(definition("things", "Thing", version("v1", {"spec": {"type": "object"}})))
    assert [item["metadata"]["name"] for item in (await client.get(PATH)).json()["items"]] == ["good", "x"]
