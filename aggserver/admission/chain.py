"""Chain: the admission plugins, in order, around every write.

Mutating plugins run before the object reaches the registry and may change it; validating ones run inside the registry's loop,
where they see exactly what would be stored. kube-apiserver runs none of its own admission for requests it proxies, so what shall
hold for our resources is held here. Called by `endpoints/handlers/`.
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
    """What is done, by whom, to what; the objects themselves are passed beside it."""

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
        """May change `obj` (None for a deletion). Raises StatusError to refuse."""


class Validating(Protocol):
    async def validate(self, attributes: Attributes, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        """Sees the object as it would be stored and the one it replaces. Raises StatusError to refuse."""


class Chain:
    def __init__(self, mutating: Sequence[Mutating] = (), validating: Sequence[Validating] = ()) -> None:
        self._mutating = tuple(mutating)
        self._validating = tuple(validating)

    def then(self, *validating: Validating) -> Chain:
        """The same chain with more to ask at its end: for a resource that has rules of its own."""
        return Chain(self._mutating, (*self._validating, *validating))

    async def mutate(self, attributes: Attributes, obj: dict[str, Any] | None) -> None:
        for plugin in self._mutating:
            await plugin.mutate(attributes, obj)

    def validator(
        self, attributes: Attributes
    ) -> Callable[[dict[str, Any] | None, dict[str, Any] | None], Awaitable[None]] | None:
        """What the registry calls before a commit; None where there is nothing to ask, so that the plain path pays nothing."""
        if not self._validating:
            return None

        async def validate(obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
            named = attributes
            if obj is not None and not attributes.name:
                # The name of a creation may have been generated in between.
                named = replace(attributes, name=obj["metadata"].get("name") or "")
            for plugin in self._validating:
                await plugin.validate(named, obj, old)

        return validate
