"""Endpoints, EndpointSlices, disruption budgets and volumes: kube-controller-manager and `aggserver dev` write the same.

The same histories are played on both, and all that is in the namespace then is compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running

OWN = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "disruption-controller",
    "persistentvolume-binder-controller",
)
DISCOVERY, POLICY, APPS = "/apis/discovery.k8s.io/v1", "/apis/policy/v1", "/apis/apps/v1"
NODE = "n1"
SECONDS = 30.0  # until what both have written is compared
SPEC = {"containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}], "nodeName": NODE}
PORTS = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "other", "port": 81, "targetPort": 9090}]


class Play:
    """A history on one side, in a namespace of its own. uids: of the objects that were made, by name."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.namespace = name
        self.uids: dict[str, str] = {}
        self.post("/api/v1/namespaces", "v1", "Namespace", name)

    def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = None if body is None else json.dumps(body).encode()
        answer = self.client.request(method, path, {"content-type": kind, "accept": "application/json"}, data)
        assert answer.status in (200, 201, 202), (method, path, answer.status, answer.body)
        return json.loads(answer.body)

    def path(self, root: str, plural: str) -> str:
        return f"{root}/namespaces/{self.namespace}/{plural}"

    def post(self, path: str, version: str, kind: str, name: str, **members: Any) -> Any:
        metadata = {"name": name, **members.pop("metadata", {})}
        made = self.send("POST", path, {"apiVersion": version, "kind": kind, "metadata": metadata, **members})
        self.uids[name] = made["metadata"]["uid"]
        return made

    def merge(self, path: str, change: Any) -> None:
        self.send("PATCH", path, change, "application/merge-patch+json")

    def service(self, name: str, **spec: Any) -> None:
        spec = {"selector": {"app": "web"}, "ports": PORTS, **spec}
        self.post(self.path("/api/v1", "services"), "v1", "Service", name, spec={k: v for k, v in spec.items() if v is not None})

    def pod(self, number: int, *, ready: str = "True", phase: str = "Running", **metadata: Any) -> None:
        name, ip = f"p{number}", f"10.7.0.{number}"
        spec = {**SPEC, **metadata.pop("spec", {})}
        metadata = {"labels": {"app": "web"}, **metadata}
        path = self.path("/api/v1", "pods")
        self.post(path, "v1", "Pod", name, spec=spec, metadata=metadata)
        condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [condition]}
        self.merge(f"{path}/{name}/status", {"status": status})

    def volume(self, name: str, size: str, **spec: Any) -> None:
        name = f"{self.namespace}-{name}"
        base = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "s", "path": "/p"}}
        spec = {**base, "storageClassName": self.namespace, **spec}
        self.post("/api/v1/persistentvolumes", "v1", "PersistentVolume", name, spec=spec)

    def claim(self, name: str, size: str, **spec: Any) -> None:
        base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        spec = {**base, "storageClassName": self.namespace, **spec}
        self.post(self.path("/api/v1", "persistentvolumeclaims"), "v1", "PersistentVolumeClaim", name, spec=spec)

    def phase(self, path: str, wanted: str) -> None:
        def has_it() -> bool:
            return bool(self.send("GET", path)["status"].get("phase") == wanted)

        eventually(has_it, f"{path} is {wanted}")

    def budget(self, name: str, app: str, **spec: Any) -> None:
        spec = {"selector": {"matchLabels": {"app": app}}, **spec}
        self.post(self.path(POLICY, "poddisruptionbudgets"), "policy/v1", "PodDisruptionBudget", name, spec=spec)

    def items(self, path: str) -> list[Any]:
        found: list[Any] = self.send("GET", path)["items"]
        return found

    def state(self) -> Any:
        """All that controllers write, without what differs by chance."""
        names = {uid: name for name, uid in self.uids.items()}
        found: dict[str, Any] = {
            "endpoints": [self._plain(each, names) for each in self.items(self.path("/api/v1", "endpoints"))],
            "slices": [self._plain(_unnamed(each), names) for each in self.items(self.path(DISCOVERY, "endpointslices"))],
            "budgets": [
                (each["metadata"]["name"], self._plain(each, names)["status"])
                for each in self.items(self.path(POLICY, "poddisruptionbudgets"))
            ],
            "claims": [self._plain(each, names) for each in self.items(self.path("/api/v1", "persistentvolumeclaims"))],
            "volumes": [
                self._plain(each, names)
                for each in self.items("/api/v1/persistentvolumes")
                if each["metadata"]["name"].startswith(f"{self.namespace}-")
            ],
        }
        return {kind: sorted(map(_sorted, each), key=json.dumps) for kind, each in found.items()}

    def _plain(self, obj: Any, names: dict[str, str]) -> Any:
        if isinstance(obj, list):
            return [self._plain(each, names) for each in obj]
        if not isinstance(obj, dict):
            return obj
        left_out = {"resourceVersion", "creationTimestamp", "managedFields", "generation"}
        left_out |= {"lastPhaseTransitionTime", "lastTransitionTime"}
        made: dict[str, Any] = {}
        for key, value in obj.items():
            if key == "uid":
                made[key] = names.get(value, "its own")
            elif key == "disruptedPods":
                made[key] = sorted(value)
            elif key == "endpoints.kubernetes.io/last-change-trigger-time":
                made[key] = value if value.startswith("2026-01-01T") else "now"
            elif key not in left_out:
                made[key] = self._plain(value, names)
        return made


def _unnamed(found: Any) -> Any:
    """A slice without its name, which is generated."""
    metadata = {name: value for name, value in found["metadata"].items() if name not in ("name", "generateName")}
    return {**found, "metadata": metadata}


def _sorted(found: Any) -> Any:
    """With the lists whose order is by chance in an order."""
    if isinstance(found, (list, tuple)):
        return sorted(map(_sorted, found), key=json.dumps)
    return {key: _sorted(value) for key, value in sorted(found.items())} if isinstance(found, dict) else found


def services(play: Play) -> Callable[[Any], bool]:
    for number in (1, 2):
        play.pod(number)
    play.pod(3, ready="False")
    play.pod(4, phase="Succeeded")
    play.pod(5, labels={"app": "other"})
    play.pod(6, spec={"hostname": "host", "subdomain": "headless"})
    play.service("web")
    play.service("all", publishNotReadyAddresses=True)
    play.service("headless", clusterIP="None", ports=None)
    play.service("nothing", selector={"app": "nothing"})
    play.service("plain", selector=None)
    return lambda state: len(state["endpoints"]) == 4 and "10.7.0.6" in json.dumps(state["slices"])


def changes(play: Play) -> Callable[[Any], bool]:
    for number in (1, 2, 3):
        play.pod(number, finalizers=["example.com/held"])
    play.service("web")
    eventually(lambda: "10.7.0.3" in json.dumps(play.state()["slices"]), "there are slices")
    pods = play.path("/api/v1", "pods")
    play.merge(f"{pods}/p1", {"metadata": {"labels": {"app": "other"}}})
    play.send("DELETE", f"{pods}/p2")
    play.merge(play.path("/api/v1", "services/web"), {"metadata": {"labels": {"x": "y"}}})
    for each in play.items(play.path(DISCOVERY, "endpointslices")):
        play.send("DELETE", f"{play.path(DISCOVERY, 'endpointslices')}/{each['metadata']['name']}")

    def is_done(state: Any) -> bool:
        text = json.dumps(state["slices"])
        return "10.7.0.1" not in text and '"terminating": true' in text and '"x": "y"' in json.dumps(state["endpoints"])

    return is_done


def mirrored(play: Play) -> Callable[[Any], bool]:
    path = play.path("/api/v1", "endpoints")
    ports = [{"name": "http", "port": 80}, {"name": "more", "port": 81}]
    play.service("mine", selector=None)
    addresses = [{"ip": "10.8.0.1"}, {"ip": "10.8.0.2", "nodeName": NODE, "hostname": "h"}, {"ip": "fd00::1"}]
    subsets = [
        {"addresses": addresses, "notReadyAddresses": [{"ip": "10.8.0.3"}], "ports": ports},
        {"addresses": [{"ip": "10.8.0.4"}], "ports": ports[:1]},
    ]
    metadata = {"labels": {"x": "y"}, "annotations": {"a": "b"}}
    play.post(path, "v1", "Endpoints", "mine", subsets=subsets, metadata=metadata)
    play.service("skipped", selector=None)
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    play.post(path, "v1", "Endpoints", "skipped", subsets=subsets[1:], metadata={"labels": skip})
    play.post(path, "v1", "Endpoints", "lonely", subsets=subsets[1:])
    eventually(lambda: "10.8.0.4" in json.dumps(play.state()["slices"]), "there are slices")
    play.merge(f"{path}/mine", {"subsets": [{**subsets[0], "addresses": addresses[1:]}, subsets[1]]})
    return lambda state: "10.8.0.1" not in json.dumps(state["slices"])


def budgets(play: Play) -> Callable[[Any], bool]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": SPEC["containers"]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, "replicas": 4}
    made = play.post(play.path(APPS, "replicasets"), "apps/v1", "ReplicaSet", "rs", spec=spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": made["metadata"]["uid"], "controller": True}
    for number in (1, 2, 3):
        play.pod(number, ownerReferences=[owner])
    play.pod(4, ready="False", ownerReferences=[owner])
    play.pod(5, labels={"app": "alone"})
    play.budget("number", "web", minAvailable=2)
    play.budget("too-many", "web", minAvailable=9)
    play.budget("percentage", "web", minAvailable="30%")
    play.budget("unavailable", "web", maxUnavailable="60%")
    play.budget("nobody", "nobody", minAvailable=1)
    play.budget("alone", "alone", maxUnavailable=1)
    return lambda state: all(status.get("conditions") for _, status in map(_pair, state["budgets"]))


def _pair(sorted_pair: Any) -> tuple[Any, Any]:
    status = next(each for each in sorted_pair if isinstance(each, dict))
    return None, status


def evictions(play: Play) -> Callable[[Any], bool]:
    for number in (1, 2):
        play.pod(number, finalizers=["example.com/held"])
    play.budget("pdb", "web", minAvailable=1)
    eventually(lambda: '"disruptionsAllowed": 1' in json.dumps(play.state()["budgets"]), "one may be disrupted")
    pods = play.path("/api/v1", "pods")
    play.send("POST", f"{pods}/p1/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1"}})
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p2"}}
    answer = play.client.request("POST", f"{pods}/p2/eviction", {"content-type": "application/json"}, json.dumps(body).encode())
    assert answer.status == 429, answer.body
    return lambda state: '"currentHealthy": 1' in json.dumps(state["budgets"]) and "disruptedPods" not in json.dumps(state)


def volumes(play: Play) -> Callable[[Any], bool]:
    space = play.namespace
    play.volume("large", "10Gi")
    play.volume("small", "2Gi", persistentVolumeReclaimPolicy="Retain")
    play.volume("both", "1Gi", accessModes=["ReadWriteOnce", "ReadWriteMany"])
    play.volume("reserved", "1Gi", claimRef={"namespace": space, "name": "waited-for"})
    play.volume("gone", "1Gi", accessModes=["ReadOnlyMany"], persistentVolumeReclaimPolicy="Delete")
    path = play.path("/api/v1", "persistentvolumeclaims")
    for name in ("large", "small", "both", "gone"):
        play.phase(f"/api/v1/persistentvolumes/{space}-{name}", "Available")
    play.claim("one", "1500Mi")
    play.phase(f"{path}/one", "Bound")
    play.claim("many", "1Gi", accessModes=["ReadWriteMany"])
    play.claim("waited-for", "1Gi")
    play.claim("huge", "100Gi")
    play.claim("read", "1Gi", accessModes=["ReadOnlyMany"])
    for name in ("many", "waited-for", "read"):
        play.phase(f"{path}/{name}", "Bound")
    for name in ("one", "read"):
        play.send("DELETE", f"{path}/{name}")
    play.phase(f"/api/v1/persistentvolumes/{space}-small", "Released")
    play.phase(f"/api/v1/persistentvolumes/{space}-gone", "Failed")
    return lambda state: '"huge"' in json.dumps(state["claims"])


HISTORIES = (services, changes, mirrored, budgets, evictions, volumes)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Client]]:
    """Of a control plane with all these controllers, and of aggserver; both with a Node."""
    folder: Path = tmp_path_factory.mktemp("controllers")
    with ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(obtain(os.environ, print), controllers=(*CONTROLLERS, *OWN)))
        server = Standalone(folder / "data")
        stack.enter_context(running(server))
        made = [stack.enter_context(Client(kubeconfig)) for kubeconfig in (plane.kubeconfig, server.kubeconfig)]
        for client in made:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
            answer = client.request("POST", "/api/v1/nodes", {"content-type": "application/json"}, json.dumps(node).encode())
            assert answer.status == 201, answer.body
        yield made[0], made[1]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_same_end(clients: tuple[Client, Client], history: Callable[[Play], Callable[[Any], bool]]) -> None:
    def played(client: Client) -> Any:
        play = Play(client, history.__name__)
        is_done = history(play)
        eventually(lambda: is_done(play.state()), f"{history.__name__} comes to its end")
        return play

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(played, clients)

    def same() -> bool:
        return bool(theirs.state() == ours.state())

    with suppress(AssertionError):
        eventually(same, "both are the same", SECONDS)
    for kind, wanted in theirs.state().items():
        assert ours.state()[kind] == wanted, kind
