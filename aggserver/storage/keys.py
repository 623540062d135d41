"""Keys of objects in the store, and the continue tokens of lists. Pure.

A key is `/<group>/<plural>/<namespace>/<name>`, without the namespace for cluster-scoped resources. This is kube-apiserver's
layout of custom resources below its `--etcd-prefix`, so that either server can read what the other wrote. The core group, which
kube-apiserver leaves out of its keys, is `core` here; no custom resource can have that group, because theirs contain a dot.
Source: k8s.io/apiserver pkg/storage/continue.go, pkg/registry/generic/registry/store.go; k8s.io/apiextensions-apiserver
pkg/apiserver/customresource_handler.go (GetRESTOptions), v0.36.3.
"""

from __future__ import annotations

import base64
import string
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from aggserver.meta import codec
from aggserver.meta.golang import json_kind, to_json

__all__ = [
    "CORE",
    "InvalidContinue",
    "ObjectKey",
    "ancestors",
    "decode_continue",
    "encode_continue",
    "end_of",
    "prefix_end",
    "resource_prefix",
    "split",
    "split_prefix",
]

CORE = "core"
_ENCODING = "meta.k8s.io/v1"
_TOKEN_ALPHABET = frozenset(string.ascii_letters + string.digits + "-_\r\n")
_LINE_BREAKS = {ord("\r"): None, ord("\n"): None}
_INVALID = "continue key is not valid"
# The members of a continue token: for each its type in Python and, for the error, in Go.
_MEMBERS: Mapping[str, tuple[type, str]] = {"v": (str, "string"), "rv": (int, "int64"), "start": (str, "string")}
# The member with the revision of a list of objects that were moved here. No other server knows it.
_OURS = "at"


class ObjectKey(NamedTuple):
    """The parts of a key. `group` is '' for the core group, `namespace` is '' for a cluster-scoped object."""

    group: str
    resource: str
    namespace: str
    name: str


class InvalidContinue(ValueError):
    """An invalid continue token. The text is upstream's, and becomes the message of a 400."""


def resource_prefix(group: str, resource: str) -> str:
    """The prefix of all objects of a resource; ends with '/'."""
    return f"/{group or CORE}/{resource}/"


def split(key: str) -> ObjectKey:
    """The parts of an object's key. Raises ValueError for any other key."""
    empty, *parts = key.split("/")
    if empty or len(parts) not in (3, 4) or "" in parts:
        raise ValueError(f"{key!r} is not an object's key")
    group, resource, *inside = parts
    return ObjectKey("" if group == CORE else group, resource, inside[0] if len(inside) == 2 else "", inside[-1])


def split_prefix(prefix: str) -> tuple[str, str]:
    """The group and the resource of the prefix of a resource."""
    _, group, resource, _ = prefix.split("/")
    return "" if group == CORE else group, resource


def prefix_end(prefix: str) -> str:
    """The first key after all that begin with `prefix`, which ends with '/' ('0' follows '/' in ASCII)."""
    return prefix[:-1] + "0"


def end_of(prefix: str) -> str:
    """The end (exclusive) of the range of keys with a prefix, or of the one key if it doesn't end with '/'."""
    return prefix_end(prefix) if prefix.endswith("/") else prefix + "\0"


def ancestors(key: str) -> list[str]:
    """Every prefix of the key, shortest first, and the key itself: `/`, `/g/`, `/g/r/`, `/g/r/ns/`, `/g/r/ns/name`."""
    found = []
    at = key.find("/")
    while at >= 0:
        found.append(key[: at + 1])
        at = key.find("/", at + 1)
    if found[-1] != key:
        found.append(key)
    return found


def encode_continue(start: str, revision: int, *, moved: bool = False) -> str:
    """The token of a list that continues at `start`: a key without the list's prefix (`<last key>` and NUL, as upstream).

    `revision` is that of the list; -1, for a client whose token has expired, lists the rest at the newest revision.

    moved: the objects may go back to another server, which has another history, so that `revision` is meaningless there. So the
    token has the revision -1 for that server, which then lists the rest at its newest revision; only this server reads `at`.
    """
    position = {"rv": -1, _OURS: revision} if moved else {"rv": revision}
    document = orjson.dumps({"v": _ENCODING, **position, "start": start})
    return base64.urlsafe_b64encode(document).rstrip(b"=").decode()


def decode_continue(token: str, prefix: str) -> tuple[str, int]:
    """The key to continue at, which is always below `prefix`, and the revision. Raises InvalidContinue."""
    version, revision, start = _members(token)
    if version != _ENCODING:
        raise InvalidContinue(f"{_INVALID}: server does not recognize this encoded version {version}")
    if revision == 0:
        raise InvalidContinue(f"{_INVALID}: incorrect encoded start resourceVersion (version {_ENCODING})")
    if not start:
        raise InvalidContinue(f"{_INVALID}: encoded start key empty (version {_ENCODING})")
    inside = start.removeprefix("/")
    # Empty and dot segments could lead out of the prefix, into another namespace or resource.
    if inside and any(segment in ("", ".", "..") for segment in inside.split("/")):
        raise InvalidContinue(f"{_INVALID}: {start}")
    return prefix + inside, revision


def _members(token: str) -> tuple[str, int, str]:
    """Version, revision and start; missing ones are empty. Names match in any case, as in Go's decoder."""
    found: dict[str, Any] = {}
    document = _document(token)
    for key, value in document.items():
        name = key.lower()
        if value is None or name not in _MEMBERS:
            continue
        wanted, go_type = _MEMBERS[name]
        if type(value) is not wanted:
            kind = json_kind(value)
            what = f"number {to_json(value)}" if kind == "number" and wanted is int else kind
            raise InvalidContinue(
                f"{_INVALID}: json: cannot unmarshal {what} into Go struct field continueToken.{name} of type {go_type}"
            )
        found[name] = value
    revision = found.get("rv", 0)
    if revision == -1 and type(document.get(_OURS)) is int:
        revision = document[_OURS]
    return found.get("v", ""), revision, found.get("start", "")


def _document(token: str) -> dict[str, Any]:
    try:
        document = codec.decode_json(_decoded(token))
    except codec.DecodeError as error:
        raise InvalidContinue(f"{_INVALID}: {error}") from None
    if isinstance(document, dict | None):
        return document or {}
    raise InvalidContinue(f"{_INVALID}: json: cannot unmarshal {json_kind(document)} into Go value of type storage.continueToken")


def _decoded(token: str) -> bytes:
    """Decode as Go's base64.RawURLEncoding, which skips line breaks. Raises InvalidContinue."""
    for position, character in enumerate(token):
        if character not in _TOKEN_ALPHABET:
            raise InvalidContinue(f"{_INVALID}: illegal base64 data at input byte {position}")
    bare = token.translate(_LINE_BREAKS)
    if len(bare) % 4 == 1:
        raise InvalidContinue(f"{_INVALID}: illegal base64 data at input byte {len(token) - 1}")
    return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
