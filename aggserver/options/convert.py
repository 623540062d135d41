"""Parsers of option values: one function for each type of option.

The value of a flag or a variable is a string; a value from the configuration file has a YAML type. Each function accepts both,
and raises ValueError with a text that says what is expected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aggserver.meta import duration
from aggserver.meta.golang import quote
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = [
    "REPEATED",
    "Convert",
    "NamedPair",
    "OneOf",
    "Services",
    "address",
    "api_servers",
    "boolean",
    "integer",
    "members",
    "modules",
    "named_pair",
    "one_of",
    "path",
    "port",
    "positive",
    "rate",
    "seconds",
    "selector",
    "services",
    "share",
    "sources",
    "text",
    "texts",
]

Convert = Callable[[Any], Any]

# (file of a certificate, file of its key, names that it is for)
NamedPair = tuple[str, str, tuple[str, ...]]

# For each service ((namespace, name), (host, port)).
Services = tuple[tuple[tuple[str, str], tuple[str, int]], ...]


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


def selector(value: Any) -> str:
    """A label selector, which may be empty."""
    try:
        LabelSelector.parse(text(value))
    except SelectorError as error:
        raise ValueError(f"must be a label selector: {error}") from None
    return text(value)


def path(value: Any) -> Path | None:
    return Path(text(value)).expanduser() if value else None


def integer(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise ValueError("must be a whole number, 0 or more")
    return int(value)


def positive(value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"[1-9]\d{0,14}", str(value)):
        raise ValueError("must be a whole number, 1 or more")
    return int(value)


def rate(value: Any) -> float:
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}(\.\d{1,9})?", str(value)):
        raise ValueError("must be a number, 0 or more")
    return float(value)


def port(value: Any) -> int:
    if (number := integer(value)) > 65535:
        raise ValueError("must be between 0 and 65535")
    return number


def boolean(value: Any) -> bool:
    words = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
    if (found := words.get(str(value).lower())) is None:
        raise ValueError("must be true or false")
    return found


def seconds(value: Any) -> float:
    length = duration.parse(text(value) if value != 0 else "0")
    if length < 0:
        raise ValueError("must not be negative")
    return length


def texts(value: Any) -> tuple[str, ...]:
    """Members of a comma-separated string, or of a list of such strings, which a repeated flag yields."""
    members = value if isinstance(value, list) else [value]
    return tuple(part.strip() for member in members for part in text(member).split(",") if part.strip())


def api_servers(value: Any) -> tuple[str, ...]:
    """URLs of API servers, in the forms that `texts` accepts: scheme, host, and a port and a path where there is one.

    What can't be such a URL is refused here: later each request would fail, and say only that the address is wrong.
    """
    return tuple(_api_server(member) for member in texts(value))


def _api_server(written: str) -> str:
    form = "must be URLs such as https://host:6443"
    if "://" not in written:
        raise ValueError(f"{form}: {written} has no scheme; write https://{written}")
    try:
        parts = urlsplit(written)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{form}: {written}: {error}") from None
    if parts.scheme not in ("https", "http"):
        raise ValueError(f"{form}: {written} has the scheme {parts.scheme}")
    if not host:
        raise ValueError(f"{form}: {written} has no host")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{form}: {written} has more than scheme, host, port and path; credentials are the kubeconfig's")
    return written


def sources(value: Any) -> tuple[str, ...]:
    """File names and URLs, unchanged: a name may contain a comma, and a double slash in a URL must be kept."""
    return tuple(text(member) for member in (value if isinstance(value, list) else [value]))


def services(value: Any) -> Services:
    """Addresses of services: `NAMESPACE/NAME=HOST:PORT`, in the forms that `texts` accepts. If a service has several, the last
    one counts.
    """
    found = []
    for member in texts(value):
        parts = re.fullmatch(r"([^/=]+)/([^/=]+)=(\[[^\]]+\]|[^:\[\]]+):(\d{1,5})", member)
        if parts is None or not 0 < int(parts[4]) <= 65535:
            raise ValueError("must be NAMESPACE/NAME=HOST:PORT")
        found.append(((parts[1], parts[2]), (parts[3].strip("[]"), int(parts[4]))))
    return tuple(found)


def modules(value: Any) -> tuple[tuple[str, int], ...]:
    """Verbosity by pattern of modules: `PATTERN=N`, comma-separated. Raises ValueError with component-base's texts."""
    found = []
    for member in texts(value):
        pattern, equals, number = member.partition("=")
        if not pattern or not equals or not number or "=" in number:
            raise ValueError(f"{quote(member)} does not have the pattern=N format")
        if not re.fullmatch(r"[0-9]{1,9}", number):
            raise ValueError(f"parsing verbosity in {quote(member)}: must be a whole number, 0 or more")
        found.append((pattern, int(number)))
    return tuple(found)


def named_pair(value: Any) -> tuple[NamedPair, ...]:
    """`CERT,KEY` or `CERT,KEY:NAME,...`, once for each flag. Raises ValueError with component-base's texts."""
    found: list[NamedPair] = []
    for member in value if isinstance(value, list) else [value]:
        files, colon, names = text(member).partition(":")
        listed = tuple(name.strip() for name in names.split(","))
        if colon and not names.strip():
            raise ValueError("empty names list is not allowed")
        if files.count(",") != 1:
            raise ValueError("expected comma separated certificate and key file paths")
        cert, _, key = files.partition(",")
        found.append((cert.strip(), key.strip(), listed if colon else ()))
    return tuple(found)


def share(value: Any) -> float:
    """A number, in Go's or YAML's form."""
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,9}(\.\d{0,20})?(e-?\d{1,3})?", str(value)):
        raise ValueError("must be a number")
    return float(value)


def members(value: Any) -> tuple[str, ...]:
    """Members of a comma-separated string, or of a list of such strings, with the empty ones."""
    return tuple(part.strip() for each in (value if isinstance(value, list) else [value]) for part in text(each).split(","))


def ipv4_network(value: Any) -> str:
    """A range of IPv4 addresses. Of several that are separated by commas, as for two IP families, the first counts."""
    written = text(value).partition(",")[0]
    try:
        return str(IPv4Network(written, strict=False))
    except ValueError as error:
        raise ValueError(f"must be a range of IPv4 addresses, such as 10.0.0.0/24: {error}") from None


def address(value: Any) -> str:
    return str(ip_address(text(value)))


class OneOf:
    """Accepts one of the strings in `choices`."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.choices = choices

    def __call__(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}")
        return str(value)


def one_of(*choices: str) -> Convert:
    return OneOf(choices)


# Converters of flags that may be repeated.
REPEATED = (api_servers, texts, sources, services, modules, named_pair, members)
