"""The slices of a Service: their endpoints, labels and ports, and how endpoints are divided among those that are there."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.network.slices import SlicePlan, planned
from tests.controllers.network.objects import pod, service, slice_with

NOW = "2026-02-02T00:00:00Z"


def plan(pods: Any, slices: Any = (), zones: Any = None, **spec: Any) -> SlicePlan:
    return planned(service(**spec), pods, slices, zones or {}, NOW)


def many(count: int, start: int = 0) -> list[Any]:
    return [pod(f"p{number}", f"10.1.{number // 250}.{number % 250 + 1}") for number in range(start, start + count)]


def stored(count: int, name: str = "s", start: int = 0) -> dict[str, Any]:
    """A slice with the endpoints of so many Pods."""
    (base,) = plan(many(count, start)).create
    return slice_with(name, base["endpoints"], base)


def test_a_slice() -> None:
    made = planned({**service(), "metadata": {**service()["metadata"], "labels": {"x": "y"}}}, [pod("1")], [], {"n1": "z"}, NOW)
    assert (made.update, made.delete) == ([], [])
    (found,) = made.create
    owner = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "service-uid"}
    assert found["metadata"] == {
        "generateName": "web-",
        "namespace": "ns",
        "labels": {
            "x": "y",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        },
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": NOW},
    }
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert found["endpoints"] == [
        {
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "targetRef": {"kind": "Pod", "namespace": "ns", "name": "1", "uid": "uid-1"},
            "nodeName": "n1",
            "zone": "z",
        }
    ]


@pytest.mark.parametrize(
    ("of_pod", "spec", "wanted"),
    [
        ({}, {}, (True, True, False)),
        ({"is_ready": False}, {}, (False, False, False)),
        ({"is_ready": False}, {"publishNotReadyAddresses": True}, (True, False, False)),
        ({"is_terminating": True}, {}, (False, True, True)),
        ({"is_terminating": True}, {"publishNotReadyAddresses": True}, (True, True, True)),
    ],
    ids=["ready", "not ready", "published", "terminating", "terminating, published"],
)
def test_conditions(of_pod: Any, spec: Any, wanted: Any) -> None:
    (found,) = plan([pod("1", **of_pod)], **spec).create
    assert tuple(found["endpoints"][0]["conditions"].values()) == wanted


@pytest.mark.parametrize("left_out", [{"ips": ()}, {"is_over": True}], ids=["no address", "ended"])
def test_pods_without_endpoints(left_out: Any) -> None:
    (found,) = plan([pod("1", **left_out)]).create
    assert (found["endpoints"], found["ports"]) == ([], [])


def test_two_families() -> None:
    found = plan([pod("1", ips=("10.1.0.1", "fd00::1"))], ipFamilies=["IPv4", "IPv6"]).create
    assert [(each["addressType"], each["endpoints"][0]["addresses"]) for each in found] == [
        ("IPv4", ["10.1.0.1"]),
        ("IPv6", ["fd00::1"]),
    ]


def test_a_headless_service() -> None:
    (found,) = plan([pod("1", hostname="h", subdomain="web")], clusterIP="None", ports=None).create
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""
    assert found["endpoints"][0]["hostname"] == "h"
    assert found["ports"] == []


def test_pods_with_other_numbers_for_a_named_port() -> None:
    named = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]
    pods = [pod("1", ports=[("web", "TCP", 1)]), pod("2", ports=[("web", "TCP", 2)]), pod("3")]
    found = plan(pods, ports=named).create
    assert [[port["port"] for port in each["ports"]] for each in found] == [[1], [2], []]


def test_nothing_to_do() -> None:
    assert plan(many(3), [stored(3)]) == SlicePlan()
    (empty,) = plan([]).create
    assert plan([], [slice_with("s", [], empty)]) == SlicePlan()


def test_a_hundred_endpoints_each() -> None:
    assert [len(each["endpoints"]) for each in plan(many(250)).create] == [100, 100, 50]


def test_an_endpoint_changes_in_its_place() -> None:
    made = plan([pod("p0", "10.1.0.1", is_ready=False)], [stored(1)])
    (found,) = made.update
    assert found["endpoints"][0]["conditions"]["ready"] is False
    assert (found["metadata"]["name"], found["metadata"]["resourceVersion"], made.create, made.delete) == ("s", "1", [], [])


def test_new_endpoints_go_where_others_change() -> None:
    changed, full = stored(50, "changed"), stored(80, "untouched", 50)
    made = plan(many(99, 1) + many(40, 200)[:40] + many(30, 100), [changed, full])
    (found,) = made.update
    assert found["metadata"]["name"] == "changed"
    assert (len(found["endpoints"]), made.create) == (49 + 40, [])


def test_new_endpoints_fill_the_fullest_that_has_room() -> None:
    one, two, full = stored(30, "one"), stored(60, "two", 30), stored(100, "full", 90)
    made = plan(many(190) + many(20, 300), [one, two, full])
    assert [(each["metadata"]["name"], len(each["endpoints"])) for each in made.update] == [("two", 80)]
    assert (made.create, made.delete) == ([], [])


def test_an_emptied_slice_goes() -> None:
    made = plan(many(3), [stored(3), stored(2, "emptied", 10)])
    assert (made.create, made.update, made.delete) == ([], [], ["emptied"])


def test_the_last_one_becomes_a_placeholder() -> None:
    made = plan([], [stored(3)])
    assert (made.create, made.delete) == ([], [])
    assert [(each["metadata"]["name"], each["endpoints"], each["ports"]) for each in made.update] == [("s", [], [])]


def test_labels_of_the_service_change() -> None:
    labelled = {**service(), "metadata": {**service()["metadata"], "labels": {"x": "y", "kubernetes.io/service-name": "other"}}}
    (found,) = planned(labelled, many(1), [stored(1)], {}, "").update
    assert found["metadata"]["labels"]["x"] == "y"
    assert found["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert found["metadata"]["annotations"] == {}


def test_slices_of_others_go() -> None:
    foreign = stored(1, "foreign")
    foreign["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Service", "uid": "former", "name": "web"}]
    made = plan(many(1), [foreign])
    assert (len(made.create), made.update, made.delete) == (1, [], ["foreign"])
    assert plan(many(1), [{**stored(1), "addressType": "IPv6"}]).delete == ["s"]


def test_a_service_that_is_being_deleted_gets_no_new_ones() -> None:
    leaving = service()
    leaving["metadata"]["deletionTimestamp"] = NOW
    assert planned(leaving, many(1), [], {}, NOW) == SlicePlan()
