"""The schedules of CronJobs: five fields, or a descriptor such as `@hourly` or `@every 1h`, and the times that they name.

    minute hour day-of-month month day-of-week

Each is a list of `*`, `?`, N and N-M, with a step `/N`; months and weekdays have names, too. A day matches by either of its
fields if both are restricted. Times are whole seconds since the epoch; the offsets of time zones are looked up by a function that
is passed in. The search ends after five years, as upstream's does.
Source: github.com/robfig/cron/v3 v3.0.1 (parser.go, spec.go, constantdelay.go), whose errors these are.
"""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from aggserver.meta import duration
from aggserver.meta.golang import parse_int

__all__ = ["Every", "Location", "Schedule", "ScheduleError", "Spec", "is_known_zone", "location", "parse"]

# Returns the offset from UTC, in seconds, that is in force at a time.
Location = Callable[[int], int]


class ScheduleError(ValueError):
    """The schedule can't be parsed. Its text is upstream's."""


class _Bounds(NamedTuple):
    lowest: int
    highest: int
    names: Mapping[str, int]


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MINUTES, _HOURS, _DAYS = _Bounds(0, 59, {}), _Bounds(0, 23, {}), _Bounds(1, 31, {})
_MONTHS = _Bounds(1, 12, dict(zip(_MONTH_NAMES, range(1, 13), strict=True)))
_WEEKDAYS = _Bounds(0, 6, dict(zip(_WEEKDAY_NAMES, range(7), strict=True)))
_FIELDS = (_MINUTES, _HOURS, _DAYS, _MONTHS, _WEEKDAYS)
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_YEARS = 5
# All values of all fields take 400 characters. Upstream has no limit, but a million repetitions would take seconds here.
_LONGEST = 32 * 1024
_MINUTE, _HOUR = 60, 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The times that Python's dates can name, a year from either end.
_FIRST, _LAST = -62_000_000_000, 253_000_000_000


@dataclass(frozen=True, slots=True)
class Every:
    """A time each so many seconds after the one before."""

    seconds: int

    def next(self, after: float) -> int | None:
        """The first time after a time."""
        return math.floor(after) + self.seconds

    def latest(self, after: float, until: float) -> int | None:
        """The last time in (after, until]; None if there is none."""
        first = math.floor(after) + self.seconds
        return None if first > until else first + (math.floor(until) - first) // self.seconds * self.seconds


@dataclass(frozen=True, slots=True)
class Spec:
    """The values of each field that match. both: whether both fields of the day must match, since one is `*`."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    both: bool
    offset: Location

    def next(self, after: float) -> int | None:
        """The first time after a time; None if there is none in five years."""
        time = math.floor(after) + 1
        if not _FIRST < time < _LAST:
            return None
        last_year = self._local(time).year + _YEARS
        # Each step goes to where the first field that does not match has another value, and looks at all of them again.
        while (local := self._local(time)).year <= last_year:
            if local.month not in self.months:
                following = (local.year, local.month + 1) if local.month < 12 else (local.year + 1, 1)
                time = self._midnight(datetime(*following, 1, tzinfo=UTC))
            elif not self._is_day(local):
                time = self._midnight(local.replace(hour=0, minute=0, second=0) + timedelta(days=1))
            elif local.hour not in self.hours:
                time += _HOUR - local.minute * _MINUTE - local.second
            elif local.minute not in self.minutes or local.second:
                time += _MINUTE - local.second
            else:
                return time
        return None

    def latest(self, after: float, until: float) -> int | None:
        """The last time in (after, until]; None if there is none.

        By halves: to go from one time to the next would take as many steps as there are minutes in a month.
        """
        found = self.next(after)
        if found is None or found > until:
            return None
        low, high = math.floor(after), math.floor(until)
        while high - low > 1:
            middle = (low + high) // 2
            time = self.next(middle)
            if time is not None and time <= until:
                low, found = middle, time
            else:
                high = middle
        return found

    def _is_day(self, local: datetime) -> bool:
        day, weekday = local.day in self.days, (local.weekday() + 1) % 7 in self.weekdays
        return (day and weekday) if self.both else (day or weekday)

    def _local(self, time: int) -> datetime:
        """What a clock on the wall shows."""
        return _EPOCH + timedelta(seconds=time + self.offset(time))

    def _midnight(self, local: datetime) -> int:
        """The time at which a day begins: later than midnight where clocks are set forward at that moment."""
        seconds = calendar.timegm(local.timetuple())
        time = seconds - self.offset(seconds - self.offset(seconds))
        hour = self._local(time).hour
        return time + (24 - hour) * _HOUR if hour > 12 else time


Schedule = Spec | Every


def parse(text: str, offset: Location | None = None) -> Schedule:
    """Parse a schedule. offset: of its time zone; None for UTC, or what `TZ=` before the schedule says. Raises ScheduleError."""
    if not text:
        raise ScheduleError("empty spec string")
    if len(text) > _LONGEST:
        raise ScheduleError(f"must not be longer than {_LONGEST} characters")
    if text.startswith(("TZ=", "CRON_TZ=")):
        name, found, rest = text.partition("=")[2].partition(" ")
        if not found:
            raise ScheduleError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if not is_known_zone(name):
            raise ScheduleError(f"provided bad location {name}: unknown time zone {name}")
        text, offset = rest.strip(), location(name)
    offset = offset or location("UTC")
    if text.startswith(_EVERY):
        return _every(text)
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    (minutes, _), (hours, _), (days, all_days), (months, _), (weekdays, all_weekdays) = map(_field, fields, _FIELDS)
    return Spec(minutes, hours, days, months, weekdays, all_days or all_weekdays, offset)


def _every(text: str) -> Every:
    try:
        seconds = duration.parse(text.removeprefix(_EVERY))
    except ValueError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return Every(max(int(seconds), 1))


def _field(text: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """The values of a field, and whether it has a `*` without a step."""
    found, is_any = set[int](), False
    for part in text.split(","):
        if part:
            values, whole = _range(part, bounds)
            found.update(values)
            is_any = is_any or whole
    return frozenset(found), is_any


def _range(text: str, bounds: _Bounds) -> tuple[range, bool]:
    ends, *steps = text.split("/")
    first, *lasts = ends.split("-")
    is_any = first in ("*", "?")
    if is_any:
        start, end = bounds.lowest, bounds.highest
    else:
        start = end = _number(first, bounds.names)
        if len(lasts) > 1:
            raise ScheduleError(f"too many hyphens: {text}")
        if lasts:
            end = _number(lasts[0], bounds.names)
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and not lasts:
        end = bounds.highest  # N/step is N-highest/step
    if start < bounds.lowest:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({bounds.lowest}): {text}")
    if end > bounds.highest:
        raise ScheduleError(f"end of range ({end}) above maximum ({bounds.highest}): {text}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), is_any and step == 1


def _number(text: str, names: Mapping[str, int]) -> int:
    if (named := names.get(text.lower())) is not None:
        return named
    try:
        number = parse_int(text)
    except ValueError as error:
        raise ScheduleError(f"failed to parse int from {text}: {str(error).replace('ParseInt', 'Atoi', 1)}") from None
    if number < 0:
        raise ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number


# --- time zones ---


def is_known_zone(name: str) -> bool:
    """Whether there is a time zone of this name in the system's database, or in that of the package tzdata."""
    try:
        location(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


@lru_cache(maxsize=64)
def location(name: str) -> Location:
    """The offsets of a time zone. Raises KeyError, ValueError or OSError if there is none of this name."""
    if name in ("", "UTC"):
        return lambda time: 0
    from zoneinfo import ZoneInfo  # few schedules need it

    zone = ZoneInfo(name)

    def offset(time: int) -> int:
        found = zone.utcoffset((_EPOCH + timedelta(seconds=time)).astimezone(zone))
        return 0 if found is None else round(found.total_seconds())

    return offset
