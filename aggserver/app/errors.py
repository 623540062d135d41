"""Errors that say why a server can't start, for the person who started it."""

from __future__ import annotations

__all__ = ["StartError"]


class StartError(Exception):
    """The server can't start with these options. The text says why, and which option helps."""
