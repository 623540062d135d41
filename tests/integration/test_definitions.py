"""The life of definitions in `aggserver dev`, by kubectl: a storage migration as the Kubernetes page has it, ends, protection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aggserver.apiextensions.protection import ANNOTATION
from tests.controlplane.cluster import Cluster, Kubectl
from tests.integration.server import Standalone, eventually, running
from tests.waiting import KUBECTL_LIMIT

NAME = "crontabs.example.com"


def crd(storage: str = "v1beta1", *versions: str, plural: str = "crontabs", **names: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "string"}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "versions": [
                {"name": version, "served": True, "storage": version == storage, "schema": schema}
                for version in versions or ("v1beta1", "v1")
            ],
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural.title()[:-1], **names},
        },
    }


def crontab(name: str, version: str = "v1", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Crontab",
        "metadata": {"name": name, **metadata},
        "host": "localhost",
    }


def put(kubectl: Kubectl, verb: str, obj: dict[str, Any]) -> None:
    kubectl(verb, "-f", "-", input=json.dumps(obj))


def define(kubectl: Kubectl, definition: dict[str, Any]) -> None:
    put(kubectl, "create", definition)
    kubectl("wait", "--for=condition=Established", f"crd/{definition['metadata']['name']}", KUBECTL_LIMIT)


def get(kubectl: Kubectl, *what: str) -> Any:
    return json.loads(kubectl("get", *what, "-o", "json").stdout)


def conditions(kubectl: Kubectl, name: str = NAME) -> dict[str, tuple[str, str]]:
    status = get(kubectl, "crd", name)["status"]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def refused(kubectl: Kubectl, *arguments: str, **more: Any) -> str:
    done = kubectl(*arguments, check=False, **more)
    assert done.returncode
    return done.stderr


def test_storage_migration(kubectl: Kubectl) -> None:
    """The server does what the page has people do by hand."""
    define(kubectl, crd())
    for name in ("one", "two"):
        put(kubectl, "create", crontab(name, "v1beta1"))
    before = get(kubectl, "crontab", "one")
    put(kubectl, "replace", crd("v1"))
    eventually(lambda: get(kubectl, "crd", NAME)["status"]["storedVersions"] == ["v1"], "the stored versions are trimmed")
    assert conditions(kubectl)["StorageMigrating"] == ("False", "MigrationSucceeded")
    after = get(kubectl, "crontab", "one")
    assert after["metadata"].pop("resourceVersion") != before["metadata"].pop("resourceVersion")
    assert after == before
    kubectl("patch", "crd", NAME, "--type=merge", "-p", json.dumps({"spec": crd("v1", "v1")["spec"]}))
    assert get(kubectl, "crontab", "two")["apiVersion"] == "example.com/v1"


def test_storage_migration_by_hand(control_plane: Cluster, tmp_path: Path) -> None:
    with running(server := Standalone(tmp_path / "data", "--migrate-storage=false")):
        _migrate_by_hand(lambda *arguments, **more: control_plane.kubectl(*arguments, user=server.kubeconfig, **more))


def _migrate_by_hand(kubectl: Kubectl) -> None:
    define(kubectl, crd())
    put(kubectl, "create", crontab("old", "v1beta1"))
    put(kubectl, "replace", crd("v1"))
    assert get(kubectl, "crd", NAME)["status"]["storedVersions"] == ["v1beta1", "v1"]

    only = json.dumps({"spec": crd("v1", "v1")["spec"]})
    why = refused(kubectl, "patch", "crd", NAME, "--type=merge", "-p", only)
    assert 'status.storedVersions[0]: Invalid value: "v1beta1": missing from spec.versions; v1beta1 was previously a' in why

    put(kubectl, "replace", get(kubectl, "crontab", "old"))
    # As the page prints it.
    patch = ("--subresource=status", "--type=merge", "-p", '{"status":{"storedVersions":["v1"]}}')
    kubectl("patch", "customresourcedefinitions", NAME, *patch)
    assert get(kubectl, "crd", NAME)["status"]["storedVersions"] == ["v1"]
    kubectl("patch", "crd", NAME, "--type=merge", "-p", only)
    assert get(kubectl, "crontab", "old")["apiVersion"] == "example.com/v1"


def test_the_end_waits_for_finalizers(kubectl: Kubectl) -> None:
    define(kubectl, crd("v1", "v1"))
    put(kubectl, "create", crontab("held", finalizers=["example.com/hold"]))
    put(kubectl, "create", crontab("free"))
    kubectl("delete", "crd", NAME, "--wait=false")
    eventually(lambda: [each["metadata"]["name"] for each in get(kubectl, "crontabs")["items"]] == ["held"], "only one is left")
    assert conditions(kubectl)["Terminating"] == ("True", "InstanceDeletionInProgress")
    why = refused(kubectl, "create", "-f", "-", input=json.dumps(crontab("new")))
    assert "create not allowed while custom resource definition is terminating" in why

    kubectl("patch", "crontab", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("wait", "--for=delete", f"crd/{NAME}", KUBECTL_LIMIT)
    define(kubectl, crd("v1", "v1"))
    assert get(kubectl, "crontabs")["items"] == []


def test_freed_names_are_given_on(kubectl: Kubectl) -> None:
    define(kubectl, crd("v1", "v1", shortNames=["ct"]))
    put(kubectl, "create", crd("v1", "v1", plural="others", shortNames=["ct"]))
    other = "others.example.com"
    eventually(lambda: conditions(kubectl, other).get("NamesAccepted") == ("False", "ShortNamesConflict"), "the name is taken")
    assert conditions(kubectl, other)["Established"] == ("False", "NotAccepted")
    kubectl("delete", "crd", NAME)
    kubectl("wait", "--for=condition=Established", f"crd/{other}", KUBECTL_LIMIT)
    assert conditions(kubectl, other)["NamesAccepted"] == ("True", "NoConflicts")


def test_protection(kubectl: Kubectl) -> None:
    definition = crd("v1", "v1")
    definition["metadata"]["annotations"] = {ANNOTATION: "true"}
    define(kubectl, definition)
    put(kubectl, "create", crontab("precious"))
    why = refused(kubectl, "delete", "crd", NAME)
    assert (
        f'"{NAME}" is forbidden: 1 object would be deleted with it: delete them first, or set its annotation {ANNOTATION}' in why
    )
    kubectl("delete", "crontabs", "--all")
    kubectl("delete", "crd", NAME)


def test_discovery_follows(kubectl: Kubectl) -> None:
    define(kubectl, crd("v1", "v1", shortNames=["ct"], categories=["mine"]))
    assert "crontabs" in kubectl("get", "--raw", "/apis/example.com/v1").stdout
    assert '"Crontab"' in kubectl("get", "--raw", "/openapi/v3/apis/example.com/v1").stdout
    kubectl("delete", "crd", NAME)
    assert "example.com" not in kubectl("get", "--raw", "/apis").stdout
    assert "example.com/v1" not in kubectl("get", "--raw", "/openapi/v3").stdout
