"""Verification of the history in the SQLite file, before watches and lists at old revisions use it.

An event that is lost, or whose key is damaged, would be missing from a watch or a list at an old revision without an error. So
before the history after a revision is used, the chain of events since then is verified once: each state must follow from the
previous one (`checksums.py`). Events that this process wrote need no verification. 100,000 events take about 0.2 s, on the
reader's thread.
"""

from __future__ import annotations

import logging
import sqlite3
from typing import NoReturn

from aggserver.storage import jumps
from aggserver.storage.checksums import next_state
from aggserver.storage.interface import Compacted
from aggserver.storage.sqlite_file import COMPACTED, checked

__all__ = ["History"]

_CHAIN = """
SELECT revision, key, create_revision, previous, value IS NULL, state FROM events
WHERE revision > ? AND revision <= ? ORDER BY revision
"""
# The newest event may be older, because revisions may have gaps (`jumps.py`).
_STATE_AT = """
SELECT coalesce(
    (
        SELECT state FROM events WHERE revision <= ? AND revision > (SELECT revision FROM compaction)
        ORDER BY revision DESC LIMIT 1
    ),
    (SELECT state FROM compaction)
)
"""
_VALUE = "SELECT value, checksum FROM events WHERE revision = ?"

logger = logging.getLogger(__name__)


class History:
    """The part of the history that is verified: all events after the revision `proven`. Used on the reader's thread only."""

    def __init__(self, newest: int) -> None:
        self.proven = newest
        self._broken = 0  # the newest revision with a damaged event; 0 if none is known

    def check(self, connection: sqlite3.Connection, revision: int) -> None:
        """Verify the history after `revision`. Raises Compacted if it is compacted or damaged."""
        (compacted,) = connection.execute(COMPACTED).fetchone()
        if revision < compacted:
            raise Compacted(revision, compacted)
        if revision < self._broken:
            raise Compacted(revision, self._broken)
        if revision < self.proven:
            self._prove(connection, revision)

    def _prove(self, connection: sqlite3.Connection, after: int) -> None:
        (state,) = connection.execute(_STATE_AT, (after,)).fetchone()
        # No event has revision 1, because an empty store begins with it.
        first = last = max(after, 1)
        proven = after
        for revision, key, created, previous, deleted, found in connection.execute(_CHAIN, (after, self.proven)):
            state = next_state(state, key, revision, created, previous, deleted=bool(deleted))
            if revision != last + 1:
                jump = _jump(connection, last, revision, key)
                if jump is None:
                    self._break(after, revision)
                if last == first:
                    proven = min(after, jump.after)  # a later call for an older revision verifies up to here
            if state != found:
                self._break(after, revision)
            last = revision
        if last < self.proven:
            self._break(after, self.proven)
        self.proven = proven

    def _break(self, after: int, revision: int) -> NoReturn:
        self._broken = max(self._broken, revision)
        text = "the history of the store is damaged before revision %d: clients with an older resourceVersion must list again."
        logger.error(f"{text} Run `aggserver storage check` for details", revision)
        raise Compacted(after, revision)


def _jump(connection: sqlite3.Connection, before: int, revision: int, key: str) -> jumps.Jump | None:
    """The jump that an event made after the revision `before`; None if it made none, so that events are missing."""
    if key != jumps.KEY:
        return None
    value, checksum = connection.execute(_VALUE, (revision,)).fetchone()
    item = checked(key, value, 0, revision, checksum)
    return jumps.decode(item.value)[-1] if not item.fault and jumps.follows(before, revision, key, item.value) else None
