"""Certificates that go and come: those of the server, which it keeps in a Secret, and the front proxy's, which kubeadm makes.

Nobody restarts the server for any of them.
"""

from __future__ import annotations

import base64
import json

from tests.controlplane.cluster import Cluster
from tests.integration.aggregation import API_SERVICE
from tests.integration.in_the_cluster.conftest import Pod, on_node
from tests.integration.server import eventually
from tests.kind.cluster import NAMESPACE

SECRET = "aggserver-certificates"
AUTHENTICATION = ("configmap", "extension-apiserver-authentication", "-n", "kube-system")
PKI = "/etc/kubernetes/pki"


def _ca_bundle(cluster: Cluster) -> str:
    return str(cluster.get("apiservice", API_SERVICE)["spec"].get("caBundle", ""))


def _is_served(cluster: Cluster) -> bool:
    return cluster.kubectl("get", "crontabs", check=False).returncode == 0


def _front_proxy_ca(cluster: Cluster) -> str:
    return str(cluster.get(*AUTHENTICATION)["data"]["requestheader-client-ca-file"])


def test_the_secret_is_deleted(aggregated: Cluster, pod: Pod) -> None:
    """Nobody notices: the server has its certificates. The next start makes new ones, and the aggregator trusts them."""
    old = aggregated.get("secret", SECRET, "-n", NAMESPACE)["metadata"]["uid"]
    bundle = _ca_bundle(aggregated)
    aggregated.kubectl("delete", "secret", SECRET, "-n", NAMESPACE)
    assert _is_served(aggregated)
    pod.kill()
    pod.wait_until_ready()
    secret = aggregated.get("secret", SECRET, "-n", NAMESPACE)
    assert secret["metadata"]["uid"] != old
    eventually(lambda: _ca_bundle(aggregated) not in ("", bundle), "the APIService has the new CA")
    assert _ca_bundle(aggregated) in secret["data"].values()
    eventually(lambda: _is_served(aggregated), "requests are answered")


def test_the_front_proxy_ca_is_rotated(aggregated: Cluster, pod: Pod) -> None:
    """By kubeadm, at once and without a time with both: kube-apiserver publishes the new CA when it starts."""
    restarts, before = pod.restarts(), _front_proxy_ca(aggregated)
    on_node("sh", "-c", f"rm {PKI}/front-proxy-*")
    for phase in ("front-proxy-ca", "front-proxy-client"):
        on_node("kubeadm", "init", "phase", "certs", phase, f"--cert-dir={PKI}")
    on_node("pkill", "-TERM", "-x", "kube-apiserver")

    def has_new() -> bool:
        done = aggregated.kubectl("get", *AUTHENTICATION, "-o", "json", check=False)
        return not done.returncode and json.loads(done.stdout)["data"]["requestheader-client-ca-file"] != before

    eventually(has_new, "the new CA is published")
    eventually(lambda: _is_served(aggregated), "requests are answered")
    assert pod.restarts() == restarts
    shown = on_node("cat", f"{PKI}/front-proxy-ca.crt")
    assert shown.strip() in _front_proxy_ca(aggregated)


def test_the_authority_of_the_server_is_the_secrets(aggregated: Cluster) -> None:
    secret = aggregated.get("secret", SECRET, "-n", NAMESPACE)["data"]
    bundle = base64.b64decode(_ca_bundle(aggregated)).decode()
    assert bundle.count("BEGIN CERTIFICATE") >= 1
    assert bundle in [base64.b64decode(value).decode() for value in secret.values()]
