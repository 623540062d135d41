"""YAML as the API server writes it: block style, keys in natural order, multi-line text as literals, lines folded at 80 columns.

Text is quoted as by go-yaml: with double quotes if it would be read as another type (`"yes"`, `"1"`, a timestamp), with single
quotes if it has YAML's indicators. This is a writer of our own, because no library has these rules, and libyaml's emitter, called
for each event from Python, takes six times as long. A value is written in pieces of about a millisecond's work, and may have
iterators in place of lists, so that a long list never exists as a whole. Pure.
Source: sigs.k8s.io/yaml v1.6.0 (Marshal); go.yaml.in/yaml/v2 v2.4.3 encode.go, emitterc.go, sorter.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache, cmp_to_key, lru_cache
from itertools import chain, takewhile
from string import ascii_letters
from typing import Any

from aggserver.meta import yaml_scalars
from aggserver.meta.golang import format_float

__all__ = ["encode", "pieces"]

# Upstream's limits: columns after which a line is broken at the next space, and bytes of a key that is written before its colon.
_WIDTH = 80
_MAX_KEY_BYTES = 128
# Bytes in a piece, about a millisecond's work. Each line counts for so many bytes more than its text.
_PIECE_BYTES = 32 * 1024
_LINE_BYTES = 16
# The number of cached texts and sets of keys; the most characters of such a text, and keys of such a set.
_CACHE_SIZE = 4096
_SHORT = 40
_MAX_CACHED_KEYS = 64
# The most digits of a key that count in the order of keys.
_MAX_DIGITS = 1000

# The first characters of most text: it is plain text, or a word like `yes`.
_LETTERS = frozenset(f"{ascii_letters}/_$(")
# Text that can't be plain in a block, because of its first characters, or an indicator next to a space.
_INDICATOR = re.compile(r"""(?:---|\.\.\.|[#,\[\]{}&*!|>'"%@`]|[?:-](?: |\Z))|.*?(?::(?: |\Z)| #)""", re.DOTALL)
_SCALARS = frozenset({int, bool, float, type(None)})
# The characters of which numbers and dates consist.
_NUMERIC = re.compile(r"[-+0-9a-fA-FxXoO_.,:tTzZ ]*")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_TIME = r"(?:2[0-3]|[01]?[0-9]):[0-5]?[0-9]:[0-5]?[0-9](?:[.,][0-9]+)?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-4]):(?:[0-5][0-9]|60))"
_TIMESTAMP = re.compile(rf"([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?:[Tt]{_TIME}{_ZONE}| {_TIME})?")
# Characters to escape: those that go-yaml treats as not printable (controls, the byte order mark, everything beyond the basic
# plane), and two unusual line breaks, which go-yaml would not escape. Compiled for the first text: that takes milliseconds.
_special = cache(lambda: re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"))
_escaped = cache(lambda: re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]"))
_ESCAPES = dict(zip('\0\a\b\t\n\v\f\r\x1b"\\\x85\u2028\u2029', '0abtnvfre"\\NLP', strict=True))
_LINE_BREAK = re.compile(r"[\n\r\x85\u2028\u2029]")
_BEFORE_TEXT = re.compile(r"(?<=\n)(?!\n|\Z)")


def encode(value: Any) -> bytes:
    """A JSON value as one YAML document, with a line break at the end."""
    return b"".join(pieces(value))


def pieces(value: Any) -> Iterator[bytes]:
    """As `encode`, piece by piece. An iterator is written as the list of its items, and each item is taken when it is written."""
    entries, mapping = _opened(value)
    if entries is None:
        yield f"{_text(value, 0, '') if type(value) is str else _constant(value)}\n".encode()
        return
    lines: list[str] = []
    room = _PIECE_BYTES
    # The containers around the current one: their remaining entries, the mapping (None for a sequence), and the margin.
    around: list[tuple[Iterator[Any], Any, str]] = []
    # `lead` is the text before the next line: the margin, or the start of the line on which the container begins.
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
                # A sequence in a mapping has the indentation of its key.
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
    """(entries, mapping) of a non-empty container: for a mapping its keys with labels, and itself; else items, and None."""
    if type(value) is dict:
        return (iter(_labels(value)), value) if value else (None, None)
    if type(value) is list:
        return (iter(value), None) if value else (None, None)
    if isinstance(value, Iterator):
        for first in value:
            return chain((first,), value), None
    return None, None


def _constant(value: Any) -> str:
    """A scalar that is not text, or an empty container."""
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
    if len(mapping) > _MAX_CACHED_KEYS:
        return _labelled(tuple(mapping))
    return _cached_labels(tuple(mapping))


def _labelled(keys: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The keys in order, each with its written form and colon; '' if the key needs lines of its own."""
    together = "".join(keys)
    plain_order = together.isascii() and together.isalpha()
    ordered = sorted(keys) if plain_order else sorted(keys, key=_NATURAL)
    return tuple((key, _label(key)) for key in ordered)


_cached_labels = lru_cache(_CACHE_SIZE)(_labelled)


def _label(key: str) -> str:
    if len(key.encode()) > _MAX_KEY_BYTES or _LINE_BREAK.search(key):
        return ""
    return f"{_form(key)}:"


def _less(left: str, right: str) -> int:
    """Upstream's natural order: letters after other characters, runs of digits by their value."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return _compare(left, right, at)
    return len(left) - len(right)


def _compare(left: str, right: str, at: int) -> int:
    one, other = left[at], right[at]
    if one.isalpha() or other.isalpha():
        return ord(one) - ord(other) if one.isalpha() and other.isalpha() else one.isalpha() - other.isalpha()
    # A 0 after other digits counts, since it makes the number longer.
    before = _digits(left[at - 1 :: -1]) if at and "0" in (one, other) else ""
    seed = "1" if before.strip("0") else "0"
    first, second = _digits(left[at:]), _digits(right[at:])
    return int(seed + first) - int(seed + second) or len(first) - len(second) or ord(one) - ord(other)


def _digits(text: str) -> str:
    """The digits at the start of the text, up to the limit."""
    return "".join(takewhile(str.isdecimal, text[:_MAX_DIGITS]))


_NATURAL = cmp_to_key(_less)


def _form(text: str) -> str:
    """The written form of text of one line, before it is folded; '' for multi-line text."""
    return _cached_form(text) if len(text) <= _SHORT else _formed(text)


def _formed(text: str) -> str:
    if text[:1] in _LETTERS and text.isascii() and text.isprintable() and text not in yaml_scalars.WORDS:
        # The fast path for most text.
        return _single(text) if text[-1] in ": " or ": " in text or " #" in text else text
    if _special().search(text) or _is_ambiguous(text):
        return _double(text)
    if "\n" in text:
        # go-yaml writes no literal if a line ends with spaces.
        return _double(text) if text[-1] == " " or " \n" in text else ""
    if text[0] == " " or text[-1] == " " or _INDICATOR.match(text):
        return _single(text)
    return text


_cached_form = lru_cache(_CACHE_SIZE)(_formed)


def _is_ambiguous(text: str) -> bool:
    """Whether text would be read as another type without quotes."""
    if text[:1] in _LETTERS or (len(text) > _SHORT and not _NUMERIC.fullmatch(text)):
        return text in yaml_scalars.WORDS
    return yaml_scalars.is_no_text(text) or _BASE_60.fullmatch(text) is not None or _is_timestamp(text)


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
    return f'"{_escaped().sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _ESCAPES:
        return f"\\{_ESCAPES[character]}"
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _text(text: str, column: int, margin: str) -> str:
    """The written form of text that begins at a column in a container with this margin, with its line breaks."""
    margin += "  "
    form = _form(text)
    return _folded(form, column, margin) if form else _literal(text, margin)


def _literal(text: str, margin: str) -> str:
    begins = "2" if text[0] in " \n" else ""
    ends = "-" if text[-1] != "\n" else "+" if len(text) == 1 or text[-2] == "\n" else ""
    block = _BEFORE_TEXT.sub(margin, f"\n{text}").removesuffix("\n")
    return f"|{begins}{ends}{block}"


def _folded(form: str, column: int, margin: str) -> str:
    """Text of one line, folded at the first space after the width of each line."""
    double = form[0] == '"'
    # It can't be folded at spaces at the ends of quoted text, nor at adjacent spaces (except the first in double quotes).
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
