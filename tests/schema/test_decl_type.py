"""Types of schemas, by what is declared of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from aggserver.schema import structural
from aggserver.schema.decl_type import Declarations, DeclType, declare

SIZES = yaml.safe_load((Path(__file__).parents[1] / "cases/rules/sizes.yaml").read_text())
STRING = {"type": "string"}
RESOURCE = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"a-b": STRING, "1": STRING, "any": {}}}},
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    schema, size = SIZES[name]
    declared = declare(structural.compile(schema))
    assert (None if declared is None else declared.max_elements) == size


def fields(declared: DeclType) -> dict[str, str]:
    declarations = Declarations(declared)
    return {name: str(type_) for name, type_ in (declarations.fields(declarations.type.name) or {}).items()}


def declared_resource(*, sees_labels: bool = False) -> DeclType:
    declared = declare(structural.compile(RESOURCE), is_resource=True, sees_labels=sees_labels)
    assert declared is not None
    return declared


def test_a_resource_has_a_name() -> None:
    declared = declared_resource()
    assert fields(declared) == {
        "spec": "selfType0.spec",
        "kind": "string",
        "apiVersion": "string",
        "metadata": "selfType0.metadata",
    }
    assert fields(declared.fields["metadata"]) == {"name": "string", "generateName": "string"}


def test_labels_where_rules_see_them() -> None:
    metadata = declared_resource(sees_labels=True).fields["metadata"]
    assert fields(metadata)["labels"] == fields(metadata)["annotations"] == "map(string, string)"


def test_only_what_has_a_type_and_a_name_is_a_field() -> None:
    assert fields(declared_resource().fields["spec"]) == {"a__dash__b": "string"}
