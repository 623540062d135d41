"""Metadata: what coercion drops and writes anew, and what embedded resources must have."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.meta.json_types import JSONObject
from aggserver.schema import object_meta, structural

TIME = "2026-01-02T03:04:05Z"
OWNER = {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": True, "blockOwnerDeletion": False}

# name: (metadata, what is left, the paths of unknown fields)
PRUNED: dict[str, tuple[JSONObject, JSONObject, list[str]]] = {
    "good": ({"name": "a", "labels": {"x": "y"}, "generation": 1, "creationTimestamp": TIME},) * 2 + ([],),
    "unknown": ({"name": "a", "z": 1, "b": {}}, {"name": "a"}, ["metadata.b", "metadata.z"]),
    "null and empty": (
        {"name": "", "labels": {}, "finalizers": [], "annotations": None, "creationTimestamp": None, "uid": "u"},
        {"uid": "u"},
        [],
    ),
    "a generation of 0": ({"generation": 0}, {}, []),
    "a grace period of 0": ({"deletionGracePeriodSeconds": 0}, {"deletionGracePeriodSeconds": 0}, []),
    "nulls in maps": (
        {"labels": {"x": None}, "annotations": {"y": None, "z": "1"}},
        {"labels": {"x": ""}, "annotations": {"y": "", "z": "1"}},
        [],
    ),
    "a time elsewhere": ({"creationTimestamp": "2026-01-02T05:04:05.5+02:00"}, {"creationTimestamp": TIME}, []),
    "a time as long as a plain one": (
        {"deletionTimestamp": "2026-01-02T3:04:05.5Z"},
        {"deletionTimestamp": "2026-01-02T03:04:05Z"},
        [],
    ),
    "entries": (
        {
            "ownerReferences": [{"uid": "u", "x": 1, "controller": None}, 1],
            "managedFields": [{"time": "2026-01-02T4:04:05+01:00"}],
        },
        {"ownerReferences": [{"uid": "u"}, 1], "managedFields": [{"time": TIME}]},
        ["metadata.ownerReferences[0].x"],
    ),
    "an entry with all members": ({"ownerReferences": [OWNER]}, {"ownerReferences": [OWNER]}, []),
    "entries that are none": ({"ownerReferences": {"a": 1}, "labels": [1]}, {"ownerReferences": {"a": 1}, "labels": [1]}, []),
}


@pytest.mark.parametrize("name", PRUNED)
def test_pruned(name: str) -> None:
    before, after, dropped = PRUNED[name]
    metadata = copy.deepcopy(before)
    assert object_meta.is_clean(metadata) is (before == after)
    assert (object_meta.prune_object_meta(metadata), metadata) == (dropped, after)
    assert object_meta.is_clean(metadata)


def test_what_is_no_time_stays() -> None:
    metadata = {"creationTimestamp": "x", "deletionTimestamp": 1}
    assert object_meta.prune_object_meta(metadata) == []
    assert metadata == {"creationTimestamp": "x", "deletionTimestamp": 1}


# name: (the root's members, in which r is a resource, rs a list of them and rm a map of them; the first error; what is left)
MALFORMED: dict[str, tuple[JSONObject, str | None, JSONObject]] = {
    "none": (
        {"r": {"kind": "K", "apiVersion": "v1", "metadata": {"name": "a"}}},
        None,
        {"r": {"kind": "K", "apiVersion": "v1", "metadata": {"name": "a"}}},
    ),
    "a kind": ({"r": {"kind": 1, "x": 2}}, "r.kind: Invalid value: 1: must be a string", {"r": {"x": 2}}),
    "an apiVersion": ({"r": {"apiVersion": None}}, "r.apiVersion: Invalid value: null: must be a string", {"r": {}}),
    "metadata": (
        {"r": {"metadata": {"labels": 1, "name": "a"}}},
        'r.metadata: Invalid value: {"labels":1,"name":"a"}: json: cannot unmarshal number into Go struct field '
        "ObjectMeta.labels of type map[string]string",
        {"r": {"metadata": {"name": "a"}}},
    ),
    "in a list": ({"rs": [{}, "x", {"kind": 1}]}, "rs[2].kind: Invalid value: 1: must be a string", {"rs": [{}, "x", {}]}),
    "in a map": (
        {"rm": {"b": {"kind": 1}, "a": {"kind": 2}}},
        "rm[a].kind: Invalid value: 2: must be a string",
        {"rm": {"b": {}, "a": {}}},
    ),
    "the first by name": (
        {"rs": [{"kind": 1}], "r": {"kind": 2}},
        "r.kind: Invalid value: 2: must be a string",
        {"rs": [{}], "r": {}},
    ),
    "a kind elsewhere": ({"o": {"kind": 1}, "unknown": {"kind": 1}}, None, {"o": {"kind": 1}, "unknown": {"kind": 1}}),
}
RESOURCE: JSONObject = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
ROOT = structural.compile(
    {
        "type": "object",
        "properties": {
            "r": RESOURCE,
            "rs": {"type": "array", "items": RESOURCE},
            "rm": {"type": "object", "additionalProperties": RESOURCE},
            "o": {"type": "object", "properties": {"kind": {"type": "integer"}}},
        },
    }
)


@pytest.mark.parametrize("name", MALFORMED)
def test_what_can_not_be_decoded(name: str) -> None:
    before, text, left = MALFORMED[name]
    found = object_meta.malformed_resource(before, ROOT)
    assert (found and str(found)) == text
    obj = copy.deepcopy(before)
    object_meta.drop_malformed_resources(obj, ROOT)
    assert obj == left


GOOD = {"kind": "K", "apiVersion": "v1"}
# name: (a resource, its errors at r)
RESOURCES: dict[str, tuple[Any, list[str]]] = {
    "good": (GOOD | {"metadata": {"name": "a", "namespace": "n"}}, []),
    "without metadata": (GOOD, []),
    "empty metadata": (GOOD | {"metadata": {}}, []),
    "null metadata": (GOOD | {"metadata": None}, []),
    "nothing": ({}, ["r.apiVersion: Required value", "r.kind: Required value"]),
    "empty": (
        {"kind": "", "apiVersion": ""},
        ['r.apiVersion: Invalid value: "": must not be empty', 'r.kind: Invalid value: "": must not be empty'],
    ),
    "of another type": (
        {"kind": 1, "apiVersion": 2},
        ["r.apiVersion: Invalid value: 2: must be a string", "r.kind: Invalid value: 1: must be a string"],
    ),
    "an apiVersion of three parts": (
        GOOD | {"apiVersion": "a/b/c"},
        ['r.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'],
    ),
    "a kind with a space": (
        GOOD | {"kind": "A b"},
        [
            'r.kind: Invalid value: "A b": may have mixed case, but should otherwise match: a DNS-1035 label must consist of '
            "lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric "
            "character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        ],
    ),
    "a bad name": (GOOD | {"metadata": {"name": "a/b"}}, ["r.metadata.name: Invalid value: \"a/b\": may not contain '/'"]),
    "a name of another type": (
        GOOD | {"metadata": {"name": 1}},
        [
            'r.metadata: Invalid value: {"name":1}: json: cannot unmarshal number into Go struct field ObjectMeta.name '
            "of type string"
        ],
    ),
    "no object": ("x", []),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_what_a_resource_must_have(name: str) -> None:
    resource, texts = RESOURCES[name]
    assert [str(error) for error in object_meta.validate_resources({"o": 1, "r": resource}, ROOT)] == texts
    for outer, place in (({"rs": ["x", resource]}, "rs[1]"), ({"rm": {"k": resource}}, "rm[k]")):
        expected = [text.replace("r.", f"{place}.", 1) for text in texts]
        assert [str(error) for error in object_meta.validate_resources(outer, ROOT)] == expected


@pytest.mark.parametrize(
    ("resource", "good"),
    [
        ({}, True),
        ({"kind": "K", "metadata": {"name": "a"}}, True),
        ({"kind": 1}, False),
        ({"apiVersion": 1}, False),
        ({"metadata": "x"}, False),
        ({"metadata": {"x": 1}}, False),
        ({"metadata": {"name": 1}}, False),
    ],
    ids=str,
)
def test_well_formed(resource: JSONObject, good: bool) -> None:
    assert object_meta.is_well_formed(resource) is good
