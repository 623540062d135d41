"""Work: how many seats a request takes.

A list takes as many as its objects weigh, and a watch that begins with them too; all else takes one. The bytes of a list in JSON
are only joined. For a Table, YAML and other forms each object has to be decoded, which is several times the work.
Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/request/{width,list_work_estimator}.go, v0.36.3: the seats of kube-apiserver,
which weighs memory rather than time, are those of the list in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.endpoints.request_info import RequestInfo

__all__ = ["Extent", "seats"]

_BYTES_PER_SEAT = 100_000
_MOST = 1_000_000 // _BYTES_PER_SEAT
# An object that is decoded takes so many times its bytes, and this many more.
_DECODED, _DECODED_MORE = 2, 2_000

# (group, resource, namespace) -> the number of objects, and the bytes of all of them.
Extent = Callable[[str, str, str], tuple[int, int]]


def seats(info: RequestInfo, query: Mapping[str, str], accept: str, extent: Extent) -> int:
    """accept: the Accept header."""
    if info.verb not in ("list", "watch") or info.name or info.subresource:
        return 1
    if info.verb == "watch" and not _begins_with_objects(query):
        return 1
    count, size = extent(info.group, info.resource, info.namespace)
    if not count:
        return 1
    limit = query.get("limit", "")
    if limit.isdigit() and 0 < int(limit[:9]) < count:
        size = size * int(limit[:9]) // count
        count = int(limit[:9])
    if _is_decoded(accept):
        size = size * _DECODED + count * _DECODED_MORE
    return max(1, min(-(-size // _BYTES_PER_SEAT), _MOST))


def _begins_with_objects(query: Mapping[str, str]) -> bool:
    return query.get("sendInitialEvents", "").lower() in ("true", "1") or query.get("resourceVersion", "") in ("", "0")


def _is_decoded(accept: str) -> bool:
    return "as=" in accept or "yaml" in accept or "protobuf" in accept
