"""Durations as Go writes them: `10s`, `1m30s`, `1.5h`, `300ms`.

Used for flags, configuration files and `?timeout=`. Pure. Source: Go's time.ParseDuration, 1.26.
"""

from __future__ import annotations

import re

from aggserver.meta import golang

__all__ = ["parse"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]*\.?[0-9]*)([^0-9.]*)")


def parse(text: str) -> float:
    """A duration in seconds. Raises ValueError with Go's message."""
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError(f"time: invalid duration {golang.quote(text)}")
    total = 0.0
    while rest:
        found = _PART.match(rest)
        number, unit = found.groups() if found else ("", "")
        if not number.strip("."):
            raise ValueError(f"time: invalid duration {golang.quote(text)}")
        if not unit:
            raise ValueError(f"time: missing unit in duration {golang.quote(text)}")
        if unit not in _UNITS:
            raise ValueError(f"time: unknown unit {golang.quote(unit)} in duration {golang.quote(text)}")
        total += float(number) * _UNITS[unit]
        rest = rest[len(number) + len(unit) :]
    return sign * total
