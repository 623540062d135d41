"""The search: all cases in an order by chance, for as long as there is time."""

from __future__ import annotations

import gc
import random
import shlex
import time
import warnings
from collections.abc import Sequence

from tests.growth import encodings, structures, texts
from tests.growth.measure import Case, Finding, find

__all__ = ["search"]

# Why something may grow faster than its input, by the start of a case's name: its work is counted, and ends at a bound.
ALLOWED = {
    "column ": "what the paths of a row visit is counted: meta/jsonpath.py",
    "JSON patch of a list: ": "what operations move within lists is counted: merge/patch.py",
}
# Texts that are tried for each value: as many as take as long.
_QUICK = 20
# Cases that are listed as the slowest of a search.
_SHOWN = 10


def _mixed(few: list[Case], many: list[Case], chance: random.Random) -> list[Case]:
    """Both in an order by chance, and a number of the many, which are quick, after each of the few."""
    chance.shuffle(few)
    chance.shuffle(many)
    mixed = [case for at, each in enumerate(few) for case in (each, *many[at * _QUICK : (at + 1) * _QUICK])]
    return mixed + many[len(few) * _QUICK :]


def search(seconds: float | None, words: Sequence[str], seed: int) -> list[Finding]:
    """Print and return what was found. seconds: None for all cases. words: only cases whose names have one of them.

    seed: of the order, and of texts that are made up.
    """
    end = None if seconds is None else time.monotonic() + seconds
    chance = random.Random(seed)
    cases = _mixed([*structures.cases(), *encodings.cases()], list(texts.cases(chance)), chance)
    if words:
        cases = [case for case in cases if any(word in case.name for word in words)]
    found: list[Finding] = []
    slow: list[Finding] = []
    tried = 0
    # What was imported and made until now is no garbage, and would be looked through after each case.
    gc.freeze()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases:
            if end is not None and time.monotonic() > end:
                break
            finding = find(case)
            tried += 1
            if finding.problem and not any(case.name.startswith(start) for start in ALLOWED):
                print(f"{case.name} grows: {finding.problem}", flush=True)
                print(f"  once more: python -m tests.growth {shlex.quote(case.name)} --seed {seed}", flush=True)
                found.append(finding)
            slow = sorted([*slow, finding], key=lambda each: -each.seconds * each.case.most / each.size)[:_SHOWN]
    gc.unfreeze()
    print(f"{tried} of {len(cases)} inputs that grow, --seed {seed}: {len(found)} take more time than they should.")
    print("The slowest, at their largest:")
    for each in slow:
        print(f"  {each.seconds * each.case.most / each.size:.2f} s: {each.case.name}")
    return found
