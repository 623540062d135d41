"""Match conditions: expressions that must all be true for a webhook or a policy to be meant for a request.

A condition that is false decides, whatever the errors of others. If none is false, errors are handled by the failure policy: with
Fail the request fails, with Ignore it goes on as if the condition was false. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggserver.admission.policy.environment import Inputs
from aggserver.admission.policy.expressions import MATCH_BUDGET, Compiler, Evaluation, Expression, OutOfBudgetError
from aggserver.admission.webhook_configurations import judge
from aggserver.cel.types import BOOL
from aggserver.meta.json_types import JSONObject

__all__ = ["MatchConditionError", "MatchConditions"]


class MatchConditionError(Exception):
    """A condition could not be evaluated, and the failure policy is Fail. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions in order. is_ignored: whether errors are ignored (failurePolicy Ignore). variables: of the policy."""

    conditions: tuple[Expression, ...]
    is_ignored: bool
    variables: Mapping[str, Expression] = field(default_factory=dict)

    @classmethod
    def of_webhook(cls, conditions: Sequence[Mapping[str, Any]]) -> MatchConditions:
        """Compile the matchConditions of a webhook. Takes about 10 us for each character."""
        return cls.compiled(Compiler(has_params=False, has_variables=False), {"matchConditions": conditions})

    @classmethod
    def compiled(cls, compiler: Compiler, spec: Mapping[str, Any]) -> MatchConditions:
        """Compile the matchConditions of a policy. spec: of the policy."""
        conditions: Sequence[Mapping[str, Any]] = spec.get("matchConditions") or ()
        expressions = tuple(compiler.expression(each.get("expression") or "", (BOOL,)) for each in conditions)
        return cls(expressions, spec.get("failurePolicy") == "Ignore", compiler.variables)

    def results(self, inputs: Inputs, params: JSONObject | None = None) -> list[bool | Exception]:
        """For each condition whether it holds, or the error of its evaluation. If the budget is exceeded, only that error, even
        if a condition does not hold. Raises UnansweredError of the inputs.
        """
        if not self.conditions:
            return []
        evaluation = Evaluation(inputs.for_conditions(), params, self.variables, MATCH_BUDGET)
        try:
            results = [evaluation.run(condition) for condition in self.conditions]
        except OutOfBudgetError as error:
            return [error]
        return [MatchConditionError(error) if error else value is not False for value, error in results]

    def holds(self, inputs: Inputs, params: JSONObject | None = None) -> bool:
        """Whether all are true. Raises MatchConditionError, and UnansweredError of the inputs."""
        verdict = judge(self.results(inputs, params), fails_open=self.is_ignored)
        if isinstance(verdict, str):
            raise MatchConditionError(verdict)
        return verdict
