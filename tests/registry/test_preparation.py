"""What every write does to metadata."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.warnings import Warnings
from aggserver.registry import preparation

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u1"}
OTHER = {**OWNER, "uid": "u2"}
ENTRY = {"manager": "m", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}
LATER = {**ENTRY, "time": "2026-01-01T00:00:01Z"}


def test_what_the_server_sets_is_dropped() -> None:
    metadata = {
        "name": "a",
        "uid": "u",
        "creationTimestamp": "x",
        "deletionTimestamp": "x",
        "deletionGracePeriodSeconds": 1,
        "selfLink": "/a",
        "resourceVersion": "1",
    }
    preparation.drop_system_fields(metadata)
    assert metadata == {"name": "a", "resourceVersion": "1"}


@pytest.mark.parametrize(
    ("given", "namespaced", "left"),
    [
        ({}, True, {"namespace": "here"}),
        ({"namespace": ""}, True, {"namespace": "here"}),
        ({"namespace": None}, True, {"namespace": "here"}),
        ({"namespace": "here"}, True, {"namespace": "here"}),
        ({"namespace": "there"}, False, {}),
    ],
)
def test_the_namespace_is_that_of_the_request(given: JSONObject, namespaced: bool, left: JSONObject) -> None:
    preparation.place_in_namespace(given, "here" if namespaced else "", namespaced=namespaced)
    assert given == left


def test_another_namespace_is_refused() -> None:
    with pytest.raises(StatusError, match="the namespace of the provided object does not match"):
        preparation.place_in_namespace({"namespace": "there"}, "here", namespaced=True)


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({}, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        ({"name": ""}, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
    ],
)
def test_another_name_is_refused(metadata: JSONObject, text: str) -> None:
    preparation.check_name({"metadata": {"name": "a"}}, "a")
    with pytest.raises(StatusError) as caught:
        preparation.check_name({"metadata": metadata}, "a")
    assert (caught.value.code, caught.value.message) == (400, text)


@pytest.mark.parametrize(
    ("given", "left", "uids"),
    [
        (None, None, None),
        ([OWNER], [OWNER], None),
        ([OWNER, OTHER], [OWNER, OTHER], None),
        ([OWNER, OTHER, dict(reversed(OWNER.items())), OTHER], [OWNER, OTHER], "u1, u2"),
        ([OWNER, {**OWNER, "controller": True}], [OWNER, {**OWNER, "controller": True}], None),
        ([None, OWNER, None], [None, OWNER], ""),
        ([{**OWNER, "x": [1]}, OWNER, {**OWNER, "x": [1]}], [{**OWNER, "x": [1]}, OWNER], "u1"),
        ([{**OWNER, "x": [1]}, {**OWNER, "x": [2]}], [{**OWNER, "x": [1]}, {**OWNER, "x": [2]}], None),
    ],
    ids=[
        "none",
        "one",
        "two",
        "twice in another order",
        "not quite the same",
        "null twice",
        "an unknown list twice",
        "two unknown lists",
    ],
)
def test_owners_are_there_once(given: Any, left: Any, uids: str | None) -> None:
    for admitted, when in ((False, ""), (True, " after mutating admission happens")):
        metadata, warnings = {"ownerReferences": copy.deepcopy(given)}, Warnings()
        preparation.dedup_owner_references(metadata, warnings, admitted=admitted)
        assert metadata["ownerReferences"] == left
        if uids is None:
            assert not list(warnings)
        else:
            (warning,) = warnings
            assert warning.startswith(f".metadata.ownerReferences contains duplicate entries{when}; ")
            assert warning.endswith(f"duplicate UID(s) observed: {uids}")


def _object(*entries: JSONObject, **members: Any) -> JSONObject:
    return {"metadata": {"name": "a", "managedFields": list(entries)}, **members}


def test_times_alone_are_no_change() -> None:
    obj = _object(LATER, {**LATER, "manager": "n"}, spec={"a": 1})
    old = _object(ENTRY, {**LATER, "manager": "n"}, spec={"a": 1})
    preparation.keep_times(obj, old)
    assert obj == old


@pytest.mark.parametrize(
    ("obj", "old"),
    [
        (_object(LATER, spec={"a": 2}), _object(ENTRY, spec={"a": 1})),
        (_object(LATER, spec={"a": 1}), _object(ENTRY, spec={"a": 1.5})),
        (_object({**LATER, "manager": "n"}), _object(ENTRY)),
        (_object({**LATER, "fieldsV1": {}}), _object(ENTRY)),
        (_object(LATER, ENTRY), _object(ENTRY)),
        (_object(LATER), _object()),
        ({"metadata": {}}, _object(ENTRY)),
    ],
    ids=["other value", "other number", "other manager", "other fields", "one more", "the first", "none any more"],
)
def test_times_stay_new_where_something_else_changed(obj: JSONObject, old: JSONObject) -> None:
    wanted = copy.deepcopy(obj)
    preparation.keep_times(obj, old)
    assert obj == wanted
