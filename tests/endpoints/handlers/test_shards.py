"""The parameter shardSelector: lists, watches and deletecollection of a shard. Its grammar: tests/registry/test_sharding.py."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from aggserver.registry.sharding import fnv1a
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

# Between the uids of the server, which differ in one digit, so that their hashes are close to each other.
MIDDLE = sorted(fnv1a(f"uid-{number}") for number in range(2, 14))[6]
FIRST, SECOND = (
    f"shardRange(object.metadata.uid, '{start}', '{end}')"
    for start, end in (("0x0000000000000000", f"0x{MIDDLE:016x}"), (f"0x{MIDDLE:016x}", "0x10000000000000000"))
)
NAMES = [f"crontab-{number}" for number in range(12)]


@pytest.fixture(autouse=True)
async def uids(server: LocalServer, client: Client) -> dict[str, str]:
    """By name, of objects in both shards."""
    server.serve(CRONTABS)
    made = [(await client.post(CRONTABS_PATH, crontab(name))).json()["metadata"] for name in NAMES]
    return {metadata["name"]: metadata["uid"] for metadata in made}


def of(uids: dict[str, str], shard: str) -> list[str]:
    return sorted(name for name, uid in uids.items() if (fnv1a(uid) < MIDDLE) == (shard == FIRST))


async def listed(client: Client, shard: str, query: str = "", **more: Any) -> Any:
    answer = await client.get(f"{CRONTABS_PATH}?shardSelector={quote(shard)}{query}", **more)
    assert answer.status == 200, answer.body
    return answer.json()


def names(items: Any) -> list[str]:
    return sorted(item["metadata"]["name"] for item in items)


async def test_each_object_is_in_one_shard(client: Client, uids: dict[str, str]) -> None:
    for shard in (FIRST, SECOND):
        found = await listed(client, f"  {shard} ")
        assert names(found["items"]) == of(uids, shard) != []
        assert found["metadata"]["shardInfo"] == {"selector": shard}
    both = await listed(client, f"{FIRST} || {SECOND}")
    assert (len(both["items"]), both["metadata"]["shardInfo"]) == (12, {"selector": f"{FIRST} || {SECOND}"})
    assert "shardInfo" not in (await client.get(CRONTABS_PATH)).json()["metadata"]


async def test_in_parts(client: Client, uids: dict[str, str]) -> None:
    found: list[Any] = []
    token = ""
    while True:
        page = await listed(client, FIRST, f"&limit=2&continue={token}" if token else "&limit=2")
        found += page["items"]
        if not (token := page["metadata"]["continue"]):
            break
        assert len(page["items"]) == 2
    assert names(found) == of(uids, FIRST)


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadataList"])
async def test_forms_without_shard_info(client: Client, uids: dict[str, str], form: str) -> None:
    """As upstream, which copies only what these forms had before."""
    accept = f"application/json;as={form};g=meta.k8s.io;v=v1"
    found = await listed(client, SECOND, headers={"accept": accept})
    rows = found["rows"] if form == "Table" else found["items"]
    assert (len(rows), "shardInfo" in found["metadata"]) == (len(of(uids, SECOND)), False)


async def test_a_watch(client: Client, uids: dict[str, str]) -> None:
    async with client.watch(f"{CRONTABS_PATH}?watch=1&shardSelector={quote(FIRST)}") as watch:
        begun = await watch.events(len(of(uids, FIRST)))
        assert names(event["object"] for event in begun) == of(uids, FIRST)
        for name in NAMES:
            await client.merge(f"{CRONTABS_PATH}/{name}", {"spec": {"replicas": 2}})
        changed = await watch.events(len(of(uids, FIRST)))
        assert names(event["object"] for event in changed) == of(uids, FIRST)
        assert {event["type"] for event in changed} == {"MODIFIED"}


async def test_deletecollection_leaves_the_other_shard(client: Client, uids: dict[str, str]) -> None:
    answer = await client.delete(f"{CRONTABS_PATH}?shardSelector={quote(FIRST)}")
    assert answer.status == 200
    assert names((await client.get(CRONTABS_PATH)).json()["items"]) == of(uids, SECOND)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_invalid_one(client: Client, method: str) -> None:
    """500 and no reason, as upstream's store."""
    answer = await client.request(method, f"{CRONTABS_PATH}?shardSelector={quote('true')}")
    assert answer.status == 500
    assert answer.message == "invalid shard selector: unexpected expression kind 5; expected shardRange() call or || operator"
    assert len((await client.get(CRONTABS_PATH)).json()["items"]) == 12
