"""Histories of one definition: drawn, played on both servers, and explained where these do not agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tests.owners.playing import Difference, Sides, play
from tests.owners.schemas import Definition
from tests.owners.shrinking import shrunk
from tests.owners.steps import Story

__all__ = ["Told", "run"]

# Of each kind of difference one is made smaller, and that for this many seconds.
_EXPLAINED = 3
_SHRINK_SECONDS = 60.0


@dataclass(frozen=True)
class Told:
    seed: str
    definition: Definition
    differences: Sequence[Difference]
    steps: int

    def explained(self, sides: Sides) -> str:
        """The definition, and for some differences the fewest requests. The definition is made anew on both."""
        kinds = {each.kind: each for each in reversed(self.differences)}
        texts = [f"seed {self.seed}; {len(self.differences)} differences of {len(kinds)} kinds; the definition:"]
        texts += [json.dumps(self.definition.before), "its change:", json.dumps(self.definition.after)]
        for difference in list(kinds.values())[:_EXPLAINED]:
            smaller = shrunk(sides, difference, _SHRINK_SECONDS)
            said = "" if smaller else "not answered differently once more:\n"
            texts.append(f"{said}{smaller or difference}")
        sides.forget(self.definition)
        return "\n\n".join(texts)


def run(sides: Sides, seed: str, definition: Definition, stories: int, steps: int) -> Told:
    """So many histories, of so many steps each. A definition without differences is deleted; others `explained` needs."""
    sides.define(definition, changed=False)
    differences, count = play(sides, definition, [Story(f"{seed} {number}", definition) for number in range(stories)], steps)
    if not differences:
        sides.forget(definition)
    return Told(seed, definition, differences, count)
