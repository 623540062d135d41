"""Type checking: the warnings in the status of a ValidatingAdmissionPolicy, about expressions that do not fit the schemas.

When a policy is evaluated, `object` and `params` are of dynamic type, since a policy may match any resource. Here they have the
types of the resources that its rules name, one after another. The warnings do not change how the policy is evaluated. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/policy/validating/typechecking.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.admission.policy.environment import Types, declared
from aggserver.admission.policy.expressions import field_type
from aggserver.cel.checker import Environment, check
from aggserver.cel.errors import CompileError
from aggserver.cel.types import DYN, Type, TypeProvider
from aggserver.meta import versions
from aggserver.meta.versions import GroupVersionKind
from aggserver.schema.decl_type import Declarations, declare
from aggserver.schema.structural import Structural

__all__ = ["ExpressionWarning", "Kinds", "Schemas", "check_types"]

# The kinds that are checked for one rule.
_MOST_KINDS = 10

# (group, version, resource) -> the kinds of such a resource; empty if there is none.
Kinds = Callable[[str, str, str], Sequence[GroupVersionKind]]
# A kind -> the schema of its objects; None if it is not known.
Schemas = Callable[[GroupVersionKind], Structural | None]


class ExpressionWarning(NamedTuple):
    """field_ref: such as spec.validations[0].expression. warning: the compilation errors for each kind that it does not fit."""

    field_ref: str
    warning: str


def check_types(spec: Mapping[str, Any], kinds: Kinds, schemas: Schemas) -> list[ExpressionWarning]:
    """The warnings for a policy. spec: of the policy. Takes about 10 us for each character of an expression and each kind."""
    environments = list(_environments(spec, kinds, schemas))
    warnings: list[ExpressionWarning] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for name in ("expression", "messageExpression"):
            expression = validation.get(name) or ""
            if expression or name == "expression":
                texts = [f"{kind}: {text}\n" for kind, environment in environments if (text := _error(expression, environment))]
                if texts:
                    warnings.append(ExpressionWarning(f"spec.validations[{index}].{name}", "\n".join(texts)))
    return warnings


def _error(expression: str, environment: Environment) -> str:
    try:
        check(expression, environment)
    except CompileError as error:
        return str(error)
    return ""


class _Provider:
    """The types of every policy, and those of the schemas."""

    def __init__(self, variables: Mapping[str, Type], declarations: Sequence[Declarations]) -> None:
        self._providers: tuple[TypeProvider, ...] = (Types(variables), *declarations)

    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        for each in self._providers:
            if (found := each.fields(type_name)) is not None:
                return found
        return None


def _environments(spec: Mapping[str, Any], kinds: Kinds, schemas: Schemas) -> Iterator[tuple[GroupVersionKind, Environment]]:
    """The environment of the expressions for each kind with a known schema."""
    param_kind = _param_kind(spec)
    # A type must not be called like a variable, or `object.spec` would name the type of a field. Upstream appends the time.
    params = None if param_kind is None else _declarations(schemas(param_kind), f"{param_kind.kind}1")
    for kind in _kinds_to_check(spec, kinds):
        schema = schemas(kind)
        if schema is None:
            continue
        of_object = _declarations(schema, f"{kind.kind}0")
        variables = declared(has_params=param_kind is not None, has_authorizer=True, has_variables=True)
        # As upstream's type checking, which does not declare this variable.
        del variables["authorizer.requestResource"]
        variables["object"] = variables["oldObject"] = DYN if of_object is None else of_object.type
        if param_kind is not None:
            variables["params"] = DYN if params is None else params.type
        fields: dict[str, Type] = {}
        environment = Environment(variables, _Provider(fields, [each for each in (of_object, params) if each is not None]))
        for variable in spec.get("variables") or ():
            # An error of a variable is not reported.
            try:
                type_ = check(variable.get("expression") or "", environment).type
            except CompileError:
                type_ = DYN
            fields[variable.get("name") or ""] = field_type(type_)
        yield kind, environment


def _declarations(schema: Structural | None, name: str) -> Declarations | None:
    declaration = None if schema is None else declare(schema, is_resource=True)
    return None if declaration is None else Declarations(declaration, name)


def _param_kind(spec: Mapping[str, Any]) -> GroupVersionKind | None:
    given = spec.get("paramKind")
    if given is None:
        return None
    try:
        found = GroupVersionKind(*versions.parse_group_version(given.get("apiVersion") or ""), given.get("kind") or "")
    except ValueError:
        return None
    return found if _order(found) != ("", "", "") else None


def _order(kind: GroupVersionKind) -> tuple[str, str, str]:
    return kind.group, kind.version, kind.kind


def _kinds_to_check(spec: Mapping[str, Any], kinds: Kinds) -> list[GroupVersionKind]:
    """The kinds that the rules name without wildcards, sorted."""
    found: set[GroupVersionKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, of_versions = rule.get("apiGroups") or [], rule.get("apiVersions") or []
        if any("*" in name for name in (*groups, *of_versions)):
            continue
        count = 0
        for group in sorted(groups):
            for version in sorted(of_versions):
                for resource in sorted(rule.get("resources") or []):
                    if "*" in resource or "/" in resource:
                        continue
                    for kind in kinds(group, version, resource):
                        found.add(kind)
                        count += 1
                        if count == _MOST_KINDS:
                            return sorted(found, key=_order)
    return sorted(found, key=_order)
