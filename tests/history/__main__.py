"""`python -m tests.history --minutes 10 --seed 7 --store sqlite`: one scenario after the other until the time is over.

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

from tests.history.scenarios import SCENARIOS, STORES, run


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the server must not be left behind
    end = time.monotonic() + options.minutes * 60
    names = [options.scenario] if options.scenario else list(SCENARIOS)
    for number, name in enumerate(itertools.cycle(names)):
        seed = options.seed + number
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="aggserver-history-") as folder:
            verdict = asyncio.run(run(SCENARIOS[name], options.store, seed, Path(folder, "data")))
        seconds = time.monotonic() - began
        found = f"{len(verdict.truth.facts)} changes, {verdict.events} events told, {verdict.expired} times told to list anew"
        print(f"{name}, seed {seed}: {found}, {len(verdict.faults)} faults, {seconds:.1f} s", flush=True)
        if verdict.faults:
            print(verdict)
            return 1
        if time.monotonic() > end:
            return 0
    raise AssertionError("there is always a next one")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.history", description="Looks for lost, repeated and reordered events.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on; the last run is finished")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 20), help="of the first run; the next has the next")
    parser.add_argument("--store", choices=list(STORES), default="sqlite")
    parser.add_argument("--scenario", choices=list(SCENARIOS), help="only this one (default: all in turn)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
