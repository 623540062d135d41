"""`aggserver envtest`: writes the programs into a folder, and prints the variables by which tests find them."""

from __future__ import annotations

import os
import shlex
import site
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from aggserver import disk
from aggserver.commands.envtest import etcd, flags
from aggserver.commands.envtest.programs import MARK, Origin, texts
from aggserver.errors import AggserverError
from aggserver.monitoring.routes import KUBERNETES_VERSION
from aggserver.options import Options

__all__ = ["TakenError", "run"]

_EXECUTABLE = 0o755
# The bytes of a file in which MARK is looked for. It is in the second line of our programs.
_BEGINNING = 200


class TakenError(AggserverError):
    """The folder has a program of that name which is not one of ours. The text names it."""


def run(options: Options, version: str, say: Callable[[str], None]) -> None:
    """Writes the programs, and prints one line for a shell. version: aggserver's.

    Raises TakenError and FileError; TakenError before anything is written.
    """
    assert options.assets is not None  # checked with the options
    folder = Path(os.path.abspath(options.assets))
    with disk.file_errors():
        folder.mkdir(parents=True, exist_ok=True)
        written = {folder / name: text for name, text in texts(_origin(), version, f"v{KUBERNETES_VERSION}", flags.KNOWN).items()}
        for path in written:
            _check_is_ours(path)
        for path, text in written.items():
            _replace(path, text)
    # Also the variables of single programs: many projects' Makefiles set KUBEBUILDER_ASSETS themselves, and these override it.
    named = {f"TEST_ASSET_{path.name.upper().replace('-', '_')}": path for path in written}
    say(f"export {_assignments({'KUBEBUILDER_ASSETS': folder, **named})}")


def _assignments(variables: Mapping[str, Path]) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in variables.items())


def _origin() -> Origin:
    root = Path(flags.__file__).parents[2]
    installed = {os.path.abspath(path) for path in (*site.getsitepackages(), site.getusersitepackages())}
    return Origin(Path(sys.executable), Path(etcd.__file__), None if str(root) in installed else root)


def _check_is_ours(path: Path) -> None:
    try:
        with path.open("rb") as file:
            beginning = file.read(_BEGINNING)
    except FileNotFoundError:
        return
    if MARK.encode() not in beginning:
        raise TakenError(f"{path}: is there already, and was not written by aggserver envtest; take another folder")


def _replace(path: Path, text: str) -> None:
    """Write a program and rename it into place, since tests may be running the old one."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(temporary, _EXECUTABLE)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
