"""Flow control on kube-apiserver and aggserver side by side: which FlowSchema and level a request gets, and the levels' seats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running

_GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
_UIDS = ("x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid")
_ACCOUNTS = "system:serviceaccounts"
_PODS, _LEASES = "/api/v1/namespaces/default/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

# User and groups, beside system:authenticated; None: nobody, without a certificate.
_USERS: list[tuple[str, ...] | None] = [
    None,
    ("admin", "system:masters"),
    ("alice",),
    ("flow-own",),
    ("flow-dangling",),
    ("system:kube-controller-manager",),
    ("system:kube-scheduler",),
    ("system:node:one", "system:nodes"),
    ("system:serviceaccount:kube-system:job-controller", _ACCOUNTS, f"{_ACCOUNTS}:kube-system"),
    ("system:serviceaccount:flow-shop:operator", _ACCOUNTS, f"{_ACCOUNTS}:flow-shop"),
]
_PATHS = [
    _PODS,
    f"{_PODS}?limit=1",
    f"{_PODS}/none",
    f"{_PODS}/none/status",
    "/api/v1/namespaces/flow-shop/secrets",
    "/api/v1/nodes",
    "/api/v1/nodes/none",
    f"{_LEASES}/none",
    "/apis/apps/v1/deployments",
    "/apis/made.up/v1/things",
    "/healthz",
    "/healthz/ping",
    "/readyz",
    "/version",
    "/made-up",
]


def _level(name: str, **limited: Any) -> dict[str, Any]:
    spec = {"type": "Limited", "limited": {"nominalConcurrencyShares": 7, "limitResponse": {"type": "Reject"}, **limited}}
    return _made("PriorityLevelConfiguration", name, spec)


def _schema(name: str, level: str, subject: dict[str, Any], precedence: int, **rules: Any) -> dict[str, Any]:
    rule = {"subjects": [subject], **rules}
    level_of = {"name": level}
    return _made("FlowSchema", name, {"priorityLevelConfiguration": level_of, "matchingPrecedence": precedence, "rules": [rule]})


def _made(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _user(name: str) -> dict[str, Any]:
    return {"kind": "User", "user": {"name": name}}


_ANYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
_SHOP = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "flow-shop", "name": "*"}}
_WORLD = [
    _level("flow-own", lendablePercent=33, borrowingLimitPercent=50),
    _level("flow-none", nominalConcurrencyShares=0),
    _schema("flow-own", "flow-own", _user("flow-own"), 50, resourceRules=[{**_ANYTHING, "resources": ["pods", "nodes"]}]),
    _schema(
        "flow-paths", "flow-none", _user("flow-own"), 50, nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["/version"]}]
    ),
    _schema("flow-dangling", "flow-missing", _user("flow-dangling"), 50, resourceRules=[_ANYTHING]),
    _schema("flow-shop", "flow-own", _SHOP, 60, resourceRules=[{**_ANYTHING, "clusterScope": False, "verbs": ["list"]}]),
]
_PLURALS = {"FlowSchema": "flowschemas", "PriorityLevelConfiguration": "prioritylevelconfigurations"}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Client, Client]]]:
    """kube-apiserver and aggserver, each as an administrator and as nobody, with the same objects in force."""
    folder: Path = tmp_path_factory.mktemp("flows") / "data"
    documents = "".join(f"---\n{json.dumps(obj)}\n" for obj in _WORLD)
    with ExitStack() as stack:
        stack.enter_context(running(Standalone(folder)))
        pair = []
        for kubeconfig in (control_plane.kubeconfig, folder / "kubeconfig"):
            control_plane.kubectl("create", "-f", "-", user=kubeconfig, input=documents)
            client = stack.enter_context(Client(kubeconfig))
            eventually(lambda client=client: _is_in_force(client), "the objects are in force")  # type: ignore[misc]
            pair.append((client, stack.enter_context(Client(kubeconfig, certificate=False))))
        yield pair
    control_plane.kubectl("delete", "-f", "-", "--wait=false", input=documents)


def _is_in_force(client: Client) -> bool:
    told = _told(client, ("flow-own",), "/version"), _told(client, ("flow-own",), _PODS), _conditions(client)["flow-dangling"]
    return told == (("flow-paths", "flow-none"), ("flow-own", "flow-own"), ("True", "NotFound"))


def _items(client: Client, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(client.request("GET", f"{_GROUP}/{_PLURALS[kind]}").body)["items"]
    return found


def _told(client: Client, user: tuple[str, ...] | None, path: str) -> tuple[str, str]:
    """The names of the FlowSchema and the level that a response names. client: an administrator's, or nobody's."""
    headers = {} if user is None else {"impersonate-user": user[0]}
    if user is not None and len(user) > 1:
        headers["impersonate-group"] = user[1]
    answer = client.request("GET", path, headers)
    first, second = (answer.header(name) for name in _UIDS)
    return _NAMES.get(first, first), _NAMES.get(second, second)


# Names of objects by UID, of both servers.
_NAMES: dict[str, str] = {}


def _conditions(client: Client) -> dict[str, tuple[str, str]]:
    for kind in _PLURALS:
        _NAMES.update({obj["metadata"]["uid"]: obj["metadata"]["name"] for obj in _items(client, kind)})
    found = {}
    for obj in _items(client, "FlowSchema"):
        condition = (obj.get("status", {}).get("conditions") or [{}])[0]
        found[obj["metadata"]["name"]] = condition.get("status", ""), condition.get("reason", "")
    return found


def test_classification(sides: list[tuple[Client, Client]]) -> None:
    seen = set[str]()
    for user in _USERS:
        for path in _PATHS:
            theirs, ours = (_told(stranger if user is None else admin, user, path) for admin, stranger in sides)
            assert ours == theirs, (user, path)
            seen.add(theirs[0])
    assert len(seen) == 13, sorted(seen)


def test_conditions(sides: list[tuple[Client, Client]]) -> None:
    theirs, ours = (_conditions(admin) for admin, _ in sides)
    assert ours == {name: told for name, told in theirs.items() if name in ours}
    assert set(theirs) == set(ours)


@pytest.mark.parametrize("which", ["nominal", "lower", "upper"])
def test_seats(sides: list[tuple[Client, Client]], which: str) -> None:
    pattern = rf'^apiserver_flowcontrol_{which}_limit_seats{{priority_level="([^"]+)"}} ([0-9.e+]+)$'
    theirs, ours = (
        {name: float(seats) for name, seats in re.findall(pattern, admin.request("GET", "/metrics").body.decode(), re.M)}
        for admin, _ in sides
    )
    assert len(theirs) == 10
    assert ours == theirs


def test_a_rejected_request(sides: list[tuple[Client, Client]]) -> None:
    """Headers of a response that is refused later name the objects, too."""
    for admin, _ in sides:
        answer = admin.request("GET", _PODS, {"impersonate-user": "flow-own"})
        assert answer.status == 403
        assert [_NAMES[answer.header(name)] for name in _UIDS] == ["flow-own", "flow-own"]
