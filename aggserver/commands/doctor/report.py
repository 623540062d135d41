"""What the doctor found, as text for people, and as JSON for programs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggserver.commands.doctor.finding import Finding, Severity
from aggserver.meta.json_types import JSONObject

__all__ = ["findings_json", "findings_text"]


def findings_json(findings: Sequence[Finding], installations: Sequence[str], unread: Mapping[str, str]) -> JSONObject:
    """unread: what could not be looked at, with the reason."""
    return {
        "ok": not findings and not unread,
        "installations": list(installations),
        "findings": [each.to_json() for each in findings],
        "notLookedAt": [{"what": what, "why": why} for what, why in unread.items()],
    }


def findings_text(findings: Sequence[Finding], installations: Sequence[str], unread: Mapping[str, str]) -> str:
    lines = []
    for each in findings:
        lines += [f"{each.severity.value}: {each.where}: {each.what}"]
        lines += [f"  why:  {each.why}"] if each.why else []
        lines += [f"  mend: {each.mend}"]
    lines += [f"not looked at: {what}: {why}" for what, why in unread.items()]
    errors = sum(each.severity is Severity.ERROR for each in findings)
    looked = f"looked at {', '.join(installations)}" if installations else "no installation found"
    if findings:
        lines.append(f"{looked}: {_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}")
    elif unread:
        lines.append(f"{looked}: nothing is wrong as far as could be seen")
    else:
        lines.append(f"{looked}: nothing is wrong")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
