import re

import pytest

from aggserver.meta import times
from aggserver.meta.times import format_micro_time, parse_micro_time

READ = {
    "utc": ("2020-01-01T00:00:00Z", 1577836800.0),
    "offset": ("2020-01-01T01:00:00+01:00", 1577836800.0),
    "western offset": ("2019-12-31T16:30:00-07:30", 1577836800.0),
    "fraction": ("2020-01-01T00:00:00.5Z", 1577836800.5),
    "fraction with a comma": ("2020-01-01T00:00:00,25Z", 1577836800.25),
    "hour with one digit": ("2020-01-01T1:00:00Z", 1577840400.0),
    "before 1970": ("1969-12-31T23:59:59Z", -1.0),
    "leap day": ("2020-02-29T00:00:00Z", 1582934400.0),
}


@pytest.mark.parametrize(("text", "seconds"), READ.values(), ids=READ)
def test_parse(text: str, seconds: float) -> None:
    assert times.parse_time(text) == seconds


LAYOUT = '"2006-01-02T15:04:05Z07:00"'
REFUSED = {
    "nothing": ("", f'parsing time "" as {LAYOUT}: cannot parse "" as "2006"'),
    "no date": ("x", f'parsing time "x" as {LAYOUT}: cannot parse "x" as "2006"'),
    "date only": ("2020-01-01", f'parsing time "2020-01-01" as {LAYOUT}: cannot parse "" as "T"'),
    "no zone": ("2020-01-01T00:00:00", f'parsing time "2020-01-01T00:00:00" as {LAYOUT}: cannot parse "" as "Z07:00"'),
    "small letters": (
        "2020-01-01t00:00:00z",
        f'parsing time "2020-01-01t00:00:00z" as {LAYOUT}: cannot parse "t00:00:00z" as "T"',
    ),
    "point without fraction": (
        "2020-01-01T00:00:00.Z",
        f'parsing time "2020-01-01T00:00:00.Z" as {LAYOUT}: cannot parse ".Z" as "Z07:00"',
    ),
    "month": ("2020-13-01T00:00:00Z", 'parsing time "2020-13-01T00:00:00Z": month out of range'),
    "day": ("2020-02-30T00:00:00Z", 'parsing time "2020-02-30T00:00:00Z": day out of range'),
    "hour": ("2020-01-01T24:00:00Z", 'parsing time "2020-01-01T24:00:00Z": hour out of range'),
    "minute": ("2020-01-01T00:60:00Z", 'parsing time "2020-01-01T00:60:00Z": minute out of range'),
    "leap second": ("2020-01-01T00:00:60Z", 'parsing time "2020-01-01T00:00:60Z": second out of range'),
    "offset's hour": (
        "2020-01-01T00:00:00+25:00",
        'parsing time "2020-01-01T00:00:00+25:00": time zone offset hour out of range',
    ),
    "offset's minute": (
        "2020-01-01T00:00:00+01:61",
        'parsing time "2020-01-01T00:00:00+01:61": time zone offset minute out of range',
    ),
    "more": ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
}


@pytest.mark.parametrize(("text", "error"), REFUSED.values(), ids=REFUSED)
def test_parse_refuses(text: str, error: str) -> None:
    with pytest.raises(ValueError) as refusal:
        times.parse_time(text)
    assert str(refusal.value) == error


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1577836800.999, "2020-01-01T00:00:00Z"), (-0.5, "1969-12-31T23:59:59Z"), (-62135596800.0, "0001-01-01T00:00:00Z")],
    ids=["cut to whole seconds", "before 1970", "the zero time"],
)
def test_format(seconds: float, text: str) -> None:
    assert times.format_time(seconds) == text


HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
DURATIONS = [
    (-2, "<invalid>"),
    (-1.5, "0s"),
    (-1, "0s"),
    (0, "0s"),
    (119.9, "119s"),
    (120, "2m"),
    (599, "9m59s"),
    (600, "10m"),
    (3 * HOUR - 1, "179m"),
    (3 * HOUR, "3h"),
    (8 * HOUR - 1, "7h59m"),
    (8 * HOUR, "8h"),
    (2 * DAY - 1, "47h"),
    (2 * DAY, "2d"),
    (8 * DAY - 1, "7d23h"),
    (8 * DAY, "8d"),
    (2 * YEAR - 1, "729d"),
    (2 * YEAR, "2y"),
    (8 * YEAR - 1, "7y364d"),
    (8 * YEAR, "8y"),
]


@pytest.mark.parametrize(("seconds", "text"), DURATIONS, ids=[text for _, text in DURATIONS])
def test_human_duration(seconds: float, text: str) -> None:
    assert times.human_duration(seconds) == text


MICRO = {
    "in UTC": ("2026-01-02T03:04:05.678901Z", "2026-01-02T03:04:05.678901Z"),
    "elsewhere": ("2026-01-02T03:04:05.000001-01:30", "2026-01-02T04:34:05.000001Z"),
    "before 1970": ("1969-12-31T23:59:59.500000Z", "1969-12-31T23:59:59.500000Z"),
}


@pytest.mark.parametrize(("text", "written"), MICRO.values(), ids=MICRO)
def test_micro_times(text: str, written: str) -> None:
    assert format_micro_time(*parse_micro_time(text)) == written


_AS = 'as "2006-01-02T15:04:05.000000Z07:00": cannot parse'
NO_MICRO = {
    "no fraction": ("2026-01-02T03:04:05Z", f'{_AS} "Z" as ".000000"'),
    "too few digits": ("2026-01-02T03:04:05.123Z", f'{_AS} ".123Z" as ".000000"'),
    "too many digits": ("2026-01-02T03:04:05.123456789Z", f'{_AS} "789Z" as "Z07:00"'),
    "no time": ("x", f'{_AS} "x" as "2006"'),
}


@pytest.mark.parametrize(("text", "error"), NO_MICRO.values(), ids=NO_MICRO)
def test_no_micro_times(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f'parsing time "{text}" {error}')):
        parse_micro_time(text)
