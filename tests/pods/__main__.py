"""`python -m tests.pods --seconds 600 --seed 7`: Pods and workloads by chance, as long as one likes, on an own control plane.

Ends with 1 after the first object that the servers judged differently, with the command that draws it again.
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
from tests.integration.same_pods import DRAWN, NAMESPACE, difference
from tests.integration.sides import both


def main() -> int:
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers must not be left behind
    end = time.monotonic() + options.seconds
    count = 0
    print(f"Pods and workloads, --seed {options.seed}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="aggserver-pods-"))
        plane = stack.enter_context(ControlPlane(obtain(os.environ, print)))
        sides = stack.enter_context(both(plane, Path(folder), (), (NAMESPACE,)))
        while not count or time.monotonic() < end:
            seed = options.seed + count
            for name, draw in DRAWN.items():
                if told := difference(sides, draw(seed), in_order=name != "workload"):
                    print(f"{name}, seed {seed}:{told}\nonce more: {sys.executable} -m tests.pods --seconds 0 --seed {seed}")
                    return 1
            count += 1
    print(f"{count} of each, nothing found")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.pods", description="Random Pods for kube-apiserver and aggserver.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on; the last objects are finished")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 32), help="of the first objects; the next have the next"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
