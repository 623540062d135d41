"""The verbs of a virtual resource follow from its functions, and each does what the verb does with any resource."""

from __future__ import annotations

from typing import Any

import pytest

from tests.resources.served import ALL, GROUP, PATH, Apps, Rows, ticket

KINDS: dict[str, dict[str, Any]] = {
    "direct": {},
    "polled": {"poll": 10.0},
    "fed": {"verbs": "get list create update delete feed"},
}
kinds = pytest.mark.parametrize("kind", KINDS)

VERBS: dict[str, tuple[str, dict[str, Any], str]] = {
    "list alone": ("list", {}, "get list"),
    "get alone": ("get", {}, "get"),
    "get and list": ("get list", {}, "get list"),
    "polled": ("list", {"poll": 5.0}, "get list watch"),
    "fed": ("list feed", {}, "get list watch"),
    "create": ("get list create", {}, "get list create"),
    "update": ("get list update", {}, "get list patch update"),
    "delete": ("get list delete", {}, "delete deletecollection get list"),
    "delete without list": ("get delete", {}, "delete get"),
    "all": ("get list create update delete", {"poll": 1.0}, "delete deletecollection get list patch create update watch"),
}


@pytest.mark.parametrize("name", VERBS)
async def test_verbs_follow_from_functions(apps: Apps, name: str) -> None:
    functions, more, verbs = VERBS[name]
    await apps.serve_tickets(Rows(), verbs=functions, **more)
    found = (await apps.client.get(f"/apis/{GROUP}/v1")).json()["resources"]
    assert [entry["verbs"] for entry in found] == [verbs.split()]
    missing = {"create", "update", "delete", "deletecollection", "list"} - set(verbs.split())
    requests = {
        "create": ("POST", PATH, ticket("a")),
        "update": ("PUT", f"{PATH}/a", ticket("a")),
        "delete": ("DELETE", f"{PATH}/a", None),
        "deletecollection": ("DELETE", PATH, None),
        "list": ("GET", PATH, None),
    }
    for verb in missing:
        answer = await apps.client.request(*requests[verb])
        assert (answer.status, answer.json()["reason"]) == (405, "MethodNotAllowed"), verb
    if "watch" not in verbs:
        assert (await apps.client.get(f"{PATH}?watch=1")).status == 405


@kinds
async def test_a_life(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("there")
    await apps.serve_tickets(rows, **KINDS[kind])
    if kind == "fed":
        await apps.pauses.end()
    client = apps.client
    assert await apps.names() == ["there"]
    made = await client.post(PATH, ticket("new", "first"))
    assert made.status == 201, made.body
    first = made.json()
    assert {name: first[name] for name in ("apiVersion", "kind", "title", "state")} == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Ticket",
        "title": "first",
        "state": "open",
    }
    assert first["metadata"].keys() == {"name", "namespace", "uid", "resourceVersion"}
    assert (await client.get(f"{PATH}/new")).json() == first
    assert (await client.post(PATH, ticket("new"))).json()["reason"] == "AlreadyExists"
    put = await client.put(f"{PATH}/new", {**first, "title": "second"})
    assert put.status == 200, put.body
    assert put.json()["title"] == "second"
    assert put.json()["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    assert put.json()["metadata"]["uid"] == first["metadata"]["uid"]
    stale = await client.put(f"{PATH}/new", {**first, "title": "third"})
    assert (stale.status, stale.json()["reason"]) == (409, "Conflict")
    patched = await client.merge(f"{PATH}/new", {"state": "closed"})
    assert (patched.status, patched.json()["state"]) == (200, "closed")
    assert sorted(await apps.names()) == ["new", "there"]
    calls = len(rows.calls)
    same = await client.merge(f"{PATH}/new", {"state": "closed"})
    assert same.json() == patched.json()
    assert "update" not in rows.calls[calls:]  # nothing has changed
    gone = await client.delete(f"{PATH}/new")
    assert gone.status == 200, gone.body
    assert (await client.get(f"{PATH}/new")).status == 404
    assert (await client.delete(f"{PATH}/new")).status == 404
    assert await apps.names() == ["there"]
    assert (await client.delete(PATH)).status == 200
    assert await apps.names() == []
    assert rows.rows == {}


@kinds
async def test_what_the_schema_says(apps: Apps, kind: str) -> None:
    await apps.serve_tickets(Rows(), **KINDS[kind])
    if kind == "fed":
        await apps.pauses.end()
    wrong = await apps.client.post(PATH, ticket("a", 5))  # type: ignore[arg-type]
    assert (wrong.status, wrong.json()["reason"]) == (422, "Invalid")
    unknown = await apps.client.post(f"{PATH}?fieldValidation=Strict", {**ticket("a"), "colour": "red"})
    assert unknown.status == 400
    assert 'unknown field "colour"' in unknown.message
    pruned = await apps.client.post(PATH, {**ticket("a"), "colour": "red"})
    assert pruned.status == 201
    assert "colour" not in pruned.json()


@kinds
async def test_in_all_namespaces(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a", "one")
    rows.set("a", "two")
    await apps.serve_tickets(rows, **KINDS[kind])
    if kind == "fed":
        await apps.pauses.end()
    found = (await apps.client.get(ALL)).json()["items"]
    assert [each["metadata"]["namespace"] for each in found] == ["one", "two"]
    assert len({each["metadata"]["uid"] for each in found}) == 2
    assert await apps.names(f"/apis/{GROUP}/v1/namespaces/one/tickets") == ["a"]
    assert await apps.names(f"/apis/{GROUP}/v1/namespaces/nowhere/tickets") == []
    missing = await apps.client.post(f"/apis/{GROUP}/v1/namespaces/nowhere/tickets", ticket("b"))
    assert (missing.status, missing.message) == (404, 'namespaces "nowhere" not found')
    assert "create" not in rows.calls
