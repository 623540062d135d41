"""Addresses and ranges as objects: IPAddresses and ServiceCIDRs, with the forms of both that new fields of Kubernetes accept.

Pure. Source: k8s.io/kubernetes pkg/apis/networking/validation/validation.go, v1.36.3; k8s.io/apimachinery
pkg/util/validation/ip.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_network

from aggserver.meta.field import FieldError, Path, invalid, quote, required
from aggserver.meta.json_types import JSONObject
from aggserver.meta.names import dns1123_subdomain, is_address_with_zeros, path_segment_name

__all__ = ["changed_range", "ip_address_problems", "range_problems"]

_CIDRS, _PARENT = Path("spec").child("cidrs"), Path("spec").child("parentRef")
_IMMUTABLE = "field is immutable"


def _cidr_problem(text: str) -> str:
    """The error of a range, '' if it has none."""
    address, slash, bits = text.partition("/")
    try:
        found = ip_network(text, strict=False)
    except ValueError:
        found = None
    if found is None or not slash or not bits.isdecimal() or "%" in text:
        if slash and bits.isdecimal() and is_address_with_zeros(address) and int(bits[:4]) <= 32:
            return "must not have leading 0s in IP or prefix length"
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if bits != str(int(bits)):
        return "must not have leading 0s in IP or prefix length"
    given = ip_address(address)
    if isinstance(given, IPv6Address) and given.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    if given != found.network_address:
        return "must not have bits set beyond the prefix length"
    return "" if str(found) == text else f"must be in canonical form ({quote(str(found))})"


def range_problems(obj: JSONObject) -> Iterator[FieldError]:
    """The errors of a ServiceCIDR: one range, or one of each IP family."""
    cidrs = (obj.get("spec") or {}).get("cidrs") or ()
    if not cidrs:
        yield required(_CIDRS, "at least one CIDR required")
    if len(cidrs) > 2:
        # Upstream shows its internal type, whose members have Go's names.
        yield invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")
        return
    bad = False
    for index, text in enumerate(cidrs):
        if problem := _cidr_problem(text):
            bad = True
            yield invalid(_CIDRS.index(index), text, problem)
    if len(cidrs) == 2 and not bad and len({ip_network(text).version for text in cidrs}) == 1:
        text = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        yield invalid(_CIDRS, cidrs, text)


def changed_range(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """The errors of an update of a ServiceCIDR: a range of the other IP family may be added, and that is all."""
    now, before = ((each.get("spec") or {}).get("cidrs") or [] for each in (obj, old))
    if len(now) != len(before) and (len(before), len(now)) != (1, 2):
        yield invalid(_CIDRS, now, _IMMUTABLE)
        return
    for index, (text, was) in enumerate(zip(now, before, strict=False)):
        if text != was:
            yield invalid(_CIDRS.index(index), text, _IMMUTABLE)
    if len(now) != len(before):
        yield from range_problems(obj)


def ip_address_problems(obj: JSONObject) -> Iterator[FieldError]:
    """The errors of an IPAddress, beyond those in the table of checks."""
    parent = (obj.get("spec") or {}).get("parentRef") or {}
    if not obj.get("spec"):  # the table only checks what is in it
        yield required(_PARENT)
    if group := parent.get("group"):
        yield from (invalid(_PARENT.child("group"), group, text) for text in dns1123_subdomain(group))
    for member in ("resource", "name", "namespace"):
        if value := parent.get(member):
            yield from (invalid(_PARENT.child(member), value, text) for text in path_segment_name(value))
