"""CertificateSigningRequests: what is wrong with them, and what each endpoint may change.

`tests/integration/cases_signing_requests.py` asks kube-apiserver the same.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.kinds.catalog import KINDS
from aggserver.kinds.strategy import KindStatusStrategy, KindStrategy
from aggserver.kinds.subresources import ApprovalStrategy
from aggserver.registry.rest import Context
from tests.cases.signing_requests import CERTIFICATE, REQUEST, WRONG_SIGNATURE

NOW = "2026-01-02T03:04:05Z"
KIND = next(kind for kind in KINDS if kind.name == "CertificateSigningRequest")
STRATEGIES = {"": KindStrategy(KIND), "status": KindStatusStrategy(KIND), "approval": ApprovalStrategy(KIND)}


def b64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def made(**spec: Any) -> dict[str, Any]:
    given = {"request": b64(REQUEST), "signerName": "example.com/s", "usages": ["client auth"], **spec}
    obj: dict[str, Any] = {"metadata": {"name": "a", "uid": "u"}, "spec": given}
    STRATEGIES[""].conform(obj)
    STRATEGIES[""].prepare_for_create(obj, Context(UserInfo("someone")), NOW)
    return obj


def said(errors: Any) -> list[str]:
    return [f"{each.field}: {each.body()}" for each in errors]


WITHOUT_PEM = "PEM block type must be CERTIFICATE REQUEST"
SPECS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "fine": ({}, []),
    "text": ({"request": "eA=="}, [f'spec.request: Invalid value: "eA==": {WITHOUT_PEM}']),
    "no request": ({"request": ""}, [f'spec.request: Invalid value: "": {WITHOUT_PEM}']),
    "another's signature": (
        {"request": b64(WRONG_SIGNATURE)},
        [f'spec.request: Invalid value: "{b64(WRONG_SIGNATURE)}": x509: ECDSA verification failure'],
    ),
    "no usages": ({"usages": []}, ["spec.usages: Required value"]),
    "a usage twice": ({"usages": ["any", "any"]}, ['spec.usages[1]: Duplicate value: "any"']),
    "short": (
        {"expirationSeconds": 599},
        ["spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)"],
    ),
    "legacy": (
        {"signerName": "kubernetes.io/legacy-unknown"},
        [
            'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this '
            "API version"
        ],
    ),
    "a signer without a path": (
        {"signerName": "a.b"},
        [
            'spec.signerName: Invalid value: "a.b": must be a fully qualified domain and path of the form '
            "'example.com/signer-name'"
        ],
    ),
    "a signer of one label": (
        {"signerName": "a/b"},
        ['spec.signerName: Invalid value: "a": should be a domain with at least two segments separated by dots'],
    ),
    "nothing but a slash": (
        {"signerName": "/"},
        [
            'spec.signerName: Invalid value: "": validating label "": a lowercase RFC 1123 label must consist of lower case '
            "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
            "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            'spec.signerName: Invalid value: "": should be a domain with at least two segments separated by dots',
            'spec.signerName: Invalid value: "": validating label "": a lowercase RFC 1123 subdomain must consist of lower case '
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ],
    ),
}


@pytest.mark.parametrize(("spec", "errors"), SPECS.values(), ids=SPECS)
def test_new_ones(spec: dict[str, Any], errors: list[str]) -> None:
    assert said(STRATEGIES[""].validate(made(**spec)).errors) == errors


def test_an_unknown_usage() -> None:
    (error,) = said(STRATEGIES[""].validate(made(usages=["any", "bogus"])).errors)
    assert error.startswith('spec.usages[1]: Unsupported value: "bogus": supported values: "any", "cert sign", "client auth", ')


APPROVED, DENIED = ({"type": kind, "status": "True", "reason": "r"} for kind in ("Approved", "Denied"))
OTHER = {"type": "Other", "status": "False"}
CONDITIONS = "status.conditions"
BOTH = "Approved and Denied conditions are mutually exclusive"
REPLACED = f"{CONDITIONS}: Forbidden: updates may not"
CHANGES: dict[str, tuple[str, list[dict[str, str]], list[dict[str, str]], list[str]]] = {
    # the endpoint, the conditions before and after
    "approved": ("approval", [], [APPROVED], []),
    "approved by /status": ("status", [], [APPROVED], [f'{REPLACED} add a condition of type "Approved"']),
    "denied by /status": ("status", [OTHER], [OTHER, DENIED], [f'{REPLACED} add a condition of type "Denied"']),
    "another by /status": ("status", [APPROVED], [OTHER, APPROVED], []),
    "not denied any more": ("approval", [DENIED], [], [f'{REPLACED} remove a condition of type "Denied"']),
    "not approved any more by /status": ("status", [APPROVED], [], [f'{REPLACED} remove a condition of type "Approved"']),
    "both": ("approval", [APPROVED], [APPROVED, DENIED], [f'{CONDITIONS}: Invalid value: "Denied": {BOTH}']),
    "twice": ("approval", [], [APPROVED, APPROVED], [f'{CONDITIONS}[1].type: Duplicate value: "Approved"']),
    "false": (
        "approval",
        [],
        [{**APPROVED, "status": "False"}],
        [f'{CONDITIONS}[0].status: Unsupported value: "False": supported values: "True"'],
    ),
    "no status": ("approval", [], [{"type": "Other"}], [f"{CONDITIONS}[0].status: Required value"]),
    "no type": ("approval", [], [{"status": "True"}], [f"{CONDITIONS}[0].type: Required value"]),
    # From before these rules.
    "both, as before": ("status", [APPROVED, DENIED], [APPROVED, DENIED, OTHER], []),
    "twice, as before": ("status", [OTHER, OTHER], [OTHER, OTHER], []),
}


@pytest.mark.parametrize(("through", "before", "after", "errors"), CHANGES.values(), ids=CHANGES)
def test_conditions(through: str, before: list[Any], after: list[Any], errors: list[str]) -> None:
    old = {**made(), "status": {"conditions": before}}
    obj = {**old, "metadata": {**old["metadata"]}, "status": {"conditions": [dict(each) for each in after]}}
    STRATEGIES[through].prepare_for_update(obj, old, NOW)
    assert said(STRATEGIES[through].validate_update(obj, old).errors) == errors


def test_status_keeps_what_was_said_of_an_approval() -> None:
    old = {**made(), "status": {"conditions": [APPROVED]}}
    after = [dict(OTHER), {**APPROVED, "message": "changed"}]
    obj = {**old, "metadata": {**old["metadata"]}, "status": {"conditions": after}}
    STRATEGIES["status"].prepare_for_update(obj, old, NOW)
    times = {"lastUpdateTime": NOW, "lastTransitionTime": NOW}
    assert obj["status"]["conditions"] == [{**OTHER, **times}, {**APPROVED, **times}]


CHAIN = 'status.certificate: Invalid value: "<certificate data>":'
CERTIFICATES: dict[str, tuple[bytes, bytes, list[str]]] = {
    # before and after
    "one": (b"", CERTIFICATE, []),
    "two": (b"", CERTIFICATE * 2, []),
    "text": (b"", b"text", [f"{CHAIN} must contain at least one CERTIFICATE PEM block"]),
    "a request": (b"", REQUEST, [f'{CHAIN} only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"']),
    "another": (
        CERTIFICATE,
        CERTIFICATE * 2,
        ["status.certificate: Forbidden: updates may not modify existing certificate content"],
    ),
    "none": (CERTIFICATE, b"", ["status.certificate: Forbidden: updates may not modify existing certificate content"]),
    "text as before": (b"text", b"text", []),
}


@pytest.mark.parametrize(("before", "after", "errors"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_certificates(before: bytes, after: bytes, errors: list[str]) -> None:
    old = {**made(), "status": {"certificate": b64(before)}}
    obj = {**old, "status": {"certificate": b64(after)}}
    assert said(STRATEGIES["status"].validate_update(obj, old).errors) == errors
