"""OpenAPI: serves the URLs /openapi/v2, /openapi/v3 and /openapi/v3/apis/<group>/<version>.

A document is built when a client requests it. Its ETag is a hash of the values that it is built from. So neither the index of v3,
which has the ETags of all group-versions, nor the aggregator's conditional request once a minute needs the documents.

Hashes and documents are made in a thread, one at a time, since a definition may have a megabyte and a group hundreds of them.
Concurrent requests wait for the same result.
Source: k8s.io/kube-openapi pkg/handler/handler.go and pkg/handler3/handler.go, as of k8s v0.36.3.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import orjson

from aggserver.endpoints.discovery import Catalog, check_method, matches_etag, page_not_found
from aggserver.endpoints.negotiation import Negotiator
from aggserver.endpoints.request import JSON, Request, Response
from aggserver.publish import openapi_v2, openapi_v2_protobuf, openapi_v3, openapi_v3_protobuf
from aggserver.publish.models import Published

__all__ = ["OpenAPI"]

# Clients use either name for protobuf; kubectl the one with @. The responses have the other one, which is a valid media type.
_V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_TYPES = Negotiator(("application/json", _V2_PROTOBUF.replace("v2.v1", "v2@v1"), _V2_PROTOBUF))
_V3_PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_V3_TYPES = Negotiator(("application/json", _V3_PROTOBUF, _V3_PROTOBUF.replace("v3.v1", "v3@v1")))
_VARY = (b"vary", b"Accept")
# Encoded documents of v3 in the cache; the least recently used are dropped. A client fetches each once and caches it by its hash.
_KEPT_DOCUMENTS = 32
# Levels of a document that are encoded member by member: components, schemas, and the name of each.
_PARTS_DEPTH = 3
_YEAR_SECONDS = 365 * 86400


class OpenAPI:
    """The handler of these URLs. info_version: the server's version, for `info` in the documents. clock: seconds since 1970."""

    def __init__(
        self,
        catalog: Catalog,
        info_version: str,
        clock: Callable[[], float],
    ) -> None:
        self._catalog = catalog
        self._info_version = info_version
        self._clock = clock
        self._generation = -1
        # The published resources and the ETag of each group-version, by its name, as of `_generation`.
        self._published: dict[str, Sequence[Published]] = {}
        self._etags: dict[str, str] = {}
        self._documents: OrderedDict[str, bytes] = OrderedDict()
        self._index = b""
        self._v2: dict[bytes, tuple[str, bytes]] = {}  # by content type: ETag and body
        self._building = asyncio.Lock()

    async def __call__(self, request: Request) -> Response:
        check_method(request)
        path = request.path.rstrip("/")
        await self._refresh()
        if path == "/openapi/v2":
            return await self._serve_v2(request)
        if path == "/openapi/v3":
            return self._conditional(request, self._index, _etag(self._index), [])
        name = path.removeprefix("/openapi/v3/")
        if name not in self._etags:
            return page_not_found()
        return await self._serve_v3(request, name)

    async def _refresh(self) -> None:
        """Compute all ETags again if the catalog has changed. Cached documents whose ETag is still the same stay valid."""
        if self._generation == self._catalog.generation:
            return
        async with self._building:
            generation = self._catalog.generation
            if self._generation == generation:
                return  # another request has done it meanwhile
            published = {
                _name(group.name, version.version): self._catalog.published(group.name, version.version)
                for group in self._catalog.groups()
                for version in group.versions
            }
            self._etags = await asyncio.to_thread(self._fingerprints, published)
            self._published, self._generation = published, generation
            paths = {name: {"serverRelativeURL": _location(name, etag)} for name, etag in self._etags.items()}
            self._index = orjson.dumps({"paths": paths})

    def _fingerprints(self, published: Mapping[str, Sequence[Published]]) -> dict[str, str]:
        return {name: self._fingerprint(resources) for name, resources in published.items()}

    def _fingerprint(self, resources: Sequence[Published]) -> str:
        """A hash of everything that a document depends on; its ETag, without the quotes."""
        found = hashlib.sha512(orjson.dumps(self._info_version))
        for resource in resources:
            found.update(orjson.dumps(resource))
        return found.hexdigest().upper()

    async def _serve_v3(self, request: Request, name: str) -> Response:
        as_json = _V3_TYPES.negotiate(request.header(b"accept")).subtype == "json"
        etag = self._etags[name]
        headers = [_VARY]
        wanted = request.query.get("hash", "")
        if wanted and wanted != etag:
            location = (b"location", _location(name, etag).encode())
            return Response(301, b"", b"", [_VARY, (b"etag", f'"{etag}"'.encode()), location])
        if wanted:
            # Only the document that the hash names never changes.
            headers.append((b"cache-control", b"public, immutable"))
            headers.append((b"expires", _http_date(self._clock() + _YEAR_SECONDS)))
        document = await self._document(name, etag, as_json=as_json)
        return self._conditional(request, document, f'"{etag}"', headers, JSON if as_json else _V3_PROTOBUF.encode())

    async def _document(self, name: str, etag: str, *, as_json: bool) -> bytes:
        key = f"{name} {etag}" if as_json else f"{name} {etag} {_V3_PROTOBUF}"
        if key not in self._documents:
            resources = self._published[name]
            async with self._building:
                if key not in self._documents:
                    encode = _encode_json if as_json else openapi_v3_protobuf.encode
                    self._keep(key, await asyncio.to_thread(self._build_v3, name, resources, encode))
        document = self._documents[key]
        self._documents.move_to_end(key)
        return document

    def _build_v3(self, name: str, resources: Sequence[Published], encode: Callable[[dict[str, Any]], bytes]) -> bytes:
        group, _, version = name.removeprefix("apis/").removeprefix("api/").rpartition("/")
        return encode(openapi_v3.build(group, version, resources, info_version=self._info_version))

    def _keep(self, key: str, document: bytes) -> None:
        self._documents[key] = document
        if len(self._documents) > _KEPT_DOCUMENTS:
            self._documents.popitem(last=False)

    async def _serve_v2(self, request: Request) -> Response:
        as_json = _V2_TYPES.negotiate(request.header(b"accept")).subtype == "json"
        content_type = JSON if as_json else _V2_PROTOBUF.encode()
        # JSON and protobuf have different ETags, so that a cache that ignores Vary can't mistake one for the other.
        etag = _etag(orjson.dumps(self._etags if as_json else [self._etags, _V2_PROTOBUF]))
        headers = [_VARY]
        if matches_etag(request.header(b"if-none-match"), etag):
            return Response(304, b"", b"", [*headers, (b"etag", etag.encode())])
        resources = [resource for published in self._published.values() for resource in published]
        async with self._building:
            if self._v2.get(content_type, ("", b""))[0] != etag:
                encode = _encode_json if as_json else openapi_v2_protobuf.encode
                self._v2[content_type] = (etag, await asyncio.to_thread(self._build_v2, resources, encode))
            body = self._v2[content_type][1]
        return self._conditional(request, body, etag, headers, content_type)

    def _build_v2(self, resources: Sequence[Published], encode: Callable[[dict[str, Any]], bytes]) -> bytes:
        return encode(openapi_v2.build(resources, info_version=self._info_version))

    def _conditional(
        self, request: Request, body: bytes, etag: str, headers: list[tuple[bytes, bytes]], content_type: bytes = JSON
    ) -> Response:
        headers = [*headers, (b"etag", etag.encode())]
        if matches_etag(request.header(b"if-none-match"), etag):
            return Response(304, b"", b"", headers)
        return Response(200, body, content_type, headers)


def _name(group: str, version: str) -> str:
    """The name of a group-version in the index: its path without the first slash."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _location(name: str, etag: str) -> str:
    return f"/openapi/v3/{name}?hash={etag}"


def _etag(data: bytes) -> str:
    return f'"{hashlib.sha512(data).hexdigest().upper()}"'


def _encode_json(document: dict[str, Any]) -> bytes:
    """Encode a document part by part, each a schema or a path: one call for a whole document would block the event loop."""
    return b"".join(_parts(document, _PARTS_DEPTH))


def _parts(value: Any, depth: int) -> Iterator[bytes]:
    if not depth or not isinstance(value, dict) or not value:
        yield orjson.dumps(value)
        return
    separator = b"{"
    for name, member in value.items():
        yield separator + orjson.dumps(name) + b":"
        yield from _parts(member, depth - 1)
        separator = b","
    yield b"}"


def _http_date(seconds: float) -> bytes:
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True).encode()
