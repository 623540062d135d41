"""Figures: what a backend tells of itself for metrics. They are counted as things happen, and read when metrics are.

Source: k8s.io/apiserver pkg/storage/etcd3/metrics/metrics.go, v0.36.3, for the buckets of requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aggserver.meta.distribution import Distribution
from aggserver.storage.keys import CORE

__all__ = ["CommitFigures", "RequestFigures", "StorageFigures"]

# Seconds of a commit: half a millisecond with a fast disk, tens of milliseconds with a slow one.
COMMIT_BUCKETS = tuple(0.0005 * 2.0**n for n in range(14))
BATCH_BUCKETS = tuple(2.0**n for n in range(8))  # writes that share a commit: 1 to 128, which is the most
REQUEST_BUCKETS = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)


class CommitFigures:
    """Of the thread that writes, which is the only one to change them. failures: commits and compactions that have failed."""

    def __init__(self) -> None:
        self.seconds = Distribution(COMMIT_BUCKETS)
        self.writes = Distribution(BATCH_BUCKETS)
        self.failures = 0
        self.compaction_steps = 0


class RequestFigures:
    """Of the requests to a store that is another process. seconds, failures: by operation, group and resource.

    clock: monotonic seconds. answers: exceptions that are no failures of the store.
    """

    def __init__(self, clock: Callable[[], float], answers: tuple[type[Exception], ...] = ()) -> None:
        self._clock = clock
        self._answers = answers
        self.seconds: dict[tuple[str, str, str], Distribution] = {}
        self.failures: dict[tuple[str, str, str], int] = {}

    @contextmanager
    def timed(self, operation: str, key: str) -> Iterator[None]:
        """Count what is done inside as one request about a key or a prefix. What raises has failed, unless it is an answer."""
        _, group, resource, *_ = (*key.split("/", 3), "", "")
        labels = (operation, "" if group == CORE else group, resource)
        started = self._clock()
        try:
            yield
        except self._answers:
            raise
        except Exception:
            self.failures[labels] = self.failures.get(labels, 0) + 1
            raise
        finally:
            found = self.seconds.get(labels)
            if found is None:
                found = self.seconds[labels] = Distribution(REQUEST_BUCKETS)
            found.observe(self._clock() - started)


@dataclass(slots=True)
class StorageFigures:
    """revision: the newest one known. compacted: up to which there is no history. size, log_size: bytes of the file and of its
    log. What a backend does not have, or does not know without asking, is None.
    """

    revision: int | None = None
    compacted: int | None = None
    size: int | None = None
    log_size: int | None = None
    commits: CommitFigures | None = None
    requests: RequestFigures | None = None
