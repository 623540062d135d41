"""IP addresses. Zones and IPv4-mapped IPv6 addresses are refused.

Source: k8s.io/apiserver pkg/cel/library/ip.go, v0.36.3; Go's net/netip, 1.26, also for error texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar

from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta.golang import quote

__all__ = ["IMPLEMENTATIONS", "IP", "KEPT", "LONGEST_KEPT", "Address", "parse_ip", "print_address", "read_address"]

Address = IPv4Address | IPv6Address
_OCTETS: Mapping[str, int] = {str(octet): octet for octet in range(256)}
_HEX = re.compile("[0-9a-fA-F]*", re.ASCII)
_BROADCAST = IPv4Address("255.255.255.255")

# Parsed texts that are kept, and the characters of the longest. A rule names the same text several times: it asks whether it is
# an address, and then for its parts; and a loop over addresses parses the network for each. Parsing takes most of such a rule.
KEPT = 1024
LONGEST_KEPT = 64


@dataclass(frozen=True, slots=True)
class IP(Opaque):
    type_name: ClassVar[str] = "net.IP"
    address: Address

    def equals(self, other: object) -> bool:
        if not isinstance(other, IP):
            raise no_such_overload()
        return self == other

    def size(self) -> int:
        return self.address.max_prefixlen // 8

    def __str__(self) -> str:
        return print_address(self.address)


def print_address(address: Address) -> str:
    """The address as Go prints it: an IPv4-mapped IPv6 address has dots."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return f"::ffff:{mapped}" if mapped is not None else str(address)


def parse_ip(text: str) -> IP:
    """Raises ValueError."""
    return _known_ip(text) if len(text) <= LONGEST_KEPT else _parse_ip(text)


def _parse_ip(text: str) -> IP:
    try:
        address, zone = read_address(text)
    except ValueError as error:
        raise ValueError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise ValueError(f"IP address {quote(text)} with zone value is not allowed")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IP(address)


_known_ip = lru_cache(KEPT)(_parse_ip)


def read_address(text: str) -> tuple[Address, str]:
    """Parse an address and its zone, as Go's netip.ParseAddr. Raises ValueError."""
    try:
        first, second, third, fourth = text.split(".", 4)
        return IPv4Address(_OCTETS[first] << 24 | _OCTETS[second] << 16 | _OCTETS[third] << 8 | _OCTETS[fourth]), ""
    except (KeyError, ValueError):
        pass  # An IPv6 address, or an error that the rest of this function explains.
    separator = next((char for char in text if char in ".:%"), "")
    if separator == ".":
        return IPv4Address(_fields(text, text)), ""
    if separator == ":":
        return _ipv6(text)
    raise _invalid(text, "missing IPv6 address" if separator else "unable to parse IP")


def _invalid(text: str, why: str, at: str = "") -> ValueError:
    return ValueError(f"ParseAddr({quote(text)}): {why}" + (f" (at {quote(at)})" if at else ""))


def _fields(text: str, dotted: str) -> bytes:
    """The four bytes of the dotted IPv4 address at the end of `text`."""
    values = bytearray()
    value = digits = 0
    for position, char in enumerate(dotted):
        if char in "0123456789":
            if digits == 1 and value == 0:
                raise _invalid(text, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(char), digits + 1
            if value > 255:
                raise _invalid(text, "IPv4 field has value >255")
        elif char == ".":
            if position in (0, len(dotted) - 1) or dotted[position - 1] == ".":
                raise _invalid(text, "IPv4 field must have at least one digit", dotted[position:])
            if len(values) == 3:
                raise _invalid(text, "IPv4 address too long")
            values.append(value)
            value = digits = 0
        else:
            raise _invalid(text, "unexpected character", dotted[position:])
    if len(values) < 3:
        raise _invalid(text, "IPv4 address too short")
    return bytes((*values, value))


def _ipv6(text: str) -> tuple[IPv6Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _invalid(text, "zone must be a non-empty string")
    packed = bytearray()
    gap: int | None = None
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(packed) < 16:
        found = _HEX.match(rest)
        digits = found[0] if found else ""
        if len(digits) > 4:
            raise _invalid(text, "each group must have 4 or less digits", rest)
        if not digits:
            raise _invalid(text, "each colon-separated field must have at least one digit", rest)
        after = rest[len(digits) :]
        if after.startswith("."):
            if gap is None and len(packed) != 12:
                raise _invalid(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(packed) > 12:
                raise _invalid(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
            packed += _fields(text, rest)
            rest = ""
            break
        packed += int(digits, 16).to_bytes(2, "big")
        rest = after
        if not rest:
            break
        if not rest.startswith(":"):
            raise _invalid(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _invalid(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if gap is not None:
                raise _invalid(text, "multiple :: in address", rest)
            gap, rest = len(packed), rest[1:]
    if rest:
        raise _invalid(text, "trailing garbage after address", rest)
    if len(packed) < 16:
        if gap is None:
            raise _invalid(text, "address string too short")
        packed[gap:gap] = bytes(16 - len(packed))
    elif gap is not None:
        raise _invalid(text, "the :: must expand to at least one field of zeros")
    return IPv6Address(bytes(packed)), zone


def _ip(text: str) -> IP:
    try:
        return parse_ip(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except ValueError:
        return False
    return True


def _is_link_local_multicast(ip: IP) -> bool:
    packed = ip.address.packed
    return packed[:3] == b"\xe0\x00\x00" if len(packed) == 4 else packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    return not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local or address == _BROADCAST
    )


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_ip": _ip,
    "is_ip": _is_ip,
    "ip_to_string": str,
    "ip_family": lambda ip: ip.address.version,
    "ip_is_canonical": lambda text: str(_ip(text)) == text,
    "ip_is_unspecified": lambda ip: ip.address.is_unspecified,
    "ip_is_loopback": lambda ip: ip.address.is_loopback,
    "ip_is_link_local_multicast": _is_link_local_multicast,
    "ip_is_link_local_unicast": lambda ip: ip.address.is_link_local,
    "ip_is_global_unicast": _is_global_unicast,
}
