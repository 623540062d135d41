"""delete and deletecollection: options in body and query, preconditions, finalizers, responses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

ONE = f"{CRONTABS_PATH}/one"


@pytest.fixture(autouse=True)
async def made(server: LocalServer, client: Client) -> None:
    server.serve(CRONTABS)
    await client.post(CRONTABS_PATH, crontab())


async def test_delete(client: Client) -> None:
    answer = await client.delete(ONE)
    assert answer.status == 200
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "one", "group": "stable.example.com", "kind": "crontabs", "uid": "uid-2"},
    }
    assert (await client.get(ONE)).status == 404
    assert (await client.delete(ONE)).message == 'crontabs.stable.example.com "one" not found'


async def test_a_table_is_not_asked_of_a_status(client: Client) -> None:
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    assert (await client.delete(ONE, headers={"accept": accept})).json()["kind"] == "Status"


@pytest.mark.parametrize("by", ["body", "query", "YAML"])
async def test_dry_run(client: Client, by: str) -> None:
    if by == "query":
        answer = await client.delete(f"{ONE}?dryRun=All")
    elif by == "YAML":
        answer = await client.delete(ONE, b"kind: DeleteOptions\ndryRun: [All]\n", content_type="application/yaml")
    else:
        answer = await client.delete(ONE, {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]})
    assert (answer.status, answer.json()["status"]) == (200, "Success")
    assert (await client.get(ONE)).status == 200


async def test_the_query_counts_for_nothing_where_there_is_a_body(client: Client) -> None:
    await client.delete(f"{ONE}?dryRun=All", {"kind": "DeleteOptions", "apiVersion": "v1"})
    assert (await client.get(ONE)).status == 404


WAITING: dict[str, tuple[str, Any, int, list[str]]] = {
    # name: (query, body, code, finalizers)
    "foreground": ("propagationPolicy=Foreground", None, 200, ["foregroundDeletion"]),
    "orphan": ("", {"propagationPolicy": "Orphan"}, 200, ["orphan"]),
    "orphan, the old way": ("orphanDependents=true", None, 200, ["orphan"]),
}


@pytest.mark.parametrize("name", WAITING)
async def test_propagation(client: Client, name: str) -> None:
    query, body, code, finalizers = WAITING[name]
    answer = await client.delete(f"{ONE}?{query}", body)
    assert (answer.status, answer.json()["kind"]) == (code, "CronTab")
    metadata = answer.json()["metadata"]
    assert metadata["finalizers"] == finalizers
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-01-02T03:04:05Z", 0)
    assert metadata["generation"] == 2


@pytest.mark.parametrize(("query", "code"), [("", 200), ("orphanDependents=false", 202), ("propagationPolicy=Background", 200)])
async def test_code_of_a_deletion_that_waits(client: Client, query: str, code: int) -> None:
    await client.merge(ONE, {"metadata": {"finalizers": ["example.com/x"]}})
    answer = await client.delete(f"{ONE}?{query}")
    assert (answer.status, answer.json()["metadata"]["finalizers"]) == (code, ["example.com/x"])
    answer = await client.merge(ONE, {"metadata": {"finalizers": None}})
    assert (answer.status, answer.json()["kind"]) == (200, "CronTab")
    assert (await client.get(ONE)).status == 404


async def test_what_is_being_deleted_stays_so(client: Client) -> None:
    await client.merge(ONE, {"metadata": {"finalizers": ["example.com/x"]}})
    first = (await client.delete(ONE)).json()
    assert (await client.delete(ONE)).json() == first
    answer = await client.post(CRONTABS_PATH, crontab())
    assert answer.message == 'object is being deleted: crontabs.stable.example.com "one" already exists'
    answer = await client.merge(ONE, {"metadata": {"finalizers": ["example.com/x", "example.com/y"]}})
    assert answer.status == 422
    assert "no new finalizers can be added if the object is being deleted" in answer.message


REFUSED: dict[str, tuple[str, Any, int, str]] = {
    # name: (query, body, code, message)
    "another uid": (
        "",
        {"preconditions": {"uid": "x"}},
        409,
        'Operation cannot be fulfilled on CronTab.stable.example.com "one": the UID in the precondition (x) does not match '
        "the UID in record (uid-2). The object might have been deleted and then recreated",
    ),
    "another resourceVersion": (
        "",
        {"preconditions": {"resourceVersion": "1"}},
        409,
        'Operation cannot be fulfilled on CronTab.stable.example.com "one": the ResourceVersion in the precondition (1) '
        "does not match the ResourceVersion in record (3). The object might have been modified",
    ),
    "both ways": (
        "",
        {"propagationPolicy": "Foreground", "orphanDependents": True},
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Foreground": '
        "orphanDependents and deletionPropagation cannot be both set",
    ),
    "a policy that is none": (
        "propagationPolicy=Maybe",
        None,
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Maybe": '
        'supported values: "Foreground", "Background", "Orphan", "nil"',
    ),
    "some dry run": (
        "dryRun=Some",
        None,
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"',
    ),
    "grace that is no number": ("gracePeriodSeconds=x", None, 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "no JSON": ("", b"{", 400, "couldn't get version/kind; json parse error: unexpected end of JSON input"),
    "an array": (
        "",
        b"[]",
        400,
        "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct "
        '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }',
    ),
    "another kind": ("", {"kind": "Pod"}, 400, "decoded object cannot be converted to DeleteOptions"),
    "preconditions of a wrong type": (
        "",
        {"preconditions": []},
        400,
        "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
    ),
    "uid of a wrong type": (
        "",
        {"preconditions": {"uid": 1}},
        400,
        "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
    ),
    "grace of a wrong type": (
        "",
        {"gracePeriodSeconds": True},
        400,
        "json: cannot unmarshal bool into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
    "grace with a fraction": (
        "",
        {"gracePeriodSeconds": 1.5},
        400,
        "json: cannot unmarshal number 1.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
    "dry run of a wrong type": (
        "",
        {"dryRun": "All"},
        400,
        "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
    ),
    "dry run of wrong types": (
        "",
        {"dryRun": [1]},
        400,
        "json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type string",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    query, body, code, message = REFUSED[name]
    answer = await client.delete(f"{ONE}?{query}", body)
    assert (answer.message, answer.status) == (message, code)
    assert (await client.get(ONE)).status == 200


async def test_preconditions_that_hold(client: Client) -> None:
    answer = await client.delete(ONE, {"preconditions": {"uid": "uid-2", "resourceVersion": "3"}})
    assert answer.status == 200


async def test_delete_collection(client: Client) -> None:
    for name, tier in (("two", "a"), ("three", "b")):
        obj = crontab(name)
        obj["metadata"]["labels"] = {"tier": tier}
        await client.post(CRONTABS_PATH, obj)
    answer = await client.delete(f"{CRONTABS_PATH}?labelSelector=tier%3Da")
    assert answer.status == 200
    assert (answer.json()["kind"], [item["metadata"]["name"] for item in answer.json()["items"]]) == ("CronTabList", ["two"])
    assert len((await client.get(CRONTABS_PATH)).json()["items"]) == 2
    await client.merge(ONE, {"metadata": {"finalizers": ["example.com/x"]}})
    await client.delete(CRONTABS_PATH, {"propagationPolicy": "Background"})
    (left,) = (await client.get(CRONTABS_PATH)).json()["items"]
    assert "deletionTimestamp" in left["metadata"]


async def test_delete_collection_keeps_to_its_namespace(server: LocalServer, client: Client) -> None:
    await server.namespace("other")
    other = CRONTABS_PATH.replace("default", "other")
    await client.post(other, crontab())
    await client.delete(other)
    assert (await client.get(ONE)).status == 200
    assert (await client.get(f"{other}/one")).status == 404


async def test_refused_collections(client: Client) -> None:
    answer = await client.delete(f"{CRONTABS_PATH}?fieldSelector=spec.x%3D1")
    assert (answer.status, answer.message) == (400, "field label not supported: spec.x")
    answer = await client.delete(f"{CRONTABS_PATH}?sendInitialEvents=true")
    assert answer.status == 422
    answer = await client.delete(CRONTABS_PATH, {"propagationPolicy": "Maybe"})
    assert answer.status == 422
    assert (await client.get(ONE)).status == 200
