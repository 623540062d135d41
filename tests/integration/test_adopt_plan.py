"""`aggserver adopt plan` against a real kube-apiserver: what it counts, and what it finds in the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.adopting import adopt
from tests.integration.aggregation import NAMESPACE, SERVICE, Aggregation
from tests.waiting import KUBECTL_LIMIT

GROUP = "plans.adopt.example.com"
NAME = f"gadgets.{GROUP}"


def _definition(plural: str, kind: str, labels: dict[str, str]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": labels},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture(scope="module")
def gadgets(aggregation: Aggregation) -> Iterator[Aggregation]:
    plane = aggregation.plane
    plane.kubectl("apply", "-f", "-", input=json.dumps(_definition("gadgets", "Gadget", {"plan": "yes"})))
    plane.kubectl("wait", "--for=condition=Established", f"crd/{NAME}", KUBECTL_LIMIT)
    objects = [
        {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": f"g{number}", "namespace": "default"}}
        for number in range(3)
    ]
    plane.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
    try:
        yield aggregation
    finally:
        plane.kubectl("delete", "crd", NAME)


def _plan(aggregation: Aggregation, *arguments: str) -> tuple[int, dict[str, Any]]:
    address = ["--service-name", SERVICE, "--service-port", str(aggregation.port)]
    done = adopt(aggregation.plane, "plan", *address, "-o", "json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_nothing_is_in_the_way_of_an_account_that_may_do_all(gadgets: Aggregation) -> None:
    binding = ["clusterrolebinding", "adopt-plan-test"]
    account = f"{NAMESPACE}:planner"
    gadgets.plane.kubectl("create", *binding, "--clusterrole=cluster-admin", f"--serviceaccount={account}")
    try:
        status, found = _plan(gadgets, "--adopt", "plan=yes", "--service-account", "planner")
    finally:
        gadgets.plane.kubectl("delete", *binding)
    assert (status, found["ok"], found["obstacles"]) == (0, True, []), found
    (family,) = found["families"]
    assert (family["name"], family["groupVersions"], family["obstacles"]) == (NAME, [f"{GROUP}/v1"], [])
    (definition,) = family["definitions"]
    assert (definition["objects"], definition["sampled"]) == (3, 3)
    assert definition["bytes"] > 300


def test_an_account_without_rights_is_told(gadgets: Aggregation) -> None:
    status, found = _plan(gadgets, "--adopt", "plan=yes", "--service-account", "nobody")
    assert status == 1
    assert "the service account lacks the permission to update apiservices.apiregistration.k8s.io" in found["obstacles"]
    assert f"the service account lacks the permission to list {NAME}" in found["families"][0]["obstacles"]


def test_definitions_of_one_group_version_go_together(gadgets: Aggregation) -> None:
    gadgets.plane.kubectl("apply", "-f", "-", input=json.dumps(_definition("widgets", "Widget", {})))
    try:
        gadgets.plane.kubectl("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", KUBECTL_LIMIT)
        status, found = _plan(gadgets, "--adopt", "plan=yes")
    finally:
        gadgets.plane.kubectl("delete", "crd", f"widgets.{GROUP}")
    assert status == 1
    assert any("they move together or not at all" in each for each in found["families"][0]["obstacles"])
