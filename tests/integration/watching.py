"""`kubectl get --watch` in the background, its events line by line: for tests that must know that a watch is under way."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Iterator

from tests.controlplane.cluster import Cluster
from tests.integration import pages
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

__all__ = ["Watch", "watching"]


class Watch:
    """`lines` are what kubectl prints: EVENT, NAME and further columns."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: queue.Queue[str] = queue.Queue()
        # In a thread, since a pipe can't be waited for with a limit.
        threading.Thread(target=self._read, daemon=True).start()

    def events(self, name: str, last: str) -> list[str]:
        """The kinds of the events about `name`, up to one of kind `last`."""
        found: list[str] = []
        while not found or found[-1] != last:
            kind, about = self.lines.get(timeout=HANG_SECONDS).split()[:2]
            if about == name:
                found.append(kind)
        return found

    def end(self) -> tuple[int, str]:
        """Exit status and complaints, once it ended by itself."""
        status = self._process.wait(timeout=HANG_SECONDS)
        assert self._process.stderr is not None
        return status, self._process.stderr.read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line)


@contextlib.contextmanager
def watching(cluster: Cluster, namespace: str) -> Iterator[Watch]:
    """A watch of the namespace's CronTabs that has begun: it has told of changes to the CronTab `touched`, which this makes."""
    touched = pages.MY_CRONTAB.replace("my-new-cron-object", "touched")
    cluster.kubectl("-n", namespace, "create", "-f", "-", input=touched)
    with cluster.running_kubectl("-n", namespace, "get", "crontabs", "--watch-only", "--output-watch-events") as process:
        watch = Watch(process)

        def begun() -> bool:
            # There is no other sign of it than an event.
            if watch.lines.empty():
                cluster.kubectl("-n", namespace, "annotate", "crontab", "touched", f"at={time.monotonic()}", "--overwrite")
            return not watch.lines.empty()

        eventually(begun, "the watch begins")
        yield watch
