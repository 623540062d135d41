"""Pruning: the rules as a table, the generated check against the plain form, the law that pruning twice is pruning once."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.schema import structural
from aggserver.schema.pruning import MalformedError, Pruner, prune, prune_object_meta

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"


@dataclass(frozen=True)
class Case:
    """schema: of the root. dropped: the paths told. after: the object, where it changes."""

    schema: dict[str, Any]
    before: Any
    after: Any = None
    dropped: list[str] = field(default_factory=list)


def spec(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": schema}}


STRING = {"type": "string"}
OBJECT_A = {"type": "object", "properties": {"a": STRING}}

CASES = {
    "nothing known": Case(
        {},
        {"apiVersion": "g/v", "kind": "K", "metadata": {"x": 1}, "spec": {"a": 1}},
        {"apiVersion": "g/v", "kind": "K", "metadata": {"x": 1}},
        ["spec"],
    ),
    "known fields stay": Case(spec(OBJECT_A), {"kind": "K", "spec": {"a": "b"}}),
    "unknown fields go, sorted": Case(
        spec(OBJECT_A), {"z": 1, "spec": {"a": "b", "c": 1, "b": {}}}, {"spec": {"a": "b"}}, ["spec.b", "spec.c", "z"]
    ),
    "sorted as text, not as a tree": Case(
        {"properties": {"b": OBJECT_A}}, {"b.c": 1, "b": {"x": 1}, "b-": 1}, {"b": {}}, ["b-", "b.c", "b.x"]
    ),
    "metadata of the root is not pruned by its schema": Case(
        {"properties": {"metadata": OBJECT_A}}, {"metadata": {"name": "n", "labels": {"a": "b"}}}
    ),
    "apiVersion below the root is a field as any other": Case(
        spec(OBJECT_A), {"spec": {"apiVersion": "v1"}}, {"spec": {}}, ["spec.apiVersion"]
    ),
    "items": Case(
        spec({"type": "array", "items": OBJECT_A}),
        {"spec": [{"a": "b"}, {"b": 1}, 5, None, "x"]},
        {"spec": [{"a": "b"}, {}, 5, None, "x"]},
        ["spec[1].b"],
    ),
    "lists of lists": Case(
        spec({"type": "array", "items": {"type": "array", "items": OBJECT_A}}),
        {"spec": [[{"b": 1}], [{"a": "b"}]]},
        {"spec": [[{}], [{"a": "b"}]]},
        ["spec[0][0].b"],
    ),
    "an object where a list should be": Case(
        spec({"type": "array", "items": OBJECT_A}), {"spec": {"a": 1}}, {"spec": {}}, ["spec.a"]
    ),
    "a list where an object should be: nothing is known of its items": Case(
        spec(OBJECT_A), {"spec": [{"a": "b"}, [{"a": "b"}, 1]]}, {"spec": [{}, [{}, 1]]}, ["spec[0].a", "spec[1][0].a"]
    ),
    "an object where a string should be": Case(spec(STRING), {"spec": {"a": {"b": 1}}}, {"spec": {}}, ["spec.a"]),
    "scalars where an object should be": Case({"properties": {"a": OBJECT_A, "b": OBJECT_A}}, {"a": "text", "b": 5}),
    "values of a map": Case(
        spec({"type": "object", "additionalProperties": OBJECT_A}),
        {"spec": {"x": {"a": "b"}, "y": {"b": 1}, "z": 3}},
        {"spec": {"x": {"a": "b"}, "y": {}, "z": 3}},
        ["spec.y.b"],
    ),
    "values of a map of which nothing is said": Case(
        spec({"type": "object", "additionalProperties": True}),
        {"spec": {"x": {"a": "b"}, "y": 1}},
        {"spec": {"x": {}, "y": 1}},
        ["spec.x.a"],
    ),
    "additionalProperties false keeps keys too": Case(
        spec({"type": "object", "additionalProperties": False}), {"spec": {"x": {"a": 1}}}, {"spec": {"x": {}}}, ["spec.x.a"]
    ),
    "properties before additionalProperties": Case(
        spec({"properties": {"p": OBJECT_A}, "additionalProperties": {"properties": {"q": STRING}}}),
        {"spec": {"p": {"q": "1"}, "r": {"q": "1", "a": "2"}}},
        {"spec": {"p": {}, "r": {"q": "1"}}},
        ["spec.p.q", "spec.r.a"],
    ),
    "preserving keeps all": Case(spec({"type": "object", PRESERVE: True}), {"spec": {"a": {"b": [{"c": None}]}}}),
    "preserving at the root": Case({"type": "object", PRESERVE: True}, {"kind": "K", "x": {"y": 1}}),
    "properties under preserving prune again": Case(
        spec({PRESERVE: True, "properties": {"p": OBJECT_A}}),
        {"spec": {"p": {"a": "1", "b": 2}, "q": {"b": 2}}},
        {"spec": {"p": {"a": "1"}, "q": {"b": 2}}},
        ["spec.p.b"],
    ),
    "additionalProperties under preserving prune again": Case(
        spec({PRESERVE: True, "additionalProperties": OBJECT_A}),
        {"spec": {"p": {"a": "1", "b": 2}}},
        {"spec": {"p": {"a": "1"}}},
        ["spec.p.b"],
    ),
    "items under preserving keep, and prune below": Case(
        spec({PRESERVE: True, "items": {"properties": {"p": OBJECT_A}}}),
        {"spec": [{"x": 1, "p": {"b": 2}}]},
        {"spec": [{"x": 1, "p": {}}]},
        ["spec[0].p.b"],
    ),
    "a preserving item in a list that does not": Case(
        spec({"type": "array", "items": {PRESERVE: True, "type": "object"}}), {"spec": [{"x": {"y": 1}}]}
    ),
    "an embedded resource": Case(
        spec({EMBEDDED: True, "type": "object", "properties": {"spec": OBJECT_A}}),
        {"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {"b": 1}, "x": 1}},
        {"spec": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "n"}, "spec": {}}},
        ["spec.spec.b", "spec.x"],
    ),
    "metadata of embedded resources is typed; told last": Case(
        {
            "properties": {
                "preserving": {EMBEDDED: True, PRESERVE: True},
                "nested": {EMBEDDED: True, "properties": {"spec": {"properties": {"inner": {EMBEDDED: True}}}}},
                "list": {"items": {EMBEDDED: True}},
                "map": {"additionalProperties": {EMBEDDED: True}},
            }
        },
        {
            "z": 1,
            "preserving": {"x": 1, "metadata": {"name": "n", "foo": 1, "creationTimestamp": None}},
            "nested": {"metadata": {"foo": 1}, "spec": {"inner": {"metadata": {"foo": 1}, "metadata2": 1}}},
            "list": [{"metadata": {"ownerReferences": [{"uid": "1", "foo": 1}]}}],
            "map": {"k": {"metadata": {"foo": 1}}},
        },
        {
            "preserving": {"x": 1, "metadata": {"name": "n"}},
            "nested": {"metadata": {}, "spec": {"inner": {"metadata": {}}}},
            "list": [{"metadata": {"ownerReferences": [{"uid": "1"}]}}],
            "map": {"k": {"metadata": {}}},
        },
        [
            "nested.spec.inner.metadata2",
            "z",
            "list[0].metadata.ownerReferences[0].foo",
            "map[k].metadata.foo",
            "nested.metadata.foo",
            "nested.spec.inner.metadata.foo",
            "preserving.metadata.foo",
        ],
    ),
    "metadata of an embedded resource that is null": Case(
        spec({EMBEDDED: True}), {"spec": {"metadata": None}}, {"spec": {"metadata": {}}}
    ),
    "nulls go, untold": Case(spec(OBJECT_A), {"spec": {"a": None}}, {"spec": {}}),
    "a null object": Case(spec(OBJECT_A), {"spec": None}, {}),
    "nullable": Case(spec({"properties": {"a": {"type": "string", "nullable": True}}}), {"spec": {"a": None}}),
    "a null that a default will take the place of": Case(
        spec({"properties": {"a": {"type": "string", "default": "x"}}}), {"spec": {"a": None}}
    ),
    "null values of a map": Case(spec({"additionalProperties": STRING}), {"spec": {"a": None, "b": "c"}}, {"spec": {"b": "c"}}),
    "null values of a map beside properties": Case(
        spec({"properties": {"p": {"type": "string", "nullable": True}}, "additionalProperties": STRING}),
        {"spec": {"a": None, "p": None}},
        {"spec": {"p": None}},
    ),
    "null values of a map of which nothing is said": Case(spec({"additionalProperties": True}), {"spec": {"a": None}}),
    "nulls that preserving keeps": Case(
        spec({PRESERVE: True, "properties": {"p": STRING}}), {"spec": {"p": None, "q": None}}, {"spec": {"q": None}}
    ),
    "null items stay": Case(spec({"items": STRING}), {"spec": [None]}),
    "nulls in items": Case(spec({"items": OBJECT_A}), {"spec": [{"a": None}]}, {"spec": [{}]}),
    "a field named like a path": Case(spec(OBJECT_A), {"spec": {"[0]": 1}}, {"spec": {}}, ["spec.[0]"]),
    "a field named like code": Case(
        {"properties": {"'] or x": OBJECT_A}}, {"'] or x": {"b\n": 1}}, {"'] or x": {}}, ["'] or x.b\n"]
    ),
    "int or string": Case(spec({"x-kubernetes-int-or-string": True}), {"spec": 5}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("form", ["plain", "compiled"])
def test_prune(case: Case, form: str) -> None:
    schema = structural.compile(case.schema)
    obj = copy.deepcopy(case.before)
    dropped = prune(obj, schema) if form == "plain" else Pruner(schema)(obj)
    assert obj == (case.before if case.after is None else case.after)
    assert dropped == case.dropped


KEYS = st.sampled_from(["a", "b", "kind", "metadata"])


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    flags = st.fixed_dictionaries(
        {},
        optional={
            "nullable": st.booleans(),
            "default": st.sampled_from([None, "x", {}]),
            PRESERVE: st.just(True),
            EMBEDDED: st.booleans(),
        },
    )

    def grow(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        members = st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(KEYS, inner, max_size=3),
                "items": inner,
                "additionalProperties": st.booleans() | inner,
            },
        )
        return st.builds(lambda left, right: left | right, flags, members)

    return st.recursive(flags, grow, max_leaves=12)


def values() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.integers(0, 2) | st.sampled_from(["", "s"]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.sampled_from(["name", "labels"]), inner, max_size=4)
        ),
        max_leaves=20,
    )


MALFORMED = {
    "metadata that is no object": (
        {"metadata": "text"},
        'spec.metadata: Invalid value: "text": json: cannot unmarshal string into Go value of type v1.ObjectMeta',
    ),
    "labels of another type": (
        {"metadata": {"labels": []}},
        'spec.metadata: Invalid value: {"labels":[]}: '
        "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
    ),
    "kind": ({"kind": 1, "metadata": {}}, "spec.kind: Invalid value: 1: must be a string"),
    "the first by name": ({"kind": None, "apiVersion": {}}, "spec.apiVersion: Invalid value: {}: must be a string"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_embedded_resource(name: str) -> None:
    resource, text = MALFORMED[name]
    schema = structural.compile(spec({EMBEDDED: True}))
    for prune_it in (Pruner(schema), lambda obj: prune(obj, schema)):
        with pytest.raises(MalformedError, match=f"^{re.escape(text)}$"):
            prune_it({"spec": copy.deepcopy(resource)})


@given(schemas(), st.dictionaries(KEYS, values(), max_size=4))
def test_compiled_is_plain_and_twice_is_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    compiled = structural.compile(schema)
    pruner = Pruner(compiled)
    plain, quick = copy.deepcopy(obj), copy.deepcopy(obj)
    try:
        dropped = pruner(quick)
    except MalformedError as error:
        with pytest.raises(MalformedError, match=re.escape(str(error))):
            prune(plain, compiled)
        return
    assert dropped == prune(plain, compiled)
    assert quick == plain
    assert pruner(quick) == prune(plain, compiled) == []
    assert quick == plain


def test_deep_lists_that_nothing_is_known_of() -> None:
    value: Any = {"x": 1}
    for _ in range(20_000):
        value = [value]
    dropped = Pruner(structural.compile(spec(OBJECT_A)))({"spec": value})
    assert dropped == ["spec" + "[0]" * 20_000 + ".x"]


def test_deepest_schema() -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: Any = {"unknown": 1}
    for _ in range(structural.MAX_DEPTH):
        schema, value = {"type": "object", "properties": {"a": schema}}, {"a": value}
    dropped = Pruner(structural.compile(schema))(value)
    assert dropped == ["a." * structural.MAX_DEPTH + "unknown"]


METADATA = {
    "clean": ({"name": "n", "labels": {"a": ""}, "generation": 1, "deletionGracePeriodSeconds": 0}, None, []),
    "unknown fields": ({"name": "n", "foo": 1, "bar": None}, {"name": "n"}, ["metadata.bar", "metadata.foo"]),
    "a field in the wrong case": ({"Name": "n"}, {}, ["metadata.Name"]),
    "null time": ({"name": "n", "creationTimestamp": None}, {"name": "n"}, []),
    "members that say nothing": (
        {"name": "n", "namespace": "", "labels": {}, "finalizers": [], "generation": 0},
        {"name": "n"},
        [],
    ),
    "null labels": ({"labels": {"a": None, "b": "c"}}, {"labels": {"a": "", "b": "c"}}, []),
    "owner references": (
        {"ownerReferences": [{"uid": "1", "controller": False}, {"uid": "2", "x": 1, "controller": None}]},
        {"ownerReferences": [{"uid": "1", "controller": False}, {"uid": "2"}]},
        ["metadata.ownerReferences[1].x"],
    ),
    "managed fields: all is known below fieldsV1": (
        {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}, "x": 1, "time": None}], "zz": 1},
        {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]},
        ["metadata.managedFields[0].x", "metadata.zz"],
    ),
    "wrong types are left": ({"labels": 5, "ownerReferences": "x", "managedFields": [5], "generation": "0"}, None, []),
}


@pytest.mark.parametrize(("before", "after", "dropped"), METADATA.values(), ids=METADATA)
def test_prune_object_meta(before: dict[str, Any], after: dict[str, Any] | None, dropped: list[str]) -> None:
    metadata = copy.deepcopy(before)
    assert prune_object_meta(metadata) == dropped
    assert metadata == (before if after is None else after)
