"""Addresses of Services, by tables of what is taken and what is asked for."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

import pytest

from aggserver.kinds.addresses import NODE_PORTS, Pool, assign, first_address, release
from aggserver.kinds.service_rules import changed_service

NETWORK = IPv4Network("10.0.0.0/29")  # 10.0.0.1 to 10.0.0.6


def _pool(*ips: str, ports: tuple[int, ...] = (), chance: int = 0) -> Pool:
    return Pool(NETWORK, ips, ports, lambda n: chance % n)


def _service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"type": "ClusterIP", **spec}}


def test_first_address() -> None:
    assert first_address(NETWORK) == "10.0.0.1"


GIVEN = {
    "by chance": (_pool(chance=3), "10.0.0.4"),
    "the next free one": (_pool("10.0.0.4", "10.0.0.5", chance=3), "10.0.0.6"),
    "around the end": (_pool("10.0.0.6", chance=5), "10.0.0.1"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_address(name: str) -> None:
    pool, wanted = GIVEN[name]
    service = _service()
    assert assign(service, None, pool) == []
    assert service["spec"]["clusterIP"] == wanted
    assert service["spec"]["clusterIPs"] == [wanted]
    assert (service["spec"]["ipFamilies"], service["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")


def test_none_is_left() -> None:
    taken = [str(address) for address in NETWORK.hosts()]
    (problem,) = assign(_service(), None, _pool(*taken))
    assert "range is full" in str(problem)


REFUSED = {
    "taken": ({"clusterIP": "10.0.0.2"}, "failed to allocate IP 10.0.0.2: provided IP is already allocated"),
    "outside": ({"clusterIP": "10.9.0.2"}, "is not in the valid range. The range of valid IPs is 10.0.0.0/29"),
    "no address": ({"clusterIP": "x"}, 'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address'),
    "address outside": ({"clusterIP": "192.0.2.1"}, "is not in the valid range"),
    "both families": ({"ipFamilyPolicy": "RequireDualStack"}, "this cluster is not configured for dual-stack services"),
    "other family": ({"ipFamilies": ["IPv6"]}, "not configured on this cluster"),
    "taken port": ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]}, "provided port is already allocated"),
    "port outside": ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}, "The range of valid ports is 30000-32767"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    spec, wanted = REFUSED[name]
    (problem,) = assign(_service(**spec), None, _pool("10.0.0.2", ports=(30001,)))
    assert wanted in str(problem)


FAMILIES = {
    "headless with a selector": ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", ["IPv4"]),
    "headless without one": ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
    "wants both if there are": ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4"]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    spec, policy, families = FAMILIES[name]
    service = _service(**spec)
    assert assign(service, None, _pool()) == []
    assert (service["spec"]["ipFamilyPolicy"], service["spec"]["ipFamilies"]) == (policy, families)


def test_an_external_name_has_no_address() -> None:
    service = _service(type="ExternalName", externalName="example.com")
    assert assign(service, None, _pool()) == []
    assert service["spec"] == {"type": "ExternalName", "externalName": "example.com"}


def test_ports() -> None:
    service = _service(type="LoadBalancer", externalTrafficPolicy="Local", ports=[{"port": 1}, {"port": 2, "nodePort": 30000}])
    assert assign(service, None, _pool(ports=(30001,))) == []
    assert [port["nodePort"] for port in service["spec"]["ports"]] == [30002, 30000]
    assert service["spec"]["healthCheckNodePort"] in NODE_PORTS


def _updated(old: dict[str, Any], **spec: Any) -> dict[str, Any]:
    service = _service(**spec)
    release(service, old)
    assert assign(service, old, _pool(chance=4)) == []
    found: dict[str, Any] = service["spec"]
    return found


def _made(**spec: Any) -> dict[str, Any]:
    service = _service(**spec)
    assert assign(service, None, _pool()) == []
    return service


def test_an_update_keeps_what_it_does_not_say() -> None:
    old = _made(type="NodePort", ports=[{"port": 80, "protocol": "TCP"}])
    spec = _updated(old, type="NodePort", ports=[{"port": 80, "protocol": "TCP"}, {"port": 81, "protocol": "TCP"}])
    assert spec["clusterIP"] == old["spec"]["clusterIP"]
    assert spec["ports"][0]["nodePort"] == 30000
    assert spec["ports"][1]["nodePort"] != 30000


def test_another_type_drops_what_it_does_not_need() -> None:
    old = _made(type="NodePort", ports=[{"port": 80, "protocol": "TCP"}])
    spec = _updated(old, **{**old["spec"], "type": "ClusterIP", "ports": [dict(port) for port in old["spec"]["ports"]]})
    assert "nodePort" not in spec["ports"][0]
    spec = _updated(old, **{**old["spec"], "type": "ExternalName", "externalName": "x", "ports": []})
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & spec.keys()


@pytest.mark.parametrize("wanted", ["10.0.0.5", "None"])
@pytest.mark.parametrize("members", [("clusterIP", "clusterIPs"), ("clusterIP",)], ids=["both", "the single one"])
def test_an_address_stays(wanted: str, members: tuple[str, ...]) -> None:
    old = _made()
    changes = {"clusterIP": wanted, "clusterIPs": [wanted]}
    service = _service(**old["spec"] | {name: changes[name] for name in members})
    release(service, old)
    assert assign(service, old, _pool(wanted)) == []
    (problem,) = changed_service(service, old)
    assert str(problem).endswith("may not change once set")


def test_what_the_policy_says_of_a_second_family() -> None:
    """Of a headless Service without a selector, which has both."""
    old = _made(clusterIP="None")
    spec = _updated(old, **{**old["spec"], "ipFamilyPolicy": "SingleStack"})
    assert spec["ipFamilies"] == ["IPv4"]
    service = _service(**{**old["spec"], "ipFamilies": ["IPv4"]})
    (problem,) = assign(service, old, _pool())
    assert str(problem).endswith("must be 'SingleStack' to release the secondary IP family")
    preferring = _made(clusterIP="None", ipFamilyPolicy="PreferDualStack")
    spec = _updated(preferring, **{**preferring["spec"], "selector": {"a": "b"}})
    assert spec["ipFamilies"] == ["IPv4", "IPv6"]


def test_a_policy_goes_with_the_last_external_address() -> None:
    old = _made(externalIPs=["192.0.2.1"], externalTrafficPolicy="Local")
    assert "externalTrafficPolicy" not in _updated(old, **{**old["spec"], "externalIPs": []})


def test_one_node_port_for_two_ports() -> None:
    """Of the same number, with different protocols."""
    ports = [{"port": 1, "protocol": protocol, "nodePort": 30000} for protocol in ("TCP", "UDP")]
    assert assign(_service(type="NodePort", ports=ports), None, _pool()) == []
    (problem,) = assign(_service(type="NodePort", ports=[ports[0], {**ports[1], "port": 2}]), None, _pool())
    assert str(problem) == "spec.ports[1].nodePort: Invalid value: 30000: provided port is already allocated"


def test_a_list_must_begin_with_the_single_address() -> None:
    old = _made()
    service = _service(**old["spec"] | {"clusterIPs": ["10.0.0.5"]})
    release(service, old)
    (problem,) = assign(service, old, _pool())
    assert str(problem).endswith("first value must match `clusterIP`")
