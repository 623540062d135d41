from __future__ import annotations

from typing import Any

import pytest

from aggserver.registry.rest import ListResult
from aggserver.registry.sharding import fnv1a
from aggserver.registry.store import Store
from aggserver.storage import indexes
from aggserver.storage.keys import decode_continue, encode_continue
from tests.registry.world import GROUP, World, after, change, context, create, delete, refused, selection

PREFIX = f"/{GROUP}/crontabs/default/"
# Shards: of the uid of `c`, the third that `World` makes, and of the namespace `other`.
OF_C, OTHERS = (
    f"shardRange(object.metadata.{field}, '0x{fnv1a(value):016x}', '0x{fnv1a(value) + 1:016x}')"
    for field, value in (("uid", "uid-3"), ("namespace", "other"))
)


@pytest.fixture
async def five(store: Store) -> Store:
    """a to e in `default`, at the revisions 2 to 6; f in `other`, at 7."""
    for number, name in enumerate("abcde"):
        color = "red" if number % 2 else "blue"
        await create(store, name, metadata={"labels": {"n": str(number)}}, spec={"color": color})
    await create(store, "f", namespace="other", spec={"color": "red"})
    return store


def names(found: ListResult) -> str:
    return "".join(obj.decoded()["metadata"]["name"] for obj in found.items)


async def listed(store: Store, namespace: str = "default", **options: Any) -> ListResult:
    return await store.list(context(namespace), selection(**options))


# --- selectors ---

SELECTED: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "abcde"),
    "all namespaces": ({"namespace": ""}, "abcdef"),
    "another namespace": ({"namespace": "other"}, "f"),
    "a namespace that is not there": ({"namespace": "none"}, ""),
    "labels": ({"labels": "n in (1,3)"}, "bd"),
    "other labels": ({"labels": "n notin (1,3)", "namespace": ""}, "acef"),
    "some label": ({"labels": "n", "namespace": ""}, "abcde"),
    "no such label": ({"labels": "!n", "namespace": ""}, "f"),
    "a greater label": ({"labels": "n>2", "namespace": ""}, "de"),
    "two labels": ({"labels": "n,n!=1"}, "acde"),
    "not a field": ({"fields": "spec.color!=red"}, "ace"),
    "an unset field or another": ({"fields": "spec.color!="}, "abcde"),
    "a shard": ({"shard_selector": OF_C, "namespace": ""}, "c"),
    "a shard of namespaces": ({"shard_selector": OTHERS, "namespace": ""}, "f"),
    "a shard and a label": ({"shard_selector": OTHERS, "labels": "n", "namespace": ""}, ""),
    "a shard and a field": ({"shard_selector": OTHERS, "fields": "spec.color=red", "namespace": ""}, "f"),
    "a name": ({"fields": "metadata.name=c"}, "c"),
    "a name in any namespace": ({"fields": "metadata.name=f", "namespace": ""}, "f"),
    "a name that is not there": ({"fields": "metadata.name=x"}, ""),
    "not a name": ({"fields": "metadata.name!=c"}, "abde"),
    "a name that can't be": ({"fields": "metadata.name=a/b"}, ""),
    "a namespace": ({"fields": "metadata.namespace=other", "namespace": ""}, "f"),
    "the wrong namespace": ({"fields": "metadata.namespace=other"}, ""),
    "a selectable field": ({"fields": "spec.color=red"}, "bd"),
    "a field and a label": ({"fields": "spec.color=red", "labels": "n=3"}, "d"),
    "a name and another label": ({"fields": "metadata.name=c", "labels": "n=3"}, ""),
    "an unset field": ({"fields": "spec.color="}, ""),
}


@pytest.fixture(params=["looked up", "looked at"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether objects that match are looked up in an index, or every object is looked at."""
    if request.param == "looked up":
        monkeypatch.setattr(indexes, "SMALLEST", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("case", SELECTED)
async def test_selected(five: Store, case: str) -> None:
    options, expected = SELECTED[case]
    found = await listed(five, **options)
    assert (names(found), int(found.resource_version), found.continue_token) == (expected, 7, "")


async def test_fields_of_a_cluster_scoped_resource(world: World) -> None:
    store = world.store(namespaced=False)
    for name in "ab":
        await create(store, name, namespace="")
    assert names(await listed(store, "", fields="metadata.name=a")) == "a"
    assert names(await listed(store, "", fields="metadata.namespace=clocks")) == ""


async def test_a_changed_object_is_selected_by_what_it_is(five: Store) -> None:
    assert names(await listed(five, fields="spec.color=red")) == "bd"
    await change(five, "b", lambda obj: obj["spec"].update(color="green"))
    assert names(await listed(five, fields="spec.color=red")) == "d"


# --- pages ---


async def test_pages(five: Store) -> None:
    first = await listed(five, limit=2)
    assert (names(first), first.remaining, int(first.resource_version)) == ("ab", 3, 7)
    assert decode_continue(first.continue_token, PREFIX) == (f"{PREFIX}b\0", 7)
    second = await listed(five, limit=2, continue_token=first.continue_token)
    assert (names(second), second.remaining, int(second.resource_version)) == ("cd", 1, 7)
    last = await listed(five, limit=2, continue_token=second.continue_token)
    assert (names(last), last.remaining, last.continue_token) == ("e", None, "")


async def test_pages_are_of_one_moment(five: Store) -> None:
    first = await listed(five, limit=2)
    await delete(five, "c")
    await create(five, "cc")
    await change(five, "d", lambda obj: obj["spec"].update(color="green"))
    rest = await listed(five, continue_token=first.continue_token)
    assert (names(rest), int(rest.resource_version)) == ("cde", 7)
    assert rest.items[1].decoded()["spec"] == {"color": "red"}


async def test_a_token_of_all_namespaces(five: Store) -> None:
    first = await listed(five, "", limit=4)
    assert names(await listed(five, "", continue_token=first.continue_token)) == "ef"


async def test_nothing_is_known_of_the_rest_of_a_selection(five: Store) -> None:
    found = await listed(five, labels="n in (1,3)", limit=1)
    assert (names(found), found.remaining) == ("b", None)
    assert names(await listed(five, labels="n in (1,3)", limit=1, continue_token=found.continue_token)) == "d"


async def test_continue_after_compaction(world: World, five: Store) -> None:
    """After a long pause, the revision is neither in the watch cache nor in the storage, which has compacted it."""
    first = await listed(five, limit=2)
    await create(five, "bb")
    await create(five, "cc")
    await world.storage.compact(8)
    fresh = world.restarted()
    error = await refused(listed(fresh, limit=2, continue_token=first.continue_token))
    assert (error.code, error.reason) == (410, "Expired")
    assert error.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    assert decode_continue(error.continue_token, PREFIX) == (f"{PREFIX}b\0", -1)
    assert error.status()["metadata"] == {"continue": error.continue_token}
    # The remainder as it is now: it has objects that were created meanwhile, if they sort behind the token's key.
    rest = await listed(fresh, limit=3, continue_token=error.continue_token)
    assert (names(rest), int(rest.resource_version), rest.remaining) == ("bbccc", 9, 2)


async def test_a_compacted_revision_expires_though_the_cache_remembers(world: World, five: Store) -> None:
    first = await listed(five, limit=2)
    await create(five, "bb")
    await change(five, "c", lambda obj: obj["spec"].update(color="green"))
    await world.storage.compact(7)
    rest = await listed(five, continue_token=first.continue_token)
    assert (names(rest), int(rest.resource_version)) == ("cde", 7)
    assert rest.items[0].decoded()["spec"] != {"color": "green"}
    await world.storage.compact(8)
    error = await refused(listed(five, limit=2, continue_token=first.continue_token))
    assert (error.code, error.reason) == (410, "Expired")
    rest = await listed(five, continue_token=error.continue_token)
    assert (names(rest), int(rest.resource_version)) == ("bbcde", 9)
    exact = await refused(listed(five, resource_version="7", resource_version_match="Exact"))
    assert (exact.code, exact.reason) == (410, "Expired")
    assert names(await listed(five, resource_version="8", resource_version_match="Exact")) == "abbbcde"


BAD_TOKENS: dict[str, tuple[dict[str, Any], str]] = {
    "no base64": (
        {"continue_token": "?"},
        "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
    ),
    "with a resourceVersion": (
        {"continue_token": encode_continue("b\0", 7), "resource_version": "7"},
        "specifying resource version is not allowed when using continue",
    ),
    "out of the prefix": (
        {"continue_token": encode_continue("../other/f", 7)},
        "invalid continue token: continue key is not valid: ../other/f",
    ),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
async def test_bad_tokens(five: Store, case: str) -> None:
    options, message = BAD_TOKENS[case]
    error = await refused(listed(five, **options))
    assert (error.code, error.message) == (400, message)


# --- resourceVersion ---

# After five, `a` is deleted (8) and `b` is changed (9).
VERSIONS: dict[str, tuple[dict[str, Any], str, int, bool]] = {
    "unset": ({}, "bcde", 9, False),
    "unset with a limit": ({"limit": 2}, "bc", 9, True),
    "0": ({"resource_version": "0"}, "bcde", 9, False),
    "0 takes no limit": ({"resource_version": "0", "limit": 2}, "bcde", 9, False),
    "not older than": ({"resource_version": "3", "resource_version_match": "NotOlderThan"}, "bcde", 9, False),
    "not older than, with a limit": (
        {"resource_version": "3", "resource_version_match": "NotOlderThan", "limit": 2},
        "bc",
        9,
        True,
    ),
    "a number is not older than": ({"resource_version": "3"}, "bcde", 9, False),
    "a number with a limit is exact": ({"resource_version": "7", "limit": 2}, "ab", 7, True),
    "exact": ({"resource_version": "5", "resource_version_match": "Exact"}, "abcd", 5, False),
    "exact, with a selector": (
        {"resource_version": "7", "resource_version_match": "Exact", "fields": "metadata.name=a"},
        "a",
        7,
        False,
    ),
    "exact, before everything": ({"resource_version": "1", "resource_version_match": "Exact"}, "", 1, False),
}


@pytest.mark.parametrize("case", VERSIONS)
async def test_resource_versions(five: Store, case: str) -> None:
    options, expected, revision, more = VERSIONS[case]
    await delete(five, "a")
    await change(five, "b", lambda obj: obj["spec"].update(color="green"))
    found = await listed(five, **options)
    assert (names(found), int(found.resource_version), bool(found.continue_token)) == (expected, revision, more)


async def test_exactly_at_a_forgotten_revision(world: World, five: Store) -> None:
    await world.storage.compact(7)
    error = await refused(listed(five, resource_version="3", resource_version_match="Exact"))
    assert (error.code, error.reason) == (410, "Expired")
    assert error.message == "The resourceVersion for the provided list is too old."
    assert error.continue_token == ""


FUTURE: dict[str, dict[str, Any]] = {
    "not older than": {"resource_version": "99", "resource_version_match": "NotOlderThan"},
    "a number": {"resource_version": "99"},
    "exact": {"resource_version": "99", "resource_version_match": "Exact"},
}


@pytest.mark.parametrize("case", FUTURE)
async def test_of_the_future(five: Store, case: str) -> None:
    error = await refused(after(4, listed(five, **FUTURE[case])))
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Timeout: Too large resource version: 99, current: 7",
        "reason": "Timeout",
        "details": {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
        "code": 504,
    }


async def test_get_of_the_future(five: Store) -> None:
    assert (await refused(after(4, five.get(context(), "a", "99")))).code == 504


async def test_get_by_resource_version(five: Store) -> None:
    for version in ("", "0", "3", "7"):
        assert (await five.get(context(), "a", version)).revision == 2


async def test_malformed_resource_versions(five: Store) -> None:
    why = 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax'
    error = await refused(listed(five, resource_version="abc"))
    assert (error.code, error.message) == (400, f"invalid resource version: {why}")
    error = await refused(five.get(context(), "a", "abc"))
    assert (error.code, error.reason, error.message) == (500, "", why)


async def test_what_another_writer_wrote_is_read(world: World, five: Store) -> None:
    """Another replica of the server writes to the same storage."""
    await listed(five)
    key = f"{PREFIX}z"
    await world.storage.create(key, b'{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{"name":"z"}}')
    assert names(await listed(five)) == "abcdez"
    assert (await five.get(context(), "z")).revision == 8


async def test_count(five: Store) -> None:
    assert await five.count(context()) == 5
    assert await five.count(context("")) == 6


async def test_closed(five: Store) -> None:
    await listed(five)
    five._cacher.close()
    assert (await refused(listed(five))).code == 500
