"""Evaluating: runs the expressions about a request to their end, with answers of the authorizer, in a thread if they take long.

An expression that needs the answer to a check ends with UnansweredError; the authorizer is asked, and all is evaluated again with
the answer. Their cost limits the number of checks to three in an expression. What costs much is evaluated in a thread.
`WebhookConditions` are the match conditions of webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aggserver.admission.chain import Attributes, Target
from aggserver.admission.policy.conditions import MatchConditions
from aggserver.admission.policy.environment import Inputs, UnansweredError
from aggserver.admission.policy.expressions import OutOfPatienceError
from aggserver.admission.webhook_configurations import Conditions
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta.json_types import JSONObject

__all__ = ["Authorize", "WebhookConditions", "evaluated"]

T = TypeVar("T")

# The decision about a check, for the user of the attributes or the service account that the check names. If there is none, the
# decision has the error.
Authorize = Callable[[Attributes, Check], Awaitable[Decision]]

# Units of CEL cost that a list of expressions may spend on the event loop; if it needs more, it is evaluated again in a thread.
_PATIENCE = 10_000


async def evaluated(compute: Callable[[Inputs], T], inputs: Inputs, authorize: Authorize) -> T:
    """What `compute` makes of the inputs, to whose answers those of the authorizer are added. Raises what `compute` raises."""
    inputs.patience = _PATIENCE
    while True:
        try:
            if inputs.patience is None:
                return await asyncio.to_thread(compute, inputs)
            return compute(inputs)
        except OutOfPatienceError:
            inputs.patience = None
        except UnansweredError as error:
            inputs.answers[error.check] = await authorize(inputs.attributes, error.check)


class WebhookConditions:
    """`compile` is a `webhook_configurations.CompileConditions`."""

    def __init__(self, authorize: Authorize) -> None:
        self._authorize = authorize

    def compile(self, conditions: Sequence[JSONObject]) -> Conditions:
        """They are compiled, in a thread, when they are first evaluated."""
        compiled: MatchConditions | None = None

        async def results(
            attributes: Attributes, target: Target, obj: JSONObject | None, old: JSONObject | None
        ) -> Sequence[bool | Exception]:
            nonlocal compiled
            if compiled is None:
                compiled = await asyncio.to_thread(MatchConditions.of_webhook, conditions)
            return await evaluated(compiled.results, Inputs(attributes, target, obj, old, None, {}), self._authorize)

        return results
