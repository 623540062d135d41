"""Attributes: the input of an authorizer, also as a SubjectAccessReview, and the error when it denies.

`endpoints/access.py` makes them from RequestInfo and UserInfo; impersonation, and handlers that need a second permission (create
by update), make further ones. Pure.
Source: k8s.io/apiserver pkg/endpoints/filters/authorization.go, plugin/pkg/authorizer/webhook/webhook.go,
pkg/endpoints/handlers/responsewriters/errors.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.authentication.user import UserInfo
from aggserver.meta import errors
from aggserver.meta.golang import quote
from aggserver.meta.selectors import FieldSelector, LabelSelector, Requirement, SelectorError

__all__ = ["Attributes", "forbidden", "forbidden_message", "review_body"]


KNOWN_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


class Attributes(NamedTuple):
    """What a user wants to do, on a resource or on a path. A tuple, because it is also a cache key.

    field_selector, label_selector: as the client sent them, for list, watch and deletecollection; '' for other verbs.
    """

    user: UserInfo
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    field_selector: str = ""
    label_selector: str = ""

    @property
    def on_resource(self) -> bool:
        """Whether this is about a resource, not a path. The resource may be '', as in `/api/v1//nodes`; then it has a version."""
        return bool(self.resource or self.version)


def review_body(attributes: Attributes) -> dict[str, Any]:
    """The SubjectAccessReview (authorization.k8s.io/v1) for these attributes."""
    user = attributes.user
    spec: dict[str, Any] = {"user": user.name}
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in user.extra.items()}
    if attributes.on_resource:
        spec["resourceAttributes"] = _resource_attributes(attributes)
    else:
        spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _resource_attributes(attributes: Attributes) -> dict[str, Any]:
    given: Mapping[str, str] = {
        "namespace": attributes.namespace,
        "verb": attributes.verb,
        "group": attributes.group,
        "version": attributes.version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
    }
    out: dict[str, Any] = {key: value for key, value in given.items() if value}
    for key, requirements in (
        ("fieldSelector", _field_requirements(attributes.field_selector)),
        ("labelSelector", _label_requirements(attributes.label_selector)),
    ):
        if requirements:
            out[key] = {"requirements": requirements}
    return out


def _field_requirements(text: str) -> list[dict[str, Any]]:
    """The requirements of a field selector. An invalid one is left out, as upstream: this only asks for a broader permission."""
    if not text:
        return []
    try:
        return _as_json(FieldSelector.parse(text).requirements())
    except SelectorError:
        return []


def _label_requirements(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    try:
        return _as_json(LabelSelector.parse(text).requirements())
    except SelectorError:
        return []


def _as_json(requirements: Sequence[Requirement]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for key, operator, values in requirements:
        # A SubjectAccessReview has no Gt and Lt. Leaving them out again only asks for a broader permission.
        if operator in KNOWN_OPERATORS:
            out.append({"key": key, "operator": operator} | ({"values": list(values)} if values else {}))
    return out


def forbidden_message(attributes: Attributes) -> str:
    """`User "u" cannot get resource "r/sub" in API group "g" in the namespace "ns"`, or its form for cluster scope or a path."""
    who = f"User {quote(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.on_resource:
        return f"{who} path {quote(attributes.path)}"
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    where = f"in the namespace {quote(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return f"{who} resource {quote(resource)} in API group {quote(attributes.group)} {where}"


def forbidden(attributes: Attributes, reason: str) -> errors.StatusError:
    """403. The part that repeats what the client sent is escaped as HTML, as upstream; the authorizer's reason is not."""
    message = forbidden_message(attributes).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return errors.forbidden(attributes.group, attributes.resource, attributes.name, f"{message}: {reason}" if reason else message)
