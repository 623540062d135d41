"""YAML as the API server reads it: YAML 1.1 of go-yaml v2, converted to JSON values.

PyYAML's parser supplies the events; they are interpreted here, since PyYAML's own interpretation differs: `y` and `on` are
booleans, `1e3` and `0o14` numbers, dates and `1:30` strings, keys become strings, and repeated keys are recorded, not refused.
Only the first of several documents counts, and the rest isn't read. Values are built from libyaml's events directly; only a text
that may have aliases or merges is written to a tape first, from which an anchored node can be read again. Aliases are copied, up
to a limit.

libyaml accepts the same texts as go-yaml, which is a port of it. Parsers in Rust are two to three times as fast, but are for YAML
1.2, and lose quotes, tags and lines, without which `yes`, 0644 and repeated keys can't be treated as upstream does.

Pure.
Source: sigs.k8s.io/yaml v1.6.0 yaml.go; go.yaml.in/yaml/v2 v2.4.3 (yaml.go, decode.go).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from aggserver.meta import yaml_bounds
from aggserver.meta.json_text import MAX_DEPTH, TOO_DEEP
from aggserver.meta.yaml_scalars import (
    MERGE_TAG,
    TEXT,
    ScalarError,
    YAMLTextError,
    identity,
    json_value,
    key_text,
    refuse_key,
    repetition,
    resolve,
)

__all__ = ["YAMLTextError", "decode", "decode_all"]

# The C parser is ten times as fast; wheels have it, but a build without libyaml does not.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# How many nodes aliases may copy: up to 99 % of all nodes of a small document, falling to 10 % of a large one.
_ALIASES_FREE, _NODES_FREE = 100, 1_000
_SMALL, _LARGE = 400_000, 4_000_000
# The most bytes that aliases may copy: as many as a body may have. Upstream counts only nodes, so that a kilobyte with a long
# string may become megabytes. Each node counts for some bytes of its own, since a copied `{}` takes memory too.
_MAX_COPIED_BYTES = 3 * 1024 * 1024
_NODE_BYTES = 8

# The most mappings and sequences of a document. Four bytes of text can be one, which takes some 200 bytes of memory; manifests
# have one in fifty bytes.
_MAX_CONTAINERS = 300_000

# The most characters of all complaints about repeated keys: some thousand complaints. Upstream has no limit.
_MAX_COMPLAINTS = 256 * 1024


def decode(body: bytes) -> tuple[Any, list[str]]:
    """The value of the first document (None if there is none), and an error text for each repeated key. Raises YAMLTextError."""
    if why := yaml_bounds.problem(body):
        raise YAMLTextError(f"yaml: {why}")
    if not _refers(body):
        return _Reader(body).document()
    with _mapped_errors():
        tape = next(_tapes(body), None)
    return (None, []) if tape is None else _Decoder(tape).document()


def decode_all(body: bytes) -> list[Any]:
    """The value of every document of a file. Raises YAMLTextError."""
    with _mapped_errors():
        tapes = list(_tapes(body))
    return [_Decoder(tape).document()[0] for tape in tapes]


def _refers(body: bytes) -> bool:
    """Whether there may be anchors (without which there are no aliases) or merges; always True in UTF-16."""
    return b"&" in body or b"<<" in body or body.startswith((b"\xff\xfe", b"\xfe\xff"))


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except yaml.YAMLError as error:
        raise YAMLTextError(f"yaml: {_problem(error)}") from None


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


def _check_prefixes(start: Any) -> None:
    if why := yaml_bounds.prefix_problem(start.tags):
        raise YAMLTextError(f"yaml: {why}")


def _unknown_anchor(name: Any) -> YAMLTextError:
    return YAMLTextError(f"yaml: unknown anchor '{name}' referenced")


def _too_many_containers() -> YAMLTextError:
    return YAMLTextError(f"yaml: more than {_MAX_CONTAINERS} mappings and sequences")


def _scalar(event: Any) -> str | bool | int | float | None:
    text: str = event.value
    if event.tag is None and (text[:1] in TEXT or not event.implicit[0]):
        return text
    return resolve(text, event.tag or "", plain=event.implicit[0])


class _Stream:
    """A text as a file, of which libyaml reads 16 KB at a time. In each of these calls Python can let other threads run.

    Given the text as bytes, libyaml would hold the GIL for a tenth of a second to read a scalar of three megabytes.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def read(self, size: int = -1, /) -> bytes:
        start = self._at
        self._at = len(self._body) if size < 0 else start + size
        return self._body[start : self._at]


class _Complaints(list[str]):
    """Errors of repeated keys, up to _MAX_COMPLAINTS characters."""

    def __init__(self) -> None:
        super().__init__()
        self._room = _MAX_COMPLAINTS

    def add(self, key: Any, line: int) -> None:
        if self._room > 0:
            self.append(repetition(key, line))
            self._room -= len(self[-1])


class _Reader:
    """Builds a value directly from events."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._repeated = _Complaints()
        self._room = _MAX_CONTAINERS
        self._next: Any

    def document(self) -> tuple[Any, list[str]]:
        """As `decode`."""
        with _mapped_errors():
            self._next = _LOADER(_Stream(self._body)).get_event
            self._next()
            start = self._next()
            if type(start) is yaml.StreamEndEvent:
                return None, []
            _check_prefixes(start)
            return self._root(), self._repeated

    def _root(self) -> Any:
        try:
            value = self._value(self._next(), 1)
        except ScalarError:
            self._pass_over()
            raise
        # Read the document's end too, since malformed text after its value is an error.
        self._next()
        return value

    def _pass_over(self) -> None:
        """Read the rest of the document, since a YAML error later in it has priority."""
        depth = 0
        while type(event := self._next()) is not yaml.DocumentEndEvent:
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                # libyaml looks at each open bracket again for each token.
                if depth > MAX_DEPTH:
                    raise YAMLTextError(TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif type(event) is yaml.AliasEvent:
                raise _unknown_anchor(event.anchor)

    def _value(self, event: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise YAMLTextError(TOO_DEEP)
        if type(event) is yaml.ScalarEvent:
            return json_value(_scalar(event))
        if type(event) is yaml.AliasEvent:
            raise _unknown_anchor(event.anchor)
        self._room -= 1
        if self._room < 0:
            raise _too_many_containers()
        if type(event) is yaml.MappingStartEvent:
            return self._mapping(depth + 1)
        items = []
        while type(event := self._next()) is not yaml.SequenceEndEvent:
            items.append(self._value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        # The original keys, once one is not text: 1, 1.0 and "1" become the same key, but don't count as repeated.
        seen: set[Any] | None = None
        while type(event := self._next()) is not yaml.MappingEndEvent:
            key = _scalar(event) if type(event) is yaml.ScalarEvent else refuse_key(self._value(event, depth))
            event = self._next()
            value = json_value(_scalar(event)) if type(event) is yaml.ScalarEvent else self._value(event, depth)
            name: Any = key
            distinct: Any = key
            known: Any = out
            if seen is not None or type(key) is not str:
                seen = known = set(out) if seen is None else seen
                name, distinct = key_text(key, value), identity(key)
            if distinct in known:
                self._repeated.add(key, event.start_mark.line + 1)
            if seen is not None:
                seen.add(distinct)
            out[name] = value
        return out


# The entries of a tape that are no values of scalars.
_SEQUENCE, _MAPPING, _END, _MERGE = (object() for _ in range(4))


class _Tagged:
    """A scalar with a tag, which may not fit its text. It is resolved late, since errors of YAML's syntax have priority."""

    __slots__ = ("plain", "tag", "text")

    def __init__(self, event: Any) -> None:
        self.text, self.tag, self.plain = event.value, event.tag, event.implicit[0]


class _Anchor:
    """A node with an anchor. start: where it begins on the tape. open: it is being read, so an alias for it is an error."""

    __slots__ = ("name", "open", "start")

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start, self.open = name, start, False


class _Tape:
    """The nodes of a document in order, a few bytes for each: as a tree, 3 MB of text would take a hundred megabytes.

    A container is followed by its children (for a mapping, keys and values in turn) and _END; an alias is its _Anchor.
    ends: for each node, the position of the entry after it.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.lines = array("I")
        self.ends = array("I")


def _tapes(body: bytes) -> Iterator[_Tape]:
    """The documents, each read only when it is asked for."""
    events: Iterator[Any] = yaml.parse(_Stream(body), Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            _check_prefixes(event)
            # With the document's end too, since malformed text after its value is an error.
            yield _taped(events)


def _taped(events: Iterator[Any]) -> _Tape:
    tape = _Tape()
    entries, lines, ends = tape.entries, tape.lines, tape.ends
    anchors: dict[str, _Anchor] = {}
    opened: list[int] = []
    room = _MAX_CONTAINERS
    for event in events:
        kind = type(event)
        if kind is yaml.DocumentEndEvent:
            break
        ends.append(len(entries) + 1)
        lines.append(event.start_mark.line + 1)
        if isinstance(event, yaml.CollectionEndEvent):
            entries.append(_END)
            ends[opened.pop()] = len(entries)
            continue
        if len(opened) >= MAX_DEPTH:
            raise YAMLTextError(TOO_DEEP)
        if kind is yaml.AliasEvent:
            if event.anchor not in anchors:
                raise _unknown_anchor(event.anchor)
            entries.append(anchors[event.anchor])
            continue
        if event.anchor is not None:
            # Recorded before its children are read: an alias among them for this node is an error, reported later.
            anchors[event.anchor] = _Anchor(event.anchor, len(entries))
        if kind is yaml.ScalarEvent:
            entries.append(_scalar_entry(event))
        else:
            room -= 1
            if room < 0:
                raise _too_many_containers()
            opened.append(len(entries))
            entries.append(_SEQUENCE if kind is yaml.SequenceStartEvent else _MAPPING)
    return tape


def _scalar_entry(event: Any) -> Any:
    if event.value == "<<" and (event.implicit[0] or event.tag == MERGE_TAG):
        return _MERGE
    return _scalar(event) if event.tag is None else _Tagged(event)


class _Decoder:
    """Converts a tape to values, and counts how much of them comes from aliases. Each method reads on from `_at`."""

    def __init__(self, tape: _Tape) -> None:
        self._entries, self._lines, self._ends = tape.entries, tape.lines, tape.ends
        self._at = 0
        self._repeated = _Complaints()
        self._nodes = 0
        self._aliased = 0
        self._copied_bytes = 0
        self._alias_depth = 0

    def document(self) -> tuple[Any, list[str]]:
        """As `decode`."""
        return self._value(0), self._repeated

    def _value(self, depth: int) -> Any:
        return json_value(self._any(depth))

    def _any(self, depth: int) -> Any:
        entry = self._entries[self._at]
        self._at += 1
        self._count(depth, entry)
        if entry is _SEQUENCE:
            items = []
            while self._entries[self._at] is not _END:
                items.append(self._value(depth + 1))
            self._at += 1
            return items
        if entry is _MAPPING:
            out: dict[str, Any] = {}
            self._fill(out, set(), depth)
            return out
        if type(entry) is _Anchor:
            with _Opened(self, entry):
                return self._any(depth + 1)
        if type(entry) is _Tagged:
            return resolve(entry.text, entry.tag, plain=entry.plain)
        return "<<" if entry is _MERGE else entry

    def _count(self, depth: int, entry: Any) -> None:
        self._nodes += 1
        if self._alias_depth:
            self._aliased += 1
            self._copied_bytes += _NODE_BYTES + _size(entry)
            if self._copied_bytes > _MAX_COPIED_BYTES or (
                self._aliased > _ALIASES_FREE
                and self._nodes > _NODES_FREE
                and self._aliased / self._nodes > _alias_share(self._nodes)
            ):
                raise YAMLTextError("yaml: document contains excessive aliasing")
        if depth > MAX_DEPTH:
            raise YAMLTextError(TOO_DEEP)

    def _fill(self, out: dict[str, Any], seen: set[Any], depth: int) -> None:
        """Read the pairs of a mapping, and its end."""
        entries = self._entries
        while (entry := entries[self._at]) is not _END:
            if entry is _MERGE:
                self._at += 1
                self._merge(out, seen, depth)
                continue
            key = self._any(depth + 1)
            if isinstance(key, dict | list):
                refuse_key(key)
            line = self._lines[self._at]
            value = self._value(depth + 1)
            distinct = identity(key)
            if distinct in seen:
                self._repeated.add(key, line)
            seen.add(distinct)
            out[key_text(key, value)] = value
        self._at += 1

    def _merge(self, out: dict[str, Any], seen: set[Any], depth: int) -> None:
        # Earlier mappings of a list have priority, so they are merged last. A merge overrides keys before `<<`, not those after.
        if self._entries[self._at] is not _SEQUENCE:
            self._merge_one(out, seen, depth)
            return
        at = self._at + 1
        starts = []
        while self._entries[at] is not _END:
            starts.append(at)
            at = self._ends[at]
        for start in reversed(starts):
            self._at = start
            self._merge_one(out, seen, depth)
        self._at = at + 1

    def _merge_one(self, out: dict[str, Any], seen: set[Any], depth: int) -> None:
        entry = self._entries[self._at]
        self._at += 1
        self._count(depth, entry)
        if type(entry) is _Anchor and self._entries[entry.start] is _MAPPING:
            with _Opened(self, entry):
                self._at += 1
                self._count(depth, _MAPPING)
                self._fill(out, seen, depth + 1)
        elif entry is _MAPPING:
            self._fill(out, seen, depth + 1)
        else:
            raise YAMLTextError("yaml: map merge requires map or sequence of maps as the value")

    def enter(self, anchor: _Anchor) -> int:
        """Continue reading at an anchor. Returns where to continue afterwards."""
        if anchor.open:
            raise YAMLTextError(f"yaml: anchor '{anchor.name}' value contains itself")
        anchor.open = True
        self._alias_depth += 1
        back, self._at = self._at, anchor.start
        return back

    def leave(self, anchor: _Anchor, back: int) -> None:
        anchor.open = False
        self._alias_depth -= 1
        self._at = back


class _Opened:
    """A context in which an alias is being resolved."""

    __slots__ = ("_anchor", "_back", "_decoder")

    def __init__(self, decoder: _Decoder, anchor: _Anchor) -> None:
        self._decoder = decoder
        self._anchor = anchor

    def __enter__(self) -> None:
        self._back = self._decoder.enter(self._anchor)

    def __exit__(self, *_: object) -> None:
        self._decoder.leave(self._anchor, self._back)


def _size(entry: Any) -> int:
    """Bytes of a scalar's text."""
    text = entry.text if type(entry) is _Tagged else entry
    if type(text) is not str:
        return 0
    return len(text) if text.isascii() else len(text.encode())


def _alias_share(nodes: int) -> float:
    if nodes <= _SMALL:
        return 0.99
    if nodes >= _LARGE:
        return 0.10
    return 0.99 - 0.89 * (nodes - _SMALL) / (_LARGE - _SMALL)
