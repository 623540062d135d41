"""OpenAPI as protobuf, byte for byte: kube-apiserver's own documents in JSON, encoded as aggserver encodes its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggserver.publish import openapi_v2_protobuf, openapi_v3_protobuf
from tests.controlplane.cluster import Cluster
from tests.integration.protobuf import contents
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.publish.test_gnostic_yaml import TEXTS

_GROUP = "documents.example.com"
_NAME = f"texts.{_GROUP}"
_WHERE_V3 = f"/openapi/v3/apis/{_GROUP}/v1"
_V2, _V3 = (f"application/com.github.proto-openapi.spec.{version}.v1.0+protobuf" for version in ("v2", "v3"))
# Of the message of a v2 document: its definitions and its common parameters.
_DEFINITIONS, _PARAMETERS = 9, 10


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _schema() -> dict[str, Any]:
    rules = [{"rule": "self != 'a: b'", "message": text, "reason": "FieldValueForbidden"} for text in TEXTS if text.strip()]
    items = {**_object(a={"type": "string"}, b={"type": "string"}), "required": ["a", "b"]}
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return _object(
        list={"type": "array", "items": items, **keys},
        texts={"type": "string", "enum": list(TEXTS), "minLength": 5, "maxLength": 0},
        numbers={"type": "number", "enum": [1, 1.5, 1e21, 1e-7, -3], "default": 1.5, "minimum": 0},
        zero={"type": "integer", "format": "int32", "default": 0},
        no={"type": "boolean", "default": False},
        empty={"type": "string", "default": "", "nullable": True},
        nothing={"type": "object", "default": {}, "additionalProperties": {"type": "string"}},
        open={"type": "object", "additionalProperties": True},
        port={"x-kubernetes-int-or-string": True},
        anything=anything,
        resource={**anything, "x-kubernetes-embedded-resource": True},
        judged={
            "type": "integer",
            "not": {"enum": [3]},
            "oneOf": [{"minimum": 1}, {"maximum": 0}],
            "allOf": [{"multipleOf": 2}],
            "example": {"a": [1, {"b": None}]},
            "externalDocs": {"url": "https://example.com", "description": "d"},
        },
        ruled={
            "type": "string",
            "maxLength": 20,
            "x-kubernetes-validations": [*(rule for rule in rules if "\n" not in rule["message"])],
        },
        lines={"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self\n!=\n'a'", "message": "m"}]},
    )


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    """Of a kube-apiserver that publishes the schema."""
    names = {"plural": "texts", "singular": "text", "kind": "Text", "listKind": "TextList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _schema()}}
    spec = {"group": _GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": _NAME}}
    control_plane.kubectl("create", "-f", "-", input=json.dumps({**definition, "spec": spec}))
    with Client(Path(control_plane.kubeconfig)) as made:
        for where in ("/openapi/v2", _WHERE_V3):
            eventually(lambda: b"com.example.documents.v1.Text" in _get(made, where, "application/json"), f"{where} has it")  # noqa: B023
        yield made
    control_plane.kubectl("delete", "crd", _NAME)


def _get(client: Client, where: str, accept: str) -> bytes:
    answer = client.request("GET", where, {"accept": accept})
    assert answer.status in (200, 404), answer
    return answer.body


def test_v3(client: Client) -> None:
    eventually(lambda: _encoded_v3(client) == _get(client, _WHERE_V3, _V3), "the same bytes")


def _encoded_v3(client: Client) -> bytes:
    return openapi_v3_protobuf.encode(json.loads(_get(client, _WHERE_V3, "application/json")))


def test_v2(client: Client) -> None:
    """All but paths, of which the cluster's own have methods that no custom resource has.

    The document is of the whole cluster, where others' definitions come and go between two requests.
    """

    def same() -> bool:
        ours = dict(contents(openapi_v2_protobuf.encode(json.loads(_get(client, "/openapi/v2", "application/json")))))
        upstream = dict(contents(_get(client, "/openapi/v2", _V2)))
        return all(ours[number] == upstream[number] for number in (_DEFINITIONS, _PARAMETERS))

    eventually(same, "the same bytes")
