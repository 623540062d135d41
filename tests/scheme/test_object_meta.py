from typing import Any

import pytest

from aggserver.meta.field import Path
from aggserver.scheme import object_meta
from tests.meta.texts import LABEL, NAME, SUBDOMAIN, VALUE

CANNOT = "json: cannot unmarshal"
TYPES: dict[str, tuple[Any, str]] = {
    "nothing": (None, ""),
    "everything": (
        {
            "name": "a",
            "generation": 1,
            "creationTimestamp": "2020-01-01T00:00:00Z",
            "labels": {"a": "b", "c": None},
            "finalizers": ["a", None],
            "ownerReferences": [{"name": "a", "controller": True, "unknown": 1}, None],
            "managedFields": [{"manager": "a", "time": "2020-01-01T00:00:00Z", "fieldsV1": 3}],
            "unknown": [1],
        },
        "",
    ),
    "nulls": ({"name": None, "labels": None, "creationTimestamp": None, "ownerReferences": None}, ""),
    "a string": ("x", f"{CANNOT} string into Go value of type v1.ObjectMeta"),
    "an array": ([], f"{CANNOT} array into Go value of type v1.ObjectMeta"),
    "a number": (1, f"{CANNOT} number into Go value of type v1.ObjectMeta"),
    "name": ({"name": 1}, f"{CANNOT} number into Go struct field ObjectMeta.name of type string"),
    "uid": ({"uid": True}, f"{CANNOT} bool into Go struct field ObjectMeta.uid of type types.UID"),
    "labels": ({"labels": []}, f"{CANNOT} array into Go struct field ObjectMeta.labels of type map[string]string"),
    "a label": ({"labels": {"b": [], "a": 1}}, f"{CANNOT} number into Go struct field ObjectMeta.labels of type string"),
    "finalizers": ({"finalizers": "x"}, f"{CANNOT} string into Go struct field ObjectMeta.finalizers of type []string"),
    "a finalizer": ({"finalizers": [{}]}, f"{CANNOT} object into Go struct field ObjectMeta.finalizers of type string"),
    "generation": ({"generation": "1"}, f"{CANNOT} string into Go struct field ObjectMeta.generation of type int64"),
    "fraction": ({"generation": 1.5}, f"{CANNOT} number 1.5 into Go struct field ObjectMeta.generation of type int64"),
    "large number": ({"generation": 1e30}, f"{CANNOT} number 1e+30 into Go struct field ObjectMeta.generation of type int64"),
    "references": (
        {"ownerReferences": {}},
        f"{CANNOT} object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
    ),
    "a reference": (
        {"ownerReferences": [1]},
        f"{CANNOT} number into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference",
    ),
    "a reference's uid": (
        {"ownerReferences": [{}, {"uid": 1}]},
        f"{CANNOT} number into Go struct field OwnerReference.ownerReferences.uid of type types.UID",
    ),
    "a reference's controller": (
        {"ownerReferences": [{"controller": "x"}]},
        f"{CANNOT} string into Go struct field OwnerReference.ownerReferences.controller of type bool",
    ),
    "operation": (
        {"managedFields": [{"operation": 3}]},
        f"{CANNOT} number into Go struct field ManagedFieldsEntry.managedFields.operation of type v1.ManagedFieldsOperationType",
    ),
    "time": ({"creationTimestamp": 3}, f"{CANNOT} number into Go struct field ObjectMeta.creationTimestamp of type string"),
    "first by the alphabet": (
        {"name": 1, "labels": "x", "annotations": 3},
        f"{CANNOT} number into Go struct field ObjectMeta.annotations of type map[string]string",
    ),
    "times first": (
        {"annotations": 3, "managedFields": [{"time": "x"}]},
        'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"',
    ),
}


@pytest.mark.parametrize(("metadata", "text"), TYPES.values(), ids=TYPES)
def test_type_error(metadata: Any, text: str) -> None:
    assert object_meta.type_error(metadata) == text


def test_of_a_kind_with_a_type_the_first_as_written() -> None:
    """Nothing sorts its members before they are decoded."""
    metadata = {"name": 1, "labels": "x"}
    where = "ObjectMeta.metadata.name of type string"
    assert object_meta.type_error(metadata, "Scale") == f"{CANNOT} number into Go struct field {where}"
    assert object_meta.type_error(1, "Scale") == f"{CANNOT} number into Go struct field Scale.metadata of type v1.ObjectMeta"


def test_drop_malformed() -> None:
    metadata = {"name": "a", "labels": {"a": 1}, "creationTimestamp": "x", "finalizers": [1], "unknown": 1}
    object_meta.drop_malformed(metadata)
    assert metadata == {"name": "a", "unknown": 1}


OWNER = {"apiVersion": "g/v1", "kind": "K", "name": "n", "uid": "u"}
SHOWN = '{"apiVersion":"g/v1","kind":"K","name":"n","uid":"u","controller":true}'
NEW: dict[str, tuple[dict[str, Any], bool, list[str]]] = {
    "good": (
        {
            "name": "a",
            "namespace": "b",
            "labels": {"x/y": "z", "e": ""},
            "annotations": {"X/Y": "any thing"},
            "ownerReferences": [OWNER | {"controller": True}, OWNER | {"controller": False}],
            "finalizers": ["x/y", "orphan"],
            "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1"}],
        },
        True,
        [],
    ),
    "wrong type": (
        {"name": 1},
        False,
        [f'metadata: Invalid value: {{"name":1}}: {CANNOT} number into Go struct field ObjectMeta.name of type string'],
    ),
    "no name": ({}, False, ["metadata.name: Required value: name or generateName is required"]),
    "bad name": ({"name": "A"}, False, [f'metadata.name: Invalid value: "A": {SUBDOMAIN}']),
    "bad base": (
        {"name": "a", "generateName": "a_"},
        False,
        [f'metadata.generateName: Invalid value: "a_": {SUBDOMAIN}'],
    ),
    "base with a dash": ({"name": "a", "generateName": "ab-"}, False, []),
    "no namespace": ({"name": "a"}, True, ["metadata.namespace: Required value"]),
    "bad namespace": ({"name": "a", "namespace": "A"}, True, [f'metadata.namespace: Invalid value: "A": {LABEL}']),
    "namespace too many": ({"name": "a", "namespace": "b"}, False, ["metadata.namespace: Forbidden: not allowed on this type"]),
    "generation": (
        {"name": "a", "generation": -1},
        False,
        ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "label": (
        {"name": "a", "labels": {"x y": "a b"}},
        False,
        [
            f'metadata.labels: Invalid value: "x y": name part {NAME}',
            f'metadata.labels: Invalid value: "a b": {VALUE}',
        ],
    ),
    "annotation": (
        {"name": "a", "annotations": {"x y": ""}},
        False,
        [f'metadata.annotations: Invalid value: "x y": name part {NAME}'],
    ),
    "as many annotations as there may be": ({"name": "a", "annotations": {"k": "v" * 262143}}, False, []),
    "too many annotations": (
        {"name": "a", "annotations": {"k": "é" * 131072}},
        False,
        ["metadata.annotations: Too long: may not be more than 262144 bytes"],
    ),
    "empty reference": (
        {"name": "a", "ownerReferences": [None]},
        False,
        [
            'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
            *(f'metadata.ownerReferences.{key}: Invalid value: "": must not be empty' for key in ("kind", "name", "uid")),
        ],
    ),
    "malformed version of a reference": (
        {"name": "a", "ownerReferences": [OWNER | {"apiVersion": "a/b/c"}]},
        False,
        ['metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty'],
    ),
    "owned by an event": (
        {"name": "a", "ownerReferences": [OWNER | {"apiVersion": "v1", "kind": "Event"}]},
        False,
        [
            'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"n","uid":"u"}: '
            "/v1, Kind=Event is disallowed from being an owner"
        ],
    ),
    "two controllers": (
        {"name": "a", "ownerReferences": [OWNER | {"controller": True}, OWNER | {"controller": True}]},
        False,
        [
            f"metadata.ownerReferences: Invalid value: [{SHOWN},{SHOWN}]: Only one reference can have Controller set to true. "
            'Found "true" in references for K/n and K/n'
        ],
    ),
    "finalizer": ({"name": "a", "finalizers": ["a b"]}, False, [f'metadata.finalizers: Invalid value: "a b": name part {NAME}']),
    "finalizers that exclude each other": (
        {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]},
        False,
        [
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
            "finalizer orphan and foregroundDeletion cannot be both set"
        ],
    ),
    "managed fields": (
        {
            "name": "a",
            "managedFields": [{"operation": "X", "fieldsType": "Y", "manager": "é\n" * 43, "subresource": "s" * 257}],
        },
        False,
        [
            'metadata.managedFields[0].operation: Invalid value: "X": must be `Apply` or `Update`',
            'metadata.managedFields[0].fieldsType: Invalid value: "Y": must be `FieldsV1`',
            "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
            *(
                f'metadata.managedFields[0].manager: Invalid value: "{"é" + chr(92) + "n"}{(chr(233) + chr(92) + "n") * 42}": '
                f"invalid character U+000A (at position {position})"
                for position in range(2, 129, 3)
            ),
            "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
        ],
    ),
}


@pytest.mark.parametrize(("metadata", "namespaced", "texts"), NEW.values(), ids=NEW)
def test_validate(metadata: dict[str, Any], namespaced: bool, texts: list[str]) -> None:
    errors = object_meta.validate_object_meta(
        metadata, Path("metadata"), namespaced=namespaced, name_rule=object_meta.dns1123_subdomain
    )
    assert [str(error) for error in errors] == texts


OLD = {
    "name": "a",
    "namespace": "n",
    "uid": "u",
    "resourceVersion": "1",
    "generation": 2,
    "creationTimestamp": "2020-01-01T00:00:00Z",
}
DELETED = OLD | {"deletionTimestamp": "2020-01-02T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a"]}
CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "nothing": (OLD, OLD, []),
    "same moment": (OLD | {"creationTimestamp": "2020-01-01T01:00:00+01:00"}, OLD, []),
    "what may change": (OLD | {"generation": 3, "labels": {"a": "b"}, "finalizers": ["x"]}, OLD, []),
    "wrong type": (
        OLD | {"labels": 1},
        OLD,
        [
            'metadata: Invalid value: {"creationTimestamp":"2020-01-01T00:00:00Z","generation":2,"labels":1,"name":"a",'
            '"namespace":"n","resourceVersion":"1","uid":"u"}: '
            f"{CANNOT} number into Go struct field ObjectMeta.labels of type map[string]string"
        ],
    ),
    "no resource version": (
        OLD | {"resourceVersion": ""},
        OLD,
        ['metadata.resourceVersion: Invalid value: "": must be specified for an update'],
    ),
    "generation": (OLD | {"generation": 1}, OLD, ["metadata.generation: Invalid value: 1: must not be decremented"]),
    "identity": (
        OLD | {"name": "b", "namespace": None, "uid": "v"},
        OLD,
        [
            'metadata.name: Invalid value: "b": field is immutable',
            'metadata.namespace: Invalid value: "": field is immutable',
            'metadata.uid: Invalid value: "v": field is immutable',
        ],
    ),
    "times": (
        OLD | {"creationTimestamp": "2020-01-01T02:00:00+01:00", "deletionTimestamp": "2020-01-02T00:00:00Z"},
        OLD,
        [
            'metadata.creationTimestamp: Invalid value: "2020-01-01T01:00:00Z": field is immutable',
            'metadata.deletionTimestamp: Invalid value: "2020-01-02T00:00:00Z": field is immutable',
        ],
    ),
    "no longer deleted": (
        OLD,
        DELETED,
        [
            "metadata.deletionTimestamp: Invalid value: null: field is immutable",
            "metadata.deletionGracePeriodSeconds: Invalid value: null: field is immutable",
        ],
    ),
    "finalizer removed": (DELETED | {"finalizers": []}, DELETED, []),
    "finalizers added": (
        DELETED | {"finalizers": ["c", "b", "a"]},
        DELETED,
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"b", "c"}'
        ],
    ),
    "label": (OLD | {"labels": {"a": "b c"}}, OLD, [f'metadata.labels: Invalid value: "b c": {VALUE}']),
}


@pytest.mark.parametrize(("new", "old", "texts"), CHANGED.values(), ids=CHANGED)
def test_validate_update(new: dict[str, Any], old: dict[str, Any], texts: list[str]) -> None:
    whole, changes = object_meta.validate_object_meta_update(new, old, Path("metadata"), namespaced=True)
    assert [str(error) for error in changes] == texts
    alone = object_meta.validate_object_meta(new, Path("metadata"), namespaced=True, name_rule=object_meta.path_segment_name)
    assert [str(error) for error in whole] == [str(error) for error in alone]


@pytest.mark.parametrize(
    ("base", "name"),
    [("a-", "a-bbbbb"), ("x" * 70, "x" * 58 + "bbbbb"), ("é" * 30, "é" * 29 + "bbbbb")],
    ids=["short", "cut to 63 bytes", "no character is split"],
)
def test_generate_name(base: str, name: str) -> None:
    assert object_meta.generate_name(base, lambda below: 0) == name


def test_generated_names_use_the_whole_alphabet() -> None:
    numbers = iter(range(27))
    found = "".join(object_meta.generate_name("", lambda below: next(numbers) % below) for _ in range(5))
    assert found == "bcdfghjklmnpqrstvwxz24567"
