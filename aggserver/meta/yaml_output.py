"""YAML as the API server writes it: keys in natural order, blocks, text of several lines as a literal, folded after 80 columns.

Text is quoted as go-yaml quotes it: double where a reader would take it for something else (`"yes"`, `"1"`, a timestamp), single
where YAML's own signs stand in it. The writer is our own because no library has these rules, and libyaml's emitter, fed event by
event from Python, takes six times as long. A value is written in pieces, each about a millisecond's work, and may have iterators
in the place of lists, so that a long list never exists as a whole. Called by `meta/codec.py`. Pure.
Source: sigs.k8s.io/yaml v1.6.0 (Marshal); go.yaml.in/yaml/v2 v2.4.3 encode.go, emitterc.go, sorter.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cmp_to_key, lru_cache
from itertools import chain, takewhile
from string import ascii_letters
from typing import Any

from aggserver.meta import yaml_text
from aggserver.meta.golang import format_float

__all__ = ["encode", "pieces"]

# Upstream's: columns after which a line is broken at its next space, and bytes that a key may have before its colon.
_WIDTH = 80
_MAX_KEY_BYTES = 128
# Bytes in a piece: about a millisecond's work. A line counts for more than its text.
_PIECE_BYTES = 32 * 1024
_LINE_BYTES = 16
# How many short texts (in characters) and sets of keys are remembered, and how many keys such a set may have.
_REMEMBERED = 4096
_SHORT = 40
_MAX_REMEMBERED_KEYS = 64
# Digits of a key that count where keys are put in order.
_MAX_DIGITS = 1000

# What most text begins with; what begins so is text, or a word with a meaning of its own.
_LETTERS = frozenset(f"{ascii_letters}/_$(")
# What makes text something else in a block: its first characters, or a sign beside a space.
_INDICATOR = re.compile(r"""(?:---|\.\.\.|[#,\[\]{}&*!|>'"%@`]|[?:-](?: |\Z))|.*?(?::(?: |\Z)| #)""", re.DOTALL)
_SCALARS = frozenset({int, bool, float, type(None)})
# What alone numbers and dates may consist of.
_NUMERIC = re.compile(r"[-+0-9a-fA-FxXoO_.,:tTzZ ]*")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIME = r"(?:2[0-3]|[01]?[0-9]):[0-5]?[0-9]:[0-5]?[0-9](?:[.,][0-9]+)?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-4]):(?:[0-5][0-9]|60))"
_TIMESTAMP = re.compile(rf"([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[Tt]{_TIME}{_ZONE}| {_TIME})?")
# What needs an escape: what go-yaml does not print (controls, the byte order mark, everything past the basic plane), and two line
# breaks that nobody can type, which go-yaml would leave as they are.
_SPECIAL = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPED = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_ESCAPES = dict(zip('\0\a\b\t\n\v\f\r\x1b"\\\x85\u2028\u2029', '0abtnvfre"\\NLP', strict=True))
_LINE_BREAK = re.compile(r"[\n\r\x85\u2028\u2029]")
_BEFORE_TEXT = re.compile(r"(?<=\n)(?!\n|\Z)")


def encode(value: Any) -> bytes:
    """A JSON value as one YAML document, with a line break at the end."""
    return b"".join(pieces(value))


def pieces(value: Any) -> Iterator[bytes]:
    """The same, piece by piece. An iterator stands for the list of what it gives; it is asked for an item when that is due."""
    entries, mapping = _opened(value)
    if entries is None:
        yield f"{_text(value, 0, '') if type(value) is str else _constant(value)}\n".encode()
        return
    lines: list[str] = []
    room = _PIECE_BYTES
    # What is open around the container that is written now: what follows in it, the mapping (None: a sequence), its margin.
    around: list[tuple[Iterator[Any], Any, str]] = []
    # `lead` is what stands before the next line: the margin, or on the line where the container begins, what is there already.
    margin = lead = ""
    while True:
        for entry in entries:
            room -= _LINE_BYTES
            if room < 0:
                yield "".join(lines).encode()
                lines, room = [], _PIECE_BYTES
            if mapping is None:
                inline, member, start = True, entry, f"{lead}-"
            else:
                key, label = entry
                inline, member, start = not label, mapping[key], lead + label
                if inline:
                    whole_key = _text(key, len(lead) - lead.rfind("\n") + 1, margin)
                    start = f"{lead}? {whole_key}\n{margin}:"
            lead = margin
            if type(member) is str:
                form = _form(member)
                if not form or len(start) + len(form) >= _WIDTH:
                    form = _text(member, len(start) - start.rfind("\n"), margin)
                lines.append(f"{start} {form}\n")
                room -= len(form)
                continue
            inner, inner_mapping = (None, None) if type(member) in _SCALARS else _opened(member)
            if inner is None:
                lines.append(f"{start} {_constant(member)}\n")
                continue
            around.append((entries, mapping, margin))
            if inline:
                lead, margin = f"{start} ", f"{margin}  "
            else:
                lines.append(f"{start}\n")
                # A sequence in a mapping stands where its key does.
                lead = margin = margin if inner_mapping is None else f"{margin}  "
            entries, mapping = inner, inner_mapping
            break
        else:
            if not around:
                break
            entries, mapping, margin = around.pop()
            lead = margin
    yield "".join(lines).encode()


def _opened(value: Any) -> tuple[Iterator[Any] | None, Any]:
    """(entries, mapping) of a container that is no empty one: its keys with their labels, and itself; or its items, and None."""
    if type(value) is dict:
        return (iter(_labels(value)), value) if value else (None, None)
    if type(value) is list:
        return (iter(value), None) if value else (None, None)
    if isinstance(value, Iterator):
        for first in value:
            return chain((first,), value), None
    return None, None


def _constant(value: Any) -> str:
    """What is no text, or an empty container."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return format_float(value)
    return "{}" if isinstance(value, dict) else "[]"


def _labels(mapping: dict[str, Any]) -> Sequence[tuple[str, str]]:
    if len(mapping) > _MAX_REMEMBERED_KEYS:
        return _labelled(tuple(mapping))
    return _remembered_labels(tuple(mapping))


def _labelled(keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The keys in order, each with how it is written, colon included; without that where it needs lines of its own."""
    together = "".join(keys)
    plain_order = together.isascii() and together.isalpha()
    ordered = sorted(keys) if plain_order else sorted(keys, key=_NATURAL)
    return tuple((key, _label(key)) for key in ordered)


_remembered_labels = lru_cache(_REMEMBERED)(_labelled)


def _label(key: str) -> str:
    if len(key.encode()) > _MAX_KEY_BYTES or _LINE_BREAK.search(key):
        return ""
    return f"{_form(key)}:"


def _less(left: str, right: str) -> int:
    """Upstream's natural order: letters behind other signs, runs of digits by their value."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return _compare(left, right, at)
    return len(left) - len(right)


def _compare(left: str, right: str, at: int) -> int:
    one, other = left[at], right[at]
    if one.isalpha() or other.isalpha():
        return ord(one) - ord(other) if one.isalpha() and other.isalpha() else one.isalpha() - other.isalpha()
    # Behind other digits a 0 counts: the number that it belongs to is the longer.
    before = _digits(left[at - 1 :: -1]) if at and "0" in (one, other) else ""
    seed = "1" if before.strip("0") else "0"
    first, second = _digits(left[at:]), _digits(right[at:])
    return int(seed + first) - int(seed + second) or len(first) - len(second) or ord(one) - ord(other)


def _digits(text: str) -> str:
    """Those that the text begins with, as many as make a difference."""
    return "".join(takewhile(str.isdecimal, text[:_MAX_DIGITS]))


_NATURAL = cmp_to_key(_less)


def _form(text: str) -> str:
    """How text of one line is written, but for the breaks that make long lines short; '' for text of several lines."""
    return _remembered_form(text) if len(text) <= _SHORT else _formed(text)


def _formed(text: str) -> str:
    if text[:1] in _LETTERS and text.isascii() and text.isprintable() and text not in yaml_text.WORDS:
        # The short way of most text.
        return _single(text) if text[-1] in ": " or ": " in text or " #" in text else text
    if _SPECIAL.search(text) or _is_ambiguous(text):
        return _double(text)
    if "\n" in text:
        # A block can't show spaces at the end of a line.
        return _double(text) if text[-1] == " " or " \n" in text else ""
    if text[0] == " " or text[-1] == " " or _INDICATOR.match(text):
        return _single(text)
    return text


_remembered_form = lru_cache(_REMEMBERED)(_formed)


def _is_ambiguous(text: str) -> bool:
    """Whether text would be read as something else if it had no quotes."""
    if text[:1] in _LETTERS or (len(text) > _SHORT and not _NUMERIC.fullmatch(text)):
        return text in yaml_text.WORDS
    return yaml_text.is_no_text(text) or _BASE_60.fullmatch(text) is not None or _is_timestamp(text)


def _is_timestamp(text: str) -> bool:
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        # The calendar of the year 0 is that of 2000.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _single(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _text(text: str, column: int, margin: str) -> str:
    """Text that begins at a column, in a container with this margin, with the line breaks that it needs."""
    margin += "  "
    form = _form(text)
    return _folded(form, column, margin) if form else _literal(text, margin)


def _literal(text: str, margin: str) -> str:
    begins = "2" if text[0] in " \n" else ""
    ends = "-" if text[-1] != "\n" else "+" if len(text) == 1 or text[-2] == "\n" else ""
    block = _BEFORE_TEXT.sub(margin, f"\n{text}").removesuffix("\n")
    return f"|{begins}{ends}{block}"


def _folded(form: str, column: int, margin: str) -> str:
    """Text of one line, broken at each first space behind the width."""
    double = form[0] == '"'
    # Spaces at the ends of quoted text are no places to break, nor are those beside another one (but the first in double quotes).
    first, end = (2, len(form) - 2) if double or form[0] == "'" else (1, len(form) - 1)
    parts: list[str] = []
    start = 0
    while True:
        at = form.find(" ", max(first, start, start + _WIDTH + 1 - column), end)
        while at > 0 and (form[at - 1] == " " or (form[at + 1] == " " and not double)):
            at = form.find(" ", at + 1, end)
        if at < 0:
            return "".join((*parts, form[start:]))
        indent = f"\n{margin}\\" if form[at + 1] == " " else f"\n{margin}"
        parts += (form[start:at], indent)
        start, column = at + 1, len(indent) - 1
