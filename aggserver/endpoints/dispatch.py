"""Dispatch: from a RequestInfo to the handler of its verb on its ResourceScope, or to discovery, OpenAPI and the edges.

What is no path of ours is the plain-text `404 page not found` of net/http, on which clients rely to tell "no such resource" from
"no such object": an unknown group, an unserved version, a resource asked for in the wrong scope. An unknown subresource of a
known resource is a Status. Sources: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go, k8s.io/apiserver
pkg/endpoints/installer.go for the server's own kinds, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aggserver.endpoints.discovery import Discovery, page_not_found
from aggserver.endpoints.handlers import create, delete, get, patch, update
from aggserver.endpoints.handlers.watch import Watching
from aggserver.endpoints.installer import Installer, ResourceScope, Served
from aggserver.endpoints.openapi import OpenAPI
from aggserver.endpoints.request import AnyResponse, ASGIApp, ASGIResponse, Request
from aggserver.endpoints.request_info import RequestInfo
from aggserver.meta import errors
from aggserver.registry import rest

__all__ = ["Dispatcher"]

VerbHandler = Callable[[ResourceScope, Request], Awaitable[AnyResponse]]

# Verbs that a namespaced resource takes without a namespace.
_ACROSS_NAMESPACES = frozenset({"list", "watch"})
_NAMED = frozenset({"get", "update", "patch", "delete"})


class Dispatcher:
    """The innermost handler. edges: an ASGI application for health, metrics, version and the index."""

    def __init__(self, installer: Installer, discovery: Discovery, openapi: OpenAPI, edges: ASGIApp, watching: Watching) -> None:
        self._installer = installer
        self._discovery = discovery
        self._openapi = openapi
        self._edges = edges
        # verb -> (the protocol a resource must have for it, the handler)
        self._verbs: dict[str, tuple[type, VerbHandler]] = {
            "get": (rest.Getter, get.get),
            "list": (rest.Lister, get.list_),
            "watch": (rest.Watcher, watching),
            "create": (rest.Creater, create.create),
            "update": (rest.Updater, update.update),
            "patch": (rest.Updater, patch.patch),
            "delete": (rest.Deleter, delete.delete),
            "deletecollection": (rest.CollectionDeleter, delete.delete_collection),
        }
        self._abilities: dict[tuple[type, type], bool] = {}

    async def __call__(self, request: Request) -> AnyResponse:
        info = request.info
        if not info.is_resource_request:
            return await self._other(request)
        served = self._installer.find(info.group, info.version, info.resource)
        if served is None or not _scope_fits(served, info) or request.path.startswith("//"):
            return page_not_found()
        scope = served.scope(info.subresource)
        if scope is None:
            raise errors.not_found(info.group, info.resource, info.name)
        return await self._handle(scope, request)

    async def _handle(self, scope: ResourceScope, request: Request) -> AnyResponse:
        info = request.info
        if scope.deprecation:
            request.warnings.append(scope.deprecation)
        protocol, handler = self._verbs.get(info.verb, (None, None))
        if protocol is None or handler is None or not self._can(type(scope.rest), protocol):
            if scope.built_in:
                raise errors.method_not_allowed()
            raise errors.method_not_supported(info.group, info.resource, info.verb)
        if scope.built_in and not _has_route(request):
            raise errors.method_not_allowed()
        if info.verb in _NAMED and not info.name:
            raise errors.bad_request("name must be provided")
        return await handler(scope, request)

    def _can(self, kind: type, protocol: type) -> bool:
        # A look at a protocol's members takes longer than a whole handler; there are few classes.
        key = (kind, protocol)
        if key not in self._abilities:
            self._abilities[key] = issubclass(kind, protocol)
        return self._abilities[key]

    async def _other(self, request: Request) -> AnyResponse:
        path = request.path
        if path.startswith("/openapi/"):
            return await self._openapi(request)
        if path == "/api" or path == "/apis" or path.startswith(("/api/", "/apis/")):
            return await self._discovery(request)
        return ASGIResponse(self._edges)


def _has_route(request: Request) -> bool:
    """Whether upstream has a route of this method and path for a kind of its own."""
    info = request.info
    if info.verb in _NAMED and not info.name:
        return False
    return request.method != "HEAD" and not (info.verb == "create" and info.name)


def _scope_fits(served: Served, info: RequestInfo) -> bool:
    """Whether the path has a namespace where the resource has one. Namespaces themselves have a path that looks so."""
    if not info.group and info.resource == "namespaces":
        return True
    if served.namespaced:
        return bool(info.namespace) or info.verb in _ACROSS_NAMESPACES
    return not info.namespace
