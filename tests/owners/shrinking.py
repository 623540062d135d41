"""The fewest and smallest requests that the servers still answer differently, for who has to find out why."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.owners.playing import Blurred, Difference, Sides, replay
from tests.owners.steps import Step

__all__ = ["shrunk"]

# Seconds between two steps where the difference needs writes at different times.
_PAUSE = 1.0


def shrunk(sides: Sides, found: Difference, seconds: float) -> Difference | None:
    """A smaller difference of the same kind, after at most about `seconds`. None if it can't be had again: it came of chance."""
    return _Shrinker(sides, time.monotonic() + seconds).run(found)


class _Shrinker:
    def __init__(self, sides: Sides, end: float) -> None:
        self._sides = sides
        self._end = end
        self._pause = 0.0

    def run(self, found: Difference) -> Difference | None:
        best = self._again(found, found.steps)
        if best is None:
            self._pause = _PAUSE
            best = self._again(found, found.steps)
        if best is None:
            return None
        smaller: Difference | None = best
        while smaller is not None:
            best = smaller
            smaller = next((each for steps in _smaller(best.steps) if (each := self._try(best, steps))), None)
        return best

    def _try(self, best: Difference, steps: tuple[Step, ...]) -> Difference | None:
        if time.monotonic() > self._end:
            return None
        again = self._again(best, steps)
        return (
            again if again is not None and again.upstream[:3] == best.upstream[:3] and again.ours[:3] == best.ours[:3] else None
        )

    def _again(self, found: Difference, steps: tuple[Step, ...]) -> Difference | None:
        for _ in range(4):
            try:
                return replay(self._sides, found.definition, steps, self._pause)
            except Blurred:
                continue
        return None


def _smaller(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Without one of the steps before the last, then without one value of a body."""
    for index in range(len(steps) - 1):
        yield steps[:index] + steps[index + 1 :]
    for index in reversed(range(len(steps))):
        if "&" in steps[index].path:
            head, _, query = steps[index].path.partition("?")
            for part in query.split("&"):
                left = "&".join(each for each in query.split("&") if each != part)
                yield (*steps[:index], replace(steps[index], path=f"{head}?{left}"), *steps[index + 1 :])
        for body in _less(steps[index].body):
            yield (*steps[:index], replace(steps[index], body=body), *steps[index + 1 :])


def _less(body: Any) -> Iterator[Any]:
    if not isinstance(body, dict | list):
        return
    for key in list(body) if isinstance(body, dict) else range(len(body)):
        if key in ("apiVersion", "kind", "name"):
            continue
        less = copy.copy(body)
        del less[key]
        yield less
        for child in _less(body[key]):
            changed = copy.copy(body)
            changed[key] = child
            yield changed
