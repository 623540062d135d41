"""Cases for `test_same_answers.py`: definitions good and bad, written, changed and read; `definitions.py` says how.

`cases_definition_schemas.py` has those of schemas.
"""

from __future__ import annotations

import base64
from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask
from tests.integration.definitions import NAME, SCHEMA, STRING, change, crd, object_of, request, try_out, version

__all__ = ["CASES"]


def _spec(**members: Any) -> JSONObject:
    return {"spec": members}


def _webhook(config: Any, versions: Any = ("v1",), **more: Any) -> JSONObject:
    hook = {"clientConfig": config, "conversionReviewVersions": None if versions is None else list(versions)}
    return {"strategy": "Webhook", "webhook": {name: value for name, value in hook.items() if value is not None}, **more}


def _service(**more: Any) -> JSONObject:
    return {"service": {"namespace": "ns", "name": "hook", **more}}


_NAMES: Cases = {
    "plain": try_out(),
    "cluster": try_out(scope="Cluster"),
    "no-names": [request("POST", "?dryRun=All", {**crd(), "spec": {**crd()["spec"], "names": None}})],
    "no-spec": [request("POST", "?dryRun=All", {**crd(), "spec": None})],
    "no-versions": try_out(versions=[]),
    "no-group": try_out(group=""),
    "group-without-dot": try_out(group="example"),
    "group-upper": try_out(group="Example.com"),
    "no-scope": try_out(scope=None),
    "scope-unknown": try_out(scope="namespaced"),
    "name-other": try_out(metadata={"name": "gadgets.$name.example.com"}),
    "name-invalid": try_out(metadata={"name": "Widgets.$name.example.com"}),
    "name-missing": try_out(metadata={"name": None}),
    "generate-name": try_out(metadata={"name": None, "generateName": "widgets-"}),
    "no-plural": try_out(names={"plural": None}),
    "no-kind": try_out(names={"kind": None}),
    "no-singular-no-list-kind": try_out(names={"singular": None, "listKind": None}),
    "plural-upper": try_out(names={"plural": "Widgets"}),
    "singular-dash": try_out(names={"singular": "-widget"}),
    "kind-lower": try_out(names={"kind": "widget"}),
    "kind-underscore": try_out(names={"kind": "Wid_get", "listKind": None}),
    "kind-and-list-kind-same": try_out(names={"listKind": "Widget"}),
    "short-names-bad": try_out(names={"shortNames": ["w", "W", "1w", ""]}),
    "categories-bad": try_out(names={"categories": ["all", "A.B"]}),
    "short-names-twice": try_out(names={"shortNames": ["w", "w"]}),
    "labels-bad": try_out(metadata={"labels": {"a b": "c"}}),
    "several-wrong": try_out(group="", scope="", names={"kind": "", "plural": ""}),
    "status-given": try_out(status={"storedVersions": ["v7"], "acceptedNames": {"plural": "X"}, "conditions": []}),
    "preserve-unknown-fields": try_out(preserveUnknownFields=True),
    "preserve-unknown-fields-false": try_out(preserveUnknownFields=False),
    "preserve-and-webhook": try_out(preserveUnknownFields=True, conversion=_webhook({"url": "https://example.com"})),
    "preserve-and-default": try_out(version(schema=object_of(a={"type": "string", "default": "x"})), preserveUnknownFields=True),
    "approval-missing": try_out(group="$name.k8s.io", metadata={"name": "widgets.$name.k8s.io"}),
    "approval-url": try_out(
        group="$name.k8s.io",
        metadata={"name": "widgets.$name.k8s.io", "annotations": {"api-approved.kubernetes.io": "https://example.com/1"}},
    ),
    "approval-unapproved": try_out(
        group="$name.kubernetes.io",
        metadata={"name": "widgets.$name.kubernetes.io", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
    ),
    "approval-nonsense": try_out(
        group="$name.k8s.io", metadata={"name": "widgets.$name.k8s.io", "annotations": {"api-approved.kubernetes.io": "yes"}}
    ),
}

_COLUMN = {"name": "Color", "type": "string", "jsonPath": ".spec.color"}
_SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}

_VERSIONS: Cases = {
    "two-versions": try_out(version(), version("v2")),
    "two-versions-differ": try_out(version(), version("v2", object_of())),
    "two-storage": try_out(version(), version("v2", storage=True)),
    "two-storage-differ": try_out(version(), version("v2", object_of(a={"type": "number", "maximum": 1.5}), storage=True)),
    "two-storage-facets": try_out(
        version(subresources={"status": {}, "scale": _SCALE}),
        version("v2", storage=True, additionalPrinterColumns=[_COLUMN], selectableFields=[{"jsonPath": ".spec.color"}]),
    ),
    "no-storage": try_out(version(storage=False)),
    "same-name-twice": try_out(version(), version(storage=False)),
    "version-name-bad": try_out(version("V1", storage=True)),
    "version-name-missing": try_out(version("", storage=True)),
    "second-version-name-bad": try_out(version(), version("v 2")),
    "no-schema": try_out(version(schema=None)),
    "schema-empty": try_out({**version(schema=None), "schema": {}}),
    "schema-null": try_out({**version(schema=None), "schema": {"openAPIV3Schema": None}}),
    "one-without-schema": try_out(version(), version("v2", None)),
    "unserved-without-schema": try_out(version(), version("v2", None, served=False)),
    "warning-without-deprecated": try_out(version(deprecationWarning="old")),
    "warning": try_out(version(deprecated=True, deprecationWarning="old")),
    "warning-empty": try_out(version(deprecated=True, deprecationWarning="")),
    "warning-long": try_out(version(deprecated=True, deprecationWarning="x" * 257)),
    "warning-unprintable": try_out(version(deprecated=True, deprecationWarning="ab\tc")),
    "warning-line-break-second": try_out(version(), version("v2", deprecated=True, deprecationWarning="é\n")),
    "columns": try_out(version(additionalPrinterColumns=[{**_COLUMN, "format": "byte", "priority": 1, "description": "x"}])),
    "column-empty": try_out(version(additionalPrinterColumns=[{}])),
    "column-wrong": try_out(version(additionalPrinterColumns=[{"name": "a", "type": "text", "format": "x", "jsonPath": "spec"}])),
    "column-wrong-second": try_out(version(), version("v2", additionalPrinterColumns=[{"name": "a", "type": "date"}])),
    "column-dot": try_out(version(additionalPrinterColumns=[{**_COLUMN, "jsonPath": "."}])),
    "column-brackets": try_out(version(additionalPrinterColumns=[{**_COLUMN, "jsonPath": ".a[*].b"}])),
    "scale": try_out(version(subresources={"status": {}, "scale": {**_SCALE, "labelSelectorPath": ".status.selector"}})),
    "scale-empty": try_out(version(subresources={"scale": {}})),
    "scale-elsewhere": try_out(
        version(subresources={"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".spec.a", "labelSelectorPath": ".b"}})
    ),
    "scale-no-dot": try_out(
        version(subresources={"scale": {"specReplicasPath": "spec", "statusReplicasPath": "status", "labelSelectorPath": "spec"}})
    ),
    "scale-second": try_out(version(), version("v2", subresources={"scale": {}})),
    "selectable": try_out(version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}])),
    "selectable-empty": try_out(version(selectableFields=[{"jsonPath": ""}])),
    "selectable-unknown": try_out(version(selectableFields=[{"jsonPath": ".spec.colour"}])),
    "selectable-object": try_out(version(selectableFields=[{"jsonPath": ".spec"}])),
    "selectable-array": try_out(version(selectableFields=[{"jsonPath": ".spec['color']"}])),
    "selectable-no-dot": try_out(version(selectableFields=[{"jsonPath": "spec.color"}])),
    "selectable-ends-in-dot": try_out(version(selectableFields=[{"jsonPath": ".spec."}])),
    "selectable-two-dots": try_out(version(selectableFields=[{"jsonPath": ".spec..color"}])),
    "selectable-metadata": try_out(
        version(schema=object_of(metadata=object_of(name=STRING)), selectableFields=[{"jsonPath": ".metadata.name"}])
    ),
    "selectable-twice": try_out(version(selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.color"}])),
    "selectable-nine": try_out(
        version(
            schema=object_of(**{f"f{index}": STRING for index in range(9)}),
            selectableFields=[{"jsonPath": f".f{index}"} for index in range(9)],
        )
    ),
    "selectable-without-schema": try_out(version(schema=None, selectableFields=[{"jsonPath": ".spec.color"}])),
    "selectable-common-schema-not": try_out(
        version(selectableFields=[{"jsonPath": ".spec.color"}]),
        version("v2", object_of(spec=object_of(color=STRING)), selectableFields=[{"jsonPath": ".spec.color"}]),
    ),
    "selectable-map": try_out(
        version(
            schema=object_of(map={"type": "object", "additionalProperties": STRING}), selectableFields=[{"jsonPath": ".map.a"}]
        )
    ),
    "status-root": try_out(version(schema={**SCHEMA, "required": ["spec"]}, subresources={"status": {}})),
    "status-root-any-of": try_out(version(schema={**SCHEMA, "anyOf": [{"required": ["spec"]}]}, subresources={"status": {}})),
    "status-root-max-properties": try_out(
        version(
            schema={
                "type": "object",
                "description": 'a <"quoted"> text',
                "maxProperties": 5,
                "enum": [{"b": 1, "a": [1.5, None]}],
                "externalDocs": {"url": "https://example.com"},
                "properties": {
                    "a": {"type": "array", "items": STRING, "default": ["x"], "maximum": 1e21, "minimum": 1.0},
                    "b": {"type": "object", "additionalProperties": True, "not": {"required": ["x"]}},
                    "c": {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
                    "d": {
                        "type": "array",
                        "items": object_of(k={"type": "string", "default": "x"}),
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
    "status-root-type": try_out(version(schema={"type": "string"}, subresources={"status": {}})),
    "status-one-of-two": try_out(
        version(schema={**SCHEMA, "maxProperties": 5}, subresources={"status": {}}),
        version("v2", {**SCHEMA, "maxProperties": 5}),
    ),
    "nullable-root": try_out(version(schema={**SCHEMA, "nullable": True})),
}

_CONVERSION: Cases = {
    "none": try_out(conversion={"strategy": "None"}),
    "no-strategy": try_out(conversion={}),
    "unknown": try_out(conversion={"strategy": "none"}),
    "none-with-webhook": try_out(conversion=_webhook(_service()) | {"strategy": "None"}),
    "url": try_out(conversion=_webhook({"url": "https://example.com:8443/convert"})),
    "service": try_out(conversion=_webhook(_service(path="/a/b", port=8443))),
    "no-webhook": try_out(conversion={"strategy": "Webhook"}),
    "no-config": try_out(conversion=_webhook(None)),
    "empty-config": try_out(conversion=_webhook({})),
    "url-and-service": try_out(conversion=_webhook({"url": "https://example.com", **_service()})),
    "no-review-versions": try_out(conversion=_webhook(_service(), None)),
    "review-versions-unknown": try_out(conversion=_webhook(_service(), ["v2", "v3"])),
    "review-versions-twice": try_out(conversion=_webhook(_service(), ["v1", "v1", "V!"])),
    "url-http": try_out(conversion=_webhook({"url": "http://example.com"})),
    "url-no-host": try_out(conversion=_webhook({"url": "https:///a"})),
    "url-user-query-fragment": try_out(conversion=_webhook({"url": "https://u:p@example.com/?a=b#c"})),
    "service-empty": try_out(conversion=_webhook({"service": {"namespace": "", "name": ""}})),
    "service-port": try_out(conversion=_webhook(_service(port=0))),
    "service-port-high": try_out(conversion=_webhook(_service(port=65536))),
    "service-path": try_out(conversion=_webhook(_service(path="a//B"))),
    "service-path-slashes": try_out(conversion=_webhook(_service(path="//"))),
    "service-no-port": try_out(conversion=_webhook(_service(port=None))),
    "service-path-root": try_out(conversion=_webhook(_service(path="/"))),
    "service-path-dots": try_out(conversion=_webhook(_service(path="/../a_b/"))),
    "url-null-service-null": try_out(conversion=_webhook({"url": None, "service": None})),
    "url-empty": try_out(conversion=_webhook({"url": ""})),
    "url-relative": try_out(conversion=_webhook({"url": "example.com/convert"})),
    "url-no-scheme": try_out(conversion=_webhook({"url": ":443/convert"})),
    "url-upper-scheme": try_out(conversion=_webhook({"url": "HTTPS://Example.com"})),
    "url-space": try_out(conversion=_webhook({"url": "https://exa mple.com"})),
    "url-port": try_out(conversion=_webhook({"url": "https://example.com:port/"})),
    "url-escape": try_out(conversion=_webhook({"url": "https://example.com/%zz"})),
    "url-control": try_out(conversion=_webhook({"url": "https://example.com/\n"})),
    "url-brackets": try_out(conversion=_webhook({"url": "https://[::1/"})),
    "url-user-only": try_out(conversion=_webhook({"url": "https://us%65r@example.com"})),
    "url-opaque": try_out(conversion=_webhook({"url": "https:example.com"})),
    "url-empty-query-and-fragment": try_out(conversion=_webhook({"url": "https://example.com?#"})),
    "review-versions-empty": try_out(conversion=_webhook(_service(), [])),
    "review-versions-one-known": try_out(conversion=_webhook(_service(), ["v9", "v1beta1"])),
    "bundle-text": try_out(conversion=_webhook({**_service(), "caBundle": "eA=="})),
    "strategy-empty": try_out(conversion={"strategy": ""}),
}


# A CA that nobody uses.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBZTCCAQygAwIBAgIBATAKBggqhkjOPQQDAjARMQ8wDQYDVQQDDAZidW5kbGUw
IBcNMjYxMTIyMTc1MDQxWhgPMjEyNjEwMjkxNzUwNDFaMBExDzANBgNVBAMMBmJ1
bmRsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABLjBporSLCArkiZiQb1jKxJp
RyUHxmmvQMnS/XViIrkVdZXrJz13/qKs7ZxsJslcT6HTxeo/6OmPfyrFtO8Dyz2j
UzBRMB0GA1UdDgQWBBTROsOpq6QWS/YNmykoSwFDUP+LPjAfBgNVHSMEGDAWgBTR
OsOpq6QWS/YNmykoSwFDUP+LPjAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMC
A0cAMEQCIH/jWbk48RPMbknePCOsfZkxAvND0VtwxMG0daVmD/o6AiBz/Idl1Uur
9eT2Z7vJxYl5cP5LUtph+Xf1bGwx3Mv/QA==
-----END CERTIFICATE-----
"""


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pem(content: str, kind: str = "CERTIFICATE") -> str:
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


_BUNDLES = {
    "text": "x",
    "space": " \n\t ",
    "empty-block": _pem(""),
    "no-certificate": _pem(_base64("x" * 40)),
    "not-base64": _pem("!!!!"),
    "key": _pem(_base64("x" * 40), "PRIVATE KEY"),
    "key-then-text": _pem(_base64("x" * 40), "PRIVATE KEY") + "more",
    "trailing-data": _pem(base64.b64encode(b"\x30\x03\x02\x01\x05more").decode()),
    "a-sequence": _pem(base64.b64encode(b"\x30\x03\x02\x01\x05").decode()),
    "a-certificate": CERTIFICATE,
    "text-then-a-certificate": f"this is a bundle\n{CERTIFICATE}",
    "a-certificate-then-text": f"{CERTIFICATE}more",
    "windows": CERTIFICATE.replace("\n", "\r\n"),
    "headers": CERTIFICATE.replace("-----\n", "-----\nName: value\n\n", 1),
    "cut": CERTIFICATE[:200],
    "no-line-break": CERTIFICATE.strip(),
}


def _established(body: Any) -> Any:
    """What the controllers say of whether it is served, without the times."""
    if not isinstance(body, dict) or "status" not in body or "conditions" not in body["status"]:
        return body
    told = {each["type"]: each for each in body["status"]["conditions"]}.get("Established", {})
    return [told.get(key) for key in ("status", "reason", "message")]


_WAIT = request("GET", f"?watch=1&timeoutSeconds=2&fieldSelector=metadata.name={NAME}", None, compared=False)
_SAID = ask("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}", pick=_established)


def _patch(bundle: str | None, **more: Any) -> Ask:
    config = {**_service(), "caBundle": None if bundle is None else _base64(bundle)}
    return request("PATCH", f"/{NAME}", {"spec": {"conversion": _webhook(config)}, **more}, kind=MERGE_PATCH)


_CA_BUNDLES: Cases = {
    # Before a definition is Established, a condition tells of it.
    "invalid-at-first": [
        request("POST", "", crd(conversion=_webhook({**_service(), "caBundle": _base64("x")})), compared=False),
        _WAIT,
        _SAID,
        _patch("y"),
        _patch(CERTIFICATE),
        _WAIT,
        _SAID,
        _patch("x"),
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
    # Of one that is Established, an invalid one is refused.
    "of-an-established": [
        request("POST", "", crd(), compared=False),
        _WAIT,
        _SAID,
        *(_patch(bundle) for bundle in _BUNDLES.values()),
        _patch(None),
        _patch(""),
        request("PATCH", f"/{NAME}", {"spec": {"conversion": _webhook(_service(), ["v2"])}}, kind=MERGE_PATCH),
        _SAID,
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
}

_UPDATES: Cases = {
    "group": change(crd(), _spec(group="other.example.com")),
    "plural": change(crd(), _spec(names={"plural": "gadgets"})),
    "columns": change(crd(), _spec(versions=[version(additionalPrinterColumns=[_COLUMN])])),
    "add-version": change(crd(), _spec(versions=[version(), version("v2", object_of())])),
    "move-storage": change(
        crd(version(), version("v2")),
        _spec(versions=[version(storage=False), version("v2", storage=True)]),
        _spec(versions=[version("v2", storage=True)]),
    ),
    "remove-stored": change(crd(), _spec(versions=[version("v2", storage=True)])),
    "make-bad": change(crd(), _spec(versions=[version(schema={"type": "string"})])),
    "no-change": change(crd(), {}),
    "labels": change(crd(), {"metadata": {"labels": {"a": "b"}}}),
    "status-ignored": change(crd(), {"status": {"storedVersions": ["v7"]}}),
    "spec-of-wrong-type": change(crd(), {"spec": {"versions": None}}),
    "json-patch": change(crd(), [{"op": "replace", "path": "/spec/names/shortNames", "value": ["wi"]}], kind=JSON_PATCH),
    "preserve-unknown-fields": change(crd(), _spec(preserveUnknownFields=True)),
    "short-names": change(crd(), _spec(names={"shortNames": ["w"]}), _spec(names={"shortNames": ["W"]})),
}

_STATUS: Cases = {
    "stored-versions": change(
        crd(version(storage=False), version("v2", storage=True)),
        {"status": {"storedVersions": ["v1", "v2"]}},
        subresource="/status",
    ),
    "no-stored-versions": change(
        crd(),
        {"status": {"storedVersions": []}},
        {"status": {"storedVersions": None}},
        {"status": {"storedVersions": []}},
        subresource="/status",
    ),
    "spec-ignored": change(crd(), {"spec": {"names": {"shortNames": ["w"]}}}, subresource="/status"),
    "accepted-names-bad": change(crd(), {"status": {"acceptedNames": {"singular": "W!"}}}, subresource="/status"),
    "labels": change(crd(), {"metadata": {"labels": {"a": "b"}}}, subresource="/status"),
    "migration": change(
        crd(version(), version("v1beta1")),
        {"status": {"storedVersions": ["v1"]}},
        subresource="/status",
    ),
}

_BODIES: Cases = {
    "unknown-field": [request("POST", "?dryRun=All&fieldValidation=Warn", crd(version(schem={}), colour="x"))],
    "unknown-field-strict": [request("POST", "?dryRun=All&fieldValidation=Strict", crd(version(schem={}), colour="x"))],
    "unknown-keyword-strict": [
        request(
            "POST", "?dryRun=All&fieldValidation=Strict", crd(version(schema=object_of(a={"type": "string", "readOnly": True})))
        )
    ],
    "v1beta1": [request("POST", "?dryRun=All", {**crd(), "apiVersion": "apiextensions.k8s.io/v1beta1"})],
    "get-missing": [request("GET", f"/{NAME}", None)],
    "head": [request("HEAD", f"/{NAME}", None)],
    "head-list": [request("HEAD", "", None)],
    "head-watch": [request("HEAD", "?watch=1&timeoutSeconds=1", None)],
    "options": [request("OPTIONS", "", None)],
    "post-to-name": [request("POST", f"/{NAME}", crd())],
    "put-collection": [request("PUT", "", crd())],
    "patch-collection": [request("PATCH", "", {}, kind=MERGE_PATCH)],
    "delete-status": [request("DELETE", f"/{NAME}/status", None)],
    "delete-missing": [request("DELETE", f"/{NAME}", None)],
    "patch-missing": [request("PATCH", f"/{NAME}", {}, kind=MERGE_PATCH)],
    "status-missing": [request("GET", f"/{NAME}/status", None)],
    "put-without-revision": [
        request("POST", "", crd(), compared=False),
        request("PUT", f"/{NAME}", crd()),
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
    "create-twice": [
        request("POST", "", crd(), compared=False),
        request("POST", "", crd()),
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
    "delete-dry-run": [
        request("POST", "", crd(), compared=False),
        request("DELETE", f"/{NAME}?dryRun=All", None),
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
    "delete-wrong-uid": [
        request("POST", "", crd(), compared=False),
        request("DELETE", f"/{NAME}", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        request("DELETE", f"/{NAME}", None, compared=False),
    ],
}

_MISTYPED: Cases = {
    "group": try_out(group=1),
    "spec": [request("POST", "?dryRun=All", {**crd(), "spec": "x"})],
    "spec-list": [request("POST", "?dryRun=All", {**crd(), "spec": []})],
    "scope": try_out(scope={}),
    "names": try_out(names={"shortNames": "x"}),
    "names-item": try_out(names={"shortNames": [1]}),
    "names-null": try_out(names={"shortNames": [None]}),
    "versions": [request("POST", "?dryRun=All", {**crd(), "spec": {**crd()["spec"], "versions": {}}})],
    "served": try_out(version(served="yes")),
    "columns": try_out(version(additionalPrinterColumns=[{"priority": "x"}])),
    "columns-priority": try_out(version(additionalPrinterColumns=[{"priority": 2**40}])),
    "subresources": try_out(version(subresources={"status": "x"})),
    "scale": try_out(version(subresources={"scale": {"specReplicasPath": 1}})),
    "conversion": try_out(conversion="x"),
    "ca-bundle": try_out(conversion=_webhook({"caBundle": 1})),
    "ca-bundle-text": try_out(conversion=_webhook({"caBundle": "!!"})),
    "port": try_out(conversion=_webhook({"service": {"port": "x"}})),
    "condition": try_out(status={"conditions": [{"type": 1}]}),
    "labels": try_out(metadata={"labels": "x"}),
    "label": try_out(metadata={"labels": {"a": 1}}),
    "metadata": [request("POST", "?dryRun=All", {**crd(), "metadata": "x"})],
}

CASES: Cases = {
    **{f"crd-{name}": case for name, case in _NAMES.items()},
    **{f"crd-version-{name}": case for name, case in _VERSIONS.items()},
    **{f"crd-conversion-{name}": case for name, case in _CONVERSION.items()},
    **{f"crd-ca-bundle-{name}": case for name, case in _CA_BUNDLES.items()},
    **{f"crd-update-{name}": case for name, case in _UPDATES.items()},
    **{f"crd-status-{name}": case for name, case in _STATUS.items()},
    **{f"crd-body-{name}": case for name, case in _BODIES.items()},
    **{f"crd-mistyped-{name}": case for name, case in _MISTYPED.items()},
}
