"""Rules (x-kubernetes-validations): what their callers and their evaluation share, which are options, findings and limits.

Knows nothing of CEL: `lazy_rules.py` is the way from a schema to its validator, `rule_validation.py` is that validator. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aggserver.meta.field import FieldError, Path
from aggserver.schema.ratcheting import Correlation
from aggserver.schema.structural import VALIDATIONS

__all__ = [
    "OBJECT_LIMIT",
    "UPSTREAM",
    "OutOfPatienceError",
    "RuleFindings",
    "RuleOptions",
    "RuleValidator",
    "rules_length",
]

# The cost limit of all evaluations for one object.
OBJECT_LIMIT = 10_000_000


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Options of rules that go beyond upstream. sees_labels: rules can access labels and annotations in metadata.

    budget: a factor for all cost limits.
    """

    sees_labels: bool = False
    budget: int = 1


UPSTREAM = RuleOptions()


class RuleFindings(NamedTuple):
    """The result of evaluating rules. warnings: the texts of errors of values that an update left unchanged."""

    errors: list[FieldError]
    warnings: list[str]


class OutOfPatienceError(Exception):
    """The rules take longer than the caller would wait; there are no findings."""


class RuleValidator(Protocol):
    """Evaluates the rules of one schema. It may be used by several threads."""

    def validate(
        self,
        obj: Any,
        old: Any = None,
        correlation: Correlation | None = None,
        *,
        patience: int | None = None,
        is_given_up: Callable[[], bool] | None = None,
    ) -> RuleFindings:
        """Evaluate all rules. The values of `obj` must have the types of the schema.

        correlation: for an update, with `old`. patience: a cost limit below the usual ones, which also counts characters to
        compile, and is exceeded at once by large objects, since they take time at any cost; None for the usual limits.
        is_given_up: whether nobody waits for the result any more; it is called often, and ends the work with the findings so far.
        Raises OutOfPatienceError.
        """

    def validate_default(self, value: Any, path: Path, left: int) -> tuple[list[FieldError], int]:
        """Evaluate the rules for a default at `path` in a schema, both as an unchanged value and as a new one.

        left: the rest of OBJECT_LIMIT, which all defaults of a schema share. Returns the errors and the new rest, which is less
        than 0 if the limit was exceeded.
        """


def rules_length(schema: Mapping[str, Any]) -> int:
    """The number of characters in a node's expressions. Compiling takes about 10 us for each."""
    rules = schema.get(VALIDATIONS) or ()
    return sum(len(rule.get("rule") or "") + len(rule.get("messageExpression") or "") for rule in rules)
