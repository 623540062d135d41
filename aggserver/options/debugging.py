"""What the server says of itself: its log."""

from __future__ import annotations

from dataclasses import dataclass

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH
from aggserver.options.flag import option

__all__ = ["DebuggingOptions"]

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, kw_only=True)
class DebuggingOptions:
    """Fields of Options; see the help of each."""

    log_level: str = option(
        "info",
        "log-level",
        convert.one_of(*LOG_LEVELS),
        flag.DEBUGGING,
        f"lowest level that is logged: {', '.join(LOG_LEVELS)}",
        metavar="LEVEL",
        commands=BOTH,
    )
