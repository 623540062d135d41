"""Holds what informers of a virtual resource were told against the log of its source. Pure.

The server makes the revisions of such a resource, another one in each process, so that a state is known by the uid and the
generation that the source gave it. A mirror shows states and not writes: of several changes of one object, clients may see only
the last. What may never happen: a state that the source never had; a deletion of what the source has not deleted; an object that
goes back in time, but by a list, which another replica may have answered that has not polled yet; a change that is never told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.history.recording import Object

__all__ = ["Key", "Log", "State", "Told", "check_told", "logged", "state_of"]

# (namespace, name)
Key = tuple[str, str]


class State(NamedTuple):
    """One state of one object. content: what else it has, which must be the same for all who see the state."""

    uid: str
    generation: int
    content: object


class Told(NamedTuple):
    """What the handlers of an informer were told: add, update or delete. lists: how often it had listed by then."""

    what: str
    key: Key
    state: State
    lists: int


@dataclass(slots=True)
class Log:
    """All states of all objects of a source, by key, in the order in which it had them; None where one was deleted."""

    states: dict[Key, list[State | None]] = field(default_factory=dict)

    def add(self, key: Key, state: State | None) -> None:
        self.states.setdefault(key, []).append(state)

    def now(self) -> dict[Key, State]:
        return {key: last for key, states in self.states.items() if (last := states[-1]) is not None}


def state_of(obj: Object, content: Iterable[str]) -> tuple[Key, State]:
    """content: the fields of an object that are compared."""
    metadata = obj["metadata"]
    key = metadata.get("namespace", ""), metadata["name"]
    return key, State(metadata["uid"], metadata["generation"], tuple(obj.get(name) for name in content))


@dataclass(slots=True)
class _Progress:
    """position: in the states of the object. lists: at the last thing told. known: None if it is not there."""

    known: State | None = None
    position: int = -1
    lists: int = 0


def check_told(log: Log, told: Sequence[Told], held: Mapping[Key, State]) -> list[str]:
    """The faults. held: what the informer holds at the end, when nothing changes any more."""
    progress: dict[Key, _Progress] = {}
    faults = []
    for number, each in enumerate(told):
        fault = _step(progress.setdefault(each.key, _Progress()), log.states.get(each.key, []), each)
        if fault:
            faults.append(f"entry {number}, {each}: {fault}; the source had {log.states.get(each.key)}")
    view = {key: each.known for key, each in progress.items() if each.known is not None}
    for what, found in (("was told", view), ("holds", dict(held))):
        faults += [
            f"at the end it {what} {found.get(key)} for {key}, and the source has {log.now().get(key)}"
            for key in sorted(found.keys() | log.now().keys())
            if found.get(key) != log.now().get(key)
        ]
    return faults


def _step(progress: _Progress, states: Sequence[State | None], told: Told) -> str:
    """What is wrong with one thing told; '' if nothing is."""
    known, lists = progress.known, progress.lists
    progress.lists = told.lists
    if told.what == "delete":
        progress.known = None
        if known is None:
            return "it was told of a deletion of what it did not have"
        ends = [at for at, state in enumerate(states) if state is None and at and _uid(states[at - 1]) == known.uid]
        if not ends:
            return "it was told of a deletion, and the source has deleted nothing"
        progress.position = max(progress.position, ends[0])
        return ""
    progress.known = told.state
    if (told.what == "add") != (known is None):
        return "it had the object already" if known is not None else "it did not have the object"
    if told.state not in states:
        return "the source never had this state"
    before, progress.position = progress.position, states.index(told.state)
    if progress.position < before and told.lists == lists:
        return f"it went back from {states[before]}, and has not listed since"
    return ""


def _uid(state: State | None) -> str:
    return "" if state is None else state.uid


def logged(rows: Iterable[Sequence[Any]]) -> Log:
    """rows: (namespace, name, uid, generation, content...) in the order of the source; a deletion has no generation."""
    log = Log()
    for namespace, name, uid, generation, *content in rows:
        log.add((namespace, name), None if generation is None else State(uid, generation, tuple(content)))
    return log
