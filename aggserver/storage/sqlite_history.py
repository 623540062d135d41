"""Whether the past can be told from the SQLite file: it must not be compacted, and must be what was written.

An event that is lost, or whose key was altered, is missing from a watch's past or from a list at an old revision, and nothing
else would show it. So before anything is told of the time after a revision, the chain of events since then is walked once
(`checksums.py`): each event must follow from the one before. What was walked is not walked again, and what this process has
written itself needs no proof. 100,000 events take some 0.2 s, on the thread that reads.
Used by `sqlite.py`.
"""

from __future__ import annotations

import logging
import sqlite3

from aggserver.storage.checksums import next_state
from aggserver.storage.interface import Compacted
from aggserver.storage.sqlite_file import COMPACTED

__all__ = ["History"]

_CHAIN = """
SELECT revision, key, create_revision, previous, value IS NULL, state FROM events
WHERE revision > ? AND revision <= ? ORDER BY revision
"""
_STATE_AT = """
SELECT coalesce(
    (SELECT state FROM events WHERE revision = ? AND revision > (SELECT revision FROM compaction)), (SELECT state FROM compaction)
)
"""

logger = logging.getLogger(__name__)


class History:
    """For the reader's thread. `proven`: the revision after which all events are known to be as they were written."""

    def __init__(self, newest: int) -> None:
        self.proven = newest
        self._broken = 0  # the newest revision whose event isn't; 0: none is known

    def check(self, connection: sqlite3.Connection, revision: int) -> None:
        """Returns if what came after `revision` can be told. Raises Compacted: whoever asked lists anew."""
        (compacted,) = connection.execute(COMPACTED).fetchone()
        if revision < compacted:
            raise Compacted(revision, compacted)
        if revision < self._broken:
            raise Compacted(revision, self._broken)
        if revision < self.proven:
            self._prove(connection, revision)

    def _prove(self, connection: sqlite3.Connection, after: int) -> None:
        (state,) = connection.execute(_STATE_AT, (after,)).fetchone()
        # Nothing has the revision 1, at which an empty store begins.
        expected = max(after, 1)
        for revision, key, created, previous, deleted, found in connection.execute(_CHAIN, (after, self.proven)):
            expected += 1
            state = next_state(state, key, revision, created, previous, deleted=bool(deleted))
            if revision != expected or state != found:
                self._break(after, revision)
        if expected < self.proven:
            self._break(after, self.proven)
        self.proven = after

    def _break(self, after: int, revision: int) -> None:
        self._broken = max(self._broken, revision)
        text = "the history of the store is damaged before revision %d: clients that knew an older one list anew; see what it is"
        logger.error(f"{text} with `aggserver storage check`", revision)
        raise Compacted(after, revision)
