"""delete and deletecollection. Source: k8s.io/apiserver pkg/endpoints/handlers/delete.go, v0.36.3."""

from __future__ import annotations

from typing import cast

from aggserver.admission.chain import DELETE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.request import Request, Response
from aggserver.registry.rest import CollectionDeleter, Context, Deleter, JSONObject

__all__ = ["delete", "delete_collection"]


async def delete(scope: ResourceScope, request: Request) -> Response:
    resource = cast(Deleter, scope.rest)  # the dispatcher has looked
    media = negotiation.for_object(request)
    wanted = options.delete_options(await body.read_delete_body(request), request.query_all)
    what = attributes.of(scope, request, DELETE, wanted.dry_run)
    await scope.admission.mutate(what, None)
    context = Context(request.user, request.info.namespace, request.warnings)
    result = await resource.delete(context, request.info.name, wanted, scope.admission.validator(what))
    if not result.gone:
        # 202 only where the old way of asking for a cascade is used: anything else would break older clients.
        return reply.object_reply(scope, request, media, result.object, 202 if wanted.orphan_dependents is False else 200)
    metadata = result.object.decoded()["metadata"]
    details: JSONObject = {"name": metadata["name"]}
    if scope.group:
        details["group"] = scope.group
    details["kind"] = scope.resource
    details["uid"] = metadata.get("uid", "")
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return reply.tree_reply(media.unconverted(), status)


async def delete_collection(scope: ResourceScope, request: Request) -> Response:
    resource = cast(CollectionDeleter, scope.rest)  # the dispatcher has looked
    media = negotiation.for_object(request)
    selection = options.list_options(scope, request.query, name="")
    wanted = options.delete_options(await body.read_delete_body(request), request.query_all)
    what = attributes.of(scope, request, DELETE, wanted.dry_run)
    await scope.admission.mutate(what, None)
    context = Context(request.user, request.info.namespace, request.warnings)
    found = await resource.delete_collection(context, wanted, selection, scope.admission.validator(what))
    return reply.list_reply(scope, request, media, found)
