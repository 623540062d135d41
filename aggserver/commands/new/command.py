"""`aggserver new NAME`: writes a project into a new folder, and says what comes next."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from aggserver import disk
from aggserver.commands.new.project import files
from aggserver.errors import AggserverError
from aggserver.options import Options

__all__ = ["ProjectError", "run"]

# As a name of Python it is the module's, and as a label it is a part of the API group's name.
_NAME = re.compile(r"[a-z][a-z0-9]{0,38}")


class ProjectError(AggserverError):
    """The project can't have that name. The text says why."""

    exit_status = 2


def run(options: Options, version: str, say: Callable[[str], None]) -> None:
    """Writes the files and prints one line. version: aggserver's. Raises ProjectError and FileError, and then writes nothing."""
    folder = Path(options.project)
    name = folder.name
    if not _NAME.fullmatch(name):
        raise ProjectError(
            f"{name}: must be of lower-case letters and digits, such as helpdesk: it names a module and an API group"
        )
    if folder.exists():
        raise ProjectError(f"{folder}: is there already; take another name")
    if importlib.util.find_spec(name) is not None:
        raise ProjectError(f"{name}: is the name of a module that is there already; take another one")
    with disk.file_errors():
        folder.mkdir(parents=True)
        for file, text in files(name, version).items():
            (folder / file).write_text(text)
    say(f"Next: cd {shlex.quote(str(folder))}; pytest; aggserver dev --app {name}:app --reload")
