"""A conversion webhook that is down harms only who needs it: the real controllers and kubectl, standalone and aggregated.

At kube-apiserver such a webhook stops garbage collection, the deletion of namespaces, and every read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.raw import Client
from tests.integration.server import Standalone
from tests.integration.versions import FilePlace, Place, Webhook, crontab, example
from tests.waiting import KUBECTL_LIMIT

CONVERTED = example("my-versioned-crontab-with-conversion")
STORED, OTHER = "v1beta1", "v1"
MERGE_PATCH = "application/merge-patch+json"
ONLY_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.fixture(params=["standalone", pytest.param("aggregated", marks=pytest.mark.long)])
def place(request: pytest.FixtureRequest, control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Place]:
    if request.param == "aggregated":
        made: Place = FilePlace(request.getfixturevalue("aggregation"), namespace, tmp_path)
    else:
        standalone: Standalone = request.getfixturevalue("standalone")
        made = Place(control_plane, namespace, tmp_path, standalone.kubeconfig)
        made.kubectl("create", "namespace", namespace)
    yield made
    made.remove()


@pytest.fixture
def webhook(place: Place, tmp_path: Path) -> Iterator[Webhook]:
    """Running; the definition names it."""
    made = Webhook(tmp_path)
    try:
        place.define({**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": made.conversion()}})
        yield made
    finally:
        made.stop()


def make(place: Place, webhook: Webhook, *names: str, **metadata: Any) -> None:
    """Objects of both versions in turn, all stored in one; then the webhook is down."""
    for index, name in enumerate(names):
        fields = {"host": "localhost", "port": "1234"} if index % 2 else {"hostPort": "localhost:1234"}
        place.create(crontab(place.group, (STORED, OTHER)[index % 2], name, metadata=metadata, **fields))
    webhook.stop()


def resource(place: Place, version: str) -> str:
    return f"crontabs.{version}.{place.group}"


def refusal(place: Place, webhook: Webhook) -> str:
    """What kube-apiserver says when nothing listens."""
    failed = f"conversion webhook for {place.group}/{STORED}, Kind=CronTab failed: "
    return f'{failed}Post "{webhook.url}?timeout=30s": dial tcp '


def test_reads(place: Place, webhook: Webhook) -> None:
    make(place, webhook, "one", "two")
    assert place.get(resource(place, STORED), "one")["hostPort"] == "localhost:1234"
    assert [item["hostPort"] for item in place.get(resource(place, STORED))["items"]] == ["localhost:1234"] * 2
    for arguments in (["one"], []):
        why = place.refused("get", resource(place, OTHER), *arguments, "-o", "json")
        assert refusal(place, webhook) in why
        assert f"connect: connection refused (converting {place.namespace}/" in why


def test_writes(place: Place, webhook: Webhook) -> None:
    make(place, webhook, "one")
    new = crontab(place.group, OTHER, "new", host="a", port="1")
    assert "conversion webhook for " in place.refused("create", "-f", "-", input=json.dumps(new))
    place.kubectl("patch", resource(place, STORED), "one", "--type=merge", "-p", '{"hostPort":"b:2"}')
    patch = ("--type=merge", "-p", '{"host":"c"}')
    assert refusal(place, webhook) in place.refused("patch", resource(place, OTHER), "one", *patch)
    [left] = place.get(resource(place, STORED))["items"]
    assert (left["metadata"]["name"], left["hostPort"]) == ("one", "b:2")  # nothing of what failed was stored
    webhook.start()
    assert place.get(resource(place, OTHER), "one")["host"] == "b"


@pytest.mark.parametrize("version", [STORED, OTHER])
def test_kubectl_delete(place: Place, webhook: Webhook, version: str) -> None:
    """kubectl waits until they are gone. The last is deleted with all that are left, without the list that --all begins with."""
    make(place, webhook, "one", "two", "three")
    deleted = place.kubectl("delete", resource(place, version), "one", "two").stdout.splitlines()
    assert [line.split()[1:3] for line in deleted] == [['"one"', "deleted"], ['"two"', "deleted"]]
    place.kubectl("delete", "--raw", place.path(version))
    assert place.get(resource(place, STORED))["items"] == []


def test_a_finalizer_is_removed_by_a_patch_of_metadata(place: Place, webhook: Webhook) -> None:
    """As the garbage collector and operators with a client of metadata do, in the version that discovery prefers."""
    make(place, webhook, "held", finalizers=["example.com/hold"])
    place.kubectl("delete", resource(place, OTHER), "held", "--wait=false")
    assert place.get(resource(place, STORED), "held")["metadata"]["deletionTimestamp"]
    headers = {"content-type": MERGE_PATCH, "accept": ONLY_METADATA}
    with Client(place.kubeconfig) as client:
        patched = client.request("PATCH", f"{place.path(OTHER)}/held", headers, b'{"metadata":{"finalizers":null}}')
    assert patched.status == 200, patched.body
    assert json.loads(patched.body)["kind"] == "PartialObjectMetadata"
    assert place.get(resource(place, STORED))["items"] == []


def test_a_finalizer_is_removed_by_kubectl_in_the_stored_version(place: Place, webhook: Webhook) -> None:
    make(place, webhook, "held", finalizers=["example.com/hold"])
    place.kubectl("delete", resource(place, STORED), "held", "--wait=false")
    place.kubectl("patch", resource(place, STORED), "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    assert place.get(resource(place, STORED))["items"] == []


def test_the_definition_can_be_deleted(place: Place, webhook: Webhook) -> None:
    make(place, webhook, "one", "two")
    place.remove()
    webhook.start()
    place.define({**CONVERTED, "spec": {**CONVERTED["spec"], "conversion": webhook.conversion()}})
    assert place.get(resource(place, OTHER))["items"] == []


# --- controllers, which know only the version that discovery prefers: it is not the one that is stored

only_in_a_cluster = pytest.mark.parametrize("place", ["aggregated"], indirect=True)


@only_in_a_cluster
def test_a_namespace_is_deleted(place: Place, webhook: Webhook) -> None:
    make(place, webhook, "one", "two")
    place.kubectl("delete", "namespace", place.namespace, KUBECTL_LIMIT)
    assert place.get(resource(place, STORED), "-A")["items"] == []


@only_in_a_cluster
def test_objects_go_with_their_owner(place: Place, webhook: Webhook) -> None:
    place.kubectl("create", "configmap", "owner")
    owner = place.get("configmap", "owner")
    make(place, webhook, "one", "two", ownerReferences=[reference_to(owner)])
    place.kubectl("delete", "configmap", "owner")
    for name in ("one", "two"):
        gone = ("--for=delete", f"{resource(place, STORED)}/{name}", KUBECTL_LIMIT)
        place.kubectl("wait", *gone)


@pytest.mark.long
@only_in_a_cluster
@pytest.mark.parametrize("cascade", ["foreground", "orphan"])
def test_what_an_object_owns(place: Place, webhook: Webhook, cascade: str) -> None:
    """Both put a finalizer on the owner, which the garbage collector removes by a patch of its metadata."""
    place.create(crontab(place.group, STORED, "owner", hostPort="a:1"))
    references = [{**reference_to(place.get(resource(place, OTHER), "owner")), "blockOwnerDeletion": True}]
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owned", "ownerReferences": references}}
    place.create(owned)
    webhook.stop()
    place.kubectl("delete", resource(place, OTHER), "owner", f"--cascade={cascade}", "--wait=false")
    gone = ("--for=delete", f"{resource(place, STORED)}/owner", KUBECTL_LIMIT)
    place.kubectl("wait", *gone)
    left = place.kubectl("get", "configmap", "owned", "-o", "jsonpath={.metadata.ownerReferences}", check=False)
    assert (left.returncode, left.stdout) == ((0, "") if cascade == "orphan" else (1, ""))


def reference_to(owner: dict[str, Any]) -> dict[str, Any]:
    metadata = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
