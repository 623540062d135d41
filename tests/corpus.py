"""The corpus: definitions of real projects and samples of their objects, where this machine has them.

A folder of `<project>.yaml` (CRDs), `samples/<project>.yaml`, and `samples-control.jsonl` with what kube-apiserver answered to
each sample. It is other projects' data and no part of this one: looked for in $AGGSERVER_CRD_CORPUS, then in `shared/crds` beside
the repository. Tests that need it are skipped where it is missing.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

__all__ = ["accepted_samples", "definitions"]

_VARIABLE = "AGGSERVER_CRD_CORPUS"
_BESIDE = Path(__file__).parents[2] / "shared" / "crds"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _folder() -> Path:
    folder = Path(os.environ.get(_VARIABLE) or _BESIDE)
    if not folder.is_dir():
        pytest.skip(f"no corpus of definitions: {_VARIABLE} names none, and there is no ../shared/crds")
    return folder


@cache
def _documents(path: Path) -> list[Any]:
    with path.open() as file:
        return list(yaml.load_all(file, _LOADER))


def definitions() -> list[dict[str, Any]]:
    """Every CRD. Shared by all tests: not to be changed."""
    return [crd for path in sorted(_folder().glob("*.yaml")) for crd in _documents(path) if crd]


def accepted_samples() -> list[dict[str, Any]]:
    """Every object that kube-apiserver took with fieldValidation=Strict. Shared: not to be changed."""
    folder = _folder()
    lines = (folder / "samples-control.jsonl").read_text().splitlines()
    answers = [answer for answer in map(json.loads, lines) if answer["ok"]]
    return [_documents(folder / "samples" / f"{answer['project']}.yaml")[answer["doc"]] for answer in answers]
