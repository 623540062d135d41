"""The tables: what is read from their lines, and that they are upstream's types."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aggserver.scheme import protobuf_codec, types
from aggserver.scheme.decoding import decode_error
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


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Declare the types of a package."""
    monkeypatch.setattr(types, "_TABLES", tmp_path)

    def declare(package: str, text: str) -> None:
        (tmp_path / f"{package.replace('/', '_')}.txt").write_text(text)

    return declare


def test_embedded_structs(table: Callable[[str, str], None]) -> None:
    """As admissionregistration has them: declared after the struct that they are in, and in each other."""
    text = """
Named struct
  resourceNames []string 1 omitempty
  WithOperations WithOperations 2 inline
WithOperations struct
  operations []string 1 omitempty
  Rule Rule 2 inline
Rule struct
  apiGroups []string 1 omitempty APIGroups
  scope *string 4 omitempty
"""
    table("embedded/v1", text.lstrip())
    named = lookup("embedded/v1.Named")
    assert list(named.members) == ["resourceNames", "operations", "apiGroups", "scope"]
    rule = {"resourceNames": ["n"], "operations": ["CREATE"], "apiGroups": ["g"], "scope": "*"}
    written = protobuf_codec.writer(named)(rule)
    assert protobuf_codec.reader(named)(written, 0, len(written)) == rule
    # In protobuf they are nested, as Go has them.
    assert written == b"\x0a\x01n" + b"\x12\x10" + b"\x0a\x06CREATE" + b"\x12\x06" + b"\x0a\x01g" + b"\x22\x01*"
    where = "Go struct field Named.WithOperations.operations of type []string"
    assert decode_error({"operations": "x"}, named) == f"json: cannot unmarshal string into {where}"


def test_a_custom_type_must_be_known(table: Callable[[str, str], None]) -> None:
    table("custom/v1", "Quantity custom\n")
    with pytest.raises(KeyError, match="Quantity"):
        lookup("custom/v1.Quantity")


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
