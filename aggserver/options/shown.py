"""Values of options as the user would write them: for help, the reference of flags, and `/flagz`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from aggserver.options import convert
from aggserver.options.flag import Flag
from aggserver.options.table import FLAGS, Options

__all__ = ["shown", "written"]

# In place of a URL that may contain credentials: with a user, or a query. Upstream's word.
CLASSIFIED = "CLASSIFIED"
_WITH_CREDENTIALS = re.compile(r"[a-z][a-z0-9+.-]*://[^/]*(?:@|/.*[?]|[?])", re.IGNORECASE)


def shown(options: Options) -> dict[str, str]:
    """The value of every flag of the command, by name, without credentials."""
    return {
        flag.name: _redacted(getattr(options, field), flag)
        for field, flag in FLAGS.items()
        if options.command in flag.commands and not flag.positional
    }


def written(value: Any, flag: Flag) -> str:
    """A value as the user would write it; empty if it is not set."""
    if value is None:
        return ""
    if flag.convert is convert.seconds:
        return f"{value:g}s"
    if flag.convert is convert.services:
        return ",".join(f"{namespace}/{name}={host}:{port}" for (namespace, name), (host, port) in value)
    if flag.convert is convert.named_pair:
        return ";".join(f"{cert},{key}" + (f":{','.join(names)}" if names else "") for cert, key, names in value)
    if flag.convert is convert.modules:
        return ",".join(f"{pattern}={number}" for pattern, number in value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _redacted(value: Any, flag: Flag) -> str:
    if isinstance(value, tuple) and all(isinstance(member, str) for member in value):
        return ",".join(CLASSIFIED if _WITH_CREDENTIALS.match(member) else member for member in value)
    text = written(value, flag)
    return CLASSIFIED if not isinstance(value, Path) and _WITH_CREDENTIALS.match(text) else text
