"""Record: what is known of the move of one family of definitions, kept in our store's journal. Pure.

An APIService stands for a whole group-version, so the definitions of a family move together or not at all. The record is written
before each step takes effect, and every step can be repeated, so that after a crash at any moment the same step is repeated, or
the move goes back.
Source: none; no other server does this.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from aggserver.errors import AggserverError
from aggserver.meta.json_types import JSONObject

__all__ = [
    "LATE_WRITE",
    "LEASE",
    "NOTE",
    "CantCopy",
    "CantGiveBack",
    "Copied",
    "GiveBack",
    "Given",
    "HostChange",
    "Mark",
    "Moving",
    "Phase",
    "Progress",
    "Record",
    "Refused",
    "ReportMessage",
    "Source",
    "SourcePage",
    "being_removed",
    "decode",
    "digest",
    "encode",
    "none_left",
    "silent",
]

# Of several servers, the one that holds this Lease moves families. The Lease is in the namespace of their Service.
LEASE = "aggserver-adoption"


class Phase(StrEnum):
    """The phases of a move and its way back, in their order."""

    WAITING = "Waiting"
    COPYING = "Copying"
    GUARDING = "Guarding"
    SWITCHING = "Switching"
    ADOPTED = "Adopted"
    GIVING_BACK = "GivingBack"
    SWITCHING_BACK = "SwitchingBack"


# The definitions of a record are served here in these phases, and the host leads clients here in those of LED_HERE.
SERVED = frozenset({Phase.SWITCHING, Phase.ADOPTED, Phase.GIVING_BACK, Phase.SWITCHING_BACK})
LED_HERE = frozenset({Phase.ADOPTED, Phase.GIVING_BACK})


@dataclass(frozen=True, slots=True)
class Copied:
    """A summary of one definition's objects at the moment of the switch.

    host_revision: a revision of the host, not before its last acknowledged write of them. count, digest: of the objects that the
    host then had; the digest is over the sorted pairs of key and host revision. own_revision: our store's revision at the switch;
    objects with a greater one were written here. size: bytes of all values.
    """

    host_revision: int
    count: int
    digest: str
    own_revision: int
    size: int = 0

    @property
    def is_being_removed(self) -> bool:
        """Whether the removal of the leftovers has begun, so that not all of them need be there any more."""
        return bool(self.count) and not self.own_revision


def digest(pairs: Iterable[tuple[str, int]]) -> str:
    """The SHA-256 of pairs of key and host revision, which must be sorted by key, as hexadecimal digits."""
    total = hashlib.sha256()
    for key, revision in pairs:
        total.update(f"{key}\0{revision}\n".encode())
    return total.hexdigest()


def being_removed(copied: Copied) -> Copied:
    """What is recorded before the first leftover is removed: some may be gone, and every object here counts as newer."""
    return replace(copied, digest="", own_revision=0)


def none_left(host_revision: int) -> Copied:
    """What is recorded once the leftovers are removed: the host has none, and every object here is newer than what it has."""
    return Copied(host_revision, 0, digest(()), 0)


@dataclass(frozen=True, slots=True)
class Record:
    """The state of one family's move.

    family: the name of its first definition. uids: of its definitions in the host, by name. group_versions: what is served.
    shared: the store is the cluster's etcd, so that nothing is copied. reason: why it waits or went back, '' if it did not.
    since: when the phase began, RFC 3339. through_api: the release may give objects new uids. copied: by definition.
    """

    family: str
    uids: Mapping[str, str]
    group_versions: Sequence[tuple[str, str]]
    phase: Phase
    shared: bool
    since: str
    reason: str = ""
    through_api: bool = False
    copied: Mapping[str, Copied] = field(default_factory=dict)

    @property
    def definitions(self) -> list[str]:
        return sorted(self.uids)

    def at(self, phase: Phase, since: str, reason: str = "") -> Record:
        """The same family in another phase."""
        return replace(self, phase=phase, since=since, reason=reason)


def encode(record: Record) -> JSONObject:
    return {
        "family": record.family,
        "uids": dict(record.uids),
        "groupVersions": [list(pair) for pair in record.group_versions],
        "phase": record.phase.value,
        "shared": record.shared,
        "since": record.since,
        "reason": record.reason,
        "throughAPI": record.through_api,
        "copied": {
            name: {
                "hostRevision": each.host_revision,
                "count": each.count,
                "digest": each.digest,
                "ownRevision": each.own_revision,
                "size": each.size,
            }
            for name, each in record.copied.items()
        },
    }


def decode(value: JSONObject) -> Record:
    """The reverse of `encode`. Raises KeyError or ValueError if the value is not from `encode`."""
    return Record(
        family=value["family"],
        uids=dict(value["uids"]),
        group_versions=[(group, version) for group, version in value["groupVersions"]],
        phase=Phase(value["phase"]),
        shared=value["shared"],
        since=value["since"],
        reason=value["reason"],
        through_api=value["throughAPI"],
        copied={
            name: Copied(each["hostRevision"], each["count"], each["digest"], each["ownRevision"], each["size"])
            for name, each in value["copied"].items()
        },
    )


# --- what is reported to people ---

# Reasons of Events: for messages in general, and for a write of the host that came too late to be copied.
NOTE = "AdoptionNote"
LATE_WRITE = "AdoptionLateWrite"


class ReportMessage(Protocol):
    """Reports a message about a family to people. Called on the event loop, must not raise."""

    def __call__(self, family: str, message: str, reason: str = NOTE, /) -> None: ...


# --- what a move reads from ---


@dataclass(frozen=True, slots=True)
class Moving:
    """How far the copy of a family is, or its way back.

    objects: copied, or compared with the host's. size: bytes written. remaining: objects. seconds_left: None while it can't be
    estimated.
    """

    objects: int
    size: int
    remaining: int
    seconds_left: float | None


class CantCopy(AggserverError):
    """The host's objects can't be copied. The text says why, for people."""


@dataclass(frozen=True, slots=True)
class SourcePage:
    """A page of the host's objects: (key, value as it is stored here, host revision of the object).

    revision: of the whole list, to follow from. remaining: how many objects come after this page. first: the list begins, or
    begins anew, and earlier pages are void.
    """

    items: Sequence[tuple[str, bytes, int]]
    revision: int
    remaining: int
    first: bool = False


@dataclass(frozen=True, slots=True)
class HostChange:
    """One write of the host's objects after a revision. value: None for a deletion.

    key: '' if it is no write, and only says that all writes up to this revision have been delivered.
    """

    key: str
    value: bytes | None
    revision: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A host revision that is not before any write acknowledged until then.

    seen: all writes up to it have been seen already. If not, `changes` will deliver a change of this revision or a later one.
    """

    revision: int
    seen: bool


class Source(Protocol):
    """Reads the host's objects of one definition. All methods raise CantCopy, ClusterError, Unreachable or StorageError."""

    def pages(self) -> AsyncGenerator[SourcePage]:
        """All objects at one revision. A list that has expired begins anew, see `SourcePage.first`."""

    def changes(self, after: int) -> AsyncGenerator[HostChange]:
        """The writes after a revision, in order. Raises an error if the revision has expired, and just ends after `leave`."""

    async def now(self) -> int:
        """The host's newest revision."""

    async def mark(self, seen: Mapping[str, int]) -> Mark:
        """Find a revision by which `changes` has delivered all writes acknowledged before the call.

        May write to the host, which the guard lets pass.

        seen: the host revision of each key, which the caller keeps up to date from `changes`.
        """

    def leave(self) -> None:
        """Open no new requests to the host's API, since the APIServices are about to lead here. An open watch stays open."""


# --- what a release gives back with ---

# Called with: objects looked at so far, objects in all, bytes written so far.
Progress = Callable[[int, int, int], None]


def silent(_done: int, _total: int, _size: int) -> None:
    """A `Progress` that reports nothing."""


class CantGiveBack(AggserverError):
    """Objects can't be given back. The text says why, for people. Nothing is lost: all objects are here."""


class Refused(CantGiveBack):
    """Only a new request helps: the host refuses objects as they are, or they must go another way.

    Another attempt would disturb clients, and fail as well.
    """


@dataclass(frozen=True, slots=True)
class Given:
    """What was written to the host: how many objects, how many deletions, and bytes. messages: about it, for people."""

    written: int = 0
    deleted: int = 0
    size: int = 0
    messages: Sequence[str] = ()


class GiveBack(Protocol):
    """Brings the objects of one definition back to the host. Every step can be repeated, also by another instance.

    All raise CantGiveBack, StorageError, ClusterError or Unreachable.
    """

    @property
    def through_api(self) -> bool:
        """Whether the APIServices have to be local before `rest`. If so, `first` writes nothing."""

    async def unchanged(self, copied: Copied) -> bool:
        """Whether nothing was written here since the move and the host's objects are as recorded, so there is nothing to do."""

    async def check(self, copied: Copied) -> None:
        """Check that the host's objects may be written. Writes nothing. Raises CantGiveBack if they may not."""

    async def first(self, copied: Copied, progress: Progress) -> Given:
        """Write the differences while clients go on writing here."""

    async def rest(self, copied: Copied, progress: Progress) -> Given:
        """Write the remaining differences. Clients must not write here any more when this is called."""
