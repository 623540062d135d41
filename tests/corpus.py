"""The corpus: definitions of real projects and samples of their objects, where this machine has them.

A folder of `<project>.yaml` (CRDs), `samples/<project>.yaml`, and `samples-control.jsonl` with what kube-apiserver answered to
each sample. It is other projects' data and no part of this one: looked for in $CRD_CORPUS, then in `shared/crds` beside
the repository. Tests that need it are skipped where it is missing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

__all__ = ["Sample", "accepted_samples", "definitions", "samples"]

_VARIABLE = "CRD_CORPUS"
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


@dataclass(frozen=True)
class Sample:
    """An object, and the message kube-apiserver refused it with under fieldValidation=Strict; '' where it took it."""

    project: str
    index: int
    obj: dict[str, Any]
    message: str

    @property
    def name(self) -> str:
        return f"{self.project}-{self.index}"


def samples() -> list[Sample]:
    """All of them. Shared: not to be changed."""
    folder = _folder()
    answers = map(json.loads, (folder / "samples-control.jsonl").read_text().splitlines())
    return [
        Sample(
            answer["project"],
            answer["doc"],
            _documents(folder / "samples" / f"{answer['project']}.yaml")[answer["doc"]],
            answer["message"] or "",
        )
        for answer in answers
    ]


def accepted_samples() -> list[dict[str, Any]]:
    """Every object that kube-apiserver took. Shared: not to be changed."""
    return [sample.obj for sample in samples() if not sample.message]
