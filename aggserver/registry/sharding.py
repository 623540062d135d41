"""Shard selectors: the parameter `shardSelector` of lists and watches, by which several clients share the objects of a resource.

    shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000') || ...

An object is selected if the FNV-1a hash of its uid or namespace is in one of the ranges. An index (`storage/indexes.py`) has that
hash as the number of an attribute, so that a shard is a slice of it.
Pure. Source: k8s.io/apiserver pkg/sharding/parser.go, k8s.io/apimachinery pkg/sharding/{hash,selector}.go, v0.36.3 (KEP-5866:
alpha there; its feature gate ShardedListAndWatch is always on here).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from aggserver.cel import parser
from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct
from aggserver.cel.errors import CompileError
from aggserver.meta.golang import quote
from aggserver.registry import stored
from aggserver.registry.stored import StoredObject
from aggserver.storage.interface import Corrupt
from aggserver.storage.predicate import AttributeFamily, Lookup, Span

__all__ = ["ShardSelector", "ShardSelectorError", "fnv1a"]

_UID, _NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
_SUPPORTED = f"{_UID}, {_NAMESPACE}"
_HEX = frozenset("0123456789abcdef")
_DIGITS = 16
# 2^64, the end of the last range. No other value may have 17 digits.
_END = "0x10000000000000000"
_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
# The numbers of an index have a sign, and hashes have none.
_LEAST = 1 << 63

# The numbers by which errors of cel-go name kinds of expressions (common/ast/expr.go).
_KINDS = {Call: 1, Comprehension: 2, Ident: 3, List: 4, Literal: 5, Map: 6, Select: 7, Struct: 8}
_GO_TYPES = {
    "int": "int64",
    "uint": "uint64",
    "double": "float64",
    "bool": "bool",
    "bytes": "[]uint8",
    "null": "structpb.NullValue",
}


class ShardSelectorError(ValueError):
    """The selector can't be parsed. Its text is upstream's."""


class _Range(NamedTuple):
    field: str
    start: str
    end: str


class ShardSelector:
    """The ranges of a selector. Immutable; `str()` is the form that lists show."""

    __slots__ = ("_text", "lookup")

    def __init__(self, ranges: list[_Range]) -> None:
        self._text = " || ".join(f"shardRange({field}, '{start}', '{end}')" for field, start, end in ranges)
        family = _BY_UID if ranges[0].field == _UID else _BY_NAMESPACE
        self.lookup: Lookup[StoredObject] = Lookup(family, "", _spans(ranges))

    @staticmethod
    def parse(text: str) -> ShardSelector:
        """Parse a selector. Raises ShardSelectorError."""
        return _parse(text.strip())

    def matches(self, obj: StoredObject) -> bool:
        """Whether an object is in the shard. Raises Corrupt."""
        family = self.lookup.family
        return self.lookup.met_by(family.number_in(family.read(obj), ""))

    def __str__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardSelector) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def fnv1a(text: str) -> int:
    """The 64 bits of FNV-1a, of the text in UTF-8."""
    found = _BASIS
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & _MASK
    return found


def _number(text: str) -> int:
    return fnv1a(text) - _LEAST


def _uid(obj: StoredObject) -> Mapping[str, str]:
    try:
        uid = stored.metadata_of(obj.raw).get("uid")
    except (ValueError, RecursionError) as error:
        raise Corrupt(obj.key, obj.revision, str(error)) from None
    return {"": uid if isinstance(uid, str) else ""}


def _namespace(obj: StoredObject) -> Mapping[str, str]:
    _, _, _, *place, _ = obj.key.split("/")
    return {"": place[0] if place else ""}


_BY_UID, _BY_NAMESPACE = AttributeFamily(_uid, _uid, _number), AttributeFamily(_namespace, _namespace, _number)


def _spans(ranges: list[_Range]) -> tuple[Span, ...]:
    """The ranges, sorted and joined."""
    spans: list[Span] = []
    for first, end in sorted((int(start, 16) - _LEAST, int(end, 16) - _LEAST) for _, start, end in ranges):
        if spans and first <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((first, end))
    return tuple(spans)


@lru_cache(100)
def _parse(text: str) -> ShardSelector:
    if not text:
        raise ShardSelectorError("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    try:
        expression = parser.parse(text)
    except CompileError as error:
        # The message alone, without the place and the picture of it.
        message = str(error).partition("\n")[0].partition("<input>:")[2].split(": ", 1)[-1]
        raise ShardSelectorError(f"CEL parse error: {message}") from None
    ranges = list(_ranges(expression))
    for field, _, _ in ranges:
        if field != ranges[0].field:
            what = f"all shard ranges must use the same field, got {quote(ranges[0].field)} and {quote(field)}"
            raise ShardSelectorError(what)
    return ShardSelector(ranges)


def _ranges(expression: Expr) -> Iterator[_Range]:
    if not isinstance(expression, Call):
        what = f"unexpected expression kind {_kind(expression)}; expected shardRange() call or || operator"
        raise ShardSelectorError(what)
    if expression.function == "_||_":
        for term in expression.args:
            yield from _ranges(term)
        return
    if expression.function != "shardRange":
        what = f"unsupported function {quote(expression.function)}; only shardRange() and || are allowed"
        raise ShardSelectorError(what)
    if len(expression.args) != 3:
        raise ShardSelectorError(f"shardRange() requires exactly 3 arguments, got {len(expression.args)}")
    field, start, end = expression.args
    path = _path(field)
    if path not in (_UID, _NAMESPACE):
        raise ShardSelectorError(f"unsupported field path {quote(path)}; supported: {_SUPPORTED}")
    found = _Range(path, _hex(start, "hexStart"), _hex(end, "hexEnd"))
    if int(found.start, 16) >= int(found.end, 16):
        raise ShardSelectorError(f"shard range start {found.start} must be less than end {found.end}")
    yield found


def _kind(expression: Expr) -> int:
    return _KINDS[type(expression)]


def _path(expression: Expr) -> str:
    fields: list[str] = []
    while isinstance(expression, Select):
        fields.append(expression.field)
        expression = expression.operand
    if not isinstance(expression, Ident):
        what = f"expected field path (e.g. {_UID}), got expression kind {_kind(expression)}"
        raise ShardSelectorError(f"shardRange() first argument: {what}")
    return ".".join([expression.name, *reversed(fields)])


def _hex(expression: Expr, name: str) -> str:
    """A bound, as it is written. Raises ShardSelectorError."""
    if not isinstance(expression, Literal):
        raise ShardSelectorError(f"{name} must be a string literal (e.g. '0xff'), got expression kind {_kind(expression)}")
    text = expression.value
    if not isinstance(text, str):
        raise ShardSelectorError(f"{name} must be a string literal, got {_GO_TYPES[expression.kind]}")
    if not text.startswith("0x"):
        raise ShardSelectorError(f"{name} must have '0x' prefix, got {quote(text)}")
    digits = text[2:]
    if not digits:
        raise ShardSelectorError(f"{name}: hex value is required after '0x'")
    size = len(digits.encode())
    if size > _DIGITS + 1:
        raise ShardSelectorError(f"{name}: hex value too long ({size} chars, max {_DIGITS + 1}): {quote(digits)}")
    for digit in digits:
        if digit not in _HEX:
            raise ShardSelectorError(f"{name}: invalid hex character {quote(digit)} in {quote(text)}")
    if size == _DIGITS + 1 and text != _END:
        raise ShardSelectorError(f"{name}: 17-digit hex value must be '{_END}' (2^64), got {quote(text)}")
    if size < _DIGITS:
        meant = quote("0x" + digits.rjust(_DIGITS, "0"))
        what = f"{name} must be a 0x-prefixed 16-digit hex value, got {quote(text)} (did you mean {meant}?)"
        raise ShardSelectorError(what)
    return text
