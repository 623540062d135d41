"""The same request, the same answer: Kubernetes' sample-apiserver and the same API in Python, each behind the aggregator.

The latter is manifests/examples/python/wardle.py. Both serve the same group, so the requests go to one after the other: to
sample-apiserver as it is published, then to aggserver.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.beside import api_service, service
from tests.integration.cases_wardle import BANNED, CASES, DIFFERENT, GROUP, NAMESPACE
from tests.integration.comparison import Seen, play
from tests.integration.raw import Client
from tests.integration.server import Aggregated, eventually
from tests.sample_apiserver.program import SampleApiserver
from tests.waiting import KUBECTL_LIMIT

EXAMPLE = Path(__file__).parents[2] / "manifests" / "examples" / "python" / "wardle.py"
VERSIONS = ("v1alpha1", "v1beta1")
MOST_LINES = 60

Answers = dict[str, list[Seen]]


@pytest.fixture(scope="module")
def answers(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Answers, Answers]]:
    plane = own_control_plane
    folder = tmp_path_factory.mktemp("wardle")
    port = free_ports(1)[0]
    plane.kubectl("create", "-f", "-", input="\n---\n".join(json.dumps(each) for each in _objects(port)))
    try:
        lead = service("wardle", NAMESPACE, port)
        priorities = {version: 100 if version == "v1alpha1" else 200 for version in VERSIONS}
        services = [json.dumps(api_service(version, GROUP, lead, 2000, priority)) for version, priority in priorities.items()]
        plane.kubectl("create", "-f", "-", input="\n---\n".join(services))
        sample = SampleApiserver(plane, folder, port)
        try:
            upstream = _played(plane)
        finally:
            sample.stop()
        plane.kubectl("delete", "apiservices", *(f"{version}.{GROUP}" for version in VERSIONS))
        yield upstream, _ours(plane, folder, port)
    finally:
        plane.kubectl("delete", "apiservices", *(f"{version}.{GROUP}" for version in VERSIONS), "--ignore-not-found")
        plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _ours(plane: ControlPlane, folder: Path, port: int) -> Answers:
    server_folder = folder / "aggserver"
    server_folder.mkdir()
    shutil.copy(EXAMPLE, server_folder)
    service = ["--service-name", "wardle", "--service-namespace", NAMESPACE, "--service-port", str(port)]
    server = Aggregated(server_folder, plane.kubeconfig, port, "--app", "wardle:app", *service)
    try:
        found = _played(plane)
    except BaseException:
        server.kill()
        raise
    assert server.stop() == 0, server.output
    return found


def _played(plane: ControlPlane) -> Answers:
    """The answers to all cases, when both versions are served."""
    for version in VERSIONS:
        eventually(
            lambda version=version: not plane.kubectl("get", f"apiservice/{version}.{GROUP}", check=False).returncode,  # type: ignore[misc]
            f"the APIService of {version}",
        )
        plane.kubectl("wait", "--for=condition=Available", f"apiservice/{version}.{GROUP}", KUBECTL_LIMIT)
        path = f"/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/flunders"
        eventually(lambda path=path: not plane.kubectl("get", "--raw", path, check=False).returncode, path)  # type: ignore[misc]
    fischer = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Fischer", "metadata": {"name": "before"}, "disallowedFlunders": BANNED}
    flunder = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "Flunder", "metadata": {"name": BANNED[0], "namespace": NAMESPACE}}
    plane.kubectl("create", "-f", "-", input=json.dumps(fischer))
    trial = ("create", "-f", "-", "--dry-run=server")
    eventually(lambda: plane.kubectl(*trial, input=json.dumps(flunder), check=False).returncode, "the name is banned")
    with Client(plane.kubeconfig) as client, Client(plane.kubeconfig, certificate=False) as stranger:
        return {name: play(case, name, client, stranger) for name, case in CASES.items()}


def _objects(port: int) -> Iterator[dict[str, Any]]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    yield service("wardle", NAMESPACE, port)


@pytest.mark.parametrize("name", CASES)
def test_both_say_the_same(answers: tuple[Answers, Answers], name: str) -> None:
    upstream, ours = ([_alike(seen) for seen in each[name]] for each in answers)
    if name in DIFFERENT:
        assert ours != upstream, f"no longer differs, though listed because {DIFFERENT[name]!r}"
    else:
        assert ours == upstream


def _alike(seen: Seen) -> Seen:
    """Without what differs in all answers, since sample-apiserver's objects are of Go types, and ours custom resources.

    Go's encoder leaves out what is empty, also in managedFields of updates, and kind and apiVersion of the items of a list. No
    generation is counted there. The version of a stored type can't be called deprecated here, as v1alpha1 of Fischers is there.
    """
    headers = dict(seen.headers)
    warnings = [text for text in headers.pop("warning", []) if "Fischer is deprecated" not in text]
    return replace(seen, headers=headers | ({"warning": warnings} if warnings else {}), body=_without(seen.body))


def _without(value: Any) -> Any:
    if isinstance(value, list):
        return [_without(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _without(member) for name, member in value.items()}
    if isinstance(found.get("items"), list):
        found["items"] = [{name: each[name] for name in each if name not in ("kind", "apiVersion")} for each in found["items"]]
        if not found["metadata"].get("continue"):
            found["metadata"].pop("continue", None)
    if "creationTimestamp" in found:
        found.pop("generation", None)
        owners = [each for each in found.pop("managedFields", []) if each["operation"] == "Apply"]
        found |= {"managedFields": owners} if owners else {}
    return found


def test_the_program_is_short() -> None:
    text = EXAMPLE.read_text().split('"""', 2)[2]
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(lines) <= MOST_LINES
