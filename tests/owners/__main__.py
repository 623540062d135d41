"""`python -m tests.owners --seconds 600 --seed 7`: random histories for as long as one likes, on a control plane of its own.

Prints each definition's seed. Ends with 1 after the first definition whose histories the servers answered differently, with the
fewest requests that do and the command that plays those histories again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.server import Standalone, running
from tests.owners.histories import run
from tests.owners.playing import connected
from tests.owners.schemas import definition

_STORIES = 24
_STEPS = 14


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers must not be left behind
    end = time.monotonic() + options.seconds
    count, steps = 0, 0
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aggserver-owners-"))
        plane = stack.enter_context(ControlPlane(obtain(os.environ, print)))
        stack.enter_context(running(server := Standalone(Path(folder, "data"))))
        sides = stack.enter_context(connected(plane.kubeconfig, server.kubeconfig))
        while not count or time.monotonic() < end:
            number = options.definition + count
            seed = f"{options.seed}/{number}"
            told = run(sides, seed, definition(seed, number), _STORIES, _STEPS)
            steps += told.steps
            print(f"definition {seed}: {told.steps} steps, {len(told.differences)} differences", flush=True)
            if told.differences:
                print(told.explained(sides))
                print(f"once more: {sys.executable} -m tests.owners --seconds 0 --seed {options.seed} --definition {number}")
                return 1
            count += 1
    print(f"{count} definitions, {steps} steps, nothing found")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.owners", description="Random writes to kube-apiserver and aggserver.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on; the last definition is finished")
    parser.add_argument("--seed", default=str(random.randrange(1 << 20)), help="of all definitions and histories")
    parser.add_argument("--definition", type=int, default=0, help="the number of the first one; the next has the next")
    return parser


if __name__ == "__main__":
    sys.exit(main())
