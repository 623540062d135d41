"""The Endpoints of a Service that selects Pods, and the common form of the subsets of any Endpoints.

Pure. Source: k8s.io/kubernetes pkg/controller/endpoint/endpoints_controller.go, pkg/api/v1/endpoints/util.go, v1.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from aggserver.controllers.network.services import ServicePort, is_headless, ports_at
from aggserver.controllers.network.trigger_times import ANNOTATION
from aggserver.controllers.pod_facts import Pod
from aggserver.meta.json_types import JSONObject

__all__ = ["HEADLESS", "MANAGED_BY", "NAME", "address_of", "desired_subsets", "repacked", "updated"]

HEADLESS = "service.kubernetes.io/headless"
MANAGED_BY, NAME = "endpoints.kubernetes.io/managed-by", "endpoint-controller"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_CAPACITY = 1000  # addresses that Endpoints have at most

_PORT = ("name", "port", "protocol", "appProtocol")
# The IP and the uid of the Pod: two Pods may have one IP, that of their node.
_AddressKey = tuple[str, str]


def address_of(pod: Pod, *, ipv6: bool) -> str:
    """The IP of a Pod of one family, '' if it has none."""
    return next((ip for ip in pod.ips if (":" in ip) == ipv6), "")


def desired_subsets(service: JSONObject, pods: Iterable[Pod]) -> list[JSONObject]:
    """The subsets for these Pods."""
    spec = service["spec"]
    publishes_all = bool(spec.get("publishNotReadyAddresses"))
    families = spec.get("ipFamilies") or ["IPv6" if ":" in (spec.get("clusterIP") or "") else "IPv4"]
    known: dict[object, tuple[ServicePort, ...]] = {}
    subsets: dict[tuple[ServicePort, ...], JSONObject] = {}
    for pod in pods:
        ip = address_of(pod, ipv6=families[0] == "IPv6")
        if not ip or pod.is_over or (pod.is_terminating and not publishes_all):
            continue
        ports = known.get(pod.named_ports)
        if ports is None:
            ports = known[pod.named_ports] = ports_at(service, pod.named_ports)
        if not ports and (spec.get("ports") or not is_headless(service)):
            continue
        target = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        address = {"ip": ip, "nodeName": pod.node, "targetRef": target}
        if pod.hostname and pod.subdomain == service["metadata"]["name"]:
            address["hostname"] = pod.hostname
        if ports not in subsets:
            subsets[ports] = {"addresses": [], "notReadyAddresses": [], "ports": [_as_port(port) for port in ports]}
        subset = subsets[ports]
        subset["addresses" if publishes_all or pod.is_ready else "notReadyAddresses"].append(address)
    return repacked(subsets.values())


def _as_port(port: ServicePort) -> JSONObject:
    members = {"name": port.name, "port": port.port, "protocol": port.protocol, "appProtocol": port.app_protocol}
    return {name: value for name, value in members.items() if value not in ("", None)}


def repacked(subsets: Iterable[JSONObject], most: float = math.inf) -> list[JSONObject]:
    """The subsets in the common form: ports with the same addresses are in one subset, and no port is in two.

    most: how many addresses the result has at most. There may be many more than in the given subsets: each port that is in
    several of them, in other ones than other ports, gets a subset with the addresses of all.
    """
    given = list(subsets)
    # Ports are grouped by the subsets that they are in. Those without ports count as having one, as upstream has it.
    places: dict[tuple[object, ...], list[int]] = {}
    port_of: dict[tuple[object, ...], JSONObject | None] = {}
    for index, subset in enumerate(given):
        for port in subset.get("ports") or (None,):
            key = () if port is None else tuple(port.get(name) for name in _PORT)
            where = places.setdefault(key, [])
            if not where or where[-1] != index:
                where.append(index)
            port_of[key] = port
    groups: dict[tuple[int, ...], list[JSONObject | None]] = {}
    for key, indices in places.items():
        groups.setdefault(tuple(indices), []).append(port_of[key])
    merged: dict[frozenset[_AddressKey], JSONObject] = {}
    for group, ports in groups.items():
        ready, addresses = _united([given[index] for index in group])
        most -= len(addresses)
        if most < 0:
            break
        subset = merged.setdefault(frozenset(addresses), {"addresses": [], "notReadyAddresses": [], "ports": []})
        if not subset["addresses"] and not subset["notReadyAddresses"]:
            for address in sorted(addresses):
                subset["addresses" if ready[address] else "notReadyAddresses"].append(addresses[address])
        subset["ports"].extend(port for port in ports if port is not None)
    for subset in merged.values():
        subset["ports"].sort(key=lambda port: (port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""))
    return [{name: value for name, value in subset.items() if value} for subset in merged.values()]


def _united(subsets: Sequence[JSONObject]) -> tuple[dict[_AddressKey, bool], dict[_AddressKey, JSONObject]]:
    """All addresses of some subsets, and whether they are ready, which they are not if they aren't in one of them."""
    ready: dict[_AddressKey, bool] = {}
    addresses: dict[_AddressKey, JSONObject] = {}
    for subset in subsets:
        for members, is_ready in ((subset.get("addresses"), True), (subset.get("notReadyAddresses"), False)):
            for address in members or ():
                key = address.get("ip") or "", (address.get("targetRef") or {}).get("uid") or ""
                addresses.setdefault(key, address)
                ready[key] = is_ready and ready.get(key, True)
    return ready, addresses


def updated(service: JSONObject, subsets: list[JSONObject], current: JSONObject | None, changed: str) -> JSONObject | None:
    """The Endpoints as they are to be written; None if they are right. current: as they are. changed: the trigger time, or ''."""
    named = service["metadata"]
    labels = {name: value for name, value in (named.get("labels") or {}).items() if name not in (HEADLESS, MANAGED_BY)}
    if current is not None and _is_right(current, labels, subsets):
        return None
    labels |= {HEADLESS: ""} if is_headless(service) else {}
    base = current if current is not None else {"metadata": {"name": named["name"], "namespace": named["namespace"]}}
    dropped = (ANNOTATION, _OVER_CAPACITY)
    annotations = {name: value for name, value in (base["metadata"].get("annotations") or {}).items() if name not in dropped}
    annotations |= {ANNOTATION: changed} if changed else {}
    shortened = _shortened(subsets)
    annotations |= {_OVER_CAPACITY: "truncated"} if shortened is not subsets else {}
    metadata = {**base["metadata"], "labels": {**labels, MANAGED_BY: NAME}, "annotations": annotations}
    return {**base, "apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": shortened}


def _is_right(current: JSONObject, labels: Mapping[str, str], subsets: list[JSONObject]) -> bool:
    metadata = current["metadata"]
    found = dict(metadata.get("labels") or {})
    is_managed = found.pop(MANAGED_BY, "") == NAME
    found.pop(HEADLESS, None)
    is_truncated = _OVER_CAPACITY in (metadata.get("annotations") or {})
    if not is_managed or found != labels or is_truncated or sum(map(_size, current.get("subsets") or ())) > _CAPACITY:
        return False
    return _plain(repacked(current.get("subsets") or ())) == _plain(subsets)


def _plain(subsets: Iterable[JSONObject]) -> list[JSONObject]:
    """The subsets without what does not tell them apart: empty names of nodes, resourceVersions, their order."""

    def plain(address: JSONObject) -> JSONObject:
        target = {name: value for name, value in (address.get("targetRef") or {}).items() if name != "resourceVersion"}
        return {name: value for name, value in {**address, "targetRef": target}.items() if value}

    found = []
    for subset in subsets:
        members = {name: [plain(each) for each in subset.get(name) or ()] for name in ("addresses", "notReadyAddresses")}
        found.append({**members, "ports": subset.get("ports") or []})
    return sorted(found, key=lambda subset: repr(subset["ports"]))


def _size(subset: JSONObject) -> int:
    return len(subset.get("addresses") or ()) + len(subset.get("notReadyAddresses") or ())


def _shortened(subsets: list[JSONObject]) -> list[JSONObject]:
    """The subsets with 1000 addresses at most, ready ones first, of each subset its share; the same list if none is left out."""
    if sum(map(_size, subsets)) <= _CAPACITY:
        return subsets
    total = sum(len(subset.get("addresses") or ()) for subset in subsets)
    cut, most = "notReadyAddresses", _CAPACITY - total
    if total > _CAPACITY:
        cut, most = "addresses", _CAPACITY
    else:
        total = sum(len(subset.get("notReadyAddresses") or ()) for subset in subsets)
    left, found = most, []
    for subset in subsets:
        members = subset.get(cut) or []
        kept = members[: min(left, math.ceil(len(members) / total * most))]
        left -= len(kept)
        ready = {} if cut == "addresses" else {"addresses": subset.get("addresses") or []}
        shortened = {**ready, cut: kept, "ports": subset.get("ports") or []}
        found.append({name: value for name, value in shortened.items() if value})
    return found
