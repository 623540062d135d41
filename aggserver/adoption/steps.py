"""Steps: what comes next for a family, by its record and what is wanted of it, and what the mover needs others to do for that.

`next_step` is the decision, a pure function. `Actions` is all that a move does outside of the records: to the host, and to what
this server serves. The composition root makes it of the parts, the tests of the mover have a fake of it. Pure.
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

# The phases in which the host must refuse writes. Of a copy that begins anew, it must not.
GUARDED = SERVED | {Phase.GUARDING}


class Step(StrEnum):
    """BEGIN: the move, from the start. MOVE: go on with it, or begin anew. BACK: give the move up. RESUME: look after what was
    adopted before this process began. JOIN: adopt what was created in the family. SWITCH: follow what it serves now. EMPTY: a
    definition is being deleted. HOLD: put our finalizer on again. CLEAN: remove the leftovers. RELEASE: give it back. FINISH: end
    the way back. DISCARD: forget what is here of definitions that the host has by itself.
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
    """None: nothing is to be done, or something stands in the way.

    family: None if nothing is known of it. resumed: whether this process looks after it. cleaned: as in `Family.cleanup`, the
    requests that were answered.
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
    """Of a record that waits: the host has its definitions by itself, and their objects here are kept and not served."""
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
    # Of definitions that are gone from the host, nobody knows what they served, so theirs stay.
    if record.uids.keys() == family.uids.keys() and set(family.group_versions) != set(record.group_versions):
        return Step.SWITCH
    # A version of the definition that leads to the leftovers may be left over itself, where a removal was interrupted.
    return Step.CLEAN if to_clean(record, family, cleaned) or family.opened else None


def to_clean(record: Record, family: Family, cleaned: Mapping[str, str]) -> list[str]:
    """The definitions whose leftovers are to be removed, and were not yet."""
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
        # Without it nothing keeps others from giving the definition back, as from a backup, so that clients write at the host.
        and not (record.phase is Phase.SWITCHING and family.unheld and not record.shared)
        and dict(family.uids) == dict(record.uids)
        and set(family.group_versions) == set(record.group_versions)
    )


def is_frozen(record: Record) -> bool:
    """Whether a server that serves the record's definitions, and does not move them itself, must refuse writes.

    During a release, too: only the server that moves knows when the last difference is read, and what another one took after
    that would be lost. So it holds from the first request after a restart on.
    """
    return not record.shared and record.phase in (Phase.SWITCHING, Phase.GIVING_BACK, Phase.SWITCHING_BACK)


def is_hidden(record: Record) -> bool:
    """Whether it must refuse reads as well."""
    return not record.shared and record.phase is Phase.SWITCHING_BACK


def joined(record: Record, family: Family, host_revision: int) -> Record:
    """The record with the definitions that have joined, of which the host has no objects."""
    new = {name: none_left(host_revision) for name in family.uids if name not in record.uids}
    return replace(
        record,
        uids={**record.uids, **family.uids},
        group_versions=sorted({*record.group_versions, *family.group_versions}),
        copied=record.copied if record.shared else {**record.copied, **new},
    )


class Remains(Protocol):
    """The leftovers of one definition, in the cluster's etcd: `giving_back.Leftovers`, or `leftovers.APILeftovers`.

    Both raise CantGiveBack if somebody has to do something about it, and StorageError, ClusterError or Unreachable.
    """

    async def check_removable(self, copied: Copied) -> Copied:
        """What to record before `remove`. Raises CantGiveBack if they are not those that were copied."""

    async def remove(self, copied: Copied, progress: Progress) -> int:
        """Remove them all. Returns how many there were."""


class Actions(Protocol):
    """All may be repeated, after a crash too. Failures are AggserverErrors, whose text a person understands."""

    async def families(self, groups: Collection[str]) -> Sequence[Family]:
        """All, those of these groups as the host has them now: asked for, not from a watch that may be behind."""

    async def hold(self, definition: str) -> None:
        """Put our finalizer on the definition in the host."""

    async def has(self, definition: str, uid: str) -> bool:
        """Whether the host has that definition, and is not deleting it."""

    async def let_go(self, definition: str, uid: str) -> None:
        """Take our finalizer off, if the host still has that definition."""

    def source(self, definition: str) -> Source:
        """What to copy its objects from. Raises CantCopy."""

    async def guard(self, definitions: Collection[str]) -> None:
        """Let the host refuse writes of the objects of exactly these, and wait until each kube-apiserver does so."""

    async def host_revision(self) -> int:
        """The newest revision of the cluster's etcd."""

    async def advance_host(self, revision: int) -> None:
        """Let the host have no smaller revision, if its etcd can be reached."""

    async def check_host(self) -> None:
        """Make a small write at the host, which fails if its etcd is full or another server moves families."""

    async def freeze(self, definition: str, *, reads: bool = False) -> None:
        """`apiextensions.definitions.Definitions.freeze`."""

    def thaw(self, definition: str) -> None:
        """`apiextensions.definitions.Definitions.thaw`."""

    async def mark(self, definition: str) -> None:
        """Let watches, exact lists and continue tokens from before this call get 410; watches that are open end."""

    async def serve(self, record: Record) -> None:
        """Return when the record's definitions are served here."""

    async def withdraw(self, definitions: Iterable[str]) -> None:
        """Serve these no longer, and forget them."""

    async def try_to_us(self, group_versions: Sequence[GroupVersion]) -> None:
        """Ask whether the host would let `to_us` lead these here. Changes nothing."""

    async def to_us(self, group_versions: Sequence[GroupVersion]) -> bool:
        """Lead these here and keep them so; return when each kube-apiserver does. Returns whether one led elsewhere before."""

    async def to_host(self, group_versions: Sequence[GroupVersion]) -> None:
        """Let the host serve these itself; return when each kube-apiserver does."""

    async def remove(self, group_versions: Sequence[GroupVersion]) -> None:
        """Delete our APIServices of these, which are not served any more."""

    async def end_watches(self, definition: str) -> None:
        """End the watches that clients have open at the host itself."""

    def give_back(self, record: Record, definition: str) -> GiveBack:
        """What brings its objects back."""

    def leftovers(self, record: Record, definition: str) -> AbstractAsyncContextManager[Remains]:
        """What the move left in the cluster's etcd, within the block. Entering raises as `Remains`."""

    async def close_leftovers(self, definition: str) -> None:
        """End what an interrupted removal of leftovers may have left in the definition. Does nothing if that is done."""

    async def empty(self, definition: str) -> str:
        """Delete all objects of a definition that is being deleted, and wait until none is left.

        Returns what a person should know of the leftovers, '' if nothing.
        """
