"""Conversion rules by kubectl: the manifest of docs/conversion.md in `aggserver dev`, and that kube-apiserver takes it, too."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from aggserver.apiextensions.conversion_annotation import ANNOTATION
from tests.controlplane.cluster import Cluster, Kubectl
from tests.test_conversion_page import FILES
from tests.waiting import KUBECTL_LIMIT

CRD = yaml.safe_load(FILES["crd.yaml"])
NAME = CRD["metadata"]["name"]


def test_the_page_by_kubectl(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", input=FILES["crd.yaml"])
    kubectl("wait", "--for=condition=Established", f"crd/{NAME}", KUBECTL_LIMIT)
    kubectl("apply", "-f", "-", input=FILES["crontab.yaml"])
    made = json.loads(kubectl("get", "crontabs.v1.example.com", "local-crontab", "-o", "json").stdout)
    assert (made["host"], made["port"], "hostPort" in made) == ("localhost", "1234", False)
    new = {"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "local-crontab"}, "host": "other", "port": "1"}
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(new))
    made = json.loads(kubectl("get", "crontabs.v1beta1.example.com", "local-crontab", "-o", "json").stdout)
    assert made["hostPort"] == "other:1"

    lossy = yaml.safe_load(FILES["crd.yaml"])
    lossy["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["note"] = {"type": "string"}
    said = kubectl("apply", "-f", "-", input=json.dumps(lossy)).stderr
    assert f"Warning: {ANNOTATION}: v1 to v1beta1 and back: .note is lost" in said


@pytest.fixture
def defined(control_plane: Cluster) -> Iterator[str]:
    """The definition in the cluster, under another group, since others may have the same name."""
    crd = json.loads(json.dumps(CRD).replace("example.com", "conversion-rules.example.com"))
    control_plane.kubectl("create", "-f", "-", input=json.dumps(crd))
    yield str(crd["metadata"]["name"])
    control_plane.kubectl("delete", "crd", crd["metadata"]["name"], "--wait=false")


def test_kube_apiserver_takes_the_manifest(control_plane: Cluster, defined: str) -> None:
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/{defined}", KUBECTL_LIMIT)
    kept = json.loads(control_plane.kubectl("get", "crd", defined, "-o", "json").stdout)
    assert kept["metadata"]["annotations"][ANNOTATION] == CRD["metadata"]["annotations"][ANNOTATION]
    assert kept["spec"]["conversion"]["strategy"] == "None"
