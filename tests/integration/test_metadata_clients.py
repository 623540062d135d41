"""client-go's client of metadata alone, which asks for protobuf first: the garbage collector of a cluster is one."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain_program
from tests.controlplane.cluster import Kubectl
from tests.integration.server import Standalone, eventually
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

_REPOSITORY = Path(__file__).parents[2]
_EXAMPLE = _REPOSITORY / "manifests/examples/crontab.yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


class Informer:
    """What the informer of one resource has written down so far, and at the end what it holds."""

    def __init__(self, process: subprocess.Popen[str], said: Path) -> None:
        self._process = process
        self._said = said

    def lines(self, did: str) -> list[Any]:
        lines = [json.loads(line) for line in self._said.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line for line in lines if line["did"] == did]

    def told(self, did: str, name: str) -> Any:
        """The metadata of the last such event of an object, waited for."""
        return eventually(
            lambda: next(
                (line["object"]["metadata"] for line in self.lines(did)[::-1] if line["object"]["metadata"]["name"] == name), None
            ),
            f"{did} of {name}",
        )

    def end(self) -> list[Any]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(HANG_SECONDS) == 0
        return list(self.lines("end")[0].get("items", []))


@pytest.fixture(params=["true", "false"], ids=["watch-list", "list-and-watch"])
def informer(request: pytest.FixtureRequest, standalone: Standalone, kubectl: Kubectl, tmp_path: Path) -> Iterator[Informer]:
    kubectl("apply", "-f", str(_EXAMPLE))
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)
    program, said = obtain_program("informer", os.environ, print), tmp_path / "said"
    with said.open("w") as output:
        process = subprocess.Popen(
            [program, "-metadata", str(standalone.kubeconfig), "crontabs.v1.stable.example.com"],
            stdin=subprocess.PIPE,
            stdout=output,
            text=True,
            env=os.environ | {"KUBE_FEATURE_WatchListClient": request.param},
        )
    try:
        yield Informer(process, said)
    finally:
        process.kill()
        process.wait()


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
