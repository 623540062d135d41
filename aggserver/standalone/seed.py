"""Seed: objects that a server without a cluster creates at its start (`aggserver dev -f FILE...`); `manifests.py` reads them.

Definitions come first, and their objects wait until they are served; namespaces come before their objects. An object that exists
already is updated to the content of the file. An object that is refused ends the start with an error that names it.

No webhooks and no policies are applied to these objects. The operator behind the webhooks mostly starts after this server; and
with policies, the order of the documents, or a second start with the same data, would decide which objects are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from aggserver.admission.chain import CREATE, Attributes, Chain
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.served import ResourceScope
from aggserver.errors import AggserverError
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors, versions
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, Creater, Replacer, WriteOptions, WriteRequest
from aggserver.schema.pruning import MalformedError
from aggserver.scheme import object_meta

__all__ = ["SeedError", "plant"]

_WRITE = WriteOptions(field_manager="aggserver")
_DEFINITION = "CustomResourceDefinition"


class SeedError(AggserverError):
    """An object can't be created. The text names the file, the object and the reason."""


async def plant(
    objects: Sequence[tuple[str, JSONObject]],
    installer: Installer,
    settled: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]],
    admission: Chain,
) -> None:
    """Store the objects. Raises SeedError.

    settled: returns when each of these definitions is served or refused; the result has the refused ones with the reasons.
    admission: the chain that the objects pass.
    """
    definitions = {str(obj["metadata"].get("name")): (file, obj) for file, obj in objects if obj.get("kind") == _DEFINITION}
    for file, obj in definitions.values():
        await _put(file, obj, installer, admission)
    for name, why in (await settled(list(definitions))).items():
        raise SeedError(f"{definitions[name][0]}: {_DEFINITION} {name}: {why}")
    others = [(file, obj) for file, obj in objects if obj.get("kind") != _DEFINITION]
    for file, obj in sorted(others, key=lambda other: other[1].get("kind") != "Namespace"):
        await _put(file, obj, installer, admission)


async def _put(file: str, obj: JSONObject, installer: Installer, admission: Chain) -> None:
    what = f"{file}: {obj.get('kind')} {obj['metadata'].get('name', '')}"
    scope = _find(obj, installer)
    if scope is None or not isinstance(scope.rest, Creater) or not isinstance(scope.rest, Replacer):
        raise SeedError(f"{what}: this server does not store {obj.get('kind')} of {obj.get('apiVersion')}")
    try:
        await _create_or_replace(scope, scope.rest, scope.rest, obj, admission)
    except StatusError as error:
        raise SeedError(f"{what}: {error.message}") from None


async def _create_or_replace(
    scope: ResourceScope, creater: Creater, replacer: Replacer, obj: JSONObject, admission: Chain
) -> None:
    problem = object_meta.type_error(obj["metadata"])
    if problem:
        raise errors.bad_request(problem)
    try:
        scope.conform(obj)
    except MalformedError as error:
        raise errors.bad_request(str(error)) from None
    metadata = obj["metadata"]
    context = Context(CONTROLLER, (metadata.get("namespace") or "default") if scope.info.namespaced else "")
    bound = admission.bind(_attributes(scope, context, metadata.get("name", "")))
    if metadata.get("name"):
        await replacer.replace(WriteRequest(context, _WRITE, bound), obj)
    else:
        await creater.create(WriteRequest(context, _WRITE, bound), obj)


def _attributes(scope: ResourceScope, context: Context, name: str) -> Attributes:
    return Attributes(
        CREATE, context.user, scope.info, "", scope.kind, scope.object_version, context.namespace, name, dry_run=False
    )


def _find(obj: JSONObject, installer: Installer) -> ResourceScope | None:
    try:
        group, version = versions.parse_group_version(str(obj.get("apiVersion", "")))
    except ValueError:
        return None
    for served in installer.everything():
        if (served.info.group, served.info.version, served.info.kind) == (group, version, obj.get("kind")):
            return served.scope("")
    return None
