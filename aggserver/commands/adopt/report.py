"""Report: plans and the status of adoption as text for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aggserver.meta.json_types import JSONMapping

__all__ = ["plan_text", "status_text"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def plan_text(found: JSONMapping) -> str:
    lines = [f"in the way: {each}" for each in found["obstacles"]]
    for family in found["families"]:
        state = "can't be adopted yet" if family["obstacles"] else "can be adopted"
        lines.append(f"{family['name']} ({', '.join(family['groupVersions'])}): {state}")
        for each in family["definitions"]:
            if "objects" in each:
                much = f"{each['objects']} objects, some {_bytes(each['bytes'])}, read in some {each['secondsToRead']:g} s"
                lines.append(f"  {each['name']}: {much}")
        lines += [f"  in the way: {each}" for each in family["obstacles"]]
        lines += [f"  note: {each}" for each in family["notes"]]
    if not found["families"]:
        lines.append("no definition matches that is not adopted already")
    return "\n".join([*lines, *(f"note: {each}" for each in found["notes"])])


def status_text(entries: Mapping[str, JSONMapping], left_out: int, server: JSONMapping, notes: Sequence[str]) -> str:
    """The status as a table. server: as `holder.shown` returns it."""
    who = server["problem"] or f"moved by {server['holder']}"
    shown = [_entries_text(entries, left_out), *([who] if entries or server["problem"] else [])]
    return "\n".join([*shown, *(f"note: {each}" for each in notes)])


def _entries_text(entries: Mapping[str, JSONMapping], left_out: int) -> str:
    rows: list[Sequence[str]] = [("DEFINITION", "PHASE", "SINCE", "OBJECTS", "LEFT", "REASON")]
    for name, each in sorted(entries.items()):
        progress = each.get("progress") or each.get("copied") or {}
        left = str(each["progress"]["remaining"]) if "progress" in each else ""
        if "secondsLeft" in each.get("progress", {}):
            left += f" ({each['progress']['secondsLeft']} s)"
        rows.append((name, each["phase"], each["since"], str(progress.get("objects", "")), left, _reason(each)))
    if len(rows) == 1:
        return "nothing is adopted"
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, *([f"and {left_out} more"] if left_out else [])])


def _reason(each: JSONMapping) -> str:
    degraded = [c["message"] for c in each.get("conditions") or () if c["type"] == "Degraded" and c["status"] == "True"]
    return "; ".join([*([each["reason"]] if each.get("reason") else []), *degraded])


def _bytes(size: float) -> str:
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            return f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes all")
