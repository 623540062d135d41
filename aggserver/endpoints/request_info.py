"""RequestInfo: the resource, verb and name that the URL and method of a request stand for, whether they exist or not.

Paths of resources, and the same below /apis/{group}/{version}:
    /api/{version}/{resource}[/{name}[/{subresource}]]
    /api/{version}/namespaces/{namespace}/{resource}[/{name}[/{subresource}]]
    /api/{version}/namespaces/{namespace}[/status|/finalize]                 (the resource is namespaces itself)
    /api/{version}/watch/...  and  /api/{version}/proxy/...                  (deprecated: with the verb in front)
Everything else (/, /api, /apis, /apis/{group}, /healthz, /version, ...) is a non-resource request: its verb is the method in
lower case.

Pure. Source: k8s.io/apiserver pkg/endpoints/request/requestinfo.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aggserver.meta import selectors

__all__ = ["RequestInfo", "parse"]

_VERBS = {"POST": "create", "GET": "get", "HEAD": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
# Verbs whose selectors are passed to the authorizer.
_SELECTING_VERBS = frozenset({"list", "watch", "deletecollection"})


class RequestInfo(NamedTuple):
    """Attributes that the URL does not have are ''. In a list or watch, `name` is the field selector's metadata.name.

    The selectors are not parsed, and only set for list, watch and deletecollection. A tuple, since each request has one, and a
    frozen dataclass takes four times as long to make.
    """

    is_resource_request: bool
    path: str
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


def parse(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """The RequestInfo of any method, path and query: a path without a resource is a non-resource request. Never fails."""
    stripped = path.strip("/")
    parts = stripped.split("/") if stripped else []
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return _non_resource(method, path)
    group = ""
    if parts[0] == "apis":
        if len(parts) < 4:
            return _non_resource(method, path)
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        version, rest = parts[1], parts[2:]

    verb = _VERBS.get(method, "")
    old_form = rest[0] in ("watch", "proxy")
    if old_form:
        if len(rest) < 2:
            return _non_resource(method, path)
        verb, rest = rest[0], rest[1:]

    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource = rest[0]
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 and verb != "proxy" else ""

    if not name and verb == "get":
        # Any value but these is true, as in Go's conversion of query parameters to bool.
        watching = "watch" in query and query["watch"].lower() not in ("false", "0")
        verb = "watch" if watching else "list"
        name = selectors.single_name(query.get("fieldSelector", ""))
    elif not name and verb == "delete":
        verb = "deletecollection"
    selecting = not old_form and verb in _SELECTING_VERBS
    return RequestInfo(
        True,
        path,
        verb,
        group,
        version,
        namespace,
        resource,
        subresource,
        name,
        query.get("fieldSelector", "") if selecting else "",
        query.get("labelSelector", "") if selecting else "",
    )


def _non_resource(method: str, path: str) -> RequestInfo:
    return RequestInfo(False, path, method.lower())
