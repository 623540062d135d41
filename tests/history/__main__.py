"""`python -m tests.history --minutes 10 --seed 7 --store etcd`: one scenario after the other until the time is over.

Prints each run's seed, and ends with status 1 at the first that has a fault: the same seed and scenario are the same run, as far
as the machine's load allows.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.history.scenarios import RUNS, SCENARIOS, run
from tests.history.servers import STORES


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server must not be left behind
    end = time.monotonic() + options.minutes * 60
    chosen = [(name, store) for name, store in RUNS if options.scenario in ("", name) and options.store in ("", store)]
    for number, (name, store) in enumerate(itertools.cycle(chosen)):
        seed = options.seed + number
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="aggserver-history-") as folder:
            verdict = asyncio.run(run(SCENARIOS[name], store, seed, Path(folder)))
        seconds = time.monotonic() - began
        found = f"{len(verdict.truth.facts)} changes, {verdict.events} events told, {verdict.expired} times told to list anew"
        print(f"{name}, {store}, seed {seed}: {found}, {len(verdict.faults)} faults, {seconds:.1f} s", flush=True)
        if verdict.faults:
            print(verdict)
            print(f"once more: {sys.executable} -m tests.history --minutes 0 --scenario {name!r} --store {store} --seed {seed}")
            return 1
        if time.monotonic() > end:
            return 0
    print(f"scenario {options.scenario!r} is not for store {options.store!r}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description="Looks for lost, repeated and reordered events.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on; the last run is finished")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20), help="of the first run; the next has the next")
    parser.add_argument("--store", choices=list(STORES), default="", help="only on this one (default: all in turn)")
    parser.add_argument("--scenario", choices=list(SCENARIOS), default="", help="only this one (default: all in turn)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
