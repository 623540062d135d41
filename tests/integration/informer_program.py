"""The program `tests/controlplane/informer` beside a server: client-go's informer of one resource, and what it has written down.

For tests that look at single events; `informing.py` holds informers against a history.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.controlplane.binaries import obtain_program
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

__all__ = ["Informer", "informing"]


class Informer:
    """What the informer of one resource has written down so far, and at the end what it holds."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        self._process = process
        self._said = said

    def lines(self, did: str) -> list[Any]:
        lines = [json.loads(line) for line in self._said.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["did"] == did]

    def told(self, did: str, name: str) -> Any:
        """The metadata of the last such event of an object, waited for."""
        return eventually(
            lambda: next(
                (line["object"]["metadata"] for line in self.lines(did)[::-1] if line["object"]["metadata"]["name"] == name), None
            ),
            f"{did} of {name}",
        )

    def end(self) -> list[Any]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(HANG_SECONDS) == 0
        return list(self.lines("end")[0].get("items", []))


@contextlib.contextmanager
def informing(
    said: Path, kubeconfig: Path, resource: str, *options: str, environment: Mapping[str, str] | None = None
) -> Iterator[Informer]:
    """said: the file for what it writes. resource: as plural.version.group. environment: added to its variables."""
    program = obtain_program("informer", os.environ, print)
    with (
        said.open("w") as output,
        subprocess.Popen(
            [program, *options, str(kubeconfig), resource],
            stdin=subprocess.PIPE,
            stdout=output,
            text=True,
            env=os.environ | dict(environment or {}),
        ) as process,
    ):
        try:
            yield Informer(process, said)
        finally:
            process.kill()
