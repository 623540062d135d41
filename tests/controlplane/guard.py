"""The last one out: ends process groups and removes a folder once the process that started it is gone.

Run as a script by tests.controlplane.processes, which holds the other end of its standard input: lines `+N` and `-N` add and
forget process group N. The end of the input, which the kernel brings about even on SIGKILL, is the order to act. A process's own
parent-death signal would not do: it follows the thread that forked, not the process, and exists on Linux only. Standard library
only, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

# Tries to remove the folder, 50 ms apart: what was killed a moment ago may still be writing its last file.
REMOVALS = 40


def main(folder: str, orders: Iterable[str]) -> None:
    groups: set[int] = set()
    for order in orders:
        (groups.add if order.startswith("+") else groups.discard)(int(order[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for _ in range(REMOVALS if folder else 0):
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            break
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin)
