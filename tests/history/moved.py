"""Recordings across moves of all objects to another store and back, as they would be if nothing had moved. Pure.

A move gives an object a new revision and changes nothing else of it; back in the store that it came from, an object that was not
written meanwhile has its old revision again. Every write leaves a marker, so an object's content says which state of it this is,
whatever its revision. Each state is shown here at the revision that its write has made. A copy that differs in anything else
stays as it is, and so do revisions of lists, bookmarks and deletions: the checker holds them against the one history.

A move sends all clients away, and what happens until the first of them has listed anew nobody is told. The list says it all, but
not at which revision an object went. So such a deletion is put where it can have been: at a revision of no other write, in the
order of what writers were answered, and where no client watched that should have been told. If there is no such place, that is a
fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

import orjson

from tests.history.informers import InformerRecording
from tests.history.recording import (
    ACKNOWLEDGED,
    Bookmark,
    Entry,
    Key,
    Listed,
    Object,
    Opened,
    Recording,
    Selection,
    Told,
    Write,
    finalizers,
    is_deleted,
    key_of,
    revision_of,
    shown_at,
    uid_of,
)

__all__ = ["Moved"]

_THERE = inf  # where an object that is not gone goes


class Moved:
    """moves: how many there were. looked: objects that were read one by one, with their keys.

    `writes` and `recordings` are as if nothing had moved. `faults`: revisions that no move explains.
    """

    def __init__(
        self, writes: Sequence[Write], recordings: Sequence[Recording], looked: Iterable[tuple[Key, Object]], moves: int
    ) -> None:
        assert not any(recording.selection.metadata_only for recording in recordings), "metadata alone does not say which state"
        self._made: dict[tuple[Key, bytes], int] = {}
        self._shown: dict[tuple[Key, int], Object] = {}
        revisions: dict[tuple[Key, bytes], set[int]] = {}
        acknowledged = [
            (write.key, write.object)
            for write in writes
            if write.outcome == ACKNOWLEDGED and write.object and write.verb != "delete"
        ]
        for key, obj in acknowledged:
            self._made[key, _content(obj)] = revision_of(obj)
        seen = [(write.key, write.object) for write in writes if write.object is not None]
        for key, obj in (*seen, *looked, *_told(recordings)):
            revisions.setdefault((key, _content(obj)), set()).add(revision_of(obj))
        self.faults: list[str] = []
        self._states: dict[tuple[Key, int], int] = {}
        for (key, content), found in revisions.items():
            made = self._made.setdefault((key, content), min(found))
            if min(found) < made:
                self.faults.append(f"{key} was made at {made}, and seen at {min(found)}: its revision went back")
            # One more where what is being deleted is deleted again, see `_is_repeated`.
            if len(found) > moves + 1 + (b'"deletionTimestamp"' in content):
                self.faults.append(f"{key} has the revisions {sorted(found)} with the same content after {moves} moves")
            self._states |= {(key, revision): made for revision in found}
        self.writes = [self._write(write) for write in writes]
        self.recordings = [
            replace(
                recording,
                entries=[
                    self._entry(recording.selection.resource, entry)
                    for entry in recording.entries
                    if not self._is_repeated(recording.selection.resource, entry)
                ],
            )
            for recording in recordings
        ]
        unseen = _Unseen(self.writes, self.recordings, [*looked, *_told(recordings)])
        self.faults += unseen.faults
        self.recordings += unseen.recordings

    def informer(self, recording: InformerRecording) -> InformerRecording:
        """What an informer's handlers were told, as if nothing had moved."""
        resource = recording.resource

        def made(what: str, obj: Object) -> Object:
            return obj if what == "delete" else self._object(key_of(resource, obj), obj)

        return replace(
            recording,
            entries=[
                (lists, what, made(what, obj), old and self._object(key_of(resource, old), old))
                for lists, what, obj, old in recording.entries
                if what != "update" or not self._is_same(resource, obj)
            ],
            known={key: self._object(key, obj) for key, obj in recording.known.items()},
            items=[self._object(key_of(resource, item), item) for item in recording.items],
        )

    def _write(self, write: Write) -> Write:
        obj = write.object and self._object(write.key, write.object)
        return replace(write, object=obj, base=self._states.get((write.key, write.base), write.base))

    def _entry(self, resource: str, entry: Entry) -> Entry:
        if isinstance(entry, Listed):
            pages = [(revision, [self._object(key_of(resource, item), item) for item in page]) for revision, page in entry.pages]
            return replace(entry, pages=pages)
        if isinstance(entry, Told) and entry.type != "DELETED":
            return replace(entry, object=self._object(key_of(resource, entry.object), entry.object))
        return entry

    def _is_repeated(self, resource: str, entry: Entry) -> bool:
        """Whether a watch tells of a write that changed nothing: a delete of what is being deleted already.

        kube-apiserver writes nothing then if the bytes stay the same. Those of an object that was given back differ once.
        """
        return isinstance(entry, Told) and entry.type == "MODIFIED" and self._is_same(resource, entry.object)

    def _is_same(self, resource: str, obj: Object) -> bool:
        return is_deleted(obj) and self._states.get((key_of(resource, obj), revision_of(obj))) != revision_of(obj)

    def _object(self, key: Key, obj: Object) -> Object:
        made = self._made.get((key, _content(obj)))
        if made is None or made == revision_of(obj):
            return obj
        return self._shown.setdefault((key, made), {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(made)}})


@dataclass(slots=True)
class _Span:
    """A client that was told all changes of its selection from one revision to another."""

    selection: Selection
    start: int
    end: int


@dataclass(slots=True)
class _Look:
    """What is there for a client at a revision. sent: when it asked for the newest, 0 if it did not."""

    selection: Selection
    revision: int
    keys: set[Key]
    sent: int


class _Unseen:
    """`recordings`: one for each resource, of the deletions that nobody was told of. others: have revisions that are taken."""

    def __init__(self, writes: Sequence[Write], recordings: Sequence[Recording], others: Iterable[tuple[Key, Object]]) -> None:
        self.faults: list[str] = []
        self._writes = writes
        self._spans: list[_Span] = []
        self._looks: list[_Look] = []
        for recording in recordings:
            self._walk(recording)
        states: dict[Key, dict[int, Object]] = {}
        made = [(write.key, write.object) for write in writes if write.object is not None]
        for key, obj in (*made, *_told(recordings)):
            states.setdefault(key, {})[revision_of(obj)] = obj
        gone: dict[Key, dict[int, str]] = {}
        for recording in recordings:
            for entry in recording.entries:
                if isinstance(entry, Told) and entry.type == "DELETED":
                    key = key_of(recording.selection.resource, entry.object)
                    if entry.revision not in states[key]:  # otherwise it has left that client's selection
                        gone.setdefault(key, {})[entry.revision] = uid_of(entry.object)
        self._used = {revision for each in states.values() for revision in each}
        self._used |= {revision for each in gone.values() for revision in each}
        self._used |= {revision_of(obj) for _, obj in others}
        self._answered(gone)
        told: dict[str, list[Entry]] = {}
        # Those that have the least choice come first.
        due = sorted(self._due(states, gone), key=lambda each: (self._asked(each[1])[1], self._bounds(*each)[1]))
        for key, obj, following in due:
            low, high = self._bounds(key, obj, following)
            if high is _THERE:
                continue
            # What has finalizers was marked first, of which nobody was told either.
            marked = bool(finalizers(obj)) and not is_deleted(obj)
            free = (at for at in range(low + 1, int(high) + 1) if self._is_free(key, obj, at))
            places = list(islice(free, 1 + marked))
            if len(places) <= marked:
                where = f"between {low} and {high}"
                self.faults.append(f"{key} with uid {uid_of(obj)} went {where}, and whoever watched was not told")
                continue
            entries = told.setdefault(key.resource, [])
            if marked:
                obj = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "unknown"}}
                entries.append(Told("MODIFIED", shown_at(obj, places[0])))
            entries.append(Told("DELETED", shown_at(obj, places[-1])))
            self._used.update(places)
            sent, done = self._asked(obj)
            if sent:
                self._answers.append((sent, done, places[-1], True))
        self.recordings = [Recording("nobody", Selection(resource), False, entries) for resource, entries in told.items()]

    def _answered(self, gone: Mapping[Key, Mapping[int, str]]) -> None:
        """Of each write when it was sent and done, its revision, and whether it is exactly that; and when removals were asked."""
        ended = {uid: revision for each in gone.values() for revision, uid in each.items()}
        self._answers: list[tuple[float, float, int, bool]] = []
        self._removing: dict[str, tuple[float, float]] = {}
        for write in self._writes:
            if write.object is not None and write.outcome == ACKNOWLEDGED:
                # What was deleted already is answered as it has been since.
                self._answers.append((write.sent, write.done, revision_of(write.object), write.verb != "delete"))
            elif write.object is None and write.uid and write.verb in ("delete", "finalize"):
                sent, done = self._removing.get(write.uid, (inf, inf))
                self._removing[write.uid] = min(sent, write.sent), min(done, write.done)
                if write.uid in ended:
                    self._answers.append((write.sent, write.done, ended[write.uid], write.verb == "delete"))

    def _asked(self, obj: Object) -> tuple[float, float]:
        """When its removal was first sent, and first answered: (0, inf) if no answer says so."""
        return self._removing.get(uid_of(obj), (0, inf))

    @staticmethod
    def _due(
        states: Mapping[Key, Mapping[int, Object]], gone: Mapping[Key, Mapping[int, str]]
    ) -> Iterator[tuple[Key, Object, int | None]]:
        """The last state of each object of whose end nobody was told, and the revision of the next object of the name."""
        for key, by_revision in states.items():
            known = sorted(by_revision)
            for at, following in zip(known, [*known[1:], None], strict=True):
                obj = by_revision[at]
                if following is not None and uid_of(by_revision[following]) == uid_of(obj):
                    continue
                if not any(at < revision and (following is None or revision < following) for revision in gone.get(key, ())):
                    yield key, obj, following

    def _bounds(self, key: Key, obj: Object, following: int | None) -> tuple[int, float]:
        """After which revision it went, and at which at the latest; `_THERE` if it is still there."""
        low, high = revision_of(obj), _THERE if following is None else following - 1
        sent, done = self._asked(obj)
        for look in self._looks:
            if not _sees(look.selection, key, obj) or look.revision < revision_of(obj) or look.revision > high:
                continue
            if key in look.keys:
                low = max(low, look.revision)
            else:
                high = min(high, look.revision)
        if high is _THERE:
            return low, high
        for other_sent, other_done, revision, exact in self._answers:
            if other_done < sent:
                low = max(low, revision)
            elif other_sent > done and exact:
                high = min(high, revision - 1)
        return low, min([high, *(look.revision for look in self._looks if look.sent > done)])

    def _is_free(self, key: Key, obj: Object, revision: int) -> bool:
        watched = any(span.start < revision <= span.end and _sees(span.selection, key, obj) for span in self._spans)
        return revision not in self._used and not watched

    def _walk(self, recording: Recording) -> None:
        selection = recording.selection
        span: _Span | None = None
        initial: dict[Key, Object] = {}
        opened: Opened | None = None
        for entry in recording.entries:
            match entry:
                case Listed():
                    revision = entry.pages[0][0]
                    keys = {key_of(selection.resource, item) for _, page in entry.pages for item in page}
                    self._looks.append(_Look(selection, revision, keys, entry.sent if entry.latest else 0))
                case Opened():
                    opened, initial = entry, {}
                    span = self._begin(selection, entry.after) if entry.after else None
                case Told() if span is None:
                    key = key_of(selection.resource, entry.object)
                    initial.pop(key, None)
                    if entry.type != "DELETED":
                        initial[key] = entry.object
                case Bookmark() if span is None:
                    if entry.ends_initial and opened is not None:
                        sent = opened.sent if opened.latest else 0
                        self._looks.append(_Look(selection, entry.revision, set(initial), sent))
                        span = self._begin(selection, entry.revision)
                case Told() | Bookmark():
                    assert span is not None
                    span.end = max(span.end, entry.revision)
                case _:
                    span = None

    def _begin(self, selection: Selection, revision: int) -> _Span:
        self._spans.append(_Span(selection, revision, revision))
        return self._spans[-1]


def _sees(selection: Selection, key: Key, obj: Object) -> bool:
    return selection.covers(key) and selection.matches(obj)


def _told(recordings: Iterable[Recording]) -> Iterator[tuple[Key, Object]]:
    for recording in recordings:
        resource = recording.selection.resource
        for entry in recording.entries:
            if isinstance(entry, Listed):
                for _, page in entry.pages:
                    for item in page:
                        yield key_of(resource, item), item
            elif isinstance(entry, Told) and entry.type != "DELETED":
                yield key_of(resource, entry.object), entry.object


def _content(obj: Object) -> bytes:
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return orjson.dumps({**obj, "metadata": metadata}, option=orjson.OPT_SORT_KEYS)
