"""`aggserver serve --adopt` at a real control plane: objects move here and back, and clients notice nothing of it.

Once with a store of its own, to which the objects are copied and from which they go back into the cluster's etcd; once with the
cluster's own etcd as its store, where only the address changes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.adopting import LABEL, Adopting, adopt, rights, status
from tests.integration.aggregation import SERVICE
from tests.integration.direct import Direct
from tests.integration.server import Aggregated, eventually, running
from tests.waiting import KUBECTL_LIMIT

OBJECTS = 50

# To a store of its own and back into the cluster's etcd, or with that etcd as the store.
STORES = ("sqlite", pytest.param("shared", marks=pytest.mark.long))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print)) as plane:
        yield plane


@pytest.fixture(scope="module")
def adopting(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Adopting:
    return Adopting(plane, tmp_path_factory.mktemp("adopting"))


def serving(adopting: Adopting, store: str) -> Aggregated:
    """`aggserver serve --adopt`, over the same data each time."""
    if store == "shared":
        storage = ["--storage", "etcd", "--etcd-servers", adopting.plane.etcd, "--etcd-compaction-interval", "0"]
    else:
        storage = ["--host-etcd-servers", adopting.plane.etcd]
    return adopting.start(*storage, selector=f"{LABEL}={store}", data=store)


class Tabs:
    """A definition of the cluster, its objects, and what clients do with them. One for each store: groups are not shared."""

    def __init__(self, plane: ControlPlane, store: str) -> None:
        self.plane = plane
        self.store = store
        self.group = f"{store}.adoption.example.com"
        self.definition = f"crontabs.{self.group}"
        self.namespace = f"adoption-{store}"

    def create(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.plane.kubectl(
            "apply",
            "-f",
            "-",
            input=_documents([rights(f"adopted-{self.store}", self.group), namespace, _definition(self.group)]),
        )
        self.plane.kubectl("wait", "--for=condition=Established", f"crd/{self.definition}", KUBECTL_LIMIT)
        objects = [self.tab(f"tab-{number:02}", number) for number in range(OBJECTS)]
        self.plane.kubectl("apply", "--server-side", "--field-manager=author", "-f", "-", input=_documents(objects))

    def tab(self, name: str, replicas: int, **metadata: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "CronTab",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": {"cronSpec": "* * * * *", "replicas": replicas},
        }

    def all(self) -> dict[str, Any]:
        """By name, without the resourceVersion: that is new after a move."""
        found = self.plane.get(self.definition, "-n", self.namespace, "--show-managed-fields")["items"]
        for each in found:
            del each["metadata"]["resourceVersion"]
        return {each["metadata"]["name"]: each for each in found}

    def api_service(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.get("apiservice", f"v1.{self.group}")
        return found

    def is_local(self) -> bool:
        """Whether kube-apiserver has made the APIService anew, which it does a moment after ours was deleted."""
        found = self.plane.kubectl("get", "apiservice", f"v1.{self.group}", "--ignore-not-found", "-o", "json").stdout
        return bool(found) and "service" not in json.loads(found)["spec"]

    def is_adopted(self) -> bool:
        return self.phase() == "Adopted"

    def phase(self) -> str:
        return str(status(self.plane).get(self.definition, {}).get("phase", ""))

    def work(self, name: str, replicas: int) -> None:
        """What clients do, from the first request to the last: apply, get, explain, scale, wait, delete."""
        kubectl = self.plane.kubectl
        body = json.dumps(self.tab(name, replicas))
        for arguments in (["apply"], ["apply", "--server-side", "--field-manager=worker"]):
            kubectl(*arguments, "-f", "-", input=body)
        kubectl("scale", f"{self.definition}/{name}", "-n", self.namespace, f"--replicas={replicas + 1}")
        found = self.plane.get(self.definition, name, "-n", self.namespace)
        assert found["spec"]["replicas"] == replicas + 1
        assert "cronSpec" in kubectl("explain", f"{self.definition}.spec").stdout
        kubectl(
            "wait", "--for=jsonpath={.spec.cronSpec}=* * * * *", f"{self.definition}/{name}", "-n", self.namespace, KUBECTL_LIMIT
        )
        kubectl("delete", self.definition, name, "-n", self.namespace)


@pytest.mark.parametrize("store", STORES)
def test_objects_move_here_and_back_while_clients_work(adopting: Adopting, store: str) -> None:
    plane = adopting.plane
    tabs = Tabs(plane, store)
    tabs.create()
    tabs.work("before", 1)
    before = tabs.all()
    assert len(before) == OBJECTS
    with running(serving(adopting, store)):
        plane.kubectl("label", "crd", tabs.definition, f"{LABEL}={store}")
        eventually(tabs.is_adopted, f"{tabs.definition} is adopted")
        assert tabs.api_service()["spec"]["service"]["name"] == SERVICE
        assert "aggserver.io/adopted" in plane.get("crd", tabs.definition)["metadata"]["finalizers"]
        assert tabs.all() == before, "uid, generation, managedFields and all else is as it was"

        tabs.work("during", 2)
        _changed(tabs)
        during = tabs.all()
        _is_collected(tabs, plane)
        _namespace_is_emptied(tabs, plane)
        assert tabs.all() == during
    # A restart, and the next server goes on with what the store has.
    with running(serving(adopting, store)):
        assert _first_answers(adopting, tabs) <= {200, 503}, "never 404, which clients would believe"
        eventually(lambda: _served(tabs), "the objects are served again")
        assert tabs.all() == during
        # The label asks for the release.
        plane.kubectl("label", "crd", tabs.definition, f"{LABEL}-")
        eventually(tabs.is_local, "the APIService is the host's")
        crd = eventually(lambda: _without_finalizer(plane, tabs), "the finalizer is gone")
        assert crd["metadata"]["uid"]
        assert tabs.all() == during, "what was written here went back"
        tabs.work("after", 3)


def _first_answers(adopting: Adopting, tabs: Tabs) -> set[int]:
    """The codes with which a server answers that has just begun to listen, until it serves the objects."""
    token = json.loads(adopting.kubeconfig.read_text())["users"][0]["user"]["token"]
    direct = Direct(adopting.port)
    codes: set[int] = set()

    def is_served() -> bool:
        codes.add(code := direct.get(f"/apis/{tabs.group}/v1/crontabs", ("Authorization", f"Bearer {token}")).status)
        return code == 200

    eventually(is_served, "the objects are served")
    return codes


def _changed(tabs: Tabs) -> None:
    """Each kind of change: an object is created, one is changed, one is deleted."""
    tabs.plane.kubectl("create", "-f", "-", input=json.dumps(tabs.tab("new", 7)))
    tabs.plane.kubectl("scale", f"{tabs.definition}/tab-00", "-n", tabs.namespace, "--replicas=99")
    tabs.plane.kubectl("delete", tabs.definition, "tab-01", "-n", tabs.namespace)


def _is_collected(tabs: Tabs, plane: ControlPlane) -> None:
    """The garbage collector deletes an adopted object whose owner is in kube-apiserver, and the reverse."""
    namespace = tabs.namespace
    plane.kubectl("create", "configmap", "owner", "-n", namespace)
    plane.kubectl(
        "create", "-f", "-", input=json.dumps(tabs.tab("owned", 1, ownerReferences=[_owner(plane, "configmap", namespace)]))
    )
    plane.kubectl("create", "-f", "-", input=json.dumps(tabs.tab("owner", 1)))
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "namespace": namespace, "ownerReferences": [_owner(plane, tabs.definition, namespace)]},
    }
    plane.kubectl("create", "-f", "-", input=json.dumps(owned))
    plane.kubectl("delete", "configmap", "owner", "-n", namespace)
    plane.kubectl("delete", tabs.definition, "owner", "-n", namespace)
    for kind in (tabs.definition, "configmap"):
        eventually(lambda kind=kind: _is_gone(plane, kind, "owned", namespace), f"{kind}/owned is collected")


def _owner(plane: ControlPlane, kind: str, namespace: str) -> dict[str, Any]:
    found = plane.get(kind, "owner", "-n", namespace)
    metadata = found["metadata"]
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": metadata["name"], "uid": metadata["uid"]}


def _is_gone(plane: ControlPlane, kind: str, name: str, namespace: str) -> bool:
    done: subprocess.CompletedProcess[str] = plane.kubectl("get", kind, name, "-n", namespace, check=False)
    return done.returncode != 0 and "NotFound" in done.stderr


def _namespace_is_emptied(tabs: Tabs, plane: ControlPlane) -> None:
    other = f"{tabs.namespace}-other"
    plane.kubectl("create", "namespace", other)
    plane.kubectl("create", "-f", "-", input=json.dumps(tabs.tab("a", 1, namespace=other)))
    plane.kubectl("delete", "namespace", other, KUBECTL_LIMIT)


def _served(tabs: Tabs) -> bool:
    done = tabs.plane.kubectl("get", tabs.definition, "-n", tabs.namespace, check=False)
    return done.returncode == 0


def _without_finalizer(plane: ControlPlane, tabs: Tabs) -> dict[str, Any] | None:
    crd: dict[str, Any] = plane.get("crd", tabs.definition)
    return None if "aggserver.io/adopted" in (crd["metadata"].get("finalizers") or ()) else crd


def test_a_deleted_definition_takes_its_objects_with_it(adopting: Adopting) -> None:
    plane = adopting.plane
    tabs = Tabs(plane, "deleted")
    tabs.create()
    with running(serving(adopting, "sqlite")):
        plane.kubectl("label", "crd", tabs.definition, f"{LABEL}=sqlite")
        eventually(tabs.is_adopted, f"{tabs.definition} is adopted")
        plane.kubectl("delete", "crd", tabs.definition, KUBECTL_LIMIT)
        eventually(lambda: _is_gone(plane, "apiservice", f"v1.{tabs.group}", "default"), "the APIService is gone")
        # The same name again begins without objects.
        plane.kubectl("create", "-f", "-", input=json.dumps(_definition(tabs.group)))
        plane.kubectl("wait", "--for=condition=Established", f"crd/{tabs.definition}", KUBECTL_LIMIT)
        eventually(lambda: _served(tabs), "kube-apiserver serves the new definition")
        assert tabs.all() == {}


def test_the_command_says_which_server_moves_definitions(adopting: Adopting) -> None:
    with running(serving(adopting, "sqlite")):
        eventually(lambda: "holding the Lease" in adopting.log, "it moves")
        server = _status(adopting)["server"]
        assert server["holder"].startswith(socket.gethostname())
        assert server["problem"] == ""
    server = _status(adopting)["server"]
    assert server["problem"].startswith("no aggserver moves definitions: the last one has ended at ")


def _status(adopting: Adopting) -> Any:
    done = adopt(adopting.plane, "status", "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- what is applied ---


def _documents(objects: Sequence[Any]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def _definition(group: str) -> dict[str, Any]:
    spec = {"cronSpec": {"type": "string"}, "replicas": {"type": "integer"}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    }
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
