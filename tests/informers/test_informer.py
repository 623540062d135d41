from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.informers.informer import Informer
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions, ListOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.views import Views
from aggserver.registry.watch import Watch
from aggserver.storage.interface import Compacted
from tests.fakes.clock import until
from tests.registry.world import GROUP, USER, WRITE, World, crontab

SOMEWHERE = Context(USER)


class Appointments:
    """Replaces the event loop's call_later: callbacks run when the test says so."""

    def __init__(self) -> None:
        self.made: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.made.append((seconds, callback))

    @property
    def seconds(self) -> list[float]:
        return [seconds for seconds, _ in self.made]

    def due(self, index: int = -1) -> None:
        self.made[index][1]()


class Controller:
    """calls: name and replicas of every sync, None for a deleted object. answers: what the next syncs return or raise.

    free: while it is not set, a sync does not end.
    """

    def __init__(self, store: Store) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answers: list[float | Exception | None] = []
        self.later = Appointments()
        self.informer = Informer(store, self.sync, self.later)
        self.free = asyncio.Event()
        self.free.set()

    async def sync(self, name: str, obj: JSONObject | None) -> float | None:
        self.calls.append((name, obj and obj["spec"]["replicas"]))
        await self.free.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def told(self, count: int) -> list[tuple[str, Any]]:
        await until(lambda: len(self.calls) >= count)
        # Let further calls happen, which the caller would notice.
        for _ in range(30):
            await asyncio.sleep(0)
        return self.calls


class FailingStore(Store):
    """failures: errors that the next watches raise. lists: errors that the next lists raise."""

    failures: list[Exception]
    lists: list[Exception]

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        if self.failures:
            raise self.failures.pop(0)
        return await super().watch(context, options)

    async def list(self, context: Context, options: ListOptions) -> Any:
        if self.lists:
            raise self.lists.pop(0)
        return await super().list(context, options)


@pytest.fixture
def store(world: World) -> FailingStore:
    plain = world.store(namespaced=False)
    resource = world._resource(False)
    store = FailingStore(resource, plain.strategy, Views(resource, plain.strategy.info, lambda obj: None))
    store.failures, store.lists = [], []
    return store


@asynccontextmanager
async def following(store: Store) -> AsyncIterator[Controller]:
    controller = Controller(store)
    task = asyncio.create_task(controller.informer.run())
    try:
        yield controller
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def create(store: Store, name: str) -> JSONObject:
    return (await store.create(WriteRequest(SOMEWHERE, WRITE), crontab(name))).decoded()


async def scale(store: Store, name: str, replicas: int) -> JSONObject:
    async def transform(obj: JSONObject) -> JSONObject:
        obj["spec"]["replicas"] = replicas
        return obj

    return (await store.update(WriteRequest(SOMEWHERE, WRITE), name, transform)).object.decoded()


async def delete(store: Store, name: str) -> None:
    await store.delete(SOMEWHERE, name, DeleteOptions())


async def test_the_state_and_what_follows(store: FailingStore) -> None:
    await create(store, "a")
    await create(store, "b")
    async with following(store) as controller:
        await controller.informer.caught_up()
        assert controller.calls == [("a", 1), ("b", 1)]
        await scale(store, "a", 2)
        assert await controller.told(3) == [("a", 1), ("b", 1), ("a", 2)]
        await delete(store, "b")
        assert (await controller.told(4))[-1] == ("b", None)
        assert list(controller.informer.objects) == ["a"]


async def test_caught_up_with_nothing(store: FailingStore) -> None:
    async with following(store) as controller:
        await controller.informer.caught_up()
        assert controller.calls == []


async def test_a_failure_counts_as_looked_at(store: FailingStore) -> None:
    await create(store, "a")
    async with following(store) as controller:
        controller.answers = [errors.conflict("", "x", "a", "")]
        await controller.informer.caught_up()
        assert controller.calls == [("a", 1)]


async def test_many_changes_are_one_call(store: FailingStore) -> None:
    async with following(store) as controller:
        await controller.informer.caught_up()
        controller.free.clear()
        await create(store, "a")
        assert await controller.told(1) == [("a", 1)]
        for replicas in (2, 3, 4):
            await scale(store, "a", replicas)
        controller.free.set()
        assert await controller.told(2) == [("a", 1), ("a", 4)]


async def test_failures_wait_longer_each_time(store: FailingStore, caplog: pytest.LogCaptureFixture) -> None:
    async with following(store) as controller:
        controller.answers = [errors.conflict("", "x", "a", "")] * 3 + [ValueError("broken")] * 1500
        await create(store, "a")
        for count in range(1, 1400):
            await until(lambda count=count: len(controller.later.made) == count)
            controller.later.due()
        waited = controller.later.seconds
        assert waited[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]
        assert max(waited) == waited[-1] == 30.0
        # The conflicts before it were not logged.
        assert caplog.messages[0] == "clocks a: broken; trying again in 0.4 s"


async def test_a_success_forgets_the_failures(store: FailingStore) -> None:
    async with following(store) as controller:
        refusal = errors.conflict("", "x", "a", "")
        controller.answers = [refusal, refusal, None, refusal]
        await create(store, "a")
        for count in (1, 2):
            await until(lambda count=count: len(controller.later.made) == count)
            controller.later.due()
        await controller.told(3)
        await scale(store, "a", 2)
        await controller.told(4)
        assert controller.later.seconds == [0.05, 0.1, 0.05]


async def test_a_failure_holds_up_no_other(store: FailingStore) -> None:
    async with following(store) as controller:
        controller.answers = [errors.conflict("", "x", "a", "")]
        await create(store, "a")
        await controller.told(1)
        await create(store, "b")
        assert await controller.told(2) == [("a", 1), ("b", 1)]


async def test_looked_at_again_when_asked(store: FailingStore) -> None:
    async with following(store) as controller:
        controller.answers = [7.5]
        await create(store, "a")
        await controller.told(1)
        assert controller.later.seconds == [7.5]
        controller.later.due()
        assert await controller.told(2) == [("a", 1), ("a", 1)]


async def test_only_the_last_appointment_counts(store: FailingStore) -> None:
    async with following(store) as controller:
        controller.answers = [10.0, 5.0]
        await create(store, "a")
        await controller.told(1)
        await scale(store, "a", 2)
        await controller.told(2)
        controller.later.due(0)
        assert len(await controller.told(2)) == 2
        controller.later.due(1)
        assert len(await controller.told(3)) == 3


async def test_enqueued_by_hand(store: FailingStore) -> None:
    async with following(store) as controller:
        controller.informer.enqueue("x")
        assert await controller.told(1) == [("x", None)]


async def test_what_sync_wrote_is_known_at_once(store: FailingStore) -> None:
    async with following(store) as controller:
        await create(store, "a")
        await controller.told(1)
        newer = await scale(store, "a", 2)
        controller.informer.put_written(newer)
        assert controller.informer.objects["a"]["spec"]["replicas"] == 2
        controller.informer.put_written({**newer, "metadata": {**newer["metadata"], "resourceVersion": "2"}, "spec": {}})
        assert controller.informer.objects["a"] == newer
        await delete(store, "a")
        await until(lambda: "a" not in controller.informer.objects)
        # The watch has delivered the deletion before the writer reports its older write.
        controller.informer.put_written(newer)
        assert controller.informer.objects == {}


async def test_starts_again_after_a_loss(world: World, store: FailingStore, caplog: pytest.LogCaptureFixture) -> None:
    """The events in between were compacted: the informer lists again, and objects that are not in the list were deleted."""
    caplog.set_level(logging.INFO)
    for name in "ab":
        await create(store, name)
    async with following(store) as controller:
        await controller.informer.caught_up()
        cacher = world._resource(False).cacher
        assert cacher._subscription is not None
        cacher._subscription.close()
        await world.storage.delete(f"/{GROUP}/clocks/b", 3)
        await world.storage.update(f"/{GROUP}/clocks/a", codec.encode_json({**crontab("a"), "spec": {"replicas": 2}}), 2)
        await world.storage.compact(5)
        cacher.lost(Compacted(3, 5))
        await until(lambda: ("b", None) in controller.calls)
        await until(lambda: ("a", 2) in controller.calls)
        assert list(controller.informer.objects) == ["a"]
        assert caplog.messages == ["watching clocks again: too old resource version: 3 (5)"]
        # The new watch works.
        await create(store, "c")
        await until(lambda: ("c", 1) in controller.calls)
        assert controller.later.made == []


async def test_starts_again_when_nothing_can_be_read(store: FailingStore) -> None:
    await create(store, "a")
    store.failures = [errors.internal_error("no")] * 2
    store.lists = [errors.internal_error("no")]
    async with following(store) as controller:
        for count in (1, 2, 3):
            await until(lambda count=count: len(controller.later.made) == count)
            assert controller.calls == []
            controller.later.due()
        await controller.informer.caught_up()
        assert controller.later.seconds == [0.05, 0.1, 0.2]
        assert controller.calls == [("a", 1)]


async def test_appointments_by_the_event_loop(store: FailingStore) -> None:
    calls: list[str] = []

    async def sync(name: str, obj: JSONObject | None) -> float | None:
        calls.append(name)
        return 0.0 if len(calls) == 1 else None

    informer = Informer(store, sync)
    task = asyncio.create_task(informer.run())
    informer.enqueue("a")
    await until(lambda: len(calls) == 2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
