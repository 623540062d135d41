"""Lists, at the newest and at old revisions. Cases of `contract.py`."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.storage.interface import FutureRevision, Storage
from tests.storage.suite import FAR, PODS, A, B, C, Suite, keys

__all__ = ["SUITE"]

SUITE = Suite()


@SUITE.case
async def an_empty_store_lists_nothing(store: Storage) -> None:
    start = await store.revision()
    page = await store.list("/")
    assert (list(page.items), page.more, page.remaining) == ([], False, 0)
    assert page.revision >= start
    assert await store.count("/") == 0
    assert await store.get(A) is None


@SUITE.case
async def list_sorts_by_bytes_of_the_key(store: Storage) -> None:
    names = ["b/a", "a/b", "a-b/c", "a/a", "a.b/c", "aé/a", "a/é", "a\U0001f600/a", "a\uffee/a"]
    for name in names:
        await store.create(PODS + name, b"")
    page = await store.list(PODS)
    assert keys(page.items) == sorted((PODS + name for name in names), key=str.encode)


@SUITE.case
async def list_stays_under_its_prefix(store: Storage) -> None:
    for key in ("/core/pod/a", A, "/core/pods/defaultx/a", "/core/podsx/default/a", "/core/pods0", "/core/pods/default/a/b"):
        await store.create(key, b"")
    assert keys((await store.list(f"{PODS}default/")).items) == [A, "/core/pods/default/a/b"]
    assert await store.count(f"{PODS}default/") == 2
    assert await store.count(PODS) == 3
    assert await store.count("/") == 6


@SUITE.case
async def list_is_at_the_stores_revision_not_its_items(store: Storage) -> None:
    await store.create(A, b"")
    other = await store.create("/g.io/foos/x", b"")
    page = await store.list(PODS)
    assert page.revision >= other
    assert page.items[0].revision < other


@SUITE.case
async def list_in_pages(store: Storage) -> None:
    for name in "abcde":
        await store.create(f"{PODS}default/{name}", name.encode())
    first = await store.list(PODS, limit=2)
    assert (keys(first.items), first.more, first.remaining) == ([A, B], True, 3)
    second = await store.list(PODS, limit=2, start=B + "\0", revision=first.revision)
    assert (keys(second.items), second.more, second.remaining) == ([C, f"{PODS}default/d"], True, 1)
    last = await store.list(PODS, limit=2, start=f"{PODS}default/d\0", revision=first.revision)
    assert (keys(last.items), last.more, last.remaining) == ([f"{PODS}default/e"], False, 0)
    exact = await store.list(PODS, limit=5)
    assert (len(exact.items), exact.more, exact.remaining) == (5, False, 0)
    for revision in (0, first.revision):
        uncounted = await store.list(PODS, revision=revision, limit=2, counted=False)
        assert (keys(uncounted.items), uncounted.more) == ([A, B], True)


@SUITE.case
async def list_starts_at_a_key_inclusive_and_never_before_the_prefix(store: Storage) -> None:
    await store.create("/core/nodes/a", b"")
    for key in (A, B):
        await store.create(key, b"")
    assert keys((await store.list(PODS, start=B)).items) == [B]
    assert keys((await store.list(PODS, start="/")).items) == [A, B]
    assert keys((await store.list(PODS, start="/z")).items) == []


@SUITE.case
async def list_at_an_old_revision_shows_the_state_then(store: Storage) -> None:
    states: dict[int, dict[str, bytes]] = {await store.revision(): {}}
    heads: dict[str, int] = {}
    state: dict[str, bytes] = {}
    script = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", None), ("a", None), ("a", b"5"), ("b", b"6"), ("a", b"7")]
    for name, value in script:
        key = f"{PODS}default/{name}"
        if value is None:
            revision = await store.delete(key, heads.pop(key))
            del state[key]
        else:
            at = heads.get(key)
            revision = await (store.update(key, value, at) if at else store.create(key, value))
            heads[key], state[key] = revision, value
        states[revision] = dict(state)
    for revision, expected in states.items():
        page = await store.list(PODS, revision=revision)
        assert {item.key: item.value for item in page.items} == expected
        assert keys(page.items) == sorted(expected)
        assert all(item.create_revision <= item.revision <= revision for item in page.items)
        assert page.revision == revision
        for limit in (1, 2):
            part = await store.list(PODS, revision=revision, limit=limit)
            assert keys(part.items) == sorted(expected)[:limit]
            assert (part.more, part.remaining) == (len(expected) > limit, max(0, len(expected) - limit))


@SUITE.case
async def a_paged_list_is_consistent_while_writes_go_on(store: Storage) -> None:
    for name in "abcd":
        await store.create(f"{PODS}default/{name}", b"old")
    first = await store.list(PODS, limit=2)
    await store.create(f"{PODS}default/bb", b"new")
    current = await store.get(C)
    assert current is not None
    await store.update(C, b"new", current.revision)
    gone = await store.get(f"{PODS}default/d")
    assert gone is not None
    await store.delete(gone.key, gone.revision)
    rest = await store.list(PODS, start=B + "\0", revision=first.revision)
    assert [(item.key, item.value) for item in rest.items] == [(C, b"old"), (gone.key, b"old")]


@SUITE.case
async def list_in_the_future_is_refused(store: Storage) -> None:
    revision = await store.create(A, b"")
    with pytest.raises(FutureRevision) as refused:
        await store.list(PODS, revision=revision + FAR)
    assert refused.value.revision == revision + FAR
    assert revision <= refused.value.current < revision + FAR


@SUITE.case
async def count_follows_creations_and_deletions(store: Storage) -> None:
    first = await store.create(A, b"")
    await store.create(B, b"")
    await store.update(A, b"2", first)
    assert await store.count(PODS) == 2
    current = await store.get(B)
    assert current is not None
    await store.delete(B, current.revision)
    assert (await store.count(PODS), await store.count(f"{PODS}other/")) == (1, 0)


@SUITE.case
async def a_list_after_a_write_has_it(store: Storage) -> None:
    """And its revision is not older than the write's."""

    async def write(name: str) -> None:
        key = f"{PODS}default/{name}"
        written = await store.create(key, b"")
        page = await store.list(PODS)
        assert page.revision >= written
        assert key in keys(page.items)

    await asyncio.gather(*(write(str(number)) for number in range(20)))


@SUITE.case
async def a_list_starts_anywhere(store: Storage) -> None:
    """A start between keys, after the last one, and at a key that was deleted after the list's revision."""
    for key in (A, B, C):
        await store.create(key, b"")
    gone = await store.get(B)
    assert gone is not None
    deleted = await store.delete(B, gone.revision)
    assert keys((await store.list(PODS, start=B, limit=1)).items) == [C]
    assert keys((await store.list(PODS, start=B, limit=1, revision=gone.revision)).items) == [B]
    assert keys((await store.list(PODS, start=A + "\0", revision=deleted)).items) == [C]
    behind = await store.list(PODS, start=C + "\0", limit=1)
    assert (list(behind.items), behind.more, behind.remaining) == ([], False, 0)
