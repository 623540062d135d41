"""GraphBuilder: brings the graph of owners up to date with the events of the store, in steps.

One object may name tens of thousands of owners, and one deletion may concern any number of dependents. So the work for an event
is divided into steps: the caller has the builder do some of them, and lets other tasks run in between. Events are processed in
their order, one after the other.
Pure. Source: k8s.io/kubernetes pkg/controller/garbagecollector/graph_builder.go, v1.36.3, where a goroutine takes the events from
a queue.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from aggserver.controllers.garbage.owner_graph import OwnerCheck, OwnerGraph, Steps
from aggserver.registry import stored
from aggserver.storage import keys

__all__ = ["GraphBuilder"]

# An object whose bytes have neither of these needs no check. In a string value the quotes would be escaped.
_OWNED, _DELETED = b'"ownerReferences"', b'"deletionTimestamp"'
# As upstream: Events are not collected, because there are many and they expire.
_IGNORED = (keys.resource_prefix("", "events"), keys.resource_prefix("events.k8s.io", "events"))
# Decoding so many bytes of an object takes about as long as a step, some microseconds.
_BYTES_PER_STEP = 500


class _Write(NamedTuple):
    """One write to the store. value: None for a deletion. is_new: whether there was no object at the key before."""

    key: str
    value: bytes | None
    is_new: bool


class GraphBuilder:
    """Builds a graph. graph: must not be changed otherwise, except by `verified`."""

    def __init__(self, graph: OwnerGraph) -> None:
        self.graph = graph
        # The events to process. None: the kinds that are served have changed.
        self._waiting: deque[_Write | None] = deque()
        self._steps: Steps | None = None
        self.waiting_bytes = 0

    def written(self, key: str, value: bytes | None, *, is_new: bool = False) -> None:
        """Add a write to the waiting events. value: None for a deletion. is_new: whether there surely was no object before."""
        if not key.startswith(_IGNORED):
            self._waiting.append(_Write(key, value, is_new))
            self.waiting_bytes += len(value or b"")

    def kinds_changed(self) -> None:
        self._waiting.append(None)

    def abandon(self) -> None:
        """Drop the waiting events. The graph is incomplete from then on."""
        self._waiting.clear()
        self._steps = None
        self.waiting_bytes = 0

    @property
    def is_done(self) -> bool:
        return self._steps is None and not self._waiting

    def advance(self, most: int) -> list[OwnerCheck]:
        """Do at most `most` steps. Returns the checks that they ask for."""
        found: list[OwnerCheck] = []
        while most > 0 and not self.is_done:
            if self._steps is None:
                self._steps = self._begin(self._waiting.popleft())
            done = list(islice(self._steps, most))
            found += [check for check in done if check is not None]
            if len(done) < most:
                self._steps = None
            most -= len(done) + 1
        return found

    def _begin(self, write: _Write | None) -> Steps:
        if write is None:
            return self.graph.kinds_changed()
        if write.value is None:
            return self.graph.deleted(write.key)
        self.waiting_bytes -= len(write.value)
        if write.is_new:
            self.graph.created(write.key)
        return self._changed(write.key, write.value)

    def _changed(self, key: str, value: bytes) -> Steps:
        if not (_OWNED in value or _DELETED in value or key in self.graph):
            return
        try:
            keys.split(key)
            metadata = stored.metadata_of(value)
        except (ValueError, RecursionError):
            return  # the value is no object, or can't be read, so its owners are unknown
        for _ in range(len(value) // _BYTES_PER_STEP):
            yield None
        yield from self.graph.changed(key, metadata)
