"""What the cases on definitions are made of: manifests, and requests that write, change and read them.

Each case has a group of its own, `$name.example.com`. Most only ask (dryRun), since a definition that is really made costs
kube-apiserver a rebuilt OpenAPI document. Of a definition that was accepted, what is compared leaves out the conditions, which
come in their own time.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import CONTROLLERS, MERGE_PATCH, Ask, ask

__all__ = [
    "ANYTHING",
    "INTEGER",
    "NAME",
    "SCHEMA",
    "STRING",
    "change",
    "crd",
    "object_of",
    "request",
    "try_out",
    "version",
]

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
NAME = "widgets.$name.example.com"
STRING = {"type": "string"}
INTEGER = {"type": "integer"}
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def object_of(**properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties}


SCHEMA = object_of(spec=object_of(color=STRING, size=INTEGER), status=object_of(size=INTEGER))


def version(name: str = "v1", schema: Any = SCHEMA, **more: Any) -> JSONObject:
    storage = more.pop("storage", name == "v1")
    written = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    return {"name": name, "served": True, "storage": storage, **written, **more}


def crd(*versions: JSONObject, names: Any = None, metadata: Any = None, status: Any = None, **spec: Any) -> JSONObject:
    every = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", **(names or {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, **(metadata or {})},
        "spec": {
            "group": "$name.example.com",
            "scope": "Namespaced",
            "names": {name: value for name, value in every.items() if value is not None},
            "versions": list(versions or [version()]),
            **spec,
        },
        **({} if status is None else {"status": status}),
    }


def _outcome(body: Any) -> Any:
    """Of a definition: all but what the controllers say in their own time, and that it was they who said so."""
    if not isinstance(body, dict) or body.get("kind") != "CustomResourceDefinition":
        return body
    status = {name: value for name, value in body["status"].items() if name == "storedVersions"}
    metadata = dict(body["metadata"])
    if "managedFields" in metadata:
        metadata["managedFields"] = [entry for entry in metadata["managedFields"] if entry.get("manager") not in CONTROLLERS]
    if "deletionTimestamp" in metadata:
        metadata["finalizers"] = [name for name in metadata.get("finalizers", ()) if name != _CLEANUP]
    return {**body, "metadata": metadata, "status": status}


def request(method: str, query: str, body: Any, **more: Any) -> Ask:
    return ask(method, f"{PATH}{query}", body, pick=_outcome, **more)


def try_out(*versions: JSONObject, **more: Any) -> list[Ask]:
    """Would this definition be taken?"""
    return [request("POST", "?dryRun=All", crd(*versions, **more))]


def change(before: JSONObject, *patches: Any, subresource: str = "", kind: str = MERGE_PATCH) -> list[Ask]:
    """Makes a definition, asks for the outcome of each patch in turn, and removes it."""
    query = f"/{NAME}{subresource}"
    steps = [request("POST", "", before, compared=False)]
    steps += [request("PATCH", query, each, kind=kind) for each in patches]
    return [*steps, request("DELETE", f"/{NAME}", None, compared=False)]
