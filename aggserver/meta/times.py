"""Times and durations as text: RFC 3339 in metadata, `5d3h` in tables.

Times are seconds since 1970-01-01T00:00:00Z as a float, negative before; only whole seconds are ever written.
Pure: `now` is always passed in.
Source: k8s.io/apimachinery pkg/apis/meta/v1/{time,micro_time}.go and pkg/util/duration/duration.go, v0.36.3; the errors are Go's.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from aggserver.meta.golang import quote

__all__ = ["format_micro_time", "format_time", "human_duration", "parse_frequent_time", "parse_micro_time", "parse_time"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
# The pieces that Go parses, in order: for each its name in parse errors, pattern, allowed values, and name in range errors.
# The hour may have one digit, as Go parses the layout "15".
_TWO = re.compile(r"[0-9]{2}")
_PIECES = (
    ("2006", re.compile(r"[0-9]{4}"), None, ""),
    ("-", re.compile("-"), None, ""),
    ("01", _TWO, range(1, 13), "month"),
    ("-", re.compile("-"), None, ""),
    ("02", _TWO, None, ""),
    ("T", re.compile("T"), None, ""),
    ("15", re.compile(r"[0-9]{1,2}"), range(24), "hour"),
    (":", re.compile(":"), None, ""),
    ("04", _TWO, range(60), "minute"),
    (":", re.compile(":"), None, ""),
    ("05", _TWO, range(60), "second"),
)
_FRACTION = re.compile(r"[.,]([0-9]+)")
_MICROS = re.compile(r"[.,]([0-9]{6})")
_ZONE = re.compile(r"Z|([+-])([0-9]{2}):([0-9]{2})")


def format_time(seconds: float) -> str:
    """`2006-01-02T15:04:05Z`: in UTC, truncated to whole seconds."""
    return _formatted(int(seconds // 1))


# Cached, since each write needs the present time, whose text is the same for all writes of a second.
@lru_cache(maxsize=64)
def _formatted(seconds: int) -> str:
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%SZ}"


def parse_time(text: str) -> float:
    """Parse RFC 3339, with a fraction and any offset. Raises ValueError with Go's message."""
    numbers, position = _date_and_clock(text, _LAYOUT)
    fraction = _FRACTION.match(text, position)
    if fraction is not None:
        position = fraction.end()
    return _seconds(text, _LAYOUT, numbers, position) + float(f"0.{fraction[1]}" if fraction else 0)


# Cached, since every write of an object contains the same few times. Errors are not cached.
_cached_time = lru_cache(maxsize=1024)(parse_time)
# Characters of a time that is cached, at most. Nanoseconds and an offset fit; a fraction may be as long as a body.
_MOST_CACHED = 40


def parse_frequent_time(text: str) -> float:
    """As `parse_time`, but cached: for times that are likely to be parsed again."""
    return _cached_time(text) if len(text) <= _MOST_CACHED else parse_time(text)


def parse_micro_time(text: str) -> tuple[int, int]:
    """Parse RFC 3339 with six digits after the second: (seconds, microseconds from 0 on). Raises ValueError with Go's message."""
    numbers, position = _date_and_clock(text, _MICRO_LAYOUT)
    fraction = _MICROS.match(text, position)
    if fraction is None:
        raise _cannot_parse(text, position, _MICRO_LAYOUT, ".000000")
    return int(_seconds(text, _MICRO_LAYOUT, numbers, fraction.end())), int(fraction[1])


def format_micro_time(seconds: int, microseconds: int) -> str:
    """`2006-01-02T15:04:05.000000Z`, in UTC."""
    return f"{_formatted(seconds)[:-1]}.{microseconds:06d}Z"


def _seconds(text: str, layout: str, numbers: tuple[int, int, int, int, int, int], position: int) -> float:
    """Seconds since 1970 of a time, without its fraction. position: where its zone begins, with which the text must end."""
    offset, position = _offset(text, position, layout)
    if position != len(text):
        raise ValueError(f"parsing time {quote(text)}: extra text: {quote(text[position:])}")
    try:
        # Go has a year 0 and datetime does not, but no clock writes such a time.
        moment = datetime(*numbers, tzinfo=UTC)
    except ValueError:
        raise _out_of_range(text, "day") from None
    return (moment - _EPOCH).total_seconds() - offset


def _date_and_clock(text: str, layout: str) -> tuple[tuple[int, int, int, int, int, int], int]:
    """Year to second, and the position after them."""
    numbers = []
    position = 0
    for piece, pattern, allowed, name in _PIECES:
        match = pattern.match(text, position)
        if match is None:
            raise _cannot_parse(text, position, layout, piece)
        position = match.end()
        if piece.isdigit():
            numbers.append(int(match.group()))
            if allowed is not None and numbers[-1] not in allowed:
                raise _out_of_range(text, name)
    year, month, day, hour, minute, second = numbers
    return (year, month, day, hour, minute, second), position


def _offset(text: str, position: int, layout: str) -> tuple[int, int]:
    """Seconds east of UTC, and the position after the zone."""
    match = _ZONE.match(text, position)
    if match is None:
        raise _cannot_parse(text, position, layout, "Z07:00")
    if match[1] is None:
        return 0, match.end()
    hours, minutes = int(match[2]), int(match[3])
    if hours > 24:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > 60:
        raise _out_of_range(text, "time zone offset minute")
    seconds = hours * 3600 + minutes * 60
    return (-seconds if match[1] == "-" else seconds), match.end()


def _cannot_parse(text: str, position: int, layout: str, piece: str) -> ValueError:
    return ValueError(f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(text[position:])} as {quote(piece)}")


def _out_of_range(text: str, name: str) -> ValueError:
    return ValueError(f"parsing time {quote(text)}: {name} out of range")


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def human_duration(seconds: float) -> str:
    """Two or three significant figures: `119s`, `9m59s`, `7h5m`, `47h`, `7d3h`, `700d`, `7y364d`, `8y`.

    Up to two seconds in the future count as now, since clocks differ; from two seconds on it is `<invalid>`.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _pair(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _pair(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _pair(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _pair(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _pair(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")
