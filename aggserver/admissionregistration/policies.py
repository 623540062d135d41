"""Validation of Validating- and MutatingAdmissionPolicies, with upstream's texts and paths.

Pure. Source: k8s.io/kubernetes pkg/apis/admissionregistration/validation/validation.go, v1.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aggserver.admissionregistration import matching
from aggserver.admissionregistration.expressions import Expressions
from aggserver.admissionregistration.matching import Errors, one_of
from aggserver.admissionregistration.webhooks import FAILURE_POLICIES, REINVOCATION_POLICIES
from aggserver.meta.field import FieldError, Path, RawJSON, duplicate, invalid, required
from aggserver.meta.golang import to_json, trim_space
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.names import dns1035_label, dns1123_subdomain, qualified_name

__all__ = ["validate_mutating", "validate_validating"]

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_PATCH_TYPES = ("ApplyConfiguration", "JSONPatch")
_MAX_ANNOTATIONS = 20
# Bytes of a valueExpression; the value it makes may have 10 KiB.
_MAX_ANNOTATION_EXPRESSION = 5 * 1024
_ONE_OF_BOTH = "validations or auditAnnotations must contain at least one item"

_is_identifier = re.compile("[_a-zA-Z][_a-zA-Z0-9]*").fullmatch
# Reserved words of CEL.
_RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"}
_RESERVED |= {"let", "loop", "package", "namespace", "return", "var", "void", "while"}


def validate_validating(obj: JSONMapping, old: JSONMapping | None = None) -> list[FieldError]:
    """The errors of a ValidatingAdmissionPolicy, except for its metadata and status. old: the stored one in an update."""
    spec, path = obj.get("spec") or {}, Path("spec")
    name = obj["metadata"].get("name") or ""
    # As upstream, `variables` is only declared if the policy has variables.
    expressions = Expressions(has_params=_has_params(spec), has_variables=bool(spec.get("variables")))
    return [
        *_common(spec, _spec_of(old), path, expressions, mutating=False),
        *_validations_and_annotations(spec, path, expressions, name),
    ]


def validate_mutating(obj: JSONMapping, old: JSONMapping | None = None) -> list[FieldError]:
    """The errors of a MutatingAdmissionPolicy; see `validate_validating`."""
    spec, path = obj.get("spec") or {}, Path("spec")
    expressions = Expressions(has_params=_has_params(spec), has_variables=True)
    return [*_common(spec, _spec_of(old), path, expressions, mutating=True), *_mutations(spec, path, expressions)]


def _spec_of(old: JSONMapping | None) -> JSONMapping | None:
    return None if old is None else old.get("spec") or {}


def _has_params(spec: JSONMapping) -> bool:
    return spec.get("paramKind") is not None


def _common(spec: JSONMapping, old: JSONMapping | None, path: Path, expressions: Expressions, *, mutating: bool) -> Errors:
    if spec.get("failurePolicy") is None:
        yield required(path.child("failurePolicy"))
    yield from one_of(spec.get("failurePolicy"), FAILURE_POLICIES, path.child("failurePolicy"))
    if _has_params(spec):
        yield from _param_kind(spec["paramKind"], path.child("paramKind"))
    if spec.get("matchConstraints") is None:
        yield required(path.child("matchConstraints"))
    else:
        at = path.child("matchConstraints")
        yield from matching.match_resources(spec["matchConstraints"], at, mutating=mutating, needs_rule=True)
    if old is None or any(spec.get(name) != old.get(name) for name in ("paramKind", "matchConditions")):
        conditions, at = spec.get("matchConditions") or [], path.child("matchConditions")
        yield from matching.match_conditions(conditions, at, Expressions(has_params=_has_params(spec)))
    for index, variable in enumerate(spec.get("variables") or ()):
        yield from _variable(variable, path.child("variables").index(index), expressions)


def _param_kind(kind: JSONMapping, path: Path) -> Errors:
    api_version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    at = path.child("apiVersion")
    if not api_version:
        yield required(at)
    elif api_version.count("/") > 1:
        yield invalid(at, api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        group, _, version = api_version.rpartition("/")
        if group and (problems := dns1123_subdomain(group)):
            yield invalid(at, group, ",".join(problems))
        if not version:
            yield invalid(at, api_version, "version must be specified")
        elif problems := dns1035_label(version):
            yield invalid(at, version, ",".join(problems))
    if not name:
        yield required(path.child("kind"))
    elif problems := dns1035_label(name.lower()):
        yield invalid(path.child("kind"), name, "may have mixed case, but should otherwise match: " + ",".join(problems))


def _variable(variable: JSONMapping, path: Path, expressions: Expressions) -> Errors:
    name, expression = variable.get("name") or "", variable.get("expression") or ""
    if not trim_space(name):
        yield required(path.child("name"), "name is not specified")
    elif not _is_identifier(name) or name in _RESERVED:
        yield invalid(path.child("name"), name, "must be a valid CEL identifier")
    if not trim_space(expression):
        yield required(path.child("expression"), "expression is not specified")
    else:
        yield from expressions.variable(name, expression, path.child("expression"))


def _validations_and_annotations(spec: JSONMapping, path: Path, expressions: Expressions, name: str) -> Errors:
    validations, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not validations and not annotations:
        yield required(path.child("validations"), _ONE_OF_BOTH)
        yield required(path.child("auditAnnotations"), _ONE_OF_BOTH)
    for index, validation in enumerate(validations):
        yield from _validation(validation, path.child("validations").index(index), expressions)
    yield from _annotations(annotations, path.child("auditAnnotations"), expressions, name)


def _validation(validation: JSONMapping, path: Path, expressions: Expressions) -> Errors:
    expression, of_message, message = (validation.get(key) or "" for key in ("expression", "messageExpression", "message"))
    if not trim_space(expression):
        yield required(path.child("expression"), "expression is not specified")
    else:
        yield from expressions.condition(expression, path.child("expression"))
    if of_message and not trim_space(of_message):
        yield invalid(path.child("messageExpression"), of_message, "must be non-empty if specified")
    elif of_message:
        yield from expressions.message(of_message, path.child("messageExpression"))
    trimmed = trim_space(message)
    if message and not trimmed:
        yield invalid(path.child("message"), message, "must be non-empty if specified")
    elif "\n" in trimmed or "\r" in trimmed:
        yield invalid(path.child("message"), message, "must not contain line breaks")
    yield from one_of(validation.get("reason"), _REASONS, path.child("reason"))


def _annotations(annotations: Sequence[JSONMapping], path: Path, expressions: Expressions, name: str) -> Errors:
    """The errors of auditAnnotations. name: of the policy, which is part of their keys."""
    if len(annotations) > _MAX_ANNOTATIONS:
        yield invalid(path, _internal_text(annotations), f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations")
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        at, key, expression = path.index(index), annotation.get("key") or "", annotation.get("valueExpression") or ""
        if name:
            whole = f"{name}/{key}"
            yield from (invalid(at.child("key"), whole, text) for text in qualified_name(whole))
        else:
            yield invalid(at.child("key"), key, "requires metadata.name be non-empty")
        trimmed = trim_space(expression)
        if not trimmed:
            yield required(at.child("valueExpression"), "valueExpression is not specified")
        elif len(trimmed.encode()) > _MAX_ANNOTATION_EXPRESSION:
            yield required(at.child("valueExpression"), f"must not exceed {_MAX_ANNOTATION_EXPRESSION} bytes in length")
        else:
            yield from expressions.annotation(trimmed, expression, at.child("valueExpression"))
        if key in seen:
            yield duplicate(at.child("key"), key)
        seen.add(key)


def _internal_text(annotations: Sequence[JSONMapping]) -> RawJSON:
    """The annotations as JSON of upstream's internal type, whose members have Go's names."""
    pairs = ((to_json(each.get("key") or ""), to_json(each.get("valueExpression") or "")) for each in annotations)
    return RawJSON("[" + ",".join(f'{{"Key":{key},"ValueExpression":{value}}}' for key, value in pairs) + "]")


def _mutations(spec: JSONMapping, path: Path, expressions: Expressions) -> Errors:
    mutations = spec.get("mutations") or []
    if not mutations:
        yield required(path.child("mutations"), "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        yield from _mutation(mutation, path.child("mutations").index(index), expressions)
    policy = spec.get("reinvocationPolicy") or ""
    if not policy:
        yield required(path.child("reinvocationPolicy"))
    else:
        yield from one_of(policy, REINVOCATION_POLICIES, path.child("reinvocationPolicy"))


def _mutation(mutation: JSONMapping, path: Path, expressions: Expressions) -> Errors:
    kind = mutation.get("patchType") or ""
    if not kind:
        yield required(path.child("patchType"))
        return
    if kind not in _PATCH_TYPES:
        yield from one_of(kind, _PATCH_TYPES, path.child("patchType"))
        return
    names = ("jsonPatch", "applyConfiguration")
    wanted, other = names if kind == "JSONPatch" else reversed(names)
    part = mutation.get(wanted)
    if part is None:
        yield required(path.child(wanted), f"must be specified when patchType is {kind}")
    elif expression := trim_space(part.get("expression") or ""):
        yield from expressions.mutation(expression, kind, path.child(wanted, "expression"))
    else:
        yield required(path.child(wanted, "expression"))
    if mutation.get(other) is not None:
        yield invalid(path.child(other), f"{{{other}}}", f"must not be specified when patchType is {kind}")
