"""Texts: values of the standard library as the strings of JSON, as Go writes and reads them.

Each `_text` function is for encoding, each `_of` function for decoding a string that has passed the validation of its format. All
raise ValueError with a text for the user. Pure.
Source: k8s.io/kube-openapi pkg/validation/strfmt/{time,duration,default}.go, v0.36.3; Go's time.Duration.String, 1.26.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, date, datetime, timedelta, timezone

from aggserver.meta import duration

__all__ = ["bytes_of", "bytes_text", "date_of", "date_text", "duration_of", "duration_text", "time_of", "time_text"]

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:.(\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII | re.IGNORECASE)
_PART = re.compile(r"([0-9]*+)(?:\.([0-9]*+))?(ns|us|µs|μs|ms|s|m|h)")
_GO_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
# As Scala names them. A text that begins with the last name of a unit counts as that unit, too.
_SCALA_UNITS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), 10**9),
    (("m", "min"), 60 * 10**9),
    (("h", "hr", "hour"), 3600 * 10**9),
    (("d", "day"), 24 * 3600 * 10**9),
    (("w", "wk", "week"), 7 * 24 * 3600 * 10**9),
)
# Of a number in a duration: more than any timedelta has.
_MOST_DIGITS = 30
_NO_DURATION = "must be a duration such as 1h30m0s"


def time_text(moment: datetime, *, whole_seconds: bool = False) -> str:
    """RFC 3339 in UTC, with a fraction only if there is one."""
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise ValueError("must have a time zone: use datetime.now(UTC), or .replace(tzinfo=UTC)")
    moment = moment.astimezone(UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond and not whole_seconds else ""
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{fraction}Z"


def time_of(text: str) -> datetime:
    """Digits after the microseconds are lost."""
    found = _TIME.match(text)
    if found is None:
        raise ValueError("must be a time such as 2006-01-02T15:04:05Z")
    day, clock, fraction, sign, hours, minutes = found.groups()
    zone = UTC
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        zone = timezone(-offset if sign == "-" else offset)
    microseconds = int((fraction or "0")[:6].ljust(6, "0"))
    return datetime.fromisoformat(f"{day}T{clock}").replace(microsecond=microseconds, tzinfo=zone)


def date_text(day: date) -> str:
    return f"{day.year:04d}-{day:%m-%d}"


def date_of(text: str) -> date:
    return date.fromisoformat(text)


def duration_text(length: timedelta) -> str:
    """As Go writes it: `49h0m0s`, `1m0.5s`, `250ms`, `0s`."""
    micros = (length.days * 86400 + length.seconds) * 10**6 + length.microseconds
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    if not micros:
        return "0s"
    if micros < 10**3:
        return f"{sign}{micros}µs"
    if micros < 10**6:
        return f"{sign}{_decimal(micros, 3)}ms"
    minutes, rest = divmod(micros, 60 * 10**6)
    seconds = f"{_decimal(rest, 6)}s"
    if not minutes:
        return sign + seconds
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}h{minutes}m{seconds}" if hours else f"{sign}{minutes}m{seconds}"


def _decimal(value: int, digits: int) -> str:
    whole, rest = divmod(value, 10**digits)
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)


def duration_of(text: str) -> timedelta:
    """Go's form, or the sum of all integers with a unit that occur in the text, as the validation of the format accepts.

    What is less than a microsecond is rounded.
    """
    nanos = _go_nanoseconds(text)
    if nanos is None:
        nanos = _scala_nanoseconds(text)
    try:
        return timedelta(microseconds=(nanos + 500) // 1000)
    except OverflowError:
        raise ValueError(_NO_DURATION) from None


def _go_nanoseconds(text: str) -> int | None:
    """None if it is not Go's form. In integers, since a float of years has no microseconds."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    total = position = 0
    while position < len(rest):
        found = _PART.match(rest, position)
        if found is None or not (found[1] or found[2]):
            return 0 if rest == "0" else None
        factor, fraction = _GO_UNITS[found[3]], (found[2] or "")[:_MOST_DIGITS]
        total += int(found[1][:_MOST_DIGITS] or 0) * factor + int(fraction or 0) * factor // 10 ** len(fraction)
        position = found.end()
    return sign * total if rest else None


def _scala_nanoseconds(text: str) -> int:
    total, is_one = 0, False
    for digits, word in duration.lengths(text):
        unit = word.lower()
        for names, factor in _SCALA_UNITS:
            if unit in names or unit.startswith(names[-1]):
                total, is_one = total + int(digits[:_MOST_DIGITS]) * factor, True
    if not is_one:
        raise ValueError(_NO_DURATION)
    return total


def bytes_text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError("must be base64 in the standard alphabet, with padding") from None
