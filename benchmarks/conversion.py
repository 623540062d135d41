"""`python -m benchmarks.conversion`: reads in another version than the one that objects are stored in, through a webhook.

Both servers have the definition of the main benchmark with a second version, in which a field of the spec has another name, and
the same webhook (benchmarks/load/convert.go), which converts it. kube-apiserver asks the webhook in every read, aggserver once
for each object that was written: in the first list, which has a row of its own.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.__main__ import CONNECTIONS, PAGE
from benchmarks.client import LoadError, build
from benchmarks.report import BASELINE, MEASURED, Section, machine, number, table, workload_row
from benchmarks.run import DEFINITION, Options, Say, keep, measure, progress, scratch_folder, show
from benchmarks.workloads import OBJECTS, Workload
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["CONVERSION_SECTION", "CONVERTED", "conversion_document", "definition_with_webhook"]

CONVERSION_SECTION = Section("conversion", ".conversion")

# The second version, and the name that a field has in it.
OTHER = "v2"
STORED_FIELD, OTHER_FIELD = "cronSpec", "schedule"

# In the first list of all objects aggserver asks the webhook too. Later rounds of it measure what LATER measures.
FIRST = Workload(
    "first-list-converted",
    "first list of all objects in another version, limit=500, 1 client",
    1,
    {"workload": "list-500", "clients": 1, "count": OBJECTS // 500, "version": OTHER},
    "pages/s",
)
LATER = (
    Workload(
        "list-500-converted",
        "list limit=500 in another version, 4 clients",
        50,
        {"workload": "list-500", "clients": 4, "version": OTHER},
        "pages/s",
    ),
    Workload("get-converted", "get in another version, 32 clients", 10, {"workload": "get", "clients": 32, "version": OTHER}),
)
CONVERTED = (FIRST, *LATER)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument("--objects", type=int, default=OBJECTS, help="number of objects (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each server at each workload (default %(default)s)")
    parser.add_argument("--profile", type=Path, metavar="FILE", help=f"run {MEASURED} under cProfile, which writes FILE")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, use the results of an earlier run")
    options = parser.parse_args(arguments)
    if options.write_docs and options.only:
        parser.error("the documents are for whole runs")
    if options.profile and options.only != MEASURED:
        parser.error(f"--profile slows {MEASURED} down, and goes with --only {MEASURED}")
    try:
        report = json.loads(options.report.read_text()) if options.report else _measure(options)
    except (LoadError, ProcessError, BinariesError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    show(conversion_document(report), PAGE, CONVERSION_SECTION, write=options.write_docs)
    return 1 if report["failed"] else 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    say = progress()
    with scratch_folder() as folder, _webhook(folder, say) as (url, authority):
        report = measure(
            Options(
                workloads=CONVERTED,
                objects=options.objects,
                rounds=options.rounds,
                seconds=6.0,
                connections=CONNECTIONS,
                profile=options.profile,
                servers=[options.only] if options.only else [BASELINE, MEASURED],
                definition=definition_with_webhook(url, authority),
            ),
            say,
        )
    keep(report, say)
    return report


@contextlib.contextmanager
def _webhook(folder: Path, say: Say) -> Iterator[tuple[str, bytes]]:
    """(its URL, its CA as PEM) for as long as the block runs."""
    binary = build(folder, say)
    # No proxy settings, and so on, of the machine.
    environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    with subprocess.Popen(
        [binary, f"-convert={folder}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            if not url:
                raise LoadError("the webhook ended and said nothing")
            yield url, (folder / "ca.crt").read_bytes()
        finally:
            process.terminate()


def definition_with_webhook(url: str, authority: bytes) -> dict[str, Any]:
    """The definition of the benchmarks with a second version, which this webhook converts to and from."""
    definition: dict[str, Any] = yaml.safe_load(DEFINITION.read_text())
    spec = definition["spec"]
    other = copy.deepcopy(spec["versions"][0])
    text = json.dumps({**other, "name": OTHER, "storage": False})
    spec["versions"].append(json.loads(text.replace(STORED_FIELD, OTHER_FIELD)))
    config = {"url": url, "caBundle": base64.b64encode(authority).decode()}
    spec["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}
    return definition


def conversion_document(report: Mapping[str, Any]) -> str:
    """The text between the markers of docs/benchmarks.md. Pure; benchmarks.report describes the report."""
    first_round = {**report, "runs": [run for run in report["runs"] if run["round"] == 0]}
    rows = [workload_row(FIRST, first_round), *(workload_row(workload, report) for workload in LATER)]
    options = report["options"]
    conditions = (
        f"{machine(report)}, {number(options['objects'])} objects, {options['protocol']}, rounds: {options['rounds']}; "
        "aggserver on SQLite. A factor in bold reaches its aim."
    )
    remarks = [f"- {row.title}: {row.remark}" for row in rows if row.remark]
    return "\n\n".join(part for part in (conditions, table(rows), "\n".join(remarks)) if part)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
