"""Reviews: who the user is (`kubectl auth whoami`), and what the user or another one may do (`kubectl auth can-i`, `--list`).

These resources can only be created; nothing is stored. In a cluster, kube-apiserver serves them.
Source: k8s.io/kubernetes pkg/registry/authentication/selfsubjectreview, pkg/registry/authorization, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aggserver.admission.chain import Chain
from aggserver.authorization.delegating import Authorizer
from aggserver.authorization.standalone import RuleResolver
from aggserver.endpoints.served import Endpoint, Served
from aggserver.meta import errors, times
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource
from aggserver.publish.models import Published
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.questions import Questions
from aggserver.registry.rest import WriteRequest

if TYPE_CHECKING:
    from aggserver.authorization.rbac import PolicyRule

__all__ = ["ACCESS_REVIEWS", "AccessReviews", "Review", "SelfSubjectReviews", "SelfSubjectRulesReviews"]

# Selectors of a body with more bytes than this are parsed in a thread: a megabyte of them takes a second.
_LONG = 32 * 1024

# kind -> whether it is namespaced
ACCESS_REVIEWS: Mapping[str, bool] = {
    "LocalSubjectAccessReview": True,
    "SelfSubjectAccessReview": False,
    "SubjectAccessReview": False,
}


class Review(Questions):
    """One kind of reviews. group: without `.k8s.io`. clock: seconds since the epoch."""

    def __init__(self, group: str, kind: str, clock: Callable[[], float], *, namespaced: bool = False) -> None:
        self._info = ResourceInfo(f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, "", namespaced=namespaced)
        self._type = f"{group}/v1.{kind}"
        super().__init__(own_fields(self._info, self._type), clock)

    def served(self, admission: Chain) -> Served:
        resource = APIResource(self._info, ("create",), singular=self._info.kind.lower())
        return Served(Published(resource, type_name=self._type), {"": Endpoint.of_type(self._type, self)}.get, admission)


class SelfSubjectReviews(Review):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__("authentication", "SelfSubjectReview", clock)

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        metadata = {"creationTimestamp": times.format_time(self._clock())}
        return {"metadata": metadata, "status": {"userInfo": request.context.user.to_json()}}


class AccessReviews(Review):
    """One of the kinds in ACCESS_REVIEWS. The answer is the question with a status, so it has managedFields, as upstream's."""

    def __init__(self, kind: str, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        super().__init__("authorization", kind, clock, namespaced=ACCESS_REVIEWS[kind])
        self._authorizer = authorizer

    async def check(self, request: WriteRequest, obj: JSONObject) -> None:
        from aggserver.standalone import access_reviews

        obj["spec"] = obj.get("spec") or {}
        if problems := access_reviews.problems(self._info.kind, obj):
            # Without the kind, as upstream, whose internal objects have none.
            raise errors.invalid(self._info.group, "", "", problems)

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        from aggserver.standalone import access_reviews

        spec = obj["spec"]
        who = request.context.user if self._info.kind == "SelfSubjectAccessReview" else access_reviews.user(spec)
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
        return {**obj, "status": status}


class SelfSubjectRulesReviews(Review):
    """As upstream, paths that a flag opens to everyone are not listed."""

    def __init__(self, resolver: RuleResolver, clock: Callable[[], float]) -> None:
        super().__init__("authorization", "SelfSubjectRulesReview", clock)
        self._resolver = resolver

    async def check(self, request: WriteRequest, obj: JSONObject) -> None:
        if not (obj.get("spec") or {}).get("namespace"):
            raise errors.bad_request("no namespace on request")

    async def answer(self, request: WriteRequest, obj: JSONObject) -> JSONObject:
        rules, incomplete, trouble = await self._resolver.rules_for(request.context.user, obj["spec"]["namespace"])
        status: JSONObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [{"verbs": rule.verbs, "nonResourceURLs": rule.paths} for rule in rules if rule.paths],
            "incomplete": incomplete,
        }
        if trouble:
            status["evaluationError"] = trouble
        return {"metadata": {}, "spec": {}, "status": status}


def _resource_rule(rule: PolicyRule) -> JSONObject:
    of = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources, "resourceNames": rule.names}
    return {name: values for name, values in of.items() if values}
