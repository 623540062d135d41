"""YAML as the API server reads it: YAML 1.1 of go-yaml v2, converted to JSON values.

PyYAML's parser supplies the events; they are interpreted here, since PyYAML's own interpretation differs: `y` and `on` are
booleans, `1e3` and `0o14` numbers, dates and `1:30` strings, keys become strings, and repeated keys are recorded, not refused.
Only the first of several documents counts, and the rest isn't read. Values are built from libyaml's events directly, in half the
time of a tree of nodes and without its memory; only a text that may have aliases or merges becomes such a tree. Aliases are
copied, up to a limit.

libyaml accepts the same texts as go-yaml, which is a port of it. Parsers in Rust are two to three times as fast, but are for YAML
1.2, and lose quotes, tags and lines, without which `yes`, 0644 and repeated keys can't be treated as upstream does.

Pure.
Source: sigs.k8s.io/yaml v1.6.0 yaml.go; go.yaml.in/yaml/v2 v2.4.3 (yaml.go, decode.go, resolve.go).
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from string import ascii_letters
from typing import Any, NoReturn, TypeAlias

import yaml

from aggserver.meta.golang import INT64_MAX, INT64_MIN, format_float, from_float, quote
from aggserver.meta.json_text import MAX_DEPTH, TOO_DEEP

__all__ = ["WORDS", "YAMLTextError", "decode", "decode_all", "is_no_text"]

# The C parser is ten times as fast; wheels have it, but a build without libyaml does not.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PREFIX = "tag:yaml.org,2002:"
_RESOLVED_TAGS = frozenset({"", *(f"{_PREFIX}{name}" for name in ("str", "bool", "int", "float", "null", "timestamp"))})

# Unquoted words that are not text, with their values.
WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(0[bB][01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
# A scalar that starts with one of these is always text.
_TEXT = frozenset(ascii_letters) - frozenset("yYnNtTfFoO")
_UINT64_MAX = 2**64 - 1

# Finds possible anchors (without which there are no aliases) and merges. UTF-16 always counts, since they look different there.
_REFERS = re.compile(rb"&|<<|\A(?:\xff\xfe|\xfe\xff)")

# The limit for nodes copied by aliases: 99 % of a small document, 10 % of a large one.
_ALIASES_FREE, _NODES_FREE = 100, 1_000
_SMALL, _LARGE = 400_000, 4_000_000


class YAMLTextError(ValueError):
    """The text is not YAML, or can't be converted to JSON. Its text is upstream's."""


@dataclass(slots=True)
class _Scalar:
    value: str
    tag: str
    plain: bool
    line: int


@dataclass(slots=True)
class _Sequence:
    items: list[_Node]
    line: int


@dataclass(slots=True)
class _Mapping:
    pairs: list[tuple[_Node, _Node]]
    line: int


@dataclass(slots=True)
class _Alias:
    name: str
    target: _Node
    line: int
    open: bool = False


_Node: TypeAlias = _Scalar | _Sequence | _Mapping | _Alias


def decode(body: bytes) -> tuple[Any, list[str]]:
    """The value of the first document (None if there is none), and an error text for each repeated key. Raises YAMLTextError."""
    if not _REFERS.search(body):
        return _Reader(body).document()
    with _mapped_errors():
        root = next(_compose(body), None)
    return _evaluate(root)


def decode_all(body: bytes) -> list[Any]:
    """The value of every document. Raises YAMLTextError."""
    with _mapped_errors():
        roots = list(_compose(body))
    return [_evaluate(root)[0] for root in roots]


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except yaml.YAMLError as error:
        raise YAMLTextError(f"yaml: {_problem(error)}") from None


def _evaluate(root: _Node | None) -> tuple[Any, list[str]]:
    decoder = _Decoder()
    value = None if root is None else decoder.value(root, 0)
    return value, decoder.repeated


def _problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(getattr(error, "reason", error))
    line = 0
    if error.problem_mark is not None and error.problem_mark.line:
        # Marks count from 0. The parser's are after the faulty token, which makes up for that; the scanner's are not.
        line = error.problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    elif error.context_mark is not None:
        line = error.context_mark.line
    return (f"line {line}: " if line else "") + (error.problem or "unknown problem parsing YAML content")


def _compose(body: bytes) -> Iterator[_Node]:
    """The documents' roots, each read only when it is asked for."""
    events: Iterator[Any] = yaml.parse(body, Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            root = _node(next(events), events, {}, 1)
            # Read the document's end too, since malformed text after its value is an error.
            next(events)
            yield root


def _node(event: Any, events: Iterator[Any], anchors: dict[str, _Node], depth: int) -> _Node:
    if depth > MAX_DEPTH:
        raise YAMLTextError(TOO_DEEP)
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        name = str(event.anchor)
        target = anchors.get(name)
        if target is None:
            raise _unknown_anchor(name)
        return _Alias(name, target, line)
    node: _Node
    if isinstance(event, yaml.ScalarEvent):
        node = _Scalar(event.value, event.tag or "", event.implicit[0], line)
    elif isinstance(event, yaml.SequenceStartEvent):
        node = _Sequence([], line)
    else:
        node = _Mapping([], line)
    if event.anchor is not None:
        # Recorded before its children, which may refer to it (an error, reported later).
        anchors[event.anchor] = node
    if isinstance(node, _Sequence):
        while not isinstance(child := next(events), yaml.SequenceEndEvent):
            node.items.append(_node(child, events, anchors, depth + 1))
    elif isinstance(node, _Mapping):
        while not isinstance(child := next(events), yaml.MappingEndEvent):
            key = _node(child, events, anchors, depth + 1)
            node.pairs.append((key, _node(next(events), events, anchors, depth + 1)))
    return node


def _unknown_anchor(name: Any) -> YAMLTextError:
    return YAMLTextError(f"yaml: unknown anchor '{name}' referenced")


class _UnfitError(YAMLTextError):
    """YAML that can't be converted to JSON."""


class _Reader:
    """Builds a value directly from events."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._repeated: list[str] = []
        self._next: Any

    def document(self) -> tuple[Any, list[str]]:
        """As `decode`."""
        with _mapped_errors():
            self._next = _LOADER(self._body).get_event
            self._next()
            if type(self._next()) is yaml.StreamEndEvent:
                return None, []
            return self._root(), self._repeated

    def _root(self) -> Any:
        try:
            value = self._value(self._next(), 1)
        except _UnfitError:
            # A YAML error later in the document has priority.
            while type(self._next()) is not yaml.DocumentEndEvent:
                pass
            raise
        # Read the document's end too, since malformed text after its value is an error.
        self._next()
        return value

    def _value(self, event: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise YAMLTextError(TOO_DEEP)
        if type(event) is yaml.ScalarEvent:
            return _value(_scalar(event))
        if type(event) is yaml.MappingStartEvent:
            return self._mapping(depth + 1)
        if type(event) is yaml.AliasEvent:
            raise _unknown_anchor(event.anchor)
        items = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        # The original keys, once one is not text: 1, 1.0 and "1" become the same key, but don't count as repeated.
        seen: set[Any] | None = None
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key = _scalar(event) if type(event) is yaml.ScalarEvent else _refuse_key(self._value(event, depth))
            event = self._next()
            value = _value(_scalar(event)) if type(event) is yaml.ScalarEvent else self._value(event, depth)
            name: Any = key
            identity: Any = key
            known: Any = out
            if seen is not None or type(key) is not str:
                seen = known = set(out) if seen is None else seen
                name, identity = _key(key, value), _identity(key)
            if identity in known:
                self._repeated.append(_repetition(key, event.start_mark.line + 1))
            if seen is not None:
                seen.add(identity)
            out[name] = value
        return out


class _Decoder:
    """Converts nodes to values, and counts how many come from aliases."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._nodes = 0
        self._aliased = 0
        self._alias_depth = 0

    def value(self, node: _Node, depth: int) -> Any:
        return _value(self._any(node, depth))

    def _any(self, node: _Node, depth: int) -> Any:
        self._count(depth)
        if isinstance(node, _Scalar):
            return _resolve(node.value, node.tag, plain=node.plain)
        if isinstance(node, _Sequence):
            return [self.value(item, depth + 1) for item in node.items]
        if isinstance(node, _Mapping):
            out: dict[str, Any] = {}
            self._fill(out, set(), node, depth)
            return out
        with _Opened(self, node):
            return self._any(node.target, depth + 1)

    def _count(self, depth: int) -> None:
        self._nodes += 1
        self._aliased += self._alias_depth > 0
        if (
            self._aliased > _ALIASES_FREE
            and self._nodes > _NODES_FREE
            and self._aliased / self._nodes > _alias_share(self._nodes)
        ):
            raise YAMLTextError("yaml: document contains excessive aliasing")
        if depth > MAX_DEPTH:
            raise YAMLTextError(TOO_DEEP)

    def _fill(self, out: dict[str, Any], seen: set[Any], node: _Mapping, depth: int) -> None:
        for key_node, value_node in node.pairs:
            if isinstance(key_node, _Scalar) and key_node.value == "<<" and (key_node.plain or key_node.tag == f"{_PREFIX}merge"):
                self._merge(out, seen, value_node, depth)
                continue
            key = self._any(key_node, depth + 1)
            if isinstance(key, dict | list):
                _refuse_key(key)
            value = self.value(value_node, depth + 1)
            identity = _identity(key)
            if identity in seen:
                self.repeated.append(_repetition(key, value_node.line))
            seen.add(identity)
            out[_key(key, value)] = value

    def _merge(self, out: dict[str, Any], seen: set[Any], node: _Node, depth: int) -> None:
        # Earlier mappings of a list have priority, so they are merged last. A merge overrides keys before `<<`, not those after.
        sources = reversed(node.items) if isinstance(node, _Sequence) else (node,)
        for source in sources:
            self._count(depth)
            if isinstance(source, _Mapping):
                self._fill(out, seen, source, depth + 1)
            elif isinstance(source, _Alias) and isinstance(source.target, _Mapping):
                with _Opened(self, source):
                    self._count(depth)
                    self._fill(out, seen, source.target, depth + 1)
            else:
                raise YAMLTextError("yaml: map merge requires map or sequence of maps as the value")

    def enter(self, alias: _Alias) -> None:
        if alias.open:
            raise YAMLTextError(f"yaml: anchor '{alias.name}' value contains itself")
        alias.open = True
        self._alias_depth += 1

    def leave(self, alias: _Alias) -> None:
        alias.open = False
        self._alias_depth -= 1


class _Opened:
    """A context in which an alias is being resolved."""

    def __init__(self, decoder: _Decoder, alias: _Alias) -> None:
        self._decoder = decoder
        self._alias = alias

    def __enter__(self) -> None:
        self._decoder.enter(self._alias)

    def __exit__(self, *_: object) -> None:
        self._decoder.leave(self._alias)


def _is_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def _alias_share(nodes: int) -> float:
    if nodes <= _SMALL:
        return 0.99
    if nodes >= _LARGE:
        return 0.10
    return 0.99 - 0.89 * (nodes - _SMALL) / (_LARGE - _SMALL)


def _value(found: Any) -> Any:
    """Convert a decoded scalar or container to a JSON value."""
    if type(found) is float:
        if not math.isfinite(found):
            raise _UnfitError(f"json: unsupported value: {format_float(found)}")
        return from_float(found)
    if type(found) is int and not _is_int64(found):
        return float(found)
    return found


def _refuse_key(key: Any) -> NoReturn:
    raise _UnfitError(f"yaml: invalid map key: {_go_syntax(key)}")


def _identity(key: Any) -> Any:
    """A value that distinguishes keys, since 1, 1.0 and True are equal in Python."""
    return key if type(key) is str else (type(key), key)


def _repetition(key: Any, line: int) -> str:
    return f"line {line}: key {_go_syntax(key)} already set in map"


def _scalar(event: Any) -> str | bool | int | float | None:
    text: str = event.value
    if event.tag is None and (text[:1] in _TEXT or not event.implicit[0]):
        return text
    return _resolve(text, event.tag or "", plain=event.implicit[0])


def _resolve(text: str, tag: str, *, plain: bool) -> str | bool | int | float | None:
    """The value of a scalar; an int may have up to 64 bits unsigned, a float may be infinite."""
    if not tag:
        return _plain(text)[1] if plain else text
    if tag == f"{_PREFIX}binary":
        return _binary(text)
    if tag not in _RESOLVED_TAGS or tag == f"{_PREFIX}str":
        return text
    wanted = tag.removeprefix(_PREFIX)
    actual, found = _plain(text)
    if actual == "str" and _DATE.fullmatch(text):
        actual = "timestamp"
    if actual != wanted and (wanted, actual) != ("float", "int"):
        raise _UnfitError(f"yaml: cannot decode !!{actual} `{text}` as a !!{wanted}")
    return found


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        raise _UnfitError("yaml: !!binary value contains invalid base64 data") from None
    return data.decode("utf-8", "replace")


_TYPES = {bool: "bool", float: "float", type(None): "null"}


def _plain(text: str) -> tuple[str, str | bool | int | float | None]:
    """(short tag, value) of an unquoted scalar, determined by its form."""
    if text in WORDS:
        word = WORDS[text]
        return _TYPES[type(word)], word
    if text[0] not in "+-.0123456789":
        return "str", text
    # Only numbers that start with a digit or a sign may contain underscores.
    number = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(number)
    if integer is not None:
        value = _integer(*integer.groups())
        if _is_int64(value) or (not integer[1] and value <= _UINT64_MAX):
            return "int", value
    if _FLOAT.fullmatch(number):
        found = float(number)
        if math.isfinite(found):
            return "float", found
    return "str", text


def is_no_text(text: str) -> bool:
    """Whether an unquoted scalar is a number, a boolean or null."""
    return _plain(text)[0] != "str"


def _integer(sign: str, hexadecimal: str | None, binary: str | None, octal: str | None, decimal: str | None) -> int:
    if hexadecimal:
        magnitude = int(hexadecimal, 16)
    elif binary:
        magnitude = int(binary, 2)
    elif octal:
        magnitude = int(octal, 8)
    else:
        # A longer one is beyond 64 bits in any case, and int() refuses thousands of digits.
        magnitude = int((decimal or "")[:30])
    return -magnitude if sign == "-" else magnitude


def _key(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and _is_int64(key):
        return str(key)
    if isinstance(key, float):
        return _float_key(key)
    kind, text = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
    raise _UnfitError(f"unsupported map key of type: {kind}, key: {text}, value: {_go_syntax(value, outermost=True)}")


def _float_key(key: float) -> str:
    """The shortest digits that parse to the same 32-bit float, as upstream."""
    packed = _single(key)
    single = struct.unpack("f", packed)[0]
    if not math.isfinite(single):
        return {"+Inf": ".inf", "-Inf": "-.inf"}.get(format_float(single), ".nan")
    # Nine digits distinguish any two 32-bit floats.
    candidates = (float(f"{single:.{precision}g}") for precision in range(1, 10))
    return format_float(next(short for short in candidates if _single(short) == packed))


def _single(value: float) -> bytes:
    try:
        return struct.pack("f", value)
    except OverflowError:
        return struct.pack("f", math.copysign(math.inf, value))


def _go_syntax(value: Any, *, outermost: bool = False) -> str:
    """%#v of a decoded value."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{_go_syntax(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[interface {{}}]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if value is None:
        return "<nil>" if outermost else "interface {}(nil)"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return format_float(value) if isinstance(value, float) else str(value)
