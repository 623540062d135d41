"""create. Source: k8s.io/apiserver pkg/endpoints/handlers/create.go, v0.36.3."""

from __future__ import annotations

from aggserver.admission.chain import CREATE
from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import attributes, body, options, reply
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.registry.rest import Context, Creater, WriteRequest

__all__ = ["create"]

# The verbs of reviews, tokens and bindings, which can't be read after their creation.
_CREATE_ONLY = frozenset({"create"})


async def create(scope: ResourceScope, resource: Creater, context: Context, request: Request) -> Response:
    media = negotiation.for_object(request, tables=scope.verbs != _CREATE_ONLY, built_in=scope.built_in)
    write = options.write_options("CreateOptions", request.query_all, request.header(b"user-agent"))
    obj = await body.read_object(scope, request, write.field_validation)
    context.body_bytes = len(await request.body())
    admission = attributes.bound(scope, request, CREATE, options.given(request.query_all), dry_run=write.dry_run)
    created = await resource.create(WriteRequest(context, write, admission), obj)
    return reply.object_reply(scope, request, media, created, 201)
