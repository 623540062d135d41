"""The same request for a built-in kind, the same answer: kube-apiserver and aggserver side by side.

As `test_same_answers.py`, but without definitions. What controllers decide in their own time is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from aggserver.kinds.catalog import KINDS
from aggserver.scheme.openapi import model_name
from tests.controlplane.cluster import Cluster
from tests.integration import (
    cases_kind_admission,
    cases_kind_changes,
    cases_kind_limits,
    cases_kind_networks,
    cases_kind_parts,
    cases_kind_protobuf,
    cases_kind_rules,
    cases_kind_strict,
    cases_kind_updates,
    cases_kinds,
    cases_signing_requests,
)
from tests.integration.comparison import Cases, ask, without_order
from tests.integration.kinds import NAMESPACE, minimal, on, url
from tests.integration.server import eventually
from tests.integration.sides import Side, both, played

_MODULES = (
    cases_kinds,
    cases_kind_admission,
    cases_kind_changes,
    cases_kind_limits,
    cases_kind_parts,
    cases_kind_protobuf,
    cases_kind_networks,
    cases_kind_rules,
    cases_kind_strict,
    cases_kind_updates,
    cases_signing_requests,
)
CASES: Cases = {name: case for module in _MODULES for name, case in module.CASES.items()}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("kinds"), (), (NAMESPACE,)) as pair:
        yield pair


# How often a case is played at most. kube-apiserver's admission plugins look up nodes, classes and accounts in caches, which may
# lack what was made a moment ago.
_TURNS = 3


@pytest.mark.parametrize("name", CASES)
def test_same_answer(sides: tuple[Side, Side], name: str) -> None:
    for turn in range(_TURNS if name in cases_kind_admission.CASES else 1):
        upstream, ours = (
            list(map(without_order, seen)) for seen in played(sides, f"{name}-{turn}" if turn else name, CASES[name])
        )
        if ours == upstream:
            return
    assert ours == upstream


def test_same_discovery(sides: tuple[Side, Side]) -> None:
    """Of each kind in the catalog: what kube-apiserver says of it, but for the subresources that need a kubelet."""
    upstream, ours = (_discovered(side) for side in sides)
    missing = upstream.keys() - ours.keys()
    assert {name.partition("/")[2] for _, name in missing} <= {"attach", "exec", "log", "portforward", "proxy"}
    assert ours == {name: upstream[name] for name in upstream if name not in missing}


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NETWORKING = "/apis/networking.k8s.io"


def test_built_in_groups_stay_as_they_are(sides: tuple[Side, Side]) -> None:
    """A definition there is established, but takes nobody's place, and deleting it deletes no objects of a built-in kind."""
    upstream, ours = (_of_built_in_groups(side) for side in sides)
    assert ours == upstream


def _of_built_in_groups(side: Side) -> list[Any]:
    policy = url("networking.k8s.io/networkpolicies", "kept")
    made = minimal("networking.k8s.io/networkpolicies", {"name": "kept"})
    answers: list[Any] = side.play("kept", [on("POST", "networking.k8s.io/networkpolicies", made, compared=False)])
    definitions = [_definition(*each) for each in (("networkpolicies", "NetworkPolicy"), ("foos", "Foo"))]
    paths = [f"{_DEFINITIONS}/{each['metadata']['name']}" for each in definitions]
    for each in definitions:
        answers += side.play("kept", [ask("POST", _DEFINITIONS, each, compared=False)])
    for path in paths:
        eventually(partial(_is_established, side, path), "a definition that is established")
        status = _read(side, path)["status"]
        # Whether the group is approved is told by another controller, in its own time.
        told = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
        answers.append([told["NamesAccepted"], told["Established"]])
    asked = [f"{_NETWORKING}/{path}" for path in ("v1/foos", "v9/foos", "v9/networkpolicies", "v9/namespaces/default/foos/x")]
    answers += side.play("kept", [ask("GET", path) for path in (*asked, policy)])
    names = {each["name"] for each in _read(side, f"{_NETWORKING}/v1")["resources"]}
    answers.append(names & {"foos", "networkpolicies", "networkpolicies/status"})
    foo = {"apiVersion": "networking.k8s.io/v1", "kind": "Foo", "metadata": {"name": "x"}}
    answers += side.play("kept", [ask("POST", f"{_NETWORKING}/v1/namespaces/{NAMESPACE}/foos", foo)])
    answers += side.play("kept", [ask("DELETE", path, compared=False) for path in paths])
    for path in paths:
        eventually(partial(_is_gone, side, path), "a definition that is gone")
    return answers + side.play("kept", [ask("GET", policy), ask("DELETE", policy)])


def _definition(plural: str, kind: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v9")]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
        },
        "spec": {"group": "networking.k8s.io", "scope": "Namespaced", "names": names, "versions": versions},
    }


def _read(side: Side, path: str) -> Any:
    return json.loads(side.client.request("GET", path, {"accept": "application/json"}).body)


def _is_gone(side: Side, path: str) -> bool:
    return bool(_read(side, path)["kind"] == "Status")


def _is_established(side: Side, path: str) -> bool:
    conditions = (_read(side, path).get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)


@pytest.mark.parametrize("version", sorted({kind.api_version for kind in KINDS}))
def test_same_models(sides: tuple[Side, Side], version: str) -> None:
    """What OpenAPI says of the kinds, of their lists, and of all that is in them, without the descriptions."""
    # kube-apiserver answers 200 without a body while it makes a document anew, as when a definition of the group has gone.
    upstream = eventually(lambda: _models(sides[0], version), "the document of kube-apiserver")
    ours = _models(sides[1], version)
    named = {model_name(kind.type_name) for kind in KINDS if kind.api_version == version}
    assert named <= ours.keys()
    # Of DeleteOptions and events of watches, upstream names all groups that it has.
    compared = {name for name in ours if name in named or not name.startswith("io.k8s.apimachinery")}
    assert {name: ours[name] for name in compared} == {name: upstream.get(name) for name in compared}


def _models(side: Side, version: str) -> dict[str, Any]:
    path = f"/openapi/v3/apis/{version}" if "/" in version else f"/openapi/v3/api/{version}"
    answer = side.client.request("GET", path, {"accept": "application/json"})
    found: dict[str, Any] = _undescribed(json.loads(answer.body)["components"]["schemas"]) if answer.body else {}
    return found


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _undescribed(member) for name, member in value.items() if name != "description" or isinstance(member, dict)}
    return list(map(_undescribed, value)) if isinstance(value, list) else value


def _discovered(side: Side) -> dict[tuple[str, str], Any]:
    """By version and name: the resources of the catalog, and what is below them."""
    found = {}
    for version in sorted({kind.api_version for kind in KINDS}):
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = side.client.request("GET", path, {"accept": "application/json"})
        plurals = {kind.plural for kind in KINDS if kind.api_version == version}
        for resource in json.loads(answer.body)["resources"]:
            if resource["name"].partition("/")[0] in plurals:
                found[version, resource["name"]] = resource
    return found
