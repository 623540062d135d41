"""Rules of single texts in Pods: names of ports, variables and headers, keys, paths and addresses.

Each function returns upstream's words for what is wrong with a text, or yields errors with the path.
Pure. Source: k8s.io/apimachinery pkg/util/validation/{validation,ip}.go, v0.36.3; k8s.io/kubernetes
pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Address, ip_address
from typing import Any

from aggserver.meta.field import FieldError, Path, invalid
from aggserver.meta.names import NameRule

__all__ = [
    "address_problems",
    "config_key",
    "described",
    "file_mode",
    "header_name",
    "named",
    "no_backsteps",
    "not_found",
    "port_name",
    "port_problems",
    "relative_path",
    "search_domain",
    "unreserved_path",
    "variable_name",
]

_PORT = re.compile("[-a-z0-9]+")
_LETTER = re.compile("[a-z]")
_HEADER = re.compile("[-A-Za-z0-9]+")
_KEY = re.compile("[-._a-zA-Z0-9]+")
_MAX_KEY = 253
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_LOOSE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DOMAIN = rf"{_LOOSE}(\.{_LOOSE})*"
_is_domain = re.compile(r"_?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?(?:\._?[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?)*").fullmatch
_MAX_DOMAIN = 253
_OLD_IPV4 = re.compile(r"\d{1,20}(?:\.\d{1,20}){3}")


def described(path: Path, value: Any, texts: Iterable[str]) -> Iterator[FieldError]:
    """An error for each text about a value."""
    return (invalid(path, value, text) for text in texts)


def named(path: Path, value: str, rule: NameRule) -> Iterator[FieldError]:
    """The errors of a name. rule: one of `meta.names`."""
    return described(path, value, rule(value, False))


def not_found(path: Path, value: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueNotFound", path, value, detail)


def port_name(name: str) -> Iterator[str]:
    if len(name.encode()) > 15:
        yield "must be no more than 15 characters"
    if not _PORT.fullmatch(name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not _LETTER.search(name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name.startswith("-") or name.endswith("-"):
        yield "must not begin or end with a hyphen"


def port_problems(port: int | str, path: Path) -> Iterator[FieldError]:
    """The errors of the number or the name of a port."""
    if isinstance(port, str):
        yield from described(path, port, port_name(port))
    elif not 1 <= port <= 65535:
        yield invalid(path, port, "must be between 1 and 65535, inclusive")


def variable_name(name: str) -> Iterator[str]:
    """Of an environment variable."""
    if not name:
        yield "environment variable name must be non-empty"
    if not all(" " <= character <= "~" and character != "=" for character in name):
        yield "a valid environment variable name must consist only of printable ASCII characters other than '='"


def header_name(name: str) -> Iterator[str]:
    if not _HEADER.fullmatch(name):
        what = "a valid HTTP header must consist of alphanumeric characters or '-'"
        yield f"{what} (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"


def config_key(key: str) -> Iterator[str]:
    """Of a ConfigMap or a Secret."""
    if len(key.encode()) > _MAX_KEY:
        yield f"must be no more than {_MAX_KEY} characters"
    if not _KEY.fullmatch(key):
        yield _KEY_TEXT
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def search_domain(name: str) -> Iterator[str]:
    """Of DNS, which may have underscores."""
    if len(name.encode()) > _MAX_DOMAIN:
        yield f"must be no more than {_MAX_DOMAIN} characters"
    if not _is_domain(name):
        what = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', "
            "and must start and end with an alphanumeric character"
        )
        yield f"{what} (e.g. 'example.com', regex used for validation is '{_DOMAIN}')"


def no_backsteps(text: str, path: Path) -> Iterator[FieldError]:
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


def relative_path(text: str, path: Path) -> Iterator[FieldError]:
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    yield from no_backsteps(text, path)


def unreserved_path(text: str, path: Path) -> Iterator[FieldError]:
    """A relative path that does not begin with dots, which the kubelet uses itself."""
    yield from relative_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield invalid(path, text, "must not start with '..'")


def file_mode(mode: int | None, path: Path) -> Iterator[FieldError]:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def address_problems(text: str, path: Path) -> Iterator[FieldError]:
    """The errors of an IP address."""
    try:
        address = ip_address(text)
    except ValueError:
        if _OLD_IPV4.fullmatch(text) and all(int(part) <= 255 for part in text.split(".")):
            yield invalid(path, text, "must not have leading 0s")
        else:
            yield invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if isinstance(address, IPv6Address) and "%" in text:
        yield invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
    elif isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        yield invalid(path, text, "must not be an IPv4-mapped IPv6 address")
