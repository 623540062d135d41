"""Laws of sharing: a write whose object shares parts with the current one changes nothing of the current one in place."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aggserver.merge.atom import of_resource
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import no_other_version
from aggserver.merge.patch import merge_patch
from aggserver.meta.errors import StatusError
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.pruning import MalformedError

JSONObject = dict[str, Any]

NAMES = ["a", "b", "c", "unknown"]
LEAF: JSONObject = {"type": "string", "default": "plain"}
INNER: JSONObject = {
    "type": "object",
    "default": {},
    "properties": {"a": LEAF, "b": {"type": "string", "nullable": True}, "c": {"type": "integer"}},
}
KEYED: JSONObject = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}, "b": LEAF}}
EMBEDDED: JSONObject = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "a": INNER,
                "b": {"type": "object", "additionalProperties": INNER},
                "c": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": KEYED},
                "unknown": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": INNER}},
            },
        },
        "a": {"type": "array", "items": INNER},
        "b": EMBEDDED,
    },
}
V1 = "example.com/v1"
COMPILED = CompiledSchema(SCHEMA)
ATOM = of_resource(COMPILED.structural)
FIELDS = FieldManager(V1, "Sample", lambda _: ATOM, no_other_version)

SCALARS = st.none() | st.integers(0, 2) | st.sampled_from(["x", "plain", ""])
INNERS = st.dictionaries(st.sampled_from(NAMES), SCALARS, max_size=4)
ITEMS = st.lists(st.builds(lambda key, rest: rest | {"a": key}, st.sampled_from(["x", "y", "z"]), INNERS), max_size=3)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "a": INNERS | st.none(),
        "b": st.dictionaries(st.sampled_from(NAMES), INNERS | st.none(), max_size=3),
        "c": ITEMS,
        "unknown": st.dictionaries(st.sampled_from(NAMES), INNERS, max_size=3),
    },
)
METADATA = st.fixed_dictionaries(
    {}, optional={"labels": st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["x", None]), max_size=2), "more": SCALARS}
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={
        "spec": SPECS,
        "a": st.lists(INNERS, max_size=2),
        "b": st.builds(lambda metadata: {"apiVersion": "v1", "kind": "Other", "metadata": metadata}, METADATA),
    },
)


def conformed(given: JSONObject) -> JSONObject:
    obj = copy.deepcopy({"apiVersion": V1, "kind": "Sample", **given})
    COMPILED.conform(obj)
    return obj


@given(OBJECTS, OBJECTS)
def test_a_patched_object_is_conformed_without_a_change_of_the_current_one(given_object: Any, patch: Any) -> None:
    current = conformed(given_object)
    before = copy.deepcopy(current)
    patched = merge_patch(current, patch)
    apart = copy.deepcopy(patched)
    try:
        COMPILED.conform(patched)
    except MalformedError:
        return
    finally:
        assert current == before
    COMPILED.conform(apart)
    assert patched == apart


@given(OBJECTS, OBJECTS, OBJECTS)
def test_an_apply_changes_nothing_of_the_current_object(given_object: Any, first: Any, second: Any) -> None:
    def applied(live: JSONObject, given: JSONObject) -> JSONObject:
        config = copy.deepcopy({"apiVersion": V1, "kind": "Sample", **given})
        made = FIELDS.apply(live, config, "applier", force=True, now="2026-01-02T03:04:05Z", default=COMPILED.default)
        COMPILED.prune_converted(made)
        return made

    try:
        # Two applies, so that the second one also removes what the first one had.
        current = applied(conformed(given_object), first)
        COMPILED.conform(current)
        before = copy.deepcopy(current)
        apart = copy.deepcopy(current)
        made = applied(current, second)
    except StatusError:
        return
    assert current == before
    assert made == applied(apart, second)
