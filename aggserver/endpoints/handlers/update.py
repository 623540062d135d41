"""update (PUT). Source: k8s.io/apiserver pkg/endpoints/handlers/update.go, v0.36.3."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from aggserver.admission.chain import UPDATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request, Response
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, Updater

__all__ = ["update"]


async def update(scope: ResourceScope, request: Request) -> Response:
    resource = cast(Updater, scope.rest)  # the dispatcher has looked
    name = request.info.name
    media = negotiation.for_object(request)
    write = options.write_options("UpdateOptions", request.query_all, request.header(b"user-agent"))
    obj = await body.read_object(scope, request, write.field_validation)
    given_namespace = obj["metadata"].get("namespace")
    if scope.namespaced and given_namespace and given_namespace != request.info.namespace:
        raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    body.check_name(obj, name)
    body.dedup_owner_references(obj, request)
    write = replace(write, uid=obj["metadata"].get("uid") or "")
    what = attributes.of(scope, request, UPDATE, write.dry_run)

    async def replaced(current: JSONObject) -> JSONObject:
        # Shallow copies: the loop may come back for the object as it was given.
        wanted = dict(obj, metadata=dict(obj["metadata"]))
        await scope.admission.mutate(what, wanted)
        return wanted

    context = Context(request.user, request.info.namespace, request.warnings)
    written = await resource.update(context, name, replaced, write, scope.admission.validator(what))
    return reply.object_reply(scope, request, media, written)
