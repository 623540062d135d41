"""The same request for a built-in kind, the same answer: kube-apiserver and aggserver side by side.

As `test_same_answers.py`, but without definitions. What controllers decide in their own time is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aggserver.kinds.catalog import KINDS
from aggserver.scheme.openapi import model_name
from tests.controlplane.cluster import Cluster
from tests.integration import cases_kind_rules, cases_kinds, cases_signing_requests
from tests.integration.comparison import Cases, without_order
from tests.integration.kinds import NAMESPACE
from tests.integration.sides import Side, both, played

CASES: Cases = cases_kinds.CASES | cases_kind_rules.CASES | cases_signing_requests.CASES


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("kinds"), (), (NAMESPACE,)) as pair:
        yield pair


@pytest.mark.parametrize("name", CASES)
def test_same_answer(sides: tuple[Side, Side], name: str) -> None:
    upstream, ours = played(sides, name, CASES[name])
    assert list(map(without_order, ours)) == list(map(without_order, upstream))


def test_same_discovery(sides: tuple[Side, Side]) -> None:
    """Of each kind in the catalog: what kube-apiserver says of it, but for the subresources that need a kubelet."""
    upstream, ours = (_discovered(side) for side in sides)
    missing = upstream.keys() - ours.keys()
    assert {name.partition("/")[2] for _, name in missing} <= {"attach", "exec", "log", "portforward", "proxy"}
    assert ours == {name: upstream[name] for name in upstream if name not in missing}


@pytest.mark.parametrize("version", sorted({kind.api_version for kind in KINDS}))
def test_same_models(sides: tuple[Side, Side], version: str) -> None:
    """What OpenAPI says of the kinds, of their lists, and of all that is in them, without the descriptions."""
    upstream, ours = (_models(side, version) for side in sides)
    named = {model_name(kind.type_name) for kind in KINDS if kind.api_version == version}
    assert named <= ours.keys()
    # Of DeleteOptions and events of watches, upstream names all groups that it has.
    compared = {name for name in ours if name in named or not name.startswith("io.k8s.apimachinery")}
    assert {name: ours[name] for name in compared} == {name: upstream.get(name) for name in compared}


def _models(side: Side, version: str) -> dict[str, Any]:
    path = f"/openapi/v3/apis/{version}" if "/" in version else f"/openapi/v3/api/{version}"
    answer = side.client.request("GET", path, {"accept": "application/json"})
    found: dict[str, Any] = _undescribed(json.loads(answer.body)["components"]["schemas"])
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
