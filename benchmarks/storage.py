"""Measures the store and the watch cache: `python benchmarks/storage.py [FOLDER]`. FOLDER is on the disk to measure.

Prints durable writes per second and their latency by number of writers, a list of 10,000 objects from SQLite and from the cache,
the load of a cache, and the cost of an event for 1,000 watches. Values are 2 KB. The figures are those of one run:
repeat it on an idle machine.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from aggserver.storage.cacher import Cacher, CacheWatcher
from aggserver.storage.interface import KeyValue
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage

PREFIX = "/stable.example.com/crontabs/"
VALUE = b"x" * 2048


@dataclass(frozen=True, slots=True)
class Thing:
    key: str
    revision: int
    value: bytes

    @property
    def size(self) -> int:
        return len(self.value)


def make(item: KeyValue) -> Thing:
    return Thing(item.key, item.revision, item.value)


def at(thing: Thing, revision: int) -> Thing:
    return replace(thing, revision=revision)


async def writes(store: SQLiteStorage, writers: int, seconds: float = 2.0) -> None:
    """Half creates, half updates."""
    latencies: list[float] = []
    end = time.perf_counter() + seconds

    async def write(worker: int) -> None:
        number = 0
        while (begin := time.perf_counter()) < end:
            key = f"{PREFIX}default/{writers}-{worker}-{number}"
            revision = await store.create(key, VALUE)
            middle = time.perf_counter()
            await store.update(key, VALUE, revision)
            latencies.append(middle - begin)
            latencies.append(time.perf_counter() - middle)
            number += 1

    await asyncio.gather(*(write(worker) for worker in range(writers)))
    latencies.sort()
    p50, p99 = (1000 * latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
    print(f"writes, {writers:3} writers: {len(latencies) / seconds:8.0f}/s   p50 {p50:.2f} ms   p99 {p99:.2f} ms")


async def lists(store: SQLiteStorage) -> None:
    await asyncio.gather(*(store.create(f"/g.io/foos/default/{n:05}", VALUE) for n in range(10_000)))
    before = await store.revision()
    begin = time.perf_counter()
    page = await store.list("/g.io/foos/")
    print(f"list of {len(page.items)} from SQLite: {1000 * (time.perf_counter() - begin):.1f} ms")
    await asyncio.gather(*(store.update(item.key, VALUE, item.revision) for item in page.items[:1000]))
    begin = time.perf_counter()
    await store.list("/g.io/foos/", revision=before, limit=500)
    print(f"first 500 of them, 1,000 writes ago: {1000 * (time.perf_counter() - begin):.1f} ms")
    begin = time.perf_counter()
    for item in page.items[:1000]:
        await store.get(item.key)
    print(f"get from SQLite: {1000 * (time.perf_counter() - begin):.1f} us")
    cacher = Cacher(store, "/g.io/foos/", make=make, at=at)
    begin = time.perf_counter()
    await cacher.ready()
    print(f"load of a cache of 10,000: {1000 * (time.perf_counter() - begin):.1f} ms")
    begin = time.perf_counter()
    for _ in range(100):
        cacher.list("/g.io/foos/")
    print(f"list of 10,000 from the cache: {10_000 * (time.perf_counter() - begin):.0f} us")
    cacher.close()


async def fan_out(watches: int = 1000, events: int = 200) -> None:
    store = MemoryStorage()
    await store.start()
    cacher = Cacher(store, PREFIX, make=make, at=at)
    seen = 0
    all_have_it = asyncio.Event()

    async def consume(watch: CacheWatcher[Thing]) -> None:
        nonlocal seen
        async for batch in watch:
            seen += len(batch)
            if seen % watches == 0:
                all_have_it.set()

    tasks = [asyncio.create_task(consume(await cacher.watch(PREFIX))) for _ in range(watches)]
    await asyncio.sleep(0)
    inside = 0.0
    begin = time.perf_counter()
    for number in range(events):
        start = time.perf_counter()
        await store.create(f"{PREFIX}default/{number}", VALUE)
        inside += time.perf_counter() - start
        await all_have_it.wait()
        all_have_it.clear()
    whole = time.perf_counter() - begin
    print(
        f"an event to {watches} watches: {1e6 * inside / events:.0f} us to offer, {1e6 * whole / events:.0f} us until all have it"
    )
    cacher.close()
    await asyncio.gather(*tasks)


async def main(folder: Path) -> None:
    store = SQLiteStorage(folder / "benchmark.db")
    await store.start()
    for writers in (1, 8, 16, 64):
        await writes(store, writers)
    await lists(store)
    await store.close()
    await fan_out()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as scratch:
        asyncio.run(main(Path(scratch)))
