"""The tables: what is read from their lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggserver.scheme import protobuf_codec, types
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup


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


MARKERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "keys of a list": ("core/v1.Container", "ports", {"list_type": "map", "list_keys": ("containerPort", "protocol")}),
    "a set": ("core/v1.LoadBalancerIngress", "ports", {"list_type": "atomic"}),
    "required by its tag": ("core/v1.Container", "name", {"required": True, "default": ""}),
    "required beyond its tag": ("core/v1.ResourceClaim", "name", {"required": True}),
    "optional beyond its tag": ("apps/v1.StatefulSetSpec", "serviceName", {"required": False, "default": ""}),
    "a default of its own": ("core/v1.ContainerPort", "protocol", {"default": "TCP", "required": False}),
    "of a struct": ("core/v1.Pod", "spec", {"default": {}, "required": False}),
    "of a pointer": ("core/v1.Container", "securityContext", {"default": None}),
    "not atomic here": ("core/v1.PersistentVolumeSpec", "claimRef", {"map_type": "granular"}),
}


@pytest.mark.parametrize("name", MARKERS)
def test_markers_of_members(name: str) -> None:
    of, member, wanted = MARKERS[name]
    found = lookup(of).members[member]
    assert {each: getattr(found, each) for each in wanted} == wanted


def test_markers_of_types() -> None:
    assert lookup("core/v1.Protocol").enum == ("SCTP", "TCP", "UDP")
    assert "code signing" in lookup("certificates/v1.KeyUsage").enum
    assert lookup("core/v1.ObjectReference").map_type == "atomic"
    assert lookup("core/v1.SeccompProfile").unions == (("type", ("localhostProfile",)),)
    assert lookup("core/v1.Protocol").full_name == "core/v1.Protocol"


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
