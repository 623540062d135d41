"""Mutating policies: how a MutatingAdmissionPolicy changes an object, and when it is invoked again.

`CompiledMutatingPolicy` is compiled once; `mutate` makes the object that one of its mutations asks for. `Invocations` remembers
between the two rounds of a chain which policies were invoked. `Refusals` gathers the errors for which the request is refused.
Pure.
Source: k8s.io/apiserver pkg/admission/plugin/policy/mutating/{compilation,dispatcher,reinvocationcontext}.go,
pkg/admission/plugin/policy/generic/policy_dispatcher.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aggserver.admission.chain import Attributes
from aggserver.admission.policy.conditions import MatchConditions
from aggserver.admission.policy.environment import APPLY_CONFIGURATION, JSON_PATCH, Inputs
from aggserver.admission.policy.expressions import BUDGET, Compiler, Evaluation, Expression, OutOfBudgetError
from aggserver.admission.policy.patches import MutationError, apply_configuration, json_patch
from aggserver.admission.policy.validating import name_of
from aggserver.cel.extent import extent
from aggserver.cel.types import list_of
from aggserver.merge.atom import Atom
from aggserver.meta import errors
from aggserver.meta.errors import Cause
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = ["CompiledMutatingPolicy", "Invocation", "Invocations", "Mutation", "Refusals", "compile_policy", "mutate"]


class Mutation(NamedTuple):
    """is_patch: whether the expression makes a JSON patch, or else an apply configuration."""

    is_patch: bool
    expression: Expression


@dataclass(frozen=True, slots=True)
class CompiledMutatingPolicy:
    conditions: MatchConditions
    mutations: tuple[Mutation, ...]
    variables: Mapping[str, Expression]
    is_reinvoked: bool
    """Whether it is invoked again if another plugin has changed the object (reinvocationPolicy IfNeeded)."""


def compile_policy(spec: Mapping[str, Any]) -> CompiledMutatingPolicy:
    """Compile the spec of a MutatingAdmissionPolicy. Takes about 10 us for each character of its expressions."""
    compiler = Compiler(has_params=spec.get("paramKind") is not None)
    for variable in spec.get("variables") or ():
        compiler.variable(variable.get("name") or "", variable.get("expression") or "")
    return CompiledMutatingPolicy(
        conditions=MatchConditions.compiled(compiler, spec),
        mutations=tuple(_mutation(compiler, each) for each in spec.get("mutations") or ()),
        variables=compiler.variables,
        is_reinvoked=spec.get("reinvocationPolicy") == "IfNeeded",
    )


def _mutation(compiler: Compiler, mutation: Mapping[str, Any]) -> Mutation:
    is_patch = mutation.get("patchType") == "JSONPatch"
    given = mutation.get("jsonPatch" if is_patch else "applyConfiguration") or {}
    wanted = list_of(JSON_PATCH) if is_patch else APPLY_CONFIGURATION
    return Mutation(is_patch, compiler.expression(given.get("expression") or "", (wanted,), makes_patches=True))


def mutate(
    policy: CompiledMutatingPolicy, mutation: Mutation, inputs: Inputs, params: JSONObject | None, atom: Atom, most_bytes: int
) -> Any:
    """What the mutation makes of the object of the inputs, perhaps no object any more; the same object if nothing changed.

    most_bytes: the limit for the expression's value and for the changed object, each as JSON.
    Raises MutationError, PolicyOutOfPatienceError and UnansweredError.
    """
    assert inputs.obj is not None
    expression = mutation.expression
    if expression.error:
        raise MutationError(expression.error)
    evaluation = Evaluation(inputs, params, policy.variables, BUDGET)
    try:
        value, error = evaluation.run(expression)
        if error:
            raise MutationError(error)
        # Before it is written out: a list of CEL can have the same list in it many times.
        _count(value, evaluation, most_bytes, "the mutation")
        made = json_patch(inputs.obj, value) if mutation.is_patch else apply_configuration(inputs.obj, value, atom)
        if made is not inputs.obj:
            _count(made, evaluation, most_bytes, "the object")
    except OutOfBudgetError as why:
        raise MutationError(str(why)) from None
    return made


def _count(value: Any, evaluation: Evaluation, most_bytes: int, what: str) -> None:
    """Charge one unit of cost for each element. Raises MutationError, OutOfBudgetError and PolicyOutOfPatienceError."""
    found = extent(value, most_bytes, evaluation.allowance)
    if found.bytes > most_bytes:
        raise MutationError(f"{what} would be larger than {most_bytes} bytes")
    evaluation.charge(found.elements)


# --- reinvocation ---


class Invocation(NamedTuple):
    """A policy with one of its bindings and one of its params (namespace, name; empty without)."""

    policy: str
    binding: str
    param_namespace: str = ""
    param: str = ""


@dataclass(slots=True)
class Invocations:
    """What was invoked in the first round, and what has to be invoked again in the second.

    output: the object as the last round of this plugin has left it.
    """

    output: JSONObject | None = None
    _reinvocable: set[Invocation] = field(default_factory=set, init=False)
    _again: set[Invocation] = field(default_factory=set, init=False)

    def changed(self) -> None:
        """The object has changed: policies invoked so far whose reinvocationPolicy asks for it are due again."""
        self._again |= self._reinvocable
        self._reinvocable = set()

    def invoked(self, invocation: Invocation) -> None:
        """Remember the invocation of a policy that may be reinvoked."""
        self._reinvocable.add(invocation)

    def is_due(self, invocation: Invocation) -> bool:
        """Whether the policy is invoked in the second round."""
        return invocation in self._again


# --- errors ---


@dataclass(slots=True)
class Refusals:
    """The errors of the policies for one request, without those of policies that ignore them (failurePolicy Ignore)."""

    attributes: Attributes
    _found: list[tuple[str, str]] = field(default_factory=list, init=False)

    def misconfigured(self, policy: JSONObject, binding: JSONObject | None, why: str) -> None:
        """A policy or binding that can't be used for the request."""
        self._add(policy, binding, f"failed to configure {'policy' if binding is None else 'binding'}: {why}", "")

    def failed(self, policy: JSONObject, binding: JSONObject, why: str) -> None:
        """A mutation or match condition that failed."""
        self._add(policy, binding, why, "Invalid")

    def _add(self, policy: JSONObject, binding: JSONObject | None, why: str, reason: str) -> None:
        if (policy.get("spec") or {}).get("failurePolicy") == "Ignore":
            return
        name = policy["metadata"]["name"]
        bound = None if binding is None else binding["metadata"]["name"]
        who = f"policy {quote(name)}" if bound is None else f"policy '{name}' with binding '{bound}'"
        self._found.append((f"{who} denied request: {why}", reason))

    def conclude(self, obj: JSONObject | None) -> None:
        """Raises StatusError if there is an error: 403, with the text and the reason of the first, as upstream."""
        if not self._found:
            return
        info = self.attributes.resource
        error = errors.forbidden(info.group, info.resource, name_of(self.attributes, obj), "")
        message, reason = self._found[0]
        error.args, error.message = (message,), message
        error.reason = reason or error.reason
        error.causes = tuple(Cause("", text) for text, _ in self._found)
        raise error
