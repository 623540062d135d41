from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta import codec
from aggserver.registry import stored
from aggserver.registry.stored import StoredObject
from aggserver.storage.interface import Corrupt, KeyValue

KEY = "/g/crontabs/default/a"


def made(value: bytes, revision: int = 5) -> StoredObject:
    return stored.make(KeyValue(KEY, value, 2, revision))


# As stored -> as clients see it at revision 5.
PLACED: dict[str, tuple[bytes, bytes]] = {
    "ours": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"},"spec":{}}',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","name":"a"},"spec":{}}',
    ),
    "a key that sorts before metadata": (
        b'{"apiVersion":"g/v1","data":1,"kind":"A","metadata":{"name":"a"}}',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","name":"a"},"data":1}',
    ),
    "spaces": (
        b'{"apiVersion": "g/v1", "kind": "A", "metadata": {"name": "a"}}',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","name":"a"}}',
    ),
    "a newline at the end, as Go's encoder leaves it": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"}}\n',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","name":"a"}}',
    ),
    "a resourceVersion in another layout": (
        b'{"kind":"A","apiVersion":"g/v1","metadata":{"name":"a","resourceVersion":"3"}}',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","name":"a"}}',
    ),
    "the same words inside": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"annotations":{"resourceVersion":"5","x":"y"},"name":"a"}}',
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"resourceVersion":"5","annotations":{"resourceVersion":"5","x":"y"},"name":"a"}}',
    ),
}


@pytest.mark.parametrize("case", PLACED)
def test_placed(case: str) -> None:
    value, raw = PLACED[case]
    obj = made(value)
    assert obj.raw == raw
    assert codec.decode_json(raw)["metadata"]["resourceVersion"] == "5"
    assert obj.raw.startswith(stored.head("g/v1", "A"))
    # `value` returns the stored bytes: in our layout, and without the resourceVersion.
    again = stored.value(obj)
    assert stored.value(made(again)) == again
    assert b'"resourceVersion":"5",' not in again[:70]


def test_at_the_revision_of_its_end() -> None:
    obj = stored.at(made(PLACED["the same words inside"][0]), 1234)
    assert obj.revision == 1234
    assert obj.decoded()["metadata"] == {
        "resourceVersion": "1234",
        "annotations": {"resourceVersion": "5", "x": "y"},
        "name": "a",
    }


ENCODED: dict[str, tuple[dict[str, Any], bytes]] = {
    "in order": (
        {"spec": {}, "metadata": {"name": "a"}, "kind": "B", "apiVersion": "g/v2"},
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"},"spec":{}}',
    ),
    "labels before all else": (
        {"metadata": {"name": "a", "resourceVersion": "7", "labels": {"x": "y"}}},
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":"y"},"name":"a"}}',
    ),
    "without a resourceVersion": (
        {"metadata": {"name": "a", "resourceVersion": "7"}},
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"}}',
    ),
}


@pytest.mark.parametrize("case", ENCODED)
def test_encoded(case: str) -> None:
    obj, expected = ENCODED[case]
    assert stored.encode(obj, "g/v1", "A") == expected


def test_encoding_changes_nothing() -> None:
    obj = {"metadata": {"name": "a", "resourceVersion": "7"}}
    stored.encode(obj, "g/v1", "A")
    assert obj == {"metadata": {"name": "a", "resourceVersion": "7"}}


def test_what_selectors_ask_for_is_read_once() -> None:
    obj = made(b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"color":"red"}}')
    reads: list[str] = []

    def color(tree: dict[str, Any]) -> dict[str, str]:
        reads.append("color")
        return {"spec.color": tree["spec"]["color"]}

    def nothing(tree: dict[str, Any]) -> dict[str, str]:
        reads.append("nothing")
        return {}

    assert obj.labels == {"x": "y"}
    assert [obj.fields(color) for _ in range(3)] == [{"spec.color": "red"}] * 3
    assert reads == ["color"]
    # When the definition changes, it has another reader for the same cached objects.
    assert obj.fields(nothing) == {}
    assert obj.fields(color) == {"spec.color": "red"}


LABELS: dict[str, tuple[bytes, dict[str, str]]] = {
    "none": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"}}', {}),
    "null": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":null,"name":"a"}}', {}),
    "empty": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{},"name":"a"}}', {}),
    "first": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":"y","e.x/z":""},"name":"a"}}', {"x": "y", "e.x/z": ""}),
    "last": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a","labels":{"x":"y"}}}', {"x": "y"}),
    "in another layout": (b'{"kind":"A","metadata":{"name":"a","labels":{"x":"y"}},"apiVersion":"g/v1"}', {"x": "y"}),
    "in the spec": (b'{"apiVersion":"g/v1","kind":"A","metadata":{"name":"a"},"spec":{"labels":{"x":"y"}}}', {}),
    "in metadata and the spec": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":"y"},"name":"a"},"spec":{"labels":{"x":"z"}}}',
        {"x": "y"},
    ),
    "words in an annotation": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"annotations":{"a":"\\"labels\\":{\\"x\\":\\"y\\"}"},"name":"a"}}',
        {},
    ),
    "what can't be a label": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":"}","y":"\\""},"name":"a"}}',
        {"x": "}", "y": '"'},
    ),
    "a null, which Go takes for an empty string": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":null,"y":"z"},"name":"a"}}',
        {"x": "", "y": "z"},
    ),
    "the end of a value that looks like another": (
        b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":{"x":"\\":\\"y","z":null},"name":"a"}}',
        {"x": '":"y', "z": ""},
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels(case: str) -> None:
    value, labels = LABELS[case]
    assert made(value).labels == labels
    tree = codec.decode_json(value)
    assert made(stored.encode(tree, "g/v1", "A")).labels == labels


@pytest.mark.parametrize("labels", ['{"x":1}', '{"x":"y","z":["}"]}', '{"x":{"y":"z"}}'])
def test_labels_that_another_server_has_stored_and_that_can_not_be(labels: str) -> None:
    obj = made(b'{"apiVersion":"g/v1","kind":"A","metadata":{"labels":%b,"name":"a"}}' % labels.encode())
    with pytest.raises(Corrupt, match="labels are not a map of strings"):
        _ = obj.labels


def test_reading_labels_keeps_nothing() -> None:
    obj = made(LABELS["first"][0])
    assert obj.read_labels() == obj.read_labels() == {"x": "y", "e.x/z": ""}
    assert obj.known_labels is None
    assert obj.read_labels() == obj.labels == obj.known_labels


def test_decoded_is_a_tree_of_ones_own() -> None:
    obj = made(PLACED["ours"][0])
    obj.decoded()["metadata"]["name"] = "b"
    assert obj.decoded()["metadata"]["name"] == "a"
