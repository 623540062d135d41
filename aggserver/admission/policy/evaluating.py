"""Evaluating: runs the expressions of a policy or webhook, asks the authorizer for them, and uses a thread if they take long.

An expression that needs the answer to a check ends with UnansweredError. Then the authorizer is asked, and all expressions are
evaluated again with the answer. The cost of a check limits their number to three in an expression.
`WebhookConditions` are the match conditions of webhooks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aggserver.admission.chain import Attributes, Target
from aggserver.admission.policy.conditions import MatchConditions
from aggserver.admission.policy.environment import Inputs, UnansweredError
from aggserver.admission.policy.expressions import PolicyOutOfPatienceError
from aggserver.admission.webhook_configurations import Conditions
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta.json_types import JSONObject
from aggserver.workers import Workers

__all__ = ["Authorize", "WebhookConditions", "evaluated"]

T = TypeVar("T")

# Decides a check, for the user of the attributes or the service account that the check names. If the authorizer fails, the
# decision has the error.
Authorize = Callable[[Attributes, Check], Awaitable[Decision]]

# Units of CEL cost that a list of expressions may spend on the event loop; if it needs more, it is evaluated again in a thread.
_PATIENCE = 10_000
# Threads of their own, so that slow policies do not occupy those that other work needs.
_SLOW = Workers(2, "policies")


async def evaluated(compute: Callable[[Inputs], T], inputs: Inputs, authorize: Authorize) -> T:
    """The result of `compute` for the inputs, to which the authorizer's answers are added. Raises what `compute` raises."""
    inputs.patience, inputs.is_given_up = _PATIENCE, None
    while True:
        try:
            return compute(inputs) if inputs.patience is not None else await _in_thread(compute, inputs)
        except PolicyOutOfPatienceError:
            inputs.patience = None
        except UnansweredError as error:
            inputs.answers[error.check] = await authorize(inputs.attributes, error.check)


async def _in_thread(compute: Callable[[Inputs], T], inputs: Inputs) -> T:
    given_up = threading.Event()
    inputs.is_given_up = given_up.is_set
    try:
        return await _SLOW.run(inputs.attributes.user.name, 0, compute, inputs)
    finally:
        given_up.set()


class WebhookConditions:
    """Compiles the matchConditions of webhooks. `compile` is a `webhook_configurations.CompileConditions`."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def compile(self, conditions: Sequence[JSONObject]) -> Conditions:
        """The function that evaluates the conditions. It compiles them, in a thread, at its first call."""
        found: list[MatchConditions] = []
        compiling = asyncio.Lock()

        async def results(
            attributes: Attributes, target: Target, obj: JSONObject | None, old: JSONObject | None
        ) -> Sequence[bool | Exception]:
            if not found:
                async with compiling:
                    if not found:
                        found.append(await asyncio.to_thread(MatchConditions.of_webhook, conditions))
            return await evaluated(found[0].results, Inputs(attributes, target, obj, old, None, {}), self._authorize)

        return results
