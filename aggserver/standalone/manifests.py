"""Manifests: objects from files, folders, URLs and the standard input, as `aggserver dev -f` takes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject

__all__ = ["ManifestError", "read"]

_STDIN = "-"


class ManifestError(AggserverError):
    """A source can't be read. The text names it and the reason."""


def read(sources: Sequence[str]) -> list[tuple[str, JSONObject]]:
    """All objects of all sources, each with its origin; `kind: List` is split into its items.

    A source is a file, a folder (its YAML and JSON files), an http or https URL, or `-`, the standard input.
    Raises ManifestError.
    """
    return [(origin, document) for source in sources for origin, body in _bodies(source) for document in _documents(origin, body)]


def _bodies(source: str) -> Iterator[tuple[str, bytes]]:
    if source == _STDIN:
        yield "the standard input", sys.stdin.buffer.read()
        return
    if source.startswith(("http://", "https://")):
        # Imported only for a URL, since that is rare and the library takes time to load.
        from aggserver.standalone.download import DownloadError, download

        try:
            yield source, download(source)
        except DownloadError as error:
            raise ManifestError(f"{source}: {error}") from None
        return
    path = Path(source)
    for file in sorted(path.glob("*.y*ml")) + sorted(path.glob("*.json")) if path.is_dir() else [path]:
        try:
            yield str(file), file.read_bytes()
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror}") from None


def _documents(origin: str, body: bytes) -> Iterator[JSONObject]:
    try:
        documents = codec.decode_documents(body)
    except codec.DecodeError as error:
        raise ManifestError(f"{origin}: {error}") from None
    for document in documents:
        items = document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
        for obj in items if isinstance(items, list) else []:
            if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
                raise ManifestError(f"{origin}: a document is not a Kubernetes object (it needs apiVersion, kind and metadata)")
            yield obj
