"""What others do to definitions and to what adoption relies on, on a real control plane, in each phase of a move.

Whatever they do, no object is lost, the status ConfigMap says how it stands, and the move goes on or back. One control plane and
one server for all. A phase is held by a webhook of the test, which answers the phase's first request when the test is done.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import sqlite3
import threading
from asyncio import to_thread
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.families import ADOPTION, DISCARD, FINALIZER
from aggserver.adoption.switch.guard import PROBE_LABEL
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.webhook import CA, RunningWebhook
from tests.integration.adopting import CONFIG_MAP, LABEL, Adopting
from tests.integration.aggregation import NAMESPACE, SERVICE
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{SERVICE}"
KEEP = "example.com/keep"

_PATHS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "ValidatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
_GUARD = f"{_PATHS['ValidatingWebhookConfiguration']}/aggserver-guard.{NAMESPACE}.{SERVICE}"
_STATUS = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{CONFIG_MAP}"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/aggserver-adoption"
_AUTO_MANAGED = "kube-aggregator.kubernetes.io/automanaged"
_MERGE = "application/merge-patch+json"

Manifest = dict[str, Any]


class Gate:
    """The webhook that holds a phase: it answers the request that is `armed` only when it is opened."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked = threading.Event()
        self._open = threading.Event()
        self._armed: tuple[str, str] | None = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        asked = review["request"]
        if review["kind"] == "ConversionReview":
            converted = [{**each, "apiVersion": asked["desiredAPIVersion"]} for each in asked["objects"]]
            done = {"uid": asked["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
            return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": done})
        what = asked["resource"]["resource"]
        self.calls += 1
        is_meant = self._armed in ((what, asked.get("name", "")), (what, "*"))
        if is_meant and (what == "configmaps" or not asked.get("dryRun")):
            self.asked.set()
            await to_thread(self._open.wait, 20.0)
        answer = {"uid": asked["uid"], "allowed": True}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    @contextlib.contextmanager
    def held(self, resource: str, name: str) -> Iterator[None]:
        self.asked.clear()
        self._open.clear()
        self._armed = resource, name
        try:
            yield
        finally:
            self._armed = None
            self._open.set()


def gate_configuration(port: int) -> Manifest:
    """For requests of the server only."""
    common = {
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(CA.cert_pem).decode()},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 30,
        "matchConditions": [{"name": "of-the-server", "expression": f'request.userInfo.username == "{ACCOUNT}"'}],
    }

    def webhook(name: str, group: str, resource: str, operation: str, **more: Any) -> Manifest:
        rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]}
        return {"name": f"{name}.interfering.example.com", "rules": [rule], **common, **more}

    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "interfering"},
        "webhooks": [
            webhook("copying", "apiextensions.k8s.io", "customresourcedefinitions", "UPDATE"),
            webhook("guarding", "", "configmaps", "CREATE", objectSelector={"matchLabels": {PROBE_LABEL: SERVICE}}),
            webhook("switching", "apiregistration.k8s.io", "apiservices", "UPDATE"),
        ],
    }


@dataclass
class World:
    """admin, server: clients of kube-apiserver; server has the rights of aggserver, and `token` as its password."""

    plane: ControlPlane
    adopting: Adopting
    gate: Gate
    port: int
    admin: Client
    server: Client
    token: str

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        """As an administrator. What is not JSON is the aggregator's own word that it could not reach the server: None."""
        return self._call(self.admin, {"content-type": content_type}, method, path, body)

    def as_server(self, method: str, path: str, body: Any = None, content_type: str = _MERGE) -> str:
        """A dry run with the rights of aggserver. Returns the message of the answer."""
        headers = {"content-type": content_type, "authorization": f"Bearer {self.token}"}
        _, found = self._call(self.server, headers, method, f"{path}?dryRun=All", body)
        return str((found or {}).get("message", ""))

    @staticmethod
    def _call(client: Client, headers: Mapping[str, str], method: str, path: str, body: Any) -> tuple[int, Any]:
        answer = client.request(method, path, headers, None if body is None else json.dumps(body).encode())
        try:
            return answer.status, json.loads(answer.body)
        except ValueError:
            return answer.status, None

    def get(self, path: str) -> Manifest | None:
        """None if it is not there, or can't be told now."""
        status, found = self.call("GET", path)
        return found if status == 200 else None

    def do(self, method: str, path: str, body: Any = None, content_type: str = _MERGE) -> Manifest:
        """A change, again as long as the server asks for that, as client-go does."""
        found: list[Any] = []

        def done() -> bool:
            found[:] = self.call(method, path, body, content_type)
            return found[0] not in (429, 503)

        self.until(done, f"{method} {path}")
        assert found[0] in (200, 201), found
        changed: Manifest = found[1]
        return changed

    def apply(self, *manifests: Manifest) -> None:
        for each in manifests:
            path = f"{_PATHS[each['kind']]}/{each['metadata']['name']}?fieldManager=test&force=true"
            self.do("PATCH", path, each, "application/apply-patch+yaml")

    def thing(self, word: str, **more: Any) -> Thing:
        made = Thing(self, word)
        made.create(**more)
        return made

    def status(self) -> dict[str, Any]:
        """What the ConfigMap says, by definition."""
        found = self.get(_STATUS) or {}
        return {name: json.loads(text) for name, text in (found.get("data") or {}).items()}

    def told(self, definition: str) -> str:
        """All that the status says of it in words."""
        entry = self.status().get(definition, {})
        degraded = [each["message"] for each in entry.get("conditions", ()) if each["type"] == "Degraded"]
        return "; ".join([entry.get("phase", ""), entry.get("reason", ""), entry.get("told", {}).get("message", ""), *degraded])

    def events(self, definition: str) -> set[str]:
        found = self.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{definition}")
        return {f"{each['reason']}: {each['message']}" for each in (found or {"items": ()})["items"]}

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        try:
            return eventually(probe, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.adopting.log[-4000:]}") from None


class Thing:
    """A definition in a group of its own, with objects."""

    def __init__(self, world: World, word: str) -> None:
        self.world = world
        self.named(f"{word}.interfering.example.com")

    def named(self, group: str) -> None:
        self.group = group
        self.name = f"things.{group}"
        self.service = f"{_PATHS['APIService']}/v1.{group}"
        self.definition = f"{_PATHS['CustomResourceDefinition']}/{self.name}"
        self.path = f"/apis/{group}/v1/namespaces/default/things"

    def manifest(self, *versions: str, storage: str = "v1", fields: tuple[str, ...] = ("mark",), **spec: Any) -> Manifest:
        properties = {field: {"type": "integer"} for field in fields}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
        listed = [
            {"name": each, "served": True, "storage": each == storage, "schema": {"openAPIV3Schema": schema}}
            for each in versions or ("v1",)
        ]
        names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": listed, **spec},
        }

    def converted(self) -> Mapping[str, Any]:
        """The part of a spec that has objects converted by the webhook of the test."""
        client = {"url": f"https://127.0.0.1:{self.world.port}/convert", "caBundle": base64.b64encode(CA.cert_pem).decode()}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        return {"conversion": {"strategy": "Webhook", "webhook": webhook}}

    def create(self, *, count: int = 3, finalizers: tuple[str, ...] = ()) -> None:
        self.world.apply(self.manifest())
        self.world.until(lambda: self.world.get(self.path), "objects can be listed")
        for number in range(count):
            self._create(f"t{number}", finalizers if not number else ())

    def _create(self, name: str, finalizers: tuple[str, ...]) -> None:
        metadata = {"name": name, "finalizers": list(finalizers)}
        made = {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": metadata, "spec": {"mark": 1}}
        # kube-apiserver lists what it does not take writes for yet.
        self.world.until(lambda: self.world.call("POST", self.path, made)[0] == 201, f"{name} is created")

    def objects(self, version: str = "v1") -> dict[str, tuple[str, int]]:
        """uid and mark by name."""
        found = self.world.until(lambda: self.world.get(self.path.replace("/v1/", f"/{version}/")), "objects are listed")
        return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["mark"]) for each in found["items"]}

    def write(self, name: str, mark: int) -> None:
        self.world.do("PATCH", f"{self.path}/{name}", {"spec": {"mark": mark}})

    def finish(self) -> None:
        """Somebody takes the finalizer off the object that has one."""
        self.world.do("PATCH", f"{self.path}/t0", {"metadata": {"finalizers": None}})

    def finalizers(self) -> list[str]:
        return list((self.world.get(self.definition) or {"metadata": {}})["metadata"].get("finalizers") or ())

    def label(self, value: str | None = "true") -> None:
        self.change({"labels": {LABEL: value}})

    def change(self, metadata: Manifest) -> None:
        self.world.do("PATCH", self.definition, {"metadata": metadata})

    def delete(self) -> None:
        self.world.do("DELETE", self.definition)

    def is_gone(self, path: str = "") -> bool:
        return self.world.call("GET", path or self.definition)[0] == 404

    def adopted(self) -> None:
        self.world.until(lambda: self.phase() == "Adopted", f"{self.name} is adopted")

    def phase(self) -> str:
        return str(self.world.status().get(self.name, {}).get("phase", ""))

    def here(self) -> set[str]:
        """The versions whose APIServices lead here."""
        items = (self.world.get(_PATHS["APIService"]) or {"items": ()})["items"]
        ours = [each["spec"] for each in items if (each["spec"].get("service") or {}).get("name") == SERVICE]
        return {spec["version"] for spec in ours if spec["group"] == self.group}

    def is_at_the_host(self) -> None:
        """It has gone back, and nothing of the move is left."""
        self.world.until(lambda: FINALIZER not in self.finalizers(), "the finalizer is gone")
        assert not self.here()
        guards = _PATHS["ValidatingWebhookConfiguration"]
        self.world.until(lambda: self.group not in json.dumps(self.world.get(guards)), "the guard is gone")
        self.world.until(lambda: self.copies() == 0, "no copy is left")

    def copies(self) -> int:
        """How many objects the server's store has."""
        prefix = f"/{self.group}/things/"
        uri = f"{self.world.adopting.store.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=HANG_SECONDS)) as connection:
            query = "SELECT COUNT(*) FROM current WHERE key >= ? AND key < ?"
            return int(connection.execute(query, (prefix, prefix[:-1] + "0")).fetchone()[0])

    @contextlib.contextmanager
    def held(self, phase: str) -> Iterator[None]:
        """Adopt it, and hold the phase until the block ends."""
        resource, name = {
            "Copying": ("customresourcedefinitions", self.name),
            "Guarding": ("configmaps", "*"),
            "Switching": ("apiservices", f"v1.{self.group}"),
        }[phase]
        with self.world.gate.held(resource, name):
            self.label()
            assert self.world.gate.asked.wait(HANG_SECONDS), self.world.adopting.log[-4000:]
            yield


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    gate = Gate()
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(ControlPlane(obtain(os.environ, print)))
        port = stack.enter_context(RunningWebhook(gate.answer)).server.port
        adopting = Adopting(plane, tmp_path_factory.mktemp("interfering"), "*")
        token = json.loads(adopting.kubeconfig.read_text())["users"][0]["user"]["token"]
        admin = stack.enter_context(Client(plane.kubeconfig))
        server = stack.enter_context(Client(adopting.kubeconfig, certificate=False))
        made = World(plane, adopting, gate, port, admin, server, token)
        made.apply(gate_configuration(port))
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": {PROBE_LABEL: SERVICE}}}

        def asked() -> bool:
            made.as_server("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", probe, "application/json")
            return gate.calls > 0

        eventually(asked, "the webhook is called")
        adopting.start("--host-etcd-servers", plane.etcd)
        yield made
        assert adopting.server.stop() == 0, adopting.server.output


# --- in the middle of a move ---


def new_version(thing: Thing) -> None:
    thing.world.apply(thing.manifest("v1", "v2", **thing.converted()))


def storage_version(thing: Thing) -> None:
    thing.world.apply(thing.manifest("v1", "v2", storage="v2"))


def schema(thing: Thing) -> None:
    thing.world.apply(thing.manifest(fields=("mark", "note")))


def label_again(thing: Thing) -> None:
    thing.label(None)
    thing.label()


# How the definition is changed, in which phase, and the versions that it serves then.
CHANGES: dict[str, tuple[str, Callable[[Thing], None], set[str]]] = {
    "storage": ("Copying", storage_version, {"v1", "v2"}),
    "schema": ("Guarding", schema, {"v1"}),
    "conversion": ("Switching", new_version, {"v1", "v2"}),
    "relabelled": ("Guarding", label_again, {"v1"}),
}


@pytest.mark.parametrize(
    "case", ["conversion", *(pytest.param(each, marks=pytest.mark.long) for each in CHANGES if each != "conversion")]
)
def test_a_changed_definition_is_adopted_as_it_is_now(world: World, case: str) -> None:
    phase, change, versions = CHANGES[case]
    thing = world.thing(case)
    before = thing.objects()
    with thing.held(phase):
        world.until(lambda: thing.phase() == phase, f"{phase} is shown")
        change(thing)
    thing.adopted()
    world.until(lambda: thing.here() == versions, "all versions lead here")
    for version in versions:
        assert thing.objects(version) == before
    thing.write("t0", 5)
    assert thing.objects()["t0"] == (before["t0"][0], 5)


@pytest.mark.parametrize("phase", ["Copying", pytest.param("Switching", marks=pytest.mark.long)])
def test_without_its_label_it_goes_back(world: World, phase: str) -> None:
    thing = world.thing(f"unlabelled-{phase.lower()}")
    before = thing.objects()
    with thing.held(phase):
        thing.label(None)
    world.until(lambda: thing.phase() == "", "it is not waited for")
    thing.is_at_the_host()
    assert thing.objects() == before
    thing.write("t0", 5)


@pytest.mark.parametrize(
    "phase", [*(pytest.param(each, marks=pytest.mark.long) for each in ("Copying", "Guarding")), "Switching"]
)
def test_a_deleted_definition_goes(world: World, phase: str) -> None:
    thing = world.thing(f"deleted-{phase.lower()}", finalizers=(KEEP,))
    with thing.held(phase):
        thing.delete()
    # The cluster waits for the object's finalizer, and serves the object until it has gone.
    world.until(lambda: set(thing.objects()) == {"t0"}, "the others are deleted")
    thing.is_at_the_host()
    thing.finish()
    world.until(thing.is_gone, "it is gone")
    world.until(lambda: thing.is_gone(thing.service), "nothing leads anywhere")
    world.until(lambda: thing.phase() == "", "it is not waited for")
    if phase == "Copying":
        thing.create()
        objects = thing.objects()
        thing.label()
        thing.adopted()
        assert thing.objects() == objects


# --- when it is adopted ---


@pytest.fixture(scope="module")
def adopted(world: World) -> Thing:
    thing = world.thing("adopted")
    thing.label()
    thing.adopted()
    return thing


def test_what_others_change_is_put_right(world: World, adopted: Thing) -> None:
    """The longest waits first: the guard and the status are looked at every ten seconds."""
    before = adopted.objects()
    for path in (_GUARD, _STATUS, _LEASE):
        world.do("DELETE", path)
    adopted.change({"finalizers": None})
    world.until(lambda: FINALIZER in adopted.finalizers(), "the finalizer is put on again")
    for how, method, body in (
        ("deleted", "DELETE", None),
        ("made local", "PATCH", {"metadata": {"labels": {_AUTO_MANAGED: "true"}}}),
    ):
        version = (world.get(adopted.service) or {})["metadata"]["resourceVersion"]
        world.do(method, adopted.service, body)
        world.until(lambda version=version: _is_ours_again(adopted, version), f"one that was {how} leads here again")
        # kube-apiserver serves what the move left, which is the same here, until it follows.
        assert adopted.objects() == before
    world.until(lambda: world.get(_GUARD), "the guard is there again")
    world.until(lambda: adopted.phase() == "Adopted", "the status is there again")
    world.until(lambda: world.get(_LEASE), "the Lease is there again")
    adopted.write("t1", 7)
    world.until(lambda: adopted.objects() == {**before, "t1": (before["t1"][0], 7)}, "what is written is here")


def _is_ours_again(thing: Thing, version: str) -> bool:
    found = thing.world.get(thing.service)
    if found is None or found["metadata"]["resourceVersion"] == version:
        return False
    return "v1" in thing.here() and _AUTO_MANAGED not in (found["metadata"].get("labels") or {})


def test_somebody_elses_decision_is_told_and_left_alone(world: World, adopted: Thing) -> None:
    ours = (world.get(adopted.service) or {})["spec"]["service"]
    world.do("PATCH", adopted.service, {"spec": {"service": {"namespace": "default", "name": "kubernetes"}}})
    world.until(lambda: "served by the Service default/kubernetes" in world.told(adopted.name), "it is told")
    world.do("PATCH", adopted.service, {"spec": {"service": ours}})
    world.until(lambda: "served by the Service" not in world.told(adopted.name), "it is well again")
    adopted.write("t0", 2)


def test_a_changed_definition_is_followed(world: World, adopted: Thing) -> None:
    """A new version becomes the storage version, with a conversion webhook; then the old version is not served."""
    before = adopted.objects()
    manifest = adopted.manifest("v1", "v2", storage="v2", **adopted.converted())
    world.apply(manifest)
    world.until(lambda: adopted.here() == {"v1", "v2"}, "both versions lead here")
    adopted.write("t2", 9)
    after = {**before, "t2": (before["t2"][0], 9)}
    assert adopted.objects() == adopted.objects("v2") == after
    manifest["spec"]["versions"][0]["served"] = False
    world.apply(manifest)
    world.until(lambda: adopted.here() == {"v2"}, "only the new version leads here")
    assert adopted.objects("v2") == after
    world.apply(adopted.manifest("v1", "v2", storage="v2"))
    world.until(lambda: adopted.here() == {"v1", "v2"}, "both versions lead here")


@pytest.mark.long
def test_a_definition_that_is_deleted_and_released_at_once(world: World) -> None:
    thing = world.thing("hurried", finalizers=(KEEP,))
    thing.label()
    thing.adopted()
    thing.write("t1", 5)
    with _stopped(world):  # both are there when the server looks
        thing.delete()
        thing.change({"labels": None})
    world.until(lambda: set(thing.objects()) == {"t0"}, "the others are deleted")
    assert thing.phase() == "Adopted"
    thing.finish()
    world.until(thing.is_gone, "it is gone")
    world.until(lambda: thing.copies() == 0, "nothing is left here")
    thing.create(count=0)
    assert thing.objects() == {}, "nothing was left in the cluster's etcd"


def test_a_definition_that_is_forced_away_and_created_anew(world: World) -> None:
    thing = world.thing("forced")
    thing.label()
    thing.adopted()
    with _stopped(world):
        thing.change({"finalizers": None})
        thing.delete()
        world.until(thing.is_gone, "it is gone")
        world.apply(thing.manifest())
    world.until(lambda: "created anew in the host" in world.told(thing.name), "it is told")
    assert (thing.here(), thing.copies()) == ({"v1"}, 3), "until somebody has decided"
    thing.change({"annotations": {ADOPTION: DISCARD}})
    world.until(lambda: not thing.here(), "the cluster serves it")
    thing.is_at_the_host()
    thing.create()
    assert len(thing.objects()) == 3


@contextlib.contextmanager
def _stopped(world: World) -> Iterator[None]:
    """The server does not run meanwhile."""
    os.kill(world.adopting.server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(world.adopting.server.pid, signal.SIGCONT)


# --- names ---


@pytest.mark.long
def test_two_definitions_with_the_same_names(world: World, adopted: Thing) -> None:
    second = adopted.manifest("v1")
    name = f"others.{adopted.group}"
    second["metadata"] = {"name": name, "labels": {LABEL: "true"}}
    second["spec"]["names"] = {**second["spec"]["names"], "plural": "others", "singular": "other", "listKind": "OtherList"}
    before = adopted.objects()
    world.apply(second)
    world.until(lambda: "see its condition NamesAccepted" in world.told(adopted.name), "the conflict is told")
    assert adopted.objects() == before
    # It takes other names, and joins.
    second["spec"]["names"]["kind"] = "Other"
    world.apply(second)
    world.until(lambda: world.status().get(name, {}).get("phase") == "Adopted", "it joins")
    world.until(lambda: "NamesAccepted" not in world.told(adopted.name), "it is well again")
    # It wants a name of the other later, and is served with those that it has.
    second["spec"]["names"] = {**second["spec"]["names"], "singular": "thing"}
    world.apply(second)
    world.until(lambda: _has_conflict(world, name), "the cluster does not accept it")
    assert world.get(f"/apis/{adopted.group}/v1/namespaces/default/others")
    assert adopted.objects() == before
    world.do("DELETE", f"{_PATHS['CustomResourceDefinition']}/{name}")
    world.until(lambda: name not in world.status(), "it is gone")
    assert adopted.objects() == before


def _has_conflict(world: World, name: str) -> bool:
    found = world.get(f"{_PATHS['CustomResourceDefinition']}/{name}") or {}
    return ("NamesAccepted", "False") in [(each["type"], each["status"]) for each in found["status"]["conditions"]]


# --- policies of the cluster ---


def policy(name: str, group: str, resource: str, expression: str) -> list[Manifest]:
    """It refuses what the server does, where the expression is false."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "of-the-server", "expression": f'request.userInfo.username == "{ACCOUNT}"'}],
        "validations": [{"expression": expression, "message": f"the test refuses {name}"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


@contextlib.contextmanager
def refusing(world: World, name: str, group: str, path: str) -> Iterator[None]:
    """The server can't change the object of this path while the block runs."""
    resource, _, object_name = path.rpartition("/")
    expression = f'object.metadata.name != "{object_name}"'
    world.apply(*policy(name, group, resource.rpartition("/")[2], expression))
    # A policy is in force once kube-apiserver has seen it.
    probe = {"metadata": {"annotations": {"probe": name}}}
    world.until(lambda: f"refuses {name}" in world.as_server("PATCH", path, probe), "the policy is in force")
    yield
    world.do("DELETE", f"{_PATHS['ValidatingAdmissionPolicyBinding']}/{name}")


def test_a_refused_finalizer(world: World, adopted: Thing) -> None:
    thing, other = world.thing("finalizer"), world.thing("beside")
    before = thing.objects()
    with refusing(world, "a-finalizer", "apiextensions.k8s.io", thing.definition):
        thing.label()
        other.label()
        _told_as_refused(world, thing, "a-finalizer")
        other.adopted()
        thing.is_at_the_host()
    thing.adopted()
    assert thing.objects() == before


@pytest.mark.long
def test_a_refused_api_service(world: World, adopted: Thing) -> None:
    thing = world.thing("refused")
    with refusing(world, "an-api-service", "apiregistration.k8s.io", thing.service):
        thing.label()
        _told_as_refused(world, thing, "an-api-service")
        thing.is_at_the_host()
    thing.adopted()


def test_a_refused_guard(world: World, adopted: Thing) -> None:
    thing = world.thing("guard")
    with refusing(world, "a-guard", "admissionregistration.k8s.io", _GUARD):
        thing.label()
        _told_as_refused(world, thing, "a-guard")
        thing.is_at_the_host()
        adopted.write("t0", 3)
    thing.adopted()


@pytest.mark.long
def test_a_refused_status(world: World, adopted: Thing) -> None:
    thing = world.thing("status")
    said = len(world.adopting.log)
    with refusing(world, "a-status", "", _STATUS):
        thing.label()
        world.until(lambda: any(each.startswith("Adopted: ") for each in world.events(thing.name)), "Events tell")
        assert thing.phase() == ""
    thing.adopted()
    assert world.adopting.log[said:].count("refuses a-status") == 1


def _told_as_refused(world: World, thing: Thing, name: str) -> None:
    world.until(lambda: f"refuses {name}" in world.told(thing.name), "the reason is told")
    assert thing.phase() in ("Waiting", "SwitchingBack")
    world.until(lambda: any(each.startswith("AdoptionWaiting: ") and name in each for each in world.events(thing.name)), "Events")
    # After 2, 4, 8 seconds and so on.
    assert world.adopting.log.count(f"refuses {name}") < 20


# --- groups of Kubernetes ---


@pytest.mark.long
def test_a_definition_of_a_group_of_kubernetes(world: World) -> None:
    thing = Thing(world, "")
    thing.named("interfering.k8s.io")
    manifest = thing.manifest()
    manifest["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental-only"}
    manifest["metadata"]["labels"] = {LABEL: "true"}
    world.apply(manifest)
    thing.adopted()
    refusal, services = "aggserver may not serve a group of Kubernetes' own", _PATHS["APIService"]
    for name in ("v1.networking.k8s.io", "v1.apps"):
        for metadata in ({"annotations": {"a": "b"}}, {"labels": {_AUTO_MANAGED: "true"}}):
            assert refusal in world.as_server("PATCH", f"{services}/{name}", {"metadata": metadata})
        assert refusal in world.as_server("DELETE", f"{services}/{name}")
    spec = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15}
    made = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.metrics.k8s.io"},
        "spec": {**spec, "service": {"namespace": NAMESPACE, "name": SERVICE}},
    }
    assert refusal in world.as_server("POST", services, made, "application/json")
    thing.label(None)
    world.until(lambda: thing.phase() == "", "it is released")
    thing.is_at_the_host()


# --- two truths, and nobody who may move ---


def test_what_was_given_back_from_a_backup_is_not_served_from_an_old_store(world: World, adopted: Thing) -> None:
    """Runs last, since it ends the server. `adopt release --from-backup` does these steps while the server is lost."""
    thing = world.thing("lost")
    thing.label()
    thing.adopted()
    before = thing.objects()
    assert world.adopting.server.stop() == 0
    for path in (thing.service, _GUARD):
        world.do("DELETE", path)
    thing.change({"finalizers": None})
    assert thing.objects() == before
    thing.write("t0", 99)

    with refusing(world, "a-lease", "coordination.k8s.io", _LEASE):
        world.adopting.start("--host-etcd-servers", world.plane.etcd)
        world.until(lambda: "refuses a-lease" in world.adopting.server.output, "the log says why nothing is moved")
        adopted.write("t0", 4)  # what is adopted is served
        assert not thing.here()
    world.until(lambda: thing.phase() == "Waiting", "it waits")
    assert world.adopting.server.output.count("refuses a-lease") == 1
    assert "went back to the cluster without this server" in world.told(thing.name)
    assert not thing.here()
    thing.write("t1", 98)
    now = {**before, "t0": (before["t0"][0], 99), "t1": (before["t1"][0], 98)}
    assert thing.objects() == now
    assert thing.copies() == 3, "what is here is kept"
    world.until(lambda: world.get(_GUARD), "what is adopted is guarded again")

    thing.change({"annotations": {ADOPTION: DISCARD}})
    world.until(lambda: thing.copies() == 0, "what was here is deleted")
    thing.change({"annotations": {ADOPTION: None}})
    thing.adopted()
    assert thing.objects() == now
