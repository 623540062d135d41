import asyncio
from collections.abc import Callable

import pytest

from aggserver.storage import compactor
from aggserver.storage.compactor import LOOK, compact_regularly
from aggserver.storage.interface import Precondition, Unavailable
from aggserver.storage.memory import MemoryStorage


class Recording(MemoryStorage):
    """Records the revisions it is compacted to; `fails` is the number of the call that fails."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.compacted: list[int] = []
        self._fails = fails

    async def compact(self, revision: int) -> None:
        if revision and revision not in self.compacted[-1:]:
            self.compacted.append(revision)
            if len(self.compacted) == self._fails:
                self.compacted.append(-1)
                raise Unavailable("busy")
        await super().compact(revision)


async def run(store: Recording, interval: float, seconds: float, writes: Callable[[float], int], *, bounded: bool = True) -> None:
    """Run `compact_regularly` with a clock that advances when it sleeps; `writes` are made at their times."""
    now = 0.0

    async def sleep(pause: float) -> None:
        nonlocal now
        for _ in range(writes(now)):
            await store.create(f"/g.io/foos/{await store.revision()}", b"")
        now += pause
        if now >= seconds:
            raise asyncio.CancelledError

    await store.start()
    with pytest.raises(asyncio.CancelledError):
        await compact_regularly(store, interval, sleep, bounded=bounded)


async def test_history_is_kept_for_an_interval() -> None:
    store = Recording(fails=2)
    await run(store, 300.0, 1501.0, lambda now: int(now % 300 == 0))
    # Each compaction is to the revision of the previous interval; a failed one is repeated at the next check.
    assert store.compacted == [1, 2, -1, 2, 4, 5]


async def test_a_burst_does_not_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "MOST_EVENTS", 100)
    store = Recording()
    await run(store, 300.0, 4 * LOOK + 1, lambda now: 80)
    assert store.compacted == [61, 141, 221]


async def test_without_an_interval_only_the_number_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compactor, "MOST_EVENTS", 100)
    store = Recording()
    await run(store, 0.0, 3 * 3600.0, lambda now: now == 3600)
    assert store.compacted == []
    await run(store, 0.0, 4 * LOOK, lambda now: 110 if now == 0 else 0)
    assert store.compacted == [12]


async def test_a_gap_is_not_taken_for_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store was advanced, history from before goes only with the writes that come after."""
    monkeypatch.setattr(compactor, "MOST_EVENTS", 100)

    class Advancing(Recording):
        async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
            revision = await super().create(key, value, guard)
            return await self.advance(1_000_000) if revision == 61 else revision

    store = Advancing()
    await run(store, 0.0, 4 * LOOK + 1, lambda now: 60 if now == 0 else 30)
    # Before the gap 60 writes were made, from revision 2 on; with that of the gap there are 61, 91, 121, 151 in all.
    assert store.compacted == [22, 52]


async def test_an_interval_shorter_than_a_look() -> None:
    store = Recording()
    await run(store, 2.0, 7.0, lambda now: 1)
    assert store.compacted == [1, 2, 3]


async def test_in_a_shared_store_who_has_the_turn_compacts_and_the_number_of_writes_is_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compactor, "MOST_EVENTS", 3)

    class Shared(Recording):
        claims = 0

        async def claim_compaction(self, revision: int) -> bool:
            self.claims += 1
            return self.claims % 2 == 0

    store = Shared()
    await run(store, 2.0, 13.0, lambda now: 1, bounded=False)
    assert (store.claims, store.compacted) == (7, [1, 3, 5])
