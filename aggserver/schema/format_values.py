"""Format values: the CEL values of strings with the formats `date`, `date-time`, `duration` and `byte`.

Upstream parses them with Go's parsers, which accept other texts than the validation of formats (`formats.py`): a valid value can
still be an error in a rule. Pure.
Source: k8s.io/kube-openapi pkg/validation/strfmt/{time,duration,default}.go; k8s.io/apiserver
pkg/cel/common/valuesunstructured.go, v0.36.3; Go's time.Parse and encoding/base64, 1.26.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from aggserver.cel import times
from aggserver.cel.values import Duration, EvaluationError, Timestamp
from aggserver.meta import duration
from aggserver.meta.golang import INT64_MAX, quote

__all__ = ["PARSERS"]


class _Element(NamedTuple):
    """An element of a layout. name: its name in errors. most: its largest number; the day is checked after all elements."""

    before: str
    layout: str
    pattern: re.Pattern[str]
    name: str = ""
    least: int = 0
    most: int = 0


_TWO = re.compile("[0-9]{2}")
_DATE = (
    _Element("", "2006", re.compile("[0-9]{4}")),
    _Element("-", "01", _TWO, "month", 1, 12),
    _Element("-", "02", _TWO),
)
_LOCAL_TIME = (
    *_DATE,
    _Element("T", "15", re.compile("[0-9]{1,2}"), "hour", 0, 23),
    _Element(":", "04", _TWO, "minute", 0, 59),
    _Element(":", "05", _TWO, "second", 0, 59),
)
_FRACTION = re.compile("[.,]([0-9]+)")


def _parse_time(text: str, elements: tuple[_Element, ...]) -> Timestamp:
    """Parse a time without a zone as UTC. Raises EvaluationError with Go's message."""
    layout = "".join(element.before + element.layout for element in elements)
    what = f"parsing time {quote(text)}"
    numbers, rest, fraction = [], text, ""
    for element in elements:
        if not rest.startswith(element.before):
            raise EvaluationError(f"{what} as {quote(layout)}: cannot parse {quote(rest)} as {quote(element.before)}")
        rest = rest[len(element.before) :]
        found = element.pattern.match(rest)
        if found is None:
            raise EvaluationError(f"{what} as {quote(layout)}: cannot parse {quote(rest)} as {quote(element.layout)}")
        numbers.append(int(found[0]))
        if element.name and not element.least <= numbers[-1] <= element.most:
            raise EvaluationError(f"{what}: {element.name} out of range")
        rest = rest[found.end() :]
        if element.layout == "05" and (found := _FRACTION.match(rest)):
            fraction, rest = found[1], rest[found.end() :]
    if rest:
        raise EvaluationError(f"{what}: extra text: {quote(rest)}")
    year, month, day, *clock = numbers
    if not 1 <= day <= times.days_in(year, month):
        raise EvaluationError(f"{what}: day out of range")
    return Timestamp(times.since_epoch(year, month, day, tuple(clock), fraction))


def _date(text: str) -> Timestamp:
    return _parse_time(text, _DATE)


def _date_time(text: str) -> Timestamp:
    if not text:
        return Timestamp(0)
    return times.parse_any_year(text) or _parse_time(text, _LOCAL_TIME)


_SECOND = 10**9
# Units by name. A text that starts with the last name of a unit counts as that unit too.
_UNITS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), _SECOND),
    (("m", "min"), 60 * _SECOND),
    (("h", "hr", "hour"), 3600 * _SECOND),
    (("d", "day"), 24 * 3600 * _SECOND),
    (("w", "wk", "week"), 7 * 24 * 3600 * _SECOND),
)


def _duration(text: str) -> Duration:
    """Parse Go's form, or sum up all integers with a unit that occur in the text; overflow of 64 bits wraps around."""
    if (found := times.parse_duration(text)) is not None:
        return found
    total, is_one = 0, False
    for digits, unit in duration.lengths(text):
        number, unit = int(digits[:30]), unit.lower()
        if number > INT64_MAX:
            raise EvaluationError(f"strconv.Atoi: parsing {quote(digits)}: value out of range")
        for words, nanoseconds in _UNITS:
            if unit in words or unit.startswith(words[-1]):
                total, is_one = total + number * nanoseconds, True
    if not is_one:
        raise EvaluationError(f"unable to parse {text} as duration")
    return Duration((total + 2**63) % 2**64 - 2**63)


_BASE64 = re.compile(r"(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?")


def _bytes(text: str) -> bytes:
    """Decode URL-safe base64 as upstream, although the validation of the format expects the standard alphabet."""
    fits = _BASE64.match(text)
    assert fits is not None
    if fits.end() != len(text):
        wrong = re.compile("[^A-Za-z0-9_-]").search(text, fits.end())
        raise EvaluationError(f"illegal base64 data at input byte {wrong.start() if wrong else len(text)}")
    return base64.urlsafe_b64decode(text)


PARSERS: Mapping[str, tuple[Callable[[str], Timestamp | Duration | bytes], str]] = {
    "date": (_date, "Invalid date formatted string"),
    "date-time": (_date_time, "Invalid date-time formatted string"),
    "duration": (_duration, "Invalid duration"),
    "byte": (_bytes, "Invalid byte formatted string"),
}
"""By format: the parser of the value, which may raise EvaluationError, and the start of the error text."""
