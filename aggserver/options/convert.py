"""From what was said of an option to its value: one function for each sort of option.

A flag and a variable are text; the file has YAML's types. Each takes any of them, and raises ValueError with what must be there
instead. Called by way of `table.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from aggserver.meta import duration

__all__ = [
    "Convert",
    "OneOf",
    "address",
    "boolean",
    "integer",
    "one_of",
    "path",
    "port",
    "positive",
    "seconds",
    "sources",
    "text",
    "texts",
]

Convert = Callable[[Any], Any]


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")
    return value


def path(value: Any) -> Path | None:
    return Path(text(value)).expanduser() if value else None


def integer(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def positive(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d{0,14}", str(value)):
        raise ValueError("must be a whole number, 1 or more")
    return int(value)


def port(value: Any) -> int:
    if (number := integer(value)) > 65535:
        raise ValueError("must be between 0 and 65535")
    return number


def boolean(value: Any) -> bool:
    words = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if (found := words.get(str(value).lower())) is None:
        raise ValueError("must be true or false")
    return found


def seconds(value: Any) -> float:
    length = duration.parse(text(value) if value != 0 else "0")
    if length < 0:
        raise ValueError("must not be negative")
    return length


def texts(value: Any) -> tuple[str, ...]:
    """A comma-separated text, or a list whose members may be such texts, as a repeated flag gives."""
    members = value if isinstance(value, list) else [value]
    return tuple(part.strip() for member in members for part in text(member).split(",") if part.strip())


def sources(value: Any) -> tuple[str, ...]:
    """Names of files and URLs, each as it is: one may have a comma, and no slash is one too many."""
    return tuple(text(member) for member in (value if isinstance(value, list) else [value]))


def address(value: Any) -> str:
    return str(ip_address(text(value)))


class OneOf:
    """A text that is one of a few."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.choices = choices

    def __call__(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return str(value)


def one_of(*choices: str) -> Convert:
    return OneOf(choices)
