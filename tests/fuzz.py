"""`make fuzz`: the laws, in an order of chance, on as many examples as fit into the time, from another seed each time.

`python -m tests.fuzz [seconds]`. A failure prints the smallest example that hypothesis finds and the command that finds it again,
and ends with 1. That command has a seed and a law: `python -m tests.fuzz 0 --seed 7 --law test_json_comes_back` is one round.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import importlib
import inspect
import itertools
import logging
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import seed

from tests.property import profile

# Those with laws, which are the functions that hypothesis gives their arguments.
MODULES = (
    "tests.adoption.test_mover",
    "tests.apiextensions.test_definition",
    "tests.apiextensions.test_validation",
    "tests.cel.test_bounds",
    "tests.cel.test_differential",
    "tests.cel.test_parser",
    "tests.property.test_garbage_laws",
    "tests.property.test_merge_laws",
    "tests.property.test_meta_laws",
    "tests.property.test_patch_laws",
    "tests.property.test_sharing_laws",
    "tests.property.test_selection_laws",
    "tests.property.test_validation_laws",
    "tests.schema.test_defaulting",
    "tests.schema.test_pruning",
    "tests.schema.test_structural",
    "tests.typed.test_round_trips",
    "tests.typed.test_texts",
)

Law = Callable[[], None]


def laws() -> dict[str, Law]:
    """By name, with the module's where several have that name. The profile must be loaded before."""
    found: dict[str, Law] = {}
    for module in MODULES:
        for name, law in vars(importlib.import_module(module)).items():
            if getattr(law, "is_hypothesis_test", False):
                inner = law.hypothesis.inner_test
                if inspect.iscoroutinefunction(inner):
                    law.hypothesis.inner_test = _in_a_loop(inner)
                found[f"{module.rpartition('.')[2]}.{name}" if name in found else name] = law
    return found


def _in_a_loop(law: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(law)
    def run(*args: Any, **options: Any) -> None:
        asyncio.run(law(*args, **options))

    return run


def main() -> int:
    logging.disable()  # of adoptions that fail, as they should
    profile.load(profile.FUZZ)
    known = laws()
    options = _parser(known).parse_args()
    chosen = [options.law] if options.law else list(known)
    print(f"{len(chosen)} laws, --seed {options.seed}", flush=True)
    end = time.monotonic() + options.seconds
    rounds = _rounds(chosen, options.seed)
    for name, number in rounds:
        print(f"{name}, seed {number}", flush=True)
        try:
            seed(number)(known[name])()
        except Exception:
            traceback.print_exc()
            print(f"{name} does not hold. Once more: {sys.executable} -m tests.fuzz 0 --seed {number} --law {name}", flush=True)
            return 1
        if time.monotonic() >= end:
            break
    print("nothing found")
    return 0


def _rounds(names: list[str], first: int) -> Iterator[tuple[str, int]]:
    """(law, seed) without an end: the first round has the seed that was asked for, and each other one the next."""
    order = random.Random(first).sample(names, len(names))
    return zip(itertools.cycle(order), itertools.count(first), strict=False)


def _parser(known: dict[str, Law]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Looks for examples for which a law does not hold.")
    parser.add_argument("seconds", nargs="?", type=float, default=60.0, help="how long to go on; the last round is finished")
    parser.add_argument("--seed", type=int, default=random.getrandbits(32), help="of the first round; the next has the next")
    parser.add_argument("--law", choices=list(known), metavar="NAME", help="only this one (default: all in turn)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
