"""Validation of spec.conversion: the strategy, and the client config of its webhook.

Paths are those of upstream's internal type: `spec.conversion.webhookClientConfig` for `webhook.clientConfig` in the manifest.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (validateCustomResourceConversion);
k8s.io/apiserver pkg/util/webhook/validation.go, v0.36.3.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from aggserver.apiextensions.manifest import member
from aggserver.meta.field import FieldError, Path, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1035_label, dns1123_subdomain

__all__ = ["ca_bundle_problem", "validate"]

Errors = Iterator[FieldError]

_REVIEW_VERSIONS = ("v1", "v1beta1")
_FORM = "; desired format: https://host[/path]"
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s(.*?)-----END CERTIFICATE-----", re.DOTALL)


def validate(conversion: JSONMapping, path: Path, old: JSONMapping | None = None, *, established: bool = False) -> Errors:
    """old: the previous conversion, which may have been accepted under weaker rules. established: whether the definition is."""
    strategy = member(conversion, "strategy", "")
    webhook = member(conversion, "webhook", {})
    if not strategy:
        yield required(path.child("strategy"))
    elif strategy not in ("None", "Webhook"):
        yield not_supported(path.child("strategy"), strategy, ("None", "Webhook"))
    config, versions = webhook.get("clientConfig"), member(webhook, "conversionReviewVersions", [])
    if strategy == "Webhook":
        yield from _client_config(config, path.child("webhookClientConfig"))
        # Before a definition is Established, an invalid bundle is only reported by a condition; one that was invalid may stay so.
        problem = ca_bundle_problem(conversion) if established and not ca_bundle_problem(old or {}) else ""
        if problem:
            at, bundle = path.child("webhookClientConfig", "caBundle"), member(config or {}, "caBundle", "")
            yield invalid(at, bundle, f"unable to load root certificates: {problem}")
        recognized = member(member(old or {}, "webhook", {}), "conversionReviewVersions", [])
        strict = not recognized or any(version in _REVIEW_VERSIONS for version in recognized)
        yield from _review_versions(versions, path.child("conversionReviewVersions"), strict=strict)
        return
    for name, value in (("webhookClientConfig", config is not None), ("conversionReviewVersions", versions)):
        if value:
            yield forbidden(path.child(name), "should not be set when strategy is not set to Webhook")


def ca_bundle_problem(conversion: JSONMapping) -> str:
    """Upstream's error of the webhook's CA bundle; '' if it contains a certificate, or if there is no bundle.

    The content of certificates is not parsed.
    """
    config = member(member(conversion, "webhook", {}), "clientConfig", {})
    try:
        bundle = base64.b64decode(member(config, "caBundle", ""), validate=True)
    except binascii.Error:
        return "unable to parse bytes as PEM block"
    if not bundle or any(map(_is_certificate, _CERTIFICATE.findall(bundle))):
        return ""
    if _CERTIFICATE.search(bundle):
        return "failed to parse certificate: x509: malformed certificate"
    return "unable to parse bytes as PEM block"


def _is_certificate(body: bytes) -> bool:
    try:
        return base64.b64decode(b"".join(body.split()), validate=True)[:1] == b"\x30"  # DER: a certificate is a SEQUENCE
    except binascii.Error:
        return False


def _client_config(config: JSONMapping | None, path: Path) -> Errors:
    if config is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(url, path.child("url"))
    elif service is not None:
        yield from _service(service, path.child("service"))


def _url(text: str, path: Path) -> Errors:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    user, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https":
        yield invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid(path, host, f"host must be specified{_FORM}")
    if at:
        yield invalid(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(path, parts.query, "query parameters are not permitted in the URL")


def _service(service: JSONMapping, path: Path) -> Errors:
    # Upstream passes name and namespace in the wrong order, so the error names the other one.
    for name, other in (("namespace", "name"), ("name", "namespace")):
        if not member(service, name, ""):
            yield required(path.child(other))
    port = member(service, "port", 443)
    if not 1 <= port <= 65535:
        yield invalid(path.child("port"), port, "port is not valid: must be between 1 and 65535, inclusive")
    yield from _service_path(member(service, "path", ""), path.child("path"))


def _service_path(text: str, path: Path) -> Errors:
    if text in ("", "/"):
        return
    if text == "//":
        yield invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid(path, text, "must start with a '/'")
    for index, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, text, f"segment[{index}] may not be empty")
            continue
        for problem in dns1123_subdomain(segment):
            yield invalid(path, text, f"segment[{index}]: {problem}")


def _review_versions(versions: Sequence[str], path: Path, *, strict: bool) -> Errors:
    if not versions:
        yield required(path)
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(path.index(index), version, "duplicate version")
            continue
        for problem in dns1035_label(version):
            yield invalid(path.index(index), version, problem)
    if strict and not any(version in _REVIEW_VERSIONS for version in versions):
        yield invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")
