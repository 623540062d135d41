"""A second scheduler beside the cluster's, configured by a custom resource that aggserver serves.

Source: the Kubernetes page "Configure Multiple Schedulers": a Deployment of kube-scheduler with a service account that has the
rights of the cluster's scheduler, a Lease of its own, and pods that name their scheduler. Where the page mounts a ConfigMap, an
init container reads the configuration from the API server, as any pod would: through the aggregator, with its account's token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.binaries import kubernetes_version
from tests.controlplane.cluster import Cluster
from tests.integration.server import eventually
from tests.kind.cluster import IMAGE
from tests.waiting import KUBECTL_LIMIT

NAME = "my-scheduler"
SPACE = "kube-system"
GROUP = "scheduling.example.com"
CONFIGURATION = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "SchedulerConfiguration",
    "metadata": {"name": NAME, "namespace": SPACE},
    "spec": {"schedulerName": NAME},
}

# Writes a KubeSchedulerConfiguration, which is YAML, as JSON.
_READ = f"""
import json, ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
request = urllib.request.Request(
    "https://kubernetes.default.svc/apis/{GROUP}/v1/namespaces/{SPACE}/schedulerconfigurations/{NAME}",
    headers={{"Authorization": "Bearer " + open(account + "token").read()}},
)
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account + "ca.crt")) as answer:
    spec = json.load(answer)["spec"]
election = {{"leaderElect": spec["leaderElect"], "resourceNamespace": "{SPACE}", "resourceName": "{NAME}"}}
with open("/configuration/scheduler.yaml", "w") as file:
    json.dump({{
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{{"schedulerName": spec["schedulerName"]}}],
        "leaderElection": election,
    }}, file)
"""


def _bound(kind: str, role: str, name: str, namespace: str = "") -> dict[str, Any]:
    """A binding of our service account; kind: of the role."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": SPACE}],
    }


def _container(name: str, image: str, command: list[str]) -> dict[str, Any]:
    mounts = [{"name": "configuration", "mountPath": "/configuration"}]
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command, "volumeMounts": mounts}


def _objects() -> list[dict[str, Any]]:
    labels = {"component": NAME}
    pod = {
        "serviceAccountName": NAME,
        "initContainers": [_container("configuration", IMAGE, ["python", "-c", _READ])],
        "containers": [
            _container(
                "kube-scheduler",
                f"registry.k8s.io/kube-scheduler:{kubernetes_version()}",
                ["kube-scheduler", "--config=/configuration/scheduler.yaml"],
            )
        ],
        "volumes": [{"name": "configuration", "emptyDir": {}}],
    }
    # The cluster's role allows the Lease of the cluster's own scheduler, by name.
    rules = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"], "resourceNames": [NAME]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": [GROUP], "resources": ["schedulerconfigurations"], "verbs": ["get"]},
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": SPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": SPACE},
            "rules": rules,
        },
        _bound("Role", NAME, NAME, SPACE),
        _bound("ClusterRole", "system:kube-scheduler", f"{NAME}-as-kube-scheduler"),
        _bound("ClusterRole", "system:volume-scheduler", f"{NAME}-as-volume-scheduler"),
        _bound("Role", "extension-apiserver-authentication-reader", f"{NAME}-authentication-reader", SPACE),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": SPACE, "labels": labels},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


@pytest.fixture(scope="module")
def scheduler(aggregated: Cluster) -> Iterator[Cluster]:
    aggregated.kubectl("apply", "-f", "-", input=json.dumps(CONFIGURATION))
    manifests = json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects()})
    aggregated.kubectl("apply", "-f", "-", input=manifests)
    aggregated.kubectl("rollout", "status", f"deployment/{NAME}", "-n", SPACE, KUBECTL_LIMIT)
    yield aggregated
    aggregated.kubectl("delete", "-f", "-", "--wait=false", input=manifests)
    aggregated.kubectl("delete", "schedulerconfiguration", NAME, "-n", SPACE)


def _pod(name: str, scheduler: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": [{"name": "waits", "image": IMAGE, "command": ["python", "-c", "import signal; signal.pause()"]}]
    }
    spec["terminationGracePeriodSeconds"] = 0
    if scheduler:
        spec["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _who_bound(cluster: Cluster, namespace: str, pod: str) -> set[str]:
    events = cluster.get("events", "-n", namespace, f"--field-selector=involvedObject.name={pod},reason=Scheduled")["items"]
    return {event.get("reportingComponent") or event["source"]["component"] for event in events}


def test_each_pod_is_bound_by_the_scheduler_that_it_names(scheduler: Cluster, namespace: str) -> None:
    named = {"no-annotation": "default-scheduler", "default-scheduler": "default-scheduler", NAME: NAME, "nobodys": "nobody"}
    for name, who in named.items():
        pod = _pod(name, "" if name == "no-annotation" else who)
        scheduler.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(pod))
    ours = [name for name, who in named.items() if who != "nobody"]
    scheduler.kubectl("wait", "--for=condition=Ready", *(f"pod/{name}" for name in ours), "-n", namespace, KUBECTL_LIMIT)
    for name in ours:
        eventually(lambda name=name: _who_bound(scheduler, namespace, name) == {named[name]}, f"who bound {name}")
    assert "nodeName" not in scheduler.get("pod", "nobodys", "-n", namespace)["spec"]


def test_it_leads_by_a_lease_of_its_own(scheduler: Cluster) -> None:
    lease = scheduler.get("lease", NAME, "-n", SPACE)
    assert lease["spec"]["holderIdentity"].startswith(NAME)
    assert scheduler.kubectl("get", "schedulerconfigurations", "-n", SPACE, "--no-headers").stdout.split()[:2] == [NAME, NAME]
