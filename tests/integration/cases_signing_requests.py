"""Cases for `test_same_kinds.py`: CertificateSigningRequests, what is wrong with them, and which endpoint may change what."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.cases.signing_requests import ADMINISTRATOR, CERTIFICATE, REQUEST, WRONG_SIGNATURE
from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask

__all__ = ["CASES"]

_URL = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


def _b64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def _shown(body: Any) -> Any:
    """Without who asked: the administrators of the two servers have other names."""
    for name in ("username", "groups", "extra") if isinstance(body.get("spec"), dict) else ():
        body["spec"].pop(name, None)
    return body


def _make(compared: bool = True, status: Any = None, **spec: Any) -> Ask:
    given = {"request": _b64(REQUEST), "signerName": "example.com/s", "usages": ["client auth"], **spec}
    spec = {name: value for name, value in given.items() if value is not None}
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "$name"}}
    body |= {"spec": spec, **({} if status is None else {"status": status})}
    return ask("POST", _URL, body, pick=_shown, compared=compared)


def _to(below: str, **status: Any) -> Ask:
    where = f"{_URL}/$name" + (f"/{below}" if below else "")
    return ask("PATCH", where, {"status": status}, kind=MERGE_PATCH, pick=_shown)


def _is(kind: str, status: str | None = "True", **more: str) -> dict[str, str]:
    return {"type": kind, **({} if status is None else {"status": status}), "reason": "r", "message": "m", **more}


def _add(below: str, condition: dict[str, str]) -> Ask:
    body = [{"op": "add", "path": "/status/conditions/-", "value": condition}]
    return ask("PATCH", f"{_URL}/$name/{below}", body, kind=JSON_PATCH, pick=_shown)


_GONE = ask("DELETE", f"{_URL}/$name")  # or 404, where it was refused
_TEXT = "x" * 40
_SPECS: dict[str, dict[str, Any]] = {
    "no-request": {"request": None},
    "empty-request": {"request": ""},
    "text-request": {"request": _b64(b"text")},
    "certificate-request": {"request": _b64(CERTIFICATE)},
    "new-request": {"request": _b64(re.sub(rb"(BEGIN|END) ", rb"\1 NEW ", REQUEST))},
    "text-around-request": {"request": _b64(b"text\n" + REQUEST + b"text")},
    "wrong-signature": {"request": _b64(WRONG_SIGNATURE)},
    "no-usages": {"usages": None},
    "empty-usages": {"usages": []},
    "unknown-usage": {"usages": ["client auth", "bogus", ""]},
    "repeated-usages": {"usages": ["client auth", "any", "client auth", "any", "any"]},
    "unknown-repeated": {"usages": ["bogus", "bogus"]},
    "short": {"expirationSeconds": 599},
    "none-long": {"expirationSeconds": 0},
    "negative": {"expirationSeconds": -1},
    "shortest": {"expirationSeconds": 600},
    "no-signer": {"signerName": None},
    "empty-signer": {"signerName": ""},
    "legacy-signer": {"signerName": "kubernetes.io/legacy-unknown"},
    "signer-without-path": {"signerName": "example.com"},
    "signer-of-three": {"signerName": "example.com/a/b"},
    "signer-without-dot": {"signerName": "example/s"},
    "signer-upper": {"signerName": "Example.com/S"},
    "signer-empty-parts": {"signerName": "/"},
    "signer-empty-labels": {"signerName": "example..com/a..b"},
    "signer-underscore": {"signerName": "e_a.com/a_b.c_d"},
    "signer-long-label": {"signerName": f"{_TEXT}{_TEXT}.com/s"},
    "signer-long-domain": {"signerName": ".".join([_TEXT] * 7) + "/s"},
    "signer-long": {"signerName": "example.com/" + ".".join([_TEXT] * 16)},
    "all-wrong": {"request": _b64(b"x"), "usages": ["x", "x"], "signerName": "x/", "expirationSeconds": 1},
    "administrators": {"signerName": "kubernetes.io/kube-apiserver-client", "request": _b64(ADMINISTRATOR)},
}
_CHAINS: dict[str, bytes] = {
    "one": CERTIFICATE,
    "two": CERTIFICATE * 2,
    "text": b"text",
    "a-request": REQUEST,
    "one-and-a-request": CERTIFICATE + REQUEST,
    "headers": CERTIFICATE.replace(b"-----\n", b"-----\na: b\n\n", 1),
    "text-around": b"text\n" + CERTIFICATE + b"text",
    "empty-block": b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
}
_APPROVED, _DENIED, _FAILED = _is("Approved"), _is("Denied"), _is("Failed")
# One after the other, to a new request.
_CONDITIONS: dict[str, list[Ask]] = {
    "approved-by-status": [_to("status", conditions=[_APPROVED])],
    "denied-by-status": [_to("status", conditions=[_DENIED])],
    "failed-by-status": [_to("status", conditions=[_FAILED]), _to("status", conditions=[])],
    "failed-by-approval": [_to("approval", conditions=[_FAILED]), _to("approval", conditions=[])],
    "approved": [_to("approval", conditions=[_APPROVED]), _to("approval", conditions=[_APPROVED])],
    "approved-then-not": [_to("approval", conditions=[_APPROVED]), _to("approval", conditions=[])],
    "denied-then-not": [_to("approval", conditions=[_DENIED]), _to("status", conditions=None)],
    "denied-then-approved": [_to("approval", conditions=[_DENIED]), _to("approval", conditions=[_APPROVED])],
    "both": [_to("approval", conditions=[_APPROVED, _DENIED])],
    "both-twice": [_to("approval", conditions=[_DENIED, _APPROVED, _DENIED])],
    "both-one-by-one": [_to("approval", conditions=[_DENIED]), _add("approval", _APPROVED)],
    "approved-twice": [_to("approval", conditions=[_APPROVED, _APPROVED])],
    "others-twice": [_to("status", conditions=[_is("A"), _is("B"), _is("A"), _is("A")])],
    "status-false": [_to("approval", conditions=[_is("Approved", "False")])],
    "status-bogus": [_to("approval", conditions=[_is("Approved", "Bogus"), _is("Other", "Bogus")])],
    "status-missing": [_to("approval", conditions=[_is("Approved", None), _is("Other", None)])],
    "status-of-others": [_to("status", conditions=[_is("A", "False"), _is("B", "Unknown"), _is("C", "True")])],
    "type-empty": [_to("approval", conditions=[_is(""), _is("")])],
    "approval-changed-by-status": [
        _to("approval", conditions=[_APPROVED]),
        _to("status", conditions=[_is("A"), _is("Approved", message="other")]),
        _add("status", _is("Denied")),
        _add("status", _is("Approved", "False")),
    ],
    "approval-changed-by-approval": [
        _to("approval", conditions=[_APPROVED]),
        _to("approval", conditions=[_is("Approved", message="other")]),
    ],
    "through-the-object": [
        _to("", conditions=[_APPROVED], certificate=_b64(CERTIFICATE)),
        ask("PATCH", f"{_URL}/$name", {"spec": {"usages": ["bogus"]}}, kind=MERGE_PATCH, pick=_shown),
        ask("PATCH", f"{_URL}/$name", {"metadata": {"labels": {"a": "/"}}}, kind=MERGE_PATCH, pick=_shown),
    ],
    "certificate-by-approval": [_to("approval", conditions=[_APPROVED], certificate=_b64(CERTIFICATE))],
    "certificate-changed": [
        _to("status", certificate=_b64(CERTIFICATE)),
        _to("status", certificate=_b64(CERTIFICATE)),
        _to("status", certificate=_b64(CERTIFICATE * 2)),
        _to("status", certificate=_b64(b"text")),
        _to("status", certificate=None),
        _to("approval", conditions=[_APPROVED]),
    ],
}

CASES: Cases = {
    **{f"signing-request-{name}": [_make(**spec), _GONE] for name, spec in _SPECS.items()},
    **{
        f"signing-certificate-{name}": [_make(False), _to("status", certificate=_b64(chain)), _GONE]
        for name, chain in _CHAINS.items()
    },
    **{f"signing-{name}": [_make(False), *asked, _GONE] for name, asked in _CONDITIONS.items()},
    "signing-request-with-status": [_make(status={"conditions": [_APPROVED], "certificate": _b64(b"text")}), _GONE],
}
