"""Formats: validation of strings by `format`.

Only the formats here are checked; a definition may name others, which are ignored. Dashes in a format's name don't count
(`date-time` is `datetime`). The checks are upstream's, oddities included: Go's parsers decide, not the standards they cite.
Pure.
Source: k8s.io/kube-openapi pkg/validation/strfmt and pkg/internal/third_party/govalidator; k8s.io/apiextensions-apiserver
pkg/apiserver/validation/formats.go, v0.36.3; Go's net, net/url, net/mail and time, 1.26.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from aggserver.meta import duration, golang, regexp
from aggserver.meta.formats import is_base64, is_date, is_date_time
from aggserver.schema.email_address import is_email_address

__all__ = ["FORMATS", "effective", "is_known"]

Check = Callable[[str], bool]


def is_known(format_: str, types: tuple[str, ...]) -> bool:
    """Whether values of these types are checked for the format; a definition with any other format gets a warning."""
    kind = types[0] if len(types) == 1 else "string"
    if kind == "string":
        return format_.replace("-", "") in FORMATS
    return format_ in {"integer": ("int32", "int64"), "number": ("float", "double")}.get(kind, ())


def effective(format_: str, types: tuple[str, ...]) -> str:
    """The format that validation checks; '' if it ignores the format."""
    return format_ if format_ and is_known(format_, types) else ""


def _pattern(pattern: str, flags: int = 0) -> Check:
    found = re.compile(pattern, re.ASCII | flags).fullmatch
    return lambda text: found(text) is not None


# --- numbers of all sorts ---

_is_hex_color = _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_BYTE = r"[\t\n\f\r ]*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])[\t\n\f\r ]*"
_is_rgb_color = _pattern(rf"rgb\({_BYTE},{_BYTE},{_BYTE}\)")
_is_social_security_number = _pattern(r"\d{3}[- ]\d{2}[- ]\d{4}")
_is_object_id = _pattern("[0-9a-fA-F]{24}")
_CARD = (
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}"
    r"|(?:2131|1800|35\d{3})\d{11}"
)
_is_card = _pattern(_CARD)
_NO_DIGITS = re.compile("[^0-9]+")
_SPACES_AND_MINUS = re.compile(r"[\t\n\f\r -]+")
_is_isbn10_text, _is_isbn13_text = _pattern("[0-9]{9}[0-9X]"), _pattern("[0-9]{13}")


def _is_credit_card(text: str) -> bool:
    digits = _NO_DIGITS.sub("", text)
    if not _is_card(digits):
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _is_isbn10(text: str) -> bool:
    given = _SPACES_AND_MINUS.sub("", text)
    if not _is_isbn10_text(given):
        return False
    digits = [10 if char == "X" else int(char) for char in given]
    return sum(place * digit for place, digit in enumerate(digits, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    given = _SPACES_AND_MINUS.sub("", text)
    if not _is_isbn13_text(given):
        return False
    digits = list(map(int, given))
    return (sum(digits[0::2]) + 3 * sum(digits[1::2])) % 10 == 0


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> str:
    digit = "[0-9a-f]"
    return f"{digit}{{8}}-?{digit}{{4}}-?{version}{digit}{{3}}-?{variant}{digit}{{3}}-?{digit}{{12}}"


# --- time ---

_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
_UNIT_STARTS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_NANOSECONDS = 1e9


def _is_duration(text: str) -> bool:
    """Whether a text is a duration of Go, or contains any integer followed by a unit as Scala names it."""
    try:
        if abs(duration.parse(text)) * _NANOSECONDS < golang.INT64_MAX:
            return True
    except ValueError:
        pass
    lengths = duration.lengths(text)
    if any(int(number[:30]) > golang.INT64_MAX for number, _ in lengths):
        return False
    return any(unit.lower() in _UNITS or unit.lower().startswith(_UNIT_STARTS) for _, unit in lengths)


# --- networks ---

# Compiled at first use, which takes a tenth of a second because of Unicode's letters and symbols.
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}]"
    r"(([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_HEX = "[0-9a-fA-F]{2}"


def _mac(count: int) -> str:
    """The pattern of an address with `count` bytes: with a separator between bytes or pairs of bytes, or without."""
    pairs = rf"{_HEX}{_HEX}(?:\.{_HEX}{_HEX}){{{count // 2 - 1}}}"
    return rf"{_HEX}(?::{_HEX}){{{count - 1}}}|{_HEX}(?:-{_HEX}){{{count - 1}}}|{pairs}|(?:{_HEX}){{{count}}}"


_is_mac = _pattern("|".join(map(_mac, (6, 8, 20))))
_OCTET = "0*(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
# Accepts leading zeros, for objects that older servers accepted.
_is_ip4 = _pattern(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_is_length = _pattern("0*[0-9]{1,3}")
_LEADING_ZEROS = re.compile("(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")


def _is_hostname(text: str) -> bool:
    """Whether a text is a host name: at most 255 bytes, and 63 between dots."""
    encoded = text.encode()
    return len(encoded) <= 255 and all(len(part) <= 63 for part in encoded.split(b".")) and regexp.matcher(_HOSTNAME)(text)


def _is_ip6(text: str, *, sloppy: bool = False) -> bool:
    if "%" in text:
        return False
    try:
        ipaddress.IPv6Address(_LEADING_ZEROS.sub("", text) if sloppy else text)
    except ValueError:
        return False
    return True


def _is_ipv4_or_mapped(text: str) -> bool:
    if "." not in text:
        return False
    return _is_ip6(text, sloppy=True) if ":" in text.partition(".")[0] else _is_ip4(text)


def _is_cidr(text: str) -> bool:
    address, _, length = text.partition("/")
    if not _is_length(length):
        return False
    longest = 32 if _is_ip4(address) else 128 if _is_ip6(address, sloppy=True) else -1
    return int(length) <= longest


# --- URIs ---

_SCHEME = re.compile("[a-zA-Z][a-zA-Z0-9+.-]*")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_is_escaped = _pattern("(?:[^%]|%[0-9a-fA-F]{2})*", re.DOTALL)
_is_userinfo = _pattern(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_is_port = _pattern("(?::[0-9]*)?")
_HOST = r"""[A-Za-z0-9._~!$&'()*+,;=:\[\]<>"-]"""
# In a host, bytes beyond ASCII and the percent sign may be escaped; in a zone, also characters that need no escaping.
_is_host = _pattern(rf"(?:{_HOST}|[^\x00-\x7f]|%25|%[89a-fA-F][0-9a-fA-F])*")
_is_zone = _pattern(rf"(?:{_HOST}|[^\x00-\x7f]|%[0-7][0-9a-fA-F])+")
_is_unescaped_zone = _pattern(rf"(?:{_HOST}|[^\x00-\x7f]|[ %])+")


def _is_uri(text: str) -> bool:
    """Whether a text is an absolute URI or an absolute path, as url.ParseRequestURI accepts them."""
    if not text or _CONTROLS.search(text):
        return False
    if text == "*":
        return True
    if text.startswith(":"):
        return False
    found = _SCHEME.match(text)
    has_scheme = found is not None and text[found.end() : found.end() + 1] == ":"
    rest = text[found.end() + 1 :] if found is not None and has_scheme else text
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        return has_scheme
    if has_scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        userinfo, at, host = authority.rpartition("@")
        if (at and not (_is_userinfo(userinfo) and _is_escaped(userinfo))) or not _is_authority(host, text[: text.index(":")]):
            return False
        rest = slash + path
    return _is_escaped(rest)


def _is_authority(host: str, scheme: str) -> bool:
    opened = host.rfind("[")
    if opened > 0:
        return False
    if opened < 0:
        strict = scheme.lower() in ("http", "https")
        name, colon, port = host.partition(":") if strict or host.count(":") < 2 else host.rpartition(":")
        return _is_host(name) and _is_port(colon + port)
    address, closed, port = host[1:].rpartition("]")
    address, percent, zone = address.partition("%25")
    if not closed or not _is_port(port) or not _is_ip6(address):
        return False
    return not percent or (_is_zone(zone) and _is_unescaped_zone(unquote(zone)))


# --- names ---

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_label, _is_subdomain = _pattern(_LABEL), _pattern(rf"{_LABEL}(\.{_LABEL})*")

FORMATS: Mapping[str, Check] = {
    "bsonobjectid": _is_object_id,
    "uri": _is_uri,
    "email": is_email_address,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4_or_mapped,
    "ipv6": _is_ip6,
    "cidr": _is_cidr,
    "mac": _is_mac,
    "uuid": _pattern(_uuid(), re.IGNORECASE),
    "uuid3": _pattern(_uuid("3"), re.IGNORECASE),
    "uuid4": _pattern(_uuid("4", "[89ab]"), re.IGNORECASE),
    "uuid5": _pattern(_uuid("5", "[89ab]"), re.IGNORECASE),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _is_social_security_number,
    "hexcolor": _is_hex_color,
    "rgbcolor": _is_rgb_color,
    "byte": is_base64,
    "password": lambda text: True,
    "date": is_date,
    "duration": _is_duration,
    "datetime": is_date_time,
    "k8sshortname": lambda text: len(text) <= 63 and _is_label(text),
    "k8slongname": lambda text: len(text) <= 253 and _is_subdomain(text),
}
"""Name without dashes -> check."""
