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
from aggserver.meta import codec, errors, times
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.publish.discovery import APIResource
from aggserver.publish.models import Published
from aggserver.registry import preparation
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.rest import Context, WriteRequest
from aggserver.registry.stored import StoredObject

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


class Review:
    """A kind whose objects are questions: one is created, answered, and not stored. Each kind is a subclass.

    group: without `.k8s.io`. clock: seconds since the epoch.
    """

    def __init__(self, group: str, kind: str, clock: Callable[[], float], *, namespaced: bool = False) -> None:
        self._info = ResourceInfo(f"{group}.k8s.io", "v1", f"{kind.lower()}s", kind, "", namespaced=namespaced)
        self._type = f"{group}/v1.{kind}"
        self._clock = clock
        self._fields = own_fields(self._info, self._type)

    def served(self, admission: Chain) -> Served:
        resource = APIResource(self._info, ("create",), singular=self._info.kind.lower())
        return Served(Published(resource, type_name=self._type), {"": Endpoint.of_type(self._type, self)}.get, admission)

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        """Prepare the question as upstream does before the resource handles it, and answer it. Webhooks may change it."""
        metadata = obj["metadata"]
        preparation.drop_system_fields(metadata)
        namespace = request.context.namespace
        preparation.place_in_namespace(metadata, namespace, namespaced=bool(namespace))
        self._fields.update(None, obj, request.options.field_manager, times.format_time(self._clock()))
        await request.admission.mutate(obj, None)
        self.check(obj)
        await request.admission.validate(obj, None)
        answer = await self.answer(request.context, obj)
        return StoredObject("", codec.encode_json({"kind": obj["kind"], "apiVersion": obj["apiVersion"], **answer}), 0)

    def check(self, obj: JSONObject) -> None:
        """Raises StatusError for a question that can't be answered. May fill in what is missing."""

    async def answer(self, context: Context, obj: JSONObject) -> JSONObject:
        """The object with the answer; kind and apiVersion are added."""
        raise NotImplementedError


class SelfSubjectReviews(Review):
    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__("authentication", "SelfSubjectReview", clock)

    async def answer(self, context: Context, obj: JSONObject) -> JSONObject:
        metadata = {"creationTimestamp": times.format_time(self._clock())}
        return {"metadata": metadata, "status": {"userInfo": context.user.to_json()}}


class AccessReviews(Review):
    """One of the kinds in ACCESS_REVIEWS. The answer is the question with a status, so it has managedFields, as upstream's."""

    def __init__(self, kind: str, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        super().__init__("authorization", kind, clock, namespaced=ACCESS_REVIEWS[kind])
        self._authorizer = authorizer

    def check(self, obj: JSONObject) -> None:
        from aggserver.standalone import access_reviews

        obj["spec"] = obj.get("spec") or {}
        if problems := access_reviews.problems(self._info.kind, obj):
            # Without the kind, as upstream, whose internal objects have none.
            raise errors.invalid(self._info.group, "", "", problems)

    async def answer(self, context: Context, obj: JSONObject) -> JSONObject:
        from aggserver.standalone import access_reviews

        spec = obj["spec"]
        who = context.user if self._info.kind == "SelfSubjectAccessReview" else access_reviews.user(spec)
        decision = await self._authorizer.authorize(access_reviews.attributes(spec, who))
        status: JSONObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        is_long = context.body_bytes > _LONG
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

    def check(self, obj: JSONObject) -> None:
        if not (obj.get("spec") or {}).get("namespace"):
            raise errors.bad_request("no namespace on request")

    async def answer(self, context: Context, obj: JSONObject) -> JSONObject:
        rules, incomplete, trouble = await self._resolver.rules_for(context.user, obj["spec"]["namespace"])
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
