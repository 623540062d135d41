"""The report of `aggserver convert --check` as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.meta.json_types import JSONMapping

__all__ = ["text"]


def text(report: JSONMapping) -> str:
    return "\n".join(_lines(report))


def _lines(report: JSONMapping) -> Iterator[str]:
    yield f"{report['definition']} in {report['file']}"
    for error in report["errors"]:
        yield f"  error: {error['field']}: {error['message']}"
    for conversion in report.get("conversions", ()):
        yield from _conversion(conversion)
    if "tried" in report:
        warnings = report["warnings"]
        came_back = "" if warnings else ", and all came back as they were"
        yield f"{report['tried']} generated objects were converted both ways{came_back}"
        for warning in warnings:
            yield f"  warning: {warning}"


def _conversion(conversion: JSONMapping) -> Iterator[str]:
    count = conversion["changes"]
    changes = f"{count} change{'' if count == 1 else 's'}"
    derived = ", derived from the way back" if conversion["derived"] else ""
    cost = f"estimated cost {conversion['estimatedTotal']:,} of {conversion['limit']:,}"
    yield f"{conversion['from']} to {conversion['to']}: {changes}{derived}, {cost}"
    for expression in conversion["expressions"]:
        yield f"  {expression['place']}: {expression['estimatedTotal']:,} of {expression['limit']:,}"
        yield f"    {' '.join(expression['expression'].split())}"
