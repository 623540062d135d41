"""Two servers on one etcd, by the component manifests/replicas: the same outages, of one of them.

Each server is on a node of its own where there are two, and the node of one is drained: its PodDisruptionBudget lets one pod go
at a time, and another one takes its place beside the server that stays. On an only node it could not be placed, so that is left
out there. The etcd is a pod of its own with TLS on both sides. Runs last, since it puts another storage in place of what is
installed.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.controlplane.pki import Authority
from tests.integration.in_the_cluster.conftest import Pod
from tests.integration.in_the_cluster.outages import OUTAGES, interrupted, print_times
from tests.integration.server import eventually
from tests.kind.cluster import NAMESPACE, WORKERS, write_overlay
from tests.waiting import KUBECTL_LIMIT


def _secret(name: str, values: dict[str, bytes]) -> dict[str, Any]:
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def _etcd(image: str) -> list[dict[str, Any]]:
    """A server with the files of Secret etcd-tls; its data end with it."""
    labels = {"app": "etcd"}
    command = [
        "etcd",
        "--data-dir=/data/etcd",
        "--listen-client-urls=https://0.0.0.0:2379",
        f"--advertise-client-urls=https://etcd.{NAMESPACE}:2379",
        *("--cert-file=/tls/tls.crt", "--key-file=/tls/tls.key", "--trusted-ca-file=/tls/ca.crt", "--client-cert-auth"),
    ]
    container = {
        "name": "etcd",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "readinessProbe": {"tcpSocket": {"port": 2379}, "periodSeconds": 1},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "tls", "mountPath": "/tls"}],
    }
    pod = {
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tls", "secret": {"secretName": "etcd-tls"}}],
    }
    metadata = {"name": "etcd", "namespace": NAMESPACE}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 2379}]}},
    ]


@pytest.fixture
def replicated(aggregated: Cluster, tmp_path: Path) -> Cluster:
    authority = Authority(tmp_path, "etcd")
    server, client = authority.server("server", [f"etcd.{NAMESPACE}"]), authority.client("client", "aggserver")
    ca = authority.pair.certificate.read_bytes()

    def files(pair: Any) -> dict[str, bytes]:
        return {"ca.crt": ca, "tls.crt": pair.certificate.read_bytes(), "tls.key": pair.key.read_bytes()}

    for worker in aggregated.get("nodes", "-l", WORKERS)["items"]:
        aggregated.kubectl("uncordon", worker["metadata"]["name"])
    (clusters_own,) = aggregated.get("pods", "-n", "kube-system", "-l", "component=etcd")["items"]
    image = clusters_own["spec"]["containers"][0]["image"]
    servers = f"https://etcd.{NAMESPACE}:2379".encode()
    objects = [_secret("etcd-tls", files(server)), _secret("aggserver-etcd", files(client) | {"servers": servers}), *_etcd(image)]
    aggregated.kubectl("apply", "-f", "-", input="\n".join(map(json.dumps, objects)))
    aggregated.kubectl("rollout", "status", "deployment/etcd", "-n", NAMESPACE, KUBECTL_LIMIT)
    write_overlay(tmp_path, Path(os.environ["KIND_MANIFESTS"]), "replicas")
    aggregated.kubectl("apply", "--kustomize", str(tmp_path))
    Pod(aggregated).wait_until_ready()
    return aggregated


async def test_nothing_is_lost(replicated: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    pod = Pod(replicated)
    eventually(lambda: len(pod.objects()) == 2, "two pods")
    several = len(replicated.get("nodes")["items"]) > 1
    assert len({each["spec"]["nodeName"] for each in pod.objects()}) == 1 + several
    budget = replicated.get("poddisruptionbudget", "aggserver", "-n", NAMESPACE)
    assert budget["status"]["disruptionsAllowed"] == 1
    outages = {name: outage for name, outage in OUTAGES.items() if several or name != "drained"}
    times = await interrupted(replicated, pod, outages)
    with capsys.disabled():
        print_times(times)
