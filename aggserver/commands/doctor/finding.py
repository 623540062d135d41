"""Finding: one thing that is wrong, why, and the command that mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from aggserver.meta.json_types import JSONObject

__all__ = ["Finding", "Severity", "in_order", "listed"]

# Names that one finding lists; a broken Service makes as many APIServices unavailable as there are.
_MOST_NAMES = 5


class Severity(StrEnum):
    """ERROR: clients notice it now, or something does not work. WARNING: it works, but will not for long, or not as it should."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """check: the name of what was looked at, for programs. where: the object. mend: a command, or where none can, what to do."""

    check: str
    severity: Severity
    where: str
    what: str
    why: str
    mend: str

    def to_json(self) -> JSONObject:
        return {
            "check": self.check,
            "severity": self.severity.value,
            "object": self.where,
            "what": self.what,
            "why": self.why,
            "mend": self.mend,
        }


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, otherwise in the order of the checks, each once."""
    return sorted(dict.fromkeys(findings), key=lambda each: each.severity is not Severity.ERROR)


def listed(names: Iterable[str]) -> str:
    """Names, separated by commas; of many the first ones and how many more there are."""
    known = list(names)
    more = len(known) - _MOST_NAMES
    return ", ".join(known[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
