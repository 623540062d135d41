"""The rows of docs/python-types.md: the same field in a class of each library has the same schema, or the same refusal."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.apiextensions import validation
from aggserver.schema.compiled import CompiledSchema
from aggserver.typed import schema
from tests.fakes.definitions import definition, version
from tests.typed.rows import ACCEPTED, NOTHING, REFUSED, Row, each_class, made


def cases(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, library, id=name) for name, row, library in each_class(rows)]


@pytest.mark.parametrize(("row", "library"), cases(ACCEPTED))
def test_accepted(row: Row, library: str) -> None:
    found = schema.of(made(row, library))
    assert found.schema["properties"] == {"value": row.schema}
    assert found.schema.get("required", []) == (["value"] if row.required else [])
    crd = definition("sites", "Site", {**version("v1", {}), "storage": True})
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = found.schema
    assert validation.validate(crd) == []


@pytest.mark.parametrize(("row", "library"), cases(REFUSED))
def test_refused(row: Row, library: str) -> None:
    with pytest.raises(schema.TypeSchemaError) as caught:
        schema.of(made(row, library))
    assert [text.partition(": ")[2] for text in caught.value.problems] == [f"Site.value: {row.schema}"]


@pytest.mark.parametrize(("row", "library"), cases(ACCEPTED))
def test_values(row: Row, library: str) -> None:
    found = schema.of(made(row, library))
    compiled = CompiledSchema(found.schema)
    for given, value in row.values:
        obj = {"metadata": {"name": "a"}, "value": given}
        assert compiled.on_create(obj) == ([], [])
        site: Any = found.codec.decode(obj)
        assert site.value == value
        assert type(site.value) is type(value)
        assert site.metadata.name == "a"
        shown = given if isinstance(given, dict | list) else row.shown.get(given, given)
        assert found.codec.encode(site) == {**obj, "value": shown}
        assert found.codec.draft(obj).merged() == obj


@pytest.mark.parametrize(("row", "library"), cases(ACCEPTED))
def test_wrong_values(row: Row, library: str) -> None:
    compiled = CompiledSchema(schema.of(made(row, library)).schema)
    for given in row.wrong:
        obj = {"metadata": {"name": "a"}, "value": given}
        errors = compiled.on_create(obj)
        assert any(errors) or compiled.on_rules(obj, None, []).errors, given


@pytest.mark.parametrize(("row", "library"), cases([row for row in ACCEPTED if not row.required]))
def test_missing_values(row: Row, library: str) -> None:
    """The default of the class is the schema's; where the schema has none, None stays away from the object."""
    found = schema.of(made(row, library))
    site: Any = found.codec.decode({"metadata": {}})
    expected = row.factory() if row.factory is not None else row.default
    assert site.value == expected
    encoded = found.codec.encode(site)
    assert found.codec.draft({"metadata": {}}).merged() == {"metadata": {}}
    defaulted: dict[str, Any] = {"metadata": {}}
    CompiledSchema(found.schema).default(defaulted)
    if expected is None or row.name == "Optional with a factory":
        assert "value" not in defaulted
        assert ("value" in encoded) == (expected is not None)
    else:
        assert encoded == defaulted
    assert found.codec.decode(defaulted) == site
    assert row.default is not NOTHING or row.factory is not None
