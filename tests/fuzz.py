"""`make fuzz`: inputs that grow, then the laws of schemas, of merging and of CEL on as many examples as fit into the time.

`python -m tests.fuzz [seconds]`: so long for each of the two, from another seed each time. An input whose time grows faster than
its size, and the smallest example that hypothesis finds against a law, are printed, and it ends with 1.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, seed, settings

from tests.cel import test_bounds, test_differential
from tests.growth.search import search
from tests.property import test_merge_laws, test_validation_laws
from tests.schema import test_defaulting, test_pruning

_LAWS: tuple[Callable[[], None], ...] = (
    test_validation_laws.test_the_generated_form_finds_what_the_plain_one_finds,
    test_validation_laws.test_ratcheting_only_drops_errors,
    test_merge_laws.test_what_a_walker_takes_for_fitting_fits,
    test_merge_laws.test_walkers_compare_as_the_plain_form_does,
    test_merge_laws.test_walkers_merge_as_the_plain_form_does,
    test_merge_laws.test_walkers_tell_fields_as_the_plain_form_does,
    test_merge_laws.test_pruning_is_passed_over_only_where_it_would_change_nothing,
    test_merge_laws.test_field_sets_are_sets,
    test_pruning.test_compiled_is_plain_and_twice_is_once,
    test_defaulting.test_compiled_is_plain_and_twice_is_once,
    test_bounds.test_any_expression_ends,
    test_bounds.test_what_is_nearly_an_expression_ends,
    test_bounds.test_any_text_ends,
    test_differential.test_expressions_mean_what_they_mean_elsewhere,
    test_differential.test_what_is_no_expression_is_none_elsewhere,
)
# Of one round: enough for hypothesis to get going, few enough to look at the clock.
_EXAMPLES = 300


def main(seconds: float) -> None:
    if search(seconds):
        sys.exit(1)
    bounded = settings(
        max_examples=_EXAMPLES,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    laws = [bounded(law) for law in _LAWS]
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        law = laws[rounds % len(laws)]
        number = random.getrandbits(32)
        print(f"{law.__name__}, seed {number}", flush=True)
        seed(number)(law)()
        rounds += 1
    print(f"{rounds * _EXAMPLES} examples, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
