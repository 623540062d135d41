"""Steps: what comes next for a family, by its record and what is wanted of it, and the interface to whatever carries that out.

`next_step` is the decision, a pure function. `Actions` is all that a move does beside writing records: to the host, and to what
this server serves. The composition root implements it with the real parts, and the tests of the mover with a fake. Pure.
Source: none; no other server does this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from aggserver.adoption.families import Family, Wanted
from aggserver.adoption.records.record import SERVED, Copied, GiveBack, Phase, Progress, Record, Source, none_left

__all__ = ["GUARDED", "Actions", "Remains", "Step", "fits", "is_frozen", "is_hidden", "joined", "next_step", "to_clean"]

GroupVersion = tuple[str, str]

# The phases in which the host must refuse writes.
GUARDED = SERVED | {Phase.GUARDING}


class Step(StrEnum):
    """What to do next for a family.

    BEGIN: begin a move. MOVE: go on with it, or begin it anew. BACK: give the move up. RESUME: set up a family that was adopted
    before this process began. JOIN: adopt definitions that were created in the family. SWITCH: follow a change of the
    group-versions that it serves. EMPTY: delete the objects of a definition that is being deleted. HOLD: put our finalizer on
    again. CLEAN: remove the leftovers. RELEASE: give the family back. FINISH: complete the way back. DISCARD: delete our objects
    of definitions that the host serves by itself.
    """

    BEGIN = "Begin"
    MOVE = "Move"
    BACK = "Back"
    RESUME = "Resume"
    JOIN = "Join"
    SWITCH = "Switch"
    EMPTY = "Empty"
    HOLD = "Hold"
    CLEAN = "Clean"
    RELEASE = "Release"
    FINISH = "Finish"
    DISCARD = "Discard"


def next_step(
    record: Record | None, family: Family | None, *, resumed: bool = True, cleaned: Mapping[str, str] | None = None
) -> Step | None:
    """The next step for a family; None if nothing is to be done, or something stands in the way.

    family: None if nothing is known of it. resumed: whether this process has set up the adopted family. cleaned: the requests of
    `Family.cleanup` that were carried out or refused.
    """
    if record is None:
        free = family is not None and family.wanted is Wanted.ADOPT and not family.obstacles and not family.deleted
        return Step.BEGIN if free else None
    if record.phase is Phase.WAITING:
        return _of_kept(record, family)
    if record.phase is Phase.SWITCHING_BACK:
        return Step.FINISH
    if record.phase in (Phase.COPYING, Phase.GUARDING, Phase.SWITCHING):
        return Step.MOVE if fits(record, family) else Step.BACK
    if family is not None and family.discard and record.phase is Phase.ADOPTED:
        return Step.DISCARD
    if family is not None and family.wanted is Wanted.RELEASE:
        return Step.RELEASE
    if not resumed or record.phase is Phase.GIVING_BACK:
        return Step.RESUME
    return _of_adopted(record, family, cleaned or {}) if family is not None else None


def _of_kept(record: Record, family: Family | None) -> Step | None:
    """The step for a record in Waiting: the host serves its definitions by itself, and their objects here are not served."""
    if family is None or family.deleted:
        return None
    if family.discard:
        return Step.DISCARD
    # Somebody has put our finalizer on all of them, and so decided that the objects here are the right ones.
    return Step.RESUME if family.uids.keys() == record.uids.keys() and not family.unheld else None


def _of_adopted(record: Record, family: Family, cleaned: Mapping[str, str]) -> Step | None:
    if record.uids.keys() & set(family.deleted):
        return Step.EMPTY
    if family.unheld:
        return Step.HOLD
    if family.uids.keys() - record.uids.keys():
        return Step.JOIN
    # What definitions that are gone from the host served is unknown, so the group-versions stay while one is gone.
    if record.uids.keys() == family.uids.keys() and set(family.group_versions) != set(record.group_versions):
        return Step.SWITCH
    # An interrupted removal of leftovers may have left its version in the definition.
    return Step.CLEAN if to_clean(record, family, cleaned) or family.opened else None


def to_clean(record: Record, family: Family, cleaned: Mapping[str, str]) -> list[str]:
    """The definitions with an unanswered request to remove their leftovers, sorted."""
    return sorted(
        name
        for name, asked in family.cleanup.items()
        if name in record.copied and cleaned.get(name) != asked and record.copied[name].count
    )


def fits(record: Record, family: Family | None) -> bool:
    """Whether a move that has begun is still what is wanted, so that it may go on."""
    return (
        family is not None
        and family.wanted is Wanted.ADOPT
        and not family.obstacles
        and not family.deleted
        # Without our finalizer the definition may have been given back from a backup, and clients may write to the host.
        and not (record.phase is Phase.SWITCHING and family.unheld and not record.shared)
        and dict(family.uids) == dict(record.uids)
        and set(family.group_versions) == set(record.group_versions)
    )


def is_frozen(record: Record) -> bool:
    """Whether a server that serves the record's definitions, and does not move them itself, must refuse writes.

    During a release, too: only the server that moves knows when the last difference is read, and a write that another server took
    after that would be lost. So writes are refused from the first request after a restart on.
    """
    return not record.shared and record.phase in (Phase.SWITCHING, Phase.GIVING_BACK, Phase.SWITCHING_BACK)


def is_hidden(record: Record) -> bool:
    """Whether a server as in `is_frozen` must refuse reads as well."""
    return not record.shared and record.phase is Phase.SWITCHING_BACK


def joined(record: Record, family: Family, host_revision: int) -> Record:
    """The record with the definitions that have joined. The host has no objects of these."""
    new = {name: none_left(host_revision) for name in family.uids if name not in record.uids}
    return replace(
        record,
        uids={**record.uids, **family.uids},
        group_versions=sorted({*record.group_versions, *family.group_versions}),
        copied=record.copied if record.shared else {**record.copied, **new},
    )


class Remains(Protocol):
    """The leftovers of one definition, in the cluster's etcd: `to_etcd.Leftovers`, or `through_api.APILeftovers`.

    Both raise CantGiveBack if a person has to do something about it, and StorageError, ClusterError or Unreachable.
    """

    async def check_removable(self, copied: Copied) -> Copied:
        """What to record before `remove`. Raises CantGiveBack if the leftovers are not those that were copied."""

    async def remove(self, copied: Copied, progress: Progress) -> int:
        """Remove all leftovers. Returns how many were removed."""


class Actions(Protocol):
    """What a move does to the host and to what this server serves.

    Every method may be repeated, also after a crash. Failures are AggserverErrors, whose text is for people.
    """

    async def families(self, groups: Collection[str]) -> Sequence[Family]:
        """All families. In these groups the host itself is asked for the present state, since a watch may be behind."""

    async def add_finalizer(self, definition: str) -> None:
        """Put our finalizer on the definition in the host."""

    async def has(self, definition: str, uid: str) -> bool:
        """Whether the host has that definition, and is not deleting it."""

    async def remove_finalizer(self, definition: str, uid: str) -> None:
        """Take our finalizer off, if the host still has the definition with that uid."""

    def source(self, definition: str) -> Source:
        """The source to copy the definition's objects from. Raises CantCopy."""

    async def guard(self, definitions: Collection[str]) -> None:
        """Let the host refuse writes of the objects of exactly these definitions. Waits until each kube-apiserver does so."""

    async def host_revision(self) -> int:
        """The newest revision of the cluster's etcd."""

    async def advance_host(self, revision: int) -> None:
        """Raise the host's revision to at least this one, if its etcd can be reached."""

    async def check_host(self) -> None:
        """Make a small write to the host, to see that its etcd is not full and no other server moves families."""

    async def freeze(self, definition: str, *, reads: bool = False) -> None:
        """Refuse writes here, and reads too if asked: `apiextensions.definitions.Definitions.freeze`."""

    def thaw(self, definition: str) -> None:
        """Undo `freeze`: `apiextensions.definitions.Definitions.thaw`."""

    async def mark(self, definition: str) -> None:
        """Answer 410 to watches, exact lists and continue tokens from before this call, and end the open watches."""

    async def serve(self, record: Record) -> None:
        """Serve the record's definitions. Returns when they are served."""

    async def withdraw(self, definitions: Iterable[str]) -> None:
        """Stop serving these definitions, and forget them."""

    async def try_to_us(self, group_versions: Sequence[GroupVersion]) -> None:
        """Check by dry runs that the host would let `to_us` succeed. Changes nothing."""

    async def to_us(self, group_versions: Sequence[GroupVersion]) -> bool:
        """Lead requests for these here, now and from now on. Waits for each kube-apiserver. Returns whether any led elsewhere."""

    async def to_host(self, group_versions: Sequence[GroupVersion]) -> None:
        """Let the host serve these itself. Waits until each kube-apiserver does."""

    async def remove(self, group_versions: Sequence[GroupVersion]) -> None:
        """Delete our APIServices of these group-versions, which are not served any more."""

    async def end_watches(self, definition: str) -> None:
        """End the watches that clients have open at the host itself."""

    def give_back(self, record: Record, definition: str) -> GiveBack:
        """The `GiveBack` for the definition's objects."""

    def leftovers(self, record: Record, definition: str) -> AbstractAsyncContextManager[Remains]:
        """The definition's leftovers, for use within the block. Entering it raises as the methods of `Remains`."""

    async def close_leftovers(self, definition: str) -> None:
        """Undo what an interrupted removal of leftovers may have left in the definition. Does nothing if there is nothing."""

    async def empty(self, definition: str) -> str:
        """Delete all objects of a definition that is being deleted, and wait until none is left.

        Returns a message for people about the leftovers, '' if there is none.
        """
