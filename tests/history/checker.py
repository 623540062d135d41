"""Holds what clients of lists and watches saw against the true history.

A client stands at a revision: that of its list, its last event or bookmark. Whatever changed for its selection after that is what
it must be told next, each change once, in order, with the right type and content; so its view is the truth's at every revision
at which it stands. A bookmark may only pass over revisions that changed nothing for it.

Two things are left open, as upstream leaves them: between its beginning and the bookmark that ends the objects of now, a watch
may be told of changes that came meanwhile; and without that bookmark, only what follows tells where the objects of now end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.history.recording import (
    Bookmark,
    Cut,
    Entry,
    Failed,
    Key,
    Listed,
    Object,
    Opened,
    Recording,
    Told,
    Write,
    key_of,
    revision_of,
)
from tests.history.truth import Truth, reconstruct

__all__ = ["Verdict", "check"]

_SHOWN = 5  # of the faults that a verdict has: the first explain the rest


@dataclass(frozen=True, slots=True)
class Verdict:
    """`expired` counts how often clients were told to list anew, `events` what they were told in all."""

    truth: Truth
    faults: Sequence[str]
    expired: int
    events: int

    def __str__(self) -> str:
        return f"{len(self.faults)} faults, the first:\n" + "\n".join(self.faults[:_SHOWN])


def check(writes: Sequence[Write], recordings: Sequence[Recording]) -> Verdict:
    truth, faults = reconstruct(writes, recordings)
    for recording in recordings:
        faults += _Client(truth, recording).faults()
    entries = [entry for recording in recordings for entry in recording.entries]
    expired = sum(isinstance(entry, Failed) and entry.expired for entry in entries)
    return Verdict(truth, faults, expired, sum(isinstance(entry, Told) for entry in entries))


class _Fault(Exception):
    def __init__(self, revision: int, text: str) -> None:
        super().__init__(text)
        self.revision = revision


class _Client:
    """Walks through one recording. `_stands` is None where the client knows nothing: at first, and in the objects of now."""

    def __init__(self, truth: Truth, recording: Recording) -> None:
        self._truth = truth
        self._recording = recording
        self._selection = recording.selection
        self._changes = truth.changes(recording.selection)
        self._revisions = [change.revision for change in self._changes]
        self._stands: int | None = None
        self._highest = 0
        self._opened: Opened | None = None
        self._initial: list[Told] = []
        self._must_list = False

    def faults(self) -> list[str]:
        """One at most: after it, the client's view is wrong anyway."""
        entry: Entry | None = None
        number = 0
        try:
            for number, entry in enumerate(self._recording.entries):  # noqa: B007 - the last is told in the fault
                self._step(entry)
            self._check_end()
        except _Fault as fault:
            where = f"{self._recording.client}, entry {number}: {fault}\n  {entry}"
            return [f"{where}\n  the history there:\n{self._truth.around(fault.revision)}"]
        return []

    def _step(self, entry: Entry) -> None:
        match entry:
            case Listed():
                self._listed(entry)
            case Opened():
                self._begin(entry)
            case Told():
                if self._stands is None:
                    self._initial.append(entry)
                else:
                    self._told(entry)
            case Bookmark():
                self._bookmark(entry)
            case Failed():
                self._failed(entry)
            case Cut():
                self._leave_initial()
        if self._stands is not None:
            self._highest = max(self._highest, self._stands)

    def _listed(self, entry: Listed) -> None:
        revision = entry.pages[0][0]
        for other, _ in entry.pages:
            if other != revision:
                raise _Fault(revision, f"the pages of one list are at revisions {revision} and {other}")
        if entry.exactly not in (0, revision):
            raise _Fault(revision, f"asked for the list at exactly {entry.exactly} and got {revision}")
        if entry.latest:
            self._check_fresh(entry.sent, revision)
        items = [item for _, page in entry.pages for item in page]
        keys = [key_of(self._selection.resource, item) for item in items]
        for one, following in pairwise(keys):
            if one >= following:
                raise _Fault(revision, f"the list has {following} after {one}")
        self._compare(dict(zip(keys, items, strict=True)), revision, "the list")
        self._stands = revision
        self._must_list = False

    def _begin(self, entry: Opened) -> None:
        if entry.after and self._must_list:
            raise _Fault(entry.after, "the client was told to list anew, and watched on")
        self._opened = entry
        self._initial = []
        self._stands = entry.after or None
        self._must_list = False

    def _told(self, event: Told) -> None:
        assert self._stands is not None
        position = bisect_right(self._revisions, self._stands)
        due = self._changes[position] if position < len(self._changes) else None
        what = f"{event.type} of {self._key(event)} at {event.revision}"
        if event.revision <= self._stands:
            raise _Fault(event.revision, f"was told {what} while it stood at {self._stands}: repeated or out of order")
        if due is None or event.revision < due.revision:
            raise _Fault(event.revision, f"was told {what}, but nothing changed for it there")
        if event.revision > due.revision:
            raise _Fault(due.revision, f"missed {due.type} of {self._key(due)} at {due.revision}: it was told {what} next")
        if self._key(due) != self._key(event):
            raise _Fault(event.revision, f"was told {what}, but {self._key(due)} changed there")
        if due.type != event.type:
            raise _Fault(event.revision, f"was told {what}, but for it that is {due.type}")
        if due.object is not event.object and due.object != event.object:
            raise _Fault(event.revision, f"was told {what} with the wrong content; right is {due.object}")
        self._stands = event.revision

    def _bookmark(self, entry: Bookmark) -> None:
        if self._stands is None:
            assert self._opened is not None
            if self._opened.marked != entry.ends_initial:
                raise _Fault(entry.revision, "got the wrong bookmark among the objects of now")
            if entry.ends_initial:
                self._end_initial(entry.revision)
            else:
                self._settle(entry.revision)
        elif entry.ends_initial:
            raise _Fault(entry.revision, "was told of the end of the objects of now when it did not wait for it")
        self._pass(entry.revision)

    def _pass(self, revision: int) -> None:
        assert self._stands is not None
        if revision < self._stands:
            raise _Fault(revision, f"got a bookmark of {revision} while it stood at {self._stands}")
        position = bisect_right(self._revisions, self._stands)
        if position < len(self._revisions) and self._revisions[position] <= revision:
            due = self._changes[position]
            raise _Fault(due.revision, f"missed {due.type} of {self._key(due)} at {due.revision}: a bookmark ran ahead of it")
        self._stands = revision

    def _failed(self, entry: Failed) -> None:
        if not entry.expired:
            raise _Fault(self._highest, "got an error")
        self._leave_initial()
        self._must_list = True

    # The objects of now

    def _end_initial(self, revision: int) -> None:
        """At the bookmark, what was told so far is the truth."""
        assert self._opened is not None
        if self._opened.latest:
            self._check_fresh(self._opened.sent, revision)
        view: dict[Key, Object] = {}
        for event in self._initial:
            key = self._key(event)
            if event.type != "ADDED" and key not in view:
                raise _Fault(event.revision, f"was told {event.type} of {key}, which it did not know")
            if event.type == "ADDED" and key in view:
                raise _Fault(event.revision, f"was told ADDED of {key} twice")
            view.pop(key, None)
            if event.type != "DELETED":
                view[key] = event.object
        self._compare(view, revision, "the objects of now")
        self._stands = revision

    def _leave_initial(self) -> None:
        """The watch ends. What it was told without knowing where the objects of now end must at least have been so once."""
        if self._stands is None and self._initial and self._opened is not None and not self._opened.marked:
            self._settle(None)

    def _settle(self, bookmark: int | None) -> None:
        """Finds where the objects of now end: before the first event whose revision minus one is a state that they are."""
        events, self._initial = self._initial, []
        for count in range(_ascending(self._selection.resource, events), -1, -1):
            view = {self._key(event): event.object for event in events[:count]}
            revision = events[count].revision - 1 if count < len(events) else bookmark
            if revision is None:
                # All are of now, maybe not all of them; which now, nothing tells.
                self._check_facts(events)
                return
            if max(map(revision_of, view.values()), default=0) <= revision and view == self._truth.at(self._selection, revision):
                self._stands = revision
                for event in events[count:]:
                    self._told(event)
                return
        raise _Fault(
            events[0].revision if events else bookmark or 0, "its first events are no state that ever was, and changes after it"
        )

    def _check_facts(self, events: Sequence[Told]) -> None:
        known = {change.revision: change.object for change in self._changes if change.type != "DELETED"}
        for event in events:
            if known.get(event.revision) != event.object:
                raise _Fault(event.revision, f"was told {event.type} of {self._key(event)} at {event.revision}, which never was")

    # Comparisons

    def _compare(self, view: dict[Key, Object], revision: int, what: str) -> None:
        truth = self._truth.at(self._selection, revision)
        for key in sorted(view.keys() | truth.keys()):
            if key not in view:
                raise _Fault(revision_of(truth[key]), f"{what} at {revision} lack {key}")
            if key not in truth:
                raise _Fault(revision, f"{what} at {revision} have {key}, which is not there for it")
            if view[key] is not truth[key] and view[key] != truth[key]:
                raise _Fault(revision, f"{what} at {revision} have {key} as {view[key]}; right is {truth[key]}")

    def _check_fresh(self, sent: int, revision: int) -> None:
        least = max(self._truth.acknowledged_before(sent), self._highest)
        if revision < least:
            raise _Fault(revision, f"asked for the latest and got {revision}, but {least} had been acknowledged or seen before")

    def _check_end(self) -> None:
        if self._recording.follows and (self._stands is None or self._stands < self._truth.last):
            raise _Fault(self._truth.last, f"was to follow to the end, {self._truth.last}, but stands at {self._stands}")

    def _key(self, event: Told) -> Key:
        return key_of(self._selection.resource, event.object)


def _ascending(resource: str, events: Sequence[Told]) -> int:
    """How many of the first events are ADDED, in order of key: as many as the objects of now can be."""
    last: Key | None = None
    for count, event in enumerate(events):
        key = key_of(resource, event.object)
        if event.type != "ADDED" or (last is not None and key <= last):
            return count
        last = key
    return len(events)
