"""`python -m aggserver.options.reference`, which `make flags` runs: the reference of all flags, docs/flags.md, from the table.

Made of the table alone; printing is the only I/O.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator

from aggserver.options import convert
from aggserver.options.commands import COMMANDS
from aggserver.options.flag import Flag
from aggserver.options.shown import written
from aggserver.options.table import FLAGS, Options

__all__ = ["page"]

_HEAD = """\
# Flags

All flags of all commands. `make flags` writes this page from the table of options
([aggserver/options/table.py](../aggserver/options/table.py)); `aggserver COMMAND --help` shows those of one command.

Each flag may also be set by an environment variable (`--secure-port` by `AGGSERVER_SECURE_PORT`) or in the YAML file that
`--config` or `AGGSERVER_CONFIG` names (`secure-port: 6443`). A flag has priority over a variable, a variable over the file.
Values that can't work are refused at the start, with the flag's name. `/flagz` shows those of a running server
([debugging.md](debugging.md)).

Flags that kube-apiserver also has keep its names and meaning. Where `dev` has a default of its own, it follows the other.
"""


def page() -> str:
    """The whole page, in Markdown."""
    groups: dict[str, list[tuple[str, Flag]]] = {}
    for field, flag in FLAGS.items():
        if not flag.positional:
            groups.setdefault(flag.group, []).append((field, flag))
    return _HEAD + "".join(_section(group, flags) for group, flags in groups.items())


def _section(group: str, flags: Iterable[tuple[str, Flag]]) -> str:
    rows = "".join(_rows(flags))
    return f"\n## {group[:1].upper()}{group[1:]}\n\n| flag | default | commands | meaning |\n|---|---|---|---|\n{rows}"


def _rows(flags: Iterable[tuple[str, Flag]]) -> Iterator[str]:
    defaults = {field.name: field.default for field in dataclasses.fields(Options)}
    for field, flag in flags:
        value = "" if flag.convert is convert.boolean else f" {flag.metavar}"
        names = ", ".join(f"`{name}{value}`" for name in (flag.short, f"--{flag.name}") if name)
        default = _code(written(defaults[field], flag))
        if flag.dev is not None and "dev" in flag.commands:
            own = f"dev: {_code(written(flag.dev, flag))}"
            default = f"{default}; {own}" if flag.commands - {"dev", "dev user"} else _code(written(flag.dev, flag))
        commands = ", ".join(command for command in COMMANDS if command in flag.commands)
        yield f"| {_cell(names)} | {_cell(default)} | {commands} | {_cell(flag.text)} |\n"


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
