"""What others do to definitions and to what adoption relies on, on a real control plane, in each phase of a move.

Whatever they do, no object is lost, the status ConfigMap says how it stands, and the move goes on or back. One control plane and
one server for all. A phase is held by a webhook of the test, which answers the phase's first request when the test is done.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sqlite3
import subprocess
import threading
from asyncio import to_thread
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.families import FINALIZER
from aggserver.adoption.guard import PROBE_LABEL
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.webhook import CA, RunningWebhook
from tests.integration.adopting import CONFIG_MAP, LABEL, Adopting
from tests.integration.aggregation import NAMESPACE, SERVICE
from tests.integration.server import eventually

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{SERVICE}"
GUARD = f"aggserver-guard.{NAMESPACE}.{SERVICE}"
KEEP = "example.com/keep"
SECONDS = 60.0

Manifest = dict[str, Any]


class Gate:
    """The webhook that holds a phase: it answers the request that is `armed` only when it is opened."""

    def __init__(self) -> None:
        self.calls = 0
        self.asked = threading.Event()
        self._open = threading.Event()
        self._armed: tuple[str, str] | None = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = (await request.json())["request"]
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
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": _base64(CA.cert_pem)},
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


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass
class World:
    plane: ControlPlane
    adopting: Adopting
    gate: Gate

    def apply(self, *manifests: Manifest) -> None:
        self.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=_documents(manifests))

    def thing(self, word: str, **more: Any) -> Thing:
        made = Thing(self, word)
        made.create(**more)
        return made

    def gone(self, kind: str, name: str, *arguments: str) -> bool:
        done: subprocess.CompletedProcess[str] = self.plane.kubectl("get", kind, name, *arguments, check=False)
        return done.returncode != 0 and "NotFound" in done.stderr

    def events(self, definition: str) -> set[str]:
        found = self.plane.get("events", "-n", "default", f"--field-selector=involvedObject.name={definition}")["items"]
        return {f"{each['reason']}: {each['message']}" for each in found}

    def told(self, definition: str) -> str:
        """All that the status says of it in words."""
        entry = self.adopting.status().get(definition, {})
        degraded = [each["message"] for each in entry.get("conditions", ()) if each["type"] == "Degraded"]
        return "; ".join([entry.get("phase", ""), entry.get("reason", ""), entry.get("told", {}).get("message", ""), *degraded])

    def until(self, probe: Callable[[], Any], what: str) -> Any:
        return eventually(probe, f"{what}: {self.adopting.log[-4000:]}", SECONDS)

    def as_server(self, *arguments: str, given: Manifest | None = None) -> subprocess.CompletedProcess[str]:
        text = None if given is None else json.dumps(given)
        return self.plane.kubectl(*arguments, user=self.adopting.kubeconfig, input=text, check=False)


class Thing:
    """A definition in a group of its own, with objects."""

    def __init__(self, world: World, word: str) -> None:
        self.world = world
        self.plane = world.plane
        self.group = f"{word}.interfering.example.com"
        self.name = f"things.{self.group}"
        self.service = f"v1.{self.group}"

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

    def create(self, *, count: int = 3, finalizers: tuple[str, ...] = ()) -> None:
        self.world.apply(self.manifest())
        self.plane.kubectl("wait", "--for=condition=Established", f"crd/{self.name}", "--timeout=30s")
        if not count:
            return
        made = [self.object(f"t{number}", finalizers=finalizers if not number else ()) for number in range(count)]
        self.world.until(lambda: not self._create(made).returncode, "objects can be created")

    def _create(self, made: list[Manifest]) -> subprocess.CompletedProcess[str]:
        return self.plane.kubectl("apply", "-f", "-", input=_documents(made), check=False)

    def object(self, name: str, mark: int = 1, finalizers: tuple[str, ...] = ()) -> Manifest:
        metadata = {"name": name, "namespace": "default", "finalizers": list(finalizers)}
        return {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": metadata, "spec": {"mark": mark}}

    def objects(self) -> dict[str, tuple[str, int]]:
        """uid and mark by name."""
        found = self.plane.get(self.name, "-n", "default")["items"]
        return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["mark"]) for each in found}

    def write(self, name: str, mark: int) -> None:
        """As a client, who waits while it is asked to."""
        patch = json.dumps({"spec": {"mark": mark}})
        self.plane.kubectl("patch", self.name, name, "-n", "default", "--type=merge", "-p", patch)

    def crd(self) -> Manifest:
        found: Manifest = self.plane.get("crd", self.name)
        return found

    def label(self, value: str = "true") -> None:
        self.world.adopting.label(self.name, value)

    def adopted(self) -> None:
        self.world.until(lambda: self.phase() == "Adopted", f"{self.name} is adopted")

    def phase(self) -> str:
        return self.world.adopting.phase(self.name)

    def leads_here(self) -> bool:
        spec = self.plane.get("apiservice", self.service)["spec"]
        return bool((spec.get("service") or {}).get("name") == SERVICE)

    def is_at_the_host(self) -> None:
        """It has gone back, and nothing of the move is left."""
        self.world.until(lambda: FINALIZER not in self.crd()["metadata"].get("finalizers", ()), "the finalizer is gone")
        assert not self.leads_here()
        assert self.group not in json.dumps(self.plane.get("validatingwebhookconfigurations")["items"])
        self.world.until(lambda: self.copies() == 0, "no copy is left")

    def copies(self) -> int:
        """How many objects the server's store has."""
        prefix = f"/{self.group}/things/"
        uri = f"{self.world.adopting.store.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)) as connection:
            query = "SELECT COUNT(*) FROM current WHERE key >= ? AND key < ?"
            return int(connection.execute(query, (prefix, prefix[:-1] + "0")).fetchone()[0])

    @contextlib.contextmanager
    def held(self, phase: str) -> Iterator[None]:
        """Adopt it, and hold the phase until the block ends."""
        resource, name = {
            "Copying": ("customresourcedefinitions", self.name),
            "Guarding": ("configmaps", "*"),
            "Switching": ("apiservices", self.service),
        }[phase]
        with self.world.gate.held(resource, name):
            self.label()
            assert self.world.gate.asked.wait(SECONDS), self.world.adopting.log[-4000:]
            yield


def _documents(manifests: Any) -> str:
    return "\n---\n".join(map(json.dumps, manifests))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    gate = Gate()
    with ControlPlane(obtain(os.environ, print)) as plane, RunningWebhook(gate.answer) as webhook:
        adopting = Adopting(plane, tmp_path_factory.mktemp("interfering"), "*")
        made = World(plane, adopting, gate)
        made.apply(gate_configuration(webhook.server.port))
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": {PROBE_LABEL: SERVICE}}}

        def asked() -> bool:
            made.as_server("create", "--dry-run=server", "-n", NAMESPACE, "-f", "-", given=probe)
            return gate.calls > 0

        eventually(asked, "the webhook is called", SECONDS)
        adopting.start("--host-etcd-servers", plane.etcd)
        yield made
        assert adopting.server.stop() == 0, adopting.server.output


# --- in the middle of a move ---


def new_version(thing: Thing) -> None:
    thing.world.apply(thing.manifest("v1", "v2"))


def storage_version(thing: Thing) -> None:
    thing.world.apply(thing.manifest("v1", "v2", storage="v2"))


def schema(thing: Thing) -> None:
    thing.world.apply(thing.manifest(fields=("mark", "note")))


def label_again(thing: Thing) -> None:
    thing.label("")
    thing.label()


# How the definition is changed, in which phase.
CHANGES: dict[str, tuple[str, Callable[[Thing], None]]] = {
    "storage": ("Copying", storage_version),
    "schema": ("Guarding", schema),
    "version": ("Switching", new_version),
    "relabelled": ("Guarding", label_again),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_definition_is_adopted_as_it_is_now(world: World, case: str) -> None:
    phase, change = CHANGES[case]
    thing = world.thing(case)
    before = thing.objects()
    with thing.held(phase):
        world.until(lambda: thing.phase() == phase, f"{phase} is shown")
        change(thing)
    thing.adopted()
    versions = {each["name"] for each in thing.crd()["spec"]["versions"]}
    world.until(lambda: _served_here(world, thing) == versions, "all versions lead here")
    assert thing.objects() == before
    thing.write("t0", 5)
    assert thing.objects()["t0"] == (before["t0"][0], 5)


def _served_here(world: World, thing: Thing) -> set[str]:
    items = world.plane.get("apiservices")["items"]
    ours = [each["spec"] for each in items if (each["spec"].get("service") or {}).get("name") == SERVICE]
    return {spec["version"] for spec in ours if spec["group"] == thing.group}


@pytest.mark.parametrize("phase", ["Copying", "Switching"])
def test_without_its_label_it_goes_back(world: World, phase: str) -> None:
    thing = world.thing(f"unlabelled-{phase.lower()}")
    before = thing.objects()
    with thing.held(phase):
        thing.label("")
    world.until(lambda: thing.phase() == "", "it is not waited for")
    thing.is_at_the_host()
    assert thing.objects() == before
    thing.write("t0", 5)


@pytest.mark.parametrize("phase", ["Copying", "Guarding", "Switching"])
def test_a_deleted_definition_goes(world: World, phase: str) -> None:
    thing = world.thing(f"deleted-{phase.lower()}", finalizers=(KEEP,))
    with thing.held(phase):
        thing.plane.kubectl("delete", "crd", thing.name, "--wait=false")
    # The cluster waits for the object's finalizer, and serves the object until it has gone.
    world.until(lambda: set(thing.objects()) == {"t0"}, "the others are deleted")
    thing.is_at_the_host()
    _let_go(thing)
    world.until(lambda: world.gone("crd", thing.name), "it is gone")
    world.until(lambda: world.gone("apiservice", thing.service), "nothing leads anywhere")
    world.until(lambda: thing.phase() == "", "it is not waited for")
    if phase == "Copying":
        again = world.thing(f"deleted-{phase.lower()}")
        objects = again.objects()
        again.label()
        again.adopted()
        assert again.objects() == objects


def _let_go(thing: Thing) -> None:
    patch = json.dumps({"metadata": {"finalizers": None}})
    thing.plane.kubectl("patch", thing.name, "t0", "-n", "default", "--type=merge", "-p", patch)


# --- when it is adopted ---


@pytest.fixture(scope="module")
def adopted(world: World) -> Thing:
    thing = world.thing("adopted")
    thing.label()
    thing.adopted()
    return thing


def test_what_others_change_is_put_right(world: World, adopted: Thing) -> None:
    """The longest waits first: the guard and the status are looked at every ten seconds."""
    plane = world.plane
    before = adopted.objects()
    plane.kubectl("delete", "validatingwebhookconfiguration", GUARD)
    plane.kubectl("delete", "configmap", CONFIG_MAP, "-n", NAMESPACE)
    plane.kubectl("delete", "lease", "aggserver-adoption", "-n", NAMESPACE)
    plane.kubectl("patch", "crd", adopted.name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
    world.until(lambda: FINALIZER in adopted.crd()["metadata"].get("finalizers", ()), "the finalizer is put on again")
    for name, arguments in {
        "deleted": ("delete", "apiservice", adopted.service),
        "made local": ("label", "apiservice", adopted.service, "kube-aggregator.kubernetes.io/automanaged=true"),
    }.items():
        uid = plane.get("apiservice", adopted.service)["metadata"]["resourceVersion"]
        plane.kubectl(*arguments)
        world.until(lambda uid=uid: _is_ours_again(adopted, uid), f"the APIService that was {name} leads here again")
        world.until(lambda: _list(adopted) == before, "the objects are here")
    world.until(lambda: not world.gone("validatingwebhookconfiguration", GUARD), "the guard is there again")
    world.until(lambda: adopted.phase() == "Adopted", "the status is there again")
    world.until(lambda: not world.gone("lease", "aggserver-adoption", "-n", NAMESPACE), "the Lease is there again")
    adopted.write("t1", 7)
    assert adopted.objects() == {**before, "t1": (before["t1"][0], 7)}


def _is_ours_again(thing: Thing, version: str) -> bool:
    done = thing.plane.kubectl("get", "apiservice", thing.service, "-o", "json", check=False)
    if done.returncode:
        return False
    found = json.loads(done.stdout)
    labels = found["metadata"].get("labels") or {}
    ours = (found["spec"].get("service") or {}).get("name") == SERVICE
    return ours and "kube-aggregator.kubernetes.io/automanaged" not in labels and found["metadata"]["resourceVersion"] != version


def _list(thing: Thing) -> Mapping[str, Any]:
    done = thing.plane.kubectl("get", thing.name, "-n", "default", "-o", "json", check=False)
    found = json.loads(done.stdout)["items"] if not done.returncode else ()
    return {each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["mark"]) for each in found}


def test_somebody_elses_decision_is_told_and_left_alone(world: World, adopted: Thing) -> None:
    plane = world.plane
    ours = plane.get("apiservice", adopted.service)
    elsewhere = json.dumps({"spec": {"service": {"namespace": "default", "name": "kubernetes"}}})
    plane.kubectl("patch", "apiservice", adopted.service, "--type=merge", "-p", elsewhere)
    world.until(lambda: "served by the Service default/kubernetes" in world.told(adopted.name), "it is told")
    back = json.dumps({"spec": {"service": ours["spec"]["service"]}})
    plane.kubectl("patch", "apiservice", adopted.service, "--type=merge", "-p", back)
    world.until(lambda: "served by the Service" not in world.told(adopted.name), "it is well again")
    world.until(lambda: _list(adopted), "the objects are here")


def test_a_changed_definition_is_followed(world: World, adopted: Thing) -> None:
    """A new version becomes the storage version; then a conversion webhook is set, and the old version is not served."""
    before = adopted.objects()
    world.apply(adopted.manifest("v1", "v2", storage="v2"))
    world.until(lambda: _served_here(world, adopted) == {"v1", "v2"}, "both versions lead here")
    adopted.write("t2", 9)
    assert adopted.objects() == {**before, "t2": (before["t2"][0], 9)}
    manifest = adopted.manifest("v1", "v2", storage="v2")
    manifest["spec"]["versions"][0]["served"] = False
    world.apply(manifest)
    world.until(lambda: _served_here(world, adopted) == {"v2"}, "only the new version leads here")
    world.until(lambda: adopted.objects() == {**before, "t2": (before["t2"][0], 9)}, "the objects are as they were")
    world.apply(adopted.manifest("v1", "v2", storage="v2"))
    world.until(lambda: _served_here(world, adopted) == {"v1", "v2"}, "both versions lead here")


def test_a_definition_that_is_deleted_and_released_at_once(world: World) -> None:
    thing = world.thing("hurried", finalizers=(KEEP,))
    thing.label()
    thing.adopted()
    thing.write("t1", 5)
    # Both are there when the server looks.
    patch = json.dumps({"metadata": {"labels": None}})
    thing.plane.kubectl("delete", "crd", thing.name, "--wait=false")
    thing.plane.kubectl("patch", "crd", thing.name, "--type=merge", "-p", patch)
    world.until(lambda: set(_list(thing)) == {"t0"}, "the others are deleted")
    assert thing.phase() == "Adopted"
    _let_go(thing)
    world.until(lambda: world.gone("crd", thing.name), "it is gone")
    assert thing.copies() == 0
    again = world.thing("hurried", count=0)
    assert again.objects() == {}, "nothing was left in the cluster's etcd"


# --- names ---


def test_two_definitions_with_the_same_names(world: World, adopted: Thing) -> None:
    second = adopted.manifest("v1")
    second["metadata"] = {"name": f"others.{adopted.group}", "labels": {LABEL: "true"}}
    second["spec"]["names"] = {**second["spec"]["names"], "plural": "others", "singular": "other", "listKind": "OtherList"}
    before = adopted.objects()
    world.apply(second)
    world.until(lambda: "see its condition NamesAccepted" in world.told(adopted.name), "the conflict is told")
    assert adopted.objects() == before
    # It takes other names, and joins.
    second["spec"]["names"]["kind"] = "Other"
    world.apply(second)
    world.until(lambda: world.adopting.phase(f"others.{adopted.group}") == "Adopted", "it joins")
    world.until(lambda: "NamesAccepted" not in world.told(adopted.name), "it is well again")
    world.plane.kubectl("delete", "crd", f"others.{adopted.group}", "--timeout=60s")
    assert adopted.objects() == before


# --- policies of the cluster ---


def policy(name: str, group: str, resource: str, expression: str) -> list[Manifest]:
    """It refuses what the server does, where the expression is false."""
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [resource]}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "of-the-server", "expression": f'request.userInfo.username == "{ACCOUNT}"'}],
        "validations": [{"expression": expression, "message": f"the test refuses {name}"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**kind, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": spec},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name}, "spec": binding},
    ]


@contextlib.contextmanager
def refusing(world: World, name: str, group: str, resource: str, expression: str, *probe: str) -> Iterator[None]:
    """probe: a dry run of the server that is refused as soon as the policy is in force."""
    world.apply(*policy(name, group, resource, expression))
    world.until(lambda: f"refuses {name}" in world.as_server(*probe, "--dry-run=server").stderr, "the policy is in force")
    yield
    world.plane.kubectl("delete", "validatingadmissionpolicybinding", name)


def test_a_refused_finalizer(world: World, adopted: Thing) -> None:
    thing, other = world.thing("finalizer"), world.thing("beside")
    before = thing.objects()
    expression = f'object.metadata.name != "{thing.name}"'
    probe = ("annotate", "crd", thing.name, "probe=yes")
    with refusing(world, "a-finalizer", "apiextensions.k8s.io", "customresourcedefinitions", expression, *probe):
        thing.label()
        other.label()
        _told_as_refused(world, thing, "a-finalizer")
        other.adopted()
        thing.is_at_the_host()
    thing.adopted()
    assert thing.objects() == before


def test_a_refused_api_service(world: World, adopted: Thing) -> None:
    thing = world.thing("refused")
    expression = f'object.metadata.name != "{thing.service}"'
    probe = ("annotate", "apiservice", thing.service, "probe=yes")
    with refusing(world, "an-api-service", "apiregistration.k8s.io", "apiservices", expression, *probe):
        thing.label()
        _told_as_refused(world, thing, "an-api-service")
        thing.is_at_the_host()
    thing.adopted()


def test_a_refused_guard(world: World, adopted: Thing) -> None:
    thing = world.thing("guard")
    probe = ("annotate", "validatingwebhookconfiguration", GUARD, "probe=yes")
    with refusing(world, "a-guard", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "false", *probe):
        thing.label()
        _told_as_refused(world, thing, "a-guard")
        thing.is_at_the_host()
        adopted.write("t0", 3)
    thing.adopted()


def test_a_refused_status(world: World, adopted: Thing) -> None:
    thing = world.thing("status")
    expression = f'object.metadata.name != "{CONFIG_MAP}"'
    probe = ("annotate", "configmap", CONFIG_MAP, "-n", NAMESPACE, "probe=yes")
    said = len(world.adopting.log)
    with refusing(world, "a-status", "", "configmaps", expression, *probe):
        thing.label()
        world.until(lambda: any(each.startswith("Adopted: ") for each in world.events(thing.name)), "Events tell")
        assert thing.phase() == ""
    thing.adopted()
    assert world.adopting.log[said:].count("refuses a-status") == 1


def _told_as_refused(world: World, thing: Thing, name: str) -> None:
    world.until(lambda: f"refuses {name}" in world.told(thing.name), "the reason is told")
    assert thing.phase() == "Waiting"
    world.until(lambda: any(each.startswith("AdoptionWaiting: ") and name in each for each in world.events(thing.name)), "Events")
    # 2, 4, 8 seconds and so on after each other.
    assert world.adopting.log.count(f"refuses {name}") < 20


# --- groups of Kubernetes ---


def test_a_definition_of_a_group_of_kubernetes(world: World) -> None:
    thing = Thing(world, "")
    thing.group, thing.name = "interfering.k8s.io", "things.interfering.k8s.io"
    manifest = thing.manifest()
    manifest["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental-only"}
    manifest["metadata"]["labels"] = {LABEL: "true"}
    world.apply(manifest)
    thing.adopted()
    for refused in ("v1.networking.k8s.io", "v1.apps"):
        for change in (("annotate", "apiservice", refused, "a=b"), ("delete", "apiservice", refused)):
            done = world.as_server(*change, "--dry-run=server")
            assert "aggserver may not serve a group of Kubernetes' own" in done.stderr, done
        label = ("label", "--overwrite", "apiservice", refused, "kube-aggregator.kubernetes.io/automanaged=true")
        assert "a group of Kubernetes' own" in world.as_server(*label, "--dry-run=server").stderr
    service = {"namespace": NAMESPACE, "name": SERVICE}
    spec = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15, "service": service}
    made = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.metrics.k8s.io"},
        "spec": spec,
    }
    assert "a group of Kubernetes' own" in world.as_server("create", "-f", "-", given=made).stderr
    thing.label("")
    world.until(lambda: thing.phase() == "", "it is released")


# --- two truths ---


def test_what_was_given_back_from_a_backup_is_not_served_from_an_old_store(world: World, adopted: Thing) -> None:
    """Runs last, since it ends the server. `adopt release --from-backup` does these steps while the server is lost."""
    plane = world.plane
    thing = world.thing("lost")
    thing.label()
    thing.adopted()
    before = thing.objects()
    assert world.adopting.server.stop() == 0
    plane.kubectl("delete", "apiservice", thing.service)
    plane.kubectl("delete", "validatingwebhookconfiguration", GUARD)
    plane.kubectl("patch", "crd", thing.name, "--type=merge", "-p", json.dumps({"metadata": {"finalizers": None}}))
    world.until(lambda: _list(thing) == before, "kube-apiserver serves it")
    world.until(lambda: not plane.kubectl("get", thing.name, "t0", "-n", "default", check=False).returncode, "it does")
    thing.write("t0", 99)

    world.adopting.start("--host-etcd-servers", plane.etcd)
    world.until(lambda: thing.phase() == "Waiting", "it waits")
    assert "went back to the cluster without this server" in world.told(thing.name)
    assert not thing.leads_here()
    thing.write("t1", 98)
    now = {**before, "t0": (before["t0"][0], 99), "t1": (before["t1"][0], 98)}
    assert thing.objects() == now
    assert thing.copies() == 3, "what is here is kept"
    world.until(lambda: _list(adopted), "what is adopted is served")

    plane.kubectl("annotate", "crd", thing.name, "aggserver.io/adoption=discard")
    world.until(lambda: thing.copies() == 0, "what was here is deleted")
    plane.kubectl("annotate", "crd", thing.name, "aggserver.io/adoption-")
    thing.adopted()
    assert thing.objects() == now
