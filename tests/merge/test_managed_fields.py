"""Managed fields: who writes, when, and which entries are kept."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from aggserver.merge import managed_fields
from aggserver.merge.atom import of_resource
from aggserver.merge.managed_fields import FieldManager, ManagedFieldsError
from aggserver.merge.managers import MissingVersionError
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural

V1, V2 = "example.com/v1", "example.com/v2"
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "color": {"type": "string"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
                },
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
ATOM = of_resource(structural.compile(SCHEMA))


def convert(obj: JSONObject, api_version: str) -> JSONObject:
    if api_version not in (V1, V2):
        raise MissingVersionError
    return {**obj, "apiVersion": api_version}


def manager(subresource: str = "", **ignored: Any) -> FieldManager:
    return FieldManager(V1, "Thing", lambda _: ATOM, convert, subresource, {V1: ignored} if ignored else {})


def thing(metadata: JSONObject | None = None, **members: Any) -> JSONObject:
    return {"apiVersion": V1, "kind": "Thing", "metadata": {"name": "a", "uid": "u", **(metadata or {})}, **members}


def entry(name: str, operation: str, fields: JSONObject, time: str | None = NOON, **more: str) -> JSONObject:
    made = {"apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": name, "operation": operation, **more}
    return made | ({"time": time} if time else {})


def spec(**fields: JSONObject) -> JSONObject:
    return {"f:spec": {f"f:{name}": node for name, node in fields.items()}}


def updated(live: JSONObject | None, new: JSONObject, name: str = "m", now: str = NOON, of: FieldManager | None = None) -> Any:
    made = copy.deepcopy(new)
    (of or manager()).update(live, made, name, now)
    return made["metadata"].get("managedFields")


def test_a_create_is_owned_without_what_the_server_sets() -> None:
    made = updated(None, thing({"labels": {"x": "y"}, "generation": 1}, spec={"size": 1}))
    fields = {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {".": {}, "f:size": {}}}
    assert made == [entry("m", "Update", fields)]
    assert list(made[0]) == ["apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "time"]


def test_an_update_that_changes_nothing_leaves_all_as_it_is() -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}))]}, spec={"size": 1})
    made = updated(live, live, now=LATER)
    assert made == live["metadata"]["managedFields"]


def test_entries_that_a_write_does_not_change_stay_the_objects_they_were() -> None:
    mine, other = entry("m", "Apply", spec(color={})), entry("n", "Update", spec(size={}))
    live = thing({"managedFields": [mine, other]}, spec={"size": 1, "color": "x"})
    new = thing(spec={"size": 1, "color": "x"})
    manager().update(live, new, "m", LATER)
    assert all(made is given for made, given in zip(new["metadata"]["managedFields"], [mine, other], strict=True))
    made = manager().apply(live, thing({"uid": "u"}, spec={"color": "y"}), "m", force=False, now=LATER)
    applied, kept = made["metadata"]["managedFields"]
    assert (applied["time"], applied["fieldsV1"] is mine["fieldsV1"], kept is other) == (LATER, True, True)


def test_an_update_of_the_same_fields_keeps_the_set() -> None:
    fields = spec(size={}, color={})
    live = thing({"managedFields": [entry("m", "Update", fields)]}, spec={"size": 1, "color": "x"})
    (made,) = updated(
        live, thing({"managedFields": live["metadata"]["managedFields"]}, spec={"size": 2, "color": "x"}), now=LATER
    )
    assert (made["fieldsV1"], made["time"]) == (fields, LATER)


def test_what_changes_changes_hands() -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}, color={}))]}, spec={"size": 1, "color": "x"})
    made = updated(live, thing(spec={"size": 2, "color": "x"}), "other", LATER)
    assert made == [entry("m", "Update", spec(color={})), entry("other", "Update", spec(size={}), LATER)]


def test_what_was_not_owned_stays_so_until_somebody_applies() -> None:
    assert updated(thing(spec={"size": 1}), thing(spec={"size": 2})) is None


@pytest.mark.parametrize("entries", [[], [{}], [None]], ids=["empty", "one empty", "one null"])
def test_a_reset(entries: list[JSONObject | None]) -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}))]}, spec={"size": 1})
    assert updated(live, thing({"managedFields": entries}, spec={"size": 1})) is None


def test_entries_that_are_none_are_passed_over() -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}))]}, spec={"size": 1})
    given = thing({"managedFields": [entry("m", "Remove", spec(size={}))]}, spec={"size": 1})
    assert updated(live, given) == live["metadata"]["managedFields"]


def test_times_are_written_as_the_server_writes_them() -> None:
    live = thing(spec={"size": 1})
    given = thing({"managedFields": [entry("m", "Update", spec(size={}), "2026-01-01T14:00:00.5+02:00")]}, spec={"size": 1})
    assert updated(live, given) == [entry("m", "Update", spec(size={}))]


def test_a_null_beside_entries_is_none() -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}))]}, spec={"size": 1})
    given = thing({"managedFields": [None, entry("other", "Update", spec(size={}))]}, spec={"size": 1})
    assert updated(live, given) == live["metadata"]["managedFields"]


def test_what_a_new_object_of_a_built_in_kind_has_is_there_already() -> None:
    of = FieldManager(V1, "Thing", lambda _: ATOM, convert, zero=lambda: {"spec": {"color": ""}})
    made = updated(None, thing(spec={"size": 1, "color": ""}), of=of)
    assert made == [entry("m", "Update", spec(size={}))]


def test_a_subresource_has_entries_of_its_own_and_takes_none_from_the_body() -> None:
    kept = entry("m", "Update", spec(size={}))
    live = thing({"managedFields": [kept]}, spec={"size": 1}, status={"phase": "a"})
    given = thing({"managedFields": [{}]}, spec={"size": 1}, status={"phase": "b"})
    made = updated(live, given, now=LATER, of=manager("status", **{"f:spec": {}}))
    assert made == [kept, entry("m", "Update", {"f:status": {"f:phase": {}}}, LATER, subresource="status")]


def test_who_writes_the_status_of_another_kind_leaves_nobody_as_owner() -> None:
    live = thing({"managedFields": [entry("m", "Update", spec(size={}))]}, spec={"size": 1})
    assert updated(live, {**live, "kind": "Other", "status": {}}, of=manager("status")) is None


def test_ten_writers_at_most() -> None:
    obj = thing(spec={"size": 0})
    entries: Any = updated(None, obj, "m0")
    for number in range(1, 15):
        live, obj = thing({"managedFields": entries}, spec={"size": number}), thing(spec={"size": number + 1})
        obj["metadata"]["labels"] = {f"l{n}": "" for n in range(number + 1)}
        live["metadata"]["labels"] = {f"l{n}": "" for n in range(number)}
        entries = updated(live, obj, f"m{number:02}", f"2026-01-01T12:00:{number:02}Z")
    assert len(entries) == managed_fields.MAX_UPDATE_MANAGERS
    assert entries[0]["manager"] == "ancient-changes"
    assert len(entries[0]["fieldsV1"]["f:metadata"]["f:labels"]) == 5


def test_versions_that_are_gone_own_nothing() -> None:
    old = {**entry("old", "Update", spec(size={})), "apiVersion": "example.com/v0"}
    live = thing({"managedFields": [old, entry("m", "Update", spec(color={}))]}, spec={"size": 1, "color": "x"})
    made = updated(live, thing(spec={"size": 1, "color": "y"}), now=LATER)
    assert [each["manager"] for each in made] == ["m"]


def config(name: str = "a", **members: Any) -> JSONObject:
    return {"apiVersion": V1, "kind": "Thing", "metadata": {"name": name}, **members}


def test_what_another_version_ignores_stays_with_its_owner() -> None:
    fields = {**spec(size={}), "f:status": {"f:phase": {}}}
    live = thing({"managedFields": [entry("v2", "Update", fields, apiVersion=V2)]}, spec={"size": 1}, status={"phase": "x"})
    of = FieldManager(V1, "Thing", lambda _: ATOM, convert, "", {V2: {"f:status": {}}})
    made = updated(live, thing(spec={"size": 2}, status={"phase": "y"}), of=of)
    assert {each["manager"]: each["fieldsV1"] for each in made} == {"v2": {"f:status": {"f:phase": {}}}, "m": fields}


def test_apply_to_nothing() -> None:
    made = manager().apply(None, config(spec={"parts": [{"name": "x", "n": 1}]}), "m", force=False, now=NOON)
    parts = {'k:{"name":"x"}': {".": {}, "f:n": {}, "f:name": {}}}
    assert made["metadata"]["managedFields"] == [entry("m", "Apply", spec(parts=parts))]
    assert made["spec"] == {"parts": [{"name": "x", "n": 1}]}


def test_apply_removes_what_it_says_no_more() -> None:
    first = manager().apply(None, config(spec={"size": 1, "color": "x"}), "m", force=False, now=NOON)
    second = manager().apply(first, config(spec={"size": 1}), "m", force=False, now=LATER)
    assert second["spec"] == {"size": 1}
    assert second["metadata"]["managedFields"] == [entry("m", "Apply", spec(size={}), LATER)]


def test_apply_of_the_same_changes_nothing() -> None:
    first = manager().apply(None, config(spec={"size": 1}), "m", force=False, now=NOON)
    assert manager().apply(first, config(spec={"size": 1}), "m", force=False, now=LATER) == first


def test_what_was_there_before_the_first_apply() -> None:
    made = manager().apply(thing(spec={"size": 1}), config(spec={"color": "x"}), "m", force=False, now=NOON)
    before = entry("before-first-apply", "Update", {"f:spec": {".": {}, "f:size": {}}})
    assert made["metadata"]["managedFields"] == [entry("m", "Apply", spec(color={})), before]


CONFLICTS = {
    "one": ({"size": 2}, 'Apply failed with 1 conflict: conflict with "b" using example.com/v1: .spec.size'),
    "several": (
        {"size": 2, "color": "y"},
        "Apply failed with 2 conflicts: "
        'conflicts with "b" using example.com/v1:\n- .spec.size\n'
        'conflicts with "c" with subresource "status":\n- .spec.color',
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_conflicts(name: str) -> None:
    members, text = CONFLICTS[name]
    entries = [entry("c", "Apply", spec(color={}), subresource="status"), entry("b", "Update", spec(size={}))]
    live = thing({"managedFields": entries}, spec={"size": 1, "color": "x"})
    with pytest.raises(StatusError) as caught:
        manager().apply(live, config(spec=members), "m", force=False, now=NOON)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "Conflict", text)
    assert {cause.reason for cause in caught.value.causes} == {"FieldManagerConflict"}
    forced = manager().apply(live, config(spec=members), "m", force=True, now=LATER)
    assert forced["spec"]["size"] == 2


def test_conflicts_are_counted_and_told_as_far_as_they_fit() -> None:
    parts = [{"name": f"{index:0100}", "n": 1} for index in range(20_000)]
    live = manager().apply(None, config(spec={"parts": parts}), "m", force=False, now=NOON)
    changed = [{**part, "n": 2} for part in parts]
    with pytest.raises(StatusError) as caught:
        manager().apply(live, config(spec={"parts": changed}), "other", force=False, now=NOON)
    assert caught.value.message.startswith('Apply failed with 20000 conflicts: conflicts with "m":\n- .spec.parts[name=')
    assert 100_000 < len(caught.value.message) < 1024 * 1024


def test_errors_are_told_as_far_as_they_fit() -> None:
    wrong = [{"name": f"{index:0100}", "n": "x"} for index in range(20_000)]
    with pytest.raises(StatusError) as caught:
        manager().apply(None, config(spec={"parts": wrong}), "m", force=False, now=NOON)
    assert 100_000 < len(caught.value.message) < 1024 * 1024


REFUSED = {
    "of another kind": ({"kind": "Other"}, 400, "invalid object type: example.com/v1, Kind=Other"),
    "with managedFields": ({"metadata": {"name": "a", "managedFields": []}}, 400, "metadata.managedFields must be nil"),
    "of a version that is none": ({"apiVersion": "a/b/c"}, 400, "invalid object type: /, Kind="),
    "of a kind that is none": ({"kind": 1}, 400, "invalid object type: example.com/v1, Kind="),
    "with metadata that is none": (
        {"metadata": []},
        500,
        "failed to create typed patch object (/; example.com/v1, Kind=Thing): .metadata: expected map, got &{[]}",
    ),
    "with a name that is none": (
        {"metadata": {"name": 1}},
        500,
        "failed to create typed patch object (/; example.com/v1, Kind=Thing): "
        ".metadata.name: expected string, got &value.valueUnstructured{Value:1}",
    ),
    "with managedFields that are none": (
        {"metadata": {"name": "a", "managedFields": "x"}},
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Thing): .metadata.managedFields: expected list, got &{x}",
    ),
    "true for a map": (
        {"spec": True},
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Thing): .spec: expected map, got &{true}",
    ),
    "false for a map": (
        {"spec": False},
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Thing): .spec: expected map, got &{false}",
    ),
    "of another type": (
        {"spec": {"size": "x"}},
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Thing): "
        ".spec.size: expected numeric (int or float), got string",
    ),
    "a field that is not there": (
        {"spec": {"nothing": 1}},
        500,
        "failed to create typed patch object (/a; example.com/v1, Kind=Thing): .spec.nothing: field not declared in schema",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    members, code, text = REFUSED[name]
    with pytest.raises(StatusError) as caught:
        manager().apply(None, config() | members, "m", force=True, now=NOON)
    assert (caught.value.code, caught.value.message) == (code, text)


def owned_by_update(fields: JSONObject) -> JSONObject:
    return {"managedFields": [entry("m", "Update", fields)]}


# name: (metadata and spec of the object that is there, the error of an apply)
UNFIT: dict[str, tuple[JSONObject, JSONObject, str]] = {
    "before the first apply": (
        {},
        {"size": "x"},
        "failed to create manager for existing fields: "
        "failed to convert new object (/a; example.com/v1, Kind=Thing) to smd typed: "
        ".spec.size: expected numeric (int or float), got string",
    ),
    "a scalar": (
        owned_by_update(spec(size={})),
        {"size": "x"},
        "failed to create typed live object (/a; example.com/v1, Kind=Thing): "
        ".spec.size: expected numeric (int or float), got string",
    ),
    "an item without its key": (
        owned_by_update(spec(size={})),
        {"parts": [{"n": 1}]},
        "failed to create typed live object (/a; example.com/v1, Kind=Thing): .spec.parts: element 0: associative list with keys "
        'has an element that omits all key fields ["name"] (and doesn\'t have default values for any key fields)',
    ),
    "managedFields": (
        {"managedFields": [entry("m", "Remove", {})]},
        {"size": 1},
        "failed to decode managed fields: operation must be `Apply` or `Update`",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_an_apply_to_what_does_not_fit(name: str) -> None:
    metadata, members, text = UNFIT[name]
    with pytest.raises(StatusError) as caught:
        manager().apply(thing(metadata, spec=members), config(spec={"color": "x"}), "m", force=False, now=NOON)
    assert (caught.value.code, caught.value.message) == (500, text)


def test_kubectl_takes_over_what_it_applied_by_itself() -> None:
    applied = '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"size":1}}'
    annotations = {managed_fields._LAST_APPLIED: applied}
    live = thing({"annotations": annotations, "managedFields": [entry("kubectl-client-side-apply", "Update", spec(size={}))]})
    live["spec"] = {"size": 1}
    made = manager().apply(live, config(spec={"size": 2}), "kubectl", force=False, now=NOON)
    assert made["spec"] == {"size": 2}
    text = made["metadata"]["annotations"][managed_fields._LAST_APPLIED]
    assert text == '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"size":2}}\n'
    live["spec"] = {"size": 3}  # somebody changed it since
    with pytest.raises(StatusError, match="conflict with"):
        manager().apply(live, config(spec={"size": 2}), "kubectl", force=False, now=NOON)


TWICE = [{"name": "a"}, {"name": "a"}]


@pytest.mark.parametrize(
    ("annotated", "there"),
    [
        pytest.param({"parts": TWICE}, {}, id="the annotation does not fit"),
        pytest.param({}, {"parts": TWICE}, id="the object does not fit"),
    ],
)
def test_kubectl_takes_nothing_over_where_something_does_not_fit(annotated: JSONObject, there: JSONObject) -> None:
    applied = json.dumps(config(spec={"size": 1, **annotated}))
    live = thing({"annotations": {managed_fields._LAST_APPLIED: applied}}, spec={"size": 1, **there})
    live["metadata"]["managedFields"] = [entry("kubectl-client-side-apply", "Update", spec(size={}))]
    with pytest.raises(StatusError, match="conflict with"):
        manager().apply(live, config(spec={"size": 2}), "kubectl", force=False, now=NOON)


def test_managed_fields_that_can_not_be_read_are_passed_over_in_an_apply() -> None:
    made = manager().apply(
        None, config() | {"metadata": {"name": "a", "managedFields": [{"time": "x"}]}}, "m", force=False, now=NOON
    )
    assert "managedFields" not in made["metadata"]  # and nothing is owned of an object without fields


def test_the_annotation_of_kubectl_is_written_as_go_writes_json() -> None:
    annotations = {managed_fields._LAST_APPLIED: "{}"}
    given = config(spec={"color": "<é>\u2028"}) | {"metadata": {"name": "a", "annotations": annotations}}
    made = manager().apply(None, given, "kubectl", force=False, now=NOON)
    assert made["metadata"]["annotations"][managed_fields._LAST_APPLIED] == (
        '{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"annotations":{},"name":"a"},'
        '"spec":{"color":"\\u003cé\\u003e\\u2028"}}\n'
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"operation": "x"}, "operation must be"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "FieldsV2"}, 'invalid fieldsType "FieldsV2" in managed fields entry 0'),
        ({"fieldsV1": {"f": {}}}, "error decoding set"),
    ],
)
def test_no_entries(given: JSONObject, text: str) -> None:
    with pytest.raises(ManagedFieldsError, match=text):
        managed_fields.decode([entry("m", "Update", {}) | given])
