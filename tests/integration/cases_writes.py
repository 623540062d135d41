"""Cases for `test_same_answers.py`: update, patch, delete, finalizers, deletecollection."""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import (
    GROUP,
    JSON_PATCH,
    Ask,
    Cases,
    ask,
    beacon,
    delete,
    get,
    make,
    patch,
    path,
    post,
    put,
    thing,
)

__all__ = ["CASES"]

_SPEC = {"size": 1, "color": "red", "parts": [{"label": "a"}, {"label": "b"}]}
_HELD = {"finalizers": ["a.example.com/f"]}
_STRATEGIC = "application/strategic-merge-patch+json"
_OTHER_UID = "6f1d5e4c-0000-4000-8000-000000000001"


def _put(**metadata: Any) -> list[Ask]:
    """A created object, replaced by one with this metadata."""
    return [make(), put(thing(metadata=metadata, spec={"size": 2}))]


_UPDATE: Cases = {
    "put": [*_put(resourceVersion="$rv1"), get()],
    "put-without-revision": _put(),
    "put-revision-zero": _put(resourceVersion="0"),
    "put-revision-stale": [
        make(),
        patch({"spec": {"size": 3}}, compared=False),
        put(thing(metadata={"resourceVersion": "$rv1"}, spec={"size": 2})),
    ],
    "put-revision-nonsense": _put(resourceVersion="abc"),
    "put-revision-negative": _put(resourceVersion="-1"),
    "put-revision-leading-zero": _put(resourceVersion="0$rv1"),
    "put-uid-right": _put(resourceVersion="$rv1", uid="$uid1"),
    "put-uid-wrong": _put(resourceVersion="$rv1", uid=_OTHER_UID),
    "put-name-other": _put(resourceVersion="$rv1", name="other"),
    "put-name-none": _put(resourceVersion="$rv1", name=""),
    "put-namespace-other": _put(resourceVersion="$rv1", namespace="default"),
    "put-namespace-none": _put(resourceVersion="$rv1", namespace=""),
    "put-missing": [put(thing())],
    "put-missing-with-revision": [put(thing(metadata={"resourceVersion": "1"}))],
    "put-missing-with-uid": [put(thing(metadata={"uid": _OTHER_UID}))],
    "put-collection": [ask("PUT", path("things"), thing())],
    "put-nothing-new": [make(thing(spec=_SPEC)), put(thing(metadata={"resourceVersion": "$rv1"}, spec=_SPEC)), get()],
    "put-generation": [
        make(thing(spec=_SPEC)),
        put(thing(metadata={"resourceVersion": "$rv1", "generation": 9}, spec=_SPEC)),
        patch({"metadata": {"labels": {"a": "b"}}}),
        patch({"spec": {"size": 5}}),
    ],
    "put-creation-time": _put(resourceVersion="$rv1", creationTimestamp="2001-01-01T00:00:00Z"),
    "put-creation-time-none": _put(resourceVersion="$rv1", creationTimestamp=None),
    "put-deletion-time": _put(resourceVersion="$rv1", deletionTimestamp="2001-01-01T00:00:00Z"),
    "put-generate-name": _put(resourceVersion="$rv1", generateName="other-"),
    "put-dry-run": [make(), put(thing(metadata={"resourceVersion": "$rv1"}, spec={"size": 2}), query="dryRun=All"), get()],
    "put-dry-run-unknown": [make(), put(thing(metadata={"resourceVersion": "$rv1"}), query="dryRun=x")],
    "put-field-validation-unknown": [make(), put(thing(metadata={"resourceVersion": "$rv1"}), query="fieldValidation=x")],
    "put-cluster-scoped": [
        ask("POST", path("beacons", namespace=""), beacon(), compared=False),
        ask("PUT", path("beacons", "$name", namespace=""), beacon(metadata={"resourceVersion": "$rv1"}, spec={"a": 1})),
    ],
}

_MERGE_PATCH: Cases = {
    "merge": [make(thing(spec=_SPEC)), patch({"spec": {"size": 2, "color": None}}), get()],
    "merge-empty-object": [make(), patch({})],
    "merge-null": [make(), patch("null")],
    "merge-array": [make(), patch("[]")],
    "merge-string": [make(), patch('"x"')],
    "merge-number": [make(), patch("1")],
    "merge-not-json": [make(), patch("{broken")],
    "merge-empty-body": [make(), patch(b"")],
    "merge-yaml-body": [make(), patch("spec:\n  size: 2\n")],
    "merge-metadata-null": [make(), patch({"metadata": None})],
    "merge-spec-null": [make(thing(spec=_SPEC)), patch({"spec": None})],
    "merge-spec-a-list": [make(thing(spec=_SPEC)), patch({"spec": []})],
    "merge-list-replaced": [make(thing(spec=_SPEC)), patch({"spec": {"parts": [{"label": "z"}]}})],
    "merge-revision-right": [make(), patch({"metadata": {"resourceVersion": "$rv1"}, "spec": {"size": 2}})],
    "merge-revision-stale": [
        make(),
        patch({"spec": {"size": 3}}, compared=False),
        patch({"metadata": {"resourceVersion": "$rv1"}, "spec": {"size": 2}}),
    ],
    "merge-revision-zero": [make(), patch({"metadata": {"resourceVersion": "0"}, "spec": {"size": 2}})],
    "merge-revision-null": [make(), patch({"metadata": {"resourceVersion": None}, "spec": {"size": 2}})],
    "merge-revision-nonsense": [make(), patch({"metadata": {"resourceVersion": "abc"}, "spec": {"size": 2}})],
    "merge-name": [make(), patch({"metadata": {"name": "other"}})],
    "merge-name-null": [make(), patch({"metadata": {"name": None}})],
    "merge-namespace": [make(), patch({"metadata": {"namespace": "default"}})],
    "merge-namespace-null": [make(), patch({"metadata": {"namespace": None}, "spec": {"size": 2}})],
    "merge-uid": [make(), patch({"metadata": {"uid": _OTHER_UID}})],
    "merge-uid-null": [make(), patch({"metadata": {"uid": None}, "spec": {"size": 2}})],
    "merge-kind": [make(), patch({"kind": "Other"})],
    "merge-kind-null": [make(), patch({"kind": None})],
    "merge-kind-a-number": [make(), patch({"kind": 1})],
    "merge-kind-an-object": [make(), patch({"kind": {}})],
    "merge-api-version-a-number": [make(), patch({"apiVersion": -1})],
    "merge-api-version-malformed": [make(), patch({"apiVersion": "a/b/c"})],
    "merge-kind-and-metadata-wrong": [make(), patch({"kind": 1, "metadata": {"labels": ["a"]}})],
    "merge-api-version": [make(), patch({"apiVersion": f"{GROUP}/v9"})],
    "merge-api-version-null": [make(), patch({"apiVersion": None})],
    "merge-creation-time": [make(), patch({"metadata": {"creationTimestamp": None}})],
    "merge-deletion-time": [make(), patch({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}})],
    "merge-generation": [make(), patch({"metadata": {"generation": 9}})],
    "merge-nothing-new": [make(thing(spec=_SPEC)), patch({"spec": {"size": 1}}), get()],
    "merge-missing": [patch({"spec": {}})],
    "merge-missing-not-json": [patch("{")],
    "merge-missing-array": [patch("[]")],
    "json-patch-missing-not-json": [patch("{", kind=JSON_PATCH)],
    "json-patch-missing-unknown": [patch([{"op": "jump", "path": "/a"}], kind=JSON_PATCH)],
    "strategic-missing-type": [patch({"spec": {}}, kind="application/strategic-merge-patch+json")],
    "merge-force": [make(), patch({}, query="force=true")],
    "merge-force-nonsense": [make(), patch({}, query="force=perhaps")],
    "merge-dry-run": [make(), patch({"spec": {"size": 2}}, query="dryRun=All"), get()],
    "merge-unknown-default": [make(), patch({"spec": {"shape": 1}, "extra": 1})],
    "merge-unknown-strict": [make(), patch({"spec": {"shape": 1}}, query="fieldValidation=Strict")],
    "merge-unknown-ignore": [make(), patch({"spec": {"shape": 1}}, query="fieldValidation=Ignore")],
    "merge-unknown-metadata": [make(), patch({"metadata": {"colour": 1}})],
    "merge-unknown-metadata-strict": [make(), patch({"metadata": {"colour": 1}}, query="fieldValidation=Strict")],
    "merge-twice-warn": [make(), patch('{"spec":{"size":1,"size":2}}')],
    "merge-twice-strict": [make(), patch('{"spec":{"size":1,"size":2}}', query="fieldValidation=Strict")],
    "merge-wrong-type": [make(), patch({"spec": {"size": "big"}})],
    "merge-too-large": [make(), patch({"spec": {"color": "x" * (4 * 1024 * 1024)}})],
}


def _json(*operations: Any, query: str = "") -> list[Ask]:
    return [make(thing(spec=_SPEC)), patch(list(operations), JSON_PATCH, query=query)]


_JSON_PATCH: Cases = {
    "json-patch": _json({"op": "replace", "path": "/spec/size", "value": 2}, {"op": "remove", "path": "/spec/color"}),
    "json-patch-empty": _json(),
    "json-patch-object": [make(), patch({}, JSON_PATCH)],
    "json-patch-null": [make(), patch("null", JSON_PATCH)],
    "json-patch-not-json": [make(), patch("{broken", JSON_PATCH)],
    "json-patch-empty-body": [make(), patch(b"", JSON_PATCH)],
    "json-patch-of-strings": [make(), patch('["a"]', JSON_PATCH)],
    "json-patch-bad-op": _json({"op": "frobnicate", "path": "/spec/size", "value": 2}),
    "json-patch-no-op": _json({"path": "/spec/size", "value": 2}),
    "json-patch-op-a-number": _json({"op": 1, "path": "/spec/size", "value": 2}),
    "json-patch-no-path": _json({"op": "add", "value": 2}),
    "json-patch-path-a-number": _json({"op": "add", "path": 1, "value": 2}),
    "json-patch-path-no-slash": _json({"op": "add", "path": "spec", "value": 2}),
    "json-patch-no-value": _json({"op": "add", "path": "/spec/color"}),
    "json-patch-replace-no-value": _json({"op": "replace", "path": "/spec/color"}),
    "json-patch-test": _json({"op": "test", "path": "/spec/size", "value": 1}),
    "json-patch-test-fails": _json({"op": "test", "path": "/spec/size", "value": 2}),
    "json-patch-test-missing": _json({"op": "test", "path": "/spec/nothing", "value": 2}),
    "json-patch-test-missing-null": _json({"op": "test", "path": "/spec/nothing", "value": None}),
    "json-patch-test-object": _json({"op": "test", "path": "/spec/parts/0", "value": {"label": "a"}}),
    "json-patch-replace-missing": _json({"op": "replace", "path": "/spec/nothing", "value": 2}),
    "json-patch-remove-missing": _json({"op": "remove", "path": "/spec/nothing"}),
    "json-patch-add-below-missing": _json({"op": "add", "path": "/none/nothing", "value": 2}),
    "json-patch-index-append": _json({"op": "add", "path": "/spec/parts/-", "value": {"label": "c"}}),
    "json-patch-index-insert": _json({"op": "add", "path": "/spec/parts/1", "value": {"label": "c"}}),
    "json-patch-index-end": _json({"op": "add", "path": "/spec/parts/2", "value": {"label": "c"}}),
    "json-patch-index-beyond": _json({"op": "add", "path": "/spec/parts/3", "value": {"label": "c"}}),
    "json-patch-index-negative": _json({"op": "add", "path": "/spec/parts/-1", "value": {"label": "c"}}),
    "json-patch-index-remove-negative": _json({"op": "remove", "path": "/spec/parts/-1"}),
    "json-patch-index-nonsense": _json({"op": "add", "path": "/spec/parts/x", "value": {"label": "c"}}),
    "json-patch-index-replace-beyond": _json({"op": "replace", "path": "/spec/parts/2", "value": {"label": "c"}}),
    "json-patch-index-leading-zero": _json({"op": "add", "path": "/spec/parts/01", "value": {"label": "c"}}),
    "json-patch-copy": _json({"op": "copy", "from": "/spec/parts/0", "path": "/spec/parts/-"}),
    "json-patch-copy-missing": _json({"op": "copy", "from": "/spec/none", "path": "/spec/color"}),
    "json-patch-move": _json({"op": "move", "from": "/spec/parts/0", "path": "/spec/parts/1"}),
    "json-patch-move-no-from": _json({"op": "move", "path": "/spec/parts/1"}),
    "json-patch-whole": _json({"op": "replace", "path": "", "value": {}}),
    "json-patch-remove-whole": _json({"op": "remove", "path": ""}),
    "json-patch-escapes": _json(
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"},
    ),
    "json-patch-too-many": _json(*[{"op": "test", "path": "/spec/size", "value": 1}] * 10001),
    "json-patch-many-adds": _json(*[{"op": "add", "path": "/spec/parts/0", "value": {"label": "c"}}] * 9999),
    "json-patch-many-adds-strict": _json(
        *[{"op": "add", "path": "/spec/parts/0", "value": {"label": "c"}}] * 9997,
        {"op": "add", "path": "/spec/shape", "value": 3},
        query="fieldValidation=Strict",
    ),
    "json-patch-copies-into-itself": _json(*[{"op": "copy", "from": "/spec", "path": "/spec/a"}] * 9999),
    "json-patch-copies-too-large": _json(
        {"op": "add", "path": "/spec/color", "value": "x" * 20_000},
        *[{"op": "copy", "from": "/spec/color", "path": "/spec/shape"}] * 200,
    ),
    "json-patch-many-unknown-members-strict": _json(
        {"op": "test", "path": "/spec/size", "value": 1, **{f"a{number}": 1 for number in range(150)}},
        {"op": "test", "path": "/spec/size", "value": 1, "other": 1},
        query="fieldValidation=Strict",
    ),
    "json-patch-unknown-member": _json({"op": "add", "path": "/spec/size", "value": 3, "other": 1}),
    "json-patch-unknown-member-strict": _json(
        {"op": "add", "path": "/spec/size", "value": 3, "other": 1}, query="fieldValidation=Strict"
    ),
    "json-patch-member-twice": [make(), patch('[{"op":"add","op":"add","path":"/spec","value":{"size":1}}]', JSON_PATCH)],
    "json-patch-unknown-default": _json({"op": "add", "path": "/spec/shape", "value": 3}),
    "json-patch-unknown-strict": _json({"op": "add", "path": "/spec/shape", "value": 3}, query="fieldValidation=Strict"),
    "json-patch-unknown-ignore": _json({"op": "add", "path": "/spec/shape", "value": 3}, query="fieldValidation=Ignore"),
    "json-patch-name": _json({"op": "replace", "path": "/metadata/name", "value": "other"}),
    "json-patch-uid": _json({"op": "replace", "path": "/metadata/uid", "value": _OTHER_UID}),
    "json-patch-revision-stale": _json({"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}),
    "json-patch-labels-a-list": _json({"op": "add", "path": "/metadata/labels", "value": ["a"]}),
    "json-patch-metadata-removed": _json({"op": "remove", "path": "/metadata"}),
    "json-patch-kind-removed": _json({"op": "remove", "path": "/kind"}),
    "json-patch-missing-object": [patch([], JSON_PATCH)],
    "json-patch-dry-run": [*_json({"op": "replace", "path": "/spec/size", "value": 2}, query="dryRun=All"), get()],
    "strategic": [make(), patch({}, _STRATEGIC)],
    "patch-type-json": [make(), patch({}, "application/json")],
    "patch-type-none": [make(), ask("PATCH", path("things", "$name"), {}, kind="")],
    "patch-type-nonsense": [make(), patch({}, "nonsense")],
    "patch-type-charset": [make(), patch({}, "application/merge-patch+json; charset=utf-8")],
    "patch-collection": [ask("PATCH", path("things"), {}, kind="application/merge-patch+json")],
}

_DELETE: Cases = {
    "delete": [make(), delete(), get()],
    "delete-missing": [delete()],
    "delete-twice": [make(), delete(compared=False), delete()],
    "delete-empty-options": [make(), delete({})],
    "delete-options": [make(), delete({"apiVersion": "v1", "kind": "DeleteOptions"})],
    "delete-options-of-the-group": [make(), delete({"apiVersion": f"{GROUP}/v1", "kind": "DeleteOptions"})],
    "delete-options-meta": [make(), delete({"apiVersion": "meta.k8s.io/v1", "kind": "DeleteOptions"})],
    "delete-options-other-version": [make(), delete({"apiVersion": "other.example.com/v1", "kind": "DeleteOptions"})],
    "delete-body-other-kind": [make(), delete(thing())],
    "delete-body-pod": [make(), delete({"apiVersion": "v1", "kind": "Pod"})],
    "delete-body-not-json": [make(), delete("x")],
    "delete-body-array": [make(), delete("[]")],
    "delete-body-null": [make(), delete("null")],
    "delete-body-yaml": [make(), delete("propagationPolicy: Background\n", kind="application/yaml")],
    "delete-body-text": [make(), delete({}, kind="text/plain")],
    "delete-unknown-field": [make(), delete({"colour": "red"})],
    "delete-uid-right": [make(), delete({"preconditions": {"uid": "$uid1"}})],
    "delete-uid-wrong": [make(), delete({"preconditions": {"uid": _OTHER_UID}})],
    "delete-revision-right": [make(), delete({"preconditions": {"resourceVersion": "$rv1"}})],
    "delete-revision-wrong": [make(), delete({"preconditions": {"resourceVersion": "1"}})],
    "delete-preconditions-a-string": [make(), delete({"preconditions": "x"})],
    "delete-uid-a-number": [make(), delete({"preconditions": {"uid": 1}})],
    "delete-grace-period": [make(), delete({"gracePeriodSeconds": 30})],
    "delete-grace-period-negative": [make(), delete({"gracePeriodSeconds": -1})],
    "delete-grace-period-a-string": [make(), delete({"gracePeriodSeconds": "x"})],
    "delete-grace-period-query-nonsense": [make(), delete(query="gracePeriodSeconds=x")],
    "delete-propagation-unknown": [make(), delete({"propagationPolicy": "Sideways"})],
    "delete-propagation-query-unknown": [make(), delete(query="propagationPolicy=Sideways")],
    "delete-propagation-and-orphan": [make(), delete({"propagationPolicy": "Orphan", "orphanDependents": True})],
    "delete-background": [make(), delete({"propagationPolicy": "Background"})],
    "delete-foreground": [make(), delete({"propagationPolicy": "Foreground"})],
    "delete-orphan": [make(), delete({"propagationPolicy": "Orphan"})],
    "delete-orphan-true": [make(), delete({"orphanDependents": True})],
    "delete-orphan-query": [make(), delete(query="orphanDependents=true")],
    "delete-foreground-query": [make(), delete(query="propagationPolicy=Foreground")],
    "delete-orphan-false": [make(), delete({"orphanDependents": False})],
    "delete-orphan-false-held": [make(thing(metadata=_HELD)), delete({"orphanDependents": False})],
    "delete-dry-run": [make(), delete({"dryRun": ["All"]}), get()],
    "delete-dry-run-query": [make(), delete(query="dryRun=All"), get()],
    "delete-dry-run-unknown": [make(), delete({"dryRun": ["Some"]})],
    "delete-dry-run-a-string": [make(), delete({"dryRun": "All"})],
    "delete-dry-run-missing": [delete(query="dryRun=All")],
    "delete-dry-run-held": [make(thing(metadata=_HELD)), delete(query="dryRun=All"), get()],
    "delete-as-table": [make(), delete(accept="application/json;as=Table;g=meta.k8s.io;v=v1")],
    "delete-as-metadata": [make(), delete(accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")],
    "delete-as-yaml": [make(), delete(accept="application/yaml")],
    "delete-ignore-read-error": [make(), delete({"ignoreStoreReadErrorWithClusterBreakingPotential": True})],
}

_CLEARED = [{"op": "remove", "path": "/metadata/finalizers"}]

_FINALIZERS: Cases = {
    "held-delete": [make(thing(metadata=_HELD)), delete(), get()],
    "held-delete-again": [make(thing(metadata=_HELD)), delete(compared=False), delete(), get()],
    "held-as-metadata": [
        make(thing(metadata=_HELD)),
        delete(accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ],
    "held-released": [make(thing(metadata=_HELD)), delete(compared=False), patch(_CLEARED, JSON_PATCH), get()],
    "held-released-dry-run": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        patch(_CLEARED, JSON_PATCH, query="dryRun=All"),
        get(),
    ],
    "held-released-by-put": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        put(thing(metadata={"resourceVersion": "$rv2"})),
        get(),
    ],
    "held-added": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        patch({"metadata": {"finalizers": ["a.example.com/f", "b.example.com/f"]}}),
    ],
    "held-exchanged": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        patch({"metadata": {"finalizers": ["b.example.com/f"]}}),
    ],
    "held-one-of-two-removed": [
        make(thing(metadata={"finalizers": ["a.example.com/f", "b.example.com/f"]})),
        delete(compared=False),
        patch({"metadata": {"finalizers": ["b.example.com/f"]}}),
    ],
    "held-changed": [make(thing(metadata=_HELD)), delete(compared=False), patch({"spec": {"size": 5}})],
    "held-deletion-time-changed": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        patch({"metadata": {"deletionTimestamp": "2001-01-01T00:00:00Z"}}),
    ],
    "held-deletion-time-removed": [
        make(thing(metadata=_HELD)),
        delete(compared=False),
        patch({"metadata": {"deletionTimestamp": None}}),
    ],
    "held-grace-period": [make(thing(metadata=_HELD)), delete({"gracePeriodSeconds": 30})],
    "held-uid-wrong": [make(thing(metadata=_HELD)), delete(compared=False), delete({"preconditions": {"uid": _OTHER_UID}})],
    "finalizer-foreground-by-hand": [make(thing(metadata={"finalizers": ["foregroundDeletion", "a.example.com/f"]})), delete()],
    "held-orphan-twice": [
        make(thing(metadata=_HELD)),
        delete({"propagationPolicy": "Background"}),
        delete({"propagationPolicy": "Background"}),
    ],
}


def _collection(query: str, body: Any = None, *, accept: str = "application/json") -> list[Ask]:
    """Three objects, two with a label, deleted as a collection; then the list of what is left."""
    named = [thing(metadata={"name": f"$name-{index}", "labels": {"case": "$name", "odd": str(index % 2)}}) for index in range(3)]
    left = ask("GET", path("things", labelSelector="case=$name"))
    gone = ask("DELETE", path("things") + f"?labelSelector=case%3D$name{query}", body, accept=accept)
    return [*[make(entry) for entry in named], gone, left]


_DELETE_COLLECTION: Cases = {
    "collection": _collection(""),
    "collection-selector": _collection("%2Codd%3D1"),
    "collection-field-selector": _collection("&fieldSelector=metadata.name%3D$name-0"),
    "collection-field-selector-unsupported": _collection("&fieldSelector=spec.size%3D1"),
    "collection-options": _collection("", {"propagationPolicy": "Background"}),
    "collection-options-wrong": _collection("", {"propagationPolicy": "Sideways"}),
    "collection-uid-precondition": _collection("", {"preconditions": {"uid": _OTHER_UID}}),
    "collection-dry-run": _collection("&dryRun=All"),
    "collection-limit": _collection("&limit=1"),
    "collection-as-table": _collection("", accept="application/json;as=Table;g=meta.k8s.io;v=v1"),
    "collection-as-metadata": _collection("", accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
    "collection-as-yaml": _collection("", accept="application/yaml"),
    "collection-nothing": [ask("DELETE", path("things", labelSelector="case=$name-none"))],
    "collection-malformed-selector": [ask("DELETE", path("things", labelSelector="a=b=c"))],
    "collection-body-not-json": [ask("DELETE", path("things", labelSelector="case=$name-none"), "x")],
    "collection-match-alone": [ask("DELETE", path("things", labelSelector="case=$name-none", resourceVersionMatch="Exact"))],
    "collection-across-namespaces": [ask("DELETE", path("things", namespace="", labelSelector="case=none"))],
    "collection-held": [
        make(thing(metadata={**_HELD, "labels": {"case": "$name"}})),
        ask("DELETE", path("things", labelSelector="case=$name")),
        get(),
    ],
    "collection-cluster-scoped": [
        ask("POST", path("beacons", namespace=""), beacon(metadata={"labels": {"case": "$name"}}), compared=False),
        ask("DELETE", path("beacons", namespace="", labelSelector="case=$name")),
    ],
    "post-again-after-collection": [*_collection("")[:-1], post(thing())],
}

CASES: Cases = {**_UPDATE, **_MERGE_PATCH, **_JSON_PATCH, **_DELETE, **_FINALIZERS, **_DELETE_COLLECTION}
