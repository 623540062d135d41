"""Our OpenAPI documents beside those that kube-apiserver v1.36.3 published for the definitions of crontabs.yaml.

kube_apiserver.json has its documents with each parameter cut down to place and name, since the texts are in
publish/kubernetes.json, and without the built-in schemas of v3, which are there too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.meta.resource import ResourceInfo
from aggserver.publish import builtin, openapi_v2, openapi_v3
from aggserver.publish.discovery import CUSTOM_RESOURCE_VERBS, SUBRESOURCE_VERBS, APIResource, APISubresource
from aggserver.publish.models import Published, model_name
from aggserver.publish.operations import paths

HERE = Path(__file__).parent
KUBE = json.loads((HERE / "kube_apiserver.json").read_text())


def published(crd: dict[str, Any], version: dict[str, Any]) -> Published:
    spec, names, subresources = crd["spec"], crd["spec"]["names"], version.get("subresources", {})
    info = ResourceInfo(
        group=spec["group"],
        version=version["name"],
        resource=names["plural"],
        kind=names["kind"],
        list_kind=names["kind"] + "List",
        namespaced=spec["scope"] == "Namespaced",
    )
    below = tuple(APISubresource(name, "", SUBRESOURCE_VERBS) for name in subresources)
    return Published(
        APIResource(info, CUSTOM_RESOURCE_VERBS, subresources=below),
        version["schema"]["openAPIV3Schema"],
        selectable_fields=tuple(field["jsonPath"] for field in version.get("selectableFields", ())),
    )


def all_published() -> list[Published]:
    crds = list(yaml.safe_load_all((HERE / "crontabs.yaml").read_text()))
    return [published(crd, version) for crd in crds for version in crd["spec"]["versions"] if version["served"]]


def abbreviate(node: Any) -> Any:
    if isinstance(node, list):
        return [abbreviate(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    return {
        key: [entry.get("$ref") or f"{entry['in']} {entry['name']}" for entry in value]
        if key == "parameters" and isinstance(value, list)
        else abbreviate(value)
        for key, value in node.items()
    }


def plain(tree: Any) -> Any:
    """As a client reads it."""
    return json.loads(json.dumps(tree))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_v3_is_kube_apiservers(version: str) -> None:
    resources = [resource for resource in all_published() if resource.info.version == version]
    document = plain(openapi_v3.build("stable.example.com", version, resources, info_version="1"))
    wanted = KUBE[f"v3 {version}"]
    schemas = document["components"]["schemas"]
    own = {name: schema for name, schema in schemas.items() if not name.startswith("io.k8s.")}
    assert own == wanted["schemas"]
    assert sorted(schemas.keys() - own.keys()) == wanted["builtin"]
    assert abbreviate(document["paths"]) == wanted["paths"]
    assert (document["openapi"], document["info"]) == ("3.0.0", {"title": "aggserver", "version": "1"})


def test_v2_is_kube_apiservers() -> None:
    document = plain(openapi_v2.build(all_published(), info_version="1"))
    wanted = KUBE["v2"]
    own = {name: schema for name, schema in document["definitions"].items() if not name.startswith("io.k8s.")}
    assert own == wanted["definitions"]
    assert abbreviate(document["paths"]) == wanted["paths"]
    assert document["parameters"] == wanted["parameters"]
    assert document["swagger"] == "2.0"


@pytest.mark.parametrize("name", sorted(KUBE["v2"]["builtin"]))
def test_v2_builtin_definitions_are_the_clusters_own(name: str) -> None:
    # Whatever differs in more than its kinds would be renamed in the merged document.
    found = dict(openapi_v2.build(all_published(), info_version="1")["definitions"][name])
    found.pop("x-kubernetes-group-version-kind", None)
    assert found == KUBE["v2"]["builtin"][name]


def test_every_reference_leads_somewhere() -> None:
    document = openapi_v3.build("stable.example.com", "v1", all_published()[:1], info_version="1")
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert name in document["components"]["schemas"]


CRONTABS = ResourceInfo("stable.example.com", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)


def crontab(info: ResourceInfo = CRONTABS, verbs: Sequence[str] = CUSTOM_RESOURCE_VERBS, **schema: Any) -> Published:
    return Published(APIResource(info, tuple(verbs)), {"type": "object", **schema})


def root_of(schema: dict[str, Any], build: str) -> dict[str, Any]:
    resource = crontab(properties={"x": schema})
    if build == "v3":
        schemas = openapi_v3.build(resource.info.group, "v1", [resource], info_version="1")["components"]["schemas"]
    else:
        schemas = openapi_v2.build([resource], info_version="1")["definitions"]
    found: dict[str, Any] = schemas["com.example.stable.v1.CronTab"]["properties"]["x"]
    return found


NODES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # name: (as written, in v3, in v2)
    "zero limits stay": (
        {"type": "integer", "minimum": 0, "default": 0},
        {"type": "integer", "minimum": 0, "default": 0},
        {"type": "integer", "minimum": 0},
    ),
    "false and empty go": (
        {"type": "string", "nullable": False, "description": "", "enum": [], "uniqueItems": False},
        {"type": "string"},
        {"type": "string"},
    ),
    "null default goes": ({"type": "string", "default": None}, {"type": "string"}, {"type": "string"}),
    "false default stays": (
        {"type": "boolean", "default": False},
        {"type": "boolean", "default": False},
        {"type": "boolean"},
    ),
    "empty properties go": ({"type": "object", "properties": {}}, {"type": "object"}, {"type": "object"}),
    "additionalProperties false": (
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "additionalProperties": False},
    ),
    "array without items": ({"type": "array"}, {"type": "array"}, {}),
    "nullable map value": (
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": True}},
        {"type": "object", "additionalProperties": {}},
    ),
    "nullable property isn't required": (
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": True}, "b": {}}},
        {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": True}, "b": {}}},
        {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {}}},
    ),
    "int-or-string spelt by the author in allOf": (
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
        {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
        {"x-kubernetes-int-or-string": True},
    ),
    "int-or-string beside another anyOf": (
        {"x-kubernetes-int-or-string": True, "anyOf": [{"minimum": 3}, {"pattern": "a"}], "allOf": [{"maxLength": 3}]},
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"minimum": 3}, {"pattern": "a"}],
            "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"maxLength": 3}],
        },
        {"x-kubernetes-int-or-string": True},
    ),
    "junctors within junctors": (
        {"type": "object", "not": {"properties": {"a": {"enum": [1]}, "b": {"items": {"maxLength": 2}}}}},
        {"type": "object", "not": {"properties": {"a": {"enum": [1]}, "b": {"items": {"maxLength": 2}}}}},
        {"type": "object"},
    ),
    "keys that no structural schema has": ({"type": "string", "x-other": 1, "$ref": "#"}, {"type": "string"}, {"type": "string"}),
}  # fmt: skip


@pytest.mark.parametrize(("written", "v3", "v2"), NODES.values(), ids=NODES)
def test_node(written: dict[str, Any], v3: dict[str, Any], v2: dict[str, Any]) -> None:
    before = json.dumps(written)
    assert root_of(written, "v3") == v3
    assert root_of(written, "v2") == v2
    assert json.dumps(written) == before


def test_no_schema_is_a_bare_object() -> None:
    schemas = openapi_v3.build(
        "stable.example.com", "v1", [Published(APIResource(CRONTABS, CUSTOM_RESOURCE_VERBS))], info_version="1"
    )["components"]["schemas"]
    schema = schemas["com.example.stable.v1.CronTab"]
    assert schema["type"] == "object"
    assert "properties" not in schema


VERBS: dict[str, tuple[tuple[str, ...], dict[str, list[str]]]] = {
    "read-only": (
        ("get", "list", "watch"),
        {"crontabs": ["get"], "namespaces/{namespace}/crontabs": ["get"], "namespaces/{namespace}/crontabs/{name}": ["get"]},
    ),
    "review": (("create",), {"namespaces/{namespace}/crontabs": ["post"]}),
}


@pytest.mark.parametrize(("verbs", "wanted"), VERBS.values(), ids=VERBS)
def test_paths_are_those_that_the_verbs_ask_for(verbs: tuple[str, ...], wanted: dict[str, list[str]]) -> None:
    prefix = "/apis/stable.example.com/v1/"
    found = {item.path.removeprefix(prefix): [op.method for op in item.operations] for item in paths(crontab(verbs=verbs))}
    assert found == wanted


def test_core_group() -> None:
    namespaces = crontab(ResourceInfo("", "v1", "namespaces", "Namespace", "NamespaceList", namespaced=False))
    assert model_name("", "v1", "Namespace") == "io.k8s.api.core.v1.Namespace"
    items = {item.path: item for item in paths(namespaces)}
    assert list(items) == ["/api/v1/namespaces", "/api/v1/namespaces/{name}"]
    operation = items["/api/v1/namespaces"].operations[0]
    assert (operation.operation_id, operation.tag) == ("listCoreV1Namespace", "core_v1")


def test_group_of_kubernetes_loses_its_suffix_in_ids() -> None:
    resource = crontab(replace(CRONTABS, group="rbac.authorization.k8s.io", kind="Role", namespaced=False))
    assert next(paths(resource)).operations[0].operation_id == "listRbacAuthorizationV1Role"


def test_patch_never_advertises_strategic_merge() -> None:
    document = openapi_v3.build("stable.example.com", "v1", [crontab()], info_version="1")
    patch = document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]["patch"]
    assert list(patch["requestBody"]["content"]) == [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {"group": "stable.example.com", "version": "v1", "kind": "CronTab"}


def test_empty_documents() -> None:
    assert openapi_v3.build("g.example.com", "v1", [], info_version="1")["paths"] == {}
    assert openapi_v2.build([], info_version="1")["definitions"] == {}


def test_closure_follows_references() -> None:
    assert builtin.OBJECT_META in builtin.closure([builtin.SCALE])
    assert builtin.closure([]) == []
