"""Durations as Go writes them: `10s`, `1m30s`, `1.5h`, `300ms`.

Used for flags, configuration files, `?timeout=` and the format `duration`. Pure.
Source: Go's time.ParseDuration, 1.26; k8s.io/kube-openapi pkg/validation/strfmt/duration.go.
"""

from __future__ import annotations

import re

from aggserver.meta import golang

__all__ = ["lengths", "parse"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]*+\.?[0-9]*+)([^0-9.]*+)")
# A match begins at the first digit of a number only: one that began at a later digit would end at the same place.
_LENGTH = re.compile(r"(?<![0-9])([0-9]++)[\t\n\f\r ]*+([A-Za-zµ]+)")


def parse(text: str) -> float:
    """A duration in seconds. Raises ValueError with Go's message."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {golang.quote(text)}")
    total = 0.0
    position = 0
    while position < len(rest):
        found = _PART.match(rest, position)
        number, unit = found.groups() if found else ("", "")
        if not number.strip("."):
            raise ValueError(f"time: invalid duration {golang.quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {golang.quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {golang.quote(unit)} in duration {golang.quote(text)}")
        total += float(number) * _UNITS[unit]
        position += len(number) + len(unit)
    return sign * total


def lengths(text: str) -> list[tuple[str, str]]:
    """(digits, unit) of each number followed by any word: durations as Scala writes them, which the format `duration` accepts."""
    return _LENGTH.findall(text)
