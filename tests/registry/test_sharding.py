"""The cases of upstream's tests (pkg/sharding/parser_test.go, v0.36.3), with the texts of its errors, and shards of objects."""

from __future__ import annotations

import pytest

from aggserver.meta.errors import StatusError
from aggserver.registry.rest import ListOptions
from aggserver.registry.selection import predicate
from aggserver.registry.sharding import ShardSelector, ShardSelectorError, fnv1a
from aggserver.registry.stored import StoredObject
from tests.registry.world import selection

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
LOW, MIDDLE, HIGH = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"


def shard(field: str = UID, start: str = LOW, end: str = MIDDLE) -> str:
    return f"shardRange({field}, '{start}', '{end}')"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (shard(), shard()),
        (shard(end=HIGH), shard(end=HIGH)),
        (shard(NAMESPACE, "0x00000000000000aa", "0x00000000000000ff"), None),
        (f"{shard()} || {shard(start=MIDDLE, end=HIGH)}", None),
        (" || ".join(shard(end=f"0x000000000000000{digit}") for digit in "5af"), None),
        (f"shardRange({UID},'{LOW}','{MIDDLE}')", shard()),
        (f"  shardRange( {UID} ,  '{LOW}' ,  '{MIDDLE}' )  ", shard()),
        (f'shardRange({UID}, "{LOW}", "{MIDDLE}")', shard()),
    ],
)
def test_parse(text: str, shown: str | None) -> None:
    parsed = ShardSelector.parse(text)
    assert str(parsed) == (shown or text)
    assert ShardSelector.parse(str(parsed)) == parsed


UNSUPPORTED = f"supported: {UID}, {NAMESPACE}"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (" ", "empty shard selector is not allowed; omit the parameter for unfiltered lists"),
        (shard(start="0000000000000000"), """hexStart must have '0x' prefix, got "0000000000000000\""""),
        (shard(end="8000000000000000"), """hexEnd must have '0x' prefix, got "8000000000000000\""""),
        (shard(start="0x"), "hexStart: hex value is required after '0x'"),
        (shard("object.metadata.name"), f'unsupported field path "object.metadata.name"; {UNSUPPORTED}'),
        (shard("object"), f'unsupported field path "object"; {UNSUPPORTED}'),
        (shard("f()"), f"shardRange() first argument: expected field path (e.g. {UID}), got expression kind 1"),
        ("invalidFunc(a, '0x00', '0x80')", 'unsupported function "invalidFunc"; only shardRange() and || are allowed'),
        (shard(start="0x" + 18 * "0"), f'hexStart: hex value too long (18 chars, max 17): "{18 * "0"}"'),
        (shard(start="0x0g"), 'hexStart: invalid hex character "g" in "0x0g"'),
        (shard(start="0xAB"), 'hexStart: invalid hex character "A" in "0xAB"'),
        (shard(end="0x10000000000000001"), f"hexEnd: 17-digit hex value must be '{HIGH}' (2^64), got \"0x10000000000000001\""),
        (f"{shard()} && {shard()}", 'unsupported function "_&&_"; only shardRange() and || are allowed'),
        (f"shardRange({UID}, 0, 8)", "hexStart must be a string literal, got int64"),
        (f"shardRange({UID}, '{LOW}', null)", "hexEnd must be a string literal, got structpb.NullValue"),
        (f"{UID} > '0x0'", 'unsupported function "_>_"; only shardRange() and || are allowed'),
        (UID, "unexpected expression kind 7; expected shardRange() call or || operator"),
        (f"shardRange({UID}, '0x0')", "shardRange() requires exactly 3 arguments, got 2"),
        (f"shardRange({UID}, hex(0), '0x8')", "hexStart must be a string literal (e.g. '0xff'), got expression kind 1"),
        (f"{shard()} || {shard(NAMESPACE)}", f'all shard ranges must use the same field, got "{UID}" and "{NAMESPACE}"'),
        (shard(start="0x0"), f'hexStart must be a 0x-prefixed 16-digit hex value, got "0x0" (did you mean "{LOW}"?)'),
        (shard(start=MIDDLE), f"shard range start {MIDDLE} must be less than end {MIDDLE}"),
        (shard(start=HIGH, end=LOW), f"shard range start {HIGH} must be less than end {LOW}"),
        ("shardRange(", "CEL parse error: Syntax error: mismatched input '<EOF>' expecting"),
    ],
)
def test_invalid(text: str, error: str) -> None:
    with pytest.raises(ShardSelectorError) as refused:
        ShardSelector.parse(text)
    assert str(refused.value).startswith(error)
    assert "\n" not in str(refused.value)


def test_an_invalid_one_is_answered_as_upstream_does() -> None:
    options = ListOptions(selection().labels, selection().fields, shard_selector="no")
    with pytest.raises(StatusError) as refused:
        predicate(options, lambda obj: {})
    assert (refused.value.code, refused.value.reason) == (500, "")
    assert refused.value.message.startswith("invalid shard selector: unexpected expression kind 3;")


@pytest.mark.parametrize(
    ("text", "number"),
    # Of the page of FNV (isthe.com/chongo/tech/comp/fnv), and Go's hash/fnv.
    [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)],
)
def test_hash(text: str, number: int) -> None:
    assert fnv1a(text) == number


def thing(uid: str, namespace: str = "default") -> StoredObject:
    raw = b'{"apiVersion":"g.io/v1","kind":"Foo","metadata":{"resourceVersion":"5","uid":"%b"}}' % uid.encode()
    return StoredObject(f"/g.io/foos/{namespace}/a", raw, 5)


def test_shards_of_a_uid() -> None:
    for number in range(50):
        obj = thing(f"uid-{number}")
        upper = fnv1a(f"uid-{number}") >= 1 << 63
        assert ShardSelector.parse(shard(start=MIDDLE, end=HIGH)).matches(obj) is upper
        assert ShardSelector.parse(shard()).matches(obj) is not upper
        assert ShardSelector.parse(f"{shard()} || {shard(start=MIDDLE, end=HIGH)}").matches(obj)
        exactly = f"0x{fnv1a(f'uid-{number}'):016x}"
        assert not ShardSelector.parse(shard(end=exactly)).matches(obj)
        assert ShardSelector.parse(shard(start=exactly, end=HIGH)).matches(obj)


def test_shards_of_a_namespace() -> None:
    for namespace in ("default", "kube-system", "a"):
        upper = fnv1a(namespace) >= 1 << 63
        assert ShardSelector.parse(shard(NAMESPACE, MIDDLE, HIGH)).matches(thing("x", namespace)) is upper
