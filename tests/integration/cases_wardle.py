"""Cases for `test_sample_apiserver.py`: the requests of Kubernetes' e2e test "Sample API Server", and more of the same API.

Source: k8s.io/kubernetes test/e2e/apimachinery/aggregator.go (TestSampleAPIServer), v1.36.3. What it asks of APIServices is
kube-apiserver's own affair, and left out.
"""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, Cases, ask

__all__ = ["BANNED", "CASES", "DIFFERENT", "GROUP", "NAMESPACE"]

GROUP = "wardle.example.com"
NAMESPACE = "wardle"
NEW, OLD = "v1beta1", "v1alpha1"


def where(version: str = OLD, resource: str = "flunders", name: str = "", query: str = "") -> str:
    parts = f"/apis/{GROUP}/{version}/" + (f"namespaces/{NAMESPACE}/" if resource == "flunders" else "") + resource
    return parts + (f"/{name}" if name else "") + (f"?{query}" if query else "")


def flunder(version: str = OLD, metadata: Any = None, **spec: Any) -> dict[str, Any]:
    made = {"apiVersion": f"{GROUP}/{version}", "kind": "Flunder", "metadata": {"name": "$name", **(metadata or {})}}
    return {**made, "spec": spec} if spec else made


def fischer(*names: str, **metadata: Any) -> dict[str, Any]:
    metadata = {"name": "$name", **metadata}
    return {"apiVersion": f"{GROUP}/{OLD}", "kind": "Fischer", "metadata": metadata, "disallowedFlunders": list(names)}


def post(body: Any, version: str = OLD, resource: str = "flunders", query: str = "", **more: Any) -> Ask:
    return ask("POST", where(version, resource, query=query), body, **more)


def get(version: str = OLD, resource: str = "flunders", name: str = "$name", query: str = "", **more: Any) -> Ask:
    return ask("GET", where(version, resource, name, query), **more)


def patch(
    body: Any, kind: str = MERGE_PATCH, version: str = OLD, resource: str = "flunders", query: str = "", **more: Any
) -> Ask:
    return ask("PATCH", where(version, resource, "$name", query), body, kind=kind, **more)


def delete(resource: str = "flunders", version: str = OLD, name: str = "$name", query: str = "", body: Any = None) -> Ask:
    return ask("DELETE", where(version, resource, name, query), body)


MINE = "labelSelector=case=$name"
LABELLED = {"labels": {"case": "$name"}}

_E2E: Cases = {
    # kubectl create, get, delete, get: with a REST client.
    "rest-flunder": [
        post(flunder(metadata={"labels": {"sample-label": "true", "case": "$name"}, "namespace": NAMESPACE})),
        get(name="", query=MINE),
        delete(),
        get(name="", query=MINE),
    ],
    # The same with the dynamic client, which sends what Go's type encodes, and twice: before and after a deletion.
    "dynamic-flunder": [
        post({**flunder(metadata={"creationTimestamp": None, **LABELLED}), "spec": {}, "status": {}}),
        get(name="", query=MINE),
        delete(),
        get(name="", query=MINE),
        post({**flunder(metadata={"creationTimestamp": None, **LABELLED}), "spec": {}, "status": {}}),
        get(name="", query=MINE),
    ],
}

_SPECS: Cases = {
    f"{name}-{version}": [post(flunder(version, **spec), version)]
    for version, specs in {
        NEW: {
            "flunder": {"flunderReference": "a", "referenceType": "Flunder"},
            "fischer": {"fischerReference": "a", "referenceType": "Fischer"},
            "both": {"flunderReference": "a", "fischerReference": "b", "referenceType": "Flunder"},
            "both-untyped": {"flunderReference": "a", "fischerReference": "b"},
            "flunder-untyped": {"flunderReference": "a"},
            "fischer-untyped": {"fischerReference": "a"},
            "flunder-of-fischer": {"flunderReference": "a", "referenceType": "Fischer"},
            "fischer-of-flunder": {"fischerReference": "a", "referenceType": "Flunder"},
            "no-flunder": {"referenceType": "Flunder"},
            "no-fischer": {"referenceType": "Fischer"},
            "other-type": {"referenceType": "Other"},
            "other-type-with-reference": {"flunderReference": "a", "referenceType": "Other"},
            "unknown-field": {"reference": "a"},
        },
        OLD: {
            "untyped": {"reference": "a"},
            "flunder": {"reference": "a", "referenceType": "Flunder"},
            "fischer": {"reference": "a", "referenceType": "Fischer"},
            "no-reference": {"referenceType": "Fischer"},
            "no-flunder": {"referenceType": "Flunder"},
            "other-type": {"reference": "a", "referenceType": "Other"},
            "unknown-field": {"flunderReference": "a"},
            "number": {"reference": 1},
            "null": {"reference": None},
        },
    }.items()
    for name, spec in specs.items()
}

_VERSIONS: Cases = {
    "old-as-new": [post(flunder(reference="a"), compared=False), get(NEW)],
    "new-as-old": [post(flunder(NEW, fischerReference="a", referenceType="Fischer"), NEW, compared=False), get(OLD)],
    "list-as-new": [post(flunder(metadata=LABELLED, reference="a"), compared=False), get(NEW, name="", query=MINE)],
    "patch-as-new": [
        post(flunder(reference="a"), compared=False),
        patch({"spec": {"flunderReference": "b"}}, version=NEW),
        get(),
    ],
    "other-version-in-body": [post(flunder(NEW), OLD)],
    "fischers-of-new": [get(NEW, "fischers", name="")],
}

# Made before all cases, and waited for: sample-apiserver learns of a Fischer a moment later than its client.
BANNED = ("ban-a", "ban-b")

_BAN: Cases = {
    "ban": [
        post(flunder(metadata={"name": "$name-a"})),
        post(flunder(NEW, metadata={"name": "$name-b"}, referenceType="Other"), NEW),
        post(flunder(metadata={"name": "$name-b"}), query="dryRun=All"),
        post(flunder(metadata={"name": "$name-c"})),
    ],
    "fischer": [post(fischer("$name-a", "$name-b"), resource="fischers"), delete("fischers")],
    "fischer-get": [
        post(fischer("$name-a", labels={"case": "$name"}), resource="fischers", compared=False),
        get(resource="fischers"),
        get(resource="fischers", name="", query=MINE),
        patch({"disallowedFlunders": ["$name-b"]}, resource="fischers"),
        delete("fischers"),
        get(resource="fischers"),
    ],
    "fischer-empty": [post({**fischer(), "disallowedFlunders": []}, resource="fischers"), delete("fischers")],
}

_WRITES: Cases = {
    "twice": [post(flunder(), compared=False), post(flunder())],
    "no-name": [post(flunder(metadata={"name": ""}))],
    "bad-name": [post(flunder(metadata={"name": "Web_Server"}))],
    "generated": [post(flunder(metadata={"name": "", "generateName": "generated-"}))],
    "dry-run": [post(flunder(), query="dryRun=All"), get()],
    "strict": [post(flunder(colour="red"), query="fieldValidation=Strict")],
    "ignore": [post(flunder(colour="red"), query="fieldValidation=Ignore")],
    "put": [
        post(flunder(reference="a"), compared=False),
        ask("PUT", where(name="$name"), flunder(metadata={"resourceVersion": "$rv1"}, reference="b")),
    ],
    "put-without-revision": [post(flunder(), compared=False), ask("PUT", where(name="$name"), flunder(reference="b"))],
    "put-stale": [
        post(flunder(), compared=False),
        patch({"metadata": {"labels": {"a": "b"}}}, compared=False),
        ask("PUT", where(name="$name"), flunder(metadata={"resourceVersion": "$rv1"}, reference="b")),
    ],
    "put-unchecked": [  # upstream checks no updates
        post(flunder(NEW), NEW, compared=False),
        ask("PUT", where(NEW, name="$name"), flunder(NEW, metadata={"resourceVersion": "$rv1"}, referenceType="Flunder")),
    ],
    "put-missing": [ask("PUT", where(name="$name"), flunder())],
    "json-patch": [post(flunder(), compared=False), patch([{"op": "add", "path": "/spec/reference", "value": "b"}], JSON_PATCH)],
    "apply": [patch(flunder(reference="a"), APPLY_PATCH, query="fieldManager=ann"), get()],
    "apply-conflict": [
        patch(flunder(reference="a"), APPLY_PATCH, query="fieldManager=ann", compared=False),
        patch(flunder(reference="b"), APPLY_PATCH, query="fieldManager=bob"),
    ],
    "missing": [get(), delete(), patch({})],
    "finalizer": [
        post(flunder(metadata={"finalizers": ["a.example.com/f"]}), compared=False),
        delete(),
        get(),
        patch({"metadata": {"finalizers": None}}),
        get(),
    ],
    "wrong-uid": [
        post(flunder(), compared=False),
        delete(body={"preconditions": {"uid": "6f1d5e4c-0000-4000-8000-000000000001"}}),
    ],
    "collection": [
        post(flunder(metadata=LABELLED), compared=False),
        ask("DELETE", where(query=MINE)),
        get(name="", query=MINE),
    ],
    "stranger": [post(flunder(), stranger=True), ask("GET", where(), stranger=True)],
}

_READS: Cases = {
    "by-name": [post(flunder(), compared=False), get(name="", query="fieldSelector=metadata.name=$name")],
    "by-spec": [get(name="", query="fieldSelector=spec.reference=a")],
    "metadata-only": [
        post(flunder(), compared=False),
        get(accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ],
    "watch": [
        post(flunder(metadata=LABELLED), compared=False),
        patch({"metadata": {"labels": {"on": "yes"}}}, compared=False),
        get(name="", query=f"{MINE}&watch=true&resourceVersion=$rv1&timeoutSeconds=1"),
    ],
    "watch-list": [
        post(flunder(metadata=LABELLED), compared=False),
        get(
            name="",
            query=f"{MINE}&watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
            "&timeoutSeconds=1",
        ),
    ],
    "groups": [ask("GET", f"/apis/{GROUP}")],
    "nothing": [ask("GET", f"/apis/{GROUP}/{OLD}/unknowns"), ask("POST", where(name="$name"), flunder())],
}

CASES: Cases = {**_E2E, **_SPECS, **_VERSIONS, **_BAN, **_WRITES, **_READS}

# Case -> why the answers differ.
DIFFERENT: dict[str, str] = {
    "bad-name": "sample-apiserver checks no names",
    "number-v1alpha1": "a value of another type is told by Go's decoder there, by the schema here",
    "fischer-empty": "Go's encoder leaves out an empty list",
    "by-spec": "the text about a field that can't be selected is that of custom resources",
    "fischers-of-new": "the answer to an unknown resource is that of custom resources, which is a plain text",
    "nothing": "the answer to an unknown resource is that of custom resources, and so is a POST to a name, which creates",
    "watch-list": "the object of a bookmark has an empty spec there",
}
