"""The tables: what is read from their lines, and that they are upstream's types."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aggserver.scheme import types
from aggserver.scheme.types import lookup
from tests.controlplane.binaries import obtain_program

TABLES = sorted(Path(types.__file__).with_name("tables").glob("*.txt"))


def test_a_struct() -> None:
    spec = lookup("apiextensions/v1.CustomResourceDefinitionSpec")
    assert (spec.name, spec.kind) == ("v1.CustomResourceDefinitionSpec", "struct")
    assert spec.short_name == "CustomResourceDefinitionSpec"
    told = [(each.name, each.type.name, each.number, each.pointer, each.omitempty) for each in spec.members.values()]
    assert told == [
        ("group", "string", 1, False, False),
        ("names", "v1.CustomResourceDefinitionNames", 3, False, False),
        ("scope", "v1.ResourceScope", 4, False, False),
        ("versions", "[]v1.CustomResourceDefinitionVersion", 7, False, False),
        ("conversion", "v1.CustomResourceConversion", 9, True, True),
        ("preserveUnknownFields", "bool", 10, False, True),
    ]


def test_what_is_embedded_is_in_it() -> None:
    definition = lookup("apiextensions/v1.CustomResourceDefinition")
    assert list(definition.members) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert definition.members["metadata"].type is lookup("meta/v1.ObjectMeta")
    assert definition.members["kind"].number == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("apiextensions/v1.ResourceScope", "string"),
        ("apiextensions/v1.ValidationRules", "list"),
        ("apiextensions/v1.JSONSchemaDefinitions", "map"),
        ("apiextensions/v1.JSON", "json"),
        ("apiextensions/v1.JSONSchemaPropsOrBool", "union"),
        ("meta/v1.Time", "time"),
        ("pkg/types.UID", "string"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    assert lookup(name).kind == kind


def test_types_contain_themselves() -> None:
    schema = lookup("apiextensions/v1.JSONSchemaProps")
    assert schema.members["not"].type is schema
    assert schema.members["x-kubernetes-list-type"].go_name == "XListType"


@pytest.mark.parametrize(
    ("value", "chosen"), [({}, "Schema"), (True, "Allows"), ([], None), ("x", None)], ids=["schema", "bool", "list", "text"]
)
def test_an_alternative(value: object, chosen: str | None) -> None:
    found = lookup("apiextensions/v1.JSONSchemaPropsOrBool").alternative(value)
    assert (found and found.name) == chosen


@pytest.mark.parametrize(
    ("member", "value", "omitted"),
    [
        ("preserveUnknownFields", False, True),
        ("preserveUnknownFields", True, False),
        ("conversion", {}, False),
        ("conversion", None, True),
        ("group", "", False),
    ],
)
def test_what_go_leaves_out(member: str, value: object, omitted: bool) -> None:
    assert lookup("apiextensions/v1.CustomResourceDefinitionSpec").members[member].is_omitted(value) is omitted


@pytest.mark.integration
def test_the_tables_are_upstream(capfd: pytest.CaptureFixture[str]) -> None:
    """As `tests/controlplane/types` prints them: what it prints goes into the table."""

    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    program = obtain_program("types", os.environ, say)
    assert TABLES
    for table in TABLES:
        package = "/".join(table.stem.rsplit("_", 1))
        printed = subprocess.run([program, package], capture_output=True, text=True, check=True).stdout
        assert printed == table.read_text(), package
