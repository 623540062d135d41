"""Addresses of Services: cluster IPs, IP families and node ports, for a cluster with one range of IPv4 addresses.

Which addresses are taken is computed from the existing Services, so no allocation state is stored.
Pure: the random number generator is an argument.
Source: k8s.io/kubernetes pkg/registry/core/service/{strategy.go,storage/{alloc,storage}.go}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, ip_address
from typing import Any, NamedTuple

from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["NODE_PORTS", "Pool", "assign", "first_address", "is_accessible", "node_ports", "release"]

NODE_PORTS = range(30000, 32768)
_SPEC = Path("spec")
_IPS, _FAMILIES, _POLICY = (_SPEC.child(name) for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"))
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_NONE = "None"
_SINGLE, _DUAL = "SingleStack", "RequireDualStack"


class Pool(NamedTuple):
    """What can be allocated. network: of cluster IPs. ips, ports: taken by other Services. random: an integer in [0, arg)."""

    network: IPv4Network
    ips: Collection[str]
    ports: Collection[int]
    random: Callable[[int], int]


def first_address(network: IPv4Network) -> str:
    """The address of the Service `kubernetes`."""
    return str(network[1])


def node_ports(spec: JSONMapping) -> list[int]:
    found = [port.get("nodePort") or 0 for port in spec.get("ports") or ()]
    return [port for port in (*found, spec.get("healthCheckNodePort") or 0) if port]


def release(obj: JSONObject, old: JSONObject) -> None:
    """Prepare an update: drop old addresses and ports that the new type can't have, and copy those that the client left out."""
    spec, before = obj["spec"], old["spec"]
    # A client may change clusterIP without knowing clusterIPs, as by a patch, which leaves the list as it was.
    if spec.get("clusterIP") not in (None, "", before.get("clusterIP")) and spec.get("clusterIPs") == before.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    if _needs_ip(before):
        same = spec.get("clusterIPs") in (None, before.get("clusterIPs"))
        if not _needs_ip(spec):
            if same and spec.get("clusterIP") in (None, "", before.get("clusterIP")):
                _drop(spec, "clusterIP", "clusterIPs")
            for name in ("ipFamilies", "ipFamilyPolicy"):
                if spec.get(name) == before.get(name):
                    _drop(spec, name)
        elif not spec.get("clusterIP"):
            for name in ("clusterIP", "clusterIPs"):
                if name in before and not spec.get(name):
                    spec[name] = before[name]
    _release_ports(spec, before)
    if spec.get("type") != "LoadBalancer" and before.get("type") == "LoadBalancer":
        for name in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) == before.get(name):
                _drop(spec, name)
        obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}
    if (
        is_accessible(before)
        and not is_accessible(spec)
        and spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy")
    ):
        _drop(spec, "externalTrafficPolicy")


def _release_ports(spec: JSONObject, before: JSONObject) -> None:
    if not _has_node_ports(before):
        return
    if not _has_node_ports(spec):
        if node_ports({"ports": spec.get("ports")}) == node_ports({"ports": before.get("ports")}):
            for port in spec.get("ports") or ():
                _drop(port, "nodePort")
    else:
        known = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in before.get("ports") or ()}
        used = set(node_ports(spec))
        for port in spec.get("ports") or ():
            kept = known.get((port.get("protocol"), port.get("port")))
            if not port.get("nodePort") and kept and kept not in used:
                port["nodePort"] = kept
    if not _has_health_port(spec):
        if spec.get("healthCheckNodePort") == before.get("healthCheckNodePort"):
            _drop(spec, "healthCheckNodePort")
    elif _has_health_port(before) and not spec.get("healthCheckNodePort") and before.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before["healthCheckNodePort"]


def assign(obj: JSONObject, old: JSONObject | None, pool: Pool) -> list[FieldError]:
    """Allocate the addresses and ports that a Service lacks. Returns the errors of those that it requests."""
    spec = obj["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    is_done = spec.get("type") == "ExternalName" or (old is not None and _still_prefers_both(spec, old["spec"]))
    problems = [] if is_done else _families(spec, old["spec"] if old else {})
    if problems:
        return problems
    # A Service that had an address does not get another one; validation refuses the request for one.
    has_one = old is not None and _needs_ip(old["spec"]) and spec.get("clusterIPs")
    if _needs_ip(spec) and not has_one:
        problems += _address(spec, pool)
    if _has_node_ports(spec):
        problems += _ports(spec, pool, is_new=old is None)
    return problems


def _families(spec: JSONObject, before: JSONMapping) -> list[FieldError]:
    """Set ipFamilyPolicy and ipFamilies. Returns the errors."""
    is_free = spec.get("clusterIP") == _NONE and not spec.get("selector")  # headless, with endpoints made by a user
    policy: Any = spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy") or (_DUAL if is_free else _SINGLE))
    problems = list(_mismatches(spec))
    if not problems:
        if policy == _SINGLE:
            _release_second(spec, before)
        problems += _misfits(spec, before, policy)
    if problems:
        return problems
    families: list[Any] = list(spec.get("ipFamilies") or ())
    if is_free:
        families = families or ["IPv4"]
        if len(families) < 2 and policy != _SINGLE:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families
        return []
    if policy == _DUAL:
        problems.append(field.invalid(_POLICY, policy, "this cluster is not configured for dual-stack services"))
    for index, family in enumerate(families):
        if family != "IPv4":
            problems.append(field.invalid(_FAMILIES.index(index), family, "not configured on this cluster"))
    spec["ipFamilies"] = families or ["IPv4"]
    return problems


def _still_prefers_both(spec: JSONMapping, before: JSONMapping) -> bool:
    """Whether an update leaves PreferDualStack and the addresses as they are; then the families are not computed again."""
    same = all((spec.get(name) or None) == (before.get(name) or None) for name in ("type", "clusterIPs", "ipFamilies"))
    return same and spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"


def _release_second(spec: JSONObject, before: JSONMapping) -> None:
    """Drop the second address and family: to release them, it is enough to change the policy to SingleStack."""
    for name in ("clusterIPs", "ipFamilies"):
        if len(spec.get(name) or ()) > 1 and spec[name] == before.get(name):
            spec[name] = spec[name][:1]


def _misfits(spec: JSONMapping, before: JSONMapping, policy: str) -> Iterator[FieldError]:
    """The errors of the policy, by the addresses and families that the Service has and had."""
    for member, what, whats in (("clusterIPs", "cluster IP", "cluster IPs"), ("ipFamilies", "IP family", "IP families")):
        number = len(spec.get(member) or ())
        if policy != _SINGLE and 0 < number < len(before.get(member) or ()):
            yield field.invalid(_POLICY, policy, f"must be 'SingleStack' to release the secondary {what}")
        if policy == _SINGLE and number == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {whats} are specified"
            yield field.invalid(_POLICY, policy, text)
    addresses, known = spec.get("clusterIPs") or [], len(spec.get("ipFamilies") or ())
    for index, address in enumerate(addresses):
        if index >= known and _version(address) == 6:
            yield field.invalid(_IPS.index(index), addresses, "IPv6 is not configured on this cluster")


def _mismatches(spec: JSONMapping) -> Iterator[FieldError]:
    """The errors of the cluster IPs and families without the policy. Source: ValidateServiceClusterIPsRelatedFields."""
    address, addresses, families = spec.get("clusterIP"), spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    if address and addresses and addresses[0] != address:
        yield field.invalid(_IPS, addresses, "first value must match `clusterIP`")
    if addresses and not address:
        yield field.invalid(_IPS, addresses, "must be empty when `clusterIP` is not specified")
    for index, family in enumerate(families):
        if family not in _VERSIONS:
            yield field.not_supported(_FAMILIES.index(index), family, tuple(_VERSIONS))
        if family in families[:index]:
            yield field.duplicate(_FAMILIES.index(index), family)
    if _NONE in addresses[:1]:
        if len(addresses) > 1:
            yield field.invalid(_IPS, addresses, "'None' must be the first and only value")
        return
    versions = [_version(each) for each in addresses]
    for index, version in enumerate(versions):
        if not version:
            text = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield field.invalid(_IPS.index(index), addresses[index], text)
    if len(addresses) > 2:
        yield field.invalid(_IPS, addresses, "may only hold up to 2 values")
    if 0 in versions:
        return
    if len(addresses) > 1 and len(addresses) != len(set(versions)):
        yield field.invalid(_IPS, addresses, "may specify no more than one IP for each IP family")
    for index, (each, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _VERSIONS and _VERSIONS[family] != versions[index]:
            yield field.invalid(_IPS.index(index), each, f"expected an {family} value as indicated by `ipFamilies[{index}]`")


def _version(address: object) -> int:
    """4 or 6; 0 for what is no address."""
    try:
        return ip_address(str(address)).version
    except ValueError:
        return 0


def _address(spec: JSONObject, pool: Pool) -> list[FieldError]:
    wanted = spec.get("clusterIPs") or []
    if spec.get("clusterIP") == _NONE:
        spec["clusterIPs"] = [_NONE]
        return []
    if not wanted:
        address = _free_address(pool)
        if address is None:
            return [field.invalid(_IPS, [""], "failed to allocate IP: range is full")]
        spec["clusterIP"], spec["clusterIPs"] = address, [address]
        return []
    why = _address_problem(str(wanted[0]), pool)
    if why:
        return [field.invalid(_IPS, wanted, f"failed to allocate IP {wanted[0]}: {why}")]
    spec["clusterIP"] = wanted[0]
    return []


def _address_problem(address: str, pool: Pool) -> str:
    try:
        is_in_range = IPv4Address(address) in pool.network
    except ValueError:
        is_in_range = False
    if not is_in_range:
        return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {pool.network}"
    return "provided IP is already allocated" if address in pool.ips else ""


def _free_address(pool: Pool) -> str | None:
    """A random free address, but not the network's own or the broadcast address; None if the range is full."""
    size = pool.network.num_addresses - 2
    if size <= 0 or len(pool.ips) >= size:
        return None
    start = pool.random(size)
    for offset in range(size):
        address = str(pool.network[1 + (start + offset) % size])
        if address not in pool.ips:
            return address
    return None


def _ports(spec: JSONObject, pool: Pool, *, is_new: bool) -> list[FieldError]:
    problems = []
    taken = set(pool.ports)
    own: set[int] = set()
    by_port: dict[Any, int] = {}
    wants_all = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
    ports = spec.get("ports") or []
    for index, port in enumerate(ports):
        number = port.get("nodePort") or 0
        if number:
            where = _SPEC.child("ports").index(index).child("nodePort")
            # A new Service may have a node port twice only for the same port, with different protocols.
            is_twice = is_new and number in own and by_port.get(port.get("port")) != number
            problems += _port_problem(number, own if is_twice else taken - own, where)
            own.add(number)
            by_port[port.get("port")] = number
    for port in ports:
        if not port.get("nodePort") and wants_all and (number := _free_port(taken | own, pool)):
            port["nodePort"] = number
            own.add(number)
    if _has_health_port(spec):
        number = spec.get("healthCheckNodePort") or 0
        if number:
            problems += _port_problem(number, taken | own, _SPEC.child("healthCheckNodePort"))
        elif number := _free_port(taken | own, pool):
            spec["healthCheckNodePort"] = number
    return problems


def _port_problem(number: int, taken: Collection[int], where: Path) -> list[FieldError]:
    if number not in NODE_PORTS:
        valid = f"{NODE_PORTS.start}-{NODE_PORTS.stop - 1}"
        return [field.invalid(where, number, f"provided port is not in the valid range. The range of valid ports is {valid}")]
    return [field.invalid(where, number, "provided port is already allocated")] if number in taken else []


def _free_port(taken: Iterable[int], pool: Pool) -> int:
    free = sorted(set(NODE_PORTS).difference(taken))
    return free[pool.random(len(free))] if free else 0


def _needs_ip(spec: JSONMapping) -> bool:
    return spec.get("type") != "ExternalName"


def _has_node_ports(spec: JSONMapping) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def is_accessible(spec: JSONMapping) -> bool:
    """Whether the Service can be reached from outside of the cluster."""
    return _has_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def _has_health_port(spec: JSONMapping) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _drop(members: JSONObject, *names: str) -> None:
    for name in names:
        members.pop(name, None)
