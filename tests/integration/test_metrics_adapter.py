"""The same request, the same answer, the same autoscaling: custom-metrics-apiserver's test-adapter and an App with its numbers.

Both serve the same groups, so they are asked one after the other, each behind the aggregator.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.beside import api_service, service
from tests.integration.cases_metrics import CASES, DIFFERENT, VERSIONS
from tests.integration.comparison import Seen, play
from tests.integration.raw import Client
from tests.integration.server import Aggregated, eventually
from tests.metrics_adapter.program import MetricsAdapter
from tests.waiting import KUBECTL_LIMIT

APP = Path(__file__).parents[1] / "metrics_adapter" / "numbers_of_ours.py"
NAMESPACE = "adapter"
API_SERVICES = [f"{version}.{group}" for group, versions in VERSIONS.items() for version in versions]
NUMBERS = {
    "namespaces/default/pods/web-1/requests-per-second": "2500m",
    "namespaces/default/pods/web-2/requests-per-second": "4",
    "namespaces/default/pods/db-1/requests-per-second": "100",
    "namespaces/default/services/web/latency?labels=verb%3DGET": "300m",
    "nodes/node-1/watts": "120",
}
Answers = dict[str, list[Seen]]


def _target(kind: str, value: str) -> dict[str, str]:
    return {"type": kind, kind[0].lower() + kind[1:]: value}


AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 20,
        "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 20, "periodSeconds": 15}]}},
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "my-external-metric", "selector": {"matchLabels": {"foo": "bar"}}},
                    "target": _target("AverageValue", "6"),
                },
            },
            {"type": "Pods", "pods": {"metric": {"name": "requests-per-second"}, "target": _target("AverageValue", "2")}},
            {
                "type": "Object",
                "object": {
                    "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
                    "metric": {"name": "latency", "selector": {"matchLabels": {"verb": "GET"}}},
                    "target": _target("Value", "100m"),
                },
            },
        ],
    },
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[Answers, Any], tuple[Answers, Any]]:
    """What both have answered, and the status of the autoscaler over each."""
    folder = tmp_path_factory.mktemp("adapter")
    controllers = (*CONTROLLERS, "horizontal-pod-autoscaler-controller")
    with ControlPlane(obtain(os.environ, print), controllers=controllers) as plane:
        port = free_ports(1)[0]
        plane.kubectl("create", "-f", "-", input="\n---\n".join(json.dumps(each) for each in _objects(port)))
        for pod in ("web-1", "web-2", "db-1"):
            status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            plane.kubectl("patch", "pod", pod, "--subresource=status", "-p", json.dumps(status))
        # The controller of Deployments does not run; without replicas an average has no meaning.
        plane.kubectl("patch", "deployment", "web", "--subresource=status", "-p", json.dumps({"status": {"replicas": 2}}))
        lead = service("adapter", NAMESPACE, port)
        versions = [name.split(".", 1) for name in API_SERVICES]
        services = [api_service(version, group, lead, 100, 100 if version == "v1beta1" else 200) for version, group in versions]
        plane.kubectl("create", "-f", "-", input="\n---\n".join(map(json.dumps, services)))
        adapter = MetricsAdapter(plane, folder, port)
        try:
            for path, value in NUMBERS.items():
                adapter.write(path, value)
            upstream = _seen(plane)
        finally:
            adapter.stop()
        plane.kubectl("delete", "apiservices", *API_SERVICES)
        return upstream, _ours(plane, folder, port)


def _ours(plane: ControlPlane, folder: Path, port: int) -> tuple[Answers, Any]:
    (folder / "aggserver").mkdir()
    shutil.copy(APP, folder / "aggserver")
    service = ["--service-name", "adapter", "--service-namespace", NAMESPACE, "--service-port", str(port)]
    server = Aggregated(folder / "aggserver", plane.kubeconfig, port, "--app", f"{APP.stem}:app", *service)
    try:
        found = _seen(plane)
    except BaseException:
        server.kill()
        raise
    assert server.stop() == 0, server.output
    return found


def _seen(plane: ControlPlane) -> tuple[Answers, Any]:
    for name in API_SERVICES:
        eventually(
            lambda name=name: not plane.kubectl("get", f"apiservice/{name}", check=False).returncode,  # type: ignore[misc]
            f"the APIService {name}",
        )
        plane.kubectl("wait", "--for=condition=Available", f"apiservice/{name}", KUBECTL_LIMIT)
        version, group = name.split(".", 1)
        path = f"/apis/{group}/{version}"
        eventually(lambda path=path: not plane.kubectl("get", "--raw", path, check=False).returncode, path)  # type: ignore[misc]
    with Client(plane.kubeconfig) as client, Client(plane.kubeconfig, certificate=False) as stranger:
        answers = {name: play(case, name, client, stranger) for name, case in CASES.items()}
    return answers, _autoscaled(plane)


def _autoscaled(plane: ControlPlane) -> Any:
    """The status of an autoscaler that has scaled a Deployment, without times; the Deployment is as before afterwards."""
    plane.kubectl("create", "-f", "-", input=json.dumps(AUTOSCALER))

    def status() -> Any:
        return plane.get("hpa", "web").get("status", {})

    def is_scaled() -> bool:
        return len(status().get("currentMetrics") or ()) == 3 and bool(plane.get("deployment", "web")["spec"]["replicas"] > 2)

    eventually(is_scaled, "the autoscaler has asked for all metrics")
    found = {**status(), "replicas": plane.get("deployment", "web")["spec"]["replicas"]}
    plane.kubectl("delete", "hpa", "web")
    plane.kubectl("scale", "deployment/web", "--replicas=2")
    return {
        "desired": found["desiredReplicas"],
        "replicas": found["replicas"],
        "metrics": found["currentMetrics"],
        "conditions": [(each["type"], each["status"], each["reason"]) for each in found["conditions"]],
    }


def _objects(port: int) -> Iterator[dict[str, Any]]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield service("adapter", NAMESPACE, port)
    spec = {"containers": [{"name": "main", "image": "main:1"}]}
    for pod, app in (("web-1", "web"), ("web-2", "web"), ("db-1", "db")):
        metadata = {"name": pod, "namespace": "default", "labels": {"app": app}}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    }
    labels = {"app": "web"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


@pytest.mark.parametrize("name", CASES)
def test_both_say_the_same(seen: tuple[tuple[Answers, Any], tuple[Answers, Any]], name: str) -> None:
    upstream, ours = ([_alike(answer) for answer in answers[name]] for answers, _ in seen)
    if name in DIFFERENT:
        assert ours != upstream, f"no longer differs, though listed because {DIFFERENT[name]!r}"
    else:
        assert ours == upstream


def _alike(seen: Seen) -> Seen:
    """The test-adapter writes the version of the core group as `/v1`."""
    items = seen.body.get("items") if isinstance(seen.body, dict) else None
    if not items or "describedObject" not in items[0]:
        return seen
    objects = [each["describedObject"] for each in items]
    objects = [{**each, "apiVersion": each["apiVersion"].removeprefix("/")} for each in objects]
    told = [{**each, "describedObject": described} for each, described in zip(items, objects, strict=True)]
    return replace(seen, body={**seen.body, "items": told})


def test_both_are_followed_alike(seen: tuple[tuple[Answers, Any], tuple[Answers, Any]]) -> None:
    (_, upstream), (_, ours) = seen
    assert upstream["desired"] == upstream["replicas"] == 7
    assert ours == upstream
