"""OwnerGraph: which objects name which others as their owners, and what to check after an event.

It has the objects with owner references, and those whose deletion waits for the garbage collector, and no others: its size grows
with the references, not with the store. Owners are identified by the keys that references lead to, and are verified once for all
their dependents; only dependents whose owner does not have the uid in their reference are checked one by one.

An object may name tens of thousands of owners, and an owner may have any number of dependents. So methods that take that long
return an iterator: each item is one step of the work, an `OwnerCheck` or None, and other tasks may run between two steps. An
iterator must be exhausted before the next one is begun. At each step the graph has all references that are in both the old and
the new state.

Pure. Source: k8s.io/kubernetes pkg/controller/garbagecollector/{graph,graph_builder}.go, v1.36.3. Upstream watches all objects,
and keeps a node for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from aggserver.meta.json_types import JSONObject
from aggserver.storage import keys

__all__ = [
    "ABSENT",
    "Find",
    "OwnerCheck",
    "OwnerGraph",
    "OwnerKind",
    "OwnerResource",
    "Reference",
    "Steps",
    "address",
    "references",
]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

# The uid of an owner that is known not to exist.
ABSENT = ""


class OwnerKind(NamedTuple):
    """The type of an owner, as owner references give it."""

    api_version: str
    kind: str


class OwnerResource(NamedTuple):
    """Where objects of a kind are stored."""

    group: str
    resource: str
    namespaced: bool


# The resource of a kind; None if the kind is not served.
Find = Callable[[OwnerKind], OwnerResource | None]


class Reference(NamedTuple):
    """An owner reference. blocks: whether the owner, deleted in the foreground, waits for the dependent."""

    kind: OwnerKind
    name: str
    uid: str
    blocks: bool


class OwnerCheck(NamedTuple):
    """What to check: an object, the owner at a key, or (with the key '') which kinds are served."""

    what: Literal["object", "owner", "kinds"]
    key: str


# The steps of some work, and the checks that they ask for.
Steps = Iterator[OwnerCheck | None]


def references(metadata: JSONObject) -> Iterator[Reference]:
    """The owner references of an object, without malformed ones. An iterator, so that other tasks can run in between."""
    given = metadata.get("ownerReferences")
    kinds: dict[OwnerKind, OwnerKind] = {}  # shared, which saves a third of the memory of an object's references
    for entry in given if isinstance(given, list) else ():
        if isinstance(entry, dict):
            yield _reference(entry, kinds)


def _reference(entry: Mapping[str, Any], kinds: dict[OwnerKind, OwnerKind]) -> Reference:
    kind = OwnerKind(str(entry.get("apiVersion") or ""), str(entry.get("kind") or ""))
    return Reference(
        kinds.setdefault(kind, kind),
        str(entry.get("name") or ""),
        str(entry.get("uid") or ""),
        entry.get("blockOwnerDeletion") is True,
    )


def address(reference: Reference, namespace: str, resource: OwnerResource) -> str | None:
    """The key of the owner, in the namespace of its dependent; None if a cluster-scoped object names a namespaced owner."""
    if resource.namespaced and not namespace:
        return None
    prefix = keys.resource_prefix(resource.group, resource.resource)
    return f"{prefix}{namespace}/{reference.name}" if resource.namespaced else prefix + reference.name


@dataclass(slots=True)
class _Node:
    """An object. phase: the finalizer of the garbage collector that its deletion waits for, '' if none."""

    uid: str
    owners: dict[Reference, None]
    phase: str


@dataclass(slots=True)
class _Owner:
    """A key that references lead to. uid: of the object there, None if unknown. since: the number of the last event about it.

    was_there: whether the graph has ever seen an object there. dependents: the number of references by (key of the dependent, uid
    in the reference).
    """

    since: int
    uid: str | None = None
    was_there: bool = False
    dependents: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class _Referenced:
    """A kind that references name. resource: None until it is served. references: (key of the dependent, reference)."""

    resource: OwnerResource | None
    references: dict[tuple[str, Reference], None] = field(default_factory=dict)


class OwnerGraph:
    """The graph. find: called once for each kind that references name, and again by `kinds_changed`."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._nodes: dict[str, _Node] = {}
        self._owners: dict[str, _Owner] = {}
        self._kinds: dict[OwnerKind, _Referenced] = {}
        # The number of references by the owner's uid and the dependent's key: of all references, and of those that block.
        self._dependents: dict[str, dict[str, int]] = {}
        self._blocking: dict[str, dict[str, int]] = {}
        self._waiting: dict[str, str] = {}  # uid -> key, of objects that are deleted in the foreground
        self._events = 0

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def objects(self) -> list[str]:
        """The keys of all objects in the graph."""
        return list(self._nodes)

    # --- events ---

    def changed(self, key: str, metadata: JSONObject) -> Steps:
        """An object was written."""
        uid = str(metadata.get("uid") or "")
        phase = _phase(metadata)
        node = self._nodes.get(key)
        if node is not None and node.uid != uid:
            yield from self.deleted(key)
            node = None
        if node is None:
            if not metadata.get("ownerReferences") and not phase:
                return
            node = self._nodes[key] = _Node(uid, {}, "")
        yield from self._replace_owners(key, node, references(metadata))
        if phase != node.phase:
            yield from self._begin(key, node, phase)
        if not node.owners and not node.phase:
            del self._nodes[key]

    def deleted(self, key: str) -> Steps:
        """There is no object at `key` any more."""
        node = self._nodes.pop(key, None)
        if node is not None:
            yield from self._replace_owners(key, node, iter(()))
            yield from self._begin(key, node, "")
        owner = self._owners.get(key)
        if owner is not None:
            self._events += 1
            owner.uid, owner.since, owner.was_there = ABSENT, self._events, True
            yield from self.misfits(key)

    def created(self, key: str) -> None:
        """There is an object at `key` that was not there before."""
        owner = self._owners.get(key)
        if owner is not None:
            self._events += 1
            owner.uid, owner.since = None, self._events

    def kinds_changed(self) -> Steps:
        """Ask again which kinds are served. A kind that is not served any more keeps its resource."""
        for kind, referenced in list(self._kinds.items()):
            yield None
            before, resource = referenced.resource, self._find(kind)
            if resource is None or resource == before:
                continue
            moved = list(referenced.references)
            for key, reference in moved:
                self._lead_away(key, reference, before)
                yield None
            referenced.resource = resource
            for key, reference in moved:
                yield self._lead_to(key, reference, referenced)
                yield OwnerCheck("object", key)

    def verified(self, key: str, uid: str, since: int) -> bool:
        """Set which object is at an owner's key. uid: ABSENT for none. since: what `unverified` returned before it was read.

        Returns whether the graph has taken it over, so that `misfits` must be checked; it has not if it changed since.
        """
        owner = self._owners.get(key)
        if owner is None or owner.since != since:
            return False
        owner.uid = uid
        owner.was_there = owner.was_there or uid != ABSENT
        return True

    def misfits(self, key: str) -> Steps:
        """Checks for the dependents with a reference to `key`, unless the object there has the uid of the reference."""
        owner = self._owners.get(key)
        if owner is not None:
            for dependent, uid in list(owner.dependents):
                yield None if uid == owner.uid != ABSENT else OwnerCheck("object", dependent)

    # --- questions ---

    def unverified(self, key: str) -> int | None:
        """The `since` for `verified`; None if the object at the key is known, or no reference leads to it."""
        owner = self._owners.get(key)
        return None if owner is None or owner.uid is not None else owner.since

    def is_absent(self, key: str) -> bool:
        """Whether an owner's key is known to have no object."""
        owner = self._owners.get(key)
        return owner is not None and owner.uid == ABSENT

    def was_there(self, key: str) -> bool:
        """Whether the graph has ever seen an object at an owner's key."""
        owner = self._owners.get(key)
        return owner is not None and owner.was_there

    def resource_of(self, kind: OwnerKind) -> OwnerResource | None:
        """The resource of a kind; also of a kind that is not served any more, if references have named it since."""
        return self._find(kind) or (self._kinds[kind].resource if kind in self._kinds else None)

    def dependents(self, uid: str) -> list[str]:
        """The keys of all objects that name an owner with this uid."""
        return list(self._dependents.get(uid, ()))

    def blocking(self, uid: str) -> list[str]:
        """The keys of the dependents that block the foreground deletion of the owner with this uid."""
        return list(self._blocking.get(uid, ()))

    def is_deleting_dependents(self, key: str) -> bool:
        node = self._nodes.get(key)
        return node is not None and node.phase == FOREGROUND

    # --- the parts of an event ---

    def _replace_owners(self, key: str, node: _Node, given: Iterator[Reference]) -> Steps:
        """Add the new references first, then remove those that are gone: an owner must never miss a dependent that blocks it."""
        owners: dict[Reference, None] = {}
        for reference in given:
            owners[reference] = None
            yield None if reference in node.owners else self._link(key, reference)
        for reference in node.owners:
            yield None if reference in owners else self._unlink(key, reference)
        node.owners = owners

    def _link(self, key: str, reference: Reference) -> OwnerCheck | None:
        _count(self._dependents, reference.uid, key, 1)
        if reference.blocks:
            _count(self._blocking, reference.uid, key, 1)
        referenced = self._kinds.get(reference.kind)
        if referenced is None:
            referenced = self._kinds[reference.kind] = _Referenced(self._find(reference.kind))
        referenced.references[key, reference] = None
        return self._lead_to(key, reference, referenced)

    def _lead_to(self, key: str, reference: Reference, referenced: _Referenced) -> OwnerCheck | None:
        leads_to = _leads_to(key, reference, referenced.resource)
        if leads_to is None:
            # A kind that is not served, or a namespaced owner of a cluster-scoped object.
            return OwnerCheck("object", key)
        owner = self._owners.get(leads_to)
        if owner is None:
            self._events += 1
            owner = self._owners[leads_to] = _Owner(self._events)
        named = key, reference.uid
        owner.dependents[named] = owner.dependents.get(named, 0) + 1
        if owner.uid is None:
            return OwnerCheck("owner", leads_to)
        return OwnerCheck("object", key) if owner.uid != reference.uid or self.is_deleting_dependents(leads_to) else None

    def _unlink(self, key: str, reference: Reference) -> OwnerCheck | None:
        _count(self._dependents, reference.uid, key, -1)
        if reference.blocks:
            _count(self._blocking, reference.uid, key, -1)
        referenced = self._kinds[reference.kind]
        self._lead_away(key, reference, referenced.resource)
        del referenced.references[key, reference]
        if not referenced.references:
            del self._kinds[reference.kind]
        if reference.uid in self._waiting and reference.uid not in self._blocking:
            return OwnerCheck("object", self._waiting[reference.uid])
        return None

    def _lead_away(self, key: str, reference: Reference, resource: OwnerResource | None) -> None:
        leads_to = _leads_to(key, reference, resource)
        owner = None if leads_to is None else self._owners.get(leads_to)
        if leads_to is None or owner is None:
            return
        named = key, reference.uid
        owner.dependents[named] -= 1
        if not owner.dependents[named]:
            del owner.dependents[named]
            if not owner.dependents:
                del self._owners[leads_to]

    def _begin(self, key: str, node: _Node, phase: str) -> Steps:
        before, node.phase = node.phase, phase
        if before == FOREGROUND and self._waiting.get(node.uid) == key:
            del self._waiting[node.uid]
        if phase == FOREGROUND:
            self._waiting[node.uid] = key
            for dependent in self.dependents(node.uid):
                yield OwnerCheck("object", dependent)
        if phase:
            yield OwnerCheck("object", key)


def _leads_to(key: str, reference: Reference, resource: OwnerResource | None) -> str | None:
    return None if resource is None else address(reference, keys.split(key).namespace, resource)


def _phase(metadata: JSONObject) -> str:
    """The finalizer of the garbage collector that the deletion waits for; '' if none. Orphaning comes first, as upstream."""
    if not metadata.get("deletionTimestamp"):
        return ""
    finalizers = metadata.get("finalizers") or ()
    return ORPHAN if ORPHAN in finalizers else FOREGROUND if FOREGROUND in finalizers else ""


def _count(index: dict[str, dict[str, int]], name: str, key: str, change: int) -> None:
    """Add `change` to a count in the index. Counts of 0 are removed."""
    members = index.setdefault(name, {})
    members[key] = members.get(key, 0) + change
    if not members[key]:
        del members[key]
        if not members:
            del index[name]
