"""Logging to the standard error, coloured by level on a terminal.

A message or the text of an exception may contain anything from outside: paths, names, users, headers, answers of webhooks. So all
text is escaped here, and no caller has to do it. A record is one line, with the lines of its traceback indented below it. So
nobody outside can forge a line of the log, or send escape sequences to the terminal that shows it.

Source for NO_COLOR: https://no-color.org.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TextIO

from aggserver.errors import AggserverError

__all__ = ["log_to", "log_unhandled"]

_log = logging.getLogger("aggserver")

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_COLOURED = "\x1b[2m%(asctime)s\x1b[0m %(colour)s%(levelname)-7s\x1b[0m \x1b[2m%(name)s:\x1b[0m %(message)s"
_INDENT = "    "
# The most characters of a message, or of the text of an exception, that are logged. It may contain a request's body.
_MAX_TEXT = 8 * 1024
# The most exceptions of a chain of causes that are logged.
_MAX_CHAIN = 20
# The modules below whose frames those of users' functions are: what is above tells users nothing.
_CALLERS = ("aggserver.resources.calls", "aggserver.resources.threads")
_CAUSED = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"
_COLOURS = {
    logging.DEBUG: "\x1b[34m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[1;31m",
}


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """False for uvloop's traceback of a call that was given up during its TLS handshake: the connection is closed already."""
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error).endswith("the handler is closed")
    return not (is_closed and record.getMessage().startswith("Fatal error on SSL protocol"))


class _Escaping(logging.Formatter):
    """Escapes the text of records. Does not use texts that another formatter has cached in them."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = _escaped(_cut(_message(record)))
        record.asctime = self.formatTime(record)
        below: list[str] = []
        if record.exc_info and record.exc_info[1] is not None:
            below += _chain(record.exc_info[1])
        if record.stack_info:
            below += record.stack_info.split("\n")
        return "\n".join([self.formatMessage(record), *(_INDENT + _escaped(line) for line in below)])


class _Coloured(_Escaping):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        record.colour = _COLOURS.get(record.levelno, "")
        return super().formatMessage(record)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Arguments that don't fit. The library would write them to the standard error itself, raw.
        return f"{record.msg!r} {record.args!r}"


def _cut(text: str) -> str:
    """The start and the end of a long text: after a long path comes the audit ID."""
    half = _MAX_TEXT // 2
    return text if len(text) <= _MAX_TEXT else f"{text[:half]}... {len(text)} characters ...{text[-half:]}"


def _escaped(text: str) -> str:
    """The text with escapes for control characters, ends of lines, marks of direction and lone surrogates."""
    return text if text.isprintable() else "".join(map(_escaped_char, text))


def _escaped_char(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _chain(error: BaseException) -> list[str]:
    """The lines of the traceback of an exception, after those of the exceptions that led to it. Of an AggserverError the text
    alone, which says what is wrong.
    """
    if isinstance(error, AggserverError):
        return [_escaped(_cut(_text(error)))]
    chain: list[tuple[BaseException, str]] = [(error, "")]
    known = {id(error)}
    while True:
        last = chain[-1][0]
        before = last.__context__ if last.__cause__ is None and not last.__suppress_context__ else last.__cause__
        if before is None or id(before) in known or len(chain) == _MAX_CHAIN:
            break
        known.add(id(before))
        chain.append((before, _CAUSED if last.__cause__ is not None else _DURING))
    return [line for each, then in reversed(chain) for line in [*_traceback(each), *(["", then, ""] if then else [])]]


def _traceback(error: BaseException) -> Iterator[str]:
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        for entry in traceback.format_tb(_below_the_call(error.__traceback__)):
            yield from entry.rstrip("\n").split("\n")
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    # Escape here, since the formatter splits lines: the text of an exception, which may come from outside, must stay one line.
    text = _escaped(_cut(_text(error)))
    yield f"{name}: {text}" if text else name
    for note in getattr(error, "__notes__", ()):
        yield _escaped(_cut(str(note)))
    if isinstance(error, BaseExceptionGroup):
        for number, member in enumerate(error.exceptions, 1):
            yield f"{_INDENT}{number} of {len(error.exceptions)}:"
            yield from (_INDENT + line for line in _chain(member))


def _below_the_call(trace: TracebackType) -> TracebackType:
    """From the function of a user on, if it was one that has failed."""
    found = frame = trace
    while frame.tb_next is not None:
        if frame.tb_frame.f_globals.get("__name__") in _CALLERS:
            found = frame.tb_next
        frame = frame.tb_next
    return trace if found.tb_frame.f_globals.get("__name__") in _CALLERS else found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text can't be made)"


def log_to(stream: TextIO, level: str, environ: Mapping[str, str]) -> None:
    """Log to a stream. level: debug, info, warning or error. environ: NO_COLOR and TERM=dumb in it turn colours off."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Coloured(_COLOURED) if _wants_colours(stream, environ) else _Escaping(_FORMAT))
    logging.getLogger("asyncio").addFilter(_is_worth_logging)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    if level != "debug":
        # These libraries log every connection; what matters we log ourselves.
        for noisy in ("hypercorn", "asyncio"):
            logging.getLogger(noisy).setLevel(logging.WARNING)


def log_unhandled() -> None:
    """Log exceptions that end the process or a thread, or can't be raised, too. Python would write them unescaped."""

    def ends_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _log.critical("unexpected error", exc_info=error)

    def ends_thread(args: threading.ExceptHookArgs) -> None:
        _log.error("unexpected error in a thread", exc_info=args.exc_value)

    def unraisable(args: sys.UnraisableHookArgs) -> None:
        _log.error("%s: %r", args.err_msg or "exception ignored in", args.object, exc_info=args.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = ends_process, ends_thread, unraisable


def _wants_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
