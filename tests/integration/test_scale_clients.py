"""Who asks for the `/scale` of any kind, with custom resources here: the autoscaler and the disruption controller of a cluster.

Both find the resource by discovery, through the aggregator, and have only the rights that the cluster gives them. Source: the
section "Scale subresource" of the Kubernetes page on definitions; pkg/controller/podautoscaler/horizontal.go and
pkg/controller/disruption/disruption.go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.integration import pages
from tests.integration.aggregation import Aggregation
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

NAME = "my-new-cron-object"
GROUP = "scaled.example.com"
SELECTOR = "app=cron"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    more = ("horizontal-pod-autoscaler-controller", "disruption-controller")
    with ControlPlane(obtain(os.environ, print), controllers=(*CONTROLLERS, *more)) as plane:
        yield plane


@pytest.fixture(scope="module")
def aggregation(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    """With the page's definition that has a status and a scale."""
    made = Aggregation(control_plane, tmp_path_factory.mktemp("aggregated"))
    try:
        with made.definition("scaled.yaml", pages.WITH_SUBRESOURCES.replace("stable.example.com", GROUP)):
            path = f"/apis/{GROUP}/v1/crontabs"
            served = eventually(lambda: made.plane.kubectl("get", "--raw", path, check=False).stdout, "the definition is served")
            assert '"items":[]' in served
            yield made
    finally:
        assert made.server.stop() == 0, made.server.output


def create(plane: ControlPlane, namespace: str, *objects: dict[str, Any]) -> None:
    for obj in objects:
        plane.kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(obj))


def crontab(plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """The page's, with three replicas."""
    manifest = pages.MY_CRONTAB_WITH_REPLICAS.replace("stable.example.com", GROUP)
    made = plane.kubectl("-n", namespace, "create", "-f", "-", "-o", "json", input=manifest)
    found: dict[str, Any] = json.loads(made.stdout)
    return found


def test_an_autoscaler(aggregation: Aggregation, namespace: str) -> None:
    plane = aggregation.plane
    crontab(plane, namespace)
    target = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "name": NAME}
    create(
        plane,
        namespace,
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "cron"},
            "spec": {"scaleTargetRef": target, "minReplicas": 5, "maxReplicas": 6},
        },
    )

    def condition(name: str) -> tuple[str, str]:
        status = plane.get("hpa", "cron", "-n", namespace).get("status", {})
        found = {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions", ())}
        return found.get(name, ("", ""))

    eventually(lambda: plane.get(f"crontabs.{GROUP}", NAME, "-n", namespace)["spec"]["replicas"] == 5, "it is scaled")
    # From there on it counts pods, which it finds by the selector only.
    eventually(lambda: condition("ScalingActive") == ("False", "InvalidSelector"), "a selector is missing")
    assert condition("AbleToScale")[0] == "True"
    patch = json.dumps({"status": {"labelSelector": SELECTOR, "replicas": 5}})
    plane.kubectl("-n", namespace, "patch", f"crontabs.{GROUP}", NAME, "--subresource=status", "--type=merge", "-p", patch)
    eventually(lambda: condition("ScalingActive") == ("False", "FailedGetResourceMetric"), "only the metrics are missing")


def test_a_disruption_budget(aggregation: Aggregation, namespace: str) -> None:
    plane = aggregation.plane
    owner = crontab(plane, namespace)
    plane.kubectl("-n", namespace, "wait", "--for=create", "serviceaccount/default", KUBECTL_LIMIT)
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "name": NAME, "uid": owner["metadata"]["uid"]}
    create(
        plane,
        namespace,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "one", "labels": {"app": "cron"}, "ownerReferences": [{**reference, "controller": True}]},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "cron"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "cron"}}},
        },
    )

    def expected() -> tuple[int, int]:
        status = plane.get("pdb", "cron", "-n", namespace).get("status", {})
        return status.get("expectedPods", 0), status.get("desiredHealthy", 0)

    eventually(lambda: expected() == (3, 2), "the budget is of the replicas of the CronTab")
