"""OwnerGraph: which objects name which others as their owners, and what an event makes worth looking at.

It knows the objects that have owner references, and those whose deletion waits for the garbage collector, and no others: its size
is that of the references, not that of the store. Owners are known by the keys that references lead to, and are verified once for
all their dependents; only dependents whose owner is not what they say are looked at one by one.

Pure. Source: k8s.io/kubernetes pkg/controller/garbagecollector/{graph,graph_builder}.go, v1.36.3. Upstream watches all objects,
and keeps a node for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from aggserver.meta.json_types import JSONObject
from aggserver.storage import keys

__all__ = ["ABSENT", "Check", "Find", "Kind", "OwnerGraph", "Reference", "Resource", "address", "references"]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

# The uid of an owner that is known not to exist.
ABSENT = ""


class Kind(NamedTuple):
    """What an owner reference says of the owner's type."""

    api_version: str
    kind: str


class Resource(NamedTuple):
    """Where objects of a kind are stored."""

    group: str
    resource: str
    namespaced: bool


# The resource of a kind; None if the kind is not served.
Find = Callable[[Kind], Resource | None]


class Reference(NamedTuple):
    """An owner reference. blocks: whether the owner, deleted in the foreground, waits for the dependent."""

    kind: Kind
    name: str
    uid: str
    blocks: bool


class Check(NamedTuple):
    """What is worth looking at: an object, the owner at a key, or (without a key) which kinds are served."""

    what: Literal["object", "owner", "kinds"]
    key: str


def references(metadata: JSONObject) -> tuple[Reference, ...]:
    """The owner references of an object, as far as they can be understood."""
    given = metadata.get("ownerReferences")
    return tuple(_reference(entry) for entry in given if isinstance(entry, dict)) if isinstance(given, list) else ()


def _reference(entry: Mapping[str, Any]) -> Reference:
    kind = Kind(str(entry.get("apiVersion") or ""), str(entry.get("kind") or ""))
    return Reference(kind, str(entry.get("name") or ""), str(entry.get("uid") or ""), entry.get("blockOwnerDeletion") is True)


def address(reference: Reference, namespace: str, resource: Resource) -> str | None:
    """The key of the owner, in the namespace of its dependent; None where a cluster-scoped object names a namespaced owner."""
    if resource.namespaced and not namespace:
        return None
    prefix = keys.resource_prefix(resource.group, resource.resource)
    return f"{prefix}{namespace}/{reference.name}" if resource.namespaced else prefix + reference.name


@dataclass(slots=True)
class _Node:
    """An object. phase: what the garbage collector has to do for its deletion, '' for nothing."""

    uid: str
    owners: tuple[Reference, ...]
    phase: str


@dataclass(slots=True)
class _Owner:
    """A key that references lead to. uid: of the object there; None if unknown. since: the number of the event that told so.

    was_there: whether there was an object while the graph was kept.
    """

    since: int
    uid: str | None = None
    was_there: bool = False
    dependents: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Referenced:
    """A kind that references name. resource: None as long as it is not served."""

    resource: Resource | None
    dependents: dict[str, None] = field(default_factory=dict)


class OwnerGraph:
    """find: is asked once for each kind that references name, and again by `kinds_changed`."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._nodes: dict[str, _Node] = {}
        self._owners: dict[str, _Owner] = {}
        self._kinds: dict[Kind, _Referenced] = {}
        self._dependents: dict[str, dict[str, None]] = {}  # by the owner's uid, wherever the reference leads to
        self._waiting: dict[str, str] = {}  # uid -> key, of objects that are deleted in the foreground
        self._events = 0

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def objects(self) -> list[str]:
        """The keys of all objects that it knows."""
        return list(self._nodes)

    # --- events ---

    def changed(self, key: str, metadata: JSONObject) -> list[Check]:
        """An object was written."""
        uid = str(metadata.get("uid") or "")
        owners, phase = references(metadata), _phase(metadata)
        found: list[Check] = []
        node = self._nodes.get(key)
        if node is not None and node.uid != uid:
            found += self.deleted(key)
            node = None
        if node is None:
            if not owners and not phase:
                return found
            node = self._nodes[key] = _Node(uid, (), "")
        if owners != node.owners:
            found += self._replace_owners(key, node, owners)
        if phase != node.phase:
            found += self._begin(key, node, phase)
        if not node.owners and not node.phase:
            del self._nodes[key]
        return found

    def deleted(self, key: str) -> list[Check]:
        """There is no object at `key` any more."""
        found: list[Check] = []
        node = self._nodes.pop(key, None)
        if node is not None:
            found += self._replace_owners(key, node, (), gone=True)
            self._begin(key, node, "")
        owner = self._owners.get(key)
        if owner is not None:
            self._events += 1
            owner.uid, owner.since, owner.was_there = ABSENT, self._events, True
            found += [Check("object", dependent) for dependent in owner.dependents]
        return found

    def created(self, key: str) -> None:
        """There is an object at `key` that was not there before."""
        owner = self._owners.get(key)
        if owner is not None:
            self._events += 1
            owner.uid, owner.since = None, self._events

    def kinds_changed(self) -> list[Check]:
        """Other kinds may be served now. A kind that is not served any more stays what it was."""
        found: list[Check] = []
        for kind, referenced in list(self._kinds.items()):
            resource = self._find(kind)
            if resource is None or resource == referenced.resource:
                continue
            dependents = list(referenced.dependents)
            for key in dependents:
                self._unlink(key, self._nodes[key].owners)
            self._kinds[kind] = _Referenced(resource)
            for key in dependents:
                found += [*self._link(key, self._nodes[key].owners), Check("object", key)]
        return found

    def verified(self, key: str, uid: str, since: int) -> list[Check]:
        """What is at an owner's key: the uid, or ABSENT. since: as of `unverified` before that was read.

        Returns the dependents that name another owner.
        """
        owner = self._owners.get(key)
        if owner is None or owner.since != since:
            return []
        owner.uid = uid
        owner.was_there = owner.was_there or uid != ABSENT
        return [Check("object", dependent) for dependent in owner.dependents if not self._fits(dependent, key, uid)]

    # --- questions ---

    def unverified(self, key: str) -> int | None:
        """For `verified`; None if it is known what is at the key, or if no reference leads to it."""
        owner = self._owners.get(key)
        return None if owner is None or owner.uid is not None else owner.since

    def is_absent(self, key: str) -> bool:
        """Whether an owner's key is known to have no object."""
        owner = self._owners.get(key)
        return owner is not None and owner.uid == ABSENT

    def was_there(self, key: str) -> bool:
        """Whether there was an object at an owner's key, as far as it has seen."""
        owner = self._owners.get(key)
        return owner is not None and owner.was_there

    def resource_of(self, kind: Kind) -> Resource | None:
        """The resource of a kind, also of one that was served when a reference that is still there named it."""
        return self._find(kind) or (self._kinds[kind].resource if kind in self._kinds else None)

    def dependents(self, uid: str) -> list[str]:
        """The keys of all objects that name an owner with this uid."""
        return list(self._dependents.get(uid, ()))

    def blocking(self, uid: str) -> list[str]:
        """Those of the dependents for which the owner, deleted in the foreground, has to wait."""
        return [key for key in self._dependents.get(uid, ()) if self._blocks(self._nodes[key], uid)]

    def is_deleting_dependents(self, key: str) -> bool:
        node = self._nodes.get(key)
        return node is not None and node.phase == FOREGROUND

    # --- the parts of an event ---

    def _replace_owners(self, key: str, node: _Node, owners: tuple[Reference, ...], *, gone: bool = False) -> list[Check]:
        before = node.owners
        removed = tuple(entry for entry in before if entry not in owners)
        blocked = {entry.uid for entry in removed if gone or entry.blocks}
        blocked -= {entry.uid for entry in owners if entry.blocks}
        self._unlink(key, before)
        node.owners = owners
        found = self._link(key, owners)
        return found + [Check("object", self._waiting[uid]) for uid in sorted(blocked) if uid in self._waiting]

    def _unlink(self, key: str, owners: tuple[Reference, ...]) -> None:
        for reference in owners:
            _drop(self._dependents, reference.uid, key)
            referenced = self._kinds.get(reference.kind)
            if referenced is None:
                continue
            leads_to = self._leads_to(key, reference, referenced.resource)
            if leads_to is not None and (owner := self._owners.get(leads_to)) is not None:
                owner.dependents.pop(key, None)
                if not owner.dependents:
                    del self._owners[leads_to]
            referenced.dependents.pop(key, None)
            if not referenced.dependents:
                del self._kinds[reference.kind]

    def _link(self, key: str, owners: tuple[Reference, ...]) -> list[Check]:
        found: list[Check] = []
        for reference in owners:
            self._dependents.setdefault(reference.uid, {})[key] = None
            referenced = self._kinds.get(reference.kind)
            if referenced is None:
                referenced = self._kinds[reference.kind] = _Referenced(self._find(reference.kind))
            referenced.dependents[key] = None
            leads_to = self._leads_to(key, reference, referenced.resource)
            if leads_to is None:
                # A kind that is not served, or a namespaced owner of a cluster-scoped object.
                found.append(Check("object", key))
                continue
            owner = self._owners.get(leads_to)
            if owner is None:
                self._events += 1
                owner = self._owners[leads_to] = _Owner(self._events)
            owner.dependents[key] = None
            if owner.uid is None:
                found.append(Check("owner", leads_to))
            elif owner.uid != reference.uid or self.is_deleting_dependents(leads_to):
                found.append(Check("object", key))
        return found

    def _leads_to(self, key: str, reference: Reference, resource: Resource | None) -> str | None:
        return None if resource is None else address(reference, keys.split(key).namespace, resource)

    def _begin(self, key: str, node: _Node, phase: str) -> list[Check]:
        before, node.phase = node.phase, phase
        if before == FOREGROUND and self._waiting.get(node.uid) == key:
            del self._waiting[node.uid]
        if phase == FOREGROUND:
            self._waiting[node.uid] = key
            return [*(Check("object", dependent) for dependent in self.dependents(node.uid)), Check("object", key)]
        return [Check("object", key)] if phase else []

    def _fits(self, dependent: str, key: str, uid: str) -> bool:
        """Whether all references of a dependent that lead to `key` name the object there."""
        for reference in self._nodes[dependent].owners:
            leads_to = self._leads_to(dependent, reference, self._kinds[reference.kind].resource)
            if leads_to == key and reference.uid != uid:
                return False
        return True

    @staticmethod
    def _blocks(node: _Node, uid: str) -> bool:
        return any(reference.uid == uid and reference.blocks for reference in node.owners)


def _phase(metadata: JSONObject) -> str:
    """What the garbage collector has to do before the object can be removed. Dependents are orphaned first, as upstream."""
    if not metadata.get("deletionTimestamp"):
        return ""
    finalizers = metadata.get("finalizers") or ()
    return ORPHAN if ORPHAN in finalizers else FOREGROUND if FOREGROUND in finalizers else ""


def _drop(index: dict[str, dict[str, None]], name: str, key: str) -> None:
    members = index.get(name)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[name]
