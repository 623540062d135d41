"""Seed: objects from files, put into a server without a cluster at its start (`aggserver dev -f FILE...`).

Definitions go first, and what needs them waits until they are served; an object that is there already is brought to what the file says.
Called by `app.py`. A file that can't be read, or an object that is refused, ends the start with a sentence that names both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from aggserver.endpoints.installer import Installer, ResourceScope
from aggserver.meta import codec, versions
from aggserver.meta.errors import StatusError
from aggserver.registry.follower import CONTROLLER
from aggserver.registry.rest import Context, Creater, JSONObject, Updater, WriteOptions

__all__ = ["SeedError", "plant", "read"]

_WRITE = WriteOptions(field_manager="aggserver")
_DEFINITION = "CustomResourceDefinition"


class SeedError(Exception):
    """The text says which file, which object and why."""


def read(paths: Sequence[Path]) -> list[tuple[Path, JSONObject]]:
    """Every document of every file (of a folder: its YAML and JSON files), with the file it is from."""
    found: list[tuple[Path, JSONObject]] = []
    for path in paths:
        files = sorted(path.glob("*.y*ml")) + sorted(path.glob("*.json")) if path.is_dir() else [path]
        for file in files:
            try:
                documents = codec.decode_documents(file.read_bytes())
            except OSError as error:
                raise SeedError(f"{file}: {error.strerror}") from None
            except codec.DecodeError as error:
                raise SeedError(f"{file}: {error}") from None
            for document in documents:
                if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
                    raise SeedError(f"{file}: a document is no Kubernetes object (it needs apiVersion, kind and metadata)")
                found.append((file, document))
    return found


async def plant(
    objects: Sequence[tuple[Path, JSONObject]], installer: Installer, served: Callable[[Sequence[str]], Awaitable[None]]
) -> None:
    """served: returns when the definitions of these names are."""
    first = [(file, obj) for file, obj in objects if obj.get("kind") == _DEFINITION]
    for file, obj in first:
        await _put(file, obj, installer)
    await served([str(obj["metadata"].get("name")) for _, obj in first])
    for file, obj in objects:
        if obj.get("kind") != _DEFINITION:
            await _put(file, obj, installer)


async def _put(file: Path, obj: JSONObject, installer: Installer) -> None:
    name = obj["metadata"].get("name", "")
    what = f"{file}: {obj.get('kind')} {name}"
    scope = _find(obj, installer)
    if scope is None:
        raise SeedError(f"{what}: nothing here serves {obj.get('kind')} of {obj.get('apiVersion')}")
    scope.conform(obj)
    namespace = obj["metadata"].get("namespace") or "default"
    context = Context(CONTROLLER, namespace if scope.namespaced else "")
    assert isinstance(scope.rest, Creater)
    assert isinstance(scope.rest, Updater)
    try:
        await scope.rest.create(context, dict(obj, metadata=dict(obj["metadata"])), _WRITE)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise SeedError(f"{what}: {error.message}") from None
        await _bring_up_to_date(scope.rest, context, obj, what)


async def _bring_up_to_date(rest: Updater, context: Context, obj: JSONObject, what: str) -> None:
    async def as_in_file(current: JSONObject) -> JSONObject:
        kept = current["metadata"]
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": kept["resourceVersion"], "uid": kept["uid"]}}

    try:
        await rest.update(context, obj["metadata"]["name"], as_in_file, _WRITE)
    except StatusError as error:
        raise SeedError(f"{what}: {error.message}") from None


def _find(obj: JSONObject, installer: Installer) -> ResourceScope | None:
    try:
        group, version = versions.parse_group_version(str(obj.get("apiVersion", "")))
    except ValueError:
        return None
    for served in installer.everything():
        if (served.group, served.version, served.resource.kind) == (group, version, obj.get("kind")):
            return served.scope("")
    return None
