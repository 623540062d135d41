"""Garbage collection and the deletion of namespaces: kube-controller-manager and `aggserver dev` come to the same end.

The same histories are played on both with kubectl, and what is left is compared with what the rules say. Custom resources are in
`tests/controllers/garbage/test_collector.py`: kube-controller-manager takes half a minute to notice their kinds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cases.kind_objects import given, is_namespaced
from tests.controlplane.cluster import Cluster
from tests.integration.created import collection
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running

# What is left of each object: the names of its owners, and whether it is being deleted.
State = dict[str, tuple[list[str], bool]]
HELD = ("example.com/held",)
KINDS = {"ConfigMap": "configmaps", "Secret": "secrets", "Deployment": "deployments", "ClusterRole": "clusterroles"}
API_VERSIONS = {"Deployment": "apps/v1", "ClusterRole": "rbac.authorization.k8s.io/v1"}


@dataclass(frozen=True)
class Side:
    """One of the two servers."""

    name: str
    cluster: Cluster
    kubeconfig: Path

    def kubectl(self, *arguments: str, check: bool = True) -> str:
        return self.cluster.kubectl(*arguments, user=self.kubeconfig, check=check).stdout


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    server = Standalone(tmp_path_factory.mktemp("garbage") / "data")
    with running(server):
        yield (
            Side("kube-controller-manager", control_plane, control_plane.kubeconfig),
            Side("aggserver", control_plane, server.kubeconfig),
        )


@dataclass(frozen=True)
class Owner:
    """A reference to an object that was made before. changes: of its members."""

    name: str
    blocks: bool | None = None
    changes: dict[str, str] = field(default_factory=dict)


def _path(version: str, plural: str, namespace: str) -> str:
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


class Play:
    """A history on one side, in a namespace of its own, and another one, `beside`."""

    def __init__(self, side: Side, client: Client, name: str) -> None:
        self.side = side
        self.namespace = f"garbage-{name}"
        self.beside = f"{self.namespace}-beside"
        self._client = client
        self._made: dict[str, Any] = {}
        for namespace in (self.namespace, self.beside):
            self._post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    def make(
        self, name: str, *owners: Owner, kind: str = "ConfigMap", finalizers: Sequence[str] = (), beside: bool = False
    ) -> None:
        metadata: dict[str, Any] = {"name": self._name(name, kind)}
        if kind != "ClusterRole":
            metadata["namespace"] = self.beside if beside else self.namespace
        if owners:
            metadata["ownerReferences"] = [self.reference(owner) for owner in owners]
        if finalizers:
            metadata["finalizers"] = list(finalizers)
        obj: dict[str, Any] = {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata}
        if kind == "Deployment":
            pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            obj["spec"] = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
        self._made[name] = self._post(_path(obj["apiVersion"], KINDS[kind], metadata.get("namespace", "")), obj)

    def reference(self, owner: Owner) -> dict[str, Any]:
        made = self._made[owner.name]
        metadata = made["metadata"]
        found = {"apiVersion": made["apiVersion"], "kind": made["kind"], "name": metadata["name"], "uid": metadata["uid"]}
        return found | owner.changes | ({} if owner.blocks is None else {"blockOwnerDeletion": owner.blocks})

    def delete(self, name: str, cascade: str) -> None:
        self.side.kubectl("delete", *self._at(name), f"--cascade={cascade}", "--wait=false")

    def release(self, name: str) -> None:
        """Remove its finalizers."""
        self.patch(name, {"finalizers": None})

    def patch(self, name: str, metadata: dict[str, Any]) -> None:
        self.side.kubectl("patch", *self._at(name), "--type=merge", "-p", json.dumps({"metadata": metadata}))

    def ends(self, wanted: State) -> None:
        """Wait until what is left is this. A dependent of nobody, which is made last, shows that all is looked at by then."""
        nobody = Owner(
            next(iter(self._made)), changes={"uid": "nobody", "name": "nobody", "apiVersion": "v1", "kind": "ConfigMap"}
        )
        self.make("last", nobody)
        try:
            eventually(lambda: self.state() == wanted, f"{self.namespace} ends as {wanted}")
        except AssertionError:
            assert self.state() == wanted
            raise

    def tells(self, name: str, reason: str, message: str) -> None:
        """Wait for an Event about an object that is beside."""

        def told() -> bool:
            answer = self._client.request("GET", f"{_path('v1', 'events', self.beside)}?fieldSelector=involvedObject.name={name}")
            return (reason, message) in [(item["reason"], item["message"]) for item in json.loads(answer.body)["items"]]

        eventually(told, f"{self.side.name} tells {message}")

    def state(self) -> State:
        found: State = {}
        for item in self._items():
            metadata = item["metadata"]
            owners = [entry["name"].removeprefix(f"{self.namespace}-") for entry in metadata.get("ownerReferences", ())]
            found[metadata["name"].removeprefix(f"{self.namespace}-")] = (owners, "deletionTimestamp" in metadata)
        return found

    def _items(self) -> Iterator[Any]:
        for kind, plural in KINDS.items():
            version = API_VERSIONS.get(kind, "v1")
            for namespace in ("",) if kind == "ClusterRole" else (self.namespace, self.beside):
                answer = self._client.request("GET", _path(version, plural, namespace), {"accept": "application/json"})
                for item in json.loads(answer.body)["items"]:
                    name = item["metadata"]["name"]
                    if name != "kube-root-ca.crt" and (namespace or name.startswith(f"{self.namespace}-")):
                        yield {"kind": kind, **item}

    def _post(self, path: str, obj: Any) -> Any:
        answer = self._client.request("POST", path, {"content-type": "application/json"}, json.dumps(obj).encode())
        assert answer.status == 201, answer.body
        return json.loads(answer.body)

    def end(self) -> None:
        for namespace in (self.namespace, self.beside):
            self._client.request("DELETE", f"/api/v1/namespaces/{namespace}")
        for item in list(self._items()):
            metadata = item["metadata"]
            version, plural = API_VERSIONS.get(item["kind"], "v1"), KINDS[item["kind"]]
            path = f"{_path(version, plural, metadata.get('namespace', ''))}/{metadata['name']}"
            if metadata.get("finalizers"):
                headers = {"content-type": "application/merge-patch+json"}
                self._client.request("PATCH", path, headers, b'{"metadata":{"finalizers":null}}')
            if item["kind"] == "ClusterRole":
                self._client.request("DELETE", path)

    def _at(self, name: str) -> list[str]:
        made = self._made[name]
        metadata = made["metadata"]
        where = ["--namespace", metadata["namespace"]] if "namespace" in metadata else []
        return [KINDS[made["kind"]], metadata["name"], *where]

    def _name(self, name: str, kind: str) -> str:
        return f"{self.namespace}-{name}" if kind == "ClusterRole" else name


def background(play: Play) -> None:
    play.make("owner", kind="Deployment")
    play.make("kept")
    play.make("child", Owner("owner"), kind="Secret")
    play.make("grandchild", Owner("child"))
    play.make("both", Owner("owner"), Owner("kept"))
    play.delete("owner", "background")
    play.ends({"kept": ([], False), "both": (["kept"], False)})


def foreground(play: Play) -> None:
    play.make("owner", kind="Deployment")
    play.make("blocking", Owner("owner", True), kind="Secret", finalizers=HELD)
    play.make("child", Owner("owner", False))
    play.delete("owner", "foreground")
    play.ends({"owner": ([], True), "blocking": (["owner"], True)})
    play.release("blocking")
    play.make("another")
    play.ends({"another": ([], False)})


def not_blocking(play: Play) -> None:
    play.make("owner")
    play.make("child", Owner("owner", False), finalizers=HELD)
    play.delete("owner", "foreground")
    play.ends({"child": (["owner"], True)})


def solid_and_waiting(play: Play) -> None:
    play.make("owner")
    play.make("kept")
    play.make("child", Owner("owner", True), Owner("kept"))
    play.delete("owner", "foreground")
    play.ends({"kept": ([], False), "child": (["kept"], False)})


def orphan(play: Play) -> None:
    play.make("owner")
    play.make("kept")
    play.make("child", Owner("owner"), kind="Secret")
    play.make("both", Owner("owner", True), Owner("kept"))
    play.delete("owner", "orphan")
    play.ends({"child": ([], False), "kept": ([], False), "both": (["kept"], False)})


def across_namespaces(play: Play) -> None:
    play.make("owner")
    play.make("good", Owner("owner"))
    play.make("bad", Owner("owner"), beside=True)
    play.ends({"owner": ([], False), "good": (["owner"], False)})
    reference = play.reference(Owner("owner"))
    identity = f"v1/ConfigMap, namespace: {play.beside}, name: owner, uid: {reference['uid']}"
    play.tells("bad", "OwnerRefInvalidNamespace", f'ownerRef [{identity}] does not exist in namespace "{play.beside}"')


def absent_owners(play: Play) -> None:
    play.make("owner")
    play.make("wrong-uid", Owner("owner", changes={"uid": "wrong"}))
    play.make("wrong-name", Owner("owner", changes={"name": "wrong"}))
    play.make("wrong-kind", Owner("owner", changes={"kind": "Secret"}))
    play.make("half", Owner("owner"), Owner("owner", changes={"uid": "wrong", "name": "wrong"}))
    play.ends({"owner": ([], False), "half": (["owner"], False)})


def many_owners(play: Play) -> None:
    """Fewer than we can: kube-controller-manager asks for each, twenty a second."""
    absent = [Owner("owner", changes={"uid": f"wrong-{number}", "name": f"wrong-{number}"}) for number in range(60)]
    play.make("owner")
    play.make("half", *absent[:30], Owner("owner"), *absent[30:])
    play.make("none", *absent)
    play.ends({"owner": ([], False), "half": (["owner"], False)})


def unknown_kinds(play: Play) -> None:
    play.make("owner")
    play.make("child", Owner("owner", changes={"apiVersion": "unknown.example.com/v1", "uid": "other"}))
    play.ends({"owner": ([], False), "child": (["owner"], False)})


def cluster_scoped(play: Play) -> None:
    play.make("role", kind="ClusterRole")
    play.make("owner")
    play.make("of-role", Owner("role"))
    play.make("of-role-beside", Owner("role"), beside=True)
    play.make("role-of-owner", Owner("owner"), kind="ClusterRole")
    play.make("role-of-role", Owner("role"), kind="ClusterRole")
    play.delete("owner", "background")
    play.delete("role", "background")
    play.ends({"role-of-owner": (["owner"], False)})


def circle(play: Play) -> None:
    play.make("one")
    play.make("two", Owner("one", True))
    play.patch("one", {"ownerReferences": [play.reference(Owner("two", True))]})
    play.ends({"one": (["two"], False), "two": (["one"], False)})
    play.delete("one", "foreground")
    play.make("another")
    play.ends({"another": ([], False)})


def held_by_others(play: Play) -> None:
    """Finalizers of others are waited for, with each policy."""
    for cascade in ("background", "foreground", "orphan"):
        play.make(cascade, finalizers=HELD)
        play.make(f"of-{cascade}", Owner(cascade, True))
        play.delete(cascade, cascade)
    play.ends(
        {
            "background": ([], True),
            "of-background": (["background"], False),
            "foreground": ([], True),
            "orphan": ([], True),
            "of-orphan": ([], False),
        }
    )


PLAYS: tuple[Callable[[Play], None], ...] = (
    background,
    foreground,
    not_blocking,
    solid_and_waiting,
    orphan,
    across_namespaces,
    absent_owners,
    many_owners,
    unknown_kinds,
    cluster_scoped,
    circle,
    held_by_others,
)


@pytest.fixture(scope="module")
def played(sides: tuple[Side, Side]) -> dict[tuple[str, str], Future[None]]:
    """All histories on both sides, several at a time, since kubectl and kube-controller-manager take their time."""

    def play(history: Callable[[Play], None], side: Side) -> None:
        with Client(side.kubeconfig) as client:
            played = Play(side, client, history.__name__.replace("_", "-"))
            history(played)
            played.end()

    with ThreadPoolExecutor(6) as pool:
        return {(history.__name__, side.name): pool.submit(play, history, side) for history in PLAYS for side in sides}


@pytest.mark.parametrize("side", ["kube-controller-manager", "aggserver"])
@pytest.mark.parametrize("history", [history.__name__ for history in PLAYS])
def test_the_end(played: dict[tuple[str, str], Future[None]], history: str, side: str) -> None:
    played[history, side].result()


# --- namespaces ---

CONTENT = "garbage-content"


def test_a_namespace_with_all_kinds_of_content(sides: tuple[Side, Side]) -> None:
    """What is left, and what the conditions say of it; then the rest is released."""
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(emptied, sides)
    assert ours == upstream


def emptied(side: Side) -> list[tuple[str, str, str, str]]:
    """The conditions of a namespace while one object of it is held: type, status, reason and message."""
    with Client(side.kubeconfig) as client:

        def post(path: str, obj: Any) -> None:
            answer = client.request("POST", path, {"content-type": "application/json"}, json.dumps(obj).encode())
            assert answer.status == 201, answer.body

        def namespace() -> Any:
            answer = client.request("GET", f"/api/v1/namespaces/{CONTENT}")
            return json.loads(answer.body) if answer.status == 200 else None

        def conditions() -> list[tuple[str, str, str, str]]:
            found = (namespace() or {"status": {}})["status"].get("conditions", ())
            return [(entry["type"], entry["status"], entry["reason"], entry["message"]) for entry in found]

        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTENT}})
        account = f"/api/v1/namespaces/{CONTENT}/serviceaccounts/default"
        eventually(lambda: client.request("GET", account).status == 200, "the ServiceAccount is made")
        for type_name, name, obj in given():
            if is_namespaced(type_name):
                made = json.loads(json.dumps(obj).replace('"default"', f'"{CONTENT}"'))
                made["metadata"].pop("generateName", None)
                made["metadata"] |= {"name": f"{name}-1", "namespace": CONTENT}
                client.request(
                    "POST", collection(type_name, CONTENT), {"content-type": "application/json"}, json.dumps(made).encode()
                )
        post(
            collection("core/v1.ConfigMap", CONTENT),
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": [*HELD, "example.com/two"]}},
        )
        client.request("DELETE", f"/api/v1/namespaces/{CONTENT}")
        eventually(lambda: any(status == "True" for _, status, _, _ in conditions()), f"{side.name} tells what is left")
        # Claims go once their controller has taken off its finalizer, which may be after a first look of the namespace's.
        told = eventually(lambda: len(found := conditions()) == 5 and _is_all_that_is_left(str(found)) and found, side.name)
        headers = {"content-type": "application/merge-patch+json"}
        path = f"/api/v1/namespaces/{CONTENT}/configmaps/held"
        client.request("PATCH", path, headers, b'{"metadata":{"finalizers":null}}')
        eventually(lambda: namespace() is None, f"{side.name} removes the namespace")
        return told or []


def _is_all_that_is_left(told: str) -> bool:
    return "are remaining: configmaps. has 1 resource instances'" in told and "pvc-protection" not in told


# --- volumes ---


def test_volumes_and_claims_go_when_nothing_uses_them(sides: tuple[Side, Side]) -> None:
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(unused, sides)
    assert ours == upstream == ["used Terminating", "used gone", "volume gone", "namespace gone"]


def unused(side: Side) -> list[str]:
    """What became of the claim that a Pod has, of an unbound volume, and of the namespace with another claim."""
    space = "/api/v1/namespaces/garbage-volumes"
    claims, pods = f"{space}/persistentvolumeclaims", f"{space}/pods"
    size = {"storage": "1Gi"}
    with Client(side.kubeconfig) as client:

        def post(path: str, kind: str, name: str, spec: Any = None) -> None:
            obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **({"spec": spec} if spec else {})}
            answer = client.request("POST", path, {"content-type": "application/json"}, json.dumps(obj).encode())
            assert answer.status == 201, answer.body

        def state(path: str) -> str:
            answer = client.request("GET", path)
            return "gone" if answer.status == 404 else "Terminating" if b'"deletionTimestamp"' in answer.body else "there"

        def goes(path: str) -> bool | None:
            return eventually(lambda: state(path) == "gone", f"{path} of {side.name} is gone")

        post("/api/v1/namespaces", "Namespace", "garbage-volumes")
        eventually(lambda: client.request("GET", f"{space}/serviceaccounts/default").status == 200, "the ServiceAccount is made")
        for name in ("used", "unused", "left"):
            post(claims, "PersistentVolumeClaim", name, {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}})
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "used"}}
        post(pods, "Pod", "p", {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], "nodeName": "n"})
        path = {"hostPath": {"path": "/garbage"}}
        post(
            "/api/v1/persistentvolumes",
            "PersistentVolume",
            "garbage",
            {"accessModes": ["ReadWriteOnce"], "capacity": size, **path},
        )
        for name in ("used", "unused"):
            client.request("DELETE", f"{claims}/{name}")
        goes(f"{claims}/unused")
        told = [f"used {state(f'{claims}/used')}"]
        client.request("DELETE", f"{pods}/p", {"content-type": "application/json"}, b'{"gracePeriodSeconds":0}')
        goes(f"{claims}/used")
        client.request("DELETE", "/api/v1/persistentvolumes/garbage")
        goes("/api/v1/persistentvolumes/garbage")
        client.request("DELETE", space)
        goes(space)
        gone = {"used": f"{claims}/used", "volume": "/api/v1/persistentvolumes/garbage", "namespace": space}
        return told + [f"{name} {state(path)}" for name, path in gone.items()]
