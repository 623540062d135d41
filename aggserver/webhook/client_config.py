"""Validation of a webhook's client config and of the review versions it reads, which conversion and admission webhooks share.

Pure. Source: k8s.io/apiserver pkg/util/webhook/validation.go, v0.36.3; the validation of both kinds of webhooks, which have the
same rules: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, v0.36.3; k8s.io/kubernetes
pkg/apis/admissionregistration/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote_from_bytes, unquote_to_bytes

from aggserver.meta.field import FieldError, Path, invalid, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1035_label, dns1123_subdomain

__all__ = ["REVIEW_VERSIONS", "review_versions", "url_or_service"]

Errors = Iterator[FieldError]

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of reviews that are sent; a webhook must read one of them."""

_EMPTY_USER = re.compile(r"[^/?#]*//@")
_FORM = "; desired format: https://host[/path]"


def url_or_service(config: JSONMapping, path: Path) -> Errors:
    """The errors of a client config, except for those of its CA bundle. path: that of the config."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, path.child("url"))
    elif service is not None:
        yield from _service(service, path.child("service"))


def _url(text: str, path: Path) -> Errors:
    from aggserver.cel.library import url as go_url  # CEL, which a start does not need

    try:
        parts = go_url.parse(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not parts.host:
        yield invalid(path, parts.host, f"host must be specified{_FORM}")
    if parts.user or _EMPTY_USER.match(text):
        yield invalid(path, _user(parts.user), "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _user(user: str) -> str:
    """The user and password of a URL as Go prints them: decoded and encoded again."""
    return ":".join(quote_from_bytes(unquote_to_bytes(part), safe="$&+,;=") for part in user.split(":", 1))


def _service(service: JSONMapping, path: Path) -> Errors:
    # Upstream passes name and namespace in the wrong order, so an error about one has the path of the other.
    for name, other in (("namespace", "name"), ("name", "namespace")):
        if not service.get(name):
            yield required(path.child(other))
    given = service.get("port")
    port = 443 if given is None else given
    if not 1 <= port <= 65535:
        yield invalid(path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _service_path(service.get("path") or "", path.child("path"))


def _service_path(text: str, path: Path) -> Errors:
    if text in ("", "/"):
        return
    if text == "//":
        yield invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid(path, text, "must start with a '/'")
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, text, f"segment[{index}] may not be empty")
            continue
        for problem in dns1123_subdomain(segment):
            yield invalid(path, text, f"segment[{index}]: {problem}")


def review_versions(versions: Sequence[str], path: Path, *, strict: bool, none: str = "") -> Errors:
    """The errors of a webhook's review versions. strict: whether one of `REVIEW_VERSIONS` is required. none: the detail of the
    error if the list is empty.
    """
    if not versions:
        yield required(path, none)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(path.index(index), version, "duplicate version")
            continue
        for problem in dns1035_label(version):
            yield invalid(path.index(index), version, problem)
    if strict and not any(version in REVIEW_VERSIONS for version in versions):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
