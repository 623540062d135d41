"""get and list. Source: k8s.io/apiserver pkg/endpoints/handlers/get.go, v0.36.3."""

from __future__ import annotations

from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import options, reply
from aggserver.endpoints.handlers.reply import shows_metadata_only
from aggserver.endpoints.request import Request, Response
from aggserver.endpoints.served import ResourceScope
from aggserver.registry.rest import Context, Getter, Lister

__all__ = ["get", "list_"]


async def get(scope: ResourceScope, resource: Getter, context: Context, request: Request) -> Response:
    media = negotiation.for_object(request, built_in=scope.built_in)
    context.metadata_only = shows_metadata_only(scope, media)
    obj = await resource.get(context, request.info.name, request.query.get("resourceVersion", ""))
    return reply.object_reply(scope, request, media, obj)


async def list_(scope: ResourceScope, resource: Lister, context: Context, request: Request) -> Response:
    media = negotiation.for_object(request, built_in=scope.built_in)
    context.metadata_only = shows_metadata_only(scope, media)
    selection = options.list_options(scope, request.query, name=request.info.name)
    return reply.list_reply(scope, request, media, await resource.list(context, selection))
