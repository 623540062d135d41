"""delete and deletecollection. Source: k8s.io/apiserver pkg/endpoints/handlers/delete.go, v0.36.3."""

from __future__ import annotations

from aggserver.admission.chain import DELETE
from aggserver.endpoints import access, negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.handlers.reply import shows_metadata_only
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import CollectionDeleter, Context, CorruptDeleter, Deleter

__all__ = ["delete", "delete_collection"]

# The verb that removing an unreadable object needs, in addition to delete.
_UNSAFE_DELETE = "unsafe-delete-ignore-read-errors"


async def delete(scope: ResourceScope, resource: Deleter, context: Context, request: Request) -> Response:
    media = negotiation.for_object(request, built_in=scope.built_in)
    given = await body.read_delete_body(request)
    wanted = options.delete_options(given, request.query_all)
    if wanted.ignore_store_read_error:
        return await _delete_corrupt(scope, context, request, media)
    admission = attributes.bound(
        scope, request, DELETE, given or options.given_for_delete(request.query_all), dry_run=wanted.dry_run
    )
    result = await resource.delete(context, request.info.name, wanted, admission)
    if result.shown:
        return reply.object_reply(scope, request, media, result.object)
    if not result.gone:
        # As upstream, 202 only with `orphanDependents: false`, since older clients expect 200.
        return reply.object_reply(scope, request, media, result.object, 202 if wanted.orphan_dependents is False else 200)
    metadata = result.object.decoded()["metadata"]
    details: JSONObject = {"name": metadata["name"]}
    if scope.info.group:
        details["group"] = scope.info.group
    details["kind"] = scope.info.resource
    details["uid"] = metadata.get("uid", "")
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return reply.tree_reply(media.unconverted(), status)


async def _delete_corrupt(scope: ResourceScope, context: Context, request: Request, media: MediaType) -> Response:
    """Remove an object that can't be read, if the user is allowed to. Admission is skipped, since it can't read it either."""
    if not isinstance(scope.rest, CorruptDeleter):
        text = "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential"
        raise errors.internal_error(text)
    info = request.info
    decision = await request.authorizer.authorize(access.attributes_of(info, request.user)._replace(verb=_UNSAFE_DELETE))
    if not decision.allowed:
        why = f'not permitted to do "{_UNSAFE_DELETE}", reason: {decision.reason}'
        raise errors.forbidden(scope.info.group, scope.info.resource, info.name, why)
    await scope.rest.delete_corrupt(context, info.name)
    details = {"name": info.name, "kind": scope.kind}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details, "code": 200}
    return reply.tree_reply(media.unconverted(), status)


async def delete_collection(scope: ResourceScope, resource: CollectionDeleter, context: Context, request: Request) -> Response:
    media = negotiation.for_object(request, built_in=scope.built_in)
    context.metadata_only = shows_metadata_only(scope, media)
    selection = options.list_options(scope, request.query, name="")
    given = await body.read_delete_body(request)
    wanted = options.for_collection(options.delete_options(given, request.query_all))
    admission = attributes.bound(
        scope, request, DELETE, given or options.given_for_delete(request.query_all), dry_run=wanted.dry_run
    )
    found = await resource.delete_collection(context, wanted, selection, admission)
    return reply.list_reply(scope, request, media, found)
