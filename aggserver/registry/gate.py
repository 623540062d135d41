"""Gate: whether the objects of a resource may be written and read now, or must wait because they are being moved.

A move to another store, or from it, needs a moment in which nothing is written, so that nothing is lost; and one in which nothing
is read, so that no client gets what is old already. Clients get 503 with Retry-After meanwhile, which client-go waits out by
itself.
Source: none; client-go rest/with_retry.go for what clients do, v0.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aggserver.meta import errors
from aggserver.storage.interface import Precondition

__all__ = ["Gate", "WriteFence"]


class WriteFence(Protocol):
    """What writes depend on in their own transaction, so that the store itself refuses them, whoever sends them and when."""

    async def guard(self) -> Precondition | None:
        """The condition, as far as this server knows; None if there is none. Raises StatusError (503) and StorageError."""

    async def newest(self) -> Precondition | None:
        """After a write was refused: the condition as it is in the store now, if it may be tried again. Raises as `guard`."""


@dataclass(eq=False)
class Gate:
    """Of one resource, in all its versions, also after its definition has changed. frozen, hidden: no writes; no reads either.

    Writes are checked twice: when they begin, and right before they are sent to the storage. So whoever freezes need not wait for
    requests that are still in admission, only for the storage. fence: for writes by other servers of the store, which have a gate
    of their own.
    """

    frozen: bool = False
    hidden: bool = False
    fence: WriteFence | None = None

    def check_write(self, group: str, resource: str) -> None:
        """Raises StatusError (503)."""
        if self.frozen:
            raise _moving(group, resource)

    def check_read(self, group: str, resource: str) -> None:
        """Raises StatusError (503)."""
        if self.hidden:
            raise _moving(group, resource)


def _moving(group: str, resource: str) -> errors.StatusError:
    name = errors.qualified(resource, group)
    return errors.service_unavailable(f"the objects of {name} are being moved; please try again", retry_after=1)
