"""Slices that mirror Endpoints: which Endpoints have some, what is in them, and what is changed."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.network.mirrored import is_to_mirror, mirrored
from aggserver.controllers.network.slices import SlicePlan
from tests.controllers.network.objects import slice_with, subset

LAST = "kubectl.kubernetes.io/last-applied-configuration"


def endpoints(*subsets: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", "namespace": "ns", "uid": "u", **metadata}, "subsets": list(subsets)}


@pytest.mark.parametrize(
    ("metadata", "wanted"),
    [
        ({}, True),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, False),
        ({"labels": {"endpointslice.kubernetes.io/skip-mirror": "false"}}, True),
        ({"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}, False),
    ],
)
def test_which_are_mirrored(metadata: Any, wanted: bool) -> None:
    assert is_to_mirror(endpoints(**metadata)) is wanted


def test_a_mirror() -> None:
    given = subset("10.0.0.1", ports=[80], notReadyAddresses=[{"ip": "10.0.0.2", "nodeName": "n", "hostname": "h"}])
    made = mirrored(endpoints(given, labels={"x": "y"}, annotations={LAST: "{}", "z": "1"}), [])
    (found,) = made.plan.create
    owner = {"apiVersion": "v1", "kind": "Endpoints", "name": "web", "uid": "u"}
    assert found["metadata"] == {
        "generateName": "web-",
        "namespace": "ns",
        "labels": {
            "x": "y",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        },
        "annotations": {"z": "1"},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    assert found["ports"] == [{"name": "p80", "port": 80, "protocol": "TCP"}]
    assert found["endpoints"] == [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "conditions": {"ready": False}, "nodeName": "n", "hostname": "h"},
    ]
    assert (made.invalid, made.skipped) == (0, 0)


def test_one_for_each_family_and_set_of_ports() -> None:
    made = mirrored(endpoints(subset("10.0.0.1", "fd00::1", ports=[1]), subset("10.0.0.2", ports=[2])), [])
    found = [(each["addressType"], each["ports"][0]["port"], len(each["endpoints"])) for each in made.plan.create]
    assert found == [("IPv4", 1, 1), ("IPv6", 1, 1), ("IPv4", 2, 1)]


def test_addresses_that_are_none_and_too_many() -> None:
    made = mirrored(endpoints(subset("x", *(f"10.0.{n // 250}.{n % 250}" for n in range(1200)), ports=[1])), [])
    assert len(made.plan.create[0]["endpoints"]) == 1000
    assert (made.invalid, made.skipped) in ((0, 201), (1, 201))


def stored(given: dict[str, Any], name: str = "s", **metadata: Any) -> dict[str, Any]:
    (base,) = mirrored(given, []).plan.create
    return slice_with(name, base["endpoints"], base, **metadata)


def test_nothing_to_do() -> None:
    given = endpoints(subset("10.0.0.1", ports=[1]))
    assert mirrored(given, [stored(given)]).plan == SlicePlan()


@pytest.mark.parametrize(
    "now",
    [
        endpoints(subset("10.0.0.2", ports=[1])),
        endpoints(subset(ports=[1], notReadyAddresses=[{"ip": "10.0.0.1"}])),
        endpoints(subset("10.0.0.1", ports=[1]), labels={"x": "y"}),
        endpoints(subset("10.0.0.1", ports=[1]), annotations={"x": "y"}),
        endpoints(subset("10.0.0.1", ports=[1]), uid="another"),
        endpoints(subset("10.0.0.1", ports=[2])),
    ],
    ids=["address", "readiness", "label", "annotation", "made again", "ports"],
)
def test_a_change(now: Any) -> None:
    made = mirrored(now, [stored(endpoints(subset("10.0.0.1", ports=[1])))])
    assert (made.plan.create, made.plan.delete) == ([], [])
    assert [each["metadata"]["name"] for each in made.plan.update] == ["s"]


def test_what_is_not_wanted_any_more_goes() -> None:
    given = endpoints(subset("10.0.0.1", ports=[1]))
    made = mirrored(given, [stored(given), stored(given, "twice"), stored(endpoints(subset("10.0.0.1", ports=[2])), "ports")])
    assert (made.plan.create, made.plan.update, made.plan.delete) == ([], [], ["twice", "ports"])
