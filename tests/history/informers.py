"""Holds what the handlers of an informer were told, and its store at the end, against the true history.

Handlers hear of each object's changes in order. An informer that lists anew may pass over changes that it slept through, once per
object and list, and may tell of an object again; one that only watches on may not. A list is noted when it is asked for, long
before the handlers hear of it, so it counts for each object once, whenever that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.history.recording import Key, Object, Selection, Told, key_of, revision_of
from tests.history.truth import Truth

__all__ = ["InformerRecording", "check_informer"]


@dataclass(slots=True)
class InformerRecording:
    """What one informer of all objects of a resource did. `known` is what its handlers make of it, `items` its store at the end.

    `lists` counts the lists it asked for; `entries` are (lists so far, what was told: add, update or delete, object, old object
    if that is told).
    """

    client: str
    resource: str
    lists: int = 0
    entries: list[tuple[int, str, Object, Object | None]] = field(default_factory=list)
    known: dict[Key, Object] = field(default_factory=dict)
    items: Sequence[Object] = ()

    def told(self, what: str, obj: Object, old: Object | None = None) -> None:
        self.entries.append((self.lists, what, obj, old))
        key = key_of(self.resource, obj)
        if what == "delete":
            self.known.pop(key, None)
        else:
            self.known[key] = obj


@dataclass(slots=True)
class _Progress:
    """How far the handlers are with one object: `position` in its changes, `known` as they know it, None if it is not there.

    `passed` and `repeated` count what only a list explains. After a deletion that was learnt of by a list, `vague`: the object
    may have come and gone several times since, and which of the deletions it was can't be told.
    """

    position: int = -1
    known: Object | None = None
    passed: int = 0
    repeated: int = 0
    vague: bool = False


class _Fault(Exception):
    pass


def check_informer(truth: Truth, recording: InformerRecording) -> list[str]:
    selection = Selection(recording.resource)
    changes: dict[Key, list[Told]] = {}
    for change in truth.changes(selection):
        changes.setdefault(key_of(recording.resource, change.object), []).append(change)
    progress: dict[Key, _Progress] = {}
    faults = []
    for number, (lists, what, obj, old) in enumerate(recording.entries):
        key = key_of(recording.resource, obj)
        try:
            _check(progress.setdefault(key, _Progress()), changes.get(key, []), what, obj, old, max(lists - 1, 0))
        except _Fault as fault:
            around = truth.around(revision_of(obj))
            faults.append(f"{recording.client} of {recording.resource}, entry {number}: {what} of {key}: {fault}\n{around}")
    for name, view in (("view", recording.known), ("store", _by_key(recording.resource, recording.items))):
        faults += [
            f"{recording.client} of {recording.resource}: its {name} {fault}" for fault in _differences(view, truth, selection)
        ]
    return faults


def _differences(view: Mapping[Key, Object], truth: Truth, selection: Selection) -> Iterator[str]:
    """What is wrong with a view at the end."""
    right = truth.at(selection, truth.last)
    for key in sorted(view.keys() | right.keys()):
        if view.get(key) != right.get(key):
            yield f"has {view.get(key, f'no {key}')}; right is {right.get(key, f'no {key}')}"


def _check(progress: _Progress, changes: Sequence[Told], what: str, obj: Object, old: Object | None, lists: int) -> None:
    """`lists`: how many of them the informer has asked for after its first."""
    if (what == "add") != (progress.known is None):
        raise _Fault("the object was there already" if what == "add" else "the object was not there")
    if old is not None and old != progress.known:
        raise _Fault(f"the old object is {old}, but the last one told was {progress.known}")
    if what == "update" and obj == progress.known:
        progress.repeated += 1
        if progress.repeated > lists:
            raise _Fault(f"it is told again, and was not listed again: {lists} lists after the first")
        return
    position = _find(changes, progress, what, obj)
    by_list = what == "delete" and changes[position].object != obj
    gap = position > progress.position + 1 and progress.position >= 0 and not progress.vague
    if gap or by_list:
        progress.passed += 1
        if progress.passed > lists:
            due = changes[progress.position + 1]
            raise _Fault(f"it missed {due.type} at {due.revision}, and {lists} lists after the first don't explain that")
    progress.position = position
    progress.known = None if what == "delete" else obj
    progress.vague = by_list


def _find(changes: Sequence[Told], progress: _Progress, what: str, obj: Object) -> int:
    for position in range(progress.position + 1, len(changes)):
        change = changes[position]
        gone = change.type == "DELETED"
        # Who learns of a deletion by a list knows the object as it was told last.
        if gone == (what == "delete") and (change.object == obj or (gone and obj == progress.known)):
            return position
    stands = changes[progress.position].revision if progress.position >= 0 else "the beginning"
    raise _Fault(f"there is no such change after {stands}")


def _by_key(resource: str, items: Iterable[Object]) -> dict[Key, Object]:
    return {key_of(resource, item): item for item in items}
