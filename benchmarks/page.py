"""`python -m benchmarks.page`: measure the tables of docs/benchmarks.md and docs/sizing.md anew, and write them there.

All at once, so that they are of one commit and one machine, with nothing else running. A table that could not be measured stays
as it was, and is told at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.run import progress
from benchmarks.servers import REPOSITORY

__all__ = ["TABLES", "main"]

# What writes each table, in the order in which they are measured: first what is quick, or read most. About two hours.
TABLES = {
    "rates": ["benchmarks"],
    "layers": ["benchmarks.layers"],
    "interpreters": ["benchmarks.interpreters"],
    "adoption": ["benchmarks.adoption"],
    "selectors": ["benchmarks.selectors"],
    "replicas": ["benchmarks.replicas"],
    "etcd": ["benchmarks", "--storage", "etcd"],
    "full_lists": ["benchmarks.full_lists"],
    "fairness": ["benchmarks.fairness"],
    "conversion": ["benchmarks.conversion"],
    "wardle": ["benchmarks.wardle"],
    "cel": ["benchmarks.cel"],
    "millions": ["benchmarks.millions"],
    "sizing": ["benchmarks.sizing"],
    "growth": ["benchmarks", "--growth"],
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"only these of {', '.join(TABLES)}")
    chosen = parser.parse_args(arguments).tables or [*TABLES]
    if unknown := [name for name in chosen if name not in TABLES]:
        parser.error(f"no such table: {', '.join(unknown)}")
    say = progress()
    failed = []
    for name in chosen:
        say(f"table {name}")
        command = [sys.executable, "-m", *TABLES[name], "--write-docs"]
        if subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=False).returncode:
            failed.append(name)
    say(f"not measured: {', '.join(failed)}" if failed else "all are measured")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
