"""Errors that say why a server can't start, for the person who started it."""

from __future__ import annotations

from aggserver.errors import AggserverError

__all__ = ["StartError"]


class StartError(AggserverError):
    """The server can't start with these options. The text says why, and which option helps."""
