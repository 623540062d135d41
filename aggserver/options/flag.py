"""One option as the user sees it, and the field of `Options` that it is made of.

`reading.py` derives three forms from a flag: the flag itself (`--secure-port`), the environment variable (AGGSERVER_SECURE_PORT)
and the key of the configuration file (`secure-port: 6443`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aggserver.options import convert
from aggserver.options.commands import SERVE

__all__ = [
    "ADMISSION",
    "ADOPTION",
    "AUDIT",
    "AUTHENTICATION",
    "AUTHORIZATION",
    "CLUSTER",
    "CONTROLLERS",
    "CONVERSION",
    "DEBUGGING",
    "LIMITS",
    "PREFIX",
    "RULES",
    "SERVING",
    "STORAGE",
    "TLS",
    "Flag",
    "option",
]

PREFIX = "AGGSERVER_"

# The headings of flags in the help, and in the reference of flags.
SERVING, STORAGE, TLS, CLUSTER, ADOPTION = "serving", "storage", "TLS", "cluster", "adoption"
AUTHENTICATION, AUTHORIZATION, ADMISSION = "authentication", "authorization", "admission"
CONTROLLERS, LIMITS, AUDIT, DEBUGGING = "controllers", "limits", "audit", "logging and debugging"
RULES, CONVERSION = "validation rules", "conversion"


@dataclass(frozen=True, slots=True)
class Flag:
    """One option as the user sees it.

    `commands` are the commands that accept it. `dev` is the default under `aggserver dev`; None if that is the field's default.
    A `positional` option is an argument without a flag, variable or key; it is required unless it is `optional`.
    """

    name: str
    convert: convert.Convert
    group: str
    text: str
    metavar: str = ""
    commands: frozenset[str] = SERVE
    dev: Any = None
    short: str = ""
    positional: bool = False
    optional: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


def option(default: Any, name: str, converter: convert.Convert, group: str, text: str, **more: Any) -> Any:
    """The field of an option. more: the other fields of Flag."""
    return field(default=default, metadata={"flag": Flag(name, converter, group, text, **more)})
