"""Random damage of the file: every value that is served is what was written, and everything else is reported as damaged.

Each case is a seed, which always causes the same damage.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from aggserver.storage.interface import Compacted, Event, KeyValue, Storage, StorageError, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME, PAGE_SIZE
from aggserver.storage.sqlite_maintenance import check
from aggserver.storage.sqlite_repair import repair

OBJECTS = 172


class Written:
    """A folder with the file, and its objects and events by revision before the damage."""

    def __init__(self, file: Path, objects: Sequence[KeyValue], events: Sequence[Event]) -> None:
        self.file = file
        self.objects = {item.key: item for item in objects}
        self.events = events


def value(chance: random.Random, name: str) -> bytes:
    size = chance.choice((40, 400, 2000, 9000, 30000))
    return b'{"name":"%b","filler":"%b"}' % (name.encode(), bytes(chance.choices(b"abcdefgh", k=size)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A store with three resources: some objects changed, some deleted, and the oldest history compacted."""

    async def write(path: Path) -> Written:
        store = SQLiteStorage(path)
        await store.start()
        chance = random.Random(1)
        revisions: dict[str, int] = {}
        for number in range(OBJECTS + 20):
            resource = chance.choice(("crontabs", "things", "others"))
            key = f"/stable.example.com/{resource}/namespace-{number % 7}/object-{number}"
            revisions[key] = await store.create(key, value(chance, key))
        await store.compact(100)
        for key in chance.sample(sorted(revisions), 60):
            revisions[key] = await store.update(key, value(chance, key), revisions[key])
        for key in chance.sample(sorted(revisions), 20):
            await store.delete(key, revisions[key])
        page = await store.list("/")
        history = await store.history("/", 100, page.revision, 10_000)
        await store.close()
        assert len(page.items) == OBJECTS
        return Written(path, page.items, history)

    return asyncio.run(write(tmp_path_factory.mktemp("written") / FILE_NAME))


def a_byte(data: bytearray, chance: random.Random) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def some_bytes(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) - 64)
    data[at : at + 64] = chance.randbytes(64)


def a_page_of_zeros(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) // PAGE_SIZE) * PAGE_SIZE
    data[at : at + PAGE_SIZE] = bytes(PAGE_SIZE)


def a_page_of_noise(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data) // PAGE_SIZE) * PAGE_SIZE
    data[at : at + PAGE_SIZE] = chance.randbytes(PAGE_SIZE)


def anothers_page(data: bytearray, chance: random.Random) -> None:
    one, other = (number * PAGE_SIZE for number in chance.sample(range(len(data) // PAGE_SIZE), 2))
    data[one : one + PAGE_SIZE] = data[other : other + PAGE_SIZE]


def the_head_of_a_page(data: bytearray, chance: random.Random) -> None:
    """The part of a page where SQLite keeps the number and positions of its rows."""
    at = chance.randrange(1, len(data) // PAGE_SIZE) * PAGE_SIZE
    data[at + chance.randrange(24)] ^= 1 << chance.randrange(8)


def cut_off(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(1, len(data)) :]


DAMAGES: Sequence[Callable[[bytearray, random.Random], None]] = (
    a_byte,
    some_bytes,
    a_page_of_zeros,
    a_page_of_noise,
    anothers_page,
    the_head_of_a_page,
    cut_off,
)
SEEDS = range(int(os.environ.get("DAMAGE_SEEDS", "12")))


def damaged(written: Written, path: Path, damage: Callable[[bytearray, random.Random], None], seed: int) -> None:
    data = bytearray(written.file.read_bytes())
    damage(data, random.Random(f"{damage.__name__}-{seed}"))
    path.write_bytes(data)


async def reading(path: Path, read: Callable[[Storage], Awaitable[None]]) -> None:
    """Or the file is rejected with one line, which names it."""
    store = SQLiteStorage(path)
    try:
        await store.start()
    except Unavailable as error:
        refused = str(error)
    else:
        try:
            await read(store)
        finally:
            await store.close()
        return
    assert str(path) in refused
    assert "\n" not in refused


def refusal(run: Callable[[], object]) -> str | None:
    try:
        run()
    except StorageError as error:
        return str(error)
    return None


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_what_is_served_is_what_was_written(
    damage: Callable[[bytearray, random.Random], None], seed: int, written: Written, tmp_path: Path
) -> None:
    path = tmp_path / FILE_NAME
    damaged(written, path, damage, seed)
    found = refusal(lambda: check(path, lambda line: None))
    assert found is None or path.name in found
    told = False

    async def read(store: Storage) -> None:
        nonlocal told
        for prefix in ("/stable.example.com/crontabs/", "/stable.example.com/things/", "/stable.example.com/others/", "/"):
            expected = {key: item for key, item in written.objects.items() if key.startswith(prefix)}
            try:
                items = (await store.list(prefix)).items
            except Unavailable:
                told = True
                continue
            assert [item.key for item in items] == sorted(expected)
            for item in items:
                told = told or bool(item.fault)
                assert item.fault or item == expected[item.key]
        try:
            events = await store.history("/", 100, written.events[-1].revision, 10_000)
        except (Compacted, Unavailable):
            told = True
            return
        assert len(events) == len(written.events)
        for event, was in zip(events, written.events, strict=True):
            told = told or bool(event.fault) or bool(event.previous and event.previous.fault)
            same_previous = event.previous == was.previous or (event.previous is not None and event.previous.fault)
            assert event[:2] == was[:2]
            assert same_previous
            assert event.fault or event[:4] == was[:4]

    await reading(path, read)
    assert found or not told


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_a_repair_keeps_what_is_sound_and_names_the_rest(
    damage: Callable[[bytearray, random.Random], None], seed: int, written: Written, tmp_path: Path
) -> None:
    path = tmp_path / FILE_NAME
    damaged(written, path, damage, seed)
    before = path.read_bytes()
    lines: list[str] = []
    done: list[str] = []
    refused = refusal(lambda: done.append(repair(path, lines.append)))
    if refused is not None:
        # Nothing in it can be read: it is not changed, and only a backup helps.
        assert path.name in refused
        assert path.read_bytes() == before
        return
    (line,) = done
    if "nothing to repair" in line:
        return
    assert (tmp_path / f"{FILE_NAME}.damaged").read_bytes() == before
    assert f"the damaged store is kept as {path}.damaged" in line
    assert "is sound" in check(path, lambda line: None)
    store = SQLiteStorage(path)
    await store.start()
    try:
        items = (await store.list("/")).items
        named = {text.removeprefix("removed: ").split(": ")[0] for text in lines if text.startswith("removed: ")}
        for item in items:
            assert item == written.objects[item.key]
        # A key is unknown only if a page of the list of objects and one of the events are both lost.
        known = {item.key for item in items} | named
        assert known >= written.objects.keys() or damage is cut_off or "malformed" in "".join(lines)
        if "put right: 1 " in line and line.endswith("all objects, revisions and history are kept"):
            assert {item.key: item for item in items} == written.objects
            assert await store.history("/", 100, await store.revision(), 10_000) == written.events
        else:
            assert await store.create("/g.io/foos/a", b"{}") > 1_000_000_000
    finally:
        await store.close()
