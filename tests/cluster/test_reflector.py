from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.reflector import Reflector, key_of
from tests.fakes.clock import FakeClock, until
from tests.fakes.cluster import FakeCluster, status

PATH = "/api/v1/namespaces"


class Seen:
    """What the callbacks received: the names and the changes of each call, and the errors."""

    def __init__(self) -> None:
        self.states: list[tuple[list[str], set[str]]] = []
        self.errors: list[str] = []

    def on_state(self, objects: Mapping[str, Any], changed: AbstractSet[str]) -> None:
        self.states.append((sorted(objects), set(changed)))

    def on_error(self, error: ClusterError | Unreachable | None) -> None:
        self.errors.append(str(error))


def namespace(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


@asynccontextmanager
async def reflecting(cluster: FakeCluster, clock: FakeClock) -> AsyncIterator[Seen]:
    seen = Seen()
    reflector = Reflector(cluster, PATH, {}, seen.on_state, seen.on_error, clock=clock, sleep=clock.sleep, random=lambda: 0.0)
    task = asyncio.create_task(reflector.run())
    try:
        yield seen
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_lists_then_watches() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    await cluster.put(PATH, namespace("a"))
    async with reflecting(cluster, clock) as seen:
        await until(lambda: seen.states)
        await cluster.put(PATH, namespace("b"))
        await until(lambda: len(seen.states) == 2)
        await cluster.put(PATH, namespace("a"))
        await until(lambda: len(seen.states) == 3)
        await cluster.remove(PATH, "a")
        await until(lambda: len(seen.states) == 4)
    assert seen.states == [(["a"], {"a"}), (["a", "b"], {"b"}), (["a", "b"], {"a"}), (["b"], {"a"})]
    assert seen.errors == []
    assert clock.slept == []


async def test_an_ended_watch_is_resumed() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    async with reflecting(cluster, clock) as seen:
        await until(lambda: cluster.watches == 1)
        await cluster.put(PATH, namespace("a"))
        await until(lambda: len(seen.states) == 2)
        await cluster.end_watches()
        await until(lambda: cluster.watches == 2)
        await cluster.put(PATH, namespace("b"))
        await until(lambda: len(seen.states) == 3)
    assert [method for method, _ in cluster.calls] == ["GET"], "no second list"
    assert clock.slept == [], "the watch worked, so there is no backoff"


async def test_a_collection_is_listed_in_pages_and_of_each_object_only_what_is_needed_is_kept() -> None:
    cluster = FakeCluster()
    for name in "abc":
        await cluster.put(PATH, {"metadata": {"name": name}, "spec": "large"})
    kept: list[dict[str, Any]] = []

    def keep(item: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": item["metadata"]}

    def on_state(objects: Mapping[str, Any], _: AbstractSet[str]) -> None:
        kept[:] = objects.values()

    reflector = Reflector(cluster, PATH, {}, on_state, lambda _: None, keep=keep, page_size=2)
    task = asyncio.create_task(reflector.run())
    await until(lambda: len(kept) == 3)
    await cluster.put(PATH, {"metadata": {"name": "d"}, "spec": "large"})
    await until(lambda: len(kept) == 4)
    task.cancel()
    assert [method for method, _ in cluster.calls] == ["GET", "GET"], "two pages"
    assert [sorted(item) for item in kept] == [["metadata"]] * 4


async def test_a_watch_that_ends_at_once_without_an_event_backs_off() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    async with reflecting(cluster, clock) as seen:
        await until(lambda: cluster.watches == 1)
        await cluster.end_watches()
        await until(lambda: clock.slept)
        assert clock.slept == [0.8]
    assert seen.errors == []


async def test_an_expired_resource_version_lists_again_and_reports_the_changes() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    await cluster.put(PATH, namespace("a"))
    await cluster.put(PATH, namespace("b"))
    async with reflecting(cluster, clock) as seen:
        await until(lambda: cluster.watches == 1)
        cluster.fail("WATCH", PATH, Unreachable("restarting"))
        await cluster.end_watches()
        await cluster.remove(PATH, "a")
        await cluster.put(PATH, namespace("c"))
        cluster.compact()
        await until(lambda: len(seen.states) == 2)
    assert seen.states[1] == (["b", "c"], {"a", "c"})
    assert "Expired" not in "".join(seen.errors), "an expired resourceVersion is no error"


async def test_failures_are_reported_with_growing_backoff() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    await cluster.put(PATH, namespace("a"))
    cluster.fail("GET", PATH, status(403, "Forbidden", "no"), times=3)
    async with reflecting(cluster, clock) as seen:
        await until(lambda: seen.states)
        await cluster.put(PATH, namespace("b"))
        await until(lambda: len(seen.states) == 2)
    assert clock.slept == pytest.approx([0.8, 1.6, 3.2])
    assert seen.errors == ["403 Forbidden: no"] * 3 + ["None"]


async def test_what_can_not_be_used_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    cluster, clock = FakeCluster(), FakeClock()
    answers: list[dict[str, Any]] = [{"items": [{"kind": "Namespace"}]}] * 3

    def answer(_: Any) -> dict[str, Any]:
        found = {"metadata": {"name": "a", "resourceVersion": "100"}}
        return answers.pop() if answers else {"items": [found], "metadata": {"resourceVersion": "100"}}

    cluster.on("GET", PATH, answer)
    async with reflecting(cluster, clock) as seen:
        await until(lambda: seen.states)
    assert seen.states == [(["a"], {"a"})]
    assert seen.errors == [f"422: {PATH}: what was answered can't be used: KeyError('metadata')"] * 3
    assert clock.slept == pytest.approx([0.8, 1.6, 3.2])
    assert caplog.text.count("Traceback") == 1


async def test_after_a_long_interruption_it_lists_at_once() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    await cluster.put(PATH, namespace("a"))
    cluster.fail("WATCH", PATH, Unreachable("restarting"), times=8)
    async with reflecting(cluster, clock) as seen:
        await until(lambda: len(seen.states) == 2)
        assert clock.slept == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    assert [method for method, _ in cluster.calls] == ["GET", "GET"], "once, when more than a minute is over"


async def test_if_only_watch_is_forbidden_it_polls() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.fail("WATCH", PATH, status(403, "Forbidden", "no watch"), times=50)
    async with reflecting(cluster, clock) as seen:
        await until(lambda: len(seen.states) == 3)
    assert clock.slept[:2] == pytest.approx([0.8, 1.6])


@pytest.mark.parametrize(
    ("item", "key"),
    [
        pytest.param({"metadata": {"name": "a", "namespace": "n"}}, "n/a", id="namespaced"),
        pytest.param({"metadata": {"name": "a"}}, "a", id="cluster-scoped"),
    ],
)
def test_key(item: dict[str, Any], key: str) -> None:
    assert key_of(item) == key
