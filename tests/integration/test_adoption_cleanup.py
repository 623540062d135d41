"""What a move left is removed through kube-apiserver's API, at two kube-apiservers with a controller manager: nothing else goes.

The server has no access to etcd, as in a managed cluster. A webhook of the cluster holds the removal in the middle, for a look at
what clients see then, and until the server is stopped.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.leftovers.version import VERSION
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.webhook import CA, RunningWebhook
from tests.integration.adopting import Adopting, adopt_process
from tests.integration.aggregation import NAMESPACE, SERVICE
from tests.integration.server import eventually, running
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

HELD = "example.com/held"
OBJECTS = 25
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{SERVICE}"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        yield plane


@pytest.fixture(scope="module")
def adopting(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Adopting:
    return Adopting(plane, tmp_path_factory.mktemp("adopting"), "cleaned.example.com", "deleted.example.com")


class Left:
    """A definition, its objects in a namespace of their own, and what the cluster's etcd has of them."""

    def __init__(self, plane: ControlPlane, word: str) -> None:
        self.plane = plane
        self.group = f"{word}.example.com"
        self.definition = f"crontabs.{self.group}"
        self.namespace = word
        self.kubectl = plane.kubectl

    def create(self, *objects: dict[str, Any]) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        self.kubectl("create", "-f", "-", input=json.dumps(namespace))
        self.apply_definition()
        self.kubectl("wait", "--for=condition=Established", f"crd/{self.definition}", KUBECTL_LIMIT)
        self.write(*objects)

    def apply_definition(self) -> None:
        """As tools do that keep a cluster as a repository says."""
        manifest = json.dumps(_definition(self.group))
        self.kubectl("apply", "--server-side", "--field-manager=gitops", "-f", "-", input=manifest)

    def write(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))

    def tab(self, name: str, **metadata: Any) -> dict[str, Any]:
        return {
            "apiVersion": f"{self.group}/v1",
            "kind": "CronTab",
            "metadata": {"name": name, "namespace": self.namespace, **metadata},
            "spec": {"cronSpec": "* * * * *"},
        }

    def all(self) -> dict[str, Any]:
        """What clients see, by name."""
        found = self.plane.get(self.definition, "-n", self.namespace, "--show-managed-fields")["items"]
        return {each["metadata"]["name"]: each for each in found}

    def crd(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.get("crd", self.definition, "--show-managed-fields")
        return found

    def owner(self, kind: str, name: str) -> dict[str, Any]:
        found = self.plane.get(kind, name, "-n", self.namespace)
        return {"apiVersion": found["apiVersion"], "kind": found["kind"], "name": name, "uid": found["metadata"]["uid"]}

    def config_map(self, name: str, **metadata: Any) -> dict[str, Any]:
        named = {"name": name, "namespace": self.namespace, **metadata}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}

    def is_gone(self, kind: str, name: str) -> bool:
        done: subprocess.CompletedProcess[str] = self.kubectl("get", kind, name, "-n", self.namespace, check=False)
        return done.returncode != 0 and "NotFound" in done.stderr

    def count(self) -> int:
        """Of the objects in the cluster's etcd, asked itself."""
        prefix = f"/registry/{self.group}/crontabs/".encode()
        end = prefix[:-1] + bytes([prefix[-1] + 1])
        body = {"key": base64.b64encode(prefix).decode(), "range_end": base64.b64encode(end).decode(), "count_only": True}
        with urllib.request.urlopen(
            f"{self.plane.etcd}/v3/kv/range", data=json.dumps(body).encode(), timeout=HANG_SECONDS
        ) as answer:
            return int(json.load(answer).get("count", 0))

    def seen(self) -> list[str]:
        """What kubectl shows of the resource."""
        ask = [
            ["api-resources", f"--api-group={self.group}", "--no-headers"],
            ["get", "crontabs", "-n", self.namespace, "-o", "name"],
            ["get", "ct", "-n", self.namespace, "-o", "yaml"],
            ["explain", "crontabs.spec"],
            ["get", "--raw", f"/apis/{self.group}/v1"],
        ]
        return [self.kubectl(*words).stdout for words in ask]

    def preferred(self) -> str:
        return str(json.loads(self.kubectl("get", "--raw", f"/apis/{self.group}").stdout)["preferredVersion"]["version"])


class Holding:
    """A webhook that holds the deletion of what is left, until `let`. asked: who was the first to delete, by version."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        self.holds = threading.Event()
        self._free = False

    def let(self) -> None:
        self._free = True

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = json.loads(await request.read())["request"]
        version = review["requestResource"]["version"]
        user = review["userInfo"]["username"]
        self.asked.setdefault(version, user)
        while (version, user) == (VERSION, ACCOUNT) and not self._free:
            self.holds.set()
            await asyncio.sleep(0.05)
        response = {"uid": review["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def _webhook(left: Left, port: int) -> dict[str, Any]:
    rule = {"apiGroups": [left.group], "apiVersions": ["v1"], "resources": ["crontabs"], "operations": ["DELETE"]}
    bundle = base64.b64encode(CA.cert_pem).decode()
    hook = {
        "name": "hold.example.com",
        "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": "hold"}, "webhooks": [hook]}


@pytest.fixture(scope="module")
def cleaned(plane: ControlPlane) -> Left:
    left = Left(plane, "cleaned")
    objects = [left.tab(f"tab-{number:02}") for number in range(OBJECTS)]
    left.create(*objects, left.tab("held", finalizers=[HELD]), left.tab("going", finalizers=[HELD]), left.tab("owner"))
    left.write(left.tab("first"), left.config_map("owner"))
    left.kubectl("delete", left.definition, "going", "-n", left.namespace, "--wait=false")
    left.write(
        left.tab("owned", ownerReferences=[left.owner("configmap", "owner")]),
        left.config_map("dependent", ownerReferences=[left.owner(left.definition, "owner")]),
        left.config_map("of-first", ownerReferences=[left.owner(left.definition, "first")]),
    )
    # So that the garbage collector follows them from now on.
    plane.restart_manager()
    return left


@pytest.mark.usefixtures("cleaned")
def test_a_deleted_definition_does_not_wait_for_finalizers_of_what_is_left(adopting: Adopting) -> None:
    left = Left(adopting.plane, "deleted")
    left.create(left.tab("held", finalizers=[HELD]), left.tab("tab"))
    with running(adopting.start(data="cleaned")):
        adopting.adopt(left.definition)
        body = json.dumps({"metadata": {"finalizers": None}})
        left.kubectl("patch", left.definition, "held", "-n", left.namespace, "--type=merge", "-p", body)
        left.kubectl("delete", "crd", left.definition, KUBECTL_LIMIT)
        assert left.count() == 0
        for version in ("v1", VERSION):
            service = f"{version}.{left.group}"
            eventually(lambda service=service: left.is_gone("apiservice", service), f"{service} is gone")  # type: ignore[misc]


def test_what_is_left_is_removed_and_nobody_notices(adopting: Adopting, cleaned: Left) -> None:
    left, holding = cleaned, Holding()
    kubectl = adopting.plane.kubectl
    server = adopting.start(data="cleaned")
    with RunningWebhook(holding.answer) as hook:
        try:
            kubectl("apply", "-f", "-", input=json.dumps(_webhook(left, hook.server.port)))
            adopting.adopt(left.definition)
            assert left.count() == OBJECTS + 5
            kubectl("delete", left.definition, "tab-00", "first", "-n", left.namespace)
            left.write(left.tab("new"))
            eventually(lambda: left.is_gone("configmap", "of-first"), "the garbage collector follows these objects")
            objects, definition, seen = left.all(), left.crd(), left.seen()
            cleanup = adopt_process(adopting.plane, "cleanup", left.definition)
            assert holding.holds.wait(HANG_SECONDS), adopting.log[-3000:]
            assert left.seen() == seen
            assert left.preferred() == "v1"
            assert left.all() == objects
            _is_guarded(left)
            # It ends in the middle, and does not leave the version to others; the next one goes on.
            assert server.stop() == 0, server.output
            assert left.crd()["spec"] == definition["spec"]
        except BaseException:
            server.kill()
            raise
        holding.let()
        with running(adopting.start(data="cleaned")):
            said, errors = cleanup.communicate(timeout=HANG_SECONDS)
            assert cleanup.returncode == 0, said + errors + adopting.log[-3000:]
            assert "were removed from the cluster's etcd" in said
            assert left.count() == 0
            assert holding.asked[VERSION] == ACCOUNT
            eventually(lambda: left.is_gone("apiservice", f"{VERSION}.{left.group}"), "the APIService of the version is gone")
            _is_as_before(left.crd(), definition)
            left.apply_definition()
            assert left.all() == objects
            assert left.seen() == seen
            _is_collected(left)
            kept = objects.keys() - {"owner", "owned"}
            assert {name: each["metadata"]["uid"] for name, each in left.all().items()} == {
                name: objects[name]["metadata"]["uid"] for name in kept
            }


def _is_guarded(left: Left) -> None:
    """The version shows what is left to whoever may read it, and nobody else may write it."""
    path = f"/apis/{left.group}/{VERSION}/namespaces/{left.namespace}/crontabs"
    for server in left.plane.servers:
        names = [
            each["metadata"]["name"]
            for each in json.loads(left.kubectl("get", "--raw", path, "--server", server).stdout)["items"]
        ]
        assert "new" not in names
        done = left.kubectl("delete", "--raw", f"{path}/{names[0]}", "--server", server, check=False)
        assert "is moving between" in done.stderr


def _is_as_before(now: dict[str, Any], before: dict[str, Any]) -> None:
    assert now["spec"] == before["spec"]
    assert now["status"]["storedVersions"] == ["v1"]
    owners = [[each for each in crd["metadata"]["managedFields"] if each["manager"] == "gitops"] for crd in (now, before)]
    assert owners[0] == owners[1]
    assert not [
        each for each in now["metadata"]["managedFields"] if "f:versions" in json.dumps(each) and each["manager"] != "gitops"
    ]


def _is_collected(left: Left) -> None:
    """The garbage collector knows owners and dependents as before, and has deleted nobody else."""
    assert not left.is_gone("configmap", "dependent")
    assert not left.is_gone(left.definition, "owned")
    left.kubectl("delete", left.definition, "owner", "-n", left.namespace)
    left.kubectl("delete", "configmap", "owner", "-n", left.namespace)
    for kind, name in (("configmap", "dependent"), (left.definition, "owned")):
        eventually(lambda kind=kind, name=name: left.is_gone(kind, name), f"{kind}/{name} is collected")  # type: ignore[misc]


def _definition(group: str) -> dict[str, Any]:
    properties = {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": schema},
        {"name": "v1beta1", "served": True, "storage": False, "schema": schema},
    ]
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList", "shortNames": ["ct"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }
