"""Virtual resources behind the aggregator: kubectl, client-go's informers over restarts, and the cluster's own controllers.

The real garbage collector, quota and namespace controllers find the resources by discovery. A source that hangs, fails or answers
half must not disturb what they do for others.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggserver import Metadata
from tests.controlplane.plane import ControlPlane
from tests.integration.aggregation import Aggregation, wait_until_served
from tests.integration.apps.tickets import BEHAVIOUR, DATABASE, Table, Ticket
from tests.integration.informer_program import informing
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

APPS = "tests.integration.apps.tickets"
GROUPS = (
    "direct.example.com",
    "polled.example.com",
    "fed.example.com",
    "broken.example.com",
    "beside.example.com",
    "besidedirect.example.com",
)
BESIDE = GROUPS[4:]


class Served:
    """The server with the Apps, in the place of the one without."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.aggregation = aggregation
        self.plane: ControlPlane = aggregation.plane
        self.folder = aggregation.server._log.parent
        self.begin = aggregation.start

    def start(self) -> None:
        apps = ("--app", f"{APPS}:app", "--app", f"{APPS}:broken")
        made = self.aggregation
        made.server = made.beside(self.folder, made.port, "--definitions", str(made.definitions), *apps)

    def wait(self) -> None:
        for group in GROUPS:
            name = f"apiservice/v1.{group}"
            eventually(lambda name=name: self.plane.kubectl("get", name, check=False).returncode == 0, name)
            self.plane.kubectl("wait", "--for=condition=Available", name, KUBECTL_LIMIT)
        eventually(lambda: self.plane.kubectl("get", "tickets.broken.example.com", check=False).returncode == 0, "it is polled")
        wait_until_served(self.plane)

    def behave(self, how: str) -> None:
        (self.folder / BEHAVIOUR).write_text(how)

    def kubectl(self, *arguments: str, **more: Any) -> str:
        return self.plane.kubectl(*arguments, **more).stdout


@pytest.fixture(scope="module")
def served(aggregation: Aggregation) -> Iterator[Served]:
    made = Served(aggregation)
    assert aggregation.server.stop() == 0, aggregation.server.output
    aggregation.start = made.start  # type: ignore[method-assign]
    try:
        made.start()
        made.wait()
        yield made
    finally:
        aggregation.start = made.begin  # type: ignore[method-assign]
        assert aggregation.server.stop() == 0, aggregation.server.output
        for group in GROUPS:
            made.plane.kubectl("delete", "apiservice", f"v1.{group}", "--ignore-not-found")
        aggregation.start()
        wait_until_served(made.plane)


@pytest.fixture(autouse=True)
def in_its_folder(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(served.folder)
    served.behave("")


def manifest(group: str, name: str, title: str, **more: Any) -> str:
    metadata = {"name": name, **more}
    return json.dumps({"apiVersion": f"{group}/v1", "kind": "Ticket", "metadata": metadata, "title": title})


# --- kubectl


@pytest.mark.parametrize("group", [*GROUPS[:3], *BESIDE])
def test_kubectl(served: Served, namespace: str, group: str) -> None:
    kind, here = f"tickets.{group}", ("-n", namespace)
    kubectl = served.kubectl
    for name in ("a", "b", "c"):
        kubectl(*here, "create", "-f", "-", input=manifest(group, name, f"Title {name}"))
    again = served.plane.kubectl(*here, "create", "-f", "-", input=manifest(group, "a", "x"), check=False)
    assert f'{kind} "a" already exists' in again.stderr
    table = [line.split() for line in kubectl(*here, "get", kind).splitlines()]
    assert table == [["NAME", "STATE", "AGE"]] + [[name, "open"] for name in ("a", "b", "c")]
    assert kubectl(*here, "get", kind, "--chunk-size=2", "-o", "name").splitlines() == [f"ticket.{group}/{n}" for n in "abc"]
    kubectl(*here, "patch", kind, "b", "--type=merge", "-p", '{"state": "closed"}')
    assert kubectl(*here, "get", kind, "--field-selector=state=closed", "-o", "name").split() == [f"ticket.{group}/b"]
    assert "A ticket of the help desk." in kubectl("explain", kind)
    got = json.loads(kubectl(*here, "get", kind, "a", "-o", "json"))
    kubectl(*here, "replace", "-f", "-", input=json.dumps({**got, "title": "replaced"}))
    stale = served.plane.kubectl(*here, "replace", "-f", "-", input=json.dumps({**got, "title": "again"}), check=False)
    assert "the object has been modified" in stale.stderr
    kubectl(*here, "apply", "-f", "-", input=manifest(group, "a", "applied"))
    assert json.loads(kubectl(*here, "get", kind, "a", "-o", "json"))["title"] == "applied"
    kubectl(*here, "delete", kind, "a")
    kubectl(*here, "delete", kind, "--all")
    assert json.loads(kubectl(*here, "get", kind, "-o", "json"))["items"] == []


def test_labels_and_apply_of_what_keeps_metadata(served: Served, namespace: str) -> None:
    kind, here = "tickets.polled.example.com", ("-n", namespace)
    apply = (*here, "apply", "--server-side", "-f", "-")
    served.kubectl(*apply, input=manifest("polled.example.com", "a", "one", labels={"x": "1", "y": "1"}))
    served.kubectl(*apply, input=manifest("polled.example.com", "a", "two", labels={"x": "1"}))
    served.kubectl(*here, "label", kind, "a", "z=1")
    found = json.loads(served.kubectl(*here, "get", kind, "a", "-o", "json"))
    assert (found["title"], found["metadata"]["labels"]) == ("two", {"x": "1", "z": "1"})
    assert served.kubectl(*here, "get", kind, "-l", "z=1", "-o", "name").split() == ["ticket.polled.example.com/a"]
    refused = served.plane.kubectl(*here, "create", "-f", "-", input=manifest("direct.example.com", "a", "x"))
    refused = served.plane.kubectl(*here, "label", "tickets.direct.example.com", "a", "z=1", check=False)
    assert "metadata.labels: Forbidden: is not kept by this resource" in refused.stderr
    refused = served.plane.kubectl(*here, "apply", "--server-side", "-f", "-", input=_direct("a"), check=False)
    assert "Server-side apply not available" in refused.stderr


# As kube-apiserver itself has it, which the tickets with a sidecar are compared with.
STORED = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "tickets.storedbeside.example.com"},
    "spec": {
        "group": "storedbeside.example.com",
        "names": {"plural": "tickets", "singular": "ticket", "kind": "Ticket", "listKind": "TicketList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["title"],
                        "properties": {"title": {"type": "string"}, "state": {"type": "string", "default": "open"}},
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize("group", BESIDE)
def test_what_is_kept_beside_a_source_is_as_with_a_stored_resource(served: Served, namespace: str, group: str) -> None:
    """The same commands for both; their outputs, and the objects after them, are the same."""
    plane, stored = served.plane, "storedbeside.example.com"
    plane.kubectl("apply", "-f", "-", input=json.dumps(STORED))
    plane.kubectl("wait", "--for=condition=Established", f"crd/tickets.{stored}", KUBECTL_LIMIT)
    eventually(lambda: plane.kubectl("get", f"tickets.{stored}", check=False).returncode == 0, "it is served")
    found: dict[str, list[Any]] = {group: [], stored: []}

    def on_both(*arguments: str, **more: Any) -> None:
        for each, outputs in found.items():
            given = {name: value(each) if callable(value) else value for name, value in more.items()}
            here = [argument.replace("KIND", f"tickets.{each}") for argument in arguments]
            done = plane.kubectl("-n", namespace, *here, check=False, **given)
            outputs.append(f"{done.returncode} {done.stdout} {done.stderr}".replace(each, "GROUP"))
            outputs.append(_shown(plane, namespace, each))
        assert found[group][-2:] == found[stored][-2:], arguments

    def of(title: str, **more: Any) -> Callable[[str], str]:
        return lambda each: manifest(each, "a", title, **more)

    apply = ("apply", "-f", "-", "--server-side")
    on_both(*apply, input=of("one", labels={"x": "1", "y": "1"}, annotations={"n": "1"}))
    on_both(*apply, input=of("two", labels={"x": "1"}))
    on_both(*apply, "--field-manager=other", input=of("three"))
    on_both(*apply, "--field-manager=other", "--force-conflicts", input=of("three", labels={"x": "2"}))
    on_both("label", "KIND", "a", "z=1")
    on_both("label", "KIND", "a", "z=2")
    on_both("label", "KIND", "a", "z=2", "--overwrite")
    on_both("annotate", "KIND", "a", "m=1", "n-")
    on_both("get", "KIND", "-l", "z=2", "-o", "name")
    on_both("get", "KIND", "-l", "z!=2", "-o", "name")
    on_both("label", "KIND", "--all", "all=1")
    on_both("label", "KIND", "a", "dry=1", "--dry-run=server")
    on_both("patch", "KIND", "a", "--type=merge", "-p", '{"metadata": {"finalizers": ["example.com/hold"]}}')
    on_both("delete", "KIND", "a", "--wait=false")
    on_both("label", "KIND", "a", "late=1")
    on_both("patch", "KIND", "a", "--type=json", "-p", '[{"op": "remove", "path": "/metadata/finalizers"}]')
    on_both("get", "KIND", "a")
    on_both("apply", "-f", "-", input=of("again", labels={"x": "1"}))
    on_both("apply", "-f", "-", input=of("again"))
    on_both("delete", "KIND", "a")
    assert found[group] == found[stored]


def _shown(plane: ControlPlane, namespace: str, group: str) -> Any:
    """The object, without what differs between any two."""
    done = plane.kubectl("-n", namespace, "get", f"tickets.{group}", "a", "-o", "json", "--show-managed-fields", check=False)
    if done.returncode:
        return done.returncode
    obj = json.loads(done.stdout.replace(group, "GROUP"))
    for name in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        obj["metadata"].pop(name, None)
    if "deletionTimestamp" in obj["metadata"]:
        obj["metadata"]["deletionTimestamp"] = "set"
    entries = obj["metadata"].get("managedFields", [])
    entries.sort(key=lambda entry: entry["manager"])  # they are in the order of their times
    for entry in entries:
        entry.pop("time")
    return obj


def test_what_is_kept_stays_over_a_restart(served: Served, namespace: str) -> None:
    for group in BESIDE:
        served.kubectl("-n", namespace, "apply", "--server-side", "-f", "-", input=manifest(group, "a", "x", labels={"x": "1"}))
    with served.aggregation.stopped():
        pass
    served.wait()
    for group in BESIDE:
        name = f"ticket.{group}/a"
        eventually(
            lambda group=group, name=name: (
                served.kubectl("-n", namespace, "get", f"tickets.{group}", "-l", "x=1", "-o", "name").split() == [name]
            ),
            "it is read again",
        )


def _direct(name: str) -> str:
    return manifest("direct.example.com", name, "x")


@pytest.mark.parametrize("group", ["polled.example.com", "fed.example.com"])
def test_kubectl_waits(served: Served, namespace: str, group: str) -> None:
    """For what somebody else writes into the source."""
    kind, table = f"tickets.{group}", Table(group.partition(".")[0])
    ticket = Ticket(Metadata("a", namespace), "one")
    table.create(ticket)

    def is_there() -> bool:
        return served.plane.kubectl("-n", namespace, "get", kind, "a", check=False).returncode == 0

    eventually(is_there, "a poll has seen it: kubectl does not wait for what is not there")
    served.kubectl("-n", namespace, "wait", "--for=jsonpath={.state}=open", kind, "a", KUBECTL_LIMIT)
    table.update(Ticket(Metadata("a", namespace), "one", "closed"), ticket)
    served.kubectl("-n", namespace, "wait", "--for=jsonpath={.state}=closed", kind, "a", KUBECTL_LIMIT)
    table.delete(namespace, "a")
    served.kubectl("-n", namespace, "wait", "--for=delete", kind, "a", KUBECTL_LIMIT)


def test_nobody_watches_what_has_no_feed(served: Served, namespace: str) -> None:
    done = served.plane.kubectl("-n", namespace, "get", "tickets.direct.example.com", "-w", check=False)
    assert "MethodNotAllowed" in done.stderr


# --- informers


def test_informers_over_restarts(served: Served, namespace: str, tmp_path: Path) -> None:
    """What an informer holds is what the source has, and it is told of no deletion that has not happened."""
    tables = {group: Table(group.partition(".")[0]) for group in ("polled.example.com", "fed.example.com")}
    for table in tables.values():
        for name in ("kept", "changed", "gone", "gone-while-down"):
            table.create(Ticket(Metadata(name, namespace), "one"))
    with contextlib.ExitStack() as running:
        informers = {
            (group, watch_list): running.enter_context(
                informing(
                    tmp_path / f"{group}-{watch_list}",
                    served.plane.kubeconfig,
                    f"tickets.v1.{group}",
                    environment={"KUBE_FEATURE_WatchListClient": watch_list},
                )
            )
            for group in tables
            for watch_list in ("true", "false")
        }

        def all_told(did: str, *names: str) -> None:
            for informer in informers.values():
                for name in names:
                    informer.told(did, name)

        all_told("add", "kept", "changed", "gone", "gone-while-down")
        for table in tables.values():
            table.delete(namespace, "gone")
        all_told("delete", "gone")
        with served.aggregation.stopped():
            for table in tables.values():
                table.update(Ticket(Metadata("changed", namespace), "two"), Ticket(Metadata("changed", namespace), "one"))
                table.delete(namespace, "gone-while-down")
                table.create(Ticket(Metadata("made-while-down", namespace), "one"))
        all_told("add", "made-while-down")
        all_told("delete", "gone-while-down")
        all_told("update", "changed")
        for group in tables:
            served.kubectl("-n", namespace, "create", "-f", "-", input=manifest(group, "by-client", "one"))
        all_told("add", "by-client")
        for (group, _), informer in informers.items():
            # Objects of other tests are deleted with their namespaces.
            deleted = [
                line["object"]["metadata"]["name"] for line in informer.lines("delete") if _is_in(line["object"], namespace)
            ]
            held = {(each["metadata"]["name"], each["title"]) for each in informer.end() if _is_in(each, namespace)}
            assert sorted(deleted) == ["gone", "gone-while-down"]
            assert held == {("kept", "one"), ("changed", "two"), ("made-while-down", "one"), ("by-client", "one")}
            found = json.loads(served.kubectl("-n", namespace, "get", f"tickets.{group}", "-o", "json"))["items"]
            assert {(each["metadata"]["name"], each["title"]) for each in found} == held


def _is_in(obj: dict[str, Any], namespace: str) -> bool:
    return bool(obj["metadata"]["namespace"] == namespace)


# --- the cluster's controllers beside a source that is broken


@pytest.mark.parametrize("how", ["hangs", "fails", "answers half"])
def test_controllers_beside_a_broken_source(served: Served, namespace: str, how: str) -> None:
    """Another namespace is deleted, quotas are counted, and nothing that an object of the source owns is collected."""
    plane = served.plane
    served.behave("")
    owner = eventually(lambda: _find(served, "b"), "the source is well")
    served.behave(how)

    def warns() -> bool:
        return "has failed for" in plane.kubectl("get", "tickets.broken.example.com", "-n", "default").stderr

    eventually(warns, "clients are warned")
    reference = {"apiVersion": "broken.example.com/v1", "kind": "Ticket", "name": "b", "uid": owner["metadata"]["uid"]}
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nothing", "uid": "5d9f1a53-0000-4f0e-9a0f-6f1f4b6f1c55"}
    dependents = f"dependent-{how.replace(' ', '-')}", f"lost-{how.replace(' ', '-')}"
    for name, owned_by in zip(dependents, (reference, lost), strict=True):
        metadata = {"name": name, "namespace": "default", "ownerReferences": [owned_by]}
        configmap = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        plane.kubectl("create", "-f", "-", input=json.dumps(configmap))
    # The garbage collector is at work.
    plane.kubectl("wait", "--for=delete", f"configmap/{dependents[1]}", "-n", "default", KUBECTL_LIMIT)

    plane.kubectl("create", "quota", "q", "-n", namespace, "--hard=count/configmaps=7")

    def counted() -> bool:
        used = plane.get("resourcequota", "q", "-n", namespace).get("status", {}).get("used")
        return bool(used == {"count/configmaps": "1"})  # the CA's, which a controller makes

    eventually(counted, "it is counted")

    plane.kubectl("delete", "namespace", namespace, "--wait=false")
    plane.kubectl("wait", "--for=delete", f"namespace/{namespace}", KUBECTL_LIMIT)

    assert plane.get("configmap", dependents[0], "-n", "default")["metadata"]["ownerReferences"] == [reference]
    assert _find(served, "a")
    assert _find(served, "c")
    plane.kubectl("delete", "configmap", dependents[0], "-n", "default")


def _find(served: Served, name: str) -> Any:
    done = served.plane.kubectl("get", "tickets.broken.example.com", name, "-n", "default", "-o", "json", check=False)
    return None if done.returncode else json.loads(done.stdout)


def test_a_source_that_hangs_does_not_keep_the_server(served: Served) -> None:
    served.behave("hangs")
    eventually(lambda: "did not end in time" in served.aggregation.log, "the call is given up")
    with served.aggregation.stopped():  # which says that it ends with 0
        served.behave("")
    served.wait()
    assert (served.folder / DATABASE).exists()
