"""Match conditions: expressions that must all be true for a webhook or a policy to be meant for a request.

A condition that is false decides, whatever the errors of others. Without one, errors count by the failure policy: with Fail the
request fails, with Ignore it goes on as if the condition was false. Pure.
Source: k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aggserver.admission.policy.environment import Inputs
from aggserver.admission.policy.expressions import MATCH_BUDGET, Compiler, Evaluation, Expression, OutOfBudgetError
from aggserver.cel.types import BOOL
from aggserver.meta.json_types import JSONObject

__all__ = ["MatchConditionError", "MatchConditions"]


class MatchConditionError(Exception):
    """A condition could not be evaluated, and the failure policy is Fail. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class MatchConditions:
    """The conditions in order. is_ignored: whether errors are (failurePolicy Ignore). variables: of the policy."""

    conditions: tuple[Expression, ...]
    is_ignored: bool
    variables: Mapping[str, Expression] = field(default_factory=dict)

    @classmethod
    def of_webhook(cls, webhook: Mapping[str, Any]) -> MatchConditions:
        """Compile those of an entry of `webhooks`. Takes about 10 us for each character."""
        return cls.compiled(Compiler(has_params=False, has_variables=False), webhook)

    @classmethod
    def compiled(cls, compiler: Compiler, spec: Mapping[str, Any]) -> MatchConditions:
        """spec: of a policy, or a webhook."""
        conditions: Sequence[Mapping[str, Any]] = spec.get("matchConditions") or ()
        expressions = tuple(compiler.expression(each.get("expression") or "", (BOOL,)) for each in conditions)
        return cls(expressions, spec.get("failurePolicy") == "Ignore", compiler.variables)

    def holds(self, inputs: Inputs, params: JSONObject | None = None) -> bool:
        """Whether all are true. Raises MatchConditionError, and UnansweredError of the inputs."""
        if not self.conditions:
            return True
        seen = inputs.for_conditions()
        evaluation = Evaluation(seen, params, self.variables, MATCH_BUDGET)
        problems: list[str] = []
        holds = True
        try:
            for condition in self.conditions:
                value, error = evaluation.run(condition)
                if error and error not in problems:
                    problems.append(error)
                # The rest is evaluated too: it may exceed the budget.
                holds = holds and (bool(error) or value is not False)
        except OutOfBudgetError as error:
            if self.is_ignored:
                return False
            raise MatchConditionError(str(error)) from None
        if not holds:
            return False
        if problems and not self.is_ignored:
            raise MatchConditionError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        return not problems
