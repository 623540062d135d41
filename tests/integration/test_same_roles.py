"""RBAC on kube-apiserver and aggserver side by side: decisions, lists of rules, who may grant what, validation, kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.cases_roles import ESCALATIONS, INVALID, NAMESPACES, PARAMS, PROBE, USERS, WORLD, reviews
from tests.integration.comparison import comparable, without_order
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running
from tests.integration.sides import Side, played

_REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("roles")


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, folder: Path) -> Iterator[tuple[Side, Side]]:
    made = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES]
    documents = "".join(f"---\n{json.dumps(obj)}\n" for obj in (*made, *WORLD))
    with ExitStack() as stack:
        stack.enter_context(running(Standalone(folder / "data")))
        pair = []
        for kubeconfig in _kubeconfigs(control_plane, folder):
            control_plane.kubectl("create", "-f", "-", user=kubeconfig, input=documents)
            client = stack.enter_context(Client(kubeconfig))
            eventually(lambda client=client: _review(client, PROBE)["allowed"], "the world is known")  # type: ignore[misc]
            pair.append(Side(client, client))
        yield pair[0], pair[1]
    control_plane.kubectl("delete", "-f", "-", "--wait=false", input=documents)


def _kubeconfigs(cluster: Cluster, folder: Path) -> tuple[Path, Path]:
    return cluster.kubeconfig, folder / "data" / "kubeconfig"


def _review(client: Client, spec: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    kind = "SelfSubjectRulesReview" if "namespace" in spec else "SubjectAccessReview"
    body = json.dumps({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}).encode()
    given = {"content-type": "application/json", **(headers or {})}
    answer = client.request("POST", f"{_REVIEWS}/{kind.lower()}s", given, body)
    assert answer.status == 201, answer.body
    return json.loads(answer.body)["status"]


def test_decisions(sides: tuple[Side, Side]) -> None:
    asked = [review["spec"] for review in reviews()]
    upstream, ours = ([_review(side.client, spec) for spec in asked] for side in sides)
    assert len(asked) > 400
    assert 100 < sum(status["allowed"] for status in upstream) < len(asked) - 100
    different = [(spec, theirs, own) for spec, theirs, own in zip(asked, upstream, ours, strict=True) if theirs != own]
    assert not different, different[0]


@pytest.mark.parametrize("number", range(len(USERS)))
def test_lists_of_rules(sides: tuple[Side, Side], number: int) -> None:
    """In no order: upstream goes through the bindings in one of its own."""
    user = USERS[number]
    if user.get("user", "system:anonymous") == "system:anonymous":
        return  # nobody, and somebody who may not ask
    headers = {"impersonate-user": user["user"], **({"impersonate-group": user["groups"][0]} if "groups" in user else {})}
    for namespace in NAMESPACES:
        upstream, ours = (_review(side.client, {"namespace": namespace}, headers) for side in sides)
        for status in (upstream, ours):
            status["resourceRules"] = [rule for rule in status["resourceRules"] if not _is_foreign(rule)]
            for name in ("resourceRules", "nonResourceRules"):
                status[name].sort(key=json.dumps)
            trouble = status.get("evaluationError", "")
            status["evaluationError"] = sorted(trouble.strip("[]").split(", "))
        assert ours == upstream


def _is_foreign(rule: dict[str, Any]) -> bool:
    """Whether it is a rule of a custom resource: other tests aggregate such into the shared control plane's `view`."""
    return any(group == "x" or group.endswith("example.com") for group in rule["apiGroups"])


@pytest.mark.parametrize("name", ESCALATIONS)
def test_who_may_grant(sides: tuple[Side, Side], name: str) -> None:
    _compare(sides, f"roles-granted-{[*ESCALATIONS].index(name)}", ESCALATIONS[name])


@pytest.mark.parametrize("name", PARAMS)
def test_who_may_refer_to_params(sides: tuple[Side, Side], name: str) -> None:
    _compare(sides, f"roles-params-{[*PARAMS].index(name)}", PARAMS[name])


@pytest.mark.parametrize("name", INVALID)
def test_validation(sides: tuple[Side, Side], name: str) -> None:
    _compare(sides, f"roles-invalid-{[*INVALID].index(name)}", INVALID[name])


def _compare(sides: tuple[Side, Side], name: str, case: Any) -> None:
    upstream, ours = ([without_order(seen) for seen in side] for side in played(sides, name, case))
    assert ours == upstream


COMMANDS = [
    "auth can-i get pods -n roles-a --as roles-ann",
    "auth can-i get pods/web -n roles-a --as roles-ann",
    "auth can-i delete pods -n roles-a --as roles-ann",
    "auth can-i get /metrics --as roles-bob",
    "auth can-i get /other --as roles-bob",
    "auth can-i list secrets -n roles-b --as roles-bob -v0",
    "auth can-i update deployments --subresource scale --as roles-dan --as-group roles-scalers",
    "auth can-i --list -n roles-a --as roles-eve",
    "auth whoami --as roles-ann --as-group roles-devs",
    "create role $name -n roles-a --verb get,list --resource pods,deployments.apps --resource-name x",
    "create clusterrole $name --verb get --non-resource-url /x",
    "create clusterrole $name-2 --verb get --resource pods/log,deployments.apps/scale",
    "create clusterrole $name-3 --aggregation-rule roles/aggregated=yes",
    "create rolebinding $name -n roles-a --role $name --user a --group b --serviceaccount roles-a:c",
    "create clusterrolebinding $name --clusterrole $name --user a",
    "create rolebinding $name-2 -n roles-a --clusterrole view --user a --as roles-ann",
    "get role,rolebinding -n roles-a",
    "get rolebinding -n roles-a -o wide",
    "get clusterrolebinding $name -o wide",
    "describe clusterrole cluster-admin system:basic-user",
    "describe rolebinding $name -n roles-a",
    "delete role,rolebinding $name -n roles-a",
    "delete clusterrole $name $name-2 $name-3",
    "delete clusterrolebinding $name",
]


def test_kubectl(control_plane: Cluster, sides: tuple[Side, Side], folder: Path) -> None:
    said = []
    for kubeconfig in _kubeconfigs(control_plane, folder):
        answers = []
        for command in COMMANDS:
            words = command.replace("$name", "roles-kubectl").split()
            done = control_plane.kubectl(*words, user=kubeconfig, check=False)
            answers.append((command, done.returncode, _lines(done.stdout), _lines(done.stderr)))
        said.append(answers)
    assert said[1] == said[0]


def _lines(text: str) -> list[Any]:
    """In no order, and without ages."""
    return sorted([comparable(word) for word in line.split()] for line in text.splitlines())


RECONCILED = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: roles-reconciled}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, %s]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: roles-reconciled}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]
"""


def test_kubectl_auth_reconcile(control_plane: Cluster, sides: tuple[Side, Side], folder: Path) -> None:
    said: list[list[Any]] = []
    for kubeconfig in _kubeconfigs(control_plane, folder):
        answers: list[Any] = []
        for words in (("list", "roles-reconciled", "a"), ("watch", "roles-reconciled", "b"), ("get", "view", "c")):
            done = control_plane.kubectl("auth", "reconcile", "-f", "-", user=kubeconfig, input=RECONCILED % words)
            answers.append(done.stdout)
        for kind, member in (("clusterrole", "rules"), ("clusterrolebinding", "subjects")):
            answers.append(control_plane.get(kind, "roles-reconciled", user=kubeconfig)[member])
        control_plane.kubectl("delete", "clusterrole,clusterrolebinding", "roles-reconciled", user=kubeconfig)
        said.append(answers)
    assert said[1] == said[0]


def _part(name: str, resource: str, label: str = "", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": {label: "true"} if label else {}}
    rules = [{"apiGroups": ["x"], "resources": [resource], "verbs": ["get"]}]
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules, **more}


PARTS = [
    _part("roles-part-b", "b", "roles/part"),
    _part("roles-part-a", "a", "roles/part"),
    _part("roles-part-c", "c", "rbac.authorization.k8s.io/aggregate-to-view"),
    _part("roles-whole", "d", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"roles/part": "true"}}]}),
]


def test_aggregation(control_plane: Cluster, sides: tuple[Side, Side], folder: Path) -> None:
    documents = "".join(f"---\n{json.dumps(obj)}\n" for obj in PARTS)
    for kubeconfig in _kubeconfigs(control_plane, folder):

        def rules(name: str, kubeconfig: Path = kubeconfig) -> Any:
            return control_plane.get("clusterrole", name, user=kubeconfig).get("rules") or []

        control_plane.kubectl("create", "-f", "-", user=kubeconfig, input=documents)
        parts = [obj["rules"][0] for obj in (PARTS[1], PARTS[0])]
        eventually(lambda rules=rules, parts=parts: rules("roles-whole") == parts, "the whole has its parts")  # type: ignore[misc]
        for name in ("view", "edit", "admin"):
            eventually(lambda name=name, rules=rules: PARTS[2]["rules"][0] in rules(name), name)  # type: ignore[misc]
        with Client(kubeconfig) as client:
            spec = {
                "user": "roles-viv",
                "resourceAttributes": {"verb": "get", "group": "x", "resource": "c", "namespace": "roles-a"},
            }
            eventually(lambda client=client, spec=spec: _review(client, spec)["allowed"], "the part counts")  # type: ignore[misc]
        control_plane.kubectl("delete", "-f", "-", user=kubeconfig, input=documents)
        eventually(lambda rules=rules: PARTS[2]["rules"][0] not in rules("admin"), "the part is gone")  # type: ignore[misc]
