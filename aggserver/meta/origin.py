"""RequestOrigin: the HTTP request behind a read or a write, as far down as functions of Apps, hooks and webhooks may ask of it.

Pure: who has the request implements it (`endpoints/request.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["RequestOrigin"]


class RequestOrigin(Protocol):
    @property
    def verb(self) -> str:
        """That RBAC has allowed, such as `patch` or `deletecollection`."""

    @property
    def subresource(self) -> str: ...

    @property
    def query(self) -> Mapping[str, str]:
        """The first value of each parameter."""

    @property
    def field_manager(self) -> str:
        """The parameter of that name; without it, the user agent up to the first `/`."""

    @property
    def audit_id(self) -> str: ...

    @property
    def deadline(self) -> float:
        """By the event loop's clock; infinite for a request that may last."""
