"""What a user without any rights may do on its own: the same on kube-apiserver and on a standalone server.

Upstream gives every user three roles from the start (system:discovery, system:basic-user, system:public-info-viewer), without
which no client gets as far as being refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from aggserver.certificates.issuing import KeyPair, issue_client
from aggserver.certificates.store import CA_CERT, CA_KEY
from tests.controlplane.cluster import Cluster
from tests.integration.comparison import comparable
from tests.integration.raw import Answer, Client
from tests.integration.server import Standalone, eventually
from tests.waiting import KUBECTL_LIMIT

DEFINITION = Path(__file__).parents[2] / "manifests" / "examples" / "crontab.yaml"
USER, GROUPS = "wanda", ["developers"]


def of_a_user(standalone: Standalone, folder: Path) -> Path:
    """The server's kubeconfig, with a certificate of its CA for a user without rights."""
    kept = standalone.folder / "certificates"
    ca = KeyPair((kept / CA_CERT).read_bytes(), (kept / CA_KEY).read_bytes())
    # No fraction: the clock of the certificate and of its reader is the same one.
    pair = issue_client(ca, USER, GROUPS, (kept / CA_CERT).stat().st_mtime)
    config = yaml.safe_load(standalone.kubeconfig.read_text())
    data = {"client-certificate-data": pair.cert_pem, "client-key-data": pair.key_pem}
    config["users"][0]["user"] = {name: base64.b64encode(pem).decode() for name, pem in data.items()}
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def users(
    control_plane: Cluster, standalone: Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Path]]:
    """The kubeconfigs of the same user on kube-apiserver and on aggserver; both know CronTabs."""
    for kubeconfig in (control_plane.kubeconfig, standalone.kubeconfig):
        control_plane.kubectl("apply", "-f", str(DEFINITION), user=kubeconfig)
        control_plane.kubectl(
            "wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT, user=kubeconfig
        )
    yield control_plane.user(USER, GROUPS), of_a_user(standalone, tmp_path_factory.mktemp("wanda"))
    control_plane.kubectl("delete", "-f", str(DEFINITION), "--wait=false")


READABLE = [
    *("/version", "/version/", "/livez", "/readyz", "/healthz"),
    *("/api", "/api/", "/api/v1", "/apis", "/apis/", "/apis/stable.example.com", "/apis/apiextensions.k8s.io/v1"),
    *("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/stable.example.com/v1"),
]


@pytest.mark.parametrize("path", READABLE)
def test_what_may_be_read(users: tuple[Path, Path], path: str) -> None:
    for kubeconfig in users:
        with Client(kubeconfig) as client:
            assert client.request("GET", path).status == 200


def review(group: str, kind: str, **spec: Any) -> bytes:
    return json.dumps({"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}).encode()


CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"
MAY = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
SAME: dict[str, tuple[str, str, bytes | None]] = {
    "list": ("GET", CRONTABS, None),
    "create": ("POST", CRONTABS, b"{}"),
    "delete all": ("DELETE", CRONTABS, None),
    "namespaces": ("GET", "/api/v1/namespaces", None),
    "definitions": ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
    "metrics": ("GET", "/metrics", None),
    "one check": ("GET", "/readyz/ping", None),
    "index": ("GET", "/", None),
    "unknown path": ("GET", "/nonsense", None),
    "head of discovery": ("HEAD", "/apis", None),
    "post to discovery": ("POST", "/apis", b"{}"),
    "reviews of others": ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", b"{}"),
    "list of reviews": ("GET", MAY, None),
    "may I": (
        "POST",
        MAY,
        review("authorization", "SelfSubjectAccessReview", resourceAttributes={"verb": "get", "resource": "a"}),
    ),
    "may I read": (
        "POST",
        MAY,
        review("authorization", "SelfSubjectAccessReview", nonResourceAttributes={"verb": "get", "path": "/apis/x"}),
    ),
    "my rules": ("POST", RULES, review("authorization", "SelfSubjectRulesReview", namespace="default")),
    "my rules nowhere": ("POST", RULES, review("authorization", "SelfSubjectRulesReview")),
}


def seen(answer: Answer) -> Any:
    if not answer.header("content-type").startswith("application/json") or not answer.body:
        return answer.status, answer.body
    tree = comparable(json.loads(answer.body))
    status = tree.get("status")
    if isinstance(status, dict):
        # Upstream says which role let it through; what no role gives is in no order.
        status.pop("reason", None)
        for rules in ("resourceRules", "nonResourceRules"):
            if rules in status:
                status[rules] = sorted(status[rules], key=json.dumps)
    return answer.status, tree


@pytest.mark.parametrize("name", SAME)
def test_the_same(users: tuple[Path, Path], name: str) -> None:
    method, path, body = SAME[name]
    answers = []
    for kubeconfig in users:
        with Client(kubeconfig) as client:
            headers = {"accept": "application/json"} | ({"content-type": "application/json"} if body else {})
            answers.append(seen(client.request(method, path, headers, body)))
    upstream, ours = answers
    assert ours == upstream


def _tells_of_cron_spec(explain: Callable[[], CompletedProcess[str]]) -> bool:
    return "cronSpec" in explain().stdout


def test_kubectl(control_plane: Cluster, users: tuple[Path, Path]) -> None:
    """Discovery, OpenAPI and reviews by the client that most have."""
    for kubeconfig in users:
        kubectl = control_plane.kubectl
        assert "crontabs" in kubectl("api-resources", "--api-group=stable.example.com", user=kubeconfig).stdout
        # What stable.example.com has in the control plane, other tests change: for a while after that, the aggregator names the
        # document by a hash that is past, and refuses the redirect to the one that is.
        explain = partial(kubectl, "explain", "crontabs.spec", user=kubeconfig, check=False)
        eventually(partial(_tells_of_cron_spec, explain), "kubectl explain")
        assert "Server Version: v1.36" in kubectl("version", user=kubeconfig).stdout
        assert USER in kubectl("auth", "whoami", user=kubeconfig).stdout
        assert "selfsubjectreviews.authentication.k8s.io" in kubectl("auth", "can-i", "--list", user=kubeconfig).stdout
        refused = kubectl("get", "crontabs", user=kubeconfig, check=False)
        assert refused.returncode == 1
        assert f'crontabs.stable.example.com is forbidden: User "{USER}" cannot list resource "crontabs"' in refused.stderr
