"""Request headers: the user that an authenticating front proxy (kube-apiserver's aggregator) names in them.

Before these headers are read, the proxy's certificate must be verified against `RequestHeaderConfig.roots` and its common name
with `check_name` (`delegating.py` does this). `strip` removes the headers from every request, so that later steps never see
an identity that was not authenticated. Pure. Header names are lower-case bytes, as in ASGI.
Source: k8s.io/apiserver pkg/authentication/request/headerrequest, pkg/endpoints/filters/authentication.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from aggserver.authentication.user import UserInfo
from aggserver.authentication.x509 import CertificateError, Roots

__all__ = [
    "Headers",
    "RequestHeaderConfig",
    "authenticate",
    "check_name",
    "names_somebody",
    "split",
    "strip",
    "text_of",
    "unescape_key",
]

Headers = Sequence[tuple[bytes, bytes]]

# Headers that are removed whatever the configuration: a handler must never see one that was not authenticated.
STANDARD_NAMES = frozenset({b"x-remote-user", b"x-remote-uid", b"x-remote-group"})
STANDARD_PREFIXES = (b"x-remote-extra-",)

# Users that are kept, and the most bytes of the headers that name one.
_KEPT_USERS = 1024
_KEPT_BYTES = 2048

MALFORMED_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class RequestHeaderConfig:
    """The front-proxy settings. An empty `allowed_names` allows every certificate that `roots` verify."""

    roots: Roots
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[bytes, ...] = (b"x-remote-user",)
    uid_headers: tuple[bytes, ...] = (b"x-remote-uid",)
    group_headers: tuple[bytes, ...] = (b"x-remote-group",)
    extra_prefixes: tuple[bytes, ...] = (b"x-remote-extra-",)
    identity_names: frozenset[bytes] = field(init=False)
    identity_prefixes: tuple[bytes, ...] = field(init=False)
    # Users by the headers that name them: a proxy's clients are few, and send many requests.
    known: dict[tuple[tuple[bytes, bytes], ...], UserInfo] = field(init=False, default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Computed once, because `strip` needs them for every request.
        names = STANDARD_NAMES.union(self.username_headers, self.uid_headers, self.group_headers)
        object.__setattr__(self, "identity_names", names)
        object.__setattr__(self, "identity_prefixes", tuple(dict.fromkeys((*STANDARD_PREFIXES, *self.extra_prefixes))))

    @classmethod
    def from_configmap(cls, data: Mapping[str, str], roots: Roots) -> RequestHeaderConfig:
        """From the ConfigMap `extension-apiserver-authentication`, whose lists are JSON arrays in strings. Raises ValueError.

        A missing list is empty, and does not default to the X-Remote-* headers: a kube-apiserver that does not list a UID header
        does not remove such a header of its client, so the header can't be trusted.
        """
        return cls(
            roots,
            tuple(_strings(data, "requestheader-allowed-names")),
            _names(_strings(data, "requestheader-username-headers")),
            _names(_strings(data, "requestheader-uid-headers")),
            _names(_strings(data, "requestheader-group-headers")),
            _names(_strings(data, "requestheader-extra-headers-prefix")),
        )

    @classmethod
    def from_flags(
        cls,
        roots: Roots,
        allowed_names: Sequence[str],
        username_headers: Sequence[str],
        uid_headers: Sequence[str],
        group_headers: Sequence[str],
        extra_prefixes: Sequence[str],
    ) -> RequestHeaderConfig:
        """From `--requestheader-*`. Raises ValueError for an empty name, which would match too much or nothing."""
        for name in (*username_headers, *uid_headers, *group_headers, *extra_prefixes, *allowed_names):
            if not name.strip():
                raise ValueError(f'empty header "{name}"')
        return cls(
            roots,
            tuple(allowed_names),
            _names(username_headers),
            _names(uid_headers),
            _names(group_headers),
            _names(extra_prefixes),
        )


def check_name(common_name: str, config: RequestHeaderConfig) -> None:
    """Raises CertificateError unless a proxy with this common name is allowed."""
    if config.allowed_names and common_name not in config.allowed_names:
        raise CertificateError(f"x509: subject with cn={common_name} is not in the allowed list")


def authenticate(headers: Headers, config: RequestHeaderConfig) -> UserInfo | None:
    """The user that the proxy names, or None. Of several user name headers, the first with a value is used.

    headers: those that `split` has found; others have no effect.
    """
    identity = tuple(headers)
    user = config.known.get(identity)
    if user is not None:
        return user
    name = _first(identity, config.username_headers)
    if not name:
        return None
    uid, groups = _first(identity, config.uid_headers), _groups(identity, config.group_headers)
    user = UserInfo(name, uid, groups, _extra(identity, config))
    if sum(len(key) + len(value) for key, value in identity) <= _KEPT_BYTES:
        if len(config.known) >= _KEPT_USERS:
            config.known.clear()
        config.known[identity] = user
    return user


def split(headers: Headers, config: RequestHeaderConfig | None) -> tuple[Headers, Headers]:
    """The headers that carry an identity, and the others: the same object if that is all of them."""
    names = config.identity_names if config is not None else STANDARD_NAMES
    prefixes = config.identity_prefixes if config is not None else STANDARD_PREFIXES
    identity: list[tuple[bytes, bytes]] = []
    others: list[tuple[bytes, bytes]] = []
    for pair in headers:
        (identity if pair[0] in names or pair[0].startswith(prefixes) else others).append(pair)
    return (identity, others) if identity else ((), headers)


def strip(headers: Headers, config: RequestHeaderConfig | None) -> Headers:
    """The headers without those that carry an identity; the same object if there are none."""
    return split(headers, config)[1]


def names_somebody(headers: Headers) -> bool:
    """Whether there are identity headers with the standard names, whoever has set them."""
    return strip(headers, None) is not headers


def text_of(value: bytes) -> str:
    """A header's value as text: UTF-8 with invalid bytes replaced, as Go does when it encodes the value as JSON."""
    return value.decode("utf-8", "replace")


def _first(headers: Headers, wanted: Sequence[bytes]) -> str:
    """The first non-empty value among the headers `wanted`. Of a repeated header only the first counts, as in Go's Header.Get."""
    for name in wanted:
        for key, value in headers:
            if key == name:
                if value:
                    return text_of(value)
                break
    return ""


def _groups(headers: Headers, wanted: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(text_of(value) for name in wanted for key, value in headers if key == name and value)


def _extra(headers: Headers, config: RequestHeaderConfig) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    # Prefixes are the outer loop, so that values are in the order of the prefixes, as upstream.
    for prefix in config.extra_prefixes:
        for key, value in headers:
            if key.startswith(prefix):
                found.setdefault(unescape_key(key[len(prefix) :]), []).append(text_of(value))
    return {key: tuple(values) for key, values in found.items()}


@lru_cache(maxsize=256)
def unescape_key(encoded: bytes) -> str:
    """The key of an extra field, from the percent-encoding that header names need. A malformed key is only lower-cased."""
    lowered = text_of(encoded).lower()
    if MALFORMED_ESCAPE.search(lowered):
        return lowered
    return text_of(unquote_to_bytes(lowered))


def _strings(data: Mapping[str, str], key: str) -> list[str]:
    text = data.get(key, "")
    if not text:
        return []
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{key} is not a JSON list of strings: {error}") from error
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is not a JSON list of strings: {text}")
    return value


def _names(names: Sequence[str]) -> tuple[bytes, ...]:
    # An empty prefix would make every header an identity header.
    return tuple(name.strip().lower().encode() for name in names if name.strip())
