"""Cases for `test_same_answers.py`: names, namespaces and metadata."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import GROUP, Ask, Cases, ask, beacon, delete, get, make, patch, path, post, put, thing

__all__ = ["CASES"]

_OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "6f1d5e4c-0000-4000-8000-000000000001"}


def _named(name: Any) -> list[Ask]:
    return [post(thing(metadata={"name": name}))]


def _with(**metadata: Any) -> list[Ask]:
    return [post(thing(metadata=metadata))]


_NAMES: Cases = {
    "name-upper-case": _named("Upper"),
    "name-dots": _named("a.b.c.$name"),
    "name-leading-dot": _named(".a"),
    "name-two-dots": _named(".."),
    "name-one-dot": _named("."),
    "name-slash": _named("a/b"),
    "name-percent": _named("a%b"),
    "name-underscore": _named("a_b"),
    "name-space": _named("a b"),
    "name-253": [*_named("a" * 253), delete(name="a" * 253)],
    "name-254": _named("a" * 254),
    "name-empty": _named(""),
    "name-a-number": _named(1),
    "name-null": _named(None),
    "name-unicode": _named("ä"),
    "generate-name": _with(name="", generateName="generated-"),
    "generate-name-invalid": _with(name="", generateName="Generated-"),
    "generate-name-long": _with(name="", generateName="g" * 250),
    "generate-name-longest": _with(name="", generateName="g" * 254),
    "generate-name-beside-name": _with(generateName="other-"),
    "generate-name-not-a-string": _with(name="", generateName=1),
    "namespace-same": _with(namespace="same"),
    "namespace-other": _with(namespace="default"),
    "namespace-empty": _with(namespace=""),
    "namespace-a-number": _with(namespace=1),
    "namespace-missing": [post(thing(), namespace="nowhere")],
    "namespace-invalid": [post(thing(), namespace="No_Where")],
    "get-in-missing-namespace": [ask("GET", path("things", "x", namespace="nowhere"))],
    "list-in-missing-namespace": [ask("GET", path("things", namespace="nowhere"))],
    "put-in-missing-namespace": [ask("PUT", path("things", "$name", namespace="nowhere"), thing())],
    "delete-in-missing-namespace": [ask("DELETE", path("things", "$name", namespace="nowhere"))],
    "cluster-scoped": [ask("POST", path("beacons", namespace=""), beacon())],
    "cluster-scoped-with-namespace": [ask("POST", path("beacons", namespace=""), beacon(metadata={"namespace": "same"}))],
}

_CREATE: Cases = {
    "create": [post(thing(spec={"size": 1, "color": "red"})), get()],
    "create-twice": [make(), post(thing())],
    "create-with-revision": _with(resourceVersion="1"),
    "create-with-revision-zero": _with(resourceVersion="0"),
    "create-with-uid": _with(uid="6f1d5e4c-0000-4000-8000-000000000001"),
    "create-with-system-fields": _with(
        creationTimestamp="2001-01-01T00:00:00Z",
        deletionTimestamp="2001-01-01T00:00:00Z",
        deletionGracePeriodSeconds=5,
        generation=7,
        selfLink="/x",
    ),
    "create-field-manager": [post(thing(), query="fieldManager=me")],
    "create-field-manager-long": [post(thing(), query="fieldManager=" + "m" * 129)],
    "create-field-manager-unprintable": [post(thing(), query="fieldManager=a%00b")],
    "create-dry-run": [post(thing(), query="dryRun=All"), get()],
    "create-dry-run-twice": [make(), post(thing(), query="dryRun=All")],
    "create-dry-run-unknown": [post(thing(), query="dryRun=Some")],
    "create-dry-run-empty": [post(thing(), query="dryRun=")],
    "create-dry-run-two": [post(thing(), query="dryRun=All&dryRun=All")],
    "create-dry-run-generated": [post(thing(metadata={"name": "", "generateName": "generated-"}), query="dryRun=All")],
    "create-over-deleting": [make(thing(metadata={"finalizers": ["a.example.com/f"]})), delete(), post(thing())],
    "create-yaml-accepted": [post(thing(), accept="application/yaml")],
    "create-as-table": [post(thing(), accept="application/json;as=Table;g=meta.k8s.io;v=v1")],
    "create-as-metadata": [post(thing(), accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")],
}

_TYPES: Cases = {
    "metadata-a-string": [post({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": "x"})],
    "metadata-a-list": [post({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": []})],
    "labels-a-list": _with(labels=["a"]),
    "labels-a-string": _with(labels="a"),
    "label-a-number": _with(labels={"a": 1}),
    "label-null": _with(labels={"a": None}),
    "annotations-a-list": _with(annotations=[]),
    "annotation-a-bool": _with(annotations={"a": True}),
    "finalizers-a-string": _with(finalizers="a"),
    "finalizer-a-number": _with(finalizers=[1]),
    "owners-an-object": _with(ownerReferences={}),
    "owner-a-string": _with(ownerReferences=["a"]),
    "owner-uid-a-number": _with(ownerReferences=[{**_OWNER, "uid": 1}]),
    "owner-controller-a-string": _with(ownerReferences=[{**_OWNER, "controller": "yes"}]),
    "generation-a-string": _with(generation="1"),
    "uid-a-number": _with(uid=1),
    "revision-a-number": _with(resourceVersion=1),
    "creation-time-nonsense": _with(creationTimestamp="yesterday"),
    "managed-fields-a-string": _with(managedFields="x"),
    "put-labels-a-list": [make(), put(thing(metadata={"resourceVersion": "$rv1", "labels": ["a"]}))],
    "put-finalizers-a-string": [make(), put(thing(metadata={"resourceVersion": "$rv1", "finalizers": "x"}))],
    "patch-labels-a-list": [make(), patch({"metadata": {"labels": ["a"]}})],
    "patch-label-a-number": [make(), patch({"metadata": {"labels": {"a": 1}}})],
    "patch-finalizers-a-string": [make(), patch({"metadata": {"finalizers": "x"}})],
}

_RULES: Cases = {
    "label-key-invalid": _with(labels={"a b": "c"}),
    "label-key-prefix-invalid": _with(labels={"A_/b": "c"}),
    "label-key-two-slashes": _with(labels={"a/b/c": "c"}),
    "label-key-empty": _with(labels={"": "c"}),
    "label-key-long": _with(labels={"a" * 64: "c"}),
    "label-value-invalid": _with(labels={"a": "b c"}),
    "label-value-long": _with(labels={"a": "b" * 64}),
    "labels-several-wrong": _with(labels={"a b": "c d"}),
    "annotation-key-invalid": _with(annotations={"a b": "c"}),
    "annotation-key-upper-case": _with(annotations={"Upper.example.com/Key": "c"}),
    "annotations-too-large": _with(annotations={"a": "x" * (256 * 1024)}),
    "finalizer-unqualified": _with(finalizers=["plain"]),
    "finalizer-domain-without-path": _with(finalizers=["a.example.com"]),
    "finalizer-invalid": _with(finalizers=["a b"]),
    "finalizer-empty": _with(finalizers=[""]),
    "finalizer-orphan-and-foreground": _with(finalizers=["orphan", "foregroundDeletion"]),
    "finalizers-standard": _with(finalizers=["orphan"]),
    "finalizers-twice": _with(finalizers=["a.example.com/f", "a.example.com/f"]),
    "owner": _with(ownerReferences=[_OWNER]),
    "owner-twice": _with(ownerReferences=[_OWNER, _OWNER]),
    "owner-same-uid-other-name": _with(ownerReferences=[_OWNER, {**_OWNER, "name": "other"}]),
    "owner-without-name": _with(ownerReferences=[{**_OWNER, "name": ""}]),
    "owner-without-uid": _with(ownerReferences=[{"apiVersion": "v1", "kind": "A", "name": "a"}]),
    "owner-empty": _with(ownerReferences=[{}]),
    "owner-null": _with(ownerReferences=[None]),
    "owner-null-twice": _with(ownerReferences=[None, None]),
    "patch-owner-null": [make(), patch({"metadata": {"ownerReferences": [_OWNER, None]}})],
    "owner-version-malformed": _with(ownerReferences=[{**_OWNER, "apiVersion": "a/b/c"}]),
    "owner-an-event": _with(ownerReferences=[{**_OWNER, "kind": "Event"}]),
    "owners-two-controllers": _with(
        ownerReferences=[{**_OWNER, "controller": True}, {**_OWNER, "uid": "b", "name": "b", "controller": True}]
    ),
    "owner-unknown-field": _with(ownerReferences=[{**_OWNER, "colour": "red"}]),
    "several-rules": _with(name="Upper", labels={"a b": "c"}, finalizers=["a b"], annotations={"a b": "c"}),
    "put-label-invalid": [make(), put(thing(metadata={"resourceVersion": "$rv1", "labels": {"a b": "c"}}))],
    "put-owner-twice": [make(), put(thing(metadata={"resourceVersion": "$rv1", "ownerReferences": [_OWNER, _OWNER]}))],
    "put-finalizer-unqualified": [make(), put(thing(metadata={"resourceVersion": "$rv1", "finalizers": ["plain"]}))],
    "patch-owner-twice": [make(), patch({"metadata": {"ownerReferences": [_OWNER, _OWNER]}})],
    "patch-finalizer-unqualified": [make(), patch({"metadata": {"finalizers": ["plain"]}})],
    "patch-label-invalid": [make(), patch({"metadata": {"labels": {"a b": "c"}}})],
}

CASES: Cases = {**_NAMES, **_CREATE, **_TYPES, **_RULES}
