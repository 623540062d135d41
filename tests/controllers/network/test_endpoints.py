"""The subsets of Endpoints: which addresses and ports a Service's Pods have, their common form, when Endpoints are written."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.network.endpoints import HEADLESS, MANAGED_BY, NAME, desired_subsets, repacked, updated
from tests.controllers.network.objects import pod, service, subset
from tests.fakes.work import instructions

NAMED = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]


def shown(subsets: list[Any]) -> Any:
    """Ready addresses, others, and ports."""
    return [
        (
            [each["ip"] for each in found.get("addresses", ())],
            [each["ip"] for each in found.get("notReadyAddresses", ())],
            [(each.get("name"), each["port"]) for each in found.get("ports", ())],
        )
        for found in subsets
    ]


HTTP = [("http", 8080)]
CASES: dict[str, tuple[dict[str, Any], list[Any], Any]] = {
    "ready and not": ({}, [pod("1"), pod("2", is_ready=False)], [(["10.1.0.1"], ["10.1.0.2"], HTTP)]),
    "all published": ({"publishNotReadyAddresses": True}, [pod("1", is_ready=False)], [(["10.1.0.1"], [], HTTP)]),
    "no address yet": ({}, [pod("1", ips=())], []),
    "ended": ({}, [pod("1", is_over=True)], []),
    "terminating": ({}, [pod("1", is_terminating=True)], []),
    "terminating, published": (
        {"publishNotReadyAddresses": True},
        [pod("1", is_terminating=True)],
        [(["10.1.0.1"], [], HTTP)],
    ),
    "named ports": (
        {"ports": NAMED},
        [pod("1", ports=[("web", "TCP", 1)]), pod("2", ports=[("web", "TCP", 2)]), pod("3", ports=[("web", "UDP", 3)])],
        [(["10.1.0.1"], [], [("http", 1)]), (["10.1.0.2"], [], [("http", 2)])],
    ),
    "the first of two ports of one name": (
        {"ports": NAMED},
        [pod("1", ports=[("web", "TCP", 1), ("web", "TCP", 2)])],
        [(["10.1.0.1"], [], [("http", 1)])],
    ),
    "headless without ports": ({"ports": None, "clusterIP": "None"}, [pod("1")], [(["10.1.0.1"], [], [])]),
    "without ports": ({"ports": None}, [pod("1")], []),
    "the other family": ({"ipFamilies": ["IPv6"]}, [pod("1"), pod("2", ips=("10.1.0.2", "fd00::2"))], [(["fd00::2"], [], HTTP)]),
    "two Pods with the IP of their node": ({}, [pod("1", "10.9.9.9"), pod("2", "10.9.9.9")], [(["10.9.9.9"] * 2, [], HTTP)]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_subsets(case: tuple[dict[str, Any], list[Any], Any]) -> None:
    spec, pods, wanted = case
    assert shown(desired_subsets(service(**spec), pods)) == wanted


def test_an_address() -> None:
    (found,) = desired_subsets(service(), [pod("1", hostname="h", subdomain="web"), pod("2", hostname="h", subdomain="other")])
    target = {"kind": "Pod", "namespace": "ns", "name": "1", "uid": "uid-1"}
    assert found["addresses"][0] == {"ip": "10.1.0.1", "nodeName": "n1", "hostname": "h", "targetRef": target}
    assert "hostname" not in found["addresses"][1]
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]


REPACKED = {
    "ports with the same addresses": ([subset("1", "2", ports=[1]), subset("2", "1", ports=[2])], [(["1", "2"], [], [1, 2])]),
    "a port in two subsets": ([subset("1", ports=[1]), subset("2", ports=[1])], [(["1", "2"], [], [1])]),
    "a port in two, another in one": (
        [subset("1", ports=[1, 2]), subset("2", ports=[1])],
        [(["1", "2"], [], [1]), (["1"], [], [2])],
    ),
    "not ready in one of them": (
        [subset("1", ports=[1]), subset(ports=[1], notReadyAddresses=[{"ip": "1"}])],
        [([], ["1"], [1])],
    ),
    "without ports": ([subset("1"), subset("2")], [(["1", "2"], [], [])]),
}


@pytest.mark.parametrize("case", REPACKED.values(), ids=REPACKED)
def test_the_common_form(case: Any) -> None:
    given, wanted = case
    found = [(ready, others, [port for _, port in ports]) for ready, others, ports in shown(repacked(given))]
    assert found == wanted


def test_ports_that_share_many_addresses() -> None:
    """Each port would get a subset of its own with all addresses of the first one."""
    many = 300
    given = [subset(*map(str, range(many)), ports=range(1, many)), *(subset(f"x{n}", ports=[n]) for n in range(1, many))]
    found = repacked(given, most=10 * many)
    assert len(found) == 9
    # Two thirds of what 300 by 300 would take.
    assert instructions(lambda: repacked(given, most=10 * many)) < many * many * 6


def endpoints(subsets: Any, **metadata: Any) -> dict[str, Any]:
    labels = {MANAGED_BY: NAME}
    return {
        "metadata": {"name": "web", "namespace": "ns", "resourceVersion": "1", "labels": labels, **metadata},
        "subsets": subsets,
    }


def test_what_is_created() -> None:
    new = updated(service(), [subset("1")], None, "2026-01-01T00:00:00Z")
    assert new is not None
    annotations = {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"}
    assert new["metadata"] == {"name": "web", "namespace": "ns", "labels": {MANAGED_BY: NAME}, "annotations": annotations}


def test_what_stays() -> None:
    target, ports = {"kind": "Pod", "name": "1", "uid": "u"}, [{"name": "p", "port": 1}]
    wanted = [{"addresses": [{"ip": "1", "nodeName": "", "targetRef": target}], "ports": ports}]
    stored = [{"addresses": [{"ip": "1", "targetRef": {**target, "resourceVersion": "7"}}], "ports": ports}]
    assert updated(service(), wanted, endpoints(stored), "now") is None
    assert updated(service(), [], endpoints(None), "now") is None
    assert updated(service(clusterIP="None"), [], endpoints(None, labels={MANAGED_BY: NAME, HEADLESS: ""}), "now") is None


@pytest.mark.parametrize(
    "current",
    [
        endpoints([subset("2")]),
        endpoints([subset("1")], labels={}),
        endpoints([subset("1")], labels={MANAGED_BY: NAME, "x": "y"}),
        endpoints([subset("1")], annotations={"endpoints.kubernetes.io/over-capacity": "truncated"}),
    ],
    ids=["other addresses", "not managed", "another label", "truncated before"],
)
def test_what_is_changed(current: Any) -> None:
    new = updated(service(clusterIP="None"), [subset("1")], current, "")
    assert new is not None
    assert new["metadata"]["labels"] == {MANAGED_BY: NAME, HEADLESS: ""}
    assert new["metadata"]["annotations"] == {}
    assert new["metadata"]["resourceVersion"] == "1"


@pytest.mark.parametrize(
    ("ready", "others", "kept"),
    [((900, 300), (10, 10), ((750, 0), (250, 0))), ((500, 100), (600, 200), ((500, 300), (100, 100)))],
    ids=["too many ready", "too many others"],
)
def test_more_than_a_thousand_addresses(ready: Any, others: Any, kept: Any) -> None:
    subsets = [
        {
            "addresses": [{"ip": f"r{index}"} for index in range(ready[part])],
            "notReadyAddresses": [{"ip": f"n{index}"} for index in range(others[part])],
            "ports": [{"port": part + 1}],
        }
        for part in (0, 1)
    ]
    new = updated(service(), subsets, None, "")
    assert new is not None
    assert new["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert [(len(each.get("addresses", ())), len(each.get("notReadyAddresses", ()))) for each in new["subsets"]] == list(kept)
