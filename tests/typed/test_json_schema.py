"""JSON Schemas of users become structural schemas, and their objects stay dicts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from aggserver.typed import schema
from aggserver.typed.json_schema import lower
from tests.typed import models
from tests.typed.printed import DOCUMENTS, JSON_SCHEMAS, REFUSED


def site(value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"value": value}}


@pytest.mark.parametrize(("given", "expected"), [pytest.param(*each, id=name) for name, *each in JSON_SCHEMAS])
def test_fields(given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = schema.of_dict(site(given), "Site").schema
    assert found == site(expected)
    assert lower(found) == (found, [])


@pytest.mark.parametrize(("given", "expected"), [pytest.param(*each, id=name) for name, *each in DOCUMENTS])
def test_documents(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert schema.of_dict(given, "Site").schema == expected


@pytest.mark.parametrize(("given", "problem"), [pytest.param(*each, id=name) for name, *each in REFUSED])
def test_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(schema.TypeSchemaError) as caught:
        schema.of_dict(site(given), "Site")
    assert caught.value.problems == [problem]


def test_a_schema_that_grows_exponentially_is_refused() -> None:
    defs: dict[str, Any] = {f"D{n}": site({"$ref": f"#/$defs/D{n + 1}"}) for n in range(60)}
    for each in defs.values():
        each["properties"]["other"] = each["properties"]["value"]
    defs["D60"] = {"type": "string"}
    with pytest.raises(schema.TypeSchemaError, match="is too large with all references inlined"):
        schema.of_dict({"$ref": "#/$defs/D0", "$defs": defs}, "Site")


def test_what_pydantic_prints() -> None:
    """A model's own JSON Schema has the properties of the model, but for what JSON Schema can't say."""
    printed = models.PydanticSpec.model_json_schema()
    # pydantic writes ISO 8601, and the values are the user's.
    del printed["properties"]["wait"]["default"]
    found = schema.of_dict(site(printed) | {"$defs": printed.pop("$defs")}, "Site").schema["properties"]["value"]
    expected = schema.of(models.PydanticSite).schema["properties"]["spec"]
    del expected["properties"]["wait"]["default"]
    del expected["properties"]["old"]["description"], found["properties"]["old"]["description"]
    assert found == expected


def test_what_msgspec_prints() -> None:
    printed = msgspec.json.schema(models.StructSpec)
    defs = printed.pop("$defs")
    found = schema.of_dict({**site(printed), "$defs": defs}, "Site").schema["properties"]["value"]
    found["properties"].pop("Private", None)
    found["properties"].pop("_private", None)
    assert found == schema.of(models.StructSite).schema["properties"]["spec"]


def test_objects_stay_dicts() -> None:
    found = schema.of_dict({**site({"type": "integer"}), "description": "A site."}, "Site")
    assert (found.kind, found.description, found.has_status) == ("Site", "A site.", False)
    obj = {"metadata": {"labels": {"a": "b"}}, "value": 1}
    draft = found.codec.draft(obj)
    draft.value["metadata"]["labels"]["a"] = "c"
    draft.value["value"] = 2
    assert obj == {"metadata": {"labels": {"a": "b"}}, "value": 1}
    assert draft.merged() == {"metadata": {"labels": {"a": "c"}}, "value": 2}
    assert found.codec.encode(obj) == obj


def test_the_status_is_seen() -> None:
    given = {"type": "object", "properties": {"status": {"type": "object"}}}
    assert schema.of_dict(given, "Site").has_status
