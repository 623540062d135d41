"""Validation of spec.conversion: the strategy, and the client config of its webhook.

Paths are those of upstream's internal type: `spec.conversion.webhookClientConfig` for `webhook.clientConfig` in the manifest.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (validateCustomResourceConversion),
v0.36.3.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from aggserver.apiextensions.manifest import member
from aggserver.meta.field import FieldError, Path, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.webhook import ca_bundle, client_config
from aggserver.webhook.client_config import REVIEW_VERSIONS

__all__ = ["ca_bundle_problem", "validate"]

Errors = Iterator[FieldError]


def validate(conversion: JSONMapping, path: Path, old: JSONMapping | None = None, *, established: bool = False) -> Errors:
    """The errors of spec.conversion. old: the previous one, perhaps accepted under weaker rules.

    established: whether the definition is Established.
    """
    strategy = member(conversion, "strategy", "")
    webhook = member(conversion, "webhook", {})
    if not strategy:
        yield required(path.child("strategy"))
    elif strategy not in ("None", "Webhook"):
        yield not_supported(path.child("strategy"), strategy, ("None", "Webhook"))
    config, versions = webhook.get("clientConfig"), member(webhook, "conversionReviewVersions", [])
    if strategy == "Webhook":
        if config is None:
            yield required(path.child("webhookClientConfig"), "required when strategy is set to Webhook")
        else:
            yield from client_config.url_or_service(config, path.child("webhookClientConfig"))
        # An invalid bundle is an error only if the definition is Established (before, a condition reports it) and the old one was
        # valid.
        problem = ca_bundle_problem(conversion) if established and not ca_bundle_problem(old or {}) else ""
        if problem:
            at, bundle = path.child("webhookClientConfig", "caBundle"), member(config or {}, "caBundle", "")
            yield invalid(at, bundle, f"unable to load root certificates: {problem}")
        recognized = member(member(old or {}, "webhook", {}), "conversionReviewVersions", [])
        strict = not recognized or any(version in REVIEW_VERSIONS for version in recognized)
        yield from client_config.review_versions(versions, path.child("conversionReviewVersions"), strict=strict)
        return
    for name, value in (("webhookClientConfig", config is not None), ("conversionReviewVersions", versions)):
        if value:
            yield forbidden(path.child(name), "should not be set when strategy is not set to Webhook")


def ca_bundle_problem(conversion: JSONMapping) -> str:
    """Upstream's error about the webhook's CA bundle; '' if it is valid, or if there is none."""
    config = member(member(conversion, "webhook", {}), "clientConfig", {})
    try:
        bundle = base64.b64decode(member(config, "caBundle", ""), validate=True)
    except binascii.Error:
        return "unable to parse bytes as PEM block"
    return ca_bundle.problem(bundle)
