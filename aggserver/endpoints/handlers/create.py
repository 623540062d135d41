"""create. Source: k8s.io/apiserver pkg/endpoints/handlers/create.go, v0.36.3."""

from __future__ import annotations

from typing import cast

from aggserver.admission.chain import CREATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request, Response
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, Creater

__all__ = ["create"]

# What a client may not set: the registry fills it.
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


async def create(scope: ResourceScope, request: Request) -> Response:
    resource = cast(Creater, scope.rest)  # the dispatcher has looked
    media = negotiation.for_object(request)
    write = options.write_options("CreateOptions", request.query_all, request.header(b"user-agent"))
    obj = await body.read_object(scope, request, write.field_validation)
    namespace = request.info.namespace
    _prepare(scope, obj, namespace)
    body.dedup_owner_references(obj, request)
    what = attributes.of(scope, request, CREATE, write.dry_run, name=obj["metadata"].get("name") or "")
    await scope.admission.mutate(what, obj)
    context = Context(request.user, namespace, request.warnings)
    created = await resource.create(context, obj, write, scope.admission.validator(what))
    return reply.object_reply(scope, request, media, created, 201)


def _prepare(scope: ResourceScope, obj: JSONObject, namespace: str) -> None:
    metadata = obj["metadata"]
    for key in _SYSTEM_FIELDS:
        metadata.pop(key, None)
    if not scope.namespaced:
        metadata.pop("namespace", None)
    elif not metadata.get("namespace"):
        metadata["namespace"] = namespace
    elif metadata["namespace"] != namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
