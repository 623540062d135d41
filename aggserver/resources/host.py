"""Host: the hosting cluster, asked with the rights of the user whose request is being answered.

Requests impersonate the user, with groups, uid and extra fields, so that the cluster's RBAC, admission and audit log see who it
is; the server's own account needs the right `impersonate` for that, and no right on what is asked for. What the server does by
itself, as a poll, is asked with its own rights. The deadline and a dry run of the request are passed on. A group that this server
serves itself is refused: the aggregator would send it back here.
Source: k8s.io/client-go transport/round_trippers.go (impersonatingRoundTripper), v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import random as randomness
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from aggserver.authentication.user import UserInfo
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.informers.informer import CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.versions import parse_group_version
from aggserver.resources.errors import Unavailable
from aggserver.resources.events import Bookmark, Event
from aggserver.resources.pages import Page
from aggserver.storage.changes import ADDED, BOOKMARK, DELETED, MODIFIED

__all__ = ["HOSTING", "NO_HOST", "HostCluster", "Hosting", "path_of"]

# Seconds of a request without a deadline.
_SECONDS = 30.0
# A watch of a client lasts for a random time from this to twice this, as in client-go; then the client watches again.
_WATCH_SECONDS = 300
NO_HOST = "there is no hosting cluster: `aggserver serve` has one"
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Hosting:
    """serves: whether this server itself serves a group. random: a number in [0, 1), so that watches don't all end together."""

    cluster: Cluster
    serves: Callable[[str], bool]
    random: Callable[[], float] = randomness.random


# Set while a function of a user runs; None where there is no hosting cluster.
HOSTING: ContextVar[Hosting | None] = ContextVar("aggserver.hosting", default=None)


class Asker(Protocol):
    """What is needed of the request."""

    @property
    def user(self) -> UserInfo: ...
    @property
    def dry_run(self) -> bool: ...
    @property
    def seconds_left(self) -> float: ...


class HostCluster:
    """Made by `Request.host`. Objects are JSON. All methods raise StatusError with the cluster's own words: 403 for what the user
    may not do there, 404, 409; and Unavailable if the cluster does not answer.

    api_version: as `apps/v1`, `v1`. resource: the plural. dry_run: that of the request if it is None.
    """

    def __init__(self, hosting: Hosting, request: Asker) -> None:
        self._hosting = hosting
        self._request = request

    async def list(
        self,
        api_version: str,
        resource: str,
        namespace: str = "",
        *,
        limit: int = 0,
        cursor: str | None = None,
        labels: str = "",
        fields: str = "",
    ) -> Page[JSONObject]:
        """One page; all objects if there is no limit. Returns the items, and the cursor of the next page."""
        query = {"limit": str(limit) if limit else "", "continue": cursor or "", "labelSelector": labels, "fieldSelector": fields}
        found = await self._send("GET", self._path(api_version, resource, namespace), query)
        kind = str(found.get("kind", "")).removesuffix("List")
        # The items of a list of Kubernetes' own kinds have neither.
        items = [{"apiVersion": api_version, "kind": kind, **item} for item in found.get("items") or ()]
        metadata = found.get("metadata") or {}
        return Page(items, metadata.get("continue") or None, revision=metadata.get("resourceVersion") or "")

    async def watch(
        self, api_version: str, resource: str, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[Event[JSONObject] | Bookmark, None]:
        """What changes after a revision, of a list or an object, until the cluster ends the watch after some minutes.

        Begins with `Bookmark(revision)` when the cluster has accepted it. Raises Expired for a revision that is too old.
        """
        query = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": revision, "watch": "true"}
        query |= {"allowWatchBookmarks": "true", "timeoutSeconds": str(round(_WATCH_SECONDS * (1 + self._hosting.random())))}
        path, opened = self._path(api_version, resource, namespace), asyncio.Event()
        headers = _impersonation(self._request)
        events = self._hosting.cluster.watch(path, {k: v for k, v in query.items() if v}, headers, opened.set)
        first, opening = asyncio.ensure_future(anext(events, None)), asyncio.ensure_future(opened.wait())
        try:
            await asyncio.wait((first, opening), return_when=asyncio.FIRST_COMPLETED)
            if opened.is_set():
                yield Bookmark(revision)
            with _as_raised():
                event = await first
                while event is not None:
                    yield _told(event)
                    event = await anext(events, None)
        finally:
            for task in (first, opening):
                task.cancel()
            await asyncio.gather(first, opening, return_exceptions=True)
            await events.aclose()

    async def get(self, api_version: str, resource: str, name: str, namespace: str = "") -> JSONObject:
        return await self._send("GET", self._path(api_version, resource, namespace, name), {})

    async def create(
        self, api_version: str, resource: str, obj: JSONMapping, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        return await self._send("POST", self._path(api_version, resource, namespace), self._dry(dry_run), dict(obj))

    async def update(
        self, api_version: str, resource: str, obj: JSONMapping, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        """Replaces an object, whose resourceVersion is a precondition if it has one."""
        path = self._path(api_version, resource, namespace, obj["metadata"]["name"])
        return await self._send("PUT", path, self._dry(dry_run), dict(obj))

    async def patch(
        self,
        api_version: str,
        resource: str,
        name: str,
        namespace: str = "",
        *,
        merge: JSONMapping,
        dry_run: bool | None = None,
    ) -> JSONObject:
        """A JSON merge patch; a resourceVersion in it is a precondition."""
        return await self._send("PATCH", self._path(api_version, resource, namespace, name), self._dry(dry_run), dict(merge))

    async def delete(
        self, api_version: str, resource: str, name: str, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        return await self._send("DELETE", self._path(api_version, resource, namespace, name), self._dry(dry_run))

    def _dry(self, dry_run: bool | None) -> Mapping[str, str]:
        return {"dryRun": "All"} if (self._request.dry_run if dry_run is None else dry_run) else {}

    async def _send(self, method: str, path: str, query: Mapping[str, str], body: JSONObject | None = None) -> JSONObject:
        given = {name: value for name, value in query.items() if value}
        with _as_raised():
            return await self._hosting.cluster.request(
                method,
                path,
                query=given,
                body=body,
                timeout=min(_SECONDS, self._request.seconds_left),
                headers=_impersonation(self._request),
            )

    def _path(self, api_version: str, resource: str, namespace: str, name: str = "") -> str:
        """Raises ValueError."""
        group, _ = parse_group_version(api_version)
        if group and self._hosting.serves(group):
            raise ValueError(f"{group} is served by this server itself, which must not ask itself through the cluster")
        return path_of(api_version, resource, namespace, name)


@contextlib.contextmanager
def _as_raised() -> Iterator[None]:
    """The errors of the cluster as those that functions raise."""
    try:
        yield
    except ClusterError as error:
        raise StatusError(error.code, error.reason, error.message, retry_after=error.retry_after) from None
    except Unreachable as error:
        raise Unavailable(f"the hosting cluster does not answer: {error.why}") from None


def _told(event: JSONObject) -> Event[JSONObject] | Bookmark:
    """Raises StatusError for an ERROR event."""
    kind, obj = event["type"], event["object"]
    if kind == BOOKMARK:
        return Bookmark(obj["metadata"]["resourceVersion"])
    if kind in (ADDED, MODIFIED, DELETED):
        return Event(kind, obj)
    raise StatusError(int(obj.get("code", 500)), obj.get("reason", ""), obj.get("message", "the watch failed"))


def path_of(api_version: str, resource: str, namespace: str, name: str = "") -> str:
    """The path of a collection or an object. Raises ValueError."""
    group, version = parse_group_version(api_version)
    parts = ["", "apis", group, version] if group else ["", "api", version]
    parts += ["namespaces", quote(namespace, safe="")] if namespace else []
    return "/".join([*parts, resource, *([quote(name, safe="")] if name else [])])


def _impersonation(request: Asker) -> list[tuple[str, str]]:
    """The headers, none for what the server does by itself, as a poll.

    Keys of extra fields are percent-encoded, since they may have characters that a header's name must not have.
    """
    user = request.user
    if user is CONTROLLER:
        return []
    if user.name.startswith(_SERVICE_ACCOUNT):
        # The cluster knows its groups. With more than the name, a constrained impersonation is refused.
        return [("Impersonate-User", user.name)]
    if not user.name:
        raise ValueError("a request without a user can't ask the cluster: it would have the server's own rights there")
    headers = [("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in user.groups)]
    if user.uid:
        headers.append(("Impersonate-Uid", user.uid))
    for key, values in user.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return headers
