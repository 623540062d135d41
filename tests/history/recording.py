"""What writers and clients write down: values only, in the order in which each of them saw things.

`Ticks` are one clock for all: whatever was done before something else was sent has the smaller tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "ACKNOWLEDGED",
    "REFUSED",
    "UNKNOWN",
    "Bookmark",
    "Cut",
    "Entry",
    "Failed",
    "Key",
    "Listed",
    "Object",
    "Opened",
    "Recording",
    "Selection",
    "Told",
    "Write",
    "finalizers",
    "is_deleted",
    "key_of",
    "markers",
    "revision_of",
    "shown_at",
    "uid_of",
]

# As the server tells it, without apiVersion and kind, which some lists leave out.
Object = Mapping[str, Any]

# How a write ended: answered with success; answered with an error; not answered, so that nobody knows.
ACKNOWLEDGED, REFUSED, UNKNOWN = "acknowledged", "refused", "unknown"


class Key(NamedTuple):
    """`namespace` is '' for a cluster-scoped object. Keys sort as the server's lists do."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, self))


def key_of(resource: str, obj: Object) -> Key:
    return Key(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])


def revision_of(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])


def uid_of(obj: Object) -> str:
    uid: str = obj["metadata"]["uid"]
    return uid


def markers(obj: Object) -> set[str]:
    """Who wrote the object's spec and status last: every write leaves a marker that no other has."""
    return {part["marker"] for part in (obj.get("spec"), obj.get("status")) if part and "marker" in part}


def finalizers(obj: Object) -> Sequence[str]:
    """Who must still let go of the object before it can be removed."""
    found: Sequence[str] = obj["metadata"].get("finalizers", ())
    return found


def is_deleted(obj: Object) -> bool:
    """Whether its deletion was asked for, and it is there only for its finalizers."""
    return "deletionTimestamp" in obj["metadata"]


def shown_at(obj: Object, revision: int) -> Object:
    """The object as a deletion tells of it: the last content with the deletion's revision."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """One request of a writer. `object` is the answer to all but deletions, `uid` tells whose deletion was acknowledged.

    A delete of an object with finalizers is answered with the object, which is marked by then, by this delete or an earlier one.
    A finalize takes the last finalizers from an object that is being deleted, whose uid is in `wanted`, and so removes it. Of
    several at once, all are acknowledged: its outcome is unknown even if it was answered; but then `uid` is gone.

    A deletecollection is a write of each object that it may have deleted. Its outcome is unknown even if it was answered, since
    others may have deleted first what it names; but then `uid` is of an object that is gone.

    `wanted` is what was sent, and so must be in the object; `base` the resourceVersion that the write was made for, 0 for any.
    """

    writer: str
    verb: str
    key: Key
    marker: str
    outcome: str
    sent: int
    done: int
    object: Object | None = None
    uid: str = ""
    base: int = 0
    wanted: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.outcome} {self.verb} of {self.key} by {self.writer} ({self.marker})"


@dataclass(frozen=True, slots=True)
class Selection:
    """What a client asked for: a resource, one namespace or name or all, a label and a field or any.

    `metadata_only`: the client sees metadata and nothing else (PartialObjectMetadata, Table).
    """

    resource: str
    namespace: str = ""
    name: str = ""
    label: tuple[str, str] | None = None
    field: tuple[str, str] | None = None  # of spec
    metadata_only: bool = False

    def covers(self, key: Key) -> bool:
        return key.resource == self.resource and self.namespace in ("", key.namespace) and self.name in ("", key.name)

    def matches(self, obj: Object) -> bool:
        if self.label is not None and obj["metadata"].get("labels", {}).get(self.label[0]) != self.label[1]:
            return False
        return self.field is None or obj["spec"].get(self.field[0]) == self.field[1]

    def view(self, obj: Object) -> Object:
        return {"metadata": obj["metadata"]} if self.metadata_only else obj

    def __str__(self) -> str:
        said = [self.resource, self.namespace, self.name, *("=".join(pair) for pair in (self.label, self.field) if pair)]
        return " ".join(filter(None, [*said, "metadata" * self.metadata_only]))


@dataclass(frozen=True, slots=True)
class Listed:
    """A whole list, in one page or several: (resourceVersion, items) of each. `exactly`: the revision asked for, 0 for none.

    `latest`: it must have all that was acknowledged before it was sent.
    """

    sent: int
    pages: Sequence[tuple[int, Sequence[Object]]]
    latest: bool = False
    exactly: int = 0


@dataclass(frozen=True, slots=True)
class Opened:
    """A watch begins: after revision `after`, or (0) with the objects of now.

    `marked`: their end is told by a bookmark (sendInitialEvents). `latest`: as of a list.
    """

    sent: int
    after: int
    marked: bool = False
    latest: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """An event of type ADDED, MODIFIED or DELETED."""

    type: str
    object: Object

    @property
    def revision(self) -> int:
        return revision_of(self.object)


@dataclass(frozen=True, slots=True)
class Bookmark:
    revision: int
    ends_initial: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """An HTTP error or an ERROR event."""

    code: int
    reason: str
    message: str = ""

    @property
    def expired(self) -> bool:
        return (self.code, self.reason) == (410, "Expired")


@dataclass(frozen=True, slots=True)
class Cut:
    """The watch ended without an error: by its time, by the client, by the end of the server."""


Entry = Listed | Opened | Told | Bookmark | Failed | Cut


@dataclass(slots=True)
class Recording:
    """What one client saw. `follows`: it was told to go on until it stands at the last revision."""

    client: str
    selection: Selection
    follows: bool
    entries: list[Entry] = field(default_factory=list)
