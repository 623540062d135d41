"""The types of the server's own kinds are those of kube-apiserver's OpenAPI, from which it makes its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.merge import go_types
from aggserver.merge.atom import Atom
from tests.controlplane.cluster import Cluster
from tests.integration.raw import Client

# Name in the tables -> (the document that has it, its name there).
KINDS = {
    "apiextensions/v1.CustomResourceDefinition": (
        "apis/apiextensions.k8s.io/v1",
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    ),
    "core/v1.Namespace": ("api/v1", "io.k8s.api.core.v1.Namespace"),
    "autoscaling/v1.Scale": ("apis/apps/v1", "io.k8s.api.autoscaling.v1.Scale"),
}


class Comparison:
    """Of the types in a document. `seen`: those that were compared, since they contain themselves."""

    def __init__(self, schemas: dict[str, Any]) -> None:
        self._schemas = schemas
        self.seen: set[str] = set()
        self.lists: list[str] = []
        self.differences: list[str] = []

    def compare(self, schema: dict[str, Any], atom: Atom, where: str) -> None:
        schema, name = self._resolved(schema)
        if name:
            if name in self.seen:
                return
            self.seen.add(name)
        if schema.get("type") == "array":
            self._compare_list(schema, atom, where)
        elif "properties" in schema:
            self._compare_struct(schema, atom, where)
        elif "additionalProperties" in schema:
            assert atom.map is not None
            assert atom.map.element is not None
            self.compare(schema["additionalProperties"], atom.map.element, f"{where}.*")

    def _compare_struct(self, schema: dict[str, Any], atom: Atom, where: str) -> None:
        assert atom.map is not None, where
        self._expect(where, set(atom.map.fields), set(schema["properties"]))
        self._expect(where, atom.map.atomic, schema.get("x-kubernetes-map-type") == "atomic")
        for name, member in schema["properties"].items():
            if name in atom.map.fields:
                self.compare(member, atom.map.fields[name], f"{where}.{name}")

    def _compare_list(self, schema: dict[str, Any], atom: Atom, where: str) -> None:
        assert atom.list is not None, where
        kind = schema.get("x-kubernetes-list-type", "atomic")
        keys = schema.get("x-kubernetes-list-map-keys", [])
        self._expect(where, (atom.list.associative, list(atom.list.keys)), (kind in ("set", "map"), keys))
        if kind == "map":
            self.lists.append(where)
            element, _ = self._resolved(schema["items"])
            assert atom.list.element.map is not None
            for key in keys:
                default = atom.list.element.map.defaults.get(key)
                self._expect(f"{where}[].{key}", default, element["properties"][key].get("default"))
        self.compare(schema["items"], atom.list.element, f"{where}[]")

    def _resolved(self, schema: dict[str, Any]) -> tuple[dict[str, Any], str]:
        (reference,) = [part["$ref"] for part in schema.get("allOf", [schema]) if "$ref" in part] or [""]
        name = reference.rpartition("/")[2]
        return (self._schemas[name] if name else schema), name

    def _expect(self, where: str, ours: Any, upstream: Any) -> None:
        if ours != upstream:
            self.differences.append(f"{where}: {ours} here, {upstream} upstream")


@pytest.mark.parametrize("kind", KINDS)
def test_types_are_upstreams(control_plane: Cluster, kind: str) -> None:
    document, name = KINDS[kind]
    with Client(control_plane.kubeconfig) as client:
        answer = client.request("GET", f"/openapi/v3/{document}", {"accept": "application/json"})
    assert answer.status == 200
    comparison = Comparison(json.loads(answer.body)["components"]["schemas"])
    comparison.compare({"$ref": f"/{name}"}, go_types.of_type(kind), kind)
    assert not comparison.differences
    assert any(where.endswith("ownerReferences") for where in comparison.lists)
