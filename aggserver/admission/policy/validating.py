"""Validating policies: what a ValidatingAdmissionPolicy says about one request and one param.

`CompiledValidatingPolicy` is compiled once; `evaluate` makes decisions, one for each validation, and audit annotations;
`PolicyVerdict` gathers them over all policies, bindings and params of a request, and refuses it in the end. Messages, budgets and
the handling of errors are upstream's word by word. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/policy/validating/{validator,dispatcher,plugin,policy_decision}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aggserver.admission.chain import Attributes
from aggserver.admission.policy.conditions import MatchConditionError, MatchConditions
from aggserver.admission.policy.environment import Inputs
from aggserver.admission.policy.expressions import BUDGET, Compiler, Evaluation, Expression, OutOfBudgetError, Result
from aggserver.cel.types import BOOL, NULL, STRING
from aggserver.meta import errors
from aggserver.meta.errors import Cause
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONObject

__all__ = ["Annotation", "CompiledValidatingPolicy", "PolicyDecision", "PolicyVerdict", "compile_policy", "evaluate", "name_of"]

_INVALID = "Invalid"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, _INVALID: 422}
# Bytes of a message that a messageExpression makes, and of the value of an audit annotation.
_LONGEST_MESSAGE = 5 * 1024
_LONGEST_VALUE = 10 * 1024
_FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"


class PolicyDecision(NamedTuple):
    """The result of one validation. message, reason: of a denial; reason is '' if an error caused it."""

    denies: bool
    message: str = ""
    reason: str = ""


class Annotation(NamedTuple):
    """An audit annotation to publish or, with an error, one that could not be made."""

    key: str
    value: str = ""
    error: str = ""


_ADMITTED = PolicyDecision(False)


@dataclass(frozen=True, slots=True)
class _Validation:
    """message: the messageExpression, None if there is none. fallback: the message used otherwise. reason: '' for the default."""

    expression: Expression
    message: Expression | None
    fallback: str
    reason: str


@dataclass(frozen=True, slots=True)
class CompiledValidatingPolicy:
    """is_ignored: whether errors are ignored (failurePolicy Ignore)."""

    is_ignored: bool
    conditions: MatchConditions
    validations: tuple[_Validation, ...]
    annotations: tuple[tuple[str, Expression], ...]
    variables: Mapping[str, Expression]


def compile_policy(spec: Mapping[str, Any]) -> CompiledValidatingPolicy:
    """Compile the spec of a ValidatingAdmissionPolicy. Takes about 10 us for each character of its expressions."""
    compiler = Compiler(has_params=spec.get("paramKind") is not None)
    for variable in spec.get("variables") or ():
        compiler.variable(variable.get("name") or "", variable.get("expression") or "")
    return CompiledValidatingPolicy(
        is_ignored=spec.get("failurePolicy") == "Ignore",
        conditions=MatchConditions.compiled(compiler, spec),
        validations=tuple(_validation(compiler, each) for each in spec.get("validations") or ()),
        annotations=tuple(
            (each.get("key") or "", compiler.expression(each.get("valueExpression") or "", (STRING, NULL)))
            for each in spec.get("auditAnnotations") or ()
        ),
        variables=compiler.variables,
    )


def _validation(compiler: Compiler, validation: Mapping[str, Any]) -> _Validation:
    source, message = validation.get("expression") or "", validation.get("messageExpression") or ""
    return _Validation(
        expression=compiler.expression(source, (BOOL,)),
        # As upstream, a messageExpression can't use the authorizer.
        message=compiler.expression(message, (STRING,), has_authorizer=False) if message else None,
        fallback=(validation.get("message") or "").strip() or f"failed expression: {source.strip()}",
        reason=validation.get("reason") or "",
    )


def evaluate(
    policy: CompiledValidatingPolicy, inputs: Inputs, params: JSONObject | None
) -> tuple[list[PolicyDecision], list[Annotation]]:
    """The decisions and audit annotations of a policy for one param. Raises PolicyOutOfPatienceError and UnansweredError."""
    try:
        if not policy.conditions.holds(inputs, params):
            return [], []
        validated = Evaluation(inputs, params, policy.variables, BUDGET)
        results = [validated.run(each.expression) for each in policy.validations]
    except (MatchConditionError, OutOfBudgetError) as error:
        return [_failed(policy, str(error))], []
    decisions = _decisions(policy, inputs, params, results, validated.left)
    if not policy.annotations:
        return decisions, []
    # Audit annotations have a budget of their own. They don't see the authorizer, though it is declared for them.
    audited = Evaluation(inputs, params, policy.variables, BUDGET, has_authorizer=False)
    try:
        # Each is cut to its size before the next one is made.
        annotations = [_annotation(key, audited.run(expression), policy) for key, expression in policy.annotations]
    except OutOfBudgetError as error:
        return [_failed(policy, str(error))], []
    return decisions, [each for each in annotations if each is not None]


def _failed(policy: CompiledValidatingPolicy, message: str) -> PolicyDecision:
    return PolicyDecision(not policy.is_ignored, message)


def _decisions(
    policy: CompiledValidatingPolicy, inputs: Inputs, params: JSONObject | None, results: Sequence[Result], left: int
) -> list[PolicyDecision]:
    """The decisions. Messages are evaluated even if nothing is denied: their cost may exceed what is left of the budget."""
    messages: list[str] = []
    failure = ""
    if any(each.message is not None for each in policy.validations):
        evaluation = Evaluation(inputs, params, policy.variables, left, has_authorizer=False)
        try:
            # Only the usable text of each message is kept in memory.
            messages = ["" if each.message is None else _message(evaluation.run(each.message)) for each in policy.validations]
        except OutOfBudgetError as why:
            failure = f"failed messageExpression: {why}"
    decisions: list[PolicyDecision] = []
    for index, (value, error) in enumerate(results):
        validation = policy.validations[index]
        if error or failure:
            decisions.append(_failed(policy, error or failure))
        elif value is True:
            decisions.append(_ADMITTED)
        else:
            message = messages[index] if messages else ""
            decisions.append(PolicyDecision(True, message or validation.fallback, validation.reason or _INVALID))
    return decisions


def _message(result: Result) -> str:
    """What a messageExpression has made, or '' if it can't be used."""
    text = result.value.strip() if isinstance(result.value, str) else ""
    return "" if "\n" in text or len(text.encode("utf-8", "surrogatepass")) > _LONGEST_MESSAGE else text


def _annotation(key: str, result: Result, policy: CompiledValidatingPolicy) -> Annotation | None:
    if result.error:
        return None if policy.is_ignored else Annotation(key, error=result.error)
    value = result.value.strip() if isinstance(result.value, str) else ""
    # `PolicyVerdict.add` cuts it to so many bytes; more characters than that are not even kept.
    return Annotation(key, value[:_LONGEST_VALUE]) if value else None


# --- all policies of a request ---


@dataclass(slots=True)
class PolicyVerdict:
    """What the policies of a request have decided so far. Warnings and audited failures are added to the attributes at once."""

    attributes: Attributes
    _denials: list[tuple[str, str]] = field(default_factory=list, init=False)
    _annotations: dict[str, dict[str, list[str]]] = field(default_factory=dict, init=False)

    def misconfigured(self, policy: JSONObject, binding: JSONObject | None, why: str) -> None:
        """A policy or binding that can't be used for the request."""
        if (policy.get("spec") or {}).get("failurePolicy") != "Ignore":
            what = "policy" if binding is None else "binding"
            self._deny(policy, binding, f"failed to configure {what}: {why}", "")

    def add(
        self, policy: JSONObject, binding: JSONObject, decisions: Sequence[PolicyDecision], annotations: Sequence[Annotation]
    ) -> None:
        """Add the result of `evaluate` for one param."""
        for index, decision in enumerate(decisions):
            if decision.denies:
                self._act(policy, binding, decision, index)
        for key, value, error in annotations:
            if error:
                self._deny(policy, binding, error, "")
                continue
            values = self._annotations.setdefault(policy["metadata"]["name"], {}).setdefault(key, [])
            value = value.encode("utf-8", "surrogatepass")[:_LONGEST_VALUE].decode("utf-8", "ignore")
            if value not in values:
                values.append(value)

    def _act(self, policy: JSONObject, binding: JSONObject, decision: PolicyDecision, index: int) -> None:
        actions = binding["spec"].get("validationActions") or []
        name, bound = policy["metadata"]["name"], binding["metadata"]["name"]
        for action in actions:
            match action:
                case "Deny":
                    self._deny(policy, binding, decision.message, decision.reason)
                case "Audit":
                    failure = {
                        "message": decision.message,
                        "policy": binding["spec"].get("policyName") or "",
                        "binding": bound,
                        "expressionIndex": index,
                        "validationActions": actions,
                    }
                    # In the order of upstream's struct.
                    members = ",".join(f"{to_json(key)}:{to_json(value)}" for key, value in failure.items())
                    self.attributes.audit_annotations[_FAILURE_KEY] = f"[{{{members}}}]"
                case "Warn":
                    self.attributes.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{bound}': {decision.message}"
                    )

    def _deny(self, policy: JSONObject, binding: JSONObject | None, message: str, reason: str) -> None:
        bound = "" if binding is None else f" with binding '{binding['metadata']['name']}'"
        text = f"ValidatingAdmissionPolicy '{policy['metadata']['name']}'{bound} denied request: {message}"
        self._denials.append((text, reason))

    def conclude(self, obj: JSONObject | None) -> None:
        """Publish the audit annotations. Raises StatusError with the first denial, if there is one."""
        for policy, found in self._annotations.items():
            for key, values in found.items():
                self.attributes.audit_annotations[f"{policy}/{key}"] = ", ".join(values)
        if not self._denials:
            return
        message, reason = self._denials[0]
        info = self.attributes.resource
        error = errors.forbidden(info.group, info.resource, name_of(self.attributes, obj), message)
        error.reason = reason or _INVALID
        error.code = _CODES.get(error.reason, 422)
        error.causes = (*error.causes, Cause("", message))
        raise error


def name_of(attributes: Attributes, obj: JSONObject | None) -> str:
    """The name for an error about an object that may have none yet."""
    metadata: Mapping[str, Any] = (obj or {}).get("metadata") or {}
    return attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
