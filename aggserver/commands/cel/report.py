"""The reports of `aggserver cel` as text for people: short and aligned. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from aggserver.cel.ranges import LARGEST
from aggserver.meta.json_types import JSONObject

__all__ = ["text"]

# The most characters of a rule that a table shows.
_WIDEST = 72


def text(report: JSONObject) -> str:
    return "\n".join(_definition(report) if "versions" in report else _expression(report))


def _expression(report: JSONObject) -> Iterator[str]:
    if "error" in report:
        yield report["error"]
        return
    if "object" in report:
        yield from _object(report["object"])
        return
    yield f"type            {report['type']}"
    if "limit" in report:
        share = _share(report)
        of_it = "" if share.endswith("x") else " of"
        yield f"estimated cost  {_estimate(report)}, {share}{of_it} the limit of {report['limit']:,}"
    else:
        yield f"estimated cost  {_number(report['estimatedCost'])}"
    if "needs" in report:
        yield f"value           not known without {report['needs']}"
        return
    results = report["results"]
    if not results:
        yield "value           none: there is nothing at that place"
    for result in results:
        if result.get("place", ".") != ".":
            yield f"at              {result['place']}"
        yield f"error           {result['error']}" if "error" in result else f"value           {_json(result['value'])}"
        yield f"actual cost     {_number(result['cost'])}"


def _definition(report: JSONObject) -> Iterator[str]:
    for number, version in enumerate(report["versions"]):
        if number:
            yield ""
        yield f"{report['definition']} {version['version']}"
        yield from _table(_rows(version)) if version["rules"] else ("no rules",)
        for error in version["errors"]:
            yield ""
            yield f"error: {version['file']}: {version['version']}: {error['field']}: {error['message']}"
    if "object" in report:
        yield ""
        yield from _object(report["object"])


def _rows(version: JSONObject) -> Iterator[Sequence[str]]:
    yield "PLACE", "COST", "LIMIT", "RULE"
    for rule in version["rules"]:
        what = rule["rule"] if "rule" in rule else f"message: {rule['messageExpression']}"
        yield rule["place"], _estimate(rule), _share(rule), _short(what)
    yield "all", _number(version["estimatedTotal"]), _share(version), ""


def _table(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Aligns all columns but the last."""
    cells = list(rows)
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    for row in cells:
        yield "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1])).rstrip()


def _object(found: JSONObject) -> Iterator[str]:
    for error in found["errors"]:
        yield f"error: {found['file']}: {error['field']}: {error['message']}"
    for warning in found["warnings"]:
        yield f"warning: {found['file']}: {warning}"
    if not found["errors"]:
        yield f"{found['file']} is valid"


def _estimate(report: JSONObject) -> str:
    cost, count = _number(report["estimatedCost"]), report["cardinality"]
    return cost if count == 1 else f"{cost} x {_number(count)} = {_number(report['estimatedTotal'])}"


def _share(report: JSONObject) -> str:
    """The share of the limit: a percentage, or a factor such as `2.3x` above it. No exact figures far from the limit."""
    share = report["estimatedTotal"] / report["limit"]
    if share > 1:
        return f"{share:.1f}x" if share < 100 else "more than 100x"
    return "less than 0.1%" if 0 < share < 0.001 else f"{share:.1%}"


def _number(value: int) -> str:
    # Traversing something unbounded costs a tenth of the largest number.
    return "unbounded" if value >= LARGEST // 10 else f"{value:,}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
