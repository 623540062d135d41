"""Laws of patches: they change nothing in place, and undo or repeat as they should."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aggserver.merge.patch import JsonPatchError, PatchOperation, apply_json_patch, merge_patch

KEYS = st.sampled_from(["a", "b", "c", "a/b", "m~n", ""])
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", ""])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=10
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_changes_nothing_in_place_and_is_idempotent(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    once = merge_patch(target, patch)
    twice = merge_patch(once, patch)
    assert (target, patch) == before
    for key in patch:
        if not isinstance(patch[key], dict | list):
            assert once.get(key) == patch[key]
    assert twice.keys() == once.keys()


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    return any(map(has_null, value)) if isinstance(value, list) else value is None


@given(OBJECTS, OBJECTS.filter(lambda value: not has_null(value)))
def test_there_is_a_merge_patch_between_any_two_objects(target: dict[str, Any], wanted: dict[str, Any]) -> None:
    def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        patch: dict[str, Any] = {key: None for key in old if key not in new}
        for key, value in new.items():
            former = old.get(key)
            patch[key] = difference(former, value) if isinstance(former, dict) and isinstance(value, dict) else value
        return patch

    assert merge_patch(target, difference(target, wanted)) == wanted


SEGMENTS = st.sampled_from(["a", "b", "a~1b", "m~0n", "", "0", "1", "-1", "-", "9"])
PATHS = st.none() | st.lists(SEGMENTS, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS = st.builds(
    PatchOperation, st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), PATHS, PATHS, VALUES
)


@given(OBJECTS, st.lists(OPERATIONS, max_size=4))
def test_a_json_patch_changes_nothing_in_place(document: Any, operations: list[PatchOperation]) -> None:
    before = copy.deepcopy((document, operations))
    try:
        patched = apply_json_patch(document, operations)
    except JsonPatchError:
        patched = None
    assert (document, operations) == before
    if patched is not None:
        assert apply_json_patch(document, operations) == patched


@given(OBJECTS, KEYS, VALUES)
def test_what_is_added_can_be_tested_moved_and_removed(document: dict[str, Any], key: str, value: Any) -> None:
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    added = apply_json_patch(document, [PatchOperation("add", path, value=value), PatchOperation("test", path, value=value)])
    assert added == document | {key: value}
    moved = apply_json_patch(added, [PatchOperation("move", "/moved", from_path=path)])
    rest = {name: member for name, member in document.items() if name != key}
    assert moved == rest | {"moved": value}
    assert apply_json_patch(moved, [PatchOperation("remove", "/moved")]) == rest
