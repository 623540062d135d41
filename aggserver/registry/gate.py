"""Gate: whether the objects of a resource may be written and read now, or must wait because they are being moved.

While objects are moved to another store, or from it, nothing may be written for a moment, so that no write is lost, and nothing
may be read for a moment, so that no client gets outdated objects. Clients get 503 with Retry-After meanwhile; client-go then
retries by itself.
Source: none; client-go rest/with_retry.go for what clients do, v0.36.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aggserver.meta import errors
from aggserver.storage.interface import Precondition

__all__ = ["Gate", "WriteFence"]


class WriteFence(Protocol):
    """The condition that each write has in its own transaction, so that the store itself refuses writes of all servers."""

    async def guard(self) -> Precondition | None:
        """The condition, as far as this server knows; None if there is none. Raises StatusError (503) and StorageError."""

    async def newest(self) -> Precondition | None:
        """The condition as it is in the store now, to retry a write that was refused. Raises as `guard`."""


@dataclass(eq=False)
class Gate:
    """The gate of one resource in all its versions; kept when the definition changes.

    frozen: whether writes are refused. hidden: whether reads are refused. fence: the same for writes by other servers of the
    store, which have a gate of their own.
    Writes are checked when they begin, and again right before they are sent to the storage. So after `frozen` was set, a move has
    to wait for the storage only, and not for requests that are still in admission.
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
