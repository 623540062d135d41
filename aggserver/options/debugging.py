"""What the server says of itself: its log, and its pages for debugging."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH
from aggserver.options.flag import option

__all__ = ["DebuggingOptions"]

LOGGING_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default


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
    logging_format: str = option(
        "text",
        "logging-format",
        convert.one_of(*LOGGING_FORMATS),
        flag.DEBUGGING,
        "format of the log: text, or json, a JSON object on each line with ts (milliseconds), caller, msg, v",
        metavar="FORMAT",
        commands=BOTH,
    )
    verbosity: int = option(
        0,
        "v",
        convert.integer,
        flag.DEBUGGING,
        "verbosity of the log: from 3 on each request is logged, from 4 on what is for debugging; PUT /debug/flags/v changes it",
        metavar="N",
        commands=BOTH,
        short="-v",
    )
    vmodule: tuple[tuple[str, int], ...] = option(
        (),
        "vmodule",
        convert.modules,
        flag.DEBUGGING,
        "verbosity of modules, comma-separated, such as cacher=4,webhook*=4; * and ? match any characters",
        metavar="PATTERN=N,...",
        commands=BOTH,
    )
    tracing_config_file: Path | None = option(
        None,
        "tracing-config-file",
        convert.path,
        flag.DEBUGGING,
        "file with a TracingConfiguration: requests are sent to a collector of OpenTelemetry as spans (the extra otel)",
        metavar="FILE",
        commands=BOTH,
    )
    profiling: bool = option(
        True,
        "profiling",
        convert.boolean,
        flag.DEBUGGING,
        "serve /debug/pprof/, /debug/memory and /debug/flags/v to users who may read or set these paths",
        commands=BOTH,
    )
