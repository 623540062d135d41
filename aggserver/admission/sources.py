"""Sources: the objects that decide what admission does, each collection as last known.

The objects are the hosting cluster's, kept up to date by watches (`cluster_sources.py`), or without a cluster this server's own.
Plugins read them synchronously with every write, and compile what they need from them when `generation` has changed.
Source: k8s.io/apiserver pkg/admission/configuration, pkg/admission/plugin/policy/generic/policy_source.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from aggserver.meta.json_types import JSONObject

__all__ = ["Collection", "Sources", "StoredParams", "param_kinds"]

_NONE: Mapping[str, JSONObject] = MappingProxyType({})


class Collection:
    """The objects of one resource, without managedFields. `generation` grows with every change.

    An object that was put here belongs to the collection; those who read it must not change it.
    """

    __slots__ = ("_objects", "_written", "generation")

    def __init__(self) -> None:
        self.generation = 0
        self._objects: dict[str, dict[str, JSONObject]] = {}  # by namespace ('' for cluster-scoped ones) and name
        self._written: dict[tuple[str, str], int] = {}  # resourceVersions of written objects that no watch has delivered

    def __iter__(self) -> Iterator[JSONObject]:
        for members in self._objects.values():
            yield from members.values()

    def __len__(self) -> int:
        return sum(map(len, self._objects.values()))

    def get(self, namespace: str, name: str) -> JSONObject | None:
        return self.within(namespace).get(name)

    def within(self, namespace: str) -> Mapping[str, JSONObject]:
        """The objects of a namespace ('' for cluster-scoped ones) by name."""
        return self._objects.get(namespace, _NONE)

    def put(self, obj: JSONObject) -> None:
        """Store an object that a watch delivered, unless this server has written a later state."""
        key = _key(obj)
        if (written := self._written.get(key)) is not None:
            if _version(obj) < written:
                return
            del self._written[key]
        self._set(key, obj)

    def put_written(self, obj: JSONObject) -> None:
        """Store an object that this server has just written, before the watch delivers it. Ignored if it is gone, or older."""
        key = _key(obj)
        known = self.get(*key)
        if known is not None and _version(known) < _version(obj):
            self._written[key] = _version(obj)
            self._set(key, obj)

    def remove(self, namespace: str, name: str) -> None:
        self._written.pop((namespace, name), None)
        members = self._objects.get(namespace, {})
        if members.pop(name, None) is not None:
            self.generation += 1
        if not members:
            self._objects.pop(namespace, None)

    def _set(self, key: tuple[str, str], obj: JSONObject) -> None:
        namespace, name = key
        obj["metadata"].pop("managedFields", None)
        self._objects.setdefault(namespace, {})[name] = obj
        self.generation += 1


class StoredParams(Collection):
    """The objects of a kind. exists: whether the cluster serves it. is_known: whether they were listed."""

    __slots__ = ("exists", "is_known", "namespaced")

    def __init__(self) -> None:
        super().__init__()
        self.exists = False
        self.is_known = False
        self.namespaced = False


@dataclass(frozen=True, slots=True)
class Sources:
    """The rules of a cluster, each of the latest version that the cluster serves."""

    mutating_webhooks: Collection = field(default_factory=Collection)
    validating_webhooks: Collection = field(default_factory=Collection)
    mutating_policies: Collection = field(default_factory=Collection)
    mutating_policy_bindings: Collection = field(default_factory=Collection)
    validating_policies: Collection = field(default_factory=Collection)
    validating_policy_bindings: Collection = field(default_factory=Collection)


def param_kinds(policies: Iterable[Collection]) -> set[tuple[str, str]]:
    """The paramKinds that policies name, as (apiVersion, kind). policies: the collections of both kinds of policies."""
    kinds = [(policy.get("spec") or {}).get("paramKind") or {} for collection in policies for policy in collection]
    return {(kind["apiVersion"], kind["kind"]) for kind in kinds if kind}


def _key(obj: Mapping[str, Any]) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(obj: Mapping[str, Any]) -> int:
    """The resourceVersion as a number, comparable within one resource (KEP-5504)."""
    return int(obj["metadata"].get("resourceVersion") or 0)
