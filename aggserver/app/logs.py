"""Logging to the standard error, coloured by level on a terminal.

Source for NO_COLOR: https://no-color.org.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TextIO

__all__ = ["log_to"]

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_COLOURED = "\x1b[2m%(asctime)s\x1b[0m %(colour)s%(levelname)-7s\x1b[0m \x1b[2m%(name)s:\x1b[0m %(message)s"
_COLOURS = {
    logging.DEBUG: "\x1b[34m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Not uvloop's traceback for a call that was given up during its TLS handshake: the connection is closed already."""
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error).endswith("the handler is closed")
    return not (is_closed and record.getMessage().startswith("Fatal error on SSL protocol"))


class _Coloured(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.colour = _COLOURS.get(record.levelno, "")
        return super().formatMessage(record)


def log_to(stream: TextIO, level: str, environ: Mapping[str, str]) -> None:
    """level: debug, info, warning or error. environ: the environment; NO_COLOR and TERM=dumb turn colours off."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Coloured(_COLOURED) if _wants_colours(stream, environ) else logging.Formatter(_FORMAT))
    logging.getLogger("asyncio").addFilter(_is_worth_logging)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        # These libraries log every connection; what matters we log ourselves.
        for noisy in ("hypercorn", "asyncio"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def _wants_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
