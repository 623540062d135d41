import copy
import itertools
import json
from typing import Any

import pytest

from aggserver.merge import patch
from aggserver.merge.patch import InvalidPatch, JsonPatchError, PatchOperation, TooManyOperations

# RFC 7386, appendix A: target, patch, result. A null target or result is that of the table.
RFC_7386: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]

# What upstream's library does and the RFC does not say.
BEYOND_THE_RFC: dict[str, tuple[Any, Any, Any]] = {
    "nulls in an array that is new": ({}, {"a": [{"b": None, "c": [{"d": None}]}, None]}, {"a": [{"c": [{}]}, None]}),
    "nulls in an array over an array": ({"a": [1]}, {"a": [{"b": None}]}, {"a": [{}]}),
    "nulls in an array over null": ({"a": None}, {"a": [{"b": None}]}, {"a": [{}]}),
    "nulls in an array over an object": ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    "object over a scalar": ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
}


@pytest.mark.parametrize(("target", "change", "result"), [*RFC_7386, *BEYOND_THE_RFC.values()])
def test_merge_patch(target: Any, change: Any, result: Any) -> None:
    before = copy.deepcopy((target, change))
    assert patch.merge_patch(target, change) == result
    assert (target, change) == before


def test_merge_patch_copies_only_what_changes() -> None:
    target = {"a": {"b": 1}, "c": {"d": 2}}
    change = {"a": {"e": [1]}}
    merged = patch.merge_patch(target, change)
    assert merged["c"] is target["c"]
    assert merged["a"] is not target["a"]
    assert merged["a"]["e"] is not change["a"]["e"]


NO_MERGE_PATCHES = {
    "null": (b"null", "Invalid JSON Patch"),
    "array": (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    "string": (b'"a"', "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    "malformed": (b"{", "error decoding patch: unexpected end of JSON input"),
}


@pytest.mark.parametrize(("body", "error"), NO_MERGE_PATCHES.values(), ids=NO_MERGE_PATCHES)
def test_merge_patch_refused(body: bytes, error: str) -> None:
    with pytest.raises(InvalidPatch) as refusal:
        patch.parse_merge_patch(patch.decode(body)[0])
    assert str(refusal.value) == error


def test_parse_merge_patch() -> None:
    assert patch.parse_merge_patch({"a": None}) == {"a": None}


def applied(document: Any, operations: Any) -> Any:
    before = copy.deepcopy(document)
    parsed = patch.parse_json_patch(operations)
    try:
        result = patch.apply_json_patch(document, parsed)
        assert patch.apply_json_patch(document, parsed) == result
    finally:
        assert document == before
    return result


# RFC 6902, appendix A, where the patch applies: document, patch, result.
RFC_6902: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "A.1 adding an object member": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    "A.2 adding an array element": (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "A.3 removing an object member": ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    "A.4 removing an array element": (
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    "A.5 replacing a value": (
        {"baz": "qux", "foo": "bar"},
        [{"op": "replace", "path": "/baz", "value": "boo"}],
        {"baz": "boo", "foo": "bar"},
    ),
    "A.6 moving a value": (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "A.7 moving an array element": (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "A.8 testing a value: success": (
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    "A.10 adding a nested member object": (
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "A.11 ignoring unrecognized elements": (
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}],
        {"foo": "bar", "baz": "qux"},
    ),
    "A.14 ~ escape ordering": (
        {"/": 9, "~1": 10},
        [{"op": "test", "path": "/~01", "value": 10}],
        {"/": 9, "~1": 10},
    ),
    "A.16 adding an array value": (
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}],
        {"foo": ["bar", ["abc", "def"]]},
    ),
}

# Where the library is laxer than the RFC, and other edges.
EDGES: dict[str, tuple[Any, list[dict[str, Any]], Any]] = {
    "null": ({"a": 1}, [], {"a": 1}),
    "replace of a member that isn't there": ({}, [{"op": "replace", "path": "/a", "value": 1}], {"a": 1}),
    "replace of the document": ({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1]),
    "copy of a member that isn't there": ({}, [{"op": "copy", "from": "/a", "path": "/b"}], {"b": None}),
    "test of null for a member that isn't there": ({}, [{"op": "test", "path": "/a", "value": None}], {}),
    "test without a value": ({"a": None}, [{"op": "test", "path": "/a"}], {"a": None}),
    "test of the document": ({"a": [1, {"b": True}]}, [{"op": "test", "path": "", "value": {"a": [1, {"b": True}]}}], None),
    "index from the end": ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/-1"}], {"a": [1, 2]}),
    "add at an index from the end": ({"a": [1, 2]}, [{"op": "add", "path": "/a/-1", "value": 3}], {"a": [1, 2, 3]}),
    "add behind the last": ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
    "index with zeros and sign": ({"a": [1, 2]}, [{"op": "replace", "path": "/a/+01", "value": 3}], {"a": [1, 3]}),
    "path without a slash in front": ({}, [{"op": "add", "path": "x/a", "value": 1}], {"a": 1}),
    "empty name": ({}, [{"op": "add", "path": "/", "value": 1}], {"": 1}),
    "add without a value": ({}, [{"op": "add", "path": "/a"}], {"a": None}),
    "escapes": ({"a/b": {"m~n": 1}}, [{"op": "remove", "path": "/a~1b/m~0n"}], {"a/b": {}}),
    "copy is apart from its source": (
        {"a": {"b": 1}},
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "add", "path": "/c/b", "value": 2}],
        {"a": {"b": 1}, "c": {"b": 2}},
    ),
    "a change within what was added": (
        {},
        [{"op": "add", "path": "/a", "value": {"b": []}}, {"op": "add", "path": "/a/b/-", "value": 1}],
        {"a": {"b": [1]}},
    ),
    "1.0 is 1": ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
}
EDGES["test of the document"] = (*EDGES["test of the document"][:2], EDGES["test of the document"][0])


@pytest.mark.parametrize(("document", "operations", "result"), [*RFC_6902.values(), *EDGES.values()], ids=[*RFC_6902, *EDGES])
def test_json_patch(document: Any, operations: Any, result: Any) -> None:
    assert applied(document, operations) == result


REJECTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "A.9 testing a value: error": ({"baz": "qux"}, {"op": "test", "path": "/baz", "value": "bar"}),
    "A.12 adding to a nonexistent target": ({"foo": "bar"}, {"op": "add", "path": "/baz/bat", "value": "qux"}),
    "A.15 comparing strings and numbers": ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": "10"}),
    "true is not 1": ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
    "test of fewer members": ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {}}),
    "test of more elements": ({"a": [1]}, {"op": "test", "path": "/a", "value": [1, 2]}),
    "test of what isn't there": ({}, {"op": "test", "path": "/a", "value": 1}),
    "test of an element that isn't there": ({"a": []}, {"op": "test", "path": "/a/0", "value": None}),
    "remove of what isn't there": ({}, {"op": "remove", "path": "/a"}),
    "remove of an element that isn't there": ({"a": [1]}, {"op": "remove", "path": "/a/1"}),
    "remove behind the last": ({"a": [1]}, {"op": "remove", "path": "/a/-"}),
    "replace of an element that isn't there": ({"a": [1]}, {"op": "replace", "path": "/a/1", "value": 1}),
    "add past the end": ({"a": [1]}, {"op": "add", "path": "/a/2", "value": 1}),
    "add before the beginning": ({"a": [1]}, {"op": "add", "path": "/a/-3", "value": 1}),
    "add below a scalar": ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}),
    "add below null": ({"a": None}, {"op": "add", "path": "/a/b", "value": 1}),
    "add of the document": ({}, {"op": "add", "path": "", "value": {}}),
    "replace of the document with a scalar": ({}, {"op": "replace", "path": "", "value": 1}),
    "remove of the document": ({}, {"op": "remove", "path": ""}),
    "no index": ({"a": [1]}, {"op": "add", "path": "/a/x", "value": 1}),
    "no path": ({}, {"op": "add", "value": 1}),
    "no from": ({}, {"op": "move", "path": "/a"}),
    "move of what isn't there": ({}, {"op": "move", "from": "/a", "path": "/b"}),
    "move into itself": ({"a": {"b": {}}}, {"op": "move", "from": "/a", "path": "/a/b"}),
    "copy to nowhere": ({"a": 1}, {"op": "copy", "from": "/a", "path": "/b/c"}),
    "unknown operation": ({}, {"op": "merge", "path": "/a"}),
    "no operation": ({}, {"path": "/a"}),
}


@pytest.mark.parametrize(("document", "operation"), REJECTED.values(), ids=REJECTED)
def test_json_patch_rejected(document: Any, operation: Any) -> None:
    with pytest.raises(JsonPatchError):
        applied(document, [{"op": "add", "path": "/first", "value": 1}, operation])


def test_nothing_is_applied_where_one_operation_fails() -> None:
    document = {"a": [1]}
    with pytest.raises(JsonPatchError):
        applied(document, [{"op": "add", "path": "/a/-", "value": 2}, {"op": "test", "path": "/a", "value": []}])


def test_json_patch_copies_only_what_changes() -> None:
    document = {"a": {"b": 1}, "c": {"d": 2}}
    operation = PatchOperation("add", "/a/e", value={"f": []})
    result = patch.apply_json_patch(document, [operation])
    assert result["c"] is document["c"]
    assert result["a"]["e"] is not operation.value
    assert patch.apply_json_patch(document, []) is document
    read = [PatchOperation("test", "/a/b", value=1), PatchOperation("copy", "/g", "/a/b")]
    result = patch.apply_json_patch(document, read)
    assert (result["a"] is document["a"], result["g"]) == (True, 1)


def test_copies_are_bounded() -> None:
    document = {"a": "x" * 1024 * 1024}
    copies = [{"op": "copy", "from": "/a", "path": f"/b{number}"} for number in range(3)]
    with pytest.raises(JsonPatchError, match="accumulated size"):
        applied(document, copies)
    assert len(applied(document, copies[:2])) == 3


NO_JSON_PATCHES = {
    "object": (b"{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    "number within": (b"[1]", "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    "boolean within": (b"[true]", "error decoding patch: json: cannot unmarshal bool into Go value of type handlers.jsonPatchOp"),
    "operation": (
        b'[{"op":1}]',
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    ),
    "path": (
        b'[{"path":[]}]',
        "error decoding patch: json: cannot unmarshal array into Go struct field jsonPatchOp.path of type string",
    ),
    "malformed": (b"[", "error decoding patch: unexpected end of JSON input"),
}


@pytest.mark.parametrize(("body", "error"), NO_JSON_PATCHES.values(), ids=NO_JSON_PATCHES)
def test_json_patch_refused(body: bytes, error: str) -> None:
    with pytest.raises(InvalidPatch) as refusal:
        patch.parse_json_patch(patch.decode(body)[0])
    assert str(refusal.value) == error


def test_null_is_an_empty_patch_and_a_null_no_operation() -> None:
    assert patch.parse_json_patch(None) == []
    with pytest.raises(JsonPatchError, match=r"^Unexpected kind: unknown$"):
        patch.apply_json_patch({}, patch.parse_json_patch([None]))


def test_too_many_operations() -> None:
    operation = {"op": "test", "path": "/a"}
    assert len(patch.parse_json_patch([operation] * 10_000)) == 10_000
    with pytest.raises(TooManyOperations, match=r"^The allowed maximum operations in a JSON patch is 10000, got 10001$"):
        patch.parse_json_patch([operation] * 10_001)


# name: (operations on a list of ten, the items that they move)
MOVED: dict[str, tuple[list[dict[str, Any]], int]] = {
    "added in front": ([{"op": "add", "path": "/a/0", "value": 1}], 10),
    "added in the middle": ([{"op": "add", "path": "/a/5", "value": 1}], 5),
    "added behind": ([{"op": "add", "path": "/a/-", "value": 1}, {"op": "add", "path": "/a/11", "value": 1}], 0),
    "removed": ([{"op": "remove", "path": "/a/0"}, {"op": "remove", "path": "/a/-2"}], 10 + 2),
    "moved": ([{"op": "move", "from": "/a/1", "path": "/a/0"}], 9 + 9),
    "copied": ([{"op": "copy", "from": "/a/1", "path": "/a/0"}], 10),
    "all that does not move": ([{"op": "replace", "path": "/a/0", "value": 1}, {"op": "test", "path": "/a/1", "value": 1}], 0),
    "many": ([{"op": "add", "path": "/a/0", "value": 1}] * 10, sum(range(10, 20))),
}


@pytest.mark.parametrize("name", MOVED)
def test_moved_items_are_bounded(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    operations, moved = MOVED[name]
    document, parsed = {"a": list(range(10))}, patch.parse_json_patch(operations)
    monkeypatch.setattr(patch, "MAX_MOVED_ITEMS", moved)
    patch.apply_json_patch(document, parsed)
    monkeypatch.setattr(patch, "MAX_MOVED_ITEMS", moved - 1)
    if moved:
        with pytest.raises(JsonPatchError, match="the items moved in arrays exceed the limit"):
            patch.apply_json_patch(document, parsed)


@pytest.mark.parametrize("operation", ["copy", "move"])
def test_a_document_that_is_nested_into_itself(operation: str) -> None:
    """Until it can't be encoded, long before there are as many bytes as may be copied."""
    if operation == "copy":
        operations = [{"op": "copy", "from": "/spec", "path": "/spec/a"}] * 300
    else:
        names = [f"a{number}" for number in range(300)]
        operations = [{"op": "move", "from": f"/{name}", "path": f"/{other}/b"} for name, other in itertools.pairwise(names)]
    document = {"spec": {}} | {f"a{number}": {} for number in range(300)}
    with pytest.raises(JsonPatchError, match=r"^the patched document is nested too deeply$"):
        patch.apply_json_patch(document, patch.parse_json_patch(operations))


def _complaints(body: bytes) -> list[str]:
    given, nothing_repeated = patch.decode(body)
    return patch.complaints(body, given, nothing_repeated=nothing_repeated)


def test_a_hundred_complaints() -> None:
    given = [{"op": "test", **{f"a{number}": 1 for number in range(99)}}, {"b": 1, "c": 1}]
    assert _complaints(json.dumps(given).encode())[98:] == ['unknown field "[0].a98"', 'unknown field "[1].b"']


def test_complaints() -> None:
    """In the order of the text; nothing of what is in an unknown field, but of what is in a value."""
    body = b"""[{"op": "add", "path": "/a", "x": {"y": 1, "y": 2}, "value": {"x": 1, "x": 2}, "op": "test"}, null,
        {"foo": 1, "from": "/b", "from": "/c", "bar": {}}]"""
    assert _complaints(body) == [
        'unknown field "[0].x"',
        'duplicate field "[0].value.x"',
        'duplicate field "[0].op"',
        'unknown field "[2].foo"',
        'duplicate field "[2].from"',
        'unknown field "[2].bar"',
    ]
    assert _complaints(b'[{"op": "add", "path": "/a", "value": {"x": 1}}, null]') == []
    assert _complaints(b"null") == []
    all_members = b'{"op": "copy", "path": "/a", "from": "/b", "value": 1'
    assert _complaints(b"[" + all_members + b"}]") == []
    assert _complaints(b"[" + all_members + b', "x": 1}]') == ['unknown field "[0].x"']


def test_the_order_of_what_was_patched() -> None:
    document = {"z": {"y": 1, "x": [{"d": 1, "c": 1}, {"f": 1, "e": 1}]}, "a": {"q": 1, "p": 1}, "m/n": {"l": 1, "k": 1}}
    operations = patch.parse_json_patch([{"op": "add", "path": "/z/x/1/g"}, {"op": "move", "from": "/m~1n/j", "path": "/b"}])
    assert json.dumps(patch.as_written(document, operations), separators=(",", ":")) == (
        '{"a":{"q":1,"p":1},"m/n":{"k":1,"l":1},"z":{"x":[{"d":1,"c":1},{"e":1,"f":1}],"y":1}}'
    )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"metadata": {"finalizers": None, "uid": "u"}}, {"finalizers", "uid"}, id="merge patch"),
        pytest.param({"metadata": {"finalizers": None}, "spec": {}}, set(), id="and something else"),
        pytest.param({"metadata": None}, set(), id="no metadata"),
        pytest.param({"metadata": {}}, set(), id="empty"),
        pytest.param({}, set(), id="nothing"),
        pytest.param("text", set(), id="no patch"),
        pytest.param(
            [{"op": "test", "path": "/metadata/uid", "value": "u"}, {"op": "remove", "path": "/metadata/finalizers/0"}],
            {"uid", "finalizers"},
            id="JSON patch",
        ),
        pytest.param(
            [{"op": "remove", "path": "/metadata/finalizers"}, {"op": "remove", "path": "/spec"}], set(), id="also the spec"
        ),
        pytest.param([{"op": "copy", "path": "/metadata/labels", "from": "/spec/labels"}], set(), id="from elsewhere"),
        pytest.param(
            [{"op": "move", "path": "/metadata/labels", "from": "/metadata/annotations"}], {"labels", "annotations"}, id="move"
        ),
        pytest.param([{"op": "remove", "path": "/metadata"}], set(), id="the whole"),
        pytest.param([{"op": "remove"}], set(), id="no path"),
        pytest.param(["text"], set(), id="no operation"),
        pytest.param([], set(), id="no operations"),
    ],
)
def test_metadata_named(change: Any, named: set[str]) -> None:
    assert patch.metadata_named(change) == named
