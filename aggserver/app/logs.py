"""Logging to the standard error: as text, coloured by level on a terminal, or as a JSON object for each line.

A line that is written while a request is served has the request's audit ID, verb and resource.

A message or the text of an exception may contain anything from outside: paths, names, users, headers, answers of webhooks. So all
text is escaped here, and no caller has to do it. A record is one line, with the lines of its traceback indented below it. So
nobody outside can forge a line of the log, or send escape sequences to the terminal that shows it.

Sources: https://no-color.org; k8s.io/component-base logs/json and logs/logs.go, v0.36.3, whose JSON has ts, caller, msg and v.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TextIO

import aggserver
from aggserver.endpoints.request import current
from aggserver.errors import AggserverError
from aggserver.meta.golang import quote

__all__ = ["log_to", "log_unhandled", "set_verbosity"]

_log = logging.getLogger("aggserver")

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_COLOURED = "\x1b[2m%(asctime)s\x1b[0m %(colour)s%(levelname)-7s\x1b[0m \x1b[2m%(name)s:\x1b[0m %(message)s"
_INDENT = "    "
_REQUESTS = "aggserver.requests"
# The verbosity from which on debug lines are logged: all, and those of requests.
_DEBUG_FROM = {False: 4, True: 3}
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
        record.message = _escaped(_cut(_message(record))) + _about_the_request(record)
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


class _JSON(logging.Formatter):
    """A JSON object on one line, in ASCII. The text of an exception is `err`, its traceback `stacktrace`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": record.created * 1000,
            "caller": f"{Path(record.pathname).parent.name}/{record.filename}:{record.lineno}",
            "logger": record.name,
            "msg": _cut(_message(record)),
        }
        if record.levelno < logging.ERROR:
            line["v"] = 0 if record.levelno >= logging.INFO else _DEBUG_FROM[record.name == _REQUESTS]
        line["level"] = record.levelname.lower()
        line |= _keys()
        if record.exc_info and record.exc_info[1] is not None:
            line["err"] = _cut(_text(record.exc_info[1]))
            line["stacktrace"] = "\n".join(_chain(record.exc_info[1]))
        elif record.stack_info:
            line["stacktrace"] = record.stack_info
        return json.dumps(line, separators=(",", ":"))


def _keys() -> dict[str, str]:
    """What a line says of the request that it belongs to; nothing outside of requests."""
    request = current()
    if request is None:
        return {}
    keys = {"audit-ID": _cut(request.audit_id)}
    info = request.info_if_known
    if info is not None:
        keys["verb"] = info.verb
        if info.is_resource_request:
            keys["resource"] = _cut(f"{info.resource}.{info.group}" if info.group else info.resource)
        else:
            keys["path"] = _cut(request.path)
    return keys


def _about_the_request(record: logging.LogRecord) -> str:
    """The keys as text. Lines about requests themselves already say so."""
    if record.name == _REQUESTS:
        return ""
    return "".join(f" {key}={quote(value)}" for key, value in _keys().items())


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


class _Levels:
    """The levels of all loggers, of --log-level, -v and --vmodule, and what was set at run time since.

    The log has four levels, verbosity any number: as with Kubernetes' components, requests are logged from 3 on, and whatever is
    for debugging from 4 on.
    """

    def __init__(self, level: str, verbosity: int, modules: Mapping[str, int]) -> None:
        self._level = logging.getLevelNamesMapping()[level.upper()]
        self._modules = modules
        self._set: list[logging.Logger] = []
        self.apply(verbosity)
        names = {name.rpartition(".")[2] for name in _modules()} if modules else set()
        for pattern in modules:
            if not any(fnmatchcase(name, pattern) for name in names):
                _log.warning("--vmodule: no module has the name %s, which is that of its file without .py", pattern)

    def apply(self, verbosity: int) -> None:
        for logger in self._set:
            logger.setLevel(logging.NOTSET)
        self._set.clear()
        level = logging.DEBUG if verbosity >= _DEBUG_FROM[False] else self._level
        logging.getLogger().setLevel(level)
        if verbosity >= _DEBUG_FROM[True]:
            self._put(_REQUESTS, logging.DEBUG)
        for name in _modules() if self._modules else ():
            wanted = next((n for pattern, n in self._modules.items() if fnmatchcase(name.rpartition(".")[2], pattern)), None)
            if wanted is not None:
                self._put(name, logging.DEBUG if wanted >= _DEBUG_FROM[name == _REQUESTS] else self._level)
        if level != logging.DEBUG:
            # These libraries log every connection; what matters we log ourselves.
            for noisy in ("hypercorn", "asyncio"):
                self._put(noisy, logging.WARNING)

    def _put(self, name: str, level: int) -> None:
        logger = logging.getLogger(name)
        logger.setLevel(level)
        self._set.append(logger)


_levels: _Levels | None = None


def log_to(
    stream: TextIO,
    level: str,
    environ: Mapping[str, str],
    *,
    form: str = "text",
    verbosity: int = 0,
    modules: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """Log to a stream. level: debug, info, warning or error. environ: NO_COLOR and TERM=dumb in it turn colours off.

    form: text or json. verbosity, modules: more than the level, for all modules or those whose names match a pattern.
    """
    global _levels
    handler = logging.StreamHandler(stream)
    if form == "json":
        handler.setFormatter(_JSON())
    else:
        handler.setFormatter(_Coloured(_COLOURED) if _wants_colours(stream, environ) else _Escaping(_FORMAT))
    logging.getLogger("asyncio").addFilter(_is_worth_logging)
    logging.basicConfig(handlers=[handler], force=True)
    _levels = _Levels(level, verbosity, modules)


def set_verbosity(text: str) -> None:
    """Set the verbosity of a running process, as -v. Raises ValueError with Go's text."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    if len(text) > 10 or int(text) >= 1 << 32:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    if _levels is not None:
        _levels.apply(int(text))


def _modules() -> Iterator[str]:
    """The names of all loggers of this package: those of modules, which may not be imported yet, and those with names."""
    root = Path(aggserver.__file__).parent
    yield from (".".join(("aggserver", *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py"))
    yield _REQUESTS


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
