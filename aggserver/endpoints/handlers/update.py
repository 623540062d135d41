"""update (PUT). Source: k8s.io/apiserver pkg/endpoints/handlers/update.go, v0.36.3."""

from __future__ import annotations

from aggserver.admission.chain import UPDATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.meta.json_types import JSONObject
from aggserver.registry import preparation
from aggserver.registry.rest import Context, Sharing, Updater, WriteRequest

__all__ = ["update"]


async def update(scope: ResourceScope, resource: Updater, context: Context, request: Request) -> Response:
    name = request.info.name
    media = negotiation.for_object(request, built_in=scope.built_in)
    write = options.write_options("UpdateOptions", request.query_all, request.header(b"user-agent"))
    obj = await body.read_object(scope, request, write.field_validation)
    context.body_bytes = len(await request.body())
    metadata = obj["metadata"]
    # Checked here too, so that an invalid body is reported even if the object doesn't exist. The write loop checks the new object
    # of every write, also of a patch.
    preparation.place_in_namespace(metadata, context.namespace, namespaced=scope.info.namespaced)
    preparation.check_name(obj, name)
    preparation.dedup_owner_references(metadata, context.warnings)
    write = write._replace(uid=metadata.get("uid") or "", creates=True)

    async def replaced(current: JSONObject) -> JSONObject:
        # A shallow copy: after a lost race the write loop calls this again, and needs the object as the client sent it.
        return dict(obj)

    bound = attributes.bound(scope, request, UPDATE, options.given(request.query_all), dry_run=write.dry_run)
    # A PUT does not create custom resources.
    admission = attributes.allowed_to_create(bound, request) if scope.built_in else bound
    written = await resource.update(WriteRequest(context, write, admission), name, Sharing(replaced))
    return reply.object_reply(scope, request, media, written.object, 201 if written.created else 200)
