"""Seed: objects from files, put into a server without a cluster at its start (`aggserver dev -f FILE...`).

Definitions go first, and what needs them waits until they are served; namespaces go before what is in them. An object that is
there already is brought to what the file says. Called by `app/standalone.py`. A file that can't be read, or an object that is
refused, ends the start with a sentence that names both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from aggserver.admission.chain import CREATE, Attributes
from aggserver.endpoints.installer import Installer, ResourceScope
from aggserver.meta import codec, errors, object_meta, versions
from aggserver.meta.errors import StatusError
from aggserver.registry.follower import CONTROLLER
from aggserver.registry.rest import Context, Creater, JSONObject, Updater, WriteOptions
from aggserver.schema.pruning import MalformedError

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
    objects: Sequence[tuple[Path, JSONObject]],
    installer: Installer,
    settled: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]],
) -> None:
    """settled: returns when each of these definitions is served or never will be; the latter, with the reason."""
    definitions = {str(obj["metadata"].get("name")): (file, obj) for file, obj in objects if obj.get("kind") == _DEFINITION}
    for file, obj in definitions.values():
        await _put(file, obj, installer)
    for name, why in (await settled(list(definitions))).items():
        raise SeedError(f"{definitions[name][0]}: {_DEFINITION} {name}: {why}")
    others = [(file, obj) for file, obj in objects if obj.get("kind") != _DEFINITION]
    for file, obj in sorted(others, key=lambda other: other[1].get("kind") != "Namespace"):
        await _put(file, obj, installer)


async def _put(file: Path, obj: JSONObject, installer: Installer) -> None:
    what = f"{file}: {obj.get('kind')} {obj['metadata'].get('name', '')}"
    scope = _find(obj, installer)
    if scope is None or not isinstance(scope.rest, Creater) or not isinstance(scope.rest, Updater):
        raise SeedError(f"{what}: nothing here keeps {obj.get('kind')} of {obj.get('apiVersion')}")
    try:
        await _create_or_update(scope, scope.rest, scope.rest, obj)
    except StatusError as error:
        raise SeedError(f"{what}: {error.message}") from None


async def _create_or_update(scope: ResourceScope, creater: Creater, updater: Updater, obj: JSONObject) -> None:
    problem = object_meta.type_error(obj["metadata"])
    if problem:
        raise errors.bad_request(problem)
    try:
        scope.conform(obj)
    except MalformedError as error:
        raise errors.bad_request(str(error)) from None
    metadata = obj["metadata"]
    namespace = (metadata.get("namespace") or "default") if scope.namespaced else ""
    context = Context(CONTROLLER, namespace)
    # The namespace must be there for objects from files, too.
    await scope.admission.mutate(_attributes(scope, context, metadata.get("name", "")), obj)
    try:
        await creater.create(context, dict(obj, metadata=dict(metadata)), _WRITE)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise
    else:
        return

    async def as_in_file(current: JSONObject) -> JSONObject:
        kept = current["metadata"]
        return {**obj, "metadata": {**metadata, "resourceVersion": kept["resourceVersion"], "uid": kept["uid"]}}

    await updater.update(context, metadata["name"], as_in_file, _WRITE)


def _attributes(scope: ResourceScope, context: Context, name: str) -> Attributes:
    return Attributes(
        CREATE, context.user, scope.group, scope.version, scope.resource, "", scope.kind, context.namespace, name, dry_run=False
    )


def _find(obj: JSONObject, installer: Installer) -> ResourceScope | None:
    try:
        group, version = versions.parse_group_version(str(obj.get("apiVersion", "")))
    except ValueError:
        return None
    for served in installer.everything():
        if (served.group, served.version, served.resource.kind) == (group, version, obj.get("kind")):
            return served.scope("")
    return None
