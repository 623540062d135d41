"""Input of the commands that need no server: files with definitions and objects, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from aggserver.apiextensions import manifest, v1beta1
from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

__all__ = ["InputError", "documents", "find_definition", "group_version"]

_STDIN = Path("-")


class InputError(AggserverError):
    """A file or a place can't be used. The text says which one and why."""

    exit_status = 2


def documents(file: Path) -> list[Any]:
    """All documents of a YAML or JSON file, without empty ones; `-` is standard input. Raises InputError."""
    try:
        body = sys.stdin.buffer.read() if file == _STDIN else file.read_bytes()
        return codec.decode_documents(body)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except codec.DecodeError as error:
        raise InputError(f"{file}: {error}") from None


def find_definition(file: Path) -> JSONObject:
    """The first definition of a file, as v1. Raises InputError."""
    for document in map(v1beta1.to_v1, documents(file)):
        if isinstance(document, dict) and document.get("kind") == manifest.KIND:
            return document
    raise InputError(f"{file}: has no {manifest.KIND}")


def group_version(document: JSONObject) -> tuple[str, str]:
    group, _, version = str(document.get("apiVersion")).rpartition("/")
    return group, version
