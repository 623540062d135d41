"""Certificates that go and come: those of the server, which it keeps in a Secret, and the front proxy's, which kubeadm makes.

Nobody restarts the server for any of them.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping

from aggserver.certificates.issuing import new_ca
from aggserver.certificates.store import CA_CERT, CA_KEY, NEXT_CA_CERT, NEXT_CA_KEY, OLD_CA_CERTS, SERVING_CERT, SERVING_KEY
from tests.controlplane.cluster import Cluster
from tests.integration.aggregation import API_SERVICE
from tests.integration.in_the_cluster.conftest import Pod, on_node
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.watching import watching
from tests.kind.cluster import NAMESPACE

SECRET = "aggserver-certificates"
CRONTABS = "/apis/stable.example.com/v1/crontabs?limit=1"
DAY, YEAR = 24 * 3600, 365 * 24 * 3600  # seconds
AUTHENTICATION = ("configmap", "extension-apiserver-authentication", "-n", "kube-system")
PKI = "/etc/kubernetes/pki"


def _ca_bundle(cluster: Cluster) -> str:
    return str(cluster.get("apiservice", API_SERVICE)["spec"].get("caBundle", ""))


def _is_served(cluster: Cluster) -> bool:
    return cluster.kubectl("get", "crontabs", check=False).returncode == 0


def _front_proxy_ca(cluster: Cluster) -> str:
    return str(cluster.get(*AUTHENTICATION)["data"]["requestheader-client-ca-file"])


class Asking:
    """A client that asks all the time, on a connection of its own. `failures`: what was no 200."""

    def __init__(self, cluster: Cluster) -> None:
        self.answers = 0
        self.failures: list[str] = []
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def some_more(self) -> None:
        goal = self.answers + 20
        eventually(lambda: self.answers >= goal, "a client is answered")

    def _ask(self) -> None:
        with Client(self._cluster.kubeconfig) as client:
            while not self._over.wait(0.05):
                answer = client.request("GET", CRONTABS, {})
                self.answers += 1
                if answer.status != 200:
                    self.failures.append(f"{answer.status} {answer.body.decode()}")


def _secret(cluster: Cluster) -> dict[str, bytes]:
    data = cluster.get("secret", SECRET, "-n", NAMESPACE)["data"]
    return {name: base64.b64decode(value) for name, value in data.items()}


def _replace(cluster: Cluster, files: Mapping[str, bytes]) -> None:
    """What the Secret has, as a whole."""
    data = {name: base64.b64encode(value).decode() for name, value in files.items()}
    patch = json.dumps([{"op": "replace", "path": "/data", "value": data}])
    cluster.kubectl("patch", "secret", SECRET, "-n", NAMESPACE, "--type=json", "-p", patch)


def _trusted(cluster: Cluster) -> bytes:
    return base64.b64decode(_ca_bundle(cluster))


def test_the_ca_is_followed_by_its_successor(aggregated: Cluster, pod: Pod, namespace: str) -> None:
    """As it happens after years, which the Secret is told have passed: no request fails, and no watch ends.

    A day after the successor was published it signs, and the predecessor is trusted until it has expired.
    """
    before, restarts, now = _secret(aggregated), pod.restarts(), time.time()
    aged, successor = new_ca("aged", now - 8 * YEAR), new_ca("successor", now - 2 * DAY)
    with watching(aggregated, namespace) as watch, Asking(aggregated) as asking:
        # The serving certificate is still of the CA that there was, which is now one of the predecessors.
        files = {name: before[name] for name in (SERVING_CERT, SERVING_KEY)}
        files |= {CA_CERT: aged.cert_pem, CA_KEY: aged.key_pem, OLD_CA_CERTS: before[CA_CERT]}
        _replace(aggregated, files | {NEXT_CA_CERT: successor.cert_pem, NEXT_CA_KEY: successor.key_pem})
        bundle = successor.cert_pem + aged.cert_pem + before[CA_CERT]
        eventually(lambda: _trusted(aggregated) == bundle, "the successor signs, and all are trusted")
        taken = _secret(aggregated)
        assert (taken[CA_CERT], taken[SERVING_CERT]) == (successor.cert_pem, before[SERVING_CERT])
        asking.some_more()
        # The predecessors have expired.
        _replace(aggregated, {name: value for name, value in taken.items() if name != OLD_CA_CERTS})
        eventually(lambda: _trusted(aggregated) == successor.cert_pem, "only the successor is trusted")
        assert _secret(aggregated)[SERVING_CERT] != before[SERVING_CERT]
        asking.some_more()
        aggregated.kubectl("annotate", "crontab", "touched", "-n", namespace, "done=true", "--overwrite")
        aggregated.kubectl("delete", "crontab", "touched", "-n", namespace)
        assert watch.events("touched", "DELETED")[-2:] == ["MODIFIED", "DELETED"]
    assert asking.failures == []
    assert pod.restarts() == restarts


def test_the_secret_is_deleted(aggregated: Cluster, pod: Pod) -> None:
    """As somebody does whose CA is not to be trusted any more: the server makes another one, and nobody restarts it."""
    old, restarts, bundle = (
        aggregated.get("secret", SECRET, "-n", NAMESPACE)["metadata"]["uid"],
        pod.restarts(),
        _trusted(aggregated),
    )
    aggregated.kubectl("delete", "secret", SECRET, "-n", NAMESPACE)
    assert _is_served(aggregated)
    eventually(lambda: _trusted(aggregated) not in (b"", bundle), "the APIService has the new CA")
    assert _trusted(aggregated) == _secret(aggregated)[CA_CERT]
    assert aggregated.get("secret", SECRET, "-n", NAMESPACE)["metadata"]["uid"] != old
    eventually(lambda: _is_served(aggregated), "requests are answered")
    assert pod.restarts() == restarts


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
    bundle = _trusted(aggregated)
    assert bundle.count(b"BEGIN CERTIFICATE") >= 1
    assert bundle in _secret(aggregated).values()
