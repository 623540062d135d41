"""Cases for `test_same_webhooks.py`: webhooks, and requests that they are asked about."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from aiohttp import web

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Ask, ask
from tests.integration.webhook_sides import GROUP, Answering, Hook, WebhookCase

__all__ = ["CASES", "DEFINITIONS"]

_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "color": {"type": "string", "default": "red"},
                "size": {"type": "integer"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
            "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100", "message": "too large"}],
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "size": {"type": "integer"}}},
    },
}
# In v2 another default tells which version an object was in.
_SCHEMA2 = json.loads(json.dumps(_SCHEMA).replace('"default": "red"', '"default": "blue"'))


def _version(name: str, schema: Any, **more: Any) -> JSONObject:
    subresources = {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        **more,
    }


def _definition(plural: str, kind: str, scope: str) -> JSONObject:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
            "versions": [_version("v1", _SCHEMA), _version("v2", _SCHEMA2), _version("v3", _SCHEMA, served=False)],
        },
        "status": {
            "acceptedNames": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
            "conditions": [],
            "storedVersions": ["v1"],
        },
    }


DEFINITIONS = [_definition("gadgets", "Gadget", "Namespaced"), _definition("gizmos", "Gizmo", "Cluster")]

# --- requests ---

_AS = {
    "Impersonate-User": "alice",
    "Impersonate-Group": "system:masters",
    "Impersonate-Uid": "77",
    "Impersonate-Extra-Scopes": "all",
}


def path(name: str = "", *, resource: str = "gadgets", version: str = "v1", query: str = "", sub: str = "") -> str:
    where = f"/apis/{GROUP}/{version}" + ("/namespaces/$namespace" if resource == "gadgets" else "") + f"/{resource}"
    where += f"/{name}" if name else ""
    where += f"/{sub}" if sub else ""
    return where + (f"?{query}" if query else "")


def gadget(spec: Any = None, version: str = "v1", kind: str = "Gadget", metadata: Any = None, **more: Any) -> JSONObject:
    found = {"apiVersion": f"{GROUP}/{version}", "kind": kind, "metadata": {"name": "$name", **(metadata or {})}, **more}
    return found if spec is None else {**found, "spec": spec}


def sent(method: str, where: str, body: Any = None, **more: Any) -> Ask:
    return ask(method, where, body, **more, **{name.replace("-", "_"): value for name, value in _AS.items()})


def create(body: Any = None, *, version: str = "v1", resource: str = "gadgets", query: str = "", **more: Any) -> Ask:
    return sent("POST", path(version=version, resource=resource, query=query), body or gadget({"size": 1}, version), **more)


def get(name: str = "$name", **more: Any) -> Ask:
    return sent("GET", path(name, **more))


def put(body: Any, *, sub: str = "", version: str = "v1", query: str = "", **more: Any) -> Ask:
    return sent("PUT", path("$name", sub=sub, version=version, query=query), body, **more)


def patch(body: Any, kind: str = MERGE_PATCH, *, sub: str = "", version: str = "v1", query: str = "", **more: Any) -> Ask:
    return sent("PATCH", path("$name", sub=sub, version=version, query=query), body, kind=kind, **more)


def delete(name: str = "$name", body: Any = None, **more: Any) -> Ask:
    return sent("DELETE", path(name, **more), body)


# --- answers ---


def says(**response: Any) -> Answering:
    """A response with the uid of the request; `allowed` unless it says otherwise."""
    return lambda review: {"uid": review["request"]["uid"], "allowed": True, **response}


allow = says()


def deny(**status: Any) -> Answering:
    return says(allowed=False, status=status)


def patches(*operations: Any, **response: Any) -> Answering:
    return says(patch=encoded(list(operations)), patchType="JSONPatch", **response)


def encoded(value: Any) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode()


def op(op: str, path: str, value: Any = None, **more: Any) -> JSONObject:
    return {"op": op, "path": path, **({} if op == "remove" else {"value": value}), **more}


def raw(body: bytes | str, status: int = 200, content_type: str = "application/json", **headers: str) -> Answering:
    data = body.encode() if isinstance(body, str) else body

    def answer(review: JSONObject) -> web.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=data, status=status, headers={"content-type": content_type, **given} if content_type else given)

    return answer


def review(text: str) -> Answering:
    """A body in which `$uid` stands for the uid of the request."""
    return lambda asked: web.Response(
        body=text.replace("$uid", asked["request"]["uid"]).encode(), content_type="application/json"
    )


def hangs(seconds: float) -> Answering:
    async def answer(review: JSONObject) -> Any:
        await asyncio.sleep(seconds)
        return allow(review)

    return answer


# --- cases ---

IGNORE = {"failurePolicy": "Ignore"}


def hook(answer: Answering, name: str = "hook", configuration: str = "a", **fields: Any) -> Hook:
    return Hook(answer, True, fields, name, configuration)


def judge(answer: Answering, name: str = "judge", configuration: str = "a", **fields: Any) -> Hook:
    return Hook(answer, False, fields, name, configuration)


def rules(resources: str = "gadgets", versions: str = "*", operations: str = "*", groups: str = "*", **more: Any) -> JSONObject:
    rule = {
        "apiGroups": groups.split(","),
        "apiVersions": versions.split(","),
        "resources": resources.split(","),
        "operations": operations.split(","),
        **more,
    }
    return {"rules": [rule]}


_BAD_STATUS: dict[str, Any] = {
    "nothing": {},
    "message": {"message": "no way"},
    "reason": {"reason": "Forbidden"},
    "message-and-reason": {"message": "no way", "reason": "Conflict", "code": 409},
    "code-403": {"message": "no", "code": 403},
    "code-200": {"message": "no", "code": 200, "status": "Success"},
    "code-302": {"message": "no", "code": 302},
    "code-422": {"code": 422, "reason": "Invalid"},
    "code-500": {"message": "no", "code": 500},
    "code-599": {"message": "no", "code": 599},
    "code-418": {"message": "no", "code": 418, "reason": "ImATeapot"},
    "code-negative": {"message": "no", "code": -5},
    "details": {
        "message": "no",
        "code": 422,
        "details": {
            "name": "n",
            "group": "g",
            "kind": "k",
            "causes": [{"reason": "FieldValueInvalid", "message": "bad", "field": "spec.x"}, {"message": "worse"}, {}],
        },
    },
    "empty-details": {"message": "no", "details": {}},
    "retry-after": {"message": "later", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 7}},
    "newlines": {"message": 'one\ntwo "three"'},
}

_BAD_ANSWERS: dict[str, Answering] = {
    "empty": raw(b""),
    "empty-object": raw("{}"),
    "null": raw("null"),
    "a-number": raw("7"),
    "a-list": raw("[]"),
    "not-json": raw("hello"),
    "html": raw("<html></html>", content_type="text/html"),
    "half-json": raw('{"kind":"AdmissionReview",'),
    "yaml": raw("kind: AdmissionReview\napiVersion: admission.k8s.io/v1\n"),
    "500": raw("it broke", 500, "text/plain"),
    "500-json": raw('{"error":"it broke"}', 500),
    "503": raw("busy", 503, "text/plain"),
    "404": raw("nothing here", 404, "text/plain"),
    "401": raw("who", 401, "text/plain"),
    "403": raw("no", 403, "text/plain"),
    "418": raw("tea", 418, "text/plain"),
    "204": raw(b"", 204),
    "201": review('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"$uid","allowed":true}}'),
    "status": raw(json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": 400}), 400),
    "status-200": raw(json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "m", "code": 400})),
    "other-kind": raw('{"kind":"Pod","apiVersion":"v1"}'),
    "other-group": raw('{"kind":"AdmissionReview","apiVersion":"example.com/v1"}'),
    "v2": raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2"}'),
    "v1beta1-for-v1": raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"allowed":true}}'),
    "kind-missing": review('{"apiVersion":"admission.k8s.io/v1","response":{"uid":"$uid","allowed":true}}'),
    "version-missing": review('{"kind":"AdmissionReview","response":{"uid":"$uid","allowed":true}}'),
    "kind-a-number": raw('{"kind":7,"apiVersion":"admission.k8s.io/v1"}'),
    "response-missing": raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}'),
    "response-null": raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":null}'),
    "response-a-string": raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":"x"}'),
    "wrong-uid": says(uid="other"),
    "no-uid": says(uid=""),
    "uid-a-number": says(uid=7),
    "allowed-a-string": says(allowed="true"),
    "allowed-missing": lambda review: {"uid": review["request"]["uid"]},
    "code-a-string": says(allowed=False, status={"code": "403"}),
    "status-a-string": says(allowed=False, status="no"),
    "warnings-a-string": says(warnings="careful"),
    "warnings-of-numbers": says(warnings=[1]),
    "annotations-of-numbers": says(auditAnnotations={"a": 1}),
    "patch-without-type": says(patch=encoded([op("add", "/spec/size", 5)])),
    "type-without-patch": says(patchType="JSONPatch"),
    "empty-type": says(patch=encoded([]), patchType=""),
    "other-type": says(patch=encoded([op("add", "/spec/size", 5)]), patchType="MergePatch"),
    "patch-not-base64": says(patch="%%%", patchType="JSONPatch"),
    "patch-half-base64": says(patch="abc", patchType="JSONPatch"),
    "patch-not-json": says(patch=encoded(b"hello"), patchType="JSONPatch"),
    "patch-an-object": says(patch=encoded({"op": "add"}), patchType="JSONPatch"),
    "patch-of-strings": says(patch=encoded(["add"]), patchType="JSONPatch"),
    "patch-a-number": says(patch=5, patchType="JSONPatch"),
    "patch-null": says(patch=encoded(None), patchType="JSONPatch"),
    "unknown-members": says(unheard="of"),
}

_PATCHES: dict[str, list[Any]] = {
    "nothing": [],
    "label": [op("add", "/metadata/labels", {"a": "b"})],
    "annotation": [op("add", "/metadata/annotations", {"a": "b"})],
    "field": [op("add", "/spec/color", "green")],
    "same-value": [op("replace", "/spec/size", 1)],
    "unknown-field": [op("add", "/spec/unheard", "of"), op("add", "/unheard", "of")],
    "free-field": [op("add", "/spec/free", {"x": {"y": None}})],
    "default-removed": [op("remove", "/spec/color")],
    "default-nulled": [op("replace", "/spec/color", None)],
    "item-defaulted": [op("add", "/spec/parts", [{"name": "a"}])],
    "spec-removed": [op("remove", "/spec")],
    "spec-nulled": [op("replace", "/spec", None)],
    "spec-a-string": [op("replace", "/spec", "x")],
    "wrong-type": [op("add", "/spec/size", "big")],
    "rule-broken": [op("add", "/spec/size", 500)],
    "name-removed": [op("remove", "/metadata/name")],
    "renamed": [op("replace", "/metadata/name", "other")],
    "name-invalid": [op("replace", "/metadata/name", "Not Valid!")],
    "name-a-number": [op("replace", "/metadata/name", 7)],
    "generate-name": [op("remove", "/metadata/name"), op("add", "/metadata/generateName", "generated-")],
    "namespace-changed": [op("replace", "/metadata/namespace", "default")],
    "namespace-removed": [op("remove", "/metadata/namespace")],
    "metadata-removed": [op("remove", "/metadata")],
    "metadata-nulled": [op("replace", "/metadata", None)],
    "metadata-a-string": [op("replace", "/metadata", "x")],
    "metadata-unknown": [op("add", "/metadata/unheard", "of")],
    "labels-a-string": [op("add", "/metadata/labels", "x")],
    "labels-of-numbers": [op("add", "/metadata/labels", {"a": 1})],
    "label-invalid": [op("add", "/metadata/labels", {"a b": "c d"})],
    "kind-removed": [op("remove", "/kind")],
    "kind-emptied": [op("replace", "/kind", "")],
    "kind-a-number": [op("replace", "/kind", 7)],
    "other-kind": [op("replace", "/kind", "Widget")],
    "api-version-removed": [op("remove", "/apiVersion")],
    "other-version": [op("replace", "/apiVersion", f"{GROUP}/v2")],
    "unserved-version": [op("replace", "/apiVersion", f"{GROUP}/v3")],
    "unknown-version": [op("replace", "/apiVersion", f"{GROUP}/v9")],
    "other-group": [op("replace", "/apiVersion", "example.com/v1")],
    "core-group": [op("replace", "/apiVersion", "v1"), op("replace", "/kind", "ConfigMap")],
    "strange-version": [op("replace", "/apiVersion", "a/b/c")],
    "root-a-list": [op("replace", "", [])],
    "root-an-object": [op("replace", "", {"kind": "Gadget"})],
    "root-a-number": [op("replace", "", 7)],
    "missing-parent": [op("add", "/spec/nothing/here", 1)],
    "missing-removed": [op("remove", "/spec/nothing")],
    "missing-replaced": [op("replace", "/spec/nothing", 1)],
    "missing-array-item": [op("replace", "/spec/tags/5", "x")],
    "array-index-invalid": [op("add", "/spec/tags", ["a"]), op("add", "/spec/tags/x", "b")],
    "array-index-large": [op("add", "/spec/tags", ["a"]), op("add", "/spec/tags/7", "b")],
    "test-fails": [op("test", "/spec/size", 99)],
    "test-holds": [op("test", "/spec/size", 1), op("add", "/spec/color", "green")],
    "test-missing": [op("test", "/spec/nothing", 1)],
    "copy": [{"op": "copy", "from": "/spec/size", "path": "/spec/free"}],
    "copy-missing": [{"op": "copy", "from": "/nothing", "path": "/spec/free"}],
    "move-missing": [{"op": "move", "from": "/spec/nothing", "path": "/spec/free"}],
    "unknown-op": [{"op": "jump", "path": "/spec"}],
    "no-op": [{"path": "/spec"}],
    "op-a-number": [{"op": 7, "path": "/spec"}],
    "no-path": [{"op": "add", "value": 1}],
    "path-a-number": [{"op": "add", "path": 7, "value": 1}],
    "path-without-slash": [{"op": "add", "path": "spec", "value": 1}],
    "null-operation": [None],
    "uid": [op("add", "/metadata/uid", "mine")],
    "resource-version": [op("add", "/metadata/resourceVersion", "5")],
    "resource-version-words": [op("add", "/metadata/resourceVersion", "five")],
    "generation": [op("add", "/metadata/generation", 7)],
    "creation": [op("add", "/metadata/creationTimestamp", "2001-01-01T00:00:00Z")],
    "creation-invalid": [op("add", "/metadata/creationTimestamp", "yesterday")],
    "deletion": [op("add", "/metadata/deletionTimestamp", "2001-01-01T00:00:00Z")],
    "finalizers": [op("add", "/metadata/finalizers", ["example.com/keep"])],
    "finalizer-invalid": [op("add", "/metadata/finalizers", ["keep it"])],
    "owners": [op("add", "/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}])],
    "owners-twice": [op("add", "/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "A", "name": "b", "uid": "c"}] * 2)],
    "owner-incomplete": [op("add", "/metadata/ownerReferences", [{"kind": "A"}])],
    "managed-fields-removed": [op("remove", "/metadata/managedFields")],
    "managed-fields-emptied": [op("replace", "/metadata/managedFields", [])],
    "managed-fields-broken": [op("replace", "/metadata/managedFields/0/apiVersion", "a/b/c")],
    "managed-fields-operation": [op("replace", "/metadata/managedFields/0/operation", "Play")],
    "status": [op("add", "/status", {"phase": "done"})],
    "self-link": [op("add", "/metadata/selfLink", "/x")],
}

_DRY = "dryRun=All"


def _cases() -> dict[str, WebhookCase]:
    found: dict[str, WebhookCase] = {}
    for name, status in _BAD_STATUS.items():
        found[f"deny-{name}"] = WebhookCase([judge(deny(**status))], [create()])
    for name in ("nothing", "message-and-reason", "code-500", "details"):
        found[f"deny-mutating-{name}"] = WebhookCase([hook(deny(**_BAD_STATUS[name]))], [create()])
    for name, answer in _BAD_ANSWERS.items():
        found[f"bad-{name}"] = WebhookCase([hook(answer)], [create()])
        found[f"bad-judge-{name}"] = WebhookCase([judge(answer)], [create()])
    for name in ("empty", "500", "wrong-uid", "patch-not-json", "response-missing", "not-json", "other-type"):
        found[f"ignored-{name}"] = WebhookCase([hook(_BAD_ANSWERS[name], **IGNORE)], [create()])
        found[f"ignored-judge-{name}"] = WebhookCase([judge(_BAD_ANSWERS[name], **IGNORE)], [create()])
    for name, operations in _PATCHES.items():
        mutating = hook(patches(*operations))
        malformed = name in ("labels-a-string", "labels-of-numbers")
        found[f"patch-{name}"] = WebhookCase([mutating, judge(allow)], [create(), get()], malformed=malformed)
    for name in (
        *(
            "label",
            "field",
            "unknown-field",
            "default-removed",
            "name-removed",
            "renamed",
            "namespace-changed",
            "metadata-removed",
        ),
        *("kind-removed", "other-kind", "other-version", "other-group", "uid", "resource-version", "generation", "creation"),
        *("deletion", "finalizers", "managed-fields-removed", "managed-fields-broken", "status", "wrong-type", "owners-twice"),
        *("generate-name", "spec-removed", "rule-broken"),
    ):
        on_update = hook(patches(*_PATCHES[name]), **rules(operations="UPDATE"))
        steps = [create(compared=False), patch({"spec": {"tags": ["x"]}}), get()]
        found[f"update-{name}"] = WebhookCase([on_update, judge(allow, **rules(operations="UPDATE"))], steps)
    found |= _of_operations() | _of_matching() | _of_conditions() | _of_several() | _of_texts()
    return {name.replace("_", "-"): case for name, case in found.items()}


def _of_operations() -> dict[str, WebhookCase]:
    """Each verb, with webhooks that allow and see everything."""
    every = rules("gadgets,gadgets/status,gadgets/scale")
    seeing = [hook(allow, **every), judge(allow, **every)]
    color = patches(op("add", "/spec/color", "green"))
    on_status = rules("gadgets/status")
    on_scale = rules("gadgets/scale")
    made = create(compared=False)
    whole = gadget({"size": 3}, metadata={"resourceVersion": "$rv1"})
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name"}, "spec": {"replicas": 9}}
    return {
        "create": WebhookCase(seeing, [create(query="fieldManager=me&fieldValidation=Strict")]),
        "create-v2": WebhookCase(seeing, [create(version="v2")]),
        "create-dry": WebhookCase(seeing, [create(query=_DRY), get()]),
        "create-generated": WebhookCase(
            seeing, [create(gadget({"size": 1}, metadata={"name": "", "generateName": "generated-"}))]
        ),
        "create-refused-by-schema": WebhookCase(seeing, [create(gadget({"size": "x"}))]),
        "create-twice": WebhookCase(seeing, [made, create()]),
        "update": WebhookCase(seeing, [made, put(whole, query="fieldManager=me")]),
        "update-unchanged": WebhookCase(seeing, [made, patch({})]),
        "update-missing": WebhookCase(seeing, [put(gadget({"size": 3}, metadata={"resourceVersion": "5"}))]),
        "update-stale": WebhookCase(seeing, [made, put(gadget({"size": 3}, metadata={"resourceVersion": "5"}))]),
        "update-dry": WebhookCase(seeing, [made, put(whole, query=_DRY), get()]),
        "put-creates": WebhookCase(seeing, [put(gadget({"size": 3}))]),
        "patch": WebhookCase(seeing, [made, patch({"spec": {"size": 4}}, query="fieldManager=me")]),
        "json-patch": WebhookCase(seeing, [made, patch([op("add", "/spec/size", 4)], JSON_PATCH)]),
        "patch-v2": WebhookCase(seeing, [made, patch({"spec": {"size": 4}}, version="v2")]),
        "apply-creates": WebhookCase(seeing, [patch(gadget({"size": 4}), APPLY_PATCH, query="fieldManager=me")]),
        "apply": WebhookCase(seeing, [made, patch(gadget({"size": 4}), APPLY_PATCH, query="fieldManager=me&force=true")]),
        "apply-mutated": WebhookCase(
            [hook(color), judge(allow)],
            [
                patch(gadget({"size": 4}), APPLY_PATCH, query="fieldManager=me"),
                patch(gadget({"size": 5}), APPLY_PATCH, query="fieldManager=me"),
                get(),
            ],
        ),
        "delete": WebhookCase(seeing, [made, delete(), get()]),
        "delete-options": WebhookCase(
            seeing,
            [
                made,
                delete(
                    body={"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "gracePeriodSeconds": 0}
                ),
            ],
        ),
        "delete-query": WebhookCase(seeing, [made, delete(query="propagationPolicy=Background&gracePeriodSeconds=5")]),
        "delete-dry": WebhookCase(seeing, [made, delete(query=_DRY)]),
        "delete-missing": WebhookCase(seeing, [delete()]),
        "delete-finalized": WebhookCase(
            seeing,
            [create(gadget({"size": 1}, metadata={"finalizers": ["example.com/keep"]}), compared=False), delete(), delete()],
        ),
        "finalizer-removed": WebhookCase(
            seeing,
            [
                create(gadget({"size": 1}, metadata={"finalizers": ["example.com/keep"]}), compared=False),
                delete(),
                patch({"metadata": {"finalizers": None}}),
                get(),
            ],
        ),
        "delete-denied": WebhookCase([judge(deny(message="stay"), **rules(operations="DELETE"))], [made, delete(), get()]),
        "delete-denied-mutating": WebhookCase(
            [hook(deny(message="stay"), **rules(operations="DELETE"))], [made, delete(), get()]
        ),
        "delete-patched": WebhookCase([hook(color, **rules(operations="DELETE"))], [made, delete(), get()]),
        "delete-patched-nothing": WebhookCase([hook(patches(), **rules(operations="DELETE"))], [made, delete()]),
        "delete-selected": WebhookCase(
            [
                judge(deny(message="labelled"), objectSelector={"matchLabels": {"keep": "yes"}}, **rules(operations="DELETE")),
                hook(allow, objectSelector={"matchLabels": {"keep": "yes"}}, **rules(operations="DELETE")),
            ],
            [create(gadget({}, metadata={"labels": {"keep": "yes"}}), compared=False), delete()],
        ),
        "delete-collection": WebhookCase(
            seeing, [made, sent("DELETE", path(query="labelSelector=!nothing"), pick=lambda found: len(found["items"]))]
        ),
        "delete-collection-denied": WebhookCase(
            [judge(deny(message="stay"), **rules(operations="DELETE"))], [made, sent("DELETE", path()), get()]
        ),
        "delete-collection-empty": WebhookCase(seeing, [sent("DELETE", path(), pick=lambda found: found["items"])]),
        "status": WebhookCase(seeing, [made, patch({"status": {"phase": "up"}}, sub="status")]),
        "status-put": WebhookCase(seeing, [made, put({**whole, "status": {"phase": "up"}}, sub="status")]),
        "status-patched": WebhookCase(
            [
                hook(patches(op("add", "/status", {"phase": "down"}), op("add", "/spec/size", 9)), **on_status),
                judge(allow, **on_status),
            ],
            [made, patch({"status": {"phase": "up"}}, sub="status"), get()],
        ),
        "status-denied": WebhookCase(
            [judge(deny(message="no"), **on_status)], [made, patch({"status": {"phase": "up"}}, sub="status")]
        ),
        "status-apply": WebhookCase(
            seeing,
            [made, patch({**gadget(), "status": {"phase": "up"}}, APPLY_PATCH, sub="status", query="fieldManager=me")],
        ),
        "scale": WebhookCase(seeing, [made, patch({"spec": {"replicas": 5}}, sub="scale")]),
        "scale-put": WebhookCase(seeing, [made, put(scale, sub="scale")]),
        "scale-patched": WebhookCase(
            [hook(patches(op("add", "/spec/replicas", 7)), **on_scale), judge(allow, **on_scale)],
            [made, patch({"spec": {"replicas": 5}}, sub="scale"), get()],
        ),
        "scale-patched-unknown": WebhookCase(
            [hook(patches(op("add", "/spec/unheard", 7)), **on_scale), judge(allow, **on_scale)],
            [made, patch({"spec": {"replicas": 5}}, sub="scale"), get()],
        ),
        "scale-patched-wrongly": WebhookCase(
            [hook(patches(op("add", "/spec/replicas", "x")), **on_scale)], [made, patch({"spec": {"replicas": 5}}, sub="scale")]
        ),
        "scale-kind-changed": WebhookCase(
            [hook(patches(op("add", "/kind", "Other")), **on_scale)], [made, patch({"spec": {"replicas": 5}}, sub="scale")]
        ),
        "scale-renamed": WebhookCase(
            [hook(patches(op("add", "/metadata/name", "other")), **on_scale)],
            [made, patch({"spec": {"replicas": 5}}, sub="scale")],
        ),
        "scale-denied": WebhookCase(
            [judge(deny(message="no"), **on_scale)], [made, patch({"spec": {"replicas": 5}}, sub="scale")]
        ),
    }


def _of_matching() -> dict[str, WebhookCase]:
    denied = deny(message="seen")

    def asked(*steps: Ask, everywhere: bool = False, **fields: Any) -> WebhookCase:
        return WebhookCase([judge(denied, **fields)], steps or [create()], everywhere)

    labelled = create(gadget({}, metadata={"labels": {"color": "red"}}))
    by_label = {"matchExpressions": [{"key": "color", "operator": "In", "values": ["red", "blue"]}]}
    seen = rules("gadgets,gadgets/scale,gadgets/status", "v1")
    other = create(version="v2")
    # What is in no namespace would be denied to everybody, were it not for this.
    ours = {"matchConditions": [{"name": "ours", "expression": f'request.resource.group == "{GROUP}"'}]}
    return {
        "rule-group": asked(**rules(groups=GROUP)),
        "rule-other-group": asked(**rules(groups="apps")),
        "rule-operation": asked(create(compared=False), patch({"spec": {"size": 2}}), **rules(operations="UPDATE")),
        "rule-every-resource": asked(**rules("*/*"), **ours),
        "rule-every-main": asked(**rules("*"), **ours),
        "rule-every-status": asked(create(compared=False), patch({"status": {}}, sub="status"), **rules("*/status")),
        "rule-no-subresource": asked(create(query=""), **rules("*/scale")),
        "rule-namespaced": asked(**rules(scope="Namespaced")),
        "rule-cluster": asked(**rules(scope="Cluster")),
        "rule-none": asked(**rules("widgets")),
        "cluster-scoped": asked(
            create(gadget({}, kind="Gizmo", metadata={"labels": {"only": "here"}}), resource="gizmos"),
            everywhere=True,
            objectSelector={"matchLabels": {"only": "here"}},
            **rules("gizmos", scope="Cluster"),
        ),
        "cluster-scoped-and-namespaces": asked(
            create(gadget({}, kind="Gizmo", metadata={"labels": {"only": "there"}}), resource="gizmos"),
            objectSelector={"matchLabels": {"only": "there"}},
            **rules("gizmos"),
        ),
        "object-selected": asked(labelled, objectSelector=by_label),
        "object-not-selected": asked(create(), objectSelector=by_label),
        "old-object-selected": WebhookCase(
            [judge(denied, objectSelector=by_label, **rules(operations="UPDATE"))],
            [create(gadget({}, metadata={"labels": {"color": "red"}}), compared=False), patch({"metadata": {"labels": None}})],
        ),
        "equivalent": asked(other, **seen),
        "exact": asked(other, matchPolicy="Exact", **seen),
        "equivalent-unserved": asked(create(), **rules("gadgets", "v3")),
        "equivalent-rule-order": WebhookCase(
            [judge(allow, rules=[rules("gadgets", "v3")["rules"][0], rules("gadgets", "v2")["rules"][0]])], [create()]
        ),
        "equivalent-seen": WebhookCase([hook(allow, **seen), judge(allow, **seen)], [other]),
        "equivalent-patched": WebhookCase(
            [
                hook(patches(op("add", "/spec/color", "green"), op("add", "/spec/unheard", 1)), "one", **seen),
                hook(patches(op("add", "/spec/tags", ["two"])), "two", **rules("gadgets", "v2")),
                hook(patches(op("add", "/spec/tags/-", "three")), "three", **rules("gadgets", "v1")),
                judge(allow, **seen),
                judge(allow, "other", **rules("gadgets", "v2")),
            ],
            [other, get(), patch({"spec": {"size": 2}}, version="v2")],
        ),
        "equivalent-default-removed": WebhookCase(
            [hook(patches(op("remove", "/spec/color")), **seen), judge(allow, **seen)], [other, get(version="v2")]
        ),
        "equivalent-kind-changed": WebhookCase([hook(patches(op("replace", "/kind", "Other")), **seen)], [other]),
        "equivalent-group-changed": WebhookCase([hook(patches(op("replace", "/apiVersion", "example.com/v1")), **seen)], [other]),
        "equivalent-then-broken": WebhookCase(
            [
                hook(patches(op("replace", "/apiVersion", "example.com/v1")), "one", **seen),
                hook(allow, "two", **rules("gadgets", "v2")),
            ],
            [other],
        ),
        "equivalent-status": WebhookCase(
            [hook(allow, **seen), judge(allow, **seen)],
            [create(compared=False), patch({"status": {"phase": "up"}}, sub="status", version="v2")],
        ),
        "equivalent-scale": WebhookCase(
            [hook(allow, **seen), judge(allow, **seen)],
            [create(compared=False), patch({"spec": {"replicas": 2}}, sub="scale", version="v2")],
        ),
        "equivalent-delete": WebhookCase(
            [hook(allow, **seen), judge(allow, **seen)], [create(compared=False), delete(version="v2")]
        ),
    }


def _of_conditions() -> dict[str, WebhookCase]:
    """matchConditions: a webhook that is asked refuses."""
    denied = deny(message="seen")

    def asked(*expressions: str, ignored: bool = False, operations: str = "*") -> WebhookCase:
        conditions = [{"name": f"c{number}", "expression": expression} for number, expression in enumerate(expressions)]
        fields = {"matchConditions": conditions, **(IGNORE if ignored else {}), **rules(operations=operations)}
        steps = [create(), delete()] if operations == "DELETE" else [create()]
        return WebhookCase([hook(denied, **fields), judge(denied, **fields)], steps)

    error = "object.spec.nothing == 1"
    return {
        "condition-true": asked("true"),
        "condition-false": asked("false"),
        "condition-object": asked("object.metadata.name == 'thing'", "object.spec.size == 1"),
        "condition-one-false": asked("true", "object.spec.size > 5", "true"),
        "condition-error": asked(error),
        "condition-error-ignored": asked(error, ignored=True),
        "condition-errors": asked(error, "object.spec.none.x == 1", "true"),
        "condition-error-and-false": asked(error, "false"),
        "condition-old-object": asked("oldObject == null", "request.operation == 'CREATE'"),
        "condition-of-deletion": asked("object == null", "oldObject.spec.size == 1", operations="DELETE"),
        "condition-user": asked("request.userInfo.username == 'alice'", "'system:masters' in request.userInfo.groups"),
        "condition-request": asked(
            "request.kind.kind == 'Gadget' && request.resource.resource == 'gadgets'",
            "request.namespace == 'condition-request'",
            "request.requestKind.version == 'v1' && !request.dryRun && request.name == 'thing'",
            "request.options.kind == 'CreateOptions'",
        ),
        "condition-authorizer": asked(
            "authorizer.group('').resource('pods').namespace('default').check('delete').allowed()",
            "authorizer.requestResource.check('create').allowed()",
        ),
        "condition-too-expensive": asked(" && ".join(["object.metadata.managedFields.all(x, x.manager.matches('^(a+)+$'))"] * 3)),
    }


def _of_several() -> dict[str, WebhookCase]:
    def tag(name: str) -> Answering:
        """Adds itself to the tags, each time it is asked."""

        def answer(asked: JSONObject) -> Any:
            there = (asked["request"]["object"].get("spec") or {}).get("tags")
            change = op("add", "/spec/tags/-", name) if there else op("add", "/spec/tags", [name])
            return patches(change)(asked)

        return answer

    again = {"reinvocationPolicy": "IfNeeded"}
    labels = patches(op("add", "/metadata/labels", {"on": "yes"}))
    selected = {"objectSelector": {"matchLabels": {"on": "yes"}}}
    return {
        "order": WebhookCase(
            [hook(tag("z"), "z", "a"), hook(tag("y"), "y", "a"), hook(tag("a"), "a", "b"), judge(allow)], [create(), get()]
        ),
        "reinvoke": WebhookCase([hook(tag("a"), "a", **again), hook(tag("b"), "b"), judge(allow)], [create()]),
        "reinvoke-both": WebhookCase([hook(tag("a"), "a", **again), hook(tag("b"), "b", **again), judge(allow)], [create()]),
        "reinvoke-never": WebhookCase([hook(tag("a"), "a"), hook(tag("b"), "b"), judge(allow)], [create()]),
        "reinvoke-unchanged": WebhookCase([hook(tag("a"), "a", **again), hook(allow, "b"), judge(allow)], [create()]),
        "reinvoke-same-value": WebhookCase(
            [hook(allow, "a", **again), hook(patches(op("replace", "/spec/size", 1)), "b"), judge(allow)], [create()]
        ),
        "reinvoke-not-new": WebhookCase(
            [hook(tag("a"), "a", **again, **selected), hook(labels, "b"), hook(tag("c"), "c", **again), judge(allow)], [create()]
        ),
        "reinvoke-update": WebhookCase(
            [hook(tag("a"), "a", **again), hook(tag("b"), "b"), judge(allow)],
            [create(compared=False), patch({"spec": {"size": 2}})],
        ),
        "reinvoke-ignored": WebhookCase(
            [hook(raw("x", 500), "a", **again, **IGNORE), hook(tag("b"), "b"), judge(allow)], [create()]
        ),
        "reinvoke-three": WebhookCase(
            [hook(tag("a"), "a", **again), hook(tag("b"), "b", **again), hook(tag("c"), "c", "b", **again), judge(allow)],
            [create()],
        ),
        "selected-after-patch": WebhookCase(
            [hook(labels, "a"), hook(deny(message="labelled"), "b", **selected), judge(allow)], [create()]
        ),
        "deselected-after-patch": WebhookCase(
            [
                hook(patches(op("remove", "/metadata/labels")), "a"),
                hook(deny(message="labelled"), "b", **selected),
                judge(deny(message="labelled"), **selected),
            ],
            [create(gadget({}, metadata={"labels": {"on": "yes"}}))],
        ),
        "defaults-between": WebhookCase(
            [
                hook(patches(op("add", "/spec/parts", [{"name": "a"}]), op("remove", "/spec/color")), "a"),
                hook(allow, "b"),
                judge(allow),
            ],
            [create()],
        ),
        "unknown-between": WebhookCase(
            [
                hook(patches(op("add", "/spec/unheard", 1), op("add", "/metadata/unheard", 1)), "a"),
                hook(allow, "b"),
                judge(allow),
            ],
            [create(), get()],
        ),
        "null-between": WebhookCase(
            [hook(patches(op("add", "/spec/color", None), op("add", "/spec/size", None)), "a"), hook(allow, "b"), judge(allow)],
            [create(), get()],
        ),
        "first-denies": WebhookCase([hook(deny(message="one"), "a"), hook(deny(message="two"), "b"), judge(allow)], [create()]),
        "judges-agree": WebhookCase([judge(allow, "a"), judge(allow, "b")], [create()]),
        "one-judge-denies": WebhookCase([judge(allow, "a"), judge(deny(message="no"), "b")], [create()]),
        "v1beta1": WebhookCase(
            [hook(tag("a"), admissionReviewVersions=["v1beta1"]), judge(allow, admissionReviewVersions=["v1beta1", "v1"])],
            [create()],
        ),
        "v1beta1-bare": WebhookCase(
            [
                hook(
                    lambda asked: {"allowed": True, "patch": encoded([op("add", "/spec/size", 9)])},
                    admissionReviewVersions=["v1beta1"],
                ),
                judge(raw('{"response":{"allowed":true}}'), admissionReviewVersions=["v1beta1"]),
            ],
            [create()],
        ),
        "v1beta1-type-ignored": WebhookCase(
            [
                hook(
                    lambda asked: {"allowed": True, "patch": encoded([op("add", "/spec/size", 9)]), "patchType": "Strange"},
                    admissionReviewVersions=["v1beta1"],
                ),
            ],
            [create()],
        ),
        "v1-for-v1beta1": WebhookCase(
            [
                judge(
                    raw('{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"allowed":true}}'),
                    admissionReviewVersions=["v1beta1"],
                )
            ],
            [create()],
        ),
        "judge-patches-v1beta1": WebhookCase(
            [judge(lambda asked: {"allowed": True, "patch": encoded([])}, admissionReviewVersions=["v1beta1"])], [create()]
        ),
        "versions-unknown-first": WebhookCase([judge(allow, admissionReviewVersions=["v7", "v1"])], [create()]),
        "hangs": WebhookCase([hook(hangs(5), timeoutSeconds=1)], [create()]),
        "hangs-ignored": WebhookCase(
            [hook(hangs(5), timeoutSeconds=1, **IGNORE), judge(hangs(5), timeoutSeconds=1, **IGNORE)], [create()]
        ),
        "judge-hangs": WebhookCase([judge(hangs(5), timeoutSeconds=1)], [create()]),
        "request-late": WebhookCase([judge(hangs(5), timeoutSeconds=10)], [create(query="timeout=1s")], is_late=True),
        "request-timeout": WebhookCase([judge(allow, timeoutSeconds=30)], [create(query="timeout=7s")]),
        "name-twice": WebhookCase([hook(tag("a"), "a", **again), hook(tag("b"), "b", "b", **again), judge(allow)], [create()]),
    }


def _of_texts() -> dict[str, WebhookCase]:
    return {
        "warning": WebhookCase([hook(says(warnings=["careful"])), judge(says(warnings=["very careful"]))], [create()]),
        "warnings": WebhookCase([judge(says(warnings=["one", "two", "one", ""]))], [create()]),
        "warning-long": WebhookCase([judge(says(warnings=["x" * 500]))], [create()]),
        "warnings-too-long": WebhookCase([judge(says(warnings=[f"{number}" + "x" * 300 for number in range(20)]))], [create()]),
        "warning-newline": WebhookCase([judge(says(warnings=["one\ntwo", 'qu"ote', "back\\slash"]))], [create()]),
        "warning-unicode": WebhookCase([judge(says(warnings=["größe ☃"]))], [create()]),
        "warning-and-denied": WebhookCase([judge(says(allowed=False, warnings=["careful"]))], [create()]),
        "audit": WebhookCase(
            [hook(says(auditAnnotations={"a": "b"})), judge(says(auditAnnotations={"not valid": "b"}))], [create()]
        ),
    }


CASES = _cases()
