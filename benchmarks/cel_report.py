"""The tables of rules: the times to compile and to evaluate a rule, and the rate of creates with twenty rules. Pure.

A report is kept as JSON: `commit`, `date` and `machine` as in benchmarks.report, `create`, which
is such a report, and `rules`, each with its `name`, `verdict`, `cost`, `static_cost` and, in microseconds by server and batch,
`evaluation`, `compilation` and `environment`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.report import BASELINE, MEASURED, Section, machine, number, table, workload_row
from benchmarks.workloads import CREATED, Workload

__all__ = ["PARTS", "RULES", "RULES_SECTION", "TWENTY_RULES", "cel_document"]

RULES, CREATE = PARTS = ("rules", "create")
RULES_SECTION = Section("rules", ".cel")

TWENTY_RULES = Workload(
    "create-rules",
    "create with twenty rules, 32 clients",
    4,
    {"workload": "create", "clients": 32, "count": 3000},
    namespace=CREATED,
    order=2,
)

# The aim: an evaluation as fast as cel-go's.
AIM = 1.0


def cel_document(report: Mapping[str, Any]) -> str:
    """The text between the markers of docs/benchmarks.md; parts that were not measured are left out."""
    parts = [f"{machine(report)}. A factor in bold reaches its aim."]
    if RULES in report:
        parts += [_rules(report), _environments(report)]
    if CREATE in report:
        created = report[CREATE]
        row = workload_row(TWENTY_RULES, created)
        parts.append(table([row]))
        if row.remark:
            parts.append(f"- {row.title}: {row.remark}")
    return "\n\n".join(parts)


def _rules(report: Mapping[str, Any]) -> str:
    head = [
        "| rule | cost | evaluation: cel-go | aggserver | factor | compilation: cel-go | aggserver | factor |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_line(rule) for rule in report[RULES])])


def _line(rule: Mapping[str, Any]) -> str:
    cells = [rule["name"], number(rule["cost"]), *_compared(rule["evaluation"]), *_compared(rule["compilation"])]
    return f"| {' | '.join(cells)} |"


def _compared(batches: Mapping[str, list[float]]) -> list[str]:
    theirs, ours = (statistics.median(batches[server]) for server in (BASELINE, MEASURED))
    factor = f"{number(theirs / ours)}x"
    return [f"{number(theirs)} µs", f"{number(ours)} µs", f"**{factor}**" if theirs / ours >= AIM else factor]


def _environments(report: Mapping[str, Any]) -> str:
    theirs, ours = (
        statistics.median(statistics.median(rule["environment"][server]) for rule in report[RULES])
        for server in (BASELINE, MEASURED)
    )
    return f"Before the rules of a node, the types of its schema: cel-go {number(theirs)} µs, aggserver {number(ours)} µs."
