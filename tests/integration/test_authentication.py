"""Who a request comes from, and who may say so: a server in front of a real control plane, asked past the aggregator.

The user that the server sees is in the words of its refusal, so most requests here are refused.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.pki import Authority, KeyPair
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.aggregation import API_SERVICE, Aggregation
from tests.integration.direct import Answer, Direct, forwarding
from tests.integration.server import eventually, running
from tests.waiting import HANG_SECONDS

CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"
CONFIG_MAP = ("configmap", "extension-apiserver-authentication", "-n", "kube-system")
REMOTE = ("X-Remote-User", "wanda")
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


def forbidden(user: str, verb: str = "list", namespace: str = "default") -> dict[str, Any]:
    message = (
        f'crontabs.stable.example.com is forbidden: User "{user}" cannot {verb} resource "crontabs" in API group '
        f'"stable.example.com" in the namespace "{namespace}"'
    )
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Forbidden",
        "details": {"group": "stable.example.com", "kind": "crontabs"},
        "code": 403,
    }


@pytest.fixture(scope="module")
def direct(aggregation: Aggregation) -> Direct:
    bundle = aggregation.api_services()[API_SERVICE]["spec"]["caBundle"]
    return Direct(aggregation.port, base64.b64decode(bundle).decode())


@pytest.fixture(scope="module")
def jane(own_control_plane: ControlPlane) -> KeyPair:
    """A client certificate of the cluster's CA, for a user without rights."""
    return own_control_plane.client_ca.client("jane", "jane", ["developers"])


@pytest.fixture(scope="module")
def admin(own_control_plane: ControlPlane) -> KeyPair:
    return own_control_plane.client_ca.client("direct-admin", "admin", ["system:masters"])


@pytest.fixture(scope="module")
def proxy(own_control_plane: ControlPlane) -> KeyPair:
    """The aggregator's own certificate."""
    return own_control_plane.front_proxy


def assert_forbidden(answer: Answer, user: str) -> None:
    assert (answer.status, answer.json) == (403, forbidden(user))
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def assert_unauthorized(answer: Answer) -> None:
    assert (answer.status, answer.json) == (401, UNAUTHORIZED)
    assert answer.headers["Content-Type"] == "application/json"


# --- the front proxy


def test_the_proxy_names_the_user(direct: Direct, proxy: KeyPair) -> None:
    assert_forbidden(direct.get(CRONTABS, REMOTE, certificate=proxy), "wanda")


def test_the_proxy_names_groups(direct: Direct, proxy: KeyPair, aggregation: Aggregation, namespace: str) -> None:
    kubectl = aggregation.plane.kubectl
    kubectl("-n", namespace, "create", "rolebinding", "team", "--clusterrole=edit", "--group=team-b")
    path = CRONTABS.replace("/default/", f"/{namespace}/")
    groups = [("X-Remote-Group", "team-a"), ("X-Remote-Group", "team-b")]
    eventually(lambda: direct.get(path, REMOTE, *groups, certificate=proxy).status == 200, "the group's rights")
    assert direct.get(path, REMOTE, groups[0], certificate=proxy).status == 403
    masters = ("X-Remote-Group", "system:masters")
    assert direct.get(CRONTABS, REMOTE, masters, certificate=proxy).status == 200


def test_the_proxy_without_a_user(direct: Direct, proxy: KeyPair) -> None:
    # Its certificate is of no client CA, so that it is nobody itself.
    assert_unauthorized(direct.get(CRONTABS, certificate=proxy))


def test_a_name_that_is_not_allowed(direct: Direct, own_control_plane: ControlPlane) -> None:
    other = own_control_plane.front_proxy_ca.client("other-proxy", "other-proxy")
    assert_unauthorized(direct.get(CRONTABS, REMOTE, certificate=other))


def test_a_server_certificate_of_the_proxys_ca(direct: Direct, own_control_plane: ControlPlane) -> None:
    """Made for servers, not for clients, though its name is allowed: the TLS library or the server refuses it."""
    pair = own_control_plane.front_proxy_ca.server("front-proxy-server", ["front-proxy-client"])
    try:
        answer = direct.get(CRONTABS, REMOTE, certificate=pair)
    except OSError:
        return
    assert_unauthorized(answer)


# --- identity headers of those who are not the proxy


IDENTITY = [REMOTE, ("X-Remote-Group", "system:masters"), ("X-Remote-Uid", "1"), ("X-Remote-Extra-Scopes", "all")]


def test_headers_of_a_client(direct: Direct, jane: KeyPair) -> None:
    assert_forbidden(direct.get(CRONTABS, *IDENTITY, certificate=jane), "jane")


def test_headers_of_nobody(direct: Direct) -> None:
    assert_forbidden(direct.get(CRONTABS, *IDENTITY), "system:anonymous")


def test_headers_of_a_token(direct: Direct, aggregation: Aggregation) -> None:
    token = aggregation.plane.kubectl("create", "token", "default").stdout.strip()
    answer = direct.get(CRONTABS, *IDENTITY, ("Authorization", f"Bearer {token}"))
    assert_forbidden(answer, "system:serviceaccount:default:default")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_without_tls(direct: Direct, version: str) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in IDENTITY)
    answer = direct.plain_text(f"GET {CRONTABS} HTTP/{version}\r\nHost: x\r\n{headers}\r\n".encode())
    assert b" 200 " not in answer
    assert b"CronTab" not in answer


def test_a_certificate_of_an_unknown_ca(direct: Direct, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "strangers").client("stranger", "front-proxy-client", ["system:masters"])
    with pytest.raises((ssl.SSLError, OSError)):
        direct.get(CRONTABS, REMOTE, certificate=stranger)


# --- clients themselves


def test_a_client_certificate(direct: Direct, jane: KeyPair, admin: KeyPair) -> None:
    assert_forbidden(direct.get(CRONTABS, certificate=jane), "jane")
    answer = direct.get(CRONTABS, certificate=admin)
    assert (answer.status, answer.json["kind"]) == (200, "CronTabList")


def test_tokens(direct: Direct, aggregation: Aggregation, namespace: str) -> None:
    kubectl = aggregation.plane.kubectl
    kubectl("-n", namespace, "create", "serviceaccount", "robot")
    kubectl("-n", namespace, "create", "rolebinding", "robot", "--clusterrole=edit", f"--serviceaccount={namespace}:robot")
    token = ("Authorization", f"Bearer {kubectl('-n', namespace, 'create', 'token', 'robot').stdout.strip()}")
    path = CRONTABS.replace("/default/", f"/{namespace}/")
    eventually(lambda: direct.get(path, token).status == 200, "the robot's rights")
    made = direct.request("POST", path, [token], json.dumps(crontab("by-a-robot")).encode())
    assert made.status == 201
    assert_forbidden(direct.get(CRONTABS, token), f"system:serviceaccount:{namespace}:robot")
    name, value = token
    for wrong in ("nonsense", value.removeprefix("Bearer ")[:-8] + "AAAAAAAA"):
        assert_unauthorized(direct.get(path, (name, f"Bearer {wrong}")))


def crontab(name: str) -> dict[str, Any]:
    spec = {"cronSpec": "* * * * */5", "image": "my-awesome-cron-image"}
    return {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}


def test_anonymous(direct: Direct) -> None:
    assert_forbidden(direct.get(CRONTABS), "system:anonymous")
    for path in ("/livez", "/readyz", "/healthz"):
        answer = direct.get(path)
        assert (answer.status, answer.body) == (200, b"ok")
    metrics = direct.get("/metrics")
    assert metrics.json["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
    assert (metrics.status, metrics.json["details"]) == (403, {})


# --- impersonation


def test_impersonation(direct: Direct, jane: KeyPair, admin: KeyPair) -> None:
    bob = ("Impersonate-User", "bob")
    assert_forbidden(direct.get(CRONTABS, bob, certificate=admin), "bob")
    masters = ("Impersonate-Group", "system:masters")
    assert direct.get(CRONTABS, bob, masters, certificate=admin).status == 200
    refused = direct.get(CRONTABS, bob, certificate=jane)
    assert (refused.status, refused.json["message"]) == (
        403,
        'users "bob" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope',
    )
    half = direct.get(CRONTABS, masters, certificate=admin)
    assert (half.status, half.json["message"]) == (400, 'requested group "system:masters" without impersonating a user name')


# --- what the cluster rotates


POLICIES = "admissionregistration.k8s.io/v1"
NOT_RESTORED = {
    "apiVersion": POLICIES,
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "authentication-is-not-restored"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE"],
                    "resources": ["configmaps"],
                    "resourceNames": [CONFIG_MAP[1]],
                }
            ]
        },
        "validations": [{"expression": "request.userInfo.username != 'system:apiserver'", "message": "tests change it"}],
    },
}
NOT_RESTORED_BINDING = {
    "apiVersion": POLICIES,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "authentication-is-not-restored"},
    "spec": {"policyName": "authentication-is-not-restored", "validationActions": ["Deny"]},
}


@pytest.fixture(scope="module")
def not_restored(own_control_plane: ControlPlane) -> Iterator[None]:
    """kube-apiserver adds what it wants to the ConfigMap: every minute, and before 1.32 at once. Here it is not allowed to."""
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NOT_RESTORED, NOT_RESTORED_BINDING]})
    own_control_plane.kubectl("apply", "-f", "-", input=both)
    itself = ("--as", "system:apiserver", "--as-group", "system:masters", "--dry-run=server")

    def is_refused() -> bool:
        done = own_control_plane.kubectl("annotate", *CONFIG_MAP, "restored=yes", *itself, check=False)
        return "tests change it" in done.stderr

    eventually(is_refused, "the policy is in force")
    yield
    own_control_plane.kubectl("delete", "-f", "-", input=both)


@pytest.fixture
def config_map(own_control_plane: ControlPlane, not_restored: None) -> Iterator[dict[str, str]]:
    """The ConfigMap's data; as it was afterwards."""
    data: dict[str, str] = own_control_plane.get(*CONFIG_MAP)["data"]
    yield data
    change(own_control_plane, data)


def change(plane: ControlPlane, data: dict[str, str]) -> None:
    plane.kubectl("patch", *CONFIG_MAP, "--type=merge", "-p", json.dumps({"data": data}))


def user_of(direct: Direct, *headers: tuple[str, str], certificate: KeyPair) -> str:
    """Whom the server takes this for; '' for a refusal at the door."""
    try:
        answer = direct.get(CRONTABS, *headers, certificate=certificate)
    except OSError:
        return ""
    return str(answer.json["message"]).split('User "')[1].split('"')[0] if answer.status == 403 else ""


def test_a_rotated_proxy_ca(
    direct: Direct, own_control_plane: ControlPlane, proxy: KeyPair, config_map: dict[str, str], tmp_path: Path
) -> None:
    new = Authority(tmp_path, "new-front-proxy-ca")
    client = new.client("new-proxy", "front-proxy-client")
    assert user_of(direct, REMOTE, certificate=client) == ""
    both = config_map["requestheader-client-ca-file"] + new.pair.certificate.read_text()
    change(own_control_plane, {"requestheader-client-ca-file": both})
    eventually(lambda: user_of(direct, REMOTE, certificate=client) == "wanda", "the new CA is trusted")
    assert user_of(direct, REMOTE, certificate=proxy) == "wanda"
    change(own_control_plane, config_map)
    eventually(lambda: user_of(direct, REMOTE, certificate=client) == "", "the CA is trusted no more")
    assert user_of(direct, REMOTE, certificate=proxy) == "wanda"


def test_a_rotated_client_ca(
    direct: Direct, own_control_plane: ControlPlane, jane: KeyPair, config_map: dict[str, str], tmp_path: Path
) -> None:
    new = Authority(tmp_path, "new-client-ca")
    client = new.client("joan", "joan")
    assert user_of(direct, certificate=client) == ""
    change(own_control_plane, {"client-ca-file": config_map["client-ca-file"] + new.pair.certificate.read_text()})
    eventually(lambda: user_of(direct, certificate=client) == "joan", "the new CA is trusted")
    assert user_of(direct, certificate=jane) == "jane"


def test_another_header(direct: Direct, own_control_plane: ControlPlane, proxy: KeyPair, config_map: dict[str, str]) -> None:
    other = ("X-Other-User", "wanda")
    assert user_of(direct, other, certificate=proxy) == ""
    change(own_control_plane, {"requestheader-username-headers": '["X-Remote-User","X-Other-User"]'})
    eventually(lambda: user_of(direct, other, certificate=proxy) == "wanda", "the new header counts")
    change(own_control_plane, config_map)
    eventually(lambda: user_of(direct, other, certificate=proxy) == "", "the header counts no more")


def test_another_name(direct: Direct, own_control_plane: ControlPlane, config_map: dict[str, str]) -> None:
    other = own_control_plane.front_proxy_ca.client("second-proxy", "second-proxy")
    assert user_of(direct, REMOTE, certificate=other) == ""
    change(own_control_plane, {"requestheader-allowed-names": '["front-proxy-client","second-proxy"]'})
    eventually(lambda: user_of(direct, REMOTE, certificate=other) == "wanda", "the new name is allowed")


@pytest.mark.usefixtures("config_map")
def test_what_cannot_be_used_changes_nothing(
    direct: Direct, own_control_plane: ControlPlane, aggregation: Aggregation, proxy: KeyPair
) -> None:
    said = len(aggregation.log)
    change(own_control_plane, {"requestheader-client-ca-file": "no certificate"})
    eventually(lambda: "keeping the last valid ConfigMap" in aggregation.log[said:], "the log tells of it")
    assert user_of(direct, REMOTE, certificate=proxy) == "wanda"


# --- a front-proxy CA that ordinary clients have certificates of

OVERLAP = (
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be "
    "specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)


def overlapping(plane: ControlPlane, data: dict[str, str]) -> None:
    """What an older kube-apiserver could be told to publish."""
    both = data["requestheader-client-ca-file"] + plane.client_ca.pair.certificate.read_text()
    change(plane, {"requestheader-client-ca-file": both, "requestheader-allowed-names": "[]"})


def test_no_client_becomes_the_proxy(
    direct: Direct,
    own_control_plane: ControlPlane,
    aggregation: Aggregation,
    jane: KeyPair,
    admin: KeyPair,
    proxy: KeyPair,
    config_map: dict[str, str],
) -> None:
    said = len(aggregation.log)
    overlapping(own_control_plane, config_map)
    kept = f"keeping the last valid ConfigMap kube-system/extension-apiserver-authentication: its content is invalid: {OVERLAP}"
    eventually(lambda: kept in aggregation.log[said:], "the log tells of it")
    assert_forbidden(direct.get(CRONTABS, *IDENTITY, certificate=jane), "jane")
    assert user_of(direct, REMOTE, certificate=proxy) == "wanda", "what held before holds"
    ready = direct.get("/readyz?verbose")
    assert ready.status == 200
    assert b"[+]authentication ok, with a warning: reason withheld\n" in ready.body
    assert kept in direct.get("/readyz/authentication", certificate=admin).body.decode()
    change(own_control_plane, config_map)
    eventually(lambda: b"with a warning" not in direct.get("/readyz?verbose").body, "all is well again")


def test_no_client_becomes_the_proxy_at_the_start(
    own_control_plane: ControlPlane,
    aggregation: Aggregation,
    jane: KeyPair,
    proxy: KeyPair,
    config_map: dict[str, str],
    tmp_path: Path,
) -> None:
    """Nor does anybody become nobody: whom a CA vouches for that is not known yet has to try again."""
    overlapping(own_control_plane, config_map)
    with running(server := aggregation.beside(tmp_path / "server", 0)):
        server.wait_for("waiting for ConfigMap kube-system/extension-apiserver-authentication: its content is invalid: ")
        unverified = Direct(server.port)
        assert b"[-]authentication failed: reason withheld\n" in unverified.get("/readyz").body
        masters = ("X-Remote-Group", "system:masters")
        for headers, certificate in (
            ([], None),
            ([], jane),
            (IDENTITY, jane),
            ([REMOTE, masters], proxy),
            ([REMOTE, masters], None),
        ):
            answer = unverified.get(CRONTABS, *headers, certificate=certificate)
            assert (answer.status, answer.json["reason"], answer.headers["Retry-After"]) == (503, "ServiceUnavailable", "1")
            assert answer.headers["Connection"] == "close"
            assert unverified.get("/livez", *headers, certificate=certificate).status == 200
        token = json.loads(aggregation.kubeconfig.read_text())["users"][0]["user"]["token"]
        bearer = ("Authorization", f"Bearer {token}")
        assert_forbidden(unverified.get(CRONTABS, bearer), "system:serviceaccount:aggserver-system:aggserver")
        assert unverified.get(CRONTABS, bearer, REMOTE, masters).status == 503
        assert_unauthorized(unverified.get(CRONTABS, ("Authorization", "Bearer of nothing")))
        change(own_control_plane, config_map)
        eventually(lambda: unverified.get("/readyz").status == 200, "it is ready")
        assert_forbidden(unverified.get(CRONTABS, REMOTE, certificate=proxy), "wanda")
        assert_forbidden(unverified.get(CRONTABS, *IDENTITY, certificate=jane), "jane")


def test_flags_that_make_every_client_the_proxy(own_control_plane: ControlPlane, tmp_path: Path) -> None:
    """Both servers refuse to start, with the same words."""
    ca = str(own_control_plane.client_ca.pair.certificate)
    flags = ["--client-ca-file", ca, "--requestheader-client-ca-file", ca]
    etcd = "--etcd-servers=http://127.0.0.1:1"
    ours = ["serve", "--kubeconfig", str(own_control_plane.kubeconfig), "--data", ":memory:", "--secure-port", "0"]
    for command in (
        [str(obtain(os.environ, print).kube_apiserver), etcd, "--service-cluster-ip-range=10.0.0.0/24", f"--cert-dir={tmp_path}"],
        [sys.executable, "-m", "aggserver", *ours],
    ):
        done = subprocess.run([*command, *flags], capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
        assert done.returncode == 1
        assert OVERLAP in done.stderr


# --- a cluster that is not there yet


def test_a_cluster_that_comes_later(aggregation: Aggregation, jane: KeyPair, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    address = f"https://127.0.0.1:{port}"
    config = json.loads(aggregation.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = address
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    with running(server := aggregation.beside(tmp_path / "server", 0, kubeconfig=kubeconfig)):
        server.wait_for(f"{address} can't be reached: connection refused")
        server.wait_for("waiting for the Secret with the serving certificate: .*connection refused")
        unverified = Direct(server.port)
        assert unverified.get("/livez").status == 200
        not_ready = unverified.get("/readyz")
        assert not_ready.status == 500
        assert b"[-]authentication failed: reason withheld\n" in not_ready.body
        with forwarding(port, int(aggregation.plane.server.rpartition(":")[2])):
            eventually(lambda: unverified.get("/readyz").status == 200, "it is ready")
            message = unverified.get(CRONTABS, certificate=jane).json["message"]
            assert 'User "jane" cannot list resource "crontabs"' in message
