"""The schemas of Python types in the real kube-apiserver: definitions with them are accepted strictly, and their values judged.

All accepted rows are in one definition, each as a property, so that one definition is enough for the values of all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from aggserver.typed import schema
from tests.controlplane.cluster import Cluster
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.typed.models import MODELS
from tests.typed.printed import JSON_SCHEMAS
from tests.typed.rows import ACCEPTED, LIBRARIES, Row, made

GROUP = "types.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRICT = "fieldValidation=Strict"


def crd(plural: str, schema_: Mapping[str, Any], *, status: bool = False) -> dict[str, Any]:
    subresources = {"subresources": {"status": {}}} if status else {}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema_}, **subresources}
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]},
    }


@pytest.fixture(scope="module")
def client(control_plane: Cluster) -> Iterator[Client]:
    with Client(control_plane.kubeconfig) as found:
        yield found


def post(client: Client, path: str, obj: Mapping[str, Any]) -> tuple[int, dict[str, Any], str]:
    """The code, the body and the warnings of a strict creation."""
    answer = client.request("POST", path, {"content-type": "application/json"}, json.dumps(obj).encode())
    return answer.status, json.loads(answer.body), answer.header("warning")


@pytest.fixture(scope="module")
def rows(client: Client) -> Iterator[str]:
    """The path of the resource whose objects have one property for each row."""
    properties = {key(row): schema.of(made(row, "dataclass")).schema for row in ACCEPTED}
    definition = crd("rows", {"type": "object", "properties": properties})
    code, body, warnings = post(client, f"{DEFINITIONS}?{STRICT}", definition)
    assert (code, warnings) == (201, ""), body
    path = f"/apis/{GROUP}/v1/rows"
    eventually(lambda: client.request("GET", path).status == 200, "the rows are served")
    yield path
    client.request("DELETE", f"{DEFINITIONS}/rows.{GROUP}")


def key(row: Row) -> str:
    return "".join(row.name.title().split())


def row_object(row: Row, value: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Row", "metadata": {"name": "a"}, key(row): value}


def test_each_row_makes_a_definition(client: Client) -> None:
    found = {}
    for row in ACCEPTED:
        for library in LIBRARIES:
            if library in row.but:
                continue
            of = schema.of(made(row, library))
            code, body, warnings = post(client, f"{DEFINITIONS}?dryRun=All&{STRICT}", crd("sites", of.schema))
            if (code, warnings) != (201, ""):
                found[row.name, library] = warnings or body["message"]
    assert found == {}


def test_each_model_makes_a_definition(client: Client) -> None:
    found = {}
    for model in MODELS:
        of = schema.of(model.cls)
        code, body, warnings = post(client, f"{DEFINITIONS}?dryRun=All&{STRICT}", crd("sites", of.schema, status=of.has_status))
        if (code, warnings) != (201, ""):
            found[model.name] = warnings or body["message"]
    assert found == {}


def test_each_json_schema_makes_a_definition(client: Client) -> None:
    found = {}
    for name, given, _ in JSON_SCHEMAS:
        of = schema.of_dict({"type": "object", "properties": {"value": given}}, "Site")
        code, body, warnings = post(client, f"{DEFINITIONS}?dryRun=All&{STRICT}", crd("sites", of.schema))
        if (code, warnings) != (201, ""):
            found[name] = warnings or body["message"]
    assert found == {}


def test_values(client: Client, rows: str) -> None:
    """What we can decode is accepted and comes back as it was; so is what we encode."""
    found = {}
    for row in ACCEPTED:
        codec: Any = schema.of(made(row, "dataclass")).codec
        for value, _ in row.values:
            encoded = codec.encode(codec.decode({"metadata": {}, "value": value}))["value"]
            for given in (value, encoded):
                code, body, _ = post(client, f"{rows}?dryRun=All&{STRICT}", row_object(row, {"value": given}))
                if code != 201 or body[key(row)] != {"value": given}:
                    found[row.name, str(given)] = body.get("message", body)
    assert found == {}


def test_wrong_values(client: Client, rows: str) -> None:
    found = {}
    for row in ACCEPTED:
        for value in row.wrong:
            code, body, _ = post(client, f"{rows}?dryRun=All&{STRICT}", row_object(row, {"value": value}))
            if code not in (400, 422):
                found[row.name, str(value)] = body
    assert found == {}


def test_missing_values(client: Client, rows: str) -> None:
    """kube-apiserver fills in the default of the class, and what has none stays away."""
    found = {}
    for row in ACCEPTED:
        code, body, _ = post(client, f"{rows}?dryRun=All&{STRICT}", row_object(row, {}))
        if row.required:
            if code != 422:
                found[row.name] = body
            continue
        codec: Any = schema.of(made(row, "dataclass")).codec
        encoded = codec.encode(codec.decode({"metadata": {}}))
        expected = {"value": encoded["value"]} if "default" in row.schema else {}
        if body.get(key(row)) != expected:
            found[row.name] = body
    assert found == {}


def test_values_of_models(client: Client) -> None:
    """Objects of the classes, each in a definition of its own."""
    found = {}
    for number, model in enumerate(MODELS):
        of = schema.of(model.cls)
        plural = f"models{number}s"
        code, body, _ = post(client, f"{DEFINITIONS}?{STRICT}", crd(plural, of.schema, status=of.has_status))
        assert code == 201, body
        path = f"/apis/{GROUP}/v1/{plural}"
        eventually(lambda path=path: client.request("GET", path).status == 200, "the model is served")
        head = {"apiVersion": f"{GROUP}/v1", "kind": plural[:-1].title(), "metadata": {"name": "a"}}
        for value in model.values:
            code, body, _ = post(client, f"{path}?dryRun=All&{STRICT}", {**head, **value})
            if code != 201 or not value.items() <= body.items():
                found[model.name, str(value)] = body
        for value in model.wrong:
            code, body, _ = post(client, f"{path}?dryRun=All&{STRICT}", {**head, **value})
            if code not in (400, 422):
                found[model.name, str(value)] = body
        client.request("DELETE", f"{DEFINITIONS}/{plural}.{GROUP}")
    assert found == {}
