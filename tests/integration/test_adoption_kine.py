"""Adoption from a cluster whose objects are in kine, as those of k3s: through the API, to a store in another kine and back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.adopting import Adopting, adopt
from tests.integration.server import Aggregated, running
from tests.kine.program import Kine, build
from tests.waiting import KUBECTL_LIMIT

GROUP = "kine.adoption.example.com"
NAME = f"parts.{GROUP}"
PARTS = 30


class Cluster(NamedTuple):
    plane: ControlPlane
    kine: Kine
    ours: Kine
    adopting: Adopting


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    program = build(os.environ, print)
    with ExitStack() as stack:
        kine, ours = (stack.enter_context(Kine(program, tmp_path_factory.mktemp(name))) for name in ("cluster", "ours"))
        plane = ControlPlane(obtain(os.environ, print))
        plane.etcd_ways[0] = kine.url
        stack.enter_context(plane)
        yield Cluster(plane, kine, ours, Adopting(plane, tmp_path_factory.mktemp("adopting"), GROUP))


def _definition() -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "parts", "singular": "part", "kind": "Part"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def _part(name: str, size: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Part", "metadata": metadata, "spec": {"size": size}}


def _documents(objects: list[dict[str, Any]]) -> str:
    return "\n---\n".join(map(json.dumps, objects))


def _parts(plane: ControlPlane) -> dict[str, Any]:
    """By name, without the resourceVersion: that is new after a move."""
    found = plane.get(NAME, "-n", "default", "--show-managed-fields")["items"]
    for each in found:
        del each["metadata"]["resourceVersion"]
    return {each["metadata"]["name"]: each for each in found}


def test_objects_go_to_our_kine_and_back(cluster: Cluster) -> None:
    plane, adopting = cluster.plane, cluster.adopting
    plane.kubectl("apply", "-f", "-", input=json.dumps(_definition()))
    plane.kubectl("wait", "--for=condition=Established", f"crd/{NAME}", KUBECTL_LIMIT)
    plane.kubectl("apply", "-f", "-", input=_documents([_part(f"p{number:02}", number) for number in range(PARTS)]))
    before = _parts(plane)
    store = ["--storage", "etcd", "--etcd-servers", cluster.ours.url]
    with running(adopting.start(*store)):
        assert "one server at a time can use it" in adopting.log
        adopting.adopt(NAME)
        assert _parts(plane) == before
        plane.kubectl("apply", "-f", "-", input=_documents([_part("p00", 100), _part("new", 1)]))
        plane.kubectl("delete", NAME, "p01")
        changed = _parts(plane)
    with running(adopting.start(*store)):  # the hold on the store was given back
        assert _parts(plane) == changed
        adopt(plane, "release", NAME, "--through-api")
        assert adopting.phase(NAME) == "Waiting"  # for the annotation of the release to be removed
        back = _parts(plane)
    assert {name: each["spec"] for name, each in back.items()} == {name: each["spec"] for name, each in changed.items()}
    kept = [name for name in back if name != "new"]
    assert [back[name]["metadata"]["uid"] for name in kept] == [before[name]["metadata"]["uid"] for name in kept]


def test_the_clusters_kine_is_refused_at_the_start(cluster: Cluster, tmp_path: Path) -> None:
    arguments = ["--adopt=any=true", "--service-name=aggserver", "--service-namespace=default"]
    with pytest.raises(AssertionError, match="aggserver ended with 1") as ended:
        Aggregated(
            tmp_path, cluster.adopting.kubeconfig, cluster.adopting.port, *arguments, f"--host-etcd-servers={cluster.kine.url}"
        )
    assert re.search(r"--host-etcd-servers: http.* is kine, and not etcd\. .*leave the option out", str(ended.value))
