"""Cases for `test_same_answers.py`: definitions good and bad, written, changed and read.

Each case has a group of its own, `$name.example.com`. Most only ask (dryRun), since a definition that is really made costs
kube-apiserver a rebuilt OpenAPI document. Of a definition that was accepted, what is compared leaves out the conditions, which
come in their own time.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask

__all__ = ["CASES"]

_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NAME = "widgets.$name.example.com"
_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(**properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties}


_SCHEMA = _object(spec=_object(color=_STRING, size=_INTEGER), status=_object(size=_INTEGER))


def _version(name: str = "v1", schema: Any = _SCHEMA, **more: Any) -> JSONObject:
    storage = more.pop("storage", name == "v1")
    written = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    return {"name": name, "served": True, "storage": storage, **written, **more}


def _crd(*versions: JSONObject, names: Any = None, metadata: Any = None, status: Any = None, **spec: Any) -> JSONObject:
    every = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", **(names or {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": _NAME, **(metadata or {})},
        "spec": {
            "group": "$name.example.com",
            "scope": "Namespaced",
            "names": {name: value for name, value in every.items() if value is not None},
            "versions": list(versions or [_version()]),
            **spec,
        },
        **({} if status is None else {"status": status}),
    }


def _outcome(body: Any) -> Any:
    """Of a definition: all but what the controllers say in their own time."""
    if not isinstance(body, dict) or body.get("kind") != "CustomResourceDefinition":
        return body
    status = {name: value for name, value in body["status"].items() if name == "storedVersions"}
    return {**body, "status": status}


def _ask(method: str, query: str, body: Any, **more: Any) -> Ask:
    return ask(method, f"{_PATH}{query}", body, pick=_outcome, **more)


def _try(*versions: JSONObject, **more: Any) -> list[Ask]:
    """Would this definition be taken?"""
    return [_ask("POST", "?dryRun=All", _crd(*versions, **more))]


def _change(before: JSONObject, *patches: Any, subresource: str = "", kind: str = MERGE_PATCH) -> list[Ask]:
    """Makes a definition, asks for the outcome of each patch in turn, and removes it."""
    query = f"/{_NAME}{subresource}"
    steps = [_ask("POST", "", before, compared=False)]
    steps += [_ask("PATCH", query, each, kind=kind) for each in patches]
    return [*steps, _ask("DELETE", f"/{_NAME}", None, compared=False)]


def _spec(**members: Any) -> JSONObject:
    return {"spec": members}


def _webhook(config: Any, versions: Any = ("v1",), **more: Any) -> JSONObject:
    hook = {"clientConfig": config, "conversionReviewVersions": None if versions is None else list(versions)}
    return {"strategy": "Webhook", "webhook": {name: value for name, value in hook.items() if value is not None}, **more}


def _service(**more: Any) -> JSONObject:
    return {"service": {"namespace": "ns", "name": "hook", **more}}


_NAMES: Cases = {
    "plain": _try(),
    "cluster": _try(scope="Cluster"),
    "no-names": [_ask("POST", "?dryRun=All", {**_crd(), "spec": {**_crd()["spec"], "names": None}})],
    "no-spec": [_ask("POST", "?dryRun=All", {**_crd(), "spec": None})],
    "no-versions": _try(versions=[]),
    "no-group": _try(group=""),
    "group-without-dot": _try(group="example"),
    "group-upper": _try(group="Example.com"),
    "no-scope": _try(scope=None),
    "scope-unknown": _try(scope="namespaced"),
    "name-other": _try(metadata={"name": "gadgets.$name.example.com"}),
    "name-invalid": _try(metadata={"name": "Widgets.$name.example.com"}),
    "name-missing": _try(metadata={"name": None}),
    "generate-name": _try(metadata={"name": None, "generateName": "widgets-"}),
    "no-plural": _try(names={"plural": None}),
    "no-kind": _try(names={"kind": None}),
    "no-singular-no-list-kind": _try(names={"singular": None, "listKind": None}),
    "plural-upper": _try(names={"plural": "Widgets"}),
    "singular-dash": _try(names={"singular": "-widget"}),
    "kind-lower": _try(names={"kind": "widget"}),
    "kind-underscore": _try(names={"kind": "Wid_get", "listKind": None}),
    "kind-and-list-kind-same": _try(names={"listKind": "Widget"}),
    "short-names-bad": _try(names={"shortNames": ["w", "W", "1w", ""]}),
    "categories-bad": _try(names={"categories": ["all", "A.B"]}),
    "short-names-twice": _try(names={"shortNames": ["w", "w"]}),
    "labels-bad": _try(metadata={"labels": {"a b": "c"}}),
    "several-wrong": _try(group="", scope="", names={"kind": "", "plural": ""}),
    "status-given": _try(status={"storedVersions": ["v7"], "acceptedNames": {"plural": "X"}, "conditions": []}),
    "preserve-unknown-fields": _try(preserveUnknownFields=True),
    "preserve-unknown-fields-false": _try(preserveUnknownFields=False),
    "preserve-and-webhook": _try(preserveUnknownFields=True, conversion=_webhook({"url": "https://example.com"})),
    "preserve-and-default": _try(_version(schema=_object(a={"type": "string", "default": "x"})), preserveUnknownFields=True),
    "approval-missing": _try(group="$name.k8s.io", metadata={"name": "widgets.$name.k8s.io"}),
    "approval-url": _try(
        group="$name.k8s.io",
        metadata={"name": "widgets.$name.k8s.io", "annotations": {"api-approved.kubernetes.io": "https://example.com/1"}},
    ),
    "approval-unapproved": _try(
        group="$name.kubernetes.io",
        metadata={"name": "widgets.$name.kubernetes.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
    ),
    "approval-nonsense": _try(
        group="$name.k8s.io", metadata={"name": "widgets.$name.k8s.io", "annotations": {"api-approved.kubernetes.io": "yes"}}
    ),
}

_COLUMN = {"name": "Color", "type": "string", "jsonPath": ".spec.color"}
_SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}

_VERSIONS: Cases = {
    "two-versions": _try(_version(), _version("v2")),
    "two-versions-differ": _try(_version(), _version("v2", _object())),
    "two-storage": _try(_version(), _version("v2", storage=True)),
    "two-storage-differ": _try(_version(), _version("v2", _object(a={"type": "number", "maximum": 1.5}), storage=True)),
    "two-storage-facets": _try(
        _version(subresources={"status": {}, "scale": _SCALE}),
        _version("v2", storage=True, additionalPrinterColumns=[_COLUMN], selectableFields=[{"jsonPath": ".spec.color"}]),
    ),
    "no-storage": _try(_version(storage=False)),
    "same-name-twice": _try(_version(), _version(storage=False)),
    "version-name-bad": _try(_version("V1", storage=True)),
    "version-name-missing": _try(_version("", storage=True)),
    "second-version-name-bad": _try(_version(), _version("v 2")),
    "no-schema": _try(_version(schema=None)),
    "schema-empty": _try({**_version(schema=None), "schema": {}}),
    "schema-null": _try({**_version(schema=None), "schema": {"openAPIV3Schema": None}}),
    "one-without-schema": _try(_version(), _version("v2", None)),
    "unserved-without-schema": _try(_version(), _version("v2", None, served=False)),
    "warning-without-deprecated": _try(_version(deprecationWarning="old")),
    "warning": _try(_version(deprecated=True, deprecationWarning="old")),
    "warning-empty": _try(_version(deprecated=True, deprecationWarning="")),
    "warning-long": _try(_version(deprecated=True, deprecationWarning="x" * 257)),
    "warning-unprintable": _try(_version(deprecated=True, deprecationWarning="ab\tc")),
    "warning-line-break-second": _try(_version(), _version("v2", deprecated=True, deprecationWarning="é\n")),
    "columns": _try(_version(additionalPrinterColumns=[{**_COLUMN, "format": "byte", "priority": 1, "description": "x"}])),
    "column-empty": _try(_version(additionalPrinterColumns=[{}])),
    "column-wrong": _try(_version(additionalPrinterColumns=[{"name": "a", "type": "text", "format": "x", "jsonPath": "spec"}])),
    "column-wrong-second": _try(_version(), _version("v2", additionalPrinterColumns=[{"name": "a", "type": "date"}])),
    "column-dot": _try(_version(additionalPrinterColumns=[{**_COLUMN, "jsonPath": "."}])),
    "column-brackets": _try(_version(additionalPrinterColumns=[{**_COLUMN, "jsonPath": ".a[*].b"}])),
    "scale": _try(_version(subresources={"status": {}, "scale": {**_SCALE, "labelSelectorPath": ".status.selector"}})),
    "scale-empty": _try(_version(subresources={"scale": {}})),
    "scale-elsewhere": _try(
        _version(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".spec.a", "labelSelectorPath": ".b"}})
    ),
    "scale-no-dot": _try(
        _version(
            subresources={"scale": {"specReplicasPath": "spec", "statusReplicasPath": "status", "labelSelectorPath": "spec"}}
        )
    ),
    "scale-second": _try(_version(), _version("v2", subresources={"scale": {}})),
    "selectable": _try(_version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}])),
    "selectable-empty": _try(_version(selectableFields=[{"jsonPath": ""}])),
    "selectable-unknown": _try(_version(selectableFields=[{"jsonPath": ".spec.colour"}])),
    "selectable-object": _try(_version(selectableFields=[{"jsonPath": ".spec"}])),
    "selectable-array": _try(_version(selectableFields=[{"jsonPath": ".spec['color']"}])),
    "selectable-no-dot": _try(_version(selectableFields=[{"jsonPath": "spec.color"}])),
    "selectable-ends-in-dot": _try(_version(selectableFields=[{"jsonPath": ".spec."}])),
    "selectable-two-dots": _try(_version(selectableFields=[{"jsonPath": ".spec..color"}])),
    "selectable-metadata": _try(
        _version(schema=_object(metadata=_object(name=_STRING)), selectableFields=[{"jsonPath": ".metadata.name"}])
    ),
    "selectable-twice": _try(_version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.color"}])),
    "selectable-nine": _try(
        _version(
            schema=_object(**{f"f{index}": _STRING for index in range(9)}),
            selectableFields=[{"jsonPath": f".f{index}"} for index in range(9)],
        )
    ),
    "selectable-without-schema": _try(_version(schema=None, selectableFields=[{"jsonPath": ".spec.color"}])),
    "selectable-common-schema-not": _try(
        _version(selectableFields=[{"jsonPath": ".spec.color"}]),
        _version("v2", _object(spec=_object(color=_STRING)), selectableFields=[{"jsonPath": ".spec.color"}]),
    ),
    "selectable-map": _try(
        _version(
            schema=_object(map={"type": "object", "additionalProperties": _STRING}), selectableFields=[{"jsonPath": ".map.a"}]
        )
    ),
    "status-root": _try(_version(schema={**_SCHEMA, "required": ["spec"]}, subresources={"status": {}})),
    "status-root-any-of": _try(_version(schema={**_SCHEMA, "anyOf": [{"required": ["spec"]}]}, subresources={"status": {}})),
    "status-root-max-properties": _try(
        _version(
            schema={
                "type": "object",
                "description": 'a <"quoted"> text',
                "maxProperties": 5,
                "enum": [{"b": 1, "a": [1.5, None]}],
                "externalDocs": {"url": "https://example.com"},
                "properties": {
                    "a": {"type": "array", "items": _STRING, "default": ["x"], "maximum": 1e21, "minimum": 1.0},
                    "b": {"type": "object", "additionalProperties": True, "not": {"required": ["x"]}},
                    "c": {"type": "object", "additionalProperties": _STRING, "x-kubernetes-map-type": "atomic"},
                    "d": {
                        "type": "array",
                        "items": _object(k={"type": "string", "default": "x"}),
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                    },
                    "e": {
                        "type": "string",
                        "x-kubernetes-validations": [{"rule": "self == ''", "reason": "FieldValueInvalid", "message": "m"}],
                    },
                },
            },
            subresources={"status": {}},
        )
    ),
    "status-root-type": _try(_version(schema={"type": "string"}, subresources={"status": {}})),
    "status-one-of-two": _try(
        _version(schema={**_SCHEMA, "maxProperties": 5}, subresources={"status": {}}),
        _version("v2", {**_SCHEMA, "maxProperties": 5}),
    ),
    "nullable-root": _try(_version(schema={**_SCHEMA, "nullable": True})),
}

_CONVERSION: Cases = {
    "none": _try(conversion={"strategy": "None"}),
    "no-strategy": _try(conversion={}),
    "unknown": _try(conversion={"strategy": "none"}),
    "none-with-webhook": _try(conversion=_webhook(_service()) | {"strategy": "None"}),
    "url": _try(conversion=_webhook({"url": "https://example.com:8443/convert"})),
    "service": _try(conversion=_webhook(_service(path="/a/b", port=8443))),
    "no-webhook": _try(conversion={"strategy": "Webhook"}),
    "no-config": _try(conversion=_webhook(None)),
    "empty-config": _try(conversion=_webhook({})),
    "url-and-service": _try(conversion=_webhook({"url": "https://example.com", **_service()})),
    "no-review-versions": _try(conversion=_webhook(_service(), None)),
    "review-versions-unknown": _try(conversion=_webhook(_service(), ["v2", "v3"])),
    "review-versions-twice": _try(conversion=_webhook(_service(), ["v1", "v1", "V!"])),
    "url-http": _try(conversion=_webhook({"url": "http://example.com"})),
    "url-no-host": _try(conversion=_webhook({"url": "https:///a"})),
    "url-user-query-fragment": _try(conversion=_webhook({"url": "https://u:p@example.com/?a=b#c"})),
    "service-empty": _try(conversion=_webhook({"service": {"namespace": "", "name": ""}})),
    "service-port": _try(conversion=_webhook(_service(port=0))),
    "service-port-high": _try(conversion=_webhook(_service(port=65536))),
    "service-path": _try(conversion=_webhook(_service(path="a//B"))),
    "service-path-slashes": _try(conversion=_webhook(_service(path="//"))),
    "bundle-text": _try(conversion=_webhook({**_service(), "caBundle": "eA=="})),
}

# Of the property `spec`, unless they say otherwise.
_RESOURCE = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "unknown": 1}}
_PROPERTIES: dict[str, JSONObject] = {
    "type-missing": {},
    "type-unknown": {"type": "text"},
    "type-null": {"type": "null"},
    "preserve-without-type": {"x-kubernetes-preserve-unknown-fields": True},
    "preserve-false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "array-without-items": {"type": "array"},
    "items-list": {"type": "array", "items": [_STRING]},
    "items-without-type": {"type": "array", "items": {}},
    "map-without-type": {"type": "object", "additionalProperties": {}},
    "map": {"type": "object", "additionalProperties": _STRING},
    "map-true": {"type": "object", "additionalProperties": True},
    "map-false": {"type": "object", "additionalProperties": False},
    "map-and-properties": {**_object(a=_STRING), "additionalProperties": _STRING},
    "map-false-and-properties": {**_object(a=_STRING), "additionalProperties": False},
    "map-true-and-properties": {**_object(a=_STRING), "additionalProperties": True},
    "unique-items": {"type": "array", "items": _STRING, "uniqueItems": True},
    "unique-items-false": {"type": "array", "items": _STRING, "uniqueItems": False},
    "id": {"type": "string", "id": "a"},
    "dollar-schema": {"type": "string", "$schema": "http://json-schema.org/schema#"},
    "ref": {"type": "string", "$ref": "#/a"},
    "ref-empty": {"type": "string", "$ref": ""},
    "definitions": {"type": "string", "definitions": {"a": {"type": "text"}}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"], "c": {"type": "null"}}},
    "pattern-properties": {"type": "object", "patternProperties": {"a": _STRING}},
    "additional-items": {"type": "array", "items": _STRING, "additionalItems": False},
    "unknown-keywords": {"type": "string", "readOnly": True, "deprecated": True, "xml": {}, "discriminator": "x"},
    "nullable": {"type": "string", "nullable": True},
    "format-unknown": {"type": "string", "format": "colour"},
    "format-known": {"type": "string", "format": "date-time"},
    "format-short-name": {"type": "string", "format": "k8s-short-name"},
    "format-of-object": {"type": "object", "format": "date"},
    "format-of-integer": {"type": "integer", "format": "int64"},
    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "pattern-lookahead": {"type": "string", "pattern": "(?=a)b"},
    "pattern-bracket": {"type": "string", "pattern": "[a"},
    "pattern-repeat": {"type": "string", "pattern": "a{1001}"},
    "pattern-nested": {"type": "string", "allOf": [{"pattern": "a**"}, {"not": {"pattern": "(a"}}]},
    "pattern-backslash": {"type": "string", "pattern": "a\\"},
    "pattern-any-byte": {"type": "string", "pattern": "\\C"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "int-or-string-any-of": {"x-kubernetes-int-or-string": True, "anyOf": [_INTEGER, _STRING]},
    "int-or-string-all-of": {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [_INTEGER, _STRING]}, {"pattern": "a"}]},
    "int-or-string-one-of": {"x-kubernetes-int-or-string": True, "oneOf": [_INTEGER, _STRING]},
    "int-or-string-wrong-order": {"x-kubernetes-int-or-string": True, "anyOf": [_STRING, _INTEGER]},
    "int-or-string-with-more": {"x-kubernetes-int-or-string": True, "anyOf": [_INTEGER, {**_STRING, "maxLength": 1}]},
    "int-or-string-preserve": {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
    "int-or-string-embedded": {"type": "object", "x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True},
    "any-of-types-elsewhere": {"type": "string", "anyOf": [_INTEGER, _STRING]},
    "nested-everything": {
        "type": "object",
        "allOf": [
            {
                "type": "object",
                "title": "t",
                "description": "d",
                "nullable": True,
                "default": 1,
                "additionalProperties": _STRING,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [{"rule": "true"}],
            }
        ],
    },
    "nested-additional-false": {"type": "object", "not": {"additionalProperties": False}},
    "nested-metadata": {"type": "object", "not": {"properties": {"metadata": {}}}},
    "nested-properties-unknown": {**_object(a=_STRING), "anyOf": [{"properties": {"b": {"pattern": "x"}}}]},
    "nested-items-unknown": {"type": "string", "oneOf": [{"items": {"pattern": "x"}}]},
    "embedded": {**_ANYTHING, "x-kubernetes-embedded-resource": True},
    "embedded-properties": {**_object(a=_STRING), "x-kubernetes-embedded-resource": True},
    "embedded-empty": {"type": "object", "x-kubernetes-embedded-resource": True},
    "embedded-no-type": {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "embedded-array": {"type": "array", "items": _STRING, "x-kubernetes-embedded-resource": True},
    "embedded-map": {**_ANYTHING, "additionalProperties": _STRING, "x-kubernetes-embedded-resource": True},
    "embedded-kind-integer": {**_object(kind=_INTEGER), "x-kubernetes-embedded-resource": True},
    "embedded-metadata-string": {**_object(metadata=_STRING), "x-kubernetes-embedded-resource": True},
    "embedded-metadata-labels": {**_object(metadata=_object(labels=_ANYTHING)), "x-kubernetes-embedded-resource": True},
    "embedded-in-metadata": {
        **_object(metadata=_object(a={**_ANYTHING, "x-kubernetes-embedded-resource": True})),
        "x-kubernetes-embedded-resource": True,
    },
    "embedded-metadata-default-in-map": {
        **_object(
            metadata=_object(labels={"type": "object", "additionalProperties": {"type": "string", "default": "x"}}),
        ),
        "x-kubernetes-embedded-resource": True,
    },
    "list-type": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "atomic"},
    "list-type-unknown": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "Set"},
    "list-type-of-object": {"type": "object", "x-kubernetes-list-type": "set"},
    "list-type-without-type": {"x-kubernetes-int-or-string": True, "x-kubernetes-list-type": "set"},
    "set": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
    "set-of-objects": {"type": "array", "items": _object(a=_STRING), "x-kubernetes-list-type": "set"},
    "set-of-atomic-objects": {
        "type": "array",
        "items": {**_object(a=_STRING), "x-kubernetes-map-type": "atomic"},
        "x-kubernetes-list-type": "set",
    },
    "set-of-lists": {
        "type": "array",
        "items": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "x-kubernetes-list-type": "set",
    },
    "set-of-plain-lists": {
        "type": "array",
        "items": {"type": "array", "items": _STRING},
        "x-kubernetes-list-type": "set",
    },
    "set-nullable": {"type": "array", "items": {**_STRING, "nullable": True}, "x-kubernetes-list-type": "set"},
    "keys-without-list-type": {"type": "array", "items": _object(a=_STRING), "x-kubernetes-list-map-keys": ["a"]},
    "keys-of-set": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["a"]},
    "map-type": {"type": "object", "x-kubernetes-map-type": "granular"},
    "map-type-unknown": {"type": "object", "x-kubernetes-map-type": "Atomic"},
    "map-type-of-string": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "map-type-without-type": {"x-kubernetes-int-or-string": True, "x-kubernetes-map-type": "atomic"},
    "default": {"type": "string", "default": "x"},
    "default-null": {"type": "string", "default": None},
    "default-wrong-type": {"type": "string", "default": 5},
    "default-unknown-field": {**_object(a=_STRING), "default": {"b": 1}},
    "default-out-of-range": {"type": "integer", "maximum": 3, "default": 5},
    "default-in-embedded-metadata": {
        **_object(metadata=_object(name={**_STRING, "default": "A b"})),
        "x-kubernetes-embedded-resource": True,
    },
    "default-nested": {**_object(a=_STRING), "default": {"a": "x"}},
    **{
        f"default-embedded-{name}": {**_object(a=_STRING), "x-kubernetes-embedded-resource": True, "default": default, **more}
        for name, default, more in (
            ("unknown", _RESOURCE, {}),
            ("unknown-and-preserved", {**_RESOURCE, "b": 1}, {"x-kubernetes-preserve-unknown-fields": True}),
            ("unknown-beside", {**_RESOURCE, "b": 1}, {}),
            ("null", {**_RESOURCE, "metadata": None}, {}),
            ("malformed", {**_RESOURCE, "metadata": {"labels": [], "x": 1}}, {}),
            ("bad-name", {**_RESOURCE, "metadata": {"name": "a/b", "x": 1}}, {}),
            ("too-many", _RESOURCE, {"maxProperties": 1}),
            ("required", _RESOURCE, {"required": ["a"]}),
        )
    },
    "default-embedded-inside": {
        **_object(a={**_object(b=_STRING), "x-kubernetes-embedded-resource": True}),
        "default": {"a": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "unknown": 1}}},
    },
    "default-embedded-in-list": {
        "type": "array",
        "items": {**_object(b=_STRING), "x-kubernetes-embedded-resource": True},
        "default": [{"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a": None}, "generation": 0, "unknown": 1}}],
    },
    "default-embedded-metadata": {
        **_object(metadata={"type": "object", "default": {"name": "x", "unknown": 1}}),
        "x-kubernetes-embedded-resource": True,
    },
}


def _list_map(items: Any, *keys: str) -> JSONObject:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


_LIST_MAPS: dict[str, JSONObject] = {
    "good": _list_map({**_object(a=_STRING), "required": ["a"]}, "a"),
    "default": _list_map(_object(a={**_STRING, "default": "x"}), "a"),
    "optional": _list_map(_object(a=_STRING), "a"),
    "nullable": _list_map({**_object(a={**_STRING, "nullable": True}), "required": ["a"]}, "a"),
    "items-nullable": _list_map({**_object(a=_STRING), "required": ["a"], "nullable": True}, "a"),
    "no-keys": _list_map({**_object(a=_STRING), "required": ["a"]}),
    "unknown-key": _list_map({**_object(a=_STRING), "required": ["a"]}, "b"),
    "key-twice": _list_map({**_object(a=_STRING), "required": ["a"]}, "a", "a"),
    "key-an-object": _list_map({**_object(a=_object(b=_STRING)), "required": ["a"]}, "a"),
    "of-strings": _list_map(_STRING, "a"),
    "no-items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
    "items-a-list": _list_map([_object(a=_STRING)], "a"),
}


def _ruled(*rules: JSONObject) -> JSONObject:
    return {**_object(a=_STRING, b={"type": "object", "additionalProperties": _STRING}), "x-kubernetes-validations": list(rules)}


_RULES: dict[str, JSONObject] = {
    "good": _ruled({"rule": "self.a == 'x'", "message": "must be x", "reason": "FieldValueForbidden", "fieldPath": ".a"}),
    "empty": _ruled({"rule": " "}),
    "message-blank": _ruled({"rule": "true", "message": " "}),
    "message-line-break": _ruled({"rule": "true", "message": "a\nb"}),
    "rule-line-break": _ruled({"rule": "true ||\nfalse"}),
    "message-expression-blank": _ruled({"rule": "true", "messageExpression": " "}),
    "reason": _ruled({"rule": "true", "reason": "Wrong"}),
    "field-path-blank": _ruled({"rule": "true", "fieldPath": " "}),
    "field-path-unknown": _ruled({"rule": "true", "fieldPath": ".c"}),
    "field-path-line-break": _ruled({"rule": "true", "fieldPath": ".a\n"}),
    "field-path-map": _ruled({"rule": "true", "fieldPath": ".b['x y']"}),
    "field-path-map-dot": _ruled({"rule": "true", "fieldPath": ".b.x"}),
    "field-path-unclosed": _ruled({"rule": "true", "fieldPath": ".b['x'"}),
    "field-path-no-dot": _ruled({"rule": "true", "fieldPath": "a"}),
}

_ROOTS: dict[str, JSONObject] = {
    "no-type": {"properties": {"spec": _STRING}},
    "string": {"type": "string"},
    "additional-properties": {"type": "object", "additionalProperties": _STRING},
    "preserve": _ANYTHING,
    "metadata-empty": _object(metadata={}),
    "metadata-type": _object(metadata={"type": "object"}),
    "metadata-name": _object(metadata=_object(name={**_STRING, "maxLength": 5}, generateName=_STRING)),
    "metadata-labels": _object(metadata=_object(labels=_ANYTHING)),
    "metadata-description": _object(metadata={"type": "object", "description": "x"}),
    "metadata-preserve": _object(metadata=_ANYTHING),
    "metadata-default": _object(metadata={"type": "object", "default": {}}),
    "metadata-max-properties": _object(metadata={"type": "object", "maxProperties": 0}),
    "kind-integer": _object(kind=_INTEGER),
    "api-version-default": _object(apiVersion={**_STRING, "default": "v1"}),
    "embedded": {**_SCHEMA, "x-kubernetes-embedded-resource": True},
    "completeness": {
        **_object(a=_STRING, list={"type": "array", "items": _object(b=_STRING)}),
        "allOf": [
            {"properties": {"c": {"pattern": "x"}, "list": {"items": {"properties": {"d": {"pattern": "x"}}}}}},
        ],
        "not": {"anyOf": [{"properties": {"e": {"enum": ["x"]}}}, {"items": {"maxLength": 1}}]},
    },
}

_UPDATES: Cases = {
    "group": _change(_crd(), _spec(group="other.example.com")),
    "plural": _change(_crd(), _spec(names={"plural": "gadgets"})),
    "columns": _change(_crd(), _spec(versions=[_version(additionalPrinterColumns=[_COLUMN])])),
    "add-version": _change(_crd(), _spec(versions=[_version(), _version("v2", _object())])),
    "move-storage": _change(
        _crd(_version(), _version("v2")),
        _spec(versions=[_version(storage=False), _version("v2", storage=True)]),
        _spec(versions=[_version("v2", storage=True)]),
    ),
    "remove-stored": _change(_crd(), _spec(versions=[_version("v2", storage=True)])),
    "make-bad": _change(_crd(), _spec(versions=[_version(schema={"type": "string"})])),
    "no-change": _change(_crd(), {}),
    "labels": _change(_crd(), {"metadata": {"labels": {"a": "b"}}}),
    "status-ignored": _change(_crd(), {"status": {"storedVersions": ["v7"]}}),
    "spec-of-wrong-type": _change(_crd(), {"spec": {"versions": None}}),
    "json-patch": _change(_crd(), [{"op": "replace", "path": "/spec/names/shortNames", "value": ["wi"]}], kind=JSON_PATCH),
    "preserve-unknown-fields": _change(_crd(), _spec(preserveUnknownFields=True)),
    "short-names": _change(_crd(), _spec(names={"shortNames": ["w"]}), _spec(names={"shortNames": ["W"]})),
}

_STATUS: Cases = {
    "stored-versions": _change(
        _crd(_version(storage=False), _version("v2", storage=True)),
        {"status": {"storedVersions": ["v1", "v2"]}},
        subresource="/status",
    ),
    "spec-ignored": _change(_crd(), {"spec": {"names": {"shortNames": ["w"]}}}, subresource="/status"),
    "accepted-names-bad": _change(_crd(), {"status": {"acceptedNames": {"singular": "W!"}}}, subresource="/status"),
    "labels": _change(_crd(), {"metadata": {"labels": {"a": "b"}}}, subresource="/status"),
    "migration": _change(
        _crd(_version(), _version("v1beta1")),
        {"status": {"storedVersions": ["v1"]}},
        subresource="/status",
    ),
}

_BODIES: Cases = {
    "unknown-field": [_ask("POST", "?dryRun=All&fieldValidation=Warn", _crd(_version(schem={}), colour="x"))],
    "unknown-field-strict": [_ask("POST", "?dryRun=All&fieldValidation=Strict", _crd(_version(schem={}), colour="x"))],
    "unknown-keyword-strict": [
        _ask("POST", "?dryRun=All&fieldValidation=Strict", _crd(_version(schema=_object(a={"type": "string", "readOnly": True}))))
    ],
    "v1beta1": [_ask("POST", "?dryRun=All", {**_crd(), "apiVersion": "apiextensions.k8s.io/v1beta1"})],
    "get-missing": [_ask("GET", f"/{_NAME}", None)],
    "head": [_ask("HEAD", f"/{_NAME}", None)],
    "head-list": [_ask("HEAD", "", None)],
    "head-watch": [_ask("HEAD", "?watch=1&timeoutSeconds=1", None)],
    "options": [_ask("OPTIONS", "", None)],
    "post-to-name": [_ask("POST", f"/{_NAME}", _crd())],
    "put-collection": [_ask("PUT", "", _crd())],
    "patch-collection": [_ask("PATCH", "", {}, kind=MERGE_PATCH)],
    "delete-status": [_ask("DELETE", f"/{_NAME}/status", None)],
    "delete-missing": [_ask("DELETE", f"/{_NAME}", None)],
    "patch-missing": [_ask("PATCH", f"/{_NAME}", {}, kind=MERGE_PATCH)],
    "status-missing": [_ask("GET", f"/{_NAME}/status", None)],
    "put-without-revision": [
        _ask("POST", "", _crd(), compared=False),
        _ask("PUT", f"/{_NAME}", _crd()),
        _ask("DELETE", f"/{_NAME}", None, compared=False),
    ],
    "create-twice": [
        _ask("POST", "", _crd(), compared=False),
        _ask("POST", "", _crd()),
        _ask("DELETE", f"/{_NAME}", None, compared=False),
    ],
    "delete-dry-run": [
        _ask("POST", "", _crd(), compared=False),
        _ask("DELETE", f"/{_NAME}?dryRun=All", None),
        _ask("DELETE", f"/{_NAME}", None, compared=False),
    ],
    "delete-wrong-uid": [
        _ask("POST", "", _crd(), compared=False),
        _ask("DELETE", f"/{_NAME}", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        _ask("DELETE", f"/{_NAME}", None, compared=False),
    ],
}

# Members of a wrong JSON type: what Go's decoder says.
_MISTYPED_SCHEMAS: dict[str, Any] = {
    "schema": "x",
    "schema-list": [],
    "type": {"type": ["object"]},
    "properties": {"type": "object", "properties": []},
    "property": _object(a=True),
    "deep": _object(a=_object(b={"type": 1})),
    "integer": _object(a={"type": "string", "maxLength": "x"}),
    "integer-fraction": _object(a={"type": "string", "maxLength": 1.5}),
    "integer-whole-float": _object(a={"type": "string", "maxLength": 1000.0}),
    "integer-large": _object(a={"type": "string", "maxLength": 2**63}),
    "number": _object(a={"type": "integer", "maximum": True}),
    "boolean": _object(a={"type": "string", "nullable": 1}),
    "items": _object(a={"type": "array", "items": "x"}),
    "items-of-items": _object(a={"type": "array", "items": ["x"]}),
    "additional": {"type": "object", "additionalProperties": "x"},
    "additional-deep": {"type": "object", "additionalProperties": {"type": 1}},
    "all-of": {"type": "object", "allOf": {}},
    "not": {"type": "object", "not": "x"},
    "enum": _object(a={"type": "string", "enum": "x"}),
    "required": {"type": "object", "required": "x"},
    "required-item": {"type": "object", "required": [1]},
    "rules": {"type": "object", "x-kubernetes-validations": {}},
    "rule": {"type": "object", "x-kubernetes-validations": ["x"]},
    "rule-reason": {"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": 1}]},
    "preserve": {"type": "object", "x-kubernetes-preserve-unknown-fields": "x"},
    "list-map-keys": _object(a={"type": "array", "x-kubernetes-list-map-keys": [1]}),
    "dependencies": {"type": "object", "dependencies": {"a": [1]}},
    "docs": {"type": "object", "externalDocs": "x"},
}
_MISTYPED: Cases = {
    "group": _try(group=1),
    "spec": [_ask("POST", "?dryRun=All", {**_crd(), "spec": "x"})],
    "spec-list": [_ask("POST", "?dryRun=All", {**_crd(), "spec": []})],
    "scope": _try(scope={}),
    "names": _try(names={"shortNames": "x"}),
    "names-item": _try(names={"shortNames": [1]}),
    "names-null": _try(names={"shortNames": [None]}),
    "versions": [_ask("POST", "?dryRun=All", {**_crd(), "spec": {**_crd()["spec"], "versions": {}}})],
    "served": _try(_version(served="yes")),
    "columns": _try(_version(additionalPrinterColumns=[{"priority": "x"}])),
    "columns-priority": _try(_version(additionalPrinterColumns=[{"priority": 2**40}])),
    "subresources": _try(_version(subresources={"status": "x"})),
    "scale": _try(_version(subresources={"scale": {"specReplicasPath": 1}})),
    "conversion": _try(conversion="x"),
    "ca-bundle": _try(conversion=_webhook({"caBundle": 1})),
    "ca-bundle-text": _try(conversion=_webhook({"caBundle": "!!"})),
    "port": _try(conversion=_webhook({"service": {"port": "x"}})),
    "condition": _try(status={"conditions": [{"type": 1}]}),
    "labels": _try(metadata={"labels": "x"}),
    "label": _try(metadata={"labels": {"a": 1}}),
    "metadata": [_ask("POST", "?dryRun=All", {**_crd(), "metadata": "x"})],
}

CASES: Cases = {
    **{f"crd-{name}": case for name, case in _NAMES.items()},
    **{f"crd-version-{name}": case for name, case in _VERSIONS.items()},
    **{f"crd-conversion-{name}": case for name, case in _CONVERSION.items()},
    **{f"crd-spec-{name}": _try(_version(schema=_object(spec=schema))) for name, schema in _PROPERTIES.items()},
    **{f"crd-list-map-{name}": _try(_version(schema=_object(spec=schema))) for name, schema in _LIST_MAPS.items()},
    **{f"crd-rule-{name}": _try(_version(schema=_object(spec=schema))) for name, schema in _RULES.items()},
    **{f"crd-root-{name}": _try(_version(schema=schema)) for name, schema in _ROOTS.items()},
    **{f"crd-update-{name}": case for name, case in _UPDATES.items()},
    **{f"crd-status-{name}": case for name, case in _STATUS.items()},
    **{f"crd-body-{name}": case for name, case in _BODIES.items()},
    **{f"crd-mistyped-{name}": case for name, case in _MISTYPED.items()},
    **{f"crd-mistyped-schema-{name}": _try(_version(schema=schema)) for name, schema in _MISTYPED_SCHEMAS.items()},
}
