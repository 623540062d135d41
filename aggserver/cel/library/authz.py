"""Checks of permissions: `authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()`.

`Authorizer` is the value of the variable `authorizer`. Its `decide` answers a `Check`. A caller that must ask a cluster can't
wait for the answer within an expression. Its `decide` raises an exception that is no CELError, which no operator catches, so the
evaluation ends; once the answer is known, the caller evaluates the expression again.
Source: k8s.io/apiserver pkg/cel/library/authz.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, NoReturn

from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta import names

__all__ = ["IMPLEMENTATIONS", "Authorizer", "Check", "Decision", "ResourceCheck"]


class Check(NamedTuple):
    """A question to the authorizer. service_account: (namespace, name) to ask about; None for the user of the request.

    path: of a request for no resource, '' otherwise. Resources are asked for in any version (`*`).
    """

    service_account: tuple[str, str] | None
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


class _Incomparable(Opaque):
    """Upstream's `==` knows none of these types."""

    __slots__ = ()

    def equals(self, other: object) -> NoReturn:
        raise no_such_overload()


@dataclass(frozen=True, slots=True, eq=False)
class Decision(_Incomparable):
    """error: why there is no decision, '' if there is one."""

    type_name: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Authorizer(_Incomparable):
    """decide: answers a check, or raises."""

    type_name: ClassVar[str] = "kubernetes.authorization.Authorizer"
    decide: Callable[[Check], Decision]
    service_account: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PathCheck(_Incomparable):
    type_name: ClassVar[str] = "kubernetes.authorization.PathCheck"
    authorizer: Authorizer
    path: str


@dataclass(frozen=True, slots=True, eq=False)
class GroupCheck(_Incomparable):
    type_name: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    authorizer: Authorizer
    group: str


@dataclass(frozen=True, slots=True, eq=False)
class ResourceCheck(_Incomparable):
    type_name: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    authorizer: Authorizer
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


def _path(authorizer: Authorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvaluationError("path must not be empty")
    return PathCheck(authorizer, path)


def _service_account(authorizer: Authorizer, namespace: str, name: str) -> Authorizer:
    if names.dns1123_subdomain(name):
        raise EvaluationError("Invalid service account name")
    if names.dns1123_label(namespace):
        raise EvaluationError("Invalid service account namespace")
    return replace(authorizer, service_account=(namespace, name))


def _resource(check: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvaluationError("resource must not be empty")
    return ResourceCheck(check.authorizer, check.group, resource)


def _check_path(check: PathCheck, verb: str) -> Decision:
    authorizer = check.authorizer
    return authorizer.decide(Check(authorizer.service_account, verb, check.path))


def _check_resource(check: ResourceCheck, verb: str) -> Decision:
    authorizer = check.authorizer
    return authorizer.decide(
        Check(
            authorizer.service_account,
            verb,
            "",
            check.group,
            check.resource,
            check.subresource,
            check.namespace,
            check.name,
            check.field_selector,
            check.label_selector,
        )
    )


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": lambda check, subresource: replace(check, subresource=subresource),
    "resourcecheck_namespace": lambda check, namespace: replace(check, namespace=namespace),
    "resourcecheck_name": lambda check, name: replace(check, name=name),
    "authorizer_fieldselector": lambda check, selector: replace(check, field_selector=selector),
    "authorizer_labelselector": lambda check, selector: replace(check, label_selector=selector),
    "pathcheck_check": _check_path,
    "resourcecheck_check": _check_resource,
    "decision_allowed": lambda decision: decision.allowed,
    "decision_reason": lambda decision: decision.reason,
    "decision_errored": lambda decision: bool(decision.error),
    "decision_error": lambda decision: decision.error,
}
