"""How hypothesis draws: the same examples in each run of pytest, and from a seed that is told in `make fuzz`.

What a run of pytest draws depends on the text of a law alone: not on the time, not on the tests beside it, and nothing is kept
from one run for the next. Where chance found something, the law has it as an `@example`.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

__all__ = ["FUZZ", "TESTS", "load"]

TESTS, FUZZ = "tests", "fuzz"

# Of one round of `make fuzz`: enough for hypothesis to get going, few enough to look at the clock.
_ROUND = 300

# Of a law in a run of pytest, the same ones each time: `make fuzz` is for more.
_EXAMPLES = 60

# An example that takes long says nothing on a machine that has other work too.
settings.register_profile(
    TESTS,
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=_EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    FUZZ,
    deadline=None,
    derandomize=False,
    database=None,
    max_examples=_ROUND,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def load(name: str) -> None:
    """Make it the profile of this process, before the modules of the laws are imported."""
    settings.load_profile(name)
    # Hypothesis also draws the constants of the modules that are loaded, which depend on what else ran in this process.
    assert callable(providers._get_local_constants)
    nothing = providers.Constants()
    providers._get_local_constants = lambda: nothing
