from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest

from aggserver.scheme import protobuf
from aggserver.scheme.protobuf_codec import reader, writer
from aggserver.scheme.types import lookup
from tests.integration.protobuf import decode_answer, decode_events


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def _body(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + _bytes(1, _bytes(1, api_version) + _bytes(2, kind)) + _bytes(2, raw) + _bytes(3, "") + _bytes(4, "")


CASES = [
    pytest.param(
        # Go writes plain fields also when they are zero.
        _body("v1", "Namespace", _bytes(1, _bytes(1, "team") + _bytes(2, "") + _number(7, 0) + _bytes(8, b"")) + _bytes(2, b"")),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        id="zero-values-are-left-out",
    ),
    pytest.param(
        _body(
            "v1",
            "Namespace",
            _bytes(
                1,
                _bytes(11, _bytes(1, "a") + _bytes(2, "b"))
                + _bytes(11, _bytes(1, "c") + _bytes(2, ""))
                + _bytes(14, "x.example.com/y")
                + _bytes(8, _number(1, 1700000000)),
            ),
        ),
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "labels": {"a": "b", "c": ""},
                "finalizers": ["x.example.com/y"],
                "creationTimestamp": "2023-11-14T22:13:20Z",
            },
        },
        id="maps-lists-times",
    ),
    pytest.param(
        _body(
            "v1",
            "DeleteOptions",
            _number(1, 0) + _bytes(2, _bytes(1, "u")) + _number(3, 0) + _bytes(4, "Orphan") + _bytes(5, "All"),
        ),
        {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
            "orphanDependents": False,
            "propagationPolicy": "Orphan",
            "dryRun": ["All"],
        },
        id="pointers-keep-their-zero",
    ),
    pytest.param(
        _body("v1", "DeleteOptions", _number(1, (1 << 64) - 5)),
        {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": -5},
        id="negative",
    ),
    pytest.param(
        _body(
            "v1",
            "DeleteOptions",
            _number(99, 7) + _bytes(98, "x") + _varint(97 << 3 | 5) + b"1234" + _varint(96 << 3 | 1) + b"12345678",
        ),
        {"apiVersion": "v1", "kind": "DeleteOptions"},
        id="unknown-fields-are-passed-over",
    ),
    pytest.param(
        _body(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            _bytes(1, b"") + _bytes(2, _bytes(1, _bytes(2, "get") + _bytes(5, "pods"))),
        ),
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        },
        id="review",
    ),
    pytest.param(
        _body("authorization.k8s.io/v1", "SelfSubjectRulesReview", _bytes(1, b"") + _bytes(2, _bytes(1, "team"))),
        {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "team"}},
        id="rules-review",
    ),
    pytest.param(
        _body("v1", "Namespace", _bytes(3, _bytes(1, "Active") + _bytes(2, _bytes(1, "A") + _bytes(2, "True") + _bytes(6, "m")))),
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "status": {"phase": "Active", "conditions": [{"type": "A", "status": "True", "message": "m"}]},
        },
        id="namespace-conditions",
    ),
    pytest.param(
        _body("v1", "Namespace", _bytes(1, _bytes(17, _bytes(1, "m") + _bytes(7, _bytes(1, '{"f:spec":{}}'))))),
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}]}},
        id="fields-v1",
    ),
]


@pytest.mark.parametrize(("body", "wanted"), CASES)
def test_decode(body: bytes, wanted: dict[str, Any]) -> None:
    assert protobuf.decode(body) == wanted


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"{}", "provided data does not appear to be a protobuf message", id="magic"),
        pytest.param(b"k8s\x00\x0a\x7f", "unexpected EOF", id="short"),
        pytest.param(b"k8s\x00" + b"\xff" * 11, "integer overflow", id="varint"),
        pytest.param(b"k8s\x00\x0b", "illegal wireType 3", id="wire"),
        pytest.param(_body("v1", "Namespace", _number(1, 1)), "metadata is a number", id="type"),
        pytest.param(_body("v1", "DeleteOptions", _bytes(1, "x")), "gracePeriodSeconds is no number", id="no-number"),
    ],
)
def test_malformed(body: bytes, text: str) -> None:
    with pytest.raises(protobuf.ProtobufError, match=text):
        protobuf.decode(body)


def test_a_scale() -> None:
    raw = _bytes(1, _bytes(1, "n")) + _bytes(2, _number(1, 3)) + _bytes(3, _number(1, 2) + _bytes(2, "a=b"))
    assert protobuf.decode(_body("autoscaling/v1", "Scale", raw)) == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "n"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }


def test_unknown_kind() -> None:
    with pytest.raises(protobuf.UnknownKind, match="Pod"):
        protobuf.decode(_body("v2", "Pod", b""))


@pytest.mark.parametrize("length", range(40))
def test_every_prefix_of_a_body_is_an_error_or_an_object(length: int) -> None:
    body = CASES[1].values[0]
    assert isinstance(body, bytes)
    with contextlib.suppress(protobuf.ProtobufError, protobuf.UnknownKind):
        assert isinstance(protobuf.decode(body[:length]), dict)


DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}


def test_a_definition_with_everything_in_it() -> None:
    """definition.protobuf is definition.json as Go's own encoder wrote it."""
    folder = Path(__file__).parent
    wanted = json.loads((folder / "definition.json").read_text())
    assert protobuf.decode((folder / "definition.protobuf").read_bytes()) == wanted
    # And what the same table writes of it is read as it was.
    definition = lookup("apiextensions/v1.CustomResourceDefinition")
    written = writer(definition)(wanted)
    assert {**DEFINITION, **reader(definition)(written, 0, len(written))} == wanted


def test_no_depth_is_too_great() -> None:
    schema = b""
    for _ in range(2000):
        schema = _bytes(28, schema)  # not
    version = _bytes(4, _bytes(1, schema))
    with pytest.raises(protobuf.ProtobufError, match="nest deeper"):
        protobuf.decode(_body("apiextensions.k8s.io/v1", "CustomResourceDefinition", _bytes(2, _bytes(7, version))))


WRITTEN: dict[str, dict[str, Any]] = {
    "status": {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "m",
        "reason": "Invalid",
        "details": {
            "name": "n",
            "group": "g",
            "kind": "k",
            "uid": "u",
            "causes": [{"reason": "r", "message": "m", "field": "f"}],
            "retryAfterSeconds": 1,
        },
        "code": 422,
    },
    "metadata": {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": {
            "name": "n",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 300,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "1969-12-31T23:59:59Z",
            "deletionGracePeriodSeconds": 0,
            "labels": {"a": "b", "c": ""},
            "annotations": {"d": "é" * 100},
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "v", "controller": False}],
            "finalizers": ["x", "y"],
            "managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}],
        },
    },
    "metadata list": {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": "7", "continue": "c", "remainingItemCount": 3},
        "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}],
    },
    "resources": {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "g/v1",
        "resources": [{"name": "things", "singularName": "", "namespaced": True, "kind": "Thing", "verbs": ["get", "list"]}],
    },
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_is_read_as_it_was(name: str) -> None:
    wanted = copy.deepcopy(WRITTEN[name])
    if name == "status":
        del wanted["metadata"]  # a message with nothing in it says as much
    if name == "resources":
        del wanted["resources"][0]["singularName"]  # no pointer in Go: none is an empty one
    assert decode_answer(protobuf.encode(WRITTEN[name])) == wanted


def test_what_a_kind_has_no_field_for_is_left_out() -> None:
    assert decode_answer(protobuf.encode({"apiVersion": "v1", "kind": "Status", "code": 1, "more": {}, "reason": None})) == {
        "apiVersion": "v1",
        "kind": "Status",
        "code": 1,
    }


def test_events() -> None:
    objects = [protobuf.encode({"apiVersion": "v1", "kind": "Status", "code": code}) for code in (1, 2)]
    frames = b"".join(protobuf.encode_event("ADDED", obj) for obj in objects)
    assert decode_events(frames) == [{"type": "ADDED", "object": decode_answer(obj)} for obj in objects]


def test_built_in_kinds_and_their_lists() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"hostNetwork": True}}
    assert decode_answer(protobuf.encode(pod)) == pod
    before = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}}
    encoded = protobuf.encode_list(before, [protobuf.encode_items(before, [pod]), protobuf.encode_items(before, [pod, pod])])
    item = {name: value for name, value in pod.items() if name not in ("apiVersion", "kind")}
    assert decode_answer(encoded) == {**before, "items": [item, item, item]}
