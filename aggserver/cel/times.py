"""Timestamps and durations: parsing, printing, their parts in a time zone, and arithmetic within Go's ranges.

The calendar is computed here, since Python's ends with the year 9999 and an offset may lead beyond it. Named zones come from
the time zone database that Python finds.
Source: cel-go common/types/{timestamp,duration,overflow}.go and common/stdlib, v0.26.0; Go's time.Parse and ParseDuration, 1.26.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from aggserver.cel.values import Duration, EvaluationError, Timestamp
from aggserver.meta.golang import INT64_MAX, INT64_MIN, quote

__all__ = [
    "days_in",
    "difference",
    "earlier",
    "later",
    "parse_any_year",
    "parse_duration",
    "parse_timestamp",
    "part",
    "print_duration",
    "print_timestamp",
    "since_epoch",
    "timestamp_of",
]

_SECOND = 10**9
# 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z, in seconds since 1970.
_FIRST, _LAST = -62135596800, 253402300799
_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?(?:(Z)|([+-])(\d\d):(\d\d))", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND}
_DURATION_PART = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_timestamp(text: str) -> Timestamp | None:
    """Parse RFC 3339; None if it is not. Raises EvaluationError outside the years 1 to 9999."""
    moment = parse_any_year(text)
    return None if moment is None else timestamp_of(moment.nanoseconds, moment.offset)


def parse_any_year(text: str) -> Timestamp | None:
    """As `parse_timestamp`, but the year may be 0, and an offset may lead out of the years 0 to 9999."""
    found = _RFC3339.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    offset = (int(found[10]) * 60 + int(found[11])) * (-60 if found[9] == "-" else 60) if found[9] else 0
    if not (1 <= month <= 12 and 1 <= day <= days_in(year, month) and hour <= 23 and minute <= 59 and second <= 59):
        return None
    if found[9] and (int(found[10]) > 24 or int(found[11]) > 59):
        return None
    return Timestamp(since_epoch(year, month, day, (hour, minute, second), found[7] or "") - offset * _SECOND, offset)


def since_epoch(year: int, month: int, day: int, clock: tuple[int, ...] = (), fraction: str = "") -> int:
    """Nanoseconds since 1970. clock: hour, minute and second. fraction: the digits of the fraction of a second."""
    hour, minute, second = clock or (0, 0, 0)
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    return seconds * _SECOND + int(fraction[:9].ljust(9, "0"))


def timestamp_of(nanoseconds: int, offset: int = 0) -> Timestamp:
    """The timestamp at so many nanoseconds since 1970. Raises EvaluationError outside the years 1 to 9999."""
    if not _FIRST <= nanoseconds // _SECOND <= _LAST:
        raise EvaluationError("timestamp overflow")
    return Timestamp(nanoseconds, offset)


def print_timestamp(moment: Timestamp) -> str:
    """Print as RFC 3339, with as many digits of the fraction as needed, and the offset it was parsed with."""
    seconds, nanoseconds = divmod(moment.nanoseconds, _SECOND)
    days, rest = divmod(seconds + moment.offset, 86400)
    year, month, day = _date(days)
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    minutes = abs(moment.offset) // 60
    zone = f"{'-' if moment.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}" if moment.offset else "Z"
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d}T{clock}{fraction}{zone}"


def parse_duration(text: str) -> Duration | None:
    """Parse `1h30m` or `-1.5s`; None if it is not a duration, or exceeds 64 bits of nanoseconds."""
    negative, rest = text.startswith("-"), text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        found = _DURATION_PART.match(rest, position)
        if found is None or not (found[1] or found[2]):
            return None
        unit = _UNITS[found[3]]
        total += int(found[1] or 0) * unit
        if found[2]:
            # In floating point, with Go's rounding.
            digits = found[2][:18]
            total += int(int(digits) * (unit / float(10 ** len(digits))))
        position = found.end()
    total = -total if negative else total
    return Duration(total) if rest and INT64_MIN <= total <= INT64_MAX else None


def print_duration(length: Duration) -> str:
    """Print in seconds: `5400s`, `0.5s`."""
    seconds, rest = divmod(abs(length.nanoseconds), _SECOND)
    value = seconds + rest / 1e9
    digits = format(Decimal(repr(-value if length.nanoseconds < 0 else value)), "f")
    return (digits.removesuffix(".0") if "." in digits else digits) + "s"


def later(moment: Timestamp, length: Duration) -> Timestamp:
    return timestamp_of(moment.nanoseconds + length.nanoseconds, moment.offset)


def earlier(moment: Timestamp, length: Duration) -> Timestamp:
    if length.nanoseconds == INT64_MIN:
        raise EvaluationError("integer overflow")
    return timestamp_of(moment.nanoseconds - length.nanoseconds, moment.offset)


def difference(left: Timestamp, right: Timestamp) -> Duration:
    nanoseconds = left.nanoseconds - right.nanoseconds
    if not INT64_MIN <= nanoseconds <= INT64_MAX:
        raise EvaluationError("integer overflow")
    return Duration(nanoseconds)


def part(moment: Timestamp, name: str, zone: str = "UTC") -> int:
    """A part of the time in a zone: FullYear, Month, DayOfYear, DayOfMonth (these three from 0), Date (from 1), DayOfWeek
    (Sunday is 0), Hours, ...
    """
    seconds, nanoseconds = divmod(moment.nanoseconds, _SECOND)
    days, rest = divmod(seconds + _offset(seconds, zone), 86400)
    match name:
        case "Hours":
            return rest // 3600
        case "Minutes":
            return rest // 60 % 60
        case "Seconds":
            return rest % 60
        case "Milliseconds":
            return nanoseconds // 10**6
        case "DayOfWeek":
            return (days + 4) % 7
    year, month, day = _date(days)
    match name:
        case "FullYear":
            return year
        case "Month":
            return month - 1
        case "DayOfMonth":
            return day - 1
        case "Date":
            return day
        case _:
            return days - _days(year, 1, 1)


def _offset(seconds: int, zone: str) -> int:
    if zone in ("UTC", "", "Local"):
        return 0
    hours, colon, minutes = zone.partition(":")
    if colon:
        total = _number(hours) * 60 + (-_number(minutes) if zone[0] == "-" else _number(minutes))
        return total * 60
    try:
        found = ZoneInfo(zone)
        shift = (_EPOCH + timedelta(seconds=seconds)).astimezone(found).utcoffset()
    except (OSError, ValueError, KeyError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    except OverflowError:
        # The first or last day of Python's calendar, whose offset it can't compute.
        return 0
    return int(shift.total_seconds()) if shift is not None else 0


def _number(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise EvaluationError(f"strconv.Atoi: parsing {quote(text)}: invalid syntax")
    return int(text)


def days_in(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _MONTH_DAYS[month - 1]


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, computed with years that begin in March, so that the leap day comes last."""
    year -= month <= 2
    since_march = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + since_march - 719468


def _date(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719468, 146097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    since_march = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * since_march + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return era * 400 + year + (month <= 2), month, since_march - (153 * shifted + 2) // 5 + 1
