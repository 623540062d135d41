"""The arguments of a command that runs pytest: its own, and after `--` pytest's."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["split"]


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the command's, pytest's)."""
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]
