"""The corpus: 125 definitions of real projects, samples of their objects, and what kube-apiserver answered to each sample.

Two files of JSON lines, compressed, beside this module; README.md there says where the data is from and what is in a line.
$CRD_CORPUS names a folder with other ones. A corpus that can't be read is a failure, never a skip.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

__all__ = ["Missing", "Sample", "accepted_samples", "definitions", "samples"]

_VARIABLE = "CRD_CORPUS"


class Missing(Exception):
    """The files are not there. The text says what to do."""


def _lines(name: str) -> Sequence[dict[str, Any]]:
    return _read(Path(os.environ.get(_VARIABLE) or Path(__file__).parent) / name)


@cache
def _read(path: Path) -> Sequence[dict[str, Any]]:
    try:
        content = lzma.decompress(path.read_bytes())
    except FileNotFoundError:
        raise Missing(
            f"there is no {path}: the corpus is in the git repository below tests/corpus, and not in source distributions; "
            f"use a clone, or let {_VARIABLE} name a folder that has {path.name}"
        ) from None
    return [orjson.loads(line) for line in content.splitlines()]


def definitions() -> list[dict[str, Any]]:
    """Every CRD. Shared by all tests: not to be changed."""
    return [line["definition"] for line in _lines("definitions.jsonl.xz")]


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
    return [Sample(line["project"], line["index"], line["object"], line["message"]) for line in _lines("samples.jsonl.xz")]


def accepted_samples() -> list[dict[str, Any]]:
    """Every object that kube-apiserver took. Shared: not to be changed."""
    return [sample.obj for sample in samples() if not sample.message]
