"""The EndpointSlices of a Service: which to create, change and delete, so that few are changed and all are well filled.

Pure. Source: k8s.io/endpointslice reconciler.go, utils.go, util/controller_utils.go, v0.36.3; without hints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from aggserver.controllers.network.endpoints import HEADLESS
from aggserver.controllers.network.services import ServicePort, is_headless, ports_at
from aggserver.controllers.network.trigger_times import ANNOTATION
from aggserver.controllers.pod_facts import Pod
from aggserver.meta.json_types import JSONObject

__all__ = ["CONTROLLER_NAME", "MANAGED_BY", "SERVICE_NAME", "SlicePlan", "planned", "renamed", "same_endpoint"]

SERVICE_NAME, MANAGED_BY = "kubernetes.io/service-name", "endpointslice.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"
_MOST = 100  # endpoints of a slice
_FAMILIES = {"IPv4": False, "IPv6": True}

_Ports = tuple[ServicePort, ...]
# Addresses, host name, namespace and name of the Pod: what tells an endpoint from others.
_Identity = tuple[str, ...]


@dataclass
class SlicePlan:
    """The slices to write. update: whole objects, with the resourceVersions of those that were decided upon. delete: names."""

    create: list[JSONObject] = field(default_factory=list)
    update: list[JSONObject] = field(default_factory=list)
    delete: list[str] = field(default_factory=list)


def planned(
    service: JSONObject, pods: Iterable[Pod], slices: Iterable[JSONObject], zones: Mapping[str, str], changed: str
) -> SlicePlan:
    """What to write for a Service. pods: that it selects. slices: that this controller has for it. zones: by node. changed: the
    trigger time, or ''.
    """
    plan = SlicePlan()
    existing: dict[str, list[JSONObject]] = {family: [] for family in _families(service)}
    for each in slices:
        if each["addressType"] in existing:
            existing[each["addressType"]].append(each)
        else:
            plan.delete.append(each["metadata"]["name"])
    pods = [pod for pod in pods if pod.ips and not pod.is_over]
    for family, found in existing.items():
        _plan_family(plan, service, pods, found, family, zones)
    _annotate(plan, changed)
    return plan


def _families(service: JSONObject) -> Sequence[str]:
    spec = service["spec"]
    return spec.get("ipFamilies") or (
        ["IPv4", "IPv6"] if is_headless(service) else ["IPv6" if ":" in spec["clusterIP"] else "IPv4"]
    )


def _plan_family(
    plan: SlicePlan,
    service: JSONObject,
    pods: Sequence[Pod],
    slices: Sequence[JSONObject],
    family: str,
    zones: Mapping[str, str],
) -> None:
    by_ports: dict[_Ports, list[JSONObject]] = {}
    delete: list[JSONObject] = []
    for each in slices:
        if _is_owned(each, service):
            by_ports.setdefault(_ports_of(each), []).append(each)
        else:
            delete.append(each)
    desired = _desired(service, pods, family, zones)
    create: list[JSONObject] = []
    update: list[JSONObject] = []
    for ports, endpoints in desired.items():
        _fill(service, by_ports.get(ports, ()), endpoints, ports, family, (create, update, delete))
    for ports, found in by_ports.items():
        if ports not in desired:
            delete.extend(found)
    if len(slices) == len(delete) and not create:
        # There is always one, so that clients see that the Service has no endpoints.
        placeholder = _new_slice(service, (), family)
        if len(delete) == 1 and _is_placeholder(delete[0], placeholder):
            delete.clear()
        else:
            create.append(placeholder)
    for each in delete:
        # What would be deleted is changed to what would be created.
        if create and _is_owned(each, service):
            plan.update.append(renamed(create.pop(), each))
        else:
            plan.delete.append(each["metadata"]["name"])
    plan.create += [] if "deletionTimestamp" in service["metadata"] else create
    plan.update += update


def renamed(new: JSONObject, old: JSONObject) -> JSONObject:
    """A new slice in the place of an old one."""
    metadata = {name: value for name, value in new["metadata"].items() if name != "generateName"}
    for name in ("name", "resourceVersion"):
        metadata[name] = old["metadata"][name]
    return {**new, "metadata": metadata}


def _desired(
    service: JSONObject, pods: Iterable[Pod], family: str, zones: Mapping[str, str]
) -> dict[_Ports, dict[_Identity, JSONObject]]:
    known: dict[object, _Ports] = {}
    desired: dict[_Ports, dict[_Identity, JSONObject]] = {}
    for pod in pods:
        ports = known.get(pod.named_ports)
        if ports is None:
            ports = known[pod.named_ports] = tuple(sorted(ports_at(service, pod.named_ports), key=repr))
        endpoints = desired.setdefault(ports, {})
        endpoint = _endpoint(service, pod, family, zones)
        if endpoint["addresses"]:
            endpoints[_identity(endpoint)] = endpoint
    return desired


def _endpoint(service: JSONObject, pod: Pod, family: str, zones: Mapping[str, str]) -> JSONObject:
    is_ready = bool(service["spec"].get("publishNotReadyAddresses")) or (pod.is_ready and not pod.is_terminating)
    endpoint: JSONObject = {
        "addresses": [ip for ip in pod.ips if (":" in ip) == _FAMILIES[family]],
        "conditions": {"ready": is_ready, "serving": pod.is_ready, "terminating": pod.is_terminating},
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }
    if pod.node:
        endpoint["nodeName"] = pod.node
    if zones.get(pod.node):
        endpoint["zone"] = zones[pod.node]
    if pod.hostname and pod.subdomain == service["metadata"]["name"]:
        endpoint["hostname"] = pod.hostname
    return endpoint


def _fill(
    service: JSONObject,
    slices: Iterable[JSONObject],
    desired: dict[_Identity, JSONObject],
    ports: _Ports,
    family: str,
    into: tuple[list[JSONObject], list[JSONObject], list[JSONObject]],
) -> None:
    """Divide the endpoints with some ports among the slices with these. into: lists of those to create, update and delete."""
    create, update, delete = into
    left = dict(desired)
    changed: list[JSONObject] = []
    unchanged: dict[str, JSONObject] = {}
    for each in slices:
        kept, is_changed = [], False
        for endpoint in each.get("endpoints") or ():
            wanted = left.pop(_identity(endpoint), None)
            if wanted is None:
                is_changed = True
            else:
                is_changed = is_changed or not same_endpoint(wanted, endpoint)
                kept.append(wanted)
        labels, are_labels_changed = _labels(service, each["metadata"].get("labels") or {})
        if is_changed and not kept:
            delete.append(each)
        elif is_changed or are_labels_changed:
            changed.append({**each, "metadata": {**each["metadata"], "labels": labels}, "endpoints": kept})
        else:
            unchanged[each["metadata"]["name"]] = each
    waiting = list(left.values())
    # First into those that are changed anyway, the fullest first.
    for each in sorted(changed, key=lambda each: -len(each["endpoints"])):
        room = _MOST - len(each["endpoints"])
        each["endpoints"].extend(waiting[:room])
        waiting = waiting[room:]
    while waiting:
        found = _best(unchanged.values(), len(waiting)) if len(waiting) < _MOST else None
        if found is None:
            create.append({**_new_slice(service, ports, family), "endpoints": waiting[:_MOST]})
        else:
            del unchanged[found["metadata"]["name"]]
            changed.append({**found, "endpoints": [*(found.get("endpoints") or ()), *waiting]})
        waiting = waiting[_MOST:]
    update += changed


def _best(slices: Iterable[JSONObject], count: int) -> JSONObject | None:
    """The slice that is the fullest after so many endpoints were added; None if none has room. As upstream, no empty one."""
    best, least = None, _MOST
    for each in slices:
        room = _MOST - count - len(each.get("endpoints") or ())
        if 0 <= room < least:
            best, least = each, room
    return best


def _new_slice(service: JSONObject, ports: _Ports, family: str) -> JSONObject:
    metadata = service["metadata"]
    owner = {"apiVersion": "v1", "kind": "Service", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": _labels(service, {})[0],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "addressType": family,
        "endpoints": [],
        "ports": [_as_port(port) for port in ports],
    }


def _labels(service: JSONObject, current: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The labels of the Service's slices, and whether those of a slice differ, but for the three that are no Service's."""
    own = (SERVICE_NAME, MANAGED_BY, HEADLESS)
    labels = {name: value for name, value in (service["metadata"].get("labels") or {}).items() if name not in own}
    is_changed = labels != {name: value for name, value in current.items() if name not in own}
    labels |= {HEADLESS: ""} if is_headless(service) else {}
    return {**labels, SERVICE_NAME: service["metadata"]["name"], MANAGED_BY: CONTROLLER_NAME}, is_changed


def _as_port(port: ServicePort) -> JSONObject:
    found: JSONObject = {"name": port.name, "port": port.port, "protocol": port.protocol}
    return found if port.app_protocol is None else {**found, "appProtocol": port.app_protocol}


def _ports_of(found: JSONObject) -> _Ports:
    ports = [
        ServicePort(each.get("name") or "", each.get("port") or 0, each.get("protocol") or "TCP", each.get("appProtocol"))
        for each in found.get("ports") or ()
    ]
    return tuple(sorted(ports, key=repr))


def _is_owned(found: JSONObject, service: JSONObject) -> bool:
    uid = service["metadata"]["uid"]
    owners = found["metadata"].get("ownerReferences") or ()
    return any((each["uid"], each["kind"], each["apiVersion"]) == (uid, "Service", "v1") for each in owners)


def _is_placeholder(found: JSONObject, placeholder: JSONObject) -> bool:
    is_empty = not found.get("endpoints") and not found.get("ports")
    labels: object = found["metadata"].get("labels") or {}
    return is_empty and labels == placeholder["metadata"]["labels"]


def _identity(endpoint: JSONObject) -> _Identity:
    target = endpoint.get("targetRef") or {}
    named = endpoint.get("hostname") or "", target.get("namespace") or "", target.get("name") or ""
    return (*named, *sorted(endpoint["addresses"]))


def same_endpoint(one: JSONObject, other: JSONObject) -> bool:
    """Whether two endpoints of one identity are equal."""
    members = ("nodeName", "zone", "conditions")
    targets = [dict(each.get("targetRef") or {}) for each in (one, other)]
    for target in targets:
        target.pop("resourceVersion", None)
    return targets[0] == targets[1] and all((one.get(name) or {}) == (other.get(name) or {}) for name in members)


def _annotate(plan: SlicePlan, changed: str) -> None:
    for each in (*plan.create, *plan.update):
        kept = {name: value for name, value in (each["metadata"].get("annotations") or {}).items() if name != ANNOTATION}
        each["metadata"] = {**each["metadata"], "annotations": kept | ({ANNOTATION: changed} if changed else {})}
