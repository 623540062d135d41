"""Chain: the admission plugins for every write, in order.

Mutating plugins run before the registry gets the object, and may change it. Validating plugins run inside the registry's
read-modify-write loop, where they see exactly what will be stored. kube-apiserver runs no admission for requests that it proxies
to an aggregated server, so this server must run its own.
Source: k8s.io/apiserver pkg/admission/{chain,attributes}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from aggserver.authentication.user import UserInfo

__all__ = ["CREATE", "DELETE", "UPDATE", "Attributes", "Chain", "Mutating", "Validating"]

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Attributes:
    """The operation, the user and the resource. The objects are passed separately."""

    operation: str
    user: UserInfo
    group: str
    version: str
    resource: str
    subresource: str
    kind: str
    namespace: str
    name: str
    dry_run: bool


class Mutating(Protocol):
    async def mutate(self, attributes: Attributes, obj: dict[str, Any] | None) -> None:
        """May change `obj` (None for a deletion). Raises StatusError to reject the request."""


class Validating(Protocol):
    async def validate(self, attributes: Attributes, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        """`obj` is the object to be stored, None for a deletion, and `old` the one it replaces. Raises StatusError to reject."""


class Chain:
    def __init__(self, mutating: Sequence[Mutating] = (), validating: Sequence[Validating] = ()) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)

    def then(self, *validating: Validating) -> Chain:
        """The same chain with further validating plugins at its end, for a resource with rules of its own."""
        return Chain(self._mutating, (*self._validating, *validating))

    async def mutate(self, attributes: Attributes, obj: dict[str, Any] | None) -> None:
        for plugin in self._mutating:
            await plugin.mutate(attributes, obj)

    def validator(
        self, attributes: Attributes
    ) -> Callable[[dict[str, Any] | None, dict[str, Any] | None], Awaitable[None]] | None:
        """The function to call with the new and the old object before each commit; None if no plugin validates."""
        if not self._validating:
            return None

        async def validate(obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
            named = attributes
            if obj is not None and not attributes.name:
                # The name may have been generated after the attributes were made.
                named = replace(attributes, name=obj["metadata"].get("name") or "")
            for plugin in self._validating:
                await plugin.validate(named, obj, old)

        return validate
