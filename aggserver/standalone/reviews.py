"""Self reviews: who am I (`kubectl auth whoami`), may I (`kubectl auth can-i`), what may I (`kubectl auth can-i --list`).

These resources can only be created; nothing is stored. In a cluster, kube-apiserver serves them.
Source: k8s.io/kubernetes pkg/registry/authentication/selfsubjectreview, pkg/registry/authorization/{selfsubjectaccessreview,
selfsubjectrulesreview}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.bootstrap import Rule, rules_for
from aggserver.authorization.delegating import Authorizer
from aggserver.meta import codec, errors, field, times
from aggserver.meta.field import FieldError, Path
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.rest import NO_ADMISSION, Admission, Context, WriteOptions
from aggserver.registry.stored import StoredObject

__all__ = ["SelfSubjectAccessReviews", "SelfSubjectReviews", "SelfSubjectRulesReviews"]


class SelfSubjectReviews:
    """authentication.k8s.io/v1 SelfSubjectReview. clock: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    async def create(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> StoredObject:
        user = context.user
        info: JSONObject = {"username": user.name}
        if user.uid:
            info["uid"] = user.uid
        if user.groups:
            info["groups"] = list(user.groups)
        if user.extra:
            info["extra"] = {key: list(values) for key, values in user.extra.items()}
        metadata = {"creationTimestamp": times.format_time(self._clock())}
        return _answer({**_type_of(obj), "metadata": metadata, "status": {"userInfo": info}})


class SelfSubjectAccessReviews:
    """authorization.k8s.io/v1 SelfSubjectAccessReview. clock: seconds since the epoch.

    The answer is the request's object with a status, so it has managedFields, as upstream's.
    """

    _FIELDS = own_fields(
        ResourceInfo("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", "", namespaced=False),
        "authorization/v1.SelfSubjectAccessReview",
    )

    def __init__(self, authorizer: Authorizer, clock: Callable[[], float]) -> None:
        self._authorizer = authorizer
        self._clock = clock

    async def create(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> StoredObject:
        spec = obj.get("spec") or {}
        problems = _problems(spec)
        if problems:
            raise errors.invalid("authorization.k8s.io", "SelfSubjectAccessReview", "", problems)
        decision = await self._authorizer.authorize(_attributes(spec, context.user))
        status: JSONObject = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        owned = {**_type_of(obj), "metadata": {}, "spec": spec}
        self._FIELDS.update(None, owned, options.field_manager, times.format_time(self._clock()))
        return _answer({**owned, "status": status})


class SelfSubjectRulesReviews:
    """authorization.k8s.io/v1 SelfSubjectRulesReview. As upstream, paths that a flag opens to everyone are not listed."""

    async def create(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> StoredObject:
        if not (obj.get("spec") or {}).get("namespace"):
            raise errors.bad_request("no namespace on request")
        rules = rules_for(context.user)
        status = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [{"verbs": rule.verbs, "nonResourceURLs": rule.paths} for rule in rules if rule.paths],
            "incomplete": False,
        }
        return _answer({**_type_of(obj), "metadata": {}, "spec": {}, "status": status})


def _resource_rule(rule: Rule) -> JSONObject:
    return {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources}


def _problems(spec: JSONObject) -> list[FieldError]:
    path, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if path is not None and resource is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [field.invalid(Path("spec.nonResourceAttributes"), path, why)]
    if path is None and resource is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field.invalid(Path("spec.resourceAttributes"), None, why)]
    return []


def _attributes(spec: JSONObject, user: UserInfo) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""))
    given = spec["resourceAttributes"]
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(user, *(given.get(name, "") for name in names))


def _type_of(obj: JSONObject) -> JSONObject:
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"]}


def _answer(tree: JSONObject) -> StoredObject:
    return StoredObject("", codec.encode_json(tree), 0)
