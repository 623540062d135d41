"""Discovery: serves the URLs /api, /apis and the paths directly below them.

The documents are those that `publish/discovery.py` makes of the catalog, encoded once for each generation of it. kubectl and the
aggregator request aggregated discovery, one document with an ETag; older clients request the lists one by one. A server without
a core group has no /api.
Source: k8s.io/apiserver pkg/endpoints/discovery/{root,group,version,legacy}.go and aggregated/, v0.36.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import orjson

from aggserver.endpoints import negotiation
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import PLAIN_TEXT, Request, Response
from aggserver.meta import errors
from aggserver.publish import discovery
from aggserver.publish.discovery import APIGroup
from aggserver.publish.models import Published

__all__ = ["ADOPTED_HEADER", "Catalog", "Discovery", "check_method", "matches_etag", "page_not_found"]


# In the discovery of a group-version that was adopted from the host: the id of the installation that has adopted it.
ADOPTED_HEADER = "X-Aggserver-Adopted"


class Catalog(Protocol):
    """The resources that are served. `generation` changes with every change; callers may cache the rest until then."""

    @property
    def generation(self) -> int: ...

    def groups(self) -> Sequence[APIGroup]:
        """The groups, with their versions in the order of preference. The core group's name is empty."""

    def built_in(self, group: str) -> bool:
        """Whether the group has a built-in resource."""

    def published(self, group: str, version: str) -> Sequence[Published]:
        """The resources of a group-version, for OpenAPI."""

    def adopted_by(self, group: str, version: str) -> str:
        """The id of the installation that has adopted a group-version from the host; '' if it is not adopted."""


def page_not_found() -> Response:
    """Go's net/http response to an unknown path. It is not a Status, by which clients distinguish it from a missing object."""
    return Response(404, b"404 page not found\n", PLAIN_TEXT, [(b"x-content-type-options", b"nosniff")])


def check_method(request: Request) -> None:
    """Raise MethodNotAllowed for methods other than GET and HEAD."""
    if request.method not in ("GET", "HEAD"):
        raise errors.method_not_allowed()


def matches_etag(if_none_match: str, etag: str) -> bool:
    """Whether If-None-Match names this ETag, which is in quotes, as sent. The comparison is weak, as HTTP requires for GET."""
    wanted = (entry.strip().removeprefix("W/") for entry in if_none_match.split(","))
    return any(entry in ("*", etag) for entry in wanted)


def _group(path: str) -> str:
    """The group that a path below /api or /apis names; '' is the core group."""
    _, root, *below = path.split("/")
    return below[0] if root == "apis" and below else ""


class Discovery:
    """The handler of these URLs."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._generation = -1
        self._trees: dict[str, Any] = {}
        self._encoded: dict[tuple[str, MediaType], tuple[bytes, bytes]] = {}
        self._etags: dict[str, str] = {}

    async def __call__(self, request: Request) -> Response:
        self._refresh()
        path = request.path.rstrip("/")
        if path not in self._trees:
            if self._catalog.built_in(_group(path)):
                raise errors.no_route()
            return page_not_found()
        check_method(request)
        if path in ("/api", "/apis"):
            aggregated = negotiation.AGGREGATED_DISCOVERY.match(request.header(b"accept"))
            if aggregated is not None:
                return self._aggregated(request, path, aggregated)
        media = negotiation.for_plain(request)
        body, content_type = self._encode(path, media)
        return Response(200, body, content_type, self._headers(path))

    def _headers(self, path: str) -> list[tuple[bytes, bytes]]:
        """Headers that name the installation for an adopted group-version, [] for others.

        The aggregator passes them on, so a client of it can see that it proxies the group-version to this server.
        """
        _, *parts = path.split("/")
        installation = self._catalog.adopted_by(parts[1], parts[2]) if len(parts) == 3 else ""
        return [(ADOPTED_HEADER.lower().encode(), installation.encode())] if installation else []

    def _refresh(self) -> None:
        """Rebuild the documents if the catalog has changed. That is cheap, since they are encoded at a client's first request."""
        if self._generation == self._catalog.generation:
            return
        self._generation = self._catalog.generation
        groups = self._catalog.groups()
        self._encoded.clear()
        self._etags.clear()
        self._trees = {"/apis": discovery.api_group_list(groups)}
        for group in groups:
            prefix = f"/apis/{group.name}" if group.name else "/api"
            self._trees[prefix] = discovery.api_group(group) if group.name else discovery.api_versions(groups)
            for version in group.versions:
                self._trees[f"{prefix}/{version.version}"] = discovery.api_resource_list(version)

    def _aggregated(self, request: Request, path: str, media: MediaType) -> Response:
        key = f"{path} aggregated"
        if key not in self._trees:
            tree = discovery.api_group_discovery_list(self._catalog.groups(), core=path == "/api")
            self._trees[key] = tree
            self._etags[key] = f'"{hashlib.sha512(orjson.dumps(tree)).hexdigest().upper()}"'
        etag = self._etags[key]
        headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
        if matches_etag(request.header(b"if-none-match"), etag):
            return Response(304, b"", b"", headers)
        body, content_type = self._encode(key, media)
        # These parameters tell the aggregator that the response is aggregated discovery.
        return Response(200, body, content_type + b";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", headers)

    def _encode(self, key: str, media: MediaType) -> tuple[bytes, bytes]:
        found = self._encoded.get((key, media))
        if found is None:
            # A round trip through JSON, which turns tuples into the lists that the YAML encoder needs.
            tree = orjson.loads(orjson.dumps(self._trees[key]))
            found = self._encoded[key, media] = media.encode(tree)
        return found
