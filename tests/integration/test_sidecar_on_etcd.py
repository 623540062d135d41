"""Two replicas that keep metadata beside one source, on one etcd: what one has written, the other shows in its next answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from aggserver.storage.etcd import EtcdStorage
from tests.fakes.clock import until
from tests.fakes.server import LocalServer
from tests.resources.served import PATH, Apps, Rows, ticket

_folders = itertools.count(1)
KINDS: dict[str, dict[str, Any]] = {"direct": {}, "polled": {"poll": 10.0}}


@asynccontextmanager
async def replica(url: str, prefix: str, rows: Rows, kind: str, number: int) -> AsyncIterator[Apps]:
    server = LocalServer(EtcdStorage([url], prefix))  # type: ignore[arg-type]
    await server.start()
    apps = Apps(server)
    try:
        await apps.serve_tickets(rows, keeps="sidecar", random=number, **KINDS[kind])
        await until(partial(_is_served, apps))
        yield apps
    finally:
        await apps.stop()
        await server.stop()


async def _is_served(apps: Apps) -> bool:
    return (await apps.client.get(PATH)).status == 200


@pytest.mark.parametrize("kind", KINDS)
async def test_replicas_agree(other_etcd: str, kind: str) -> None:
    rows, prefix = Rows(), f"/sidecar-{next(_folders)}"
    rows.set("a")
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(replica(other_etcd, prefix, rows, kind, number)) for number in (7, 9)]
        one, two = both

        async def label(apps: Apps, **labels: str | None) -> None:
            answer = await apps.client.merge(f"{PATH}/a", {"metadata": {"labels": labels}})
            assert answer.status == 200, answer.body
            shown = answer.json()["metadata"].get("labels", {})
            assert shown.items() >= {name: text for name, text in labels.items() if text}.items()

        async def labels(apps: Apps) -> Any:
            return (await apps.client.get(f"{PATH}/a")).json()["metadata"].get("labels")

        for index in range(20):
            await label(both[index % 2], n=str(index))
            assert await labels(both[1 - index % 2]) == {"n": str(index)}
            assert await both[1 - index % 2].names(f"{PATH}?labelSelector=n={index}") == ["a"]
        await label(one, n=None)
        assert await labels(two) is None
        await asyncio.gather(
            *(label(each, **{f"l{number}-{index}": "1"}) for index in range(10) for number, each in enumerate(both))
        )
        wanted = {f"l{number}-{index}": "1" for index in range(10) for number in range(2)}
        assert [await labels(each) for each in both] == [wanted, wanted]

        async def meanwhile() -> None:
            rows.before.clear()
            await label(two, other="1")

        rows.before["update"] = meanwhile
        change = {"title": "new", "metadata": {"labels": {"mine": "1"}}}
        assert (await one.client.merge(f"{PATH}/a", change)).status == 200
        for each in both:
            assert (await labels(each)).keys() >= {"mine", "other"}

        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        assert (await one.client.merge(f"{PATH}/a", held)).status == 200
        assert (await two.client.delete(f"{PATH}/a")).json()["metadata"]["deletionTimestamp"]
        assert rows.rows
        assert (await one.client.merge(f"{PATH}/a", {"metadata": {"finalizers": None}})).status == 200
        assert not rows.rows
        assert (await two.client.post(PATH, ticket("a"))).status == 201
        assert await labels(two) is None


async def test_watches_get_one_event_for_each_write(other_etcd: str) -> None:
    """etcd tells of a write after its answer: that tells watches nothing more."""
    rows, prefix = Rows(), f"/sidecar-{next(_folders)}"
    rows.set("a")
    async with replica(other_etcd, prefix, rows, "polled", 7) as apps:
        version = (await apps.client.get(f"{PATH}/a")).json()["metadata"]["resourceVersion"]
        async with apps.client.watch(f"{PATH}?watch=1&resourceVersion={version}") as watch:
            for index in range(10):
                change = {"title": f"t{index}", "metadata": {"labels": {"n": str(index)}}}
                await apps.client.merge(f"{PATH}/a", change)
                await apps.client.merge(f"{PATH}/a", {"metadata": {"labels": {"m": str(index)}}})
            await apps.client.delete(f"{PATH}/a")
            events = await watch.events(21)
        assert [event["type"] for event in events] == ["MODIFIED"] * 20 + ["DELETED"]
        assert [event["object"]["metadata"]["labels"].get("n") for event in events] == [
            *(str(index) for index in range(10) for _ in "nm"),
            "9",
        ]
