"""The schedules of CronJobs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from aggserver.kinds.cron_jobs import schedule_problems
from aggserver.kinds.schedules import ScheduleError, Spec, is_known_zone, location, parse
from aggserver.meta.field import Path


def at(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def shown(time: int | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S")


NEXT: dict[str, tuple[str, str, str, list[str | None]]] = {
    # name: (schedule, time zone, after, the next times in UTC)
    "each minute": ("* * * * *", "UTC", "2026-01-01T00:00:30", ["2026-01-01T00:01:00", "2026-01-01T00:02:00"]),
    "not the time itself": ("0 0 * * *", "UTC", "2026-01-01T00:00:00", ["2026-01-02T00:00:00"]),
    "a step": (
        "*/20 * * * *",
        "UTC",
        "2026-01-01T00:00:00",
        ["2026-01-01T00:20:00", "2026-01-01T00:40:00", "2026-01-01T01:00:00"],
    ),
    "a step from a number": ("50/5 * * * *", "UTC", "2026-01-01T00:00:00", ["2026-01-01T00:50:00", "2026-01-01T00:55:00"]),
    "a list": ("0 22,4 * * *", "UTC", "2026-01-01T00:00:00", ["2026-01-01T04:00:00", "2026-01-01T22:00:00"]),
    "the end of a year": ("59 23 31 dec ?", "UTC", "2026-12-31T23:59:00", ["2027-12-31T23:59:00"]),
    "weekdays by name": ("0 9 * * MON-fri", "UTC", "2026-01-02T09:00:00", ["2026-01-05T09:00:00"]),
    "either day": ("0 0 13 * fri", "UTC", "2026-01-09T00:00:00", ["2026-01-13T00:00:00", "2026-01-16T00:00:00"]),
    "both days, since one has a step of one": ("0 0 */1 * fri", "UTC", "2026-01-09T00:00:00", ["2026-01-16T00:00:00"]),
    "either day, since a step is a restriction": ("0 0 */30 * fri", "UTC", "2026-01-09T00:00:00", ["2026-01-16T00:00:00"]),
    "a leap day": ("0 0 29 2 *", "UTC", "2026-01-01T00:00:00", ["2028-02-29T00:00:00", "2032-02-29T00:00:00"]),
    "a day that never comes": ("0 0 31 2 *", "UTC", "2026-01-01T00:00:00", [None]),
    "a field without a value": (", * * * *", "UTC", "2026-01-01T00:00:00", [None]),
    "a descriptor": ("@weekly", "UTC", "2026-01-01T00:00:00", ["2026-01-04T00:00:00"]),
    "an interval": ("@every 1h30m5.7s", "UTC", "2026-01-01T00:00:00.900000", ["2026-01-01T01:30:05"]),
    "an interval of a second at least": ("@every 1ms", "UTC", "2026-01-01T00:00:00", ["2026-01-01T00:00:01"]),
    "a zone of its own": ("TZ=Asia/Tokyo 0 9 * * *", "UTC", "2026-01-01T00:00:00", ["2026-01-02T00:00:00"]),
    "summer begins": ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00", ["2026-03-09T06:30:00"]),
    "summer ends": (
        "30 1 * * *",
        "America/New_York",
        "2026-10-31T12:00:00",
        ["2026-11-01T05:30:00", "2026-11-01T06:30:00", "2026-11-02T06:30:00"],
    ),
    "no midnight": ("0 * 29 3 *", "Asia/Beirut", "2026-03-28T12:00:00", ["2026-03-28T22:00:00", "2026-03-28T23:00:00"]),
    "a zone with half an hour": ("0 9 * * *", "Asia/Kolkata", "2026-01-01T00:00:00", ["2026-01-01T03:30:00"]),
}


@pytest.mark.parametrize("name", NEXT)
def test_next(name: str) -> None:
    text, zone, after, wanted = NEXT[name]
    schedule, time, found = parse(text, location(zone)), at(after), list[str | None]()
    for _ in wanted:
        following = schedule.next(time)
        found.append(shown(following))
        time = following if following is not None else time
    assert found == wanted


LATEST: dict[str, tuple[str, str, str, str | None]] = {
    # name: (schedule, after, until, the last time in between)
    "none": ("0 0 * * *", "2026-01-01T00:00:00", "2026-01-01T23:59:59", None),
    "one": ("0 0 * * *", "2026-01-01T00:00:00", "2026-01-02T00:00:00", "2026-01-02T00:00:00"),
    "many": ("*/7 * * * *", "2016-01-01T00:00:00", "2026-01-01T00:06:59", "2026-01-01T00:00:00"),
    "in a month long ago": ("* * * 1 *", "2020-01-01T00:00:00", "2025-12-31T00:00:00", "2025-01-31T23:59:00"),
    "an interval": ("@every 7s", "2026-01-01T00:00:00", "2026-01-01T00:00:20", "2026-01-01T00:00:14"),
    "no interval": ("@every 7s", "2026-01-01T00:00:00", "2026-01-01T00:00:06", None),
    "never": ("0 0 31 2 *", "2016-01-01T00:00:00", "2026-01-01T00:00:00", None),
}


@pytest.mark.parametrize("name", LATEST)
def test_latest(name: str) -> None:
    text, after, until, wanted = LATEST[name]
    assert shown(parse(text).latest(at(after), at(until))) == wanted


def test_a_search_has_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[int]()

    def counted(time: int) -> int:
        steps.append(time)
        return 0

    never, rare = parse("0 0 31 2 *", counted), parse("* * * 1 *", counted)
    assert never.next(at("2026-01-01T00:00:00")) is None
    assert len(steps) < 1000
    steps.clear()
    assert isinstance(rare, Spec)
    assert rare.latest(at("1990-01-01T00:00:00"), at("2026-12-31T00:00:00")) == at("2026-01-31T23:59:00")
    assert len(steps) < 10_000


ERRORS: dict[str, tuple[str, str]] = {
    # name: (schedule, upstream's error)
    "empty": ("", "empty spec string"),
    "few fields": ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
    "many fields": ("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
    "too high": ("60 * * * *", "end of range (60) above maximum (59): 60"),
    "too low": ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
    "Sunday is not 7": ("* * * * 7", "end of range (7) above maximum (6): 7"),
    "backwards": ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
    "hyphens": ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
    "slashes": ("1/2/3 * * * *", "too many slashes: 1/2/3"),
    "no step": ("*/0 * * * *", "step of range should be a positive number: */0"),
    "no number": ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
    "a negative number": ("1/-1 * * * *", "negative number (-1) not allowed: -1"),
    "a name elsewhere": ("mon * * * *", 'failed to parse int from mon: strconv.Atoi: parsing "mon": invalid syntax'),
    "a descriptor": ("@fortnightly", "unrecognized descriptor: @fortnightly"),
    "an interval": ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
    "a zone": ("TZ=Nowhere * * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
    "much too long": (f"{'1,' * 20_000}1 * * * *", "must not be longer than 32768 characters"),
    "nothing but a zone": ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    text, wanted = ERRORS[name]
    with pytest.raises(ScheduleError) as caught:
        parse(text)
    assert str(caught.value) == wanted


@pytest.mark.parametrize(
    ("name", "known"),
    [
        pytest.param("", True, id="UTC"),
        pytest.param("Europe/Paris", True, id="one"),
        pytest.param("Europe/Atlantis", False, id="none"),
        pytest.param("Europe", False, id="a folder"),
        pytest.param("../etc/passwd", False, id="outside"),
        pytest.param("tzdata.zi", False, id="another file"),
    ],
)
def test_zones(name: str, known: bool) -> None:
    assert is_known_zone(name) == known


SPECS: dict[str, tuple[dict[str, str], list[str]]] = {
    # name: (the spec, upstream's errors)
    "plain": ({"schedule": "* * * * *", "timeZone": "Europe/Paris"}, []),
    "a schedule": (
        {"schedule": "nonsense"},
        ['spec.schedule: Invalid value: "nonsense": expected exactly 5 fields, found 1: [nonsense]'],
    ),
    "a zone in the schedule": (
        {"schedule": "TZ=UTC * * * * *"},
        ['spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'],
    ),
    "an empty zone": (
        {"schedule": "* * * * *", "timeZone": ""},
        ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string'],
    ),
    "a wrong zone": (
        {"schedule": "* * * * *", "timeZone": "Europe/../Paris"},
        ['spec.timeZone: Invalid value: "Europe/../Paris": unknown time zone Europe/../Paris'],
    ),
    "the local zone": (
        {"schedule": "* * * * *", "timeZone": "LOCAL"},
        [
            'spec.timeZone: Invalid value: "LOCAL": timeZone must be an explicit time zone as defined in '
            "https://www.iana.org/time-zones"
        ],
    ),
    "an unknown zone": (
        {"schedule": "* * * * *", "timeZone": "Nowhere"},
        ['spec.timeZone: Invalid value: "Nowhere": unknown time zone Nowhere'],
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_what_a_spec_must_be(name: str) -> None:
    spec, wanted = SPECS[name]
    assert [str(problem) for problem in schedule_problems(spec, Path("spec"))] == wanted
