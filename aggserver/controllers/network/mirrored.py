"""The EndpointSlices that mirror Endpoints which clients write, for a Service that selects no Pods.

Pure. Source: k8s.io/kubernetes pkg/controller/endpointslicemirroring/{reconciler,reconciler_helpers,utils}.go, v1.36.3.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aggserver.controllers.network.endpoints import repacked
from aggserver.controllers.network.slices import MANAGED_BY, SERVICE_NAME, SlicePlan, renamed, same_endpoint
from aggserver.controllers.network.trigger_times import ANNOTATION
from aggserver.meta.json_types import JSONObject

__all__ = ["CONTROLLER_NAME", "Mirrored", "is_to_mirror", "mirrored"]

CONTROLLER_NAME = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST = 1000  # endpoints of a slice, and addresses of a subset that are mirrored
# Addresses of all subsets in their common form. Upstream has no such limit, and writes gigabytes for Endpoints in which thousands
# of ports share thousands of addresses.
_MOST_OF_ALL = 200_000

# The family, then the ports.
_Kind = tuple[object, ...]


class Mirrored(NamedTuple):
    """plan: what to write. invalid, skipped: how many addresses are no IPs, and how many are too many."""

    plan: SlicePlan
    invalid: int
    skipped: int


def is_to_mirror(endpoints: JSONObject) -> bool:
    metadata = endpoints["metadata"]
    return (metadata.get("labels") or {}).get(_SKIP) != "true" and _LEADER not in (metadata.get("annotations") or {})


def mirrored(endpoints: JSONObject, slices: Iterable[JSONObject]) -> Mirrored:
    """What to write for Endpoints. slices: that this controller has for them."""
    desired: dict[_Kind, tuple[list[JSONObject], dict[object, JSONObject]]] = {}
    invalid = skipped = 0
    for subset in repacked(endpoints.get("subsets") or (), _MOST_OF_ALL):
        added, refused = _endpoints(subset)
        ports = [_as_port(port) for port in subset.get("ports") or ()]
        for family, found in added.items():
            desired.setdefault((family, *_port_keys(ports)), (ports, {}))[1].update(found)
        invalid += refused
        total = len(subset.get("addresses") or ()) + len(subset.get("notReadyAddresses") or ())
        skipped += total - sum(map(len, added.values()))
    existing: dict[_Kind, list[JSONObject]] = {}
    for each in slices:
        existing.setdefault((each["addressType"], *_port_keys(each.get("ports") or ())), []).append(each)
    plan, create, delete = SlicePlan(), list[JSONObject](), list[JSONObject]()
    for kind, (ports, found) in desired.items():
        there = existing.pop(kind, [])
        wanted = _new_slice(endpoints, str(kind[0]), ports, list(found.values())[:_MOST])
        if not there:
            create.append(wanted)
        elif not _is_right(there[0], wanted, found):
            plan.update.append(renamed(wanted, there[0]))
        delete += there[1:]
    for there in existing.values():
        delete += there
    for each in delete:
        index = next((index for index, new in enumerate(create) if new["addressType"] == each["addressType"]), None)
        if index is None:
            plan.delete.append(each["metadata"]["name"])
        else:
            plan.update.append(renamed(create.pop(index), each))
    plan.create = [] if "deletionTimestamp" in endpoints["metadata"] else create
    return Mirrored(plan, invalid, skipped)


def _endpoints(subset: JSONObject) -> tuple[dict[str, dict[object, JSONObject]], int]:
    """The endpoints of a subset by family and identity, and how many of its addresses are no IPs."""
    found: dict[str, dict[object, JSONObject]] = {}
    invalid = count = 0
    for name in ("addresses", "notReadyAddresses"):
        for address in subset.get(name) or ():
            if count >= _MOST:
                return found, invalid
            try:
                ip = ipaddress.ip_address(address["ip"])
            except ValueError:
                invalid += 1
                continue
            count += 1
            endpoint = {
                "addresses": [str(ip)],
                "conditions": {"ready": name == "addresses"},
                **{each: address[each] for each in ("targetRef", "nodeName", "hostname") if address.get(each)},
            }
            found.setdefault(f"IPv{ip.version}", {})[_identity(endpoint)] = endpoint
    return found, invalid


def _identity(endpoint: JSONObject) -> object:
    target = endpoint.get("targetRef") or {}
    return tuple(endpoint["addresses"]), endpoint.get("hostname"), target.get("namespace"), target.get("name")


def _as_port(port: JSONObject) -> JSONObject:
    found: JSONObject = {"name": port.get("name") or "", "port": port["port"], "protocol": port.get("protocol") or "TCP"}
    return found if port.get("appProtocol") is None else {**found, "appProtocol": port["appProtocol"]}


def _port_keys(ports: Iterable[JSONObject]) -> list[object]:
    keys = [(each.get("name") or "", each.get("port"), each.get("protocol"), each.get("appProtocol")) for each in ports]
    return [*sorted(keys, key=repr)]


def _new_slice(endpoints: JSONObject, family: str, ports: Sequence[JSONObject], found: list[JSONObject]) -> JSONObject:
    metadata = endpoints["metadata"]
    owner = {"apiVersion": "v1", "kind": "Endpoints", "name": metadata["name"], "uid": metadata["uid"]}
    dropped = (ANNOTATION, _LAST_APPLIED)
    labels = {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: CONTROLLER_NAME}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {name: value for name, value in (metadata.get("annotations") or {}).items() if name not in dropped},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "addressType": family,
        "endpoints": found,
        "ports": list(ports),
    }


def _is_right(found: JSONObject, wanted: JSONObject, desired: dict[object, JSONObject]) -> bool:
    metadata, new = found["metadata"], wanted["metadata"]
    uids = {each["uid"] for each in metadata.get("ownerReferences") or () if each["kind"] == "Endpoints"}
    of_it = {each["uid"] for each in new["ownerReferences"]}
    endpoints = found.get("endpoints") or ()
    return (
        uids <= of_it
        and (metadata.get("labels") or {}) == new["labels"]
        and (metadata.get("annotations") or {}) == new["annotations"]
        and len(endpoints) == len(wanted["endpoints"])
        and all((want := desired.get(_identity(each))) is not None and same_endpoint(want, each) for each in endpoints)
    )
