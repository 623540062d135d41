"""Reviews: who the user is (`kubectl auth whoami`), and what the user or another one may do (`kubectl auth can-i`, `--list`).

These resources can only be created; nothing is stored. In a cluster, kube-apiserver serves them.
Source: k8s.io/kubernetes pkg/registry/authentication/selfsubjectreview, pkg/registry/authorization, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aggserver.authorization.delegating import Authorizer
from aggserver.authorization.standalone import RuleResolver
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta import codec, errors, times
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import preparation
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.rest import WriteRequest
from aggserver.registry.stored import StoredObject

if TYPE_CHECKING:
    from aggserver.authorization.rbac import PolicyRule

__all__ = ["ACCESS_REVIEWS", "AccessReviews", "SelfSubjectReviews", "SelfSubjectRulesReviews", "admit"]

_GROUP = "authorization.k8s.io"
# Selectors of a body with more bytes than this are parsed in a thread: a megabyte of them takes a second.
_LONG = 32 * 1024

# kind -> whether it is namespaced
ACCESS_REVIEWS: Mapping[str, bool] = {
    "LocalSubjectAccessReview": True,
    "SelfSubjectAccessReview": False,
    "SubjectAccessReview": False,
}


class SelfSubjectReviews:
    """authentication.k8s.io/v1 SelfSubjectReview. clock: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        info = ResourceInfo("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", "", namespaced=False)
        self._fields = own_fields(info, "authentication/v1.SelfSubjectReview")

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        await admit(request, obj, self._fields, self._clock())
        await request.admission.validate(obj, None)
        metadata = {"creationTimestamp": times.format_time(self._clock())}
        return _answer({**_type_of(obj), "metadata": metadata, "status": {"userInfo": request.context.user.to_json()}})


class AccessReviews:
    """One of the kinds in ACCESS_REVIEWS. clock: seconds since the epoch.

    The answer is the request's object with a status, so it has managedFields, as upstream's.
    """

    def __init__(self, kind: str, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        self._kind = kind
        self._authorizer = authorizer
        self._clock = clock
        info = ResourceInfo(_GROUP, "v1", f"{kind.lower()}s", kind, "", namespaced=ACCESS_REVIEWS[kind])
        self._fields = own_fields(info, f"authorization/v1.{kind}")

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        from aggserver.standalone import access_reviews

        await admit(request, obj, self._fields, self._clock())
        spec = obj["spec"] = obj.get("spec") or {}
        problems = access_reviews.problems(self._kind, obj)
        if problems:
            # Without the kind, as upstream, whose internal objects have none.
            raise errors.invalid(_GROUP, "", "", problems)
        await request.admission.validate(obj, None)
        who = request.context.user if self._kind == "SelfSubjectAccessReview" else access_reviews.user(spec)
        decision = await self._authorizer.authorize(access_reviews.attributes(spec, who))
        status: JSONObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        is_long = request.context.body_bytes > _LONG
        trouble = (
            await asyncio.to_thread(access_reviews.selector_problems, spec) if is_long else access_reviews.selector_problems(spec)
        )
        if trouble:
            status["evaluationError"] = trouble
        return _answer({**obj, "status": status})


class SelfSubjectRulesReviews:
    """authorization.k8s.io/v1 SelfSubjectRulesReview. As upstream, paths that a flag opens to everyone are not listed.

    clock: seconds since the epoch.
    """

    def __init__(self, resolver: RuleResolver, clock: Callable[[], float]) -> None:
        self._resolver = resolver
        self._clock = clock
        info = ResourceInfo(_GROUP, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", "", namespaced=False)
        self._fields = own_fields(info, "authorization/v1.SelfSubjectRulesReview")

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        await admit(request, obj, self._fields, self._clock())
        namespace = (obj.get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        await request.admission.validate(obj, None)
        rules, incomplete, trouble = await self._resolver.rules_for(request.context.user, namespace)
        status: JSONObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [{"verbs": rule.verbs, "nonResourceURLs": rule.paths} for rule in rules if rule.paths],
            "incomplete": incomplete,
        }
        if trouble:
            status["evaluationError"] = trouble
        return _answer({**_type_of(obj), "metadata": {}, "spec": {}, "status": status})


async def admit(request: WriteRequest, obj: JSONObject, fields: FieldManager, now: float) -> None:
    """Prepare the object of a create as upstream does before the resource handles it. Mutating webhooks may change it."""
    metadata = obj["metadata"]
    preparation.drop_system_fields(metadata)
    namespace = request.context.namespace
    preparation.place_in_namespace(metadata, namespace, namespaced=bool(namespace))
    fields.update(None, obj, request.options.field_manager, times.format_time(now))
    await request.admission.mutate(obj, None)


def _resource_rule(rule: PolicyRule) -> JSONObject:
    of = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources, "resourceNames": rule.names}
    return {name: values for name, values in of.items() if values}


def _type_of(obj: JSONObject) -> JSONObject:
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}


def _answer(tree: JSONObject) -> StoredObject:
    return StoredObject("", codec.encode_json(tree), 0)
