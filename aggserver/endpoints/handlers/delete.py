"""delete and deletecollection. Source: k8s.io/apiserver pkg/endpoints/handlers/delete.go, v0.36.3."""

from __future__ import annotations

from typing import cast

from aggserver.admission.chain import DELETE
from aggserver.endpoints import access, negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, Response
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import CollectionDeleter, Context, CorruptDeleter, Deleter

__all__ = ["delete", "delete_collection"]

# What whoever removes an object that can't be read must be allowed to do, beside deleting.
_UNSAFE_DELETE = "unsafe-delete-ignore-read-errors"


async def delete(scope: ResourceScope, request: Request) -> Response:
    resource = cast(Deleter, scope.rest)  # the dispatcher has looked
    media = negotiation.for_object(request)
    wanted = options.delete_options(await body.read_delete_body(request), request.query_all)
    if wanted.ignore_store_read_error:
        return await _delete_corrupt(scope, request, media)
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


async def _delete_corrupt(scope: ResourceScope, request: Request, media: MediaType) -> Response:
    """Of an object that can't be read, by who may do that too; admission, which would look at it, is not asked."""
    if not isinstance(scope.rest, CorruptDeleter):
        text = "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"
        raise errors.internal_error(text)
    info = request.info
    decision = await request.authorizer.authorize(access.attributes_of(info, request.user)._replace(verb=_UNSAFE_DELETE))
    if not decision.allowed:
        why = f'not permitted to do "{_UNSAFE_DELETE}", reason: {decision.reason}'
        raise errors.forbidden(scope.group, scope.resource, info.name, why)
    await scope.rest.delete_corrupt(Context(request.user, info.namespace, request.warnings), info.name)
    details = {"name": info.name, "kind": scope.kind}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details, "code": 200}
    return reply.tree_reply(media.unconverted(), status)


async def delete_collection(scope: ResourceScope, request: Request) -> Response:
    resource = cast(CollectionDeleter, scope.rest)  # the dispatcher has looked
    media = negotiation.for_object(request)
    selection = options.list_options(scope, request.query, name="")
    wanted = options.for_collection(options.delete_options(await body.read_delete_body(request), request.query_all))
    what = attributes.of(scope, request, DELETE, wanted.dry_run)
    await scope.admission.mutate(what, None)
    context = Context(request.user, request.info.namespace, request.warnings)
    found = await resource.delete_collection(context, wanted, selection, scope.admission.validator(what))
    return reply.list_reply(scope, request, media, found)
