"""Dispatch: from a RequestInfo to the handler of its verb on its ResourceScope, or to discovery, OpenAPI or a non-resource path.

An unknown group or resource, an unserved version, and a namespaced path of a cluster-scoped resource get the plain-text
`404 page not found` of Go's net/http, by which clients distinguish "no such resource" from "no such object". In a group with
built-in kinds they get a Status, from the router that upstream has for the whole path of such a group. An unknown subresource of
a known resource gets a Status, and so does a verb that the scope doesn't have. Discovery lists the verbs of the same scopes.
Sources: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go, k8s.io/apiserver
pkg/endpoints/installer.go for the server's own kinds, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aggserver.endpoints.discovery import Discovery, page_not_found
from aggserver.endpoints.handlers import connect, create, delete, get, patch, update
from aggserver.endpoints.handlers.watch import Watching
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.openapi import OpenAPI
from aggserver.endpoints.request import AnyResponse, ASGIApp, ASGIResponse, Request
from aggserver.endpoints.request_info import RequestInfo
from aggserver.endpoints.served import ResourceScope, Served
from aggserver.meta import errors
from aggserver.registry.rest import Context

__all__ = ["Dispatcher"]

# (scope, the scope's `rest`, which has the protocol that the verb needs, context, request)
VerbHandler = Callable[[ResourceScope, Any, Context, Request], Awaitable[AnyResponse]]

# Verbs that work on a namespaced resource without a namespace in the path.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})
_NAMED = frozenset({"get", "update", "patch", "delete"})


class Dispatcher:
    """The innermost handler. non_resource: an ASGI application for all other paths: health, metrics, version, the index.

    on_deprecated: called with each request for a deprecated version that has a handler.
    """

    def __init__(
        self,
        installer: Installer,
        discovery: Discovery,
        openapi: OpenAPI,
        non_resource: ASGIApp,
        watching: Watching,
        on_deprecated: Callable[[RequestInfo], None],
    ) -> None:
        self._installer = installer
        self._discovery = discovery
        self._openapi = openapi
        self._non_resource = non_resource
        self._on_deprecated = on_deprecated
        self._verbs: dict[str, VerbHandler] = {
            "get": get.get,
            "list": get.list_,
            "watch": watching,
            "create": create.create,
            "update": update.update,
            "patch": patch.patch,
            "delete": delete.delete,
            "deletecollection": delete.delete_collection,
        }

    async def __call__(self, request: Request) -> AnyResponse:
        info = request.info
        if not info.is_resource_request:
            return await self._dispatch_non_resource(request)
        served = self._installer.find(info.group, info.version, info.resource)
        if request.path.startswith(("//", "/apis//")):  # the core group is not below /apis
            return page_not_found()
        if served is None or not _scope_fits(served, info):
            if served is not None and served.built_in and _lists_across_namespaces(served, info):
                raise errors.method_not_allowed()
            if self._installer.built_in(info.group):
                raise errors.no_route()
            return page_not_found()
        scope = served.scope(info.subresource)
        if scope is None:
            parent = served.scope("")
            if parent is not None and parent.built_in:
                raise errors.no_route()
            if parent is not None and parent.deprecation:
                request.warnings.append(parent.deprecation)
            raise errors.not_found(info.group, info.resource, info.name)
        return await self._handle(scope, request)

    async def _handle(self, scope: ResourceScope, request: Request) -> AnyResponse:
        info = request.info
        if scope.deprecation:
            request.warnings.append(scope.deprecation)
        if scope.built_in:
            if info.name and not info.subresource and scope.verbs.isdisjoint(_NAMED):
                raise errors.no_route()
            if info.verb not in scope.verbs or not _has_route(request):
                raise errors.method_not_allowed()
        elif info.verb not in scope.verbs:
            raise errors.method_not_supported(info.group, info.resource, info.verb)
        if scope.deprecation:
            self._on_deprecated(info)
            if request.audit is not None:
                request.audit.record.deprecated = True
        if info.verb in _NAMED and not info.name:
            raise errors.bad_request("name must be provided")
        context = Context(request.user, info.namespace, request.warnings, name=info.name, origin=request)
        # `rest` has the protocol of every verb of its scope.
        verb: VerbHandler = connect.connect if scope.connects else self._verbs[info.verb]
        if scope.in_use is None:
            return await verb(scope, scope.rest, context, request)
        with scope.in_use:
            return await verb(scope, scope.rest, context, request)

    async def _dispatch_non_resource(self, request: Request) -> AnyResponse:
        path = request.path
        if path.startswith("/openapi/"):
            return await self._openapi(request)
        if path == "/api" or path == "/apis" or path.startswith(("/api/", "/apis/")):
            return await self._discovery(request)
        if path.rstrip("/") == "/version" and not _takes_json(request.header(b"accept")):
            why = "406: Not Acceptable\n\nAvailable representations: application/json"
            raise errors.StatusError(406, "NotAcceptable", why, bare_details=True)
        return ASGIResponse(self._non_resource)


def _takes_json(accept: str) -> bool:
    """Whether go-restful finds a route that produces JSON. As there, `application/*` does not match; parameters are ignored."""
    given = {part.partition(";")[0].strip() for part in (accept or "*/*").split(",")}
    return not given.isdisjoint({"application/json", "*/*", ""})


def _has_route(request: Request) -> bool:
    """Whether upstream has a route with this method and path for its built-in kinds."""
    info = request.info
    if info.verb in _NAMED and not info.name:
        return False
    return request.method != "HEAD" and not (info.verb == "create" and info.name and not info.subresource)


def _lists_across_namespaces(served: Served, info: RequestInfo) -> bool:
    """Whether this is the path of the objects of all namespaces, which has routes only for reading."""
    return served.info.namespaced and not info.namespace and not info.name and "list" in served.resource.verbs


def _scope_fits(served: Served, info: RequestInfo) -> bool:
    """Whether a path with or without a namespace fits the resource's scope. Paths of namespaces themselves always fit."""
    if not info.group and info.resource == "namespaces":
        return True
    if served.info.namespaced:
        return bool(info.namespace) or (info.verb in _ACROSS_NAMESPACES and "list" in served.resource.verbs)
    return not info.namespace
