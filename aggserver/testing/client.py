"""AppClient: calls a server in this process as one user, with the objects of an App as instances of its classes, or with JSON.

`App.client` makes it. A request is one call of the server's ASGI application in the caller's own task: nothing is sent over a
network. What the server refuses is raised as StatusError.
"""

from __future__ import annotations

import asyncio
import builtins  # inside of a client, `list` is its method
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlencode

from aggserver.authentication.user import UserInfo
from aggserver.endpoints.request import ASGIApp
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.resources.handle import Declaration, Handle

__all__ = ["AppClient", "AppEvent", "RawAnswer", "Shared"]

T = TypeVar("T")

# A class of objects, or the handle that the App has made for it, such as `tickets` of `tickets = app.virtual(...)`.
Of: TypeAlias = type[T] | Handle[Any, T]
PatchKind = Literal["merge", "json", "apply"]
_PATCHES = {kind: f"application/{kind}-patch+{'yaml' if kind == 'apply' else 'json'}" for kind in ("merge", "json", "apply")}
_JSON = "application/json"
_FAILURE = 400
# The most seconds that a watch waits for one event: a test that never gets it fails instead of hanging.
_EVENT_SECONDS = 30.0
# code of the Warning header, and the agent of all warnings
_WARNING = '299 - "'


@dataclass(frozen=True)
class RawAnswer:
    """A whole response. Header names are in lower case."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        """The first value of a header; '' if there is none."""
        return next((value for key, value in self.headers if key == name.lower()), "")

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class AppEvent(Generic[T]):
    """type: ADDED, MODIFIED or DELETED. object: as it is now; of DELETED, as it was last."""

    type: str
    object: T


@dataclass(frozen=True)
class Shared:
    """What the clients of one server share. give: sets the rights of a user by rules; None is everything."""

    asgi: ASGIApp
    declarations: Sequence[Declaration]
    give: Callable[[str, Sequence[Mapping[str, Any]] | None], None]


class AppClient:
    """One user of a server in this process. Made by `App.client` and `as_user`.

    Objects are named by their class or their resource's handle. namespace: '' for resources that are in none, whatever is given.
    warnings: all that the server has sent to this client.
    """

    def __init__(self, shared: Shared, user: UserInfo) -> None:
        self._shared = shared
        self.user = user
        self.warnings: list[str] = []

    def as_user(self, name: str, groups: Sequence[str] = (), *, rules: Sequence[Mapping[str, Any]] | None = None) -> AppClient:
        """Another user of the same server. rules: see `App.client`; those given last for a name count for all its clients."""
        self._shared.give(name, rules)
        return AppClient(self._shared, UserInfo(name, groups=tuple(groups)).authenticated())

    # --- objects ---

    async def create(self, obj: T, resource: Handle[Any, T] | None = None, *, dry_run: bool = False) -> T:
        """Creates an object, and returns it as the server has it. resource: needed if several have this class."""
        declaration = self._of(obj, resource)
        body = self._encoded(declaration, obj)
        made: T = _decoded(declaration, await self.post(_path(declaration, body) + _query(dryRun="All" if dry_run else ""), body))
        return made

    async def get(self, resource: Of[T], name: str, namespace: str = "default") -> T:
        declaration = self._declaration(resource)
        found: T = _decoded(declaration, await self.get_raw(_named(declaration, name, namespace)))
        return found

    async def list(
        self, resource: Of[T], namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> builtins.list[T]:
        """All objects, of all namespaces by default. labels, fields: selectors. limit: of one page; the others are read, too."""
        declaration = self._declaration(resource)
        found: list[T] = []
        token = ""
        while True:
            query = _query(labelSelector=labels, fieldSelector=fields, limit=str(limit or ""), **{"continue": token})
            page = await self.get_raw(_collection(declaration, namespace) + query)
            found += [_decoded(declaration, item) for item in page["items"]]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def update(self, obj: T, resource: Handle[Any, T] | None = None, *, subresource: str = "", dry_run: bool = False) -> T:
        """Replaces an object. With the revision in its metadata, only if it is still the newest. subresource: such as status."""
        declaration = self._of(obj, resource)
        body = self._encoded(declaration, obj)
        metadata = body.get("metadata") or {}
        path = _named(declaration, metadata.get("name", ""), metadata.get("namespace", ""), subresource)
        found: T = _decoded(declaration, await self.put(path + _query(dryRun="All" if dry_run else ""), body))
        return found

    async def patch(
        self,
        resource: Of[T],
        name: str,
        changes: Any,
        namespace: str = "default",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Changes an object. changes: as JSON, for a merge patch; a list of operations for `json`; what the field manager wants
        for `apply`, which needs `manager`, and takes over the fields of others with `force`.
        """
        declaration = self._declaration(resource)
        if kind == "apply":
            head = {"apiVersion": _api_version(declaration), "kind": declaration.kind}
            changes = {**head, **changes, "metadata": {"name": name, **changes.get("metadata", {})}}
        query = _query(fieldManager=manager, force="true" if force else "", dryRun="All" if dry_run else "")
        path = _named(declaration, name, namespace, subresource) + query
        found: T = _decoded(declaration, await self.patch_raw(path, changes, kind=kind))
        return found

    async def delete(self, resource: Of[Any], name: str, namespace: str = "default", *, dry_run: bool = False) -> None:
        path = _named(self._declaration(resource), name, namespace)
        await self.delete_raw(path + _query(dryRun="All" if dry_run else ""))

    @asynccontextmanager
    async def watch(
        self, resource: Of[T], namespace: str = "", *, labels: str = "", fields: str = "", seconds: float = _EVENT_SECONDS
    ) -> AsyncGenerator[AsyncIterator[AppEvent[T]], None]:
        """For `async with`: the events as an iterator, of which `await anext(events)` is the next.

        The objects there are come first, as ADDED. seconds: the longest wait for one event, then TimeoutError is raised. An error
        in the watch is raised as StatusError.
        """
        declaration = self._declaration(resource)
        query = _query(watch="true", labelSelector=labels, fieldSelector=fields)
        async with self.stream(_collection(declaration, namespace) + query, seconds=seconds) as pieces:
            yield _events(declaration, pieces)

    # --- JSON, for all other requests ---

    async def get_raw(self, path: str) -> JSONObject:
        """The JSON at a path, such as `/apis/example.com/v1`, perhaps with a query. Raises StatusError, as all that follow."""
        return self._object(await self.request("GET", path))

    async def post(self, path: str, body: Any) -> JSONObject:
        return self._object(await self.request("POST", path, body))

    async def put(self, path: str, body: Any) -> JSONObject:
        return self._object(await self.request("PUT", path, body))

    async def patch_raw(self, path: str, body: Any, *, kind: PatchKind = "merge") -> JSONObject:
        return self._object(await self.request("PATCH", path, body, {"content-type": _PATCHES[kind]}))

    async def delete_raw(self, path: str, body: Any = None) -> JSONObject:
        return self._object(await self.request("DELETE", path, body))

    async def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RawAnswer:
        """Any request, and its whole response, whatever the status. body: bytes, or what becomes JSON. Raises no StatusError."""
        exchange = _Exchange(method, path, body, headers or {}, self.user)
        await self._shared.asgi(exchange.scope, exchange.receive, exchange.send)
        answer = RawAnswer(exchange.status, exchange.headers, b"".join(exchange.pieces))
        self._take_warnings(answer.headers)
        return answer

    @asynccontextmanager
    async def stream(
        self, path: str, headers: Mapping[str, str] | None = None, *, seconds: float = _EVENT_SECONDS
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """A GET whose response is read piece by piece, and given up at the end of the block. seconds: the wait for a piece."""
        exchange = _Exchange("GET", path, None, headers or {}, self.user)
        task = asyncio.create_task(exchange.run(self._shared.asgi))
        try:
            async with asyncio.timeout(max(seconds, _EVENT_SECONDS)):
                await exchange.begun.wait()
            self._take_warnings(exchange.headers)
            if exchange.status >= _FAILURE:
                await task
                raise _error(RawAnswer(exchange.status, exchange.headers, b"".join(exchange.pieces)))
            yield exchange.read(seconds)
        finally:
            exchange.gone.set()
            await asyncio.gather(task, return_exceptions=True)

    def _object(self, answer: RawAnswer) -> JSONObject:
        if answer.status >= _FAILURE:
            raise _error(answer)
        value = answer.json() if answer.header("content-type").startswith(_JSON) else None
        if not isinstance(value, dict):
            raise TypeError("the response is no JSON object: use `request`, whose result has the body")
        return value

    def _take_warnings(self, headers: Sequence[tuple[str, str]]) -> None:
        for name, value in headers:
            if name == "warning" and value.startswith(_WARNING):
                self.warnings.append(value.removeprefix(_WARNING).removesuffix('"').replace('\\"', '"').replace("\\\\", "\\"))

    # --- which resource ---

    def _of(self, obj: Any, resource: Handle[Any, Any] | None) -> Declaration:
        if resource is not None:
            return self._declaration(resource)
        if not isinstance(obj, Mapping):
            return self._declaration(type(obj))
        for declaration in self._shared.declarations:
            if (_api_version(declaration), declaration.kind) == (obj.get("apiVersion"), obj.get("kind")):
                return declaration
        raise TypeError("a dict needs the apiVersion and the kind of a resource of the App, or the resource's handle beside it")

    def _declaration(self, resource: Of[Any]) -> Declaration:
        known = self._shared.declarations
        given = resource if isinstance(resource, type) else resource.declaration
        found = [each for each in known if each is given or each.type is given]
        if len(found) == 1:
            return found[0]
        name = given.__name__ if isinstance(given, type) else given.name
        if not found:
            raise TypeError(f"{name} is no resource of this App; it has {', '.join(each.name for each in known) or 'none'}")
        raise TypeError(f"{name} is the class of {' and '.join(each.name for each in found)}: give the handle instead")

    def _encoded(self, declaration: Declaration, obj: Any) -> JSONObject:
        encoded = declaration.codec.encode(obj)
        metadata = encoded.get("metadata") or {}
        if declaration.scope == "Namespaced":
            metadata = {**metadata, "namespace": metadata.get("namespace") or "default"}
        return {"apiVersion": _api_version(declaration), "kind": declaration.kind, **encoded, "metadata": metadata}


# --- paths ---


def _api_version(declaration: Declaration) -> str:
    return f"{declaration.group}/{declaration.version}"


def _collection(declaration: Declaration, namespace: str) -> str:
    below = f"namespaces/{quote(namespace, safe='')}/" if namespace and declaration.scope == "Namespaced" else ""
    return f"/apis/{_api_version(declaration)}/{below}{declaration.plural}"


def _named(declaration: Declaration, name: str, namespace: str, subresource: str = "") -> str:
    if not name:
        raise TypeError(f"{declaration.name}: a name is needed")  # else the path would be that of all objects
    path = f"{_collection(declaration, namespace or 'default')}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def _path(declaration: Declaration, obj: JSONMapping) -> str:
    return _collection(declaration, obj["metadata"].get("namespace", ""))


def _query(**values: str) -> str:
    given = {name: value for name, value in values.items() if value}
    return f"?{urlencode(given)}" if given else ""


# --- what comes back ---


def _decoded(declaration: Declaration, obj: JSONObject) -> Any:
    return declaration.codec.decode(obj)


def _error(answer: RawAnswer) -> StatusError:
    """The Status of a response as the exception that the server has raised."""
    try:
        status: Any = answer.json()
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return StatusError(answer.status, "", answer.body.decode(errors="replace").strip())
    return _of_status(status)


def _of_status(status: JSONMapping) -> StatusError:
    details = status.get("details") or {}
    causes = [
        Cause(each.get("reason", ""), each.get("message", ""), each.get("field", "")) for each in details.get("causes") or ()
    ]
    return StatusError(
        status.get("code", 500),
        status.get("reason", ""),
        status.get("message", ""),
        name=details.get("name", ""),
        group=details.get("group", ""),
        kind=details.get("kind", ""),
        causes=causes,
        retry_after=details.get("retryAfterSeconds", 0),
        continue_token=(status.get("metadata") or {}).get("continue", ""),
    )


async def _events(declaration: Declaration, pieces: AsyncIterator[bytes]) -> AsyncGenerator[AppEvent[Any], None]:
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in filter(None, lines):
            event = json.loads(line)
            if event["type"] == "ERROR":
                raise _of_status(event["object"])
            if event["type"] != "BOOKMARK":
                yield AppEvent(event["type"], _decoded(declaration, event["object"]))


# --- ASGI ---


class _Exchange:
    """One request, and what the application sends for it."""

    def __init__(self, method: str, target: str, body: Any, headers: Mapping[str, str], user: UserInfo) -> None:
        path, _, query = target.partition("?")
        pairs = {name.lower(): value for name, value in headers.items()}
        self._body = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        if self._body:
            pairs = {"content-type": _JSON, "content-length": str(len(self._body)), **pairs}
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs.items()],
            "state": {"user": user},
        }
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.pieces: list[bytes] = []
        self.begun = asyncio.Event()
        self.gone = asyncio.Event()
        self._given = False
        self._more = asyncio.Event()
        self._over = False

    async def receive(self) -> dict[str, Any]:
        if not self._given:
            self._given = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = [(name.decode().lower(), value.decode("latin-1")) for name, value in message["headers"]]
            self.begun.set()
        elif message["type"] == "http.response.body" and message.get("body"):
            self.pieces.append(bytes(message["body"]))
            self._more.set()

    async def run(self, app: ASGIApp) -> None:
        """In a task of its own, for a response that is read while it goes on."""
        try:
            await app(self.scope, self.receive, self.send)
        finally:
            self._over = True
            self.begun.set()
            self._more.set()

    async def read(self, seconds: float) -> AsyncGenerator[bytes, None]:
        while True:
            async with asyncio.timeout(seconds):
                await self._more.wait()
            self._more.clear()
            pieces, self.pieces = self.pieces, []
            for piece in pieces:
                yield piece
            if self._over and not self.pieces:
                return
