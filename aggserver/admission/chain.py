"""Chain: the admission plugins for every write, in order.

Both kinds of plugins run inside the registry's write loop: mutating plugins before validation, where they may change the object,
validating plugins with exactly what will be stored. kube-apiserver runs no admission for requests that it proxies to an
aggregated server, so this server must run its own.
Source: k8s.io/apiserver pkg/admission/{chain,attributes}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from aggserver.authentication.user import UserInfo
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

__all__ = ["CREATE", "DELETE", "UPDATE", "Attributes", "BoundChain", "Chain", "Mutating", "Validating"]

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Attributes:
    """The operation, the user and the resource. The objects are passed separately.

    kind, object_version: of the objects, which differ from the resource's for a scale. name: '' where it is not known yet.
    options: the members of the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, as JSON. warnings: texts for Warning
    headers, to be added to. audit_annotations: to be added to.
    """

    operation: str
    user: UserInfo
    resource: ResourceInfo
    subresource: str
    kind: str
    object_version: str
    namespace: str
    name: str
    dry_run: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    audit_annotations: dict[str, str] = field(default_factory=dict)


class Mutating(Protocol):
    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """May change `obj` (None for a deletion), and returns whether it has. Raises StatusError to reject."""


class Validating(Protocol):
    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        """`obj` is the object to be stored, None for a deletion, and `old` the one it replaces. Raises StatusError to reject."""


class Chain:
    """The plugins in order. `bind` makes what the registry calls for one request."""

    def __init__(self, mutating: Sequence[Mutating] = (), validating: Sequence[Validating] = ()) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)

    def then(self, *validating: Validating) -> Chain:
        """The same chain with further validating plugins at its end, for a resource with rules of its own."""
        return Chain(self._mutating, (*self._validating, *validating))

    def bind(self, attributes: Attributes) -> BoundChain:
        """attributes: of the request; the operation follows from the objects, and the name where it was not known."""
        return BoundChain(self._mutating, self._validating, attributes)


class BoundChain:
    """The chain for one request: `registry.rest.Admission`."""

    __slots__ = ("_attributes", "_mutating", "_validating")

    def __init__(self, mutating: Sequence[Mutating], validating: Sequence[Validating], attributes: Attributes) -> None:
        self._mutating = mutating
        self._validating = validating
        self._attributes = attributes

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        attributes = self._of(obj, old)
        changed = False
        for plugin in self._mutating:
            changed = await plugin.mutate(attributes, obj, old) or changed
        return changed

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        if self._validating:
            attributes = self._of(obj, old)
            for plugin in self._validating:
                await plugin.validate(attributes, obj, old)

    def _of(self, obj: JSONObject | None, old: JSONObject | None) -> Attributes:
        given = self._attributes
        operation = DELETE if obj is None else CREATE if old is None else UPDATE
        there = old if obj is None else obj
        name = given.name or ("" if there is None else there["metadata"].get("name") or "")
        if (operation, name) == (given.operation, given.name):
            return given
        return replace(given, operation=operation, name=name)
