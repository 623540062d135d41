"""Validation of CertificateSigningRequests, beyond their metadata, and what a write of the status keeps.

Approving and signing need different permissions, so `/status` can't approve a request, and `/approval` can't set the certificate.
As upstream, some errors are not reported if the old object had them too.
Pure. Source: k8s.io/kubernetes pkg/apis/certificates/validation/validation.go, pkg/apis/core/validation/names.go
(ValidateSignerName), pkg/registry/certificates/certificates/strategy.go, v1.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence

from aggserver.authentication import x509
from aggserver.meta.field import FieldError, Path, duplicate, forbidden, invalid, not_supported, required, too_long
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.names import dns1123_label, dns1123_subdomain
from aggserver.webhook.ca_bundle import blocks

__all__ = ["keep_judgements", "problems", "update_problems"]

Errors = Iterator[FieldError]

_JUDGEMENTS = ("Approved", "Denied")
# Conditions that can only be True, and can't be removed.
_LASTING = (*_JUDGEMENTS, "Failed")
_STATUSES = ("False", "True", "Unknown")
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SHORTEST_SECONDS = 600
_MAX_DOMAIN_BYTES = 253
# A domain, a slash, a namespace, a dot and a name.
_MAX_SIGNER_BYTES = _MAX_DOMAIN_BYTES + 1 + 63 + 1 + 253
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_STATUS = Path("status")


def problems(obj: JSONMapping, old: JSONMapping | None = None) -> list[FieldError]:
    """The errors of an object. old: the one it replaces."""
    spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
    return [
        *_spec_problems(spec, before),
        *_condition_problems(_conditions(obj), _conditions(old or {}), _STATUS.child("conditions")),
        *_certificate_problems(_certificate(obj), None if old is None else _certificate(old)),
    ]


def update_problems(obj: JSONMapping, old: JSONMapping, *, judges: bool = False, issues: bool = False) -> list[FieldError]:
    """The errors of an object that replaces another. judges: whether through `/approval`. issues: whether through `/status`."""
    return [*problems(obj, old), *_change_problems(obj, old, judges=judges, issues=issues)]


def keep_judgements(obj: JSONObject, old: JSONMapping) -> None:
    """Restore the conditions Approved and Denied, at their places. If one was added or removed, `update_problems` reports it."""
    conditions = _conditions(obj)
    for kind in _JUDGEMENTS:
        before = [each for each in _conditions(old) if each.get("type") == kind]
        places = [index for index, each in enumerate(conditions) if each.get("type") == kind]
        if len(before) == len(places):
            for index, each in zip(places, before, strict=True):
                conditions[index] = each


def _spec_problems(spec: JSONMapping, old: JSONMapping) -> Errors:
    path, usages = Path("spec"), spec.get("usages") or []
    why = _request_problem(base64.b64decode(spec.get("request") or ""))
    if why:
        yield invalid(path.child("request"), spec.get("request"), why)
    if not usages:
        yield required(path.child("usages"))
    before = old.get("usages") or []
    if set(before) <= set(_USAGES):
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                yield not_supported(path.child("usages").index(index), usage, _USAGES)
    if len(set(before)) == len(before):
        yield from (duplicate(path.child("usages").index(index), usages[index]) for index in _repeated(usages))
    signer, signer_path = spec.get("signerName") or "", path.child("signerName")
    if signer == _LEGACY_SIGNER and old.get("signerName") != _LEGACY_SIGNER:
        yield invalid(signer_path, signer, "the legacy signerName is not allowed via this API version")
    else:
        yield from _signer_problems(signer, signer_path)
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST_SECONDS:
        why = "may not specify a duration less than 600 seconds (10 minutes)"
        yield invalid(path.child("expirationSeconds"), seconds, why)


def _signer_problems(name: str, path: Path) -> Errors:
    """The errors of a signer's name, a domain and a path. Only the first invalid label of each is reported."""
    if not name:
        yield required(path)
        return
    domain, *rest = name.split("/")
    if len(rest) != 1:
        yield invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
        return
    if len(domain.encode()) > _MAX_DOMAIN_BYTES:
        yield too_long(path, _MAX_DOMAIN_BYTES)
    for part, rule in ((domain, dns1123_label), (rest[0], dns1123_subdomain)):
        labels = part.split(".")
        wrong = next((label for label in labels if rule(label)), None)
        if wrong is not None:
            yield from (invalid(path, part, f"validating label {quote(wrong)}: {text}") for text in rule(wrong))
        if rule is dns1123_label and len(labels) < 2:
            yield invalid(path, part, "should be a domain with at least two segments separated by dots")
    if len(name.encode()) > _MAX_SIGNER_BYTES:
        yield too_long(path, _MAX_SIGNER_BYTES)


def _condition_problems(conditions: Sequence[JSONMapping], old: Sequence[JSONMapping], path: Path) -> Errors:
    types, before = [each.get("type") or "" for each in conditions], [each.get("type") or "" for each in old]
    repeated = set(_repeated(types)) if not _repeated(before) else set()
    exclusive, judged = not set(_JUDGEMENTS) <= set(before), set[str]()
    for index, (kind, condition) in enumerate(zip(types, conditions, strict=True)):
        at, status = path.index(index), condition.get("status") or ""
        if not kind and "" not in before:
            yield required(at.child("type"))
        allowed = ("True",) if kind in _LASTING else _STATUSES
        if not status:
            yield required(at.child("status"))
        elif status not in allowed:
            yield not_supported(at.child("status"), status, allowed)
        if kind in _JUDGEMENTS:
            judged.add(kind)
            if exclusive and len(judged) > 1:
                yield invalid(path, kind, "Approved and Denied conditions are mutually exclusive")
        if index in repeated:
            yield duplicate(at.child("type"), kind)


def _certificate_problems(certificate: bytes, old: bytes | None) -> Errors:
    if old is not None and (certificate == old or _chain_problem(old)):
        return
    why = _chain_problem(certificate)
    if why:
        yield invalid(_STATUS.child("certificate"), "<certificate data>", why)


def _change_problems(obj: JSONMapping, old: JSONMapping, *, judges: bool, issues: bool) -> Errors:
    now, before = ([each.get("type") for each in _conditions(one)] for one in (obj, old))
    path = _STATUS.child("conditions")
    for kind in _LASTING:
        if now.count(kind) < before.count(kind):
            yield forbidden(path, f'updates may not remove a condition of type "{kind}"')
    if not judges:
        # If their number is the same, they are unchanged: the strategies restore them.
        for kind in _JUDGEMENTS:
            if now.count(kind) > before.count(kind):
                yield forbidden(path, f'updates may not add a condition of type "{kind}"')
    certificate, existing = _certificate(obj), _certificate(old)
    if certificate != existing and not issues:
        yield forbidden(_STATUS.child("certificate"), "updates may not set certificate content")
    elif certificate != existing and existing:
        yield forbidden(_STATUS.child("certificate"), "updates may not modify existing certificate content")


def _request_problem(pem: bytes) -> str:
    """Why this is not a certificate signing request in PEM, signed with its own key; '' if it is."""
    kind, _, der, _ = next(blocks(pem), (b"", False, b"", 0))
    if kind != b"CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    return x509.request_problem(der)


def _chain_problem(pem: bytes) -> str:
    """Why these are not certificates in PEM; '' if they are, and for none."""
    if not pem:
        return ""
    found = False
    for kind, has_headers, der, _ in blocks(pem):
        if kind != b"CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {quote(kind.decode(errors='replace'))}"
        if has_headers:
            return "no PEM block headers are permitted"
        if not der:
            return "found CERTIFICATE PEM block containing 0 certificates"
        found = True
        try:
            x509.PeerCertificate(der).certificate()
        except x509.CertificateError as error:
            return str(error)
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _repeated(values: Sequence[str]) -> list[int]:
    """The indices of values that occur earlier in the list."""
    seen: set[str] = set()
    found = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(index)
        seen.add(value)
    return found


def _conditions(obj: JSONMapping) -> list[JSONObject]:
    found: list[JSONObject] = (obj.get("status") or {}).get("conditions") or []
    return found


def _certificate(obj: JSONMapping) -> bytes:
    return base64.b64decode((obj.get("status") or {}).get("certificate") or "")
