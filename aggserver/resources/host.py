"""Host: the hosting cluster, asked with the rights of the user whose request is being answered.

Requests impersonate the user, with groups, uid and extra fields, so that the cluster's RBAC, admission and audit log see who it
is; the server's own account needs the right `impersonate` for that, and no right on what is asked for. What the server does by
itself, as a poll, is asked with its own rights. The deadline and a dry run of the request are passed on. A group that this server
serves itself is refused: the aggregator would send it back here.
Source: k8s.io/client-go transport/round_trippers.go (impersonatingRoundTripper), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from aggserver.resources.pages import Page

__all__ = ["HOSTING", "HostCluster", "Hosting"]

# Seconds of a request without a deadline.
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Hosting:
    """serves: whether this server itself serves a group."""

    cluster: Cluster
    serves: Callable[[str], bool]


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
        found = await self._send("GET", _path(api_version, resource, namespace), query)
        kind = str(found.get("kind", "")).removesuffix("List")
        # The items of a list of Kubernetes' own kinds have neither.
        items = [{"apiVersion": api_version, "kind": kind, **item} for item in found.get("items") or ()]
        return Page(items, (found.get("metadata") or {}).get("continue") or None)

    async def get(self, api_version: str, resource: str, name: str, namespace: str = "") -> JSONObject:
        return await self._send("GET", _path(api_version, resource, namespace, name), {})

    async def create(
        self, api_version: str, resource: str, obj: JSONMapping, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        return await self._send("POST", _path(api_version, resource, namespace), self._dry(dry_run), dict(obj))

    async def update(
        self, api_version: str, resource: str, obj: JSONMapping, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        """Replaces an object, whose resourceVersion is a precondition if it has one."""
        path = _path(api_version, resource, namespace, obj["metadata"]["name"])
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
        return await self._send("PATCH", _path(api_version, resource, namespace, name), self._dry(dry_run), dict(merge))

    async def delete(
        self, api_version: str, resource: str, name: str, namespace: str = "", *, dry_run: bool | None = None
    ) -> JSONObject:
        return await self._send("DELETE", _path(api_version, resource, namespace, name), self._dry(dry_run))

    def _dry(self, dry_run: bool | None) -> Mapping[str, str]:
        return {"dryRun": "All"} if (self._request.dry_run if dry_run is None else dry_run) else {}

    async def _send(self, method: str, path: str, query: Mapping[str, str], body: JSONObject | None = None) -> JSONObject:
        group = path.split("/")[2] if path.startswith("/apis/") else ""
        if group and self._hosting.serves(group):
            raise ValueError(f"{group} is served by this server itself, which must not ask itself through the cluster")
        given = {name: value for name, value in query.items() if value}
        try:
            return await self._hosting.cluster.request(
                method,
                path,
                query=given,
                body=body,
                timeout=min(_SECONDS, self._request.seconds_left),
                headers=_impersonation(self._request),
            )
        except ClusterError as error:
            raise StatusError(error.code, error.reason, error.message, retry_after=error.retry_after) from None
        except Unreachable as error:
            raise Unavailable(f"the hosting cluster does not answer: {error.why}") from None


def _path(api_version: str, resource: str, namespace: str, name: str = "") -> str:
    """Raises ValueError."""
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
    if not user.name:
        raise ValueError("a request without a user can't ask the cluster: it would have the server's own rights there")
    headers = [("Impersonate-User", user.name), *(("Impersonate-Group", group) for group in user.groups)]
    if user.uid:
        headers.append(("Impersonate-Uid", user.uid))
    for key, values in user.extra.items():
        headers += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return headers
