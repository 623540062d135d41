"""Environment: the variables of the expressions of a policy, their types, and their values for one request.

The values are the objects of the request as they are, without conversion: `object`, `oldObject` and `params` are of dynamic type;
the others have the types below, which only the type check of an expression uses. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/cel/{compile,activation,condition}.go, pkg/cel/mutation, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggserver.admission.chain import CREATE, DELETE, Attributes
from aggserver.admission.matching import Target
from aggserver.cel.library import authz
from aggserver.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Type, list_of, map_of, object_type
from aggserver.meta import versions
from aggserver.meta.json_types import JSONObject

__all__ = ["APPLY_CONFIGURATION", "JSON_PATCH", "VARIABLES", "Answers", "Inputs", "Types", "UnansweredError", "declared"]

VARIABLES = "kubernetes.variables"
APPLY_CONFIGURATION = object_type("Object")
JSON_PATCH = object_type("JSONPatch")

_STRINGS, _TEXTS = list_of(STRING), map_of(STRING, STRING)
_KIND, _RESOURCE = object_type("kubernetes.GroupVersionKind"), object_type("kubernetes.GroupVersionResource")
_REQUEST, _NAMESPACE = object_type("kubernetes.AdmissionRequest"), object_type("kubernetes.Namespace")

_FIELDS: Mapping[str, Mapping[str, Type]] = {
    "kubernetes.GroupVersionKind": {"group": STRING, "version": STRING, "kind": STRING},
    "kubernetes.GroupVersionResource": {"group": STRING, "version": STRING, "resource": STRING},
    "kubernetes.UserInfo": {"username": STRING, "uid": STRING, "groups": _STRINGS, "extra": map_of(STRING, _STRINGS)},
    "kubernetes.AdmissionRequest": {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": object_type("kubernetes.UserInfo"),
        "dryRun": BOOL,
        "options": DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceCondition": {
        "status": STRING,
        "type": STRING,
        "lastTransitionTime": TIMESTAMP,
        "message": STRING,
        "reason": STRING,
    },
    "kubernetes.NamespaceStatus": {"conditions": list_of(object_type("kubernetes.NamespaceCondition")), "phase": STRING},
    "kubernetes.NamespaceMetadata": {
        "name": STRING,
        "generateName": STRING,
        "namespace": STRING,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        # Upstream's spelling, which no namespace has: reading it is an error.
        "UID": STRING,
        "creationTimestamp": TIMESTAMP,
        "deletionGracePeriodSeconds": INT,
        "deletionTimestamp": TIMESTAMP,
        "generation": INT,
        "resourceVersion": STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.Namespace": {
        "metadata": object_type("kubernetes.NamespaceMetadata"),
        "spec": object_type("kubernetes.NamespaceSpec"),
        "status": object_type("kubernetes.NamespaceStatus"),
    },
}
_PATCH_FIELDS: Mapping[str, Type] = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}


class _AnyField(Mapping[str, Type]):
    """The fields of `Object{}`: without the schema of what is patched, all names are allowed."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_ANY_FIELD = _AnyField()


class Types:
    """The object types. variables: the fields of `variables` so far, to which the caller may add."""

    def __init__(self, variables: Mapping[str, Type], *, makes_patches: bool = False) -> None:
        self._variables = variables
        self._makes_patches = makes_patches

    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        if type_name == VARIABLES:
            return self._variables
        if self._makes_patches:
            if type_name == JSON_PATCH.name:
                return _PATCH_FIELDS
            if type_name == APPLY_CONFIGURATION.name or type_name.startswith("Object."):
                return _ANY_FIELD
        return _FIELDS.get(type_name)


def declared(*, has_params: bool, has_authorizer: bool, has_variables: bool) -> dict[str, Type]:
    """The variables that an expression may name. has_variables: not in the match conditions of webhooks."""
    found = {"object": DYN, "oldObject": DYN, "namespaceObject": _NAMESPACE, "request": _REQUEST}
    if has_params:
        found["params"] = DYN
    if has_authorizer:
        found["authorizer"] = object_type(authz.Authorizer.type_name)
        found["authorizer.requestResource"] = object_type(authz.ResourceCheck.type_name)
    if has_variables:
        found["variables"] = object_type(VARIABLES)
    return found


# --- the values for one request ---


class UnansweredError(Exception):
    """An expression needs the authorizer's answer to a check, which is not known yet. No CELError, so it ends the evaluation."""

    def __init__(self, check: authz.Check) -> None:
        super().__init__(str(check))
        self.check = check


# The checks of one request that the authorizer has answered so far.
Answers = dict[authz.Check, authz.Decision]


@dataclass(slots=True)
class Inputs:
    """What expressions read: a request, its objects in the version of `target`, and its namespace (None if it has none).

    answers: to the checks of expressions; if one is missing, evaluation raises UnansweredError. patience: the cost at which
    the evaluation of a list of expressions ends with PolicyOutOfPatienceError; None for upstream's limits only. is_given_up:
    whether nobody waits for the result any more, which ends the evaluation with the same error.
    """

    attributes: Attributes
    target: Target
    obj: JSONObject | None
    old: JSONObject | None
    namespace: JSONObject | None
    answers: Answers
    patience: int | None = None
    is_given_up: Callable[[], bool] | None = None
    _request: JSONObject | None = None

    def for_conditions(self) -> Inputs:
        """The inputs for match conditions, which see the resource as it was requested, and no namespace."""
        info = self.attributes.resource
        target = self.target._replace(group=info.group, version=info.version, resource=info.resource)
        return replace(self, target=target, namespace=None, _request=None)

    def values(self, params: JSONObject | None, *, has_authorizer: bool) -> dict[str, Any]:
        """The values of the variables by name: all but perhaps the authorizer, since no expression can use undeclared ones."""
        if self._request is None:
            self._request = _request(self.attributes, self.target)
        found: dict[str, Any] = {
            "object": self.obj,
            "oldObject": self.old,
            "namespaceObject": self.namespace,
            "request": self._request,
            "params": params,
        }
        if has_authorizer:
            authorizer, attributes = authz.Authorizer(self._decide), self.attributes
            info = attributes.resource
            found["authorizer"] = authorizer
            found["authorizer.requestResource"] = authz.ResourceCheck(
                authorizer, info.group, info.resource, attributes.subresource, attributes.namespace, attributes.name
            )
        return found

    def _decide(self, check: authz.Check) -> authz.Decision:
        try:
            return self.answers[check]
        except KeyError:
            raise UnansweredError(check) from None


def _request(attributes: Attributes, target: Target) -> JSONObject:
    """An AdmissionRequest as JSON, without empty members as with Go's omitempty, and without uid and objects."""
    info = attributes.resource
    request_group, request_version = versions.parse_group_version(attributes.object_version)
    group, version = versions.parse_group_version(target.api_version)
    user = attributes.user
    user_info = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    found: JSONObject = {
        "kind": {"group": group, "version": version, "kind": target.kind},
        "resource": {"group": target.group, "version": target.version, "resource": target.resource},
        "requestKind": {"group": request_group, "version": request_version, "kind": attributes.kind},
        "requestResource": {"group": info.group, "version": info.version, "resource": info.resource},
        "operation": attributes.operation,
        "userInfo": {key: value for key, value in user_info.items() if value},
        "dryRun": attributes.dry_run,
        "options": _options(attributes),
    }
    for name, value in (
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    ):
        if value:
            found[name] = value
    return found


_OPTIONS = {CREATE: "CreateOptions", DELETE: "DeleteOptions"}


def _options(attributes: Attributes) -> JSONObject:
    """The options of the request as JSON. The options of a patch become UpdateOptions, which have no `force`."""
    found = {key: value for key, value in attributes.options.items() if key != "force"}
    return found | {"kind": _OPTIONS.get(attributes.operation, "UpdateOptions"), "apiVersion": "meta.k8s.io/v1"}
