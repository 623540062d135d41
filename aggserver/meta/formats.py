"""Three string formats that schemas (`format`) and CEL (`format.named`) check in the same way, with the oddities of Go's parsers.

Pure. Source: k8s.io/kube-openapi pkg/validation/strfmt and pkg/internal/third_party/govalidator, v0.36.3.
"""

from __future__ import annotations

import calendar
import re

__all__ = ["is_base64", "is_date", "is_date_time"]

_BASE64 = re.compile("[A-Za-z0-9+/]+={0,2}")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII)


def is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and _BASE64.fullmatch(text) is not None


def is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    # The year 0 is a leap year; Python's calendar does not have it.
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year or 4, month)[1]


def is_date_time(text: str) -> bool:
    date, _, rest = text.lower().partition("t")
    # Upstream ignores everything after a second t.
    found = _TIME.fullmatch(rest.partition("t")[0])
    return found is not None and is_date(date) and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"
