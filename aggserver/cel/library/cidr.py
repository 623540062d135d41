"""Networks in CIDR notation, which keep the address they were written with: `cidr('10.1.2.3/8').ip()` is 10.1.2.3.

Source: k8s.io/apiserver pkg/cel/library/cidr.go, v0.36.3; Go's net/netip, 1.26, also for error texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar

from aggserver.cel.library.ip import IP, KEPT, LONGEST_KEPT, Address, parse_ip, print_address, read_address
from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta.golang import quote

__all__ = ["CIDR", "IMPLEMENTATIONS"]

_BITS = re.compile("[0-9]|[1-9][0-9]{1,17}", re.ASCII)


@dataclass(frozen=True, slots=True)
class CIDR(Opaque):
    type_name: ClassVar[str] = "net.CIDR"
    address: Address
    bits: int

    def equals(self, other: object) -> bool:
        if not isinstance(other, CIDR):
            raise no_such_overload()
        return self == other

    def size(self) -> int:
        return -(-self.bits // 8)

    def __str__(self) -> str:
        return f"{print_address(self.address)}/{self.bits}"

    def contains(self, address: Address) -> bool:
        if address.version != self.address.version:
            return False
        unseen = address.max_prefixlen - self.bits
        return int(address) >> unseen == int(self.address) >> unseen


def _parse(text: str) -> CIDR:
    """Raises ValueError."""
    return _known(text) if len(text) <= LONGEST_KEPT else _parse_anew(text)


def _parse_anew(text: str) -> CIDR:
    before, slash, bits = text.rpartition("/")
    why = ""
    if not slash:
        why = "no '/'"
    else:
        try:
            address, zone = read_address(before)
        except ValueError as error:
            why = str(error)
        else:
            if zone:
                why = "IPv6 zones cannot be present in a prefix"
            elif not _BITS.fullmatch(bits):
                why = f"bad bits after slash: {quote(bits)}"
            elif int(bits) > address.max_prefixlen:
                why = "prefix length out of range"
            elif isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
                raise ValueError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
            else:
                return CIDR(address, int(bits))
    raise ValueError(f"network address parse error during conversion from string: netip.ParsePrefix({quote(text)}): {why}")


_known = lru_cache(KEPT)(_parse_anew)


def _cidr(text: str) -> CIDR:
    try:
        return _parse(text)
    except ValueError as error:
        raise EvaluationError(f"network address parse error during conversion from string: {error}") from None


def _is_cidr(text: str) -> bool:
    try:
        _parse(text)
    except ValueError:
        return False
    return True


def _contains_ip(network: CIDR, ip: IP) -> bool:
    return network.contains(ip.address)


def _contains_ip_string(network: CIDR, text: str) -> bool:
    try:
        return network.contains(parse_ip(text).address)
    except ValueError:
        # Upstream loses the parse error here.
        raise no_such_overload() from None


def _contains_cidr(network: CIDR, other: CIDR) -> bool:
    return network.bits <= other.bits and network.contains(other.address)


def _masked(network: CIDR) -> CIDR:
    unseen = network.address.max_prefixlen - network.bits
    number = int(network.address) >> unseen << unseen
    return CIDR(IPv4Address(number) if network.address.version == 4 else IPv6Address(number), network.bits)


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_cidr": _cidr,
    "is_cidr": _is_cidr,
    "cidr_to_string": str,
    "cidr_contains_ip_string": _contains_ip_string,
    "cidr_contains_ip_ip": _contains_ip,
    "cidr_contains_cidr_string": lambda network, text: _contains_cidr(network, _cidr(text)),
    "cidr_contains_cidr": _contains_cidr,
    "cidr_ip": lambda network: IP(network.address),
    "cidr_prefix_length": lambda network: network.bits,
    "cidr_masked": _masked,
}
