"""URLs, parsed as by Go: `url('https://example.com:80/a?b=c').getHost()`.

Source: k8s.io/apiserver pkg/cel/library/urls.go, v0.36.3; Go's net/url, 1.26, also for error texts.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from aggserver.cel.library.ip import read_address
from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta.golang import quote

__all__ = ["IMPLEMENTATIONS", "URL", "check_request_uri", "parse"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)?:(.*)", re.ASCII | re.DOTALL)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PATH = "$&+,/:;=@"
_VALID_PATH = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@\[\]%/]*", re.ASCII)
_HOST = frozenset(string.ascii_letters + string.digits + "-_.~!\"$&'()*+,;=:[]<>%")
_MAX_PARAMETERS = 10_000


@dataclass(frozen=True, slots=True)
class URL(Opaque):
    type_name: ClassVar[str] = "kubernetes.URL"
    scheme: str
    opaque: str
    user: str
    host: str
    path: str
    """With its percent escapes."""
    query: str
    has_query: bool
    """Whether there is a `?`. Part of equality, as Go's ForceQuery is: `http://a?` is not `http://a`."""
    fragment: str = ""

    def equals(self, other: object) -> bool:
        if not isinstance(other, URL):
            raise no_such_overload()
        return self == other

    def host_and_port(self) -> tuple[str, str]:
        host, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.fullmatch(f":{port}"):
            host, port = self.host, ""
        return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def check_request_uri(text: str) -> None:
    """Check a URL as Go's url.ParseRequestURI. Raises ValueError with Go's message."""
    _parse(text, text, is_request=True)


def parse(text: str) -> URL:
    """Parse a URL as Go's url.Parse. Raises ValueError with Go's message."""
    address, _, fragment = text.partition("#")
    found = _parse(text, address, is_request=False, fragment=fragment)
    _check_escapes(text, fragment)
    return found


def _parse_url(text: str) -> URL:
    check_request_uri(text)
    return parse(text)


def _invalid(whole: str, why: str) -> ValueError:
    return ValueError(f"parse {quote(whole)}: {why}")


def _parse(whole: str, text: str, *, is_request: bool, fragment: str = "") -> URL:
    if any(char < " " or char == "\x7f" for char in text):
        raise _invalid(whole, "net/url: invalid control character in URL")
    if not text and is_request:
        raise _invalid(whole, "empty url")
    scheme = opaque = user = host = ""
    rest = text
    found = _SCHEME.fullmatch(text)
    if found is not None:
        if found[1] is None:
            raise _invalid(whole, "missing protocol scheme")
        scheme, rest = found[1].lower(), found[2]
    rest, mark, query = rest.partition("?")
    if rest == "*" and not scheme and not mark:
        return URL("", "", "", "", "*", "", False, fragment)
    if not rest.startswith("/"):
        if scheme:
            opaque, rest = rest, ""
        elif is_request:
            raise _invalid(whole, "invalid URI for request")
        elif ":" in rest.partition("/")[0]:
            raise _invalid(whole, "first path segment in URL cannot contain colon")
    elif rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _authority(whole, scheme, authority)
    _check_escapes(whole, rest)
    path = rest if _VALID_PATH.fullmatch(rest) else quote_from_bytes(unquote_to_bytes(rest), safe=_PATH)
    return URL(scheme, opaque, user, host, path, query, bool(mark), fragment)


def _check_escapes(whole: str, text: str) -> None:
    found = _ESCAPE.search(text)
    if found is not None:
        raise _invalid(whole, f"invalid URL escape {quote(text[found.start() : found.start() + 3])}")


def _authority(whole: str, scheme: str, authority: str) -> tuple[str, str]:
    user, _, host = authority.rpartition("@")
    host = _host(whole, scheme, host)
    if not _USER.fullmatch(user):
        raise _invalid(whole, "net/url: invalid userinfo")
    _check_escapes(whole, user)
    return user, host


def _host(whole: str, scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise _invalid(whole, "invalid IP-literal")
    if bracket == 0:
        literal, closing, port = host[1:].rpartition("]")
        if not closing:
            raise _invalid(whole, "missing ']' in host")
        _check_port(whole, port)
        name, percent, zone = literal.partition("%25")
        inside = _unescape_host(whole, name) + (_unescape_zone(whole, percent + zone) if percent else "")
        try:
            address, _ = read_address(inside)
        except ValueError as error:
            raise _invalid(whole, f"invalid host: {error}") from None
        if address.version == 4:
            raise _invalid(whole, "invalid IP-literal")
        return f"[{inside}]{port}"
    if ":" in host:
        colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
        _check_port(whole, host[colon:])
    return _unescape_host(whole, host)


def _check_port(whole: str, port: str) -> None:
    if not _PORT.fullmatch(port):
        raise _invalid(whole, f"invalid port {quote(port)} after host")


def _unescape_host(whole: str, text: str) -> str:
    """In a host, only `%` and bytes that are not ASCII may be escaped."""
    for position, char in enumerate(text):
        if char == "%":
            escape = text[position : position + 3]
            _check_escapes(whole, escape)
            if escape[1] in "01234567" and escape != "%25":
                raise _invalid(whole, f"invalid URL escape {quote(escape)}")
        elif char < "\x80" and char not in _HOST:
            raise _invalid(whole, f"invalid character {quote(char)} in host name")
    return _unquote(text)


def _unescape_zone(whole: str, text: str) -> str:
    _check_escapes(whole, text)
    for position, char in enumerate(text):
        if char == "%":
            escape = text[position : position + 3]
            meant = chr(int(escape[1:], 16))
            if escape != "%25" and meant != " " and (meant >= "\x80" or meant not in _HOST or meant == "%"):
                raise _invalid(whole, f"invalid URL escape {quote(escape)}")
        elif char < "\x80" and char not in _HOST:
            raise _invalid(whole, f"invalid character {quote(char)} in host name")
    return _unquote(text)


def _unquote(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")


def _query(url: URL) -> dict[str, list[str]]:
    """The parameters of the query; those that can't be parsed are left out."""
    values: dict[str, list[str]] = {}
    if url.query.count("&") >= _MAX_PARAMETERS:
        return values
    for pair in url.query.split("&"):
        if pair and ";" not in pair and _ESCAPE.search(pair) is None:
            key, _, value = pair.replace("+", " ").partition("=")
            values.setdefault(_unquote(key), []).append(_unquote(value))
    return values


def _url(text: str) -> URL:
    try:
        return _parse_url(text)
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except ValueError:
        return False
    return True


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_url": _url,
    "is_url_string": _is_url,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: url.host_and_port()[0],
    "url_get_port": lambda url: url.host_and_port()[1],
    "url_get_escaped_path": lambda url: url.path,
    "url_get_query": _query,
}
