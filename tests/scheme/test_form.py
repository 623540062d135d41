"""What Go's decoder leaves of a struct: zeros for what is not given. (`problems` and `prune`: tests/apiextensions.)"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.scheme.form import filled
from aggserver.scheme.types import lookup

ZEROS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain members and a pointer": (
        "apiextensions/v1.CustomResourceSubresourceScale",
        {"specReplicasPath": "", "statusReplicasPath": "", "labelSelectorPath": None},
    ),
    "a list, a boolean and a struct": (
        "apiextensions/v1.CustomResourceDefinitionSpec",
        {
            "group": "",
            "names": {"plural": "", "singular": "", "shortNames": [], "kind": "", "listKind": "", "categories": []},
            "scope": "",
            "versions": [],
            "conversion": None,
            "preserveUnknownFields": False,
        },
    ),
    "a number": (
        "apiextensions/v1.CustomResourceColumnDefinition",
        {"name": "", "type": "", "format": "", "description": "", "priority": 0, "jsonPath": ""},
    ),
    "a map": ("authentication/v1.UserInfo", {"username": "", "uid": "", "groups": [], "extra": {}}),
}


@pytest.mark.parametrize("name", ZEROS)
def test_nothing_is_all_zeros(name: str) -> None:
    of, wanted = ZEROS[name]
    assert filled({}, lookup(of)) == wanted
    assert filled(dict.fromkeys(wanted), lookup(of)) == wanted


def test_what_is_given_stays() -> None:
    names = {"plural": "ps", "shortNames": ["p"], "kind": "P"}
    spec = {"group": "g", "names": names, "versions": [{"name": "v1", "served": True, "subresources": {"status": {}}}], "x": 1}
    found = filled(spec, lookup("apiextensions/v1.CustomResourceDefinitionSpec"))
    assert found["names"] == {**names, "singular": "", "listKind": "", "categories": []}
    version = found["versions"][0]
    assert (version["name"], version["served"], version["storage"]) == ("v1", True, False)
    assert version["subresources"] == {"status": {}, "scale": None}
    assert "x" not in found


def test_what_is_not_looked_into_is_the_same_object() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": None}}
    of, whole = lookup("apiextensions/v1.CustomResourceValidation"), lookup("apiextensions/v1.JSONSchemaProps")
    assert filled({"openAPIV3Schema": schema}, of, (whole,))["openAPIV3Schema"] is schema


def test_nothing_is_shared() -> None:
    of = lookup("apiextensions/v1.CustomResourceDefinitionNames")
    filled({}, of)["shortNames"].append("x")
    assert filled({}, of)["shortNames"] == []
