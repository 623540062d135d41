"""Second users of `aggserver dev`: their kubeconfigs as kubectl uses them. The commands are those of docs/access.md."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.fenced import blocks
from tests.integration.test_commands import Shell

USER = "aggserver dev user alice --group developers --kubeconfig alice.kubeconfig"
WHOAMI = "kubectl --kubeconfig alice.kubeconfig auth whoami"
BIND = "kubectl create rolebinding alice --clusterrole edit --user alice"
MAY = "kubectl --kubeconfig alice.kubeconfig auth can-i create deployments"
WHAT = "kubectl --kubeconfig alice.kubeconfig auth can-i --list"

ACCOUNT, TOKEN = "kubectl create serviceaccount robot", "kubectl create token robot"

REQUEST = "openssl req -new -newkey rsa:2048 -nodes -keyout carol.key -subj /O=developers/CN=carol -out carol.csr"
CREATE, APPROVE = "kubectl create -f carol.yaml", "kubectl certificate approve carol"
FETCH = "kubectl get csr carol -o jsonpath='{.status.certificate}' | base64 --decode > carol.crt"

KUBELET = "aggserver dev user system:node:worker-1 --group system:nodes --kubeconfig worker-1.kubeconfig"
SECRET = "kubectl get secret password --as system:node:worker-1 --as-group system:nodes"

RUNS = [USER, WHOAMI, BIND, MAY, WHAT, ACCOUNT, TOKEN, REQUEST, CREATE, APPROVE, FETCH, KUBELET, SECRET]


@pytest.fixture
def shell(control_plane: Cluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, control_plane.program.parent)


def test_a_second_user(shell: Shell) -> None:
    with shell.running("aggserver dev --secure-port 0", "aggserver serves https://127.0.0.1:"):
        assert shell.run(USER).startswith("alice.kubeconfig is a kubeconfig of user alice in developers for https://127.0.0.1:")
        assert "alice" in shell.run(WHOAMI)
        info = json.loads(shell.run(f"{WHOAMI} -o json"))["status"]["userInfo"]
        assert (info["username"], info["groups"]) == ("alice", ["developers", "system:authenticated"])
        assert "selfsubjectaccessreviews.authorization.k8s.io" in shell.run(WHAT)
        assert shell.run(f"{MAY} || true").startswith("no")
        shell.run(f"KUBECONFIG=.aggserver/kubeconfig {BIND}")
        assert shell.run(MAY).startswith("yes")
        assert "deployments.apps/scale" in shell.run(WHAT)
        assert "namespaces is forbidden" in shell.run("kubectl --kubeconfig alice.kubeconfig get namespaces 2>&1 || true")


def test_a_kubelet(shell: Shell) -> None:
    volumes = [{"name": "v", "secret": {"secretName": "password"}}]
    spec = {"nodeName": "worker-1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    (shell.folder / "pod.json").write_text(json.dumps(pod))
    with shell.running("aggserver dev --secure-port 0", "aggserver serves https://127.0.0.1:"):
        assert "user system:node:worker-1 in system:nodes" in shell.run(KUBELET)
        shell.variables["KUBECONFIG"] = f"{shell.folder}/.aggserver/kubeconfig"
        shell.run("kubectl create secret generic password --from-literal a=b")
        assert "no relationship found between node 'worker-1' and this object" in shell.run(f"{SECRET} 2>&1 || true")
        shell.run("kubectl create -f pod.json")
        assert "password" in shell.run(SECRET)
        assert "password" in shell.run("kubectl --kubeconfig worker-1.kubeconfig get secret password")


def test_a_token(shell: Shell) -> None:
    with shell.running("aggserver dev --secure-port 0", "aggserver serves https://127.0.0.1:"):
        shell.variables["KUBECONFIG"] = f"{shell.folder}/.aggserver/kubeconfig"
        assert shell.run(ACCOUNT) == "serviceaccount/robot created\n"
        token = shell.run(TOKEN).strip()
        shell.run(f"kubectl config set-credentials robot --token {token}")
        whoami = shell.run("kubectl config set-context --current --user robot > /dev/null; kubectl auth whoami -o json")
        assert json.loads(whoami)["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


def test_a_certificate_signing_request(shell: Shell) -> None:
    [manifest] = [block.text for block in blocks() if block.text.startswith("# carol.yaml\n")]
    with shell.running("aggserver dev --secure-port 0", "aggserver serves https://127.0.0.1:"):
        shell.variables["KUBECONFIG"] = f"{shell.folder}/.aggserver/kubeconfig"
        shell.run(REQUEST)
        encoded = base64.b64encode((shell.folder / "carol.csr").read_bytes()).decode()
        (shell.folder / "carol.yaml").write_text(manifest.replace("LS0t...", encoded))
        shell.run(CREATE)
        shell.run(APPROVE)
        signed = "kubectl wait csr carol --timeout 30s --for jsonpath='{.status.certificate}'"
        shell.run(signed)
        shell.run(FETCH)
        shell.run("kubectl config set-credentials carol --client-certificate carol.crt --client-key carol.key")
        whoami = shell.run("kubectl config set-context --current --user carol > /dev/null; kubectl auth whoami -o json")
        info = json.loads(whoami)["status"]["userInfo"]
        assert (info["username"], info["groups"]) == ("carol", ["developers", "system:authenticated"])


def test_a_user_of_a_server_in_memory(shell: Shell) -> None:
    made = 'aggserver dev user bob --data "$(dirname "$KUBECONFIG")" --kubeconfig bob'
    printed = shell.run(f"aggserver dev -- sh -c '{made} && kubectl --kubeconfig bob auth whoami -o json'")
    assert '"username": "bob"' in printed
