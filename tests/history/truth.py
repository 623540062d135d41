"""The one true history: made of what writers had acknowledged and of what anybody was told.

A revision is one change of one object. Acknowledged writes say what is at their revision; clients' recordings say it for writes
whose answer was lost, and for deletions, whose answer names no revision. Whatever contradicts that there is such a history is a
fault: two things at one revision, an acknowledged write that is not in it, a change that nobody asked for, a deleted object that
comes back, one that goes while it has finalizers or stays when it has none left, a write that overtook one that was done before
it was sent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from tests.history.recording import (
    ACKNOWLEDGED,
    REFUSED,
    Key,
    Listed,
    Object,
    Recording,
    Selection,
    Told,
    Write,
    finalizers,
    is_deleted,
    key_of,
    markers,
    revision_of,
    shown_at,
    uid_of,
)

__all__ = ["Fact", "Truth", "reconstruct"]

_DELETIONS = ("delete", "deletecollection", "finalize")  # what leaves no marker of its own

# What the mark of deletion may change, in metadata.
_MARKED = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion")

_AROUND = 4  # facts shown on either side of the revision that a fault is about


class Fact(NamedTuple):
    """The state of one object from `revision` on: None if it is gone."""

    revision: int
    key: Key
    object: Object | None

    def __str__(self) -> str:
        if self.object is None:
            return f"{self.revision} {self.key}: deleted"
        deleted = ", being deleted" if is_deleted(self.object) else ""
        return f"{self.revision} {self.key}: uid {uid_of(self.object)} by {' and '.join(sorted(markers(self.object)))}{deleted}"


class Truth:
    """The facts in order of revision. `acknowledged`: (tick when it was done, revision) of each acknowledged write."""

    def __init__(self, facts: Sequence[Fact], acknowledged: Iterable[tuple[int, int]]) -> None:
        self.facts = facts
        self._revisions = [fact.revision for fact in facts]
        self._by_key: dict[Key, tuple[list[int], list[Object | None]]] = {}
        for revision, key, obj in facts:
            revisions, states = self._by_key.setdefault(key, ([], []))
            revisions.append(revision)
            states.append(obj)
        self._changes: dict[Selection, list[Told]] = {}
        done = sorted(acknowledged)
        self._ticks = [tick for tick, _ in done]
        self._highest = list(accumulate((revision for _, revision in done), max))

    @property
    def last(self) -> int:
        return self._revisions[-1] if self._revisions else 0

    def acknowledged_before(self, tick: int) -> int:
        """The highest revision that was acknowledged before."""
        position = bisect_left(self._ticks, tick)
        return self._highest[position - 1] if position else 0

    def at(self, selection: Selection, revision: int) -> dict[Key, Object]:
        """What a client of this selection sees at a revision."""
        found = {}
        for key, (revisions, states) in self._by_key.items():
            position = bisect_right(revisions, revision)
            obj = states[position - 1] if position else None
            if obj is not None and selection.covers(key) and selection.matches(obj):
                found[key] = selection.view(obj)
        return found

    def states(self, key: Key) -> Sequence[Object | None]:
        """All that the object ever was, in order; None between a deletion and the next creation."""
        return self._by_key[key][1] if key in self._by_key else []

    def changes(self, selection: Selection) -> Sequence[Told]:
        """What a watch of this selection is told from the beginning of time on."""
        if selection not in self._changes:
            self._changes[selection] = list(self._tell(selection))
        return self._changes[selection]

    def _tell(self, selection: Selection) -> Iterable[Told]:
        seen: dict[Key, Object] = {}
        for revision, key, obj in self.facts:
            if not selection.covers(key):
                continue
            before = seen.get(key)
            if obj is not None and selection.matches(obj):
                seen[key] = obj
                yield Told("MODIFIED" if before else "ADDED", selection.view(obj))
            elif before is not None:
                yield Told("DELETED", selection.view(shown_at(seen.pop(key), revision)))

    def around(self, revision: int) -> str:
        """The excerpt of the history that a fault is shown with."""
        position = bisect_left(self._revisions, revision)
        return "\n".join(f"    {fact}" for fact in self.facts[max(position - _AROUND, 0) : position + _AROUND])


def reconstruct(writes: Sequence[Write], recordings: Sequence[Recording]) -> tuple[Truth, list[str]]:
    """The history, and what speaks against it."""
    gathered = _Gathered()
    for write in writes:
        if write.outcome == ACKNOWLEDGED and write.object is not None:
            gathered.put(revision_of(write.object), write.key, write.object, str(write))
            if not _contains(write.object, write.wanted):
                gathered.faults.append(f"{write}: the answer {write.object} does not have what was sent: {write.wanted}")
    for recording in recordings:
        gathered.take(recording)
    facts = gathered.facts()
    audit = _Audit(writes)
    for fact in facts:
        audit.look(fact)
    audit.close()
    truth = Truth(facts, audit.acknowledged())
    audit.check_order(truth)
    return truth, gathered.faults + [f"{text}\n{truth.around(revision)}" for revision, text in audit.faults]


class _Gathered:
    """Everybody's word for what is at which revision."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._puts: dict[int, tuple[Key, Object, str]] = {}
        self._gone: dict[int, tuple[Key, str]] = {}

    def put(self, revision: int, key: Key, obj: Object, source: str) -> None:
        first = self._puts.setdefault(revision, (key, obj, source))
        if first[1] is not obj and first[:2] != (key, obj):
            self.faults.append(f"revision {revision} is {first[0]} {first[1]} to {first[2]}, but {key} {obj} to {source}")

    def take(self, recording: Recording) -> None:
        resource, source = recording.selection.resource, recording.client
        whole = not recording.selection.metadata_only
        for entry in recording.entries:
            if isinstance(entry, Listed) and whole:
                for _, items in entry.pages:
                    for item in items:
                        self.put(revision_of(item), key_of(resource, item), item, source)
            elif isinstance(entry, Told) and entry.type == "DELETED":
                self._gone.setdefault(entry.revision, (key_of(resource, entry.object), source))
            elif isinstance(entry, Told) and whole:
                self.put(entry.revision, key_of(resource, entry.object), entry.object, source)

    def facts(self) -> list[Fact]:
        facts = [Fact(revision, key, obj) for revision, (key, obj, _) in self._puts.items()]
        for revision, (key, source) in self._gone.items():
            if revision not in self._puts:
                facts.append(Fact(revision, key, None))
            elif self._puts[revision][0] != key:  # otherwise the object left that client's selection
                self.faults.append(f"revision {revision} is a change of {self._puts[revision][0]}, but of {key} to {source}")
        return sorted(facts, key=lambda fact: fact.revision)


class _Audit:
    """Goes through the facts once: each must be what one write asked for, and acknowledged writes must all be there."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self.faults: list[tuple[int, str]] = []
        self.revisions: dict[Write, int] = {}  # where each write is in the history
        self._writes = writes
        self._by_marker = {write.marker: write for write in writes if write.verb not in _DELETIONS}
        self._deletes: dict[Key, list[Write]] = {}
        self._marking: dict[int, list[Write]] = {}  # deletes by the revision that they were answered with
        self._finalizing: dict[str, list[Write]] = {}
        for write in writes:
            if write.verb not in _DELETIONS or write.outcome == REFUSED:
                continue
            if write.verb == "finalize":
                self._finalizing.setdefault(write.wanted["metadata"]["uid"], []).append(write)
            elif write.object is not None:
                self._marking.setdefault(revision_of(write.object), []).append(write)
            else:
                self._deletes.setdefault(write.key, []).append(write)
        self._there: dict[Key, Object] = {}
        self._ended: dict[str, int] = {}
        self._marked: dict[str, int] = {}  # since which revision an object is being deleted, by uid

    def look(self, fact: Fact) -> None:
        before = self._there.pop(fact.key, None)
        if fact.object is None:
            self._deleted(fact, before)
            return
        self._there[fact.key] = fact.object
        uid = uid_of(fact.object)
        if uid in self._ended:
            self._fault(fact, f"{fact.key} with uid {uid} was deleted at {self._ended[uid]} and is there again")
        if before is not None and uid_of(before) != uid:
            self._fault(fact, f"{fact.key} has a new uid, but nobody was told of the deletion of uid {uid_of(before)}")
            before = None
        self._written(fact, fact.object, before)

    def _deleted(self, fact: Fact, before: Object | None) -> None:
        if before is None:
            self._fault(fact, f"{fact.key} was deleted, but was not there")
            return
        uid = uid_of(before)
        self._ended[uid] = fact.revision
        if finalizers(before):
            self._finalized(fact, before)
        elif not self._was_asked_for(fact, before):
            self._fault(fact, f"{fact.key} with uid {uid} was deleted, but nobody asked for that")

    def _finalized(self, fact: Fact, before: Object) -> None:
        writes = sorted(self._finalizing.get(uid_of(before), []), key=lambda write: write.sent)
        if not is_deleted(before) or not writes:
            self._fault(fact, f"{fact.key} with uid {uid_of(before)} was removed while it had {', '.join(finalizers(before))}")
            return
        self._is(writes[0], fact, before)  # of several, the one that no answer of another can have come before

    def _was_asked_for(self, fact: Fact, before: Object) -> bool:
        """Whether there is a write that deleted the object or marked it, which is counted as that one from now on."""
        uid = uid_of(before)
        candidates = self._deletes.get(fact.key, [])
        # An acknowledged deletion says of which object it was; only one can have been. Of those that don't say it, the one that
        # was sent first, which another one's answer can't have come before. A deletecollection deletes by name what it has
        # listed: maybe an object that is newer than the one it tells of.
        for write in sorted(candidates, key=lambda write: (write.outcome != ACKNOWLEDGED, write.uid != uid, write.sent)):
            if write.uid == uid or write.outcome != ACKNOWLEDGED:
                candidates.remove(write)
                self._is(write, fact, before)
                return True
        return False

    def _mark(self, fact: Fact, obj: Object, before: Object) -> None:
        """It is being deleted from now on. A delete that came later may have been answered with the same revision."""
        uid = uid_of(obj)
        self._marked[uid] = fact.revision
        if _unmarked(obj) != _unmarked(before):
            self._fault(fact, f"the mark of deletion changed {fact.key} from {before} to {obj}")
        if not any(write.uid == uid for write in self._marking.get(fact.revision, [])) and not self._was_asked_for(fact, before):
            self._fault(fact, f"{fact.key} with uid {uid} was marked as deleted, but nobody asked for that")

    def _written(self, fact: Fact, obj: Object, before: Object | None) -> None:
        if is_deleted(obj) and not finalizers(obj):
            self._fault(fact, f"{fact.key} with uid {uid_of(obj)} is being deleted, has no finalizers, and is there")
        new = markers(obj) - (markers(before) if before else set())
        if before is not None and is_deleted(obj) and not is_deleted(before) and not new:
            self._mark(fact, obj, before)
            return
        if _time_of_deletion(obj) != (_time_of_deletion(before) if before else None):
            self._fault(fact, f"{fact.key} was marked as deleted, or no longer so, by a write that can't do that")
        if before is not None and is_deleted(before) and not set(finalizers(obj)) <= set(finalizers(before)):
            self._fault(fact, f"{fact.key} got a finalizer while it was being deleted")
        write = self._by_marker.get(min(new)) if len(new) == 1 else None
        if write is None or write.key != fact.key or not _contains(obj, write.wanted):
            self._fault(fact, f"{fact.key} was changed by {' and '.join(sorted(new)) or 'nothing'}, which nobody asked for")
        elif write.outcome == REFUSED:
            self._fault(fact, f"{write} took place")
        elif write in self.revisions:
            self._fault(fact, f"{write} took place twice, at {self.revisions[write]} and {fact.revision}")
        elif (write.verb == "create") != (before is None):
            self._fault(fact, f"{write} found the object {'there' if before else 'gone'}")
        else:
            self._is(write, fact, before)

    def _is(self, write: Write, fact: Fact, before: Object | None) -> None:
        self.revisions[write] = fact.revision
        if write.object is not None and revision_of(write.object) != fact.revision:
            self._fault(fact, f"{write} was answered with revision {revision_of(write.object)}, but is at {fact.revision}")
        if write.base and before is not None and revision_of(before) != write.base:
            self._fault(fact, f"{write} was made for revision {write.base}, but replaced {revision_of(before)}: a lost update")

    def close(self) -> None:
        for write in self._writes:
            revision = revision_of(write.object) if write.object is not None else 0
            if write.verb == "delete" and write.object is not None:
                if write.uid not in self._marked or self._marked[write.uid] > revision:
                    self.faults.append((revision, f"{write} says that uid {write.uid} is marked, but nobody was told"))
            elif write.outcome == ACKNOWLEDGED and write not in self.revisions:
                self.faults.append((revision, f"{write} is not in the history: nobody was told"))
            elif write.uid and not self._is_gone(write):
                self.faults.append((0, f"{write} says that uid {write.uid} is gone, but nobody was told"))

    def _is_gone(self, write: Write) -> bool:
        """What a deletecollection names may only have been marked."""
        return write.uid in self._ended or (write.verb == "deletecollection" and write.uid in self._marked)

    def acknowledged(self) -> Iterable[tuple[int, int]]:
        """(tick when it was done, a revision that the server had reached by then) of what was answered."""
        for write in self._writes:
            if write.verb == "finalize" and write.uid in self._ended:  # "" where nobody answered
                yield write.done, self._ended[write.uid]
            elif write.verb == "delete" and write.object is not None:
                yield write.done, revision_of(write.object)
            elif write.outcome == ACKNOWLEDGED and write in self.revisions:
                yield write.done, self.revisions[write]

    def check_order(self, truth: Truth) -> None:
        """What was sent after another write had been acknowledged comes after it."""
        for write, revision in self.revisions.items():
            if write.verb == "deletecollection":
                continue  # maybe another one was it
            before = truth.acknowledged_before(write.sent)
            if before >= revision:
                self.faults.append((revision, f"{write} is at {revision}, but {before} was acknowledged before it was sent"))

    def _fault(self, fact: Fact, text: str) -> None:
        self.faults.append((fact.revision, text))


def _time_of_deletion(obj: Object) -> object:
    return obj["metadata"].get("deletionTimestamp")


def _unmarked(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _MARKED}
    return {**obj, "metadata": metadata}


def _contains(obj: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(obj, Mapping) and all(name in obj and _contains(obj[name], value) for name, value in wanted.items())
    return bool(obj == wanted)
