"""Cases for `test_same_answers.py`: who owns which field after each kind of write, of the definition `Deck`, of namespaces and of
definitions, and what `kubectl apply` takes over.
"""

from __future__ import annotations

import json
from typing import Any

from tests.integration.cases_apply import CARDS, LAST_APPLIED, apply, created, deck, force, merge, prepare
from tests.integration.comparison import (
    APPLY_PATCH,
    GROUP,
    JSON_PATCH,
    Ask,
    Cases,
    ask,
    delete,
    get,
    patch,
    path,
    post,
    put,
)
from tests.integration.definitions import NAME, SCHEMA, crd, request, version

__all__ = ["CASES"]


def _entry(manager: str, fields: Any, operation: str = "Update", version: str = f"{GROUP}/v1", **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": "2001-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


_IMAGE = {"f:spec": {"f:image": {}}}


_SET = "$set"


def _deep(levels: int) -> list[Ask]:
    """managedFields of a set that is nested so deep, which Python's encoder would not write."""
    body = json.dumps(deck({"image": "a"}, metadata={"resourceVersion": "$rv1", "managedFields": [_entry("mine", _SET)]}))
    text = body.replace(f'"{_SET}"', '{"f:a":' * levels + "{}" + "}" * levels)
    return [prepare({"image": "a", "replicas": 1}), put(text, resource="decks", query="fieldManager=putter")]


def _given(*entries: Any, spec: Any = None) -> list[Ask]:
    """An object applied by one, then a PUT with these managedFields, then what an apply makes of it."""
    return [
        prepare({"image": "a", "replicas": 1}),
        put(
            deck(
                spec or {"image": "a", "replicas": 2},
                metadata={"resourceVersion": "$rv1", "managedFields": list(entries)},
            ),
            resource="decks",
            query="fieldManager=putter",
        ),
        apply(deck({"image": "z"}), "three"),
    ]


_OWNERS: Cases = {
    "owners-reset": _given({}),
    "owners-reset-empty": _given(),
    "owners-reset-patch": [
        prepare({"image": "a"}),
        merge({"metadata": {"managedFields": [{}]}}),
        apply(deck({"image": "b"})),
        apply(deck({"image": "b"}), "three"),
    ],
    "owners-reset-patch-empty": [prepare({"image": "a"}), merge({"metadata": {"managedFields": []}})],
    "owners-reset-patch-null": [prepare({"image": "a"}), merge({"metadata": {"managedFields": None}})],
    "owners-reset-json-patch": [
        prepare({"image": "a"}),
        patch([{"op": "remove", "path": "/metadata/managedFields"}], JSON_PATCH, resource="decks"),
        patch([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}], JSON_PATCH, resource="decks"),
    ],
    "owners-reset-with-change": [
        prepare({"image": "a"}),
        merge({"metadata": {"managedFields": [{}]}, "spec": {"replicas": 3}}),
        merge({"spec": {"replicas": 4}}),
        apply(deck({"image": "b", "replicas": 4})),
        force(deck({"image": "b", "replicas": 4})),
    ],
    "owners-reset-apply-first": [
        created({"image": "a", "replicas": 1, "cards": CARDS, "tags": ["x"]}),
        merge({"metadata": {"managedFields": [{}]}}, compared=False),
        apply(deck({"image": "a", "cards": [{"port": 5}]})),
    ],
    "owners-given": _given(_entry("mine", _IMAGE)),
    "owners-given-apply": _given(_entry("mine", _IMAGE, "Apply")),
    "owners-given-several": _given(_entry("mine", _IMAGE), _entry("yours", {"f:spec": {"f:replicas": {}}}, "Apply")),
    "owners-given-twice": _given(_entry("mine", _IMAGE), _entry("mine", {"f:spec": {"f:replicas": {}}})),
    "owners-given-subresource": _given(_entry("mine", _IMAGE, subresource="status")),
    "owners-given-no-manager": _given(_entry("", _IMAGE)),
    "owners-given-no-time": _given({key: value for key, value in _entry("mine", _IMAGE).items() if key != "time"}),
    "owners-given-bad-time": _given(_entry("mine", _IMAGE, time="yesterday")),
    "owners-given-time-a-number": _given(_entry("mine", _IMAGE, time=1)),
    "owners-given-zone": _given(_entry("mine", _IMAGE, time="2001-01-01T02:00:00+02:00")),
    "owners-given-fraction": _given(_entry("mine", _IMAGE, time="2001-01-01T02:00:00.5Z")),
    "owners-given-operation": _given(_entry("mine", _IMAGE, "Delete")),
    "owners-given-no-operation": _given({key: value for key, value in _entry("mine", _IMAGE).items() if key != "operation"}),
    "owners-given-version": _given(_entry("mine", _IMAGE, version=f"{GROUP}/v2")),
    "owners-given-version-unknown": _given(_entry("mine", _IMAGE, version=f"{GROUP}/v9")),
    "owners-given-version-unknown-apply": _given(_entry("mine", _IMAGE, "Apply", version=f"{GROUP}/v9")),
    "owners-given-version-other": _given(_entry("mine", _IMAGE, version="apps/v1")),
    "owners-given-version-malformed": _given(_entry("mine", _IMAGE, version="a/b/c")),
    "owners-given-version-none": _given(_entry("mine", _IMAGE, version="")),
    "owners-given-fields-type": _given(_entry("mine", _IMAGE, fieldsType="FieldsV2")),
    "owners-given-no-fields-type": _given(_entry("mine", _IMAGE, fieldsType="")),
    "owners-given-no-fields": _given(_entry("mine", None)),
    "owners-given-empty-fields": _given(_entry("mine", {})),
    "owners-given-fields-a-string": _given(_entry("mine", "x")),
    "owners-given-fields-a-list": _given(_entry("mine", [])),
    "owners-given-fields-a-number": _given(_entry("mine", 1)),
    "owners-given-field-bad": _given(_entry("mine", {"spec": {}})),
    "owners-given-field-unknown": _given(_entry("mine", {"x:spec": {}})),
    "owners-given-field-short": _given(_entry("mine", {"f": {}})),
    "owners-given-field-empty": _given(_entry("mine", {"": {}})),
    "owners-given-field-null": _given(_entry("mine", {"f:spec": None})),
    "owners-given-field-a-string": _given(_entry("mine", {"f:spec": "x"})),
    "owners-given-field-a-list": _given(_entry("mine", {"f:spec": []})),
    "owners-given-key-bad": _given(_entry("mine", {"f:spec": {"f:cards": {"k:x": {}}}})),
    "owners-given-key-a-list": _given(_entry("mine", {"f:spec": {"f:cards": {"k:[]": {}}}})),
    "owners-given-key-order": _given(
        _entry("mine", {"f:spec": {"f:cards": {'k:{"protocol":"TCP","port":1}': {".": {}, "f:name": {}}}}}),
        spec={"cards": [{"port": 1, "name": "x"}]},
    ),
    "owners-given-key-spaces": _given(
        _entry("mine", {"f:spec": {"f:cards": {'k:{"port": 1, "protocol": "TCP"}': {".": {}, "f:name": {}}}}}),
        spec={"cards": [{"port": 1, "name": "x"}]},
    ),
    "owners-given-value": _given(_entry("mine", {"f:spec": {"f:tags": {'v:"x"': {}}}}), spec={"tags": ["x"]}),
    "owners-given-value-bad": _given(_entry("mine", {"f:spec": {"f:tags": {"v:x": {}}}})),
    "owners-given-value-object": _given(_entry("mine", {"f:spec": {"f:tags": {'v:{"a": [1, null]}': {}}}})),
    "owners-given-value-trailing": _given(_entry("mine", {"f:spec": {"f:tags": {'v:"x" y': {}}}})),
    "owners-given-index": _given(_entry("mine", {"f:spec": {"f:row": {"i:0": {}}}})),
    "owners-given-index-bad": _given(_entry("mine", {"f:spec": {"f:row": {"i:x": {}}}})),
    "owners-given-index-negative": _given(_entry("mine", {"f:spec": {"f:row": {"i:-1": {}}}})),
    "owners-given-not-there": _given(_entry("mine", {"f:spec": {"f:note": {}, "f:nothing": {"f:at": {}}}})),
    "owners-given-deeper": _given(_entry("mine", {"f:spec": {"f:image": {"f:x": {}}}})),
    "owners-given-stripped": _given(_entry("mine", {"f:metadata": {"f:name": {}, "f:uid": {}}, **_IMAGE})),
    "owners-given-long-manager": _given(_entry("x" * 129, _IMAGE)),
    "owners-given-control-manager": _given(_entry("a\x01b", _IMAGE)),
    "owners-given-control-subresource": _given(_entry("mine", _IMAGE, subresource="a\x01b")),
    "owners-given-unknown-member": _given(_entry("mine", _IMAGE, colour="x")),
    "owners-given-manager-a-number": _given(_entry("mine", _IMAGE) | {"manager": 1}),
    "owners-given-a-string": _given("x"),
    "owners-given-null": _given(None),
    "owners-given-null-beside": _given(None, _entry("mine", _IMAGE)),
    "owners-given-two-empty": _given({}, {}),
    "owners-given-empty-beside": _given({}, _entry("mine", _IMAGE)),
    "owners-given-deep": _given(_entry("mine", json.loads('{"f:a":' * 60 + "{}" + "}" * 60))),
    **{f"owners-given-deep-{levels}": _deep(levels) for levels in (200, 11_000)},
    "owners-given-large": _given(_entry("mine", {"f:spec": {"f:pairs": {f"f:k{index}": {} for index in range(70_000)}}})),
    "owners-given-many": _given(*[_entry(f"m{index:05}", _IMAGE) for index in range(10_000)]),
    "owners-given-many-apply": _given(*[_entry(f"m{index:05}", _IMAGE, "Apply") for index in range(5_000)]),
    "owners-given-many-invalid": _given(*[_entry("x" * 129, {"f": {}}, "Remove") for _ in range(1_000)]),
    "owners-given-many-versions": _given(*[_entry("m", _IMAGE, version=f"{GROUP}/v{index}") for index in range(1_000)]),
    "owners-given-create": [
        post(deck({"image": "a"}, metadata={"managedFields": [_entry("mine", _IMAGE)]}), resource="decks", query="fieldManager=x")
    ],
    "owners-given-create-reset": [post(deck({"image": "a"}, metadata={"managedFields": [{}]}), resource="decks")],
    "owners-given-create-invalid": [
        post(deck({"image": "a"}, metadata={"managedFields": [_entry("mine", {"x": {}})]}), resource="decks")
    ],
    "owners-twelve": [
        # By name as by time: they may write in one second or in several.
        created({"pairs": {}}, "m00"),
        *[merge({"spec": {"pairs": {f"k{index}": "x"}}}, f"m{index:02}") for index in range(1, 13)],
        merge({"spec": {"pairs": {"k1": "y"}}}, "m99"),
        force(deck({"image": "q"})),
    ],
    "owners-twelve-in-two-versions": [
        created({"pairs": {}}, "a0"),
        *[
            merge(
                {"spec": {"pairs": {f"k{index}": "x"}}}, f"a{index:02}", version="v1" if index % 2 else "v2", compared=index > 9
            )
            for index in range(1, 14)
        ],
    ],
    "owners-of-same-fields": [
        created({"image": "a"}),
        merge({"spec": {"image": "b"}}, "three"),
        merge({"spec": {"image": "c"}}),
    ],
    "owners-of-removed": [created({"image": "a", "replicas": 1}), merge({"spec": {"replicas": None}}, "three")],
    "owners-of-list": [
        created({"cards": CARDS, "tags": ["a"], "row": ["a"]}),
        merge({"spec": {"cards": [CARDS[0], {"port": 9}], "tags": ["a", "b"], "row": ["a", "b"]}}, "three"),
    ],
    "owners-of-duplicates": [
        created({"loose": [{"name": "a"}]}),
        merge({"spec": {"loose": [{"name": "a"}, {"name": "b"}]}}, "three"),
        apply(deck({"loose": [{"name": "a", "value": "x"}]})),
    ],
    "owners-nothing-new": [created({"image": "a"}), merge({"spec": {"image": "a"}}, "three"), get(resource="decks")],
    "owners-by-user-agent": [
        post(deck({"image": "a"}), resource="decks", user_agent="kubectl/v1.36 (linux)"),
        merge({"spec": {"replicas": 1}}, ""),
        patch({"spec": {"note": "a"}}, resource="decks", user_agent=""),
        patch({"spec": {"note": "b"}}, resource="decks", user_agent="/x"),
        patch({"spec": {"note": "c"}}, resource="decks", user_agent="x" * 200 + "/1"),
        patch({"spec": {"note": "d"}}, resource="decks", user_agent="a\tb c/1"),
    ],
    "owners-delete-marks": [
        post(deck({"image": "a"}, metadata={"finalizers": ["a.example.com/f"]}), resource="decks", query="fieldManager=x"),
        delete(resource="decks", query="propagationPolicy=Foreground"),
        patch({"metadata": {"finalizers": None}}, resource="decks"),
    ],
    "owners-in-list": [
        created({"image": "a"}, labels={"case": "$name"}),
        ask("GET", path("decks", labelSelector="case=$name")),
        ask("GET", path("decks", version="v2", labelSelector="case=$name")),
    ],
}


def _client_applied(spec: Any, version: str = "v1", applied: Any = None) -> Ask:
    """As kubectl's client-side apply creates an object."""
    said = json.dumps(deck(spec, version, {"annotations": {}}) if applied is None else applied)
    body = deck(spec, version, {"annotations": {LAST_APPLIED: said}})
    return ask("POST", path("decks", version=version) + "?fieldManager=kubectl-client-side-apply", body, compared=False)


_KUBECTL: Cases = {
    "kubectl-takes-over": [
        _client_applied({"image": "a", "replicas": 1}),
        apply(deck({"image": "b", "replicas": 1}), "kubectl"),
        apply(deck({"replicas": 1}), "kubectl"),
    ],
    "kubectl-takes-over-another-name": [_client_applied({"image": "a"}), apply(deck({"image": "b"}), "flux")],
    "kubectl-takes-over-not-what-changed": [
        _client_applied({"image": "a", "replicas": 1}),
        merge({"spec": {"image": "c"}}, "three", compared=False),
        apply(deck({"image": "b", "replicas": 2}), "kubectl"),
        force(deck({"image": "b", "replicas": 2}), "kubectl"),
    ],
    "kubectl-takes-over-annotation-broken": [
        _client_applied({"image": "a"}, applied="x"),
        apply(deck({"image": "b"}), "kubectl"),
        force(deck({"image": "b"}), "kubectl"),
    ],
    "kubectl-takes-over-other-version": [
        _client_applied({"image": "a"}, "v2"),
        apply(deck({"image": "b"}), "kubectl"),
    ],
    "kubectl-takes-over-version-of-annotation": [
        _client_applied({"image": "a"}, applied=deck({"image": "a"}, "v2")),
        apply(deck({"image": "b"}), "kubectl"),
    ],
    "kubectl-takes-over-annotation-of-nothing": [
        _client_applied({"image": "a"}, applied={}),
        apply(deck({"image": "b"}), "kubectl"),
    ],
    "kubectl-takes-over-unknown-in-annotation": [
        _client_applied({"image": "a"}, applied=deck({"image": "a", "nope": 1})),
        apply(deck({"image": "b"}), "kubectl"),
    ],
    "kubectl-keeps-annotations-of-apply": [
        _client_applied({"image": "a"}),
        apply(deck({"image": "a"}, metadata={"annotations": {"x": "y"}, "labels": {"c": "d"}}), "kubectl"),
    ],
    "kubectl-without-annotation": [prepare({"image": "a"}, "kubectl"), apply(deck({"image": "b"}), "kubectl")],
    "kubectl-annotation-applied": [
        apply(deck({"image": "a"}, metadata={"annotations": {LAST_APPLIED: "{}"}}), "kubectl"),
        apply(deck({"image": "b"}, metadata={"annotations": {LAST_APPLIED: "{}"}}), "kubectl"),
    ],
    "kubectl-annotation-empty": [
        apply(deck({"image": "a"}, metadata={"annotations": {LAST_APPLIED: ""}}), "kubectl"),
    ],
    "kubectl-annotation-too-large": [
        _client_applied({"image": "a"}),
        apply(deck({"image": "a", "note": "x" * 300000}), "kubectl"),
    ],
    "kubectl-annotation-escapes": [
        _client_applied({"image": "a"}),
        apply(deck({"image": "a", "note": "<é>&\u2028\n", "any": {"b": 1.0, "a": 1e21, "c": 1e-7}}), "kubectl"),
    ],
}


def _namespace(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "$name", **metadata}}


def _space(method: str, body: Any, query: str = "", kind: str = "application/json", **more: Any) -> Ask:
    where = "/api/v1/namespaces" if method == "POST" else "/api/v1/namespaces/$name"
    return ask(method, where + query, body, kind=kind, pick=_without_what_controllers_decide, **more)


def _without_what_controllers_decide(body: Any) -> Any:
    """Of a namespace: all but its phase, which a controller decides in its own time, and what else it does to a deleted one."""
    if body.get("kind") != "Namespace":
        return body
    body = {name: value for name, value in body.items() if name != "status"}
    if "deletionTimestamp" in body["metadata"]:
        body.pop("spec", None)
        entries = body["metadata"]["managedFields"]
        kept = [entry for entry in entries if not entry.get("subresource") and "f:spec" not in entry["fieldsV1"]]
        body["metadata"] = {**body["metadata"], "managedFields": kept}
    return body


def _apply_space(body: Any, manager: str = "one", more: str = "", **others: Any) -> Ask:
    return _space("PATCH", body, f"?fieldManager={manager}{more}", APPLY_PATCH, **others)


_GONE = _space("DELETE", None, compared=False)

_NAMESPACES: Cases = {
    "namespace-owned": [
        _space("POST", _namespace(labels={"a": "b"})),
        _space("PATCH", {"metadata": {"labels": {"c": "d"}}}, "?fieldManager=x", "application/merge-patch+json"),
        _space("PUT", _namespace(labels={"c": "e"}), "?fieldManager=y"),
        _GONE,
    ],
    "namespace-apply": [
        _apply_space(_namespace(labels={"a": "b"})),
        _apply_space(_namespace(labels={"a": "c"}), "two"),
        _apply_space(_namespace(labels={"a": "c"}), "two", "&force=true"),
        _apply_space(_namespace(annotations={"a": "c"})),
        _GONE,
    ],
    "namespace-apply-spec": [_apply_space({**_namespace(), "spec": {"finalizers": ["kubernetes"]}}), _GONE],
    "namespace-apply-over": [
        _space("POST", _namespace(), compared=False),
        _apply_space({**_namespace(), "spec": {"finalizers": ["kubernetes"]}}),
        _apply_space({**_namespace(), "spec": {"finalizers": ["x.example.com/y"]}}),
        _apply_space({**_namespace(), "status": {"phase": "Terminating"}}),
        _GONE,
    ],
    "namespace-apply-unknown": [_apply_space({**_namespace(), "extra": 1})],
    "namespace-apply-unknown-spec": [_apply_space({**_namespace(), "spec": {"extra": 1}})],
    "namespace-apply-unknown-metadata": [_apply_space(_namespace(colour="x"))],
    "namespace-apply-wrong-type": [_apply_space({**_namespace(), "spec": {"finalizers": "x"}})],
    "namespace-apply-wrong-labels": [_apply_space(_namespace(labels={"a": 1}))],
    "namespace-apply-bad-labels": [_apply_space(_namespace(labels={"a b": "x"}))],
    "namespace-apply-other-kind": [_apply_space({**_namespace(), "kind": "Pod"})],
    "namespace-apply-other-version": [_apply_space({**_namespace(), "apiVersion": "v2"})],
    "namespace-status-apply": [
        _apply_space(_namespace(labels={"a": "b"}), compared=False),
        ask(
            "PATCH",
            "/api/v1/namespaces/$name/status?fieldManager=st",
            {**_namespace(labels={"c": "d"}), "status": {"conditions": [{"type": "Own", "status": "True"}]}},
            kind=APPLY_PATCH,
            pick=_without_what_controllers_decide,
        ),
        ask(
            "PATCH",
            "/api/v1/namespaces/$name/status?fieldManager=su",
            {"metadata": {"labels": {"e": "f"}}, "status": {"conditions": [{"type": "Own", "status": "False"}]}},
            kind="application/merge-patch+json",
            pick=_without_what_controllers_decide,
        ),
        _GONE,
    ],
    "namespace-finalize-apply": [
        _apply_space(_namespace(labels={"a": "b"}), compared=False),
        ask("PATCH", "/api/v1/namespaces/$name/finalize?fieldManager=st", _namespace(), kind=APPLY_PATCH),
        _GONE,
    ],
    "namespace-terminating": [
        _apply_space({**_namespace(), "spec": {"finalizers": ["a.example.com/f"]}}, compared=False),
        _space("DELETE", None, compared=False),
        _apply_space(_namespace(labels={"a": "b"}), "two"),
        _space("PUT", {**_namespace(), "spec": {}}, "/finalize?fieldManager=f", compared=False),
    ],
    "namespace-apply-dry-run": [_apply_space(_namespace(labels={"a": "b"}), "one", "&dryRun=All")],
    "namespace-apply-null": [_apply_space(_namespace(labels=None))],
    "namespace-apply-twice": [
        _apply_space(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: $name\n  name: $name\n", "one", "&fieldValidation=Strict"
        )
    ],
}


def _apply_crd(body: Any, manager: str = "kubectl", more: str = "", **others: Any) -> Ask:
    return request("PATCH", f"/{NAME}?fieldManager={manager}{more}", body, kind=APPLY_PATCH, **others)


_CRD_GONE = request("DELETE", f"/{NAME}", None, compared=False)
_LISTED = {
    **SCHEMA,
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "true"}, {"rule": "1 == 1", "message": "x"}],
            "properties": {
                "a": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "enum": ["x", "y"]}}
            },
        }
    },
}


def _dry_crd(body: Any, **more: Any) -> list[Ask]:
    return [_apply_crd(body, "kubectl", "&dryRun=All", **more)]


def _condition(name: str, status: str) -> dict[str, Any]:
    return {"type": name, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2001-01-01T00:00:00Z"}


def _apply_status(status: Any, manager: str = "one") -> Ask:
    body = {name: value for name, value in crd(status=status).items() if name != "spec"}
    return request("PATCH", f"/{NAME}/status?fieldManager={manager}", body, kind=APPLY_PATCH)


_DEFINITIONS: Cases = {
    "definition-apply": [
        _apply_crd(crd()),
        _apply_crd(crd(version(), version("v2"))),
        _apply_crd(crd(version(), scope="Cluster"), "two"),
        _apply_crd(crd(), "two"),
        request(
            "PATCH", f"/{NAME}?fieldManager=z", {"metadata": {"annotations": {"a": "b"}}}, kind="application/merge-patch+json"
        ),
        _CRD_GONE,
    ],
    "definition-owned": [
        request("POST", "", crd(version(schema=_LISTED))),
        request(
            "PATCH", f"/{NAME}?fieldManager=z", {"spec": {"names": {"shortNames": ["w"]}}}, kind="application/merge-patch+json"
        ),
        _CRD_GONE,
    ],
    "definition-status-owned": [
        request("POST", "", crd(), compared=False),
        request(
            "PATCH",
            f"/{NAME}/status?fieldManager=st",
            {
                "status": {
                    "conditions": [
                        {
                            "type": "Own",
                            "status": "True",
                            "reason": "R",
                            "message": "m",
                            "lastTransitionTime": "2001-01-01T00:00:00Z",
                        }
                    ]
                }
            },
            kind="application/merge-patch+json",
        ),
        _CRD_GONE,
    ],
    "definition-status-apply": [
        request("POST", "", crd(), compared=False),
        _apply_status({"conditions": [_condition("Own", "True")]}),
        _apply_status({"conditions": [_condition("Own", "False")]}, "two"),
        _apply_status({"conditions": [_condition("Other", "False")]}, "two"),
        _apply_status({}),
        _apply_status({"storedVersions": ["v9"]}),
        _apply_status({"storedVersions": "v9"}),
        _CRD_GONE,
    ],
    "definition-status-apply-missing": [_apply_status({})],
    "definition-apply-dry-run": _dry_crd(crd(version(schema=_LISTED))),
    "definition-apply-unknown": _dry_crd(crd(nope=1)),
    "definition-apply-unknown-schema": _dry_crd(crd(version(schema={**SCHEMA, "nope": 1}))),
    "definition-apply-wrong-type": _dry_crd(crd(scope=1)),
    "definition-apply-wrong-versions": _dry_crd(crd() | {"spec": {"versions": "x"}}),
    "definition-apply-invalid": _dry_crd(crd(scope="Other")),
    "definition-apply-no-spec": _dry_crd({key: value for key, value in crd().items() if key != "spec"}),
    "definition-apply-null-list": _dry_crd(crd(names={"shortNames": []})),
    "definition-apply-old-version": _dry_crd({**crd(), "apiVersion": "apiextensions.k8s.io/v1beta1"}),
    "definition-apply-status": _dry_crd(crd(status={"storedVersions": ["v9"]})),
    "definition-apply-rules-twice": _dry_crd(
        crd(version(schema={**SCHEMA, "x-kubernetes-validations": [{"rule": "true"}, {"rule": "true", "message": "x"}]}))
    ),
    "definition-apply-terminating": [
        request("POST", "", crd(metadata={"finalizers": ["a.example.com/f"]}), compared=False),
        _CRD_GONE,
        _apply_crd(crd(metadata={"labels": {"a": "b"}})),
        request("PATCH", f"/{NAME}", {"metadata": {"finalizers": None}}, kind="application/merge-patch+json", compared=False),
    ],
    "definition-apply-client-side": [
        request(
            "POST",
            "?fieldManager=kubectl-client-side-apply",
            crd(metadata={"annotations": {LAST_APPLIED: json.dumps(crd(metadata={"annotations": {}}))}}),
            compared=False,
        ),
        _apply_crd(crd(version(schema={**SCHEMA, "description": "x"}))),
        _CRD_GONE,
    ],
}

CASES: Cases = {
    **_OWNERS,
    **_KUBECTL,
    **_NAMESPACES,
    **_DEFINITIONS,
}
