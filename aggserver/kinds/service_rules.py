"""Rules of Services that a table can't express: what each type allows, names and numbers of ports, and what an update may change.

Cluster IPs and their families are checked first, as upstream, by `addresses.py`. Not checked: the addresses in `externalIPs` and
in source ranges, and the timeout of session affinity.
Pure. Source: validateService and ValidateServiceUpdate in k8s.io/kubernetes pkg/apis/core/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aggserver.kinds.addresses import is_accessible
from aggserver.meta import field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.names import dns1123_label, dns1123_subdomain, qualified_name

__all__ = ["changed_service", "service_problems"]

_SPEC = Path("spec")
_PORTS, _CLASS, _HEALTH_PORT = _SPEC.child("ports"), _SPEC.child("loadBalancerClass"), _SPEC.child("healthCheckNodePort")
_BALANCER, _EXTERNAL = "LoadBalancer", "ExternalName"
_OUTSIDE = (_BALANCER, "NodePort")
_ONLY_BALANCERS = "may only be used when `type` is 'LoadBalancer'"


def service_problems(obj: JSONObject) -> Iterator[FieldError]:
    """The errors of a Service that has its addresses, its node ports and its defaults."""
    spec = obj["spec"]
    kind, ports, ips = spec.get("type"), spec.get("ports") or (), spec.get("clusterIPs") or ()
    is_headless = ips == ["None"]
    if not ports and not is_headless and kind != _EXTERNAL:
        yield field.required(_PORTS)
    if is_headless and kind in _OUTSIDE:
        yield field.invalid(_SPEC.child("clusterIPs").index(0), "None", f"may not be set to 'None' for {kind} services")
    if kind == _EXTERNAL:
        yield from _external(spec)
    yield from _ports(ports, kind)
    if spec.get("sessionAffinity") == "None" and spec.get("sessionAffinityConfig"):
        yield field.forbidden(_SPEC.child("sessionAffinityConfig"), "must not be set when session affinity is None")
    if kind != _BALANCER:
        if spec.get("loadBalancerSourceRanges"):
            yield field.forbidden(_SPEC.child("LoadBalancerSourceRanges"), _ONLY_BALANCERS)
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            yield field.forbidden(_SPEC.child("allocateLoadBalancerNodePorts"), _ONLY_BALANCERS)
    yield from _class(spec)
    yield from _traffic(spec)


def _external(spec: JSONMapping) -> Iterator[FieldError]:
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield field.forbidden(_SPEC.child(name), "may not be set for ExternalName services")
    name, path = (spec.get("externalName") or "").removesuffix("."), _SPEC.child("externalName")
    if not name:
        yield field.required(path)
    yield from (field.invalid(path, name, text) for text in (dns1123_subdomain(name) if name else ()))


def _ports(ports: Sequence[JSONMapping], kind: str | None) -> Iterator[FieldError]:
    names = set[str]()
    for index, port in enumerate(ports):
        name, path = port.get("name") or "", _PORTS.index(index).child("name")
        if not name and len(ports) > 1:
            yield field.required(path)
        if name:
            yield from (field.invalid(path, name, text) for text in dns1123_label(name))
            if name in names:
                yield field.duplicate(path, name)
            names.add(name)
    outside, inside = set[tuple[object, int]](), set[tuple[object, int]]()
    for index, port in enumerate(ports):
        path, protocol = _PORTS.index(index), port.get("protocol")
        if number := port.get("nodePort"):
            if kind == "ClusterIP":
                yield field.forbidden(path.child("nodePort"), "may not be used when `type` is 'ClusterIP'")
            if (protocol, number) in outside:
                yield field.duplicate(path.child("nodePort"), number)
            outside.add((protocol, number))
        if (protocol, number := port.get("port") or 0) in inside:
            yield field.duplicate(path, field.RawJSON(_GO_PORT.format(protocol, number)))
        inside.add((protocol, number))


# The key by which upstream compares ports, as Go writes it.
_GO_PORT = '{{"Name":"","Protocol":"{}","AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}'


def _class(spec: JSONMapping) -> Iterator[FieldError]:
    given = spec.get("loadBalancerClass")
    if given is None:
        return
    if spec.get("type") != _BALANCER:
        yield field.forbidden(_CLASS, _ONLY_BALANCERS)
    else:
        yield from (field.invalid(_CLASS, given, text) for text in qualified_name(given))


def _traffic(spec: JSONMapping) -> Iterator[FieldError]:
    policy = spec.get("externalTrafficPolicy")
    if policy and not is_accessible(spec):
        path = _SPEC.child("externalTrafficPolicy")
        yield field.invalid(path, policy, "may only be set for externally-accessible services")
    if (number := spec.get("healthCheckNodePort")) and not _has_health_port(spec):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield field.invalid(_HEALTH_PORT, number, text)


def _has_health_port(spec: JSONMapping) -> bool:
    return spec.get("type") == _BALANCER and spec.get("externalTrafficPolicy") == "Local"


def changed_service(obj: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """The errors of an update. As upstream, the class is checked twice. `addresses.py` checks secondary addresses."""
    spec, before = obj["spec"], old["spec"]
    now, was = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if _EXTERNAL not in (spec.get("type"), before.get("type")) and now and was and now[0] != was[0]:
        yield field.invalid(_SPEC.child("clusterIPs").index(0), now, "may not change once set")
    if spec.get("type") == before.get("type") == _BALANCER and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        yield field.invalid(_CLASS, spec.get("loadBalancerClass"), "may not change once set")
    yield from _class(spec)
    is_other = spec.get("healthCheckNodePort") != before.get("healthCheckNodePort")
    if is_other and _has_health_port(before) and _has_health_port(spec):
        yield field.forbidden(_HEALTH_PORT, "field is immutable")
