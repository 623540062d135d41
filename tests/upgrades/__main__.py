"""`python -m tests.upgrades CHECKOUT NAME`: runs the version of a checkout, has it store something of everything, and keeps that.

Writes `NAME.data.tar.xz` and `NAME.code.tar.xz` beside this file; docs/releasing.md says when. `--without-kinds` is for versions
that do not serve the built-in kinds, `--data-only` leaves the code out. Certificates of what is kept last a hundred years: the
constants that say how long are changed in a copy of the checkout, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.integration.raw import Client
from tests.integration.server import Standalone, running
from tests.upgrades.kept import FOLDER

REQUESTS = Path(__file__).with_name("requests.yaml")
DAYS = 36500


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.upgrades", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("name")
    parser.add_argument("--without-kinds", action="store_true")
    parser.add_argument("--data-only", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aggserver-upgrades-") as scratch:
        code = Path(scratch, "code")
        shutil.copytree(given.checkout / "aggserver", code / "aggserver", ignore=shutil.ignore_patterns("__pycache__"))
        if not given.data_only:
            _pack(FOLDER / f"{given.name}.code.tar.xz", code, "aggserver")
        _last(code)
        answers = _fill(Path(scratch, "data"), code, kinds=not given.without_kinds)
        Path(scratch, "answers.json").write_text(json.dumps(answers, ensure_ascii=False))
        Path(scratch, "data", ".gitignore").unlink(missing_ok=True)
        _pack(FOLDER / f"{given.name}.data.tar.xz", Path(scratch), "data", "answers.json")


def _last(code: Path) -> None:
    """Lets the certificates that a version makes last."""
    changed = 0
    for path in code.rglob("*.py"):
        text = path.read_text()
        lasting, number = re.subn(r"^((?:CA|SERVING|CLIENT)_DAYS) = \d+$", rf"\1 = {DAYS}", text, flags=re.MULTILINE)
        if number:
            path.write_text(lasting)
            changed += number
    assert changed, "no constant says how long certificates last"


def _fill(folder: Path, code: Path, *, kinds: bool) -> dict[str, Any]:
    """Sends the requests to a server of that code; what the lists are at the end."""
    known = yaml.safe_load(REQUESTS.read_text())
    environment = {"PYTHONPATH": str(code)}
    with running(server := Standalone(folder, environment=environment)), Client(server.kubeconfig) as client:
        for method, path, media_type, body in (
            *known["definitions"],
            *known["objects"],
            *(known["built in"] if kinds else ()),
        ):
            answer = client.request(method, path, {"content-type": media_type}, json.dumps(body).encode())
            assert answer.status < 300, (method, path, answer)
    paths = [*known["lists"], *(known["lists of built in"] if kinds else ())]
    # Of another start, when the controllers are done.
    with running(server := Standalone(folder, environment=environment)), Client(server.kubeconfig) as client:
        return {path: json.loads(client.request("GET", path).body) for path in paths}


def _pack(archive: Path, folder: Path, *names: str) -> None:
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for name in names:
            packed.add(folder / name, name, filter=_nobody_s)


def _nobody_s(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith(".log") or "__pycache__" in entry.name:
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
