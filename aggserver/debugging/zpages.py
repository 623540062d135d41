"""`/statusz` and `/flagz`: what the process is, and its flags; as text for people, and as an object of config.k8s.io.

The text has one delimiter, where upstream draws one of four so that nobody parses it.
Source: k8s.io/apiserver pkg/server/statusz, pkg/server/flagz, v0.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from aggserver.endpoints.negotiation import MediaType, Negotiator
from aggserver.endpoints.request import PLAIN_TEXT, Request, Response
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject

__all__ = ["flagz", "statusz"]

_NAME = "aggserver"
_GROUP = "config.k8s.io"
_DEPRECATED = "v1alpha1"
_WARNING = (
    "\n{name} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only.\n"
)
# First parts of paths that are for clients of the API.
_NOT_FOR_DEBUGGING = frozenset({"/apis", "/api", "/openid", "/openapi", "/.well-known"})


def _negotiator(kind: str) -> Negotiator:
    types = ("application/json", "application/yaml", "text/plain")
    return Negotiator(types, [(kind, _GROUP, "v1beta1"), (kind, _GROUP, "v1alpha1")], plain=False, only_plain=["text/plain"])


_STATUSZ, _FLAGZ = _negotiator("Statusz"), _negotiator("Flagz")


def statusz(
    request: Request, *, started: float, now: float, version: str, emulated: str, python: str, paths: Iterable[str]
) -> Response:
    """started, now: seconds since the epoch. version: of the server. emulated: of Kubernetes. paths: all that are listed."""
    seconds = max(0, int(now - started))
    folders = sorted({"/" + path.split("/")[1] for path in paths if path.strip("/")} - _NOT_FOR_DEBUGGING)
    text = (
        f"\nStarted: {time.strftime('%a %b %e %H:%M:%S UTC %Y', time.gmtime(started))}\n"
        f"Up: {seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec\n"
        f"Go version: {python}\nBinary version: {version}\nEmulation version: {emulated}\nPaths: {' '.join(folders)}\n"
    )
    content: JSONObject = {
        "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "uptimeSeconds": seconds,
        "goVersion": python,
        "binaryVersion": version,
        "emulationVersion": emulated,
        "paths": folders,
    }
    return _answer(request, _STATUSZ, "statusz", text, content)


def flagz(request: Request, flags: Mapping[str, str]) -> Response:
    """flags: by name, without credentials."""
    text = "".join(f"{name}: {value}\n" for name, value in sorted(flags.items()))
    return _answer(request, _FLAGZ, "flagz", text, {"flags": dict(sorted(flags.items()))})


def _answer(request: Request, negotiator: Negotiator, page: str, text: str, content: JSONObject) -> Response:
    accept = request.header(b"accept").strip()
    try:
        media = negotiator.negotiate(accept or "text/plain")
    except StatusError as error:
        # As JSON, whatever else the client takes.
        request.failure = (error.reason, error.message)
        return Response(error.code, *MediaType(pretty=True).encode(error.status()))
    if not media.convert:
        return Response(200, (_WARNING.format(name=_NAME, page=page) + text).encode(), PLAIN_TEXT)
    if media.api_version.endswith(_DEPRECATED):
        request.warnings.append(f"This version of the {page} endpoint is deprecated. Please use a newer version.")
    kind = {"kind": media.convert, "apiVersion": media.api_version, "metadata": {"name": _NAME}}
    body, content_type = media.encode({**kind, **content})
    version = media.api_version.rpartition("/")[2]
    return Response(200, body, content_type + f";g={_GROUP};v={version};as={media.convert}".encode())
