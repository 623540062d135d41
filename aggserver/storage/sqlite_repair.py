"""`aggserver storage check --repair`: copies what is undamaged to a new store, and keeps the damaged one beside it.

A value is undamaged if it matches its checksum, and it is put right if only one bit of either is wrong (`checksums.py`). If
nothing else is damaged, that restores the store completely, with its history. Otherwise objects are salvaged: the revisions of a
key are in `current` and in its event, and are trusted if both agree, or if the event follows from the previous one. A lost object
is not replaced by an older version of it. As after a restore (`sqlite_maintenance.py` has the reason), the revision is then
raised and all before it is compacted, so that clients list again.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aggserver import disk
from aggserver.storage import jumps, keys
from aggserver.storage.checksums import STATE_MASK, head_sum, next_state, put_right, value_sum
from aggserver.storage.records import is_sound
from aggserver.storage.sqlite_file import checked, connect, mark, open_to_read, open_to_write
from aggserver.storage.sqlite_maintenance import (
    BUMP,
    EVENTS,
    LISTED,
    DamagedError,
    Say,
    as_text,
    check,
    copy,
    explained,
    locked,
)

__all__ = ["repair"]

_MOST = 1 << 62  # greater revisions are damage
_DELETIONS = "SELECT revision FROM events INDEXED BY tombstones WHERE value IS NULL ORDER BY revision"
_COMPACTION = "SELECT revision, state FROM compaction ORDER BY rowid"
MOST_NAMED = 20  # removed objects, and objects put back, that the last line names; the lines before it name all


class _Event(NamedTuple):
    """An event, without its value. `fault`: why the value is damaged, '' if not. `chained`: it follows the one before."""

    key: str
    create_revision: int
    deleted: bool
    fault: str
    chained: bool


@disk.file_errors()
def repair(path: Path, say: Say) -> str:
    """Repair the store; returns the line of the result. Raises Unavailable if nothing of it can be read."""
    with locked(path) as marked:
        try:
            return f"{check(path, say)}; there is nothing to repair"
        except DamagedError as damaged:
            for problem in damaged.problems:
                say(problem)
        with explained(path):
            return _repair(path, marked, say)


def _repair(path: Path, marked: int, say: Say) -> str:
    aside = _free(path)
    fresh = path.with_name(f"{path.name}.repaired")
    fresh.unlink(missing_ok=True)
    done, revisions = _put_right(path, fresh, say) or _save(path, fresh, say)
    # The old file is only renamed, so that it is never lost.
    mark(marked)
    for suffix in ("-wal", ""):
        if os.path.lexists(f"{path}{suffix}"):
            os.rename(f"{path}{suffix}", f"{aside}{suffix}")
    Path(f"{path}-shm").unlink(missing_ok=True)
    os.rename(fresh, path)
    disk.sync_folder(path.parent)
    return f"{path} is repaired: {done}; the damaged store is kept as {aside}; {revisions}"


def _put_right(path: Path, fresh: Path, say: Say) -> tuple[str, str] | None:
    """Make a copy in which single wrong bits of values are put right. Returns texts: what was done, and what became of revisions.

    Returns None, without a copy, if more is damaged. Nothing is lost this way, neither an object nor history.
    """
    try:
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with contextlib.closing(open_to_read(path)) as source:
            copy(source, fresh, say)
        with contextlib.closing(connect(fresh)) as target:
            keys = sorted(set(_correct(target)))
        check(fresh, lambda line: None)
    except (DamagedError, sqlite3.DatabaseError):
        fresh.unlink()
        return None
    for key in keys:
        say(f"put right, since one bit was wrong: {key}")
    with fresh.open("rb+") as file:
        os.fsync(file.fileno())
    return f"put right: {_named(keys)}", "all objects, revisions and history are kept"


def _correct(target: sqlite3.Connection) -> Iterator[str]:
    target.text_factory = as_text
    found = []
    for revision, key, created, _, value, _, checksum in target.execute(EVENTS):
        if value is not None and checked(key, value, created, revision, checksum).fault and type(checksum) is int:
            right = put_right(value, revision, checksum)
            if right is not None:
                found.append((right, value_sum(right, revision), revision))
                yield key
    target.executemany("UPDATE events SET value = ?, checksum = ? WHERE revision = ?", found)


def _save(path: Path, fresh: Path, say: Say) -> tuple[str, str]:
    """Make a new store of what is undamaged. Returns as `_put_right`."""
    with contextlib.closing(open_to_read(path)) as source, contextlib.closing(open_to_write(fresh)) as target:
        source.text_factory = as_text
        salvage = _Salvage(source)
        for line in salvage.report():
            say(line)
        revision = _fill(target, source, salvage)
        target.execute("PRAGMA journal_mode = DELETE").fetchone()  # a single, synced file
    return salvage.describe(), f"revision {revision}, and clients with an older resourceVersion must list again"


def _named(found: Sequence[str]) -> str:
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"{len(found)} ({', '.join(found[:MOST_NAMED])}{more})"


def _free(path: Path) -> Path:
    """An unused name for the damaged file."""
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (path.with_name(f"{path.name}.damaged{number}") for number in numbers)
    return next(name for name in names if not os.path.lexists(name))


class _Salvage:
    """Decides which objects are kept. `kept`: event's revision -> (key, create revision). `removed`: key -> reason."""

    def __init__(self, source: sqlite3.Connection) -> None:
        self.kept: dict[int, tuple[str, int]] = {}
        self.removed: dict[str, str] = {}
        self.corrected: dict[int, bytes] = {}  # by the event's revision, values that were put right
        self.put_back: list[str] = []  # keys that the list of objects has lost, but which exist according to their events
        self._events: dict[int, _Event] = {}
        self._newest: dict[str, int] = {}
        self._last_gap = 0  # the first event after the last gap: events before it are lost or damaged
        self._read_events(source)
        listed = {key: (revision, created) for key, revision, created in _readable(source, LISTED)}
        # The index of deletions may still have the last ones if the table has lost them.
        deletions = [row[0] for row in _readable(source, _DELETIONS)]
        revisions = [*(revision for revision, _ in listed.values()), *deletions]
        if max(revisions, default=0) > max(self._events, default=0):
            self._last_gap = _MOST  # the last events were lost
        numbers = [*self._events, *revisions, self._compacted]
        self.newest = max((number for number in numbers if isinstance(number, int) and number < _MOST), default=1)
        for key, (revision, created) in listed.items():
            self._judge_listed(key, revision, created)
        for key, revision in self._newest.items():
            if key not in listed:
                self._judge_unlisted(key, revision)

    def _read_events(self, source: sqlite3.Connection) -> None:
        (self._compacted, kept), *_ = [*_readable(source, _COMPACTION), (0, 0)]
        before, state = 0, 0
        for revision, key, created, previous, value, stated, checksum in _readable(source, EVENTS):
            deleted = value is None
            if revision <= self._compacted:
                chained = True  # the state of the first event after the compaction verifies all events before it together
                stated = next_state(state, key, revision, created, 0, deleted=deleted)
            else:
                if before <= self._compacted:
                    before, state = self._compacted or 1, kept if state == kept else -1
                after = next_state(state, key, revision, created, previous, deleted=deleted)
                chained = jumps.follows(before, revision, key, value) and after == stated and state >= 0
                self._last_gap = self._last_gap if chained else revision
            fault = "" if deleted else self._fault(key, value, created, revision, checksum)
            self._events[revision] = _Event(key, created, deleted, fault, chained)
            if revision > self._newest.get(key, 0):
                self._newest[key] = revision
            before, state = revision, stated

    def _fault(self, key: str, value: object, created: int, revision: int, checksum: object) -> str:
        """Why a value is damaged, '' if it is not, or if it could be put right."""
        fault = checked(key, value, created, revision, checksum).fault
        if fault and type(value) is bytes and type(checksum) is int:
            right = put_right(value, revision, checksum)
            if right is not None:
                self.corrected[revision] = right
                value, fault = right, ""
        return fault or ("" if type(value) is bytes and is_sound(key, value) else "its value is not a JSON object")

    def _judge_listed(self, key: str, revision: int, created: int) -> None:
        event = self._events.get(revision)
        newest = self._newest.get(key, 0)
        if newest > revision and self._events[newest].chained:
            self._judge_unlisted(key, newest)  # the list is older than the events
        elif event is None:
            self.removed[key] = f"its event {revision} is missing from the file"
        elif event.deleted or (event.key, event.create_revision) != (key, created):
            self.removed[key] = f"the event {revision} belongs to another key"
        else:
            self._keep(key, revision, event)

    def _judge_unlisted(self, key: str, revision: int) -> None:
        event = self._events[revision]
        if event.deleted:
            return
        if not event.chained or revision < self._last_gap:
            self.removed[key] = "it is not in the list of objects, and its deletion may be among the events that were lost"
        elif self._keep(key, revision, event):
            self.put_back.append(key)

    def _keep(self, key: str, revision: int, event: _Event) -> bool:
        fault = event.fault or _no_key(key)
        if fault:
            self.removed[key] = fault
        else:
            self.kept[revision] = (key, event.create_revision)
        return not fault

    def report(self) -> Iterator[str]:
        """A line for each object that was removed or put back."""
        for key, why in sorted(self.removed.items()):
            yield f"removed: {key}: {why}"
        for key in self._put_right():
            yield f"put right, since one bit was wrong: {key}"
        for key in sorted(self.put_back):
            yield f"put back into the list of objects: {key}"

    def describe(self) -> str:
        parts = [f"objects kept: {len(self.kept)}"]
        outcomes = {"removed": sorted(self.removed), "put right": self._put_right(), "put back": sorted(self.put_back)}
        for what, found in outcomes.items():
            if found:
                parts.append(f"{what}: {_named(found)}")
        return "; ".join(parts)

    def _put_right(self) -> list[str]:
        return sorted(key for revision, (key, _) in self.kept.items() if revision in self.corrected)


def _no_key(key: str) -> str:
    try:
        keys.split(key)
    except ValueError as error:
        return str(error)
    return ""


def _fill(target: sqlite3.Connection, source: sqlite3.Connection, salvage: _Salvage) -> int:
    """Write the kept objects, as after a compaction. Returns the revision, which is greater than any that clients have seen."""
    revision = salvage.newest + BUMP
    state = 0
    target.execute("BEGIN IMMEDIATE")
    for at, _, created, _, value, *_ in _readable(source, EVENTS):
        if at not in salvage.kept:
            continue
        key, created = salvage.kept[at]
        value = salvage.corrected.get(at, value)
        row = (at, key, created, 0, value, 0, value_sum(value, at))
        target.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        state += head_sum(key, at, created)
    target.execute("UPDATE compaction SET revision = ?, state = ?", (revision, state & STATE_MASK))
    target.execute("COMMIT")
    return revision


def _readable(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """The rows of an ordered query before a damaged page, then those after it, which are read in reverse order from the end."""
    last: tuple[Any, ...] | None = None
    try:
        for row in connection.execute(query):
            last = row
            yield row
        return
    except sqlite3.DatabaseError:
        rest: list[Any] = []
    with contextlib.suppress(sqlite3.DatabaseError):
        for row in connection.execute(f"{query} DESC"):
            if last is not None and row[0] <= last[0]:
                break
            rest.append(row)
    yield from reversed(rest)
