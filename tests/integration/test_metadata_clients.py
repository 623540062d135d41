"""client-go's client of metadata alone, which asks for protobuf first: the garbage collector of a cluster is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Kubectl
from tests.integration.informer_program import Informer, informing
from tests.integration.server import Standalone, eventually
from tests.waiting import KUBECTL_LIMIT

_REPOSITORY = Path(__file__).parents[2]
_EXAMPLE = _REPOSITORY / "manifests/examples/crontab.yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(params=["true", "false"], ids=["watch-list", "list-and-watch"])
def informer(request: pytest.FixtureRequest, standalone: Standalone, kubectl: Kubectl, tmp_path: Path) -> Iterator[Informer]:
    kubectl("apply", "-f", str(_EXAMPLE))
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)
    environment = {"KUBE_FEATURE_WatchListClient": request.param}
    resource = "crontabs.v1.stable.example.com"
    with informing(tmp_path / "said", standalone.kubeconfig, resource, "-metadata", environment=environment) as made:
        yield made


def test_an_informer_of_metadata_reads_protobuf(informer: Informer, kubectl: Kubectl) -> None:
    crontab = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "spec": {"cronSpec": "* * * * */5", "image": "i"}}
    # One that exists, or the garbage collector would delete its dependents.
    uid = kubectl("get", "namespace", "default", "-o", "jsonpath={.metadata.uid}").stdout
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid, "controller": True}
    metadata = {"labels": {"a": "b"}, "annotations": {"empty": ""}, "finalizers": ["example.com/f"], "ownerReferences": [owner]}
    for name in ("one", "two"):
        kubectl("create", "-f", "-", input=json.dumps({**crontab, "metadata": {"name": name, **metadata}}))
    added = informer.told("add", "one")
    stored = json.loads(kubectl("get", "crontab", "one", "-o", "json", "--show-managed-fields").stdout)["metadata"]
    assert added == stored
    kubectl("label", "crontab", "one", "a=c", "--overwrite")
    assert eventually(lambda: informer.told("update", "one")["labels"] == {"a": "c"}, "the label")
    kubectl("patch", "crontab", "two", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    kubectl("delete", "crontab", "two")
    assert informer.told("delete", "two")["labels"] == {"a": "b"}
    assert [item["metadata"]["name"] for item in informer.end()] == ["one"]
    assert {line["form"] for line in informer.lines("answer")} <= {PROTOBUF, f"{PROTOBUF};stream=watch"}
    kubectl("patch", "crontab", "one", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
