"""Classes as users write them: their schemas, values there and back, and errors of their own validators by field."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aggserver.apiextensions import validation
from aggserver.meta.json_types import json_copy
from aggserver.schema.compiled import CompiledSchema
from aggserver.typed import schema
from aggserver.typed.codec import UndecodableError, UnencodableError
from aggserver.typed.metadata import Metadata
from tests.fakes.definitions import definition, version
from tests.typed import models, refused
from tests.typed.models import MODELS, Model

EACH = pytest.mark.parametrize("model", [pytest.param(model, id=model.name) for model in MODELS])


@EACH
def test_schema(model: Model) -> None:
    found = schema.of(model.cls)
    expected: dict[str, Any] = {"type": "object", "properties": model.properties}
    if model.required:
        expected["required"] = list(model.required)
    assert found.schema == {**expected, **model.more}
    assert found.kind == model.name.partition("[")[0]
    assert found.has_status == ("status" in model.properties)
    assert found.description == model.more.get("description", "")
    crd = definition("sites", "Site", version("v1", {}))
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = found.schema
    assert validation.validate(crd) == []


@EACH
def test_values(model: Model) -> None:
    """What has every field of the class comes back as it was, and unchanged when a function changes nothing."""
    found = schema.of(model.cls)
    compiled = CompiledSchema(found.schema)
    for value in model.values:
        obj: dict[str, Any] = {"metadata": {"name": "a", "managedFields": [{}]}, **value}
        assert compiled.on_create(obj) == ([], [])
        assert compiled.on_rules(obj, None, []).errors == []
        instance = found.codec.decode(obj)
        encoded = found.codec.encode(instance)
        assert without_defaults(encoded, obj, found.schema) == obj
        assert found.codec.draft(obj).merged() == obj
    for value in model.wrong:
        obj = json_copy({"metadata": {"name": "a"}, **value})
        dropped = CompiledSchema(found.schema).conform(obj)
        assert dropped or any(compiled.on_create(obj)) or compiled.on_rules(obj, None, []).errors


def without_defaults(encoded: Any, obj: Any, node: dict[str, Any]) -> Any:
    """`encoded` without the defaults that `obj` does not have."""
    if not isinstance(encoded, dict) or not isinstance(obj, dict):
        return encoded
    properties = node.get("properties", {})
    return {
        name: without_defaults(value, obj.get(name), properties.get(name, {}))
        for name, value in encoded.items()
        if name in obj or (properties.get(name, {}).get("default", {}) != value and name != "status")
    }


SPEC = models.MODELS[6].values[0]["spec"]


@pytest.mark.parametrize(
    ("cls", "obj", "errors"),
    [
        pytest.param(
            models.PydanticSite,
            {"spec": {**SPEC, "even": 3, "url": "mailto:a"}},
            [
                "spec.url: Invalid value: \"mailto:a\": URL scheme should be 'http' or 'https'",
            ],
            id="pydantic, a type of its own before validators",
        ),
        pytest.param(
            models.PydanticSite,
            {"spec": {**SPEC, "even": 3}},
            ["spec.even: Invalid value: 3: must be even"],
            id="pydantic, a field",
        ),
        pytest.param(
            models.PydanticSite,
            {"spec": {**SPEC, "names": ["small"]}},
            ['spec: Invalid value: "object": only small ones have that name'],
            id="pydantic, a model",
        ),
        pytest.param(
            models.AttrsDisk, {"label": "bad"}, ['<nil>: Invalid value: "object": must not be bad'], id="attrs, a validator"
        ),
    ],
)
def test_errors_of_the_class(cls: Any, obj: dict[str, Any], errors: list[str]) -> None:
    with pytest.raises(UndecodableError) as caught:
        schema.of(cls).codec.decode({"metadata": {}, **obj})
    assert list(map(str, caught.value.errors)) == errors


def test_computed_fields_are_not_stored() -> None:
    virtual = schema.of(models.PydanticSite, stored=False)
    assert virtual.schema["properties"]["twice"] == {"type": "integer", "description": "Both."}
    assert virtual.schema["required"] == ["spec"]
    site = virtual.codec.decode({"metadata": {}, "spec": SPEC})
    assert virtual.codec.encode(site)["twice"] == 8
    assert "twice" not in schema.of(models.PydanticSite).codec.encode(site)


def test_computed_fields_are_in_the_status() -> None:
    found = schema.of(models.Summarized)
    obj = {"metadata": {}, "status": {"ready": 1, "phase": "Old"}}
    assert found.codec.encode(found.codec.decode(obj))["status"] == {"ready": 1, "phase": "Ready"}


def test_the_type_of_an_object_is_no_field_that_a_class_keeps() -> None:
    found = schema.of(models.Keeping)
    keeping = found.codec.decode({"apiVersion": "v1", "kind": "Keeping", "metadata": {}, "other": {"x": 1}})
    assert keeping.__pydantic_extra__ == {"other": {"x": 1}}
    assert found.codec.encode(keeping) == {"metadata": {}, "known": 1, "other": {"x": 1}}


def test_a_private_field_is_no_part_of_objects() -> None:
    found = schema.of(models.AttrsDisk)
    disk = found.codec.decode({"metadata": {}, "secret": 5, "_secret": 5})
    assert disk._secret == 1
    assert "secret" not in str(found.codec.encode(disk))


@pytest.mark.parametrize(("cls", "problems"), refused.CLASSES, ids=[cls.__name__ for cls, _ in refused.CLASSES])
def test_all_problems_are_told_with_their_places(cls: Any, problems: list[str]) -> None:
    with pytest.raises(schema.TypeSchemaError) as caught:
        schema.of(cls)
    assert sorted(caught.value.problems) == sorted(problems)


def test_what_is_returned_must_be_of_the_class() -> None:
    codec: Any = schema.of(models.Site).codec
    with pytest.raises(UnencodableError, match=r"^Site\.spec\.image: "):
        codec.encode(models.Site(Metadata("a"), object()))
    with pytest.raises(UnencodableError, match=r"^Site\.metadata: must be a Metadata, not dict$"):
        codec.encode(models.Site({"name": "a"}, models.SiteSpec("a")))  # type: ignore[arg-type]
    codec = schema.of(models.PydanticData).codec
    naive = models.PydanticData(Metadata("a"), "2026-01-01T00:00:00")  # type: ignore[arg-type]
    with pytest.raises(UnencodableError, match=r"^PydanticData\.when: must have a time zone"):
        codec.encode(naive)


def test_no_library_is_imported_that_the_user_has_not() -> None:
    code = (
        "import sys; from dataclasses import dataclass\n"
        "from aggserver.typed import schema; from aggserver.typed.metadata import *\n"
        "@dataclass\nclass Site:\n  metadata: Metadata\n  a: list[int]\n"
        "schema.of(Site); print({'pydantic', 'msgspec', 'attr'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
