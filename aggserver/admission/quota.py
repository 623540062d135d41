"""Quota: what a ResourceQuota says about one more object of a kind.

Of custom resources only the number of objects is limited, as `count/<plural>.<group>`, by the quotas that name it in status.hard
and have no scopes: no custom resource is in a scope. kube-controller-manager copies spec.hard to status.hard when it writes the
usage; a quota does not apply before that. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go (CheckRequest), pkg/quota/v1/generic/evaluator.go
(objectCountEvaluator), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from aggserver.meta import quantity
from aggserver.meta.errors import qualified
from aggserver.meta.json_types import JSONObject

__all__ = ["QuotaRefusal", "applies", "charge", "count_name"]

_ONE = quantity.Quantity(1)


class QuotaRefusal(Exception):
    """A quota permits no further object. Its text is upstream's."""


def count_name(group: str, resource: str) -> str:
    return f"count/{qualified(resource, group)}"


def applies(quota: JSONObject, count: str) -> bool:
    spec = quota.get("spec") or {}
    scoped = spec.get("scopes") or (spec.get("scopeSelector") or {}).get("matchExpressions")
    return not scoped and count in ((quota.get("status") or {}).get("hard") or {})


def charge(quotas: Sequence[JSONObject], count: str) -> list[JSONObject]:
    """The quotas with one more object counted; quotas that do not apply are returned as they are. Raises QuotaRefusal."""
    concerned = [quota for quota in quotas if applies(quota, count)]
    for quota in concerned:
        if count not in (quota["status"].get("used") or {}):
            raise QuotaRefusal(f"status unknown for quota: {quota['metadata']['name']}, resources: {count}")
    return [_charged(quota, count) if quota in concerned else quota for quota in quotas]


def _charged(quota: JSONObject, count: str) -> JSONObject:
    status = quota["status"]
    hard, used = status["hard"][count], status["used"][count]
    total = quantity.parse(used).add(_ONE)
    if total.compare(quantity.parse(hard)) > 0:
        raise QuotaRefusal(
            f"exceeded quota: {quota['metadata']['name']}, requested: {count}=1, used: {count}={used}, limited: {count}={hard}"
        )
    return {**quota, "status": {**status, "used": {**status["used"], count: quantity.text(total, like=used)}}}
