"""SelectorIndex: the objects with a selector that match the labels of another one, such as the Services of a Pod.

Each selector is kept under one of the labels that it requires, the one that fewest others are kept under, so that to look up the
labels of a Pod takes no time for the thousands of Services that require something else. Those that require the same are looked at
in turns with other tasks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from aggserver.informers.work_queue import in_turns
from aggserver.meta.selectors import LabelSelector

__all__ = ["SelectorIndex"]

_AT_ONCE = 500  # selectors that are compared before other tasks run
# (namespace, key, value) of a label; ("", "") for selectors that require no label of one value.
_Place = tuple[str, str, str]


class SelectorIndex:
    def __init__(self) -> None:
        self._selectors: dict[str, LabelSelector] = {}
        self._place_of: dict[str, _Place] = {}
        self._at: dict[_Place, dict[str, None]] = {}

    def put(self, key: str, selector: LabelSelector | None) -> None:
        """Set the selector of an object, None for none. key: `namespace/name`."""
        if key in self._selectors and self._selectors[key] == selector:
            return
        if key in self._selectors:
            del self._selectors[key]
            place = self._place_of.pop(key)
            del self._at[place][key]
            if not self._at[place]:
                del self._at[place]
        if selector is not None:
            place = self._best(key.partition("/")[0], selector)
            self._selectors[key] = selector
            self._place_of[key] = place
            self._at.setdefault(place, {})[key] = None

    def get(self, key: str) -> LabelSelector | None:
        return self._selectors.get(key)

    async def matching(self, namespace: str, labels: Mapping[str, str]) -> AsyncIterator[str]:
        """The keys of the objects in a namespace whose selectors match."""
        places = [(namespace, name, value) for name, value in labels.items()]
        candidates = [key for place in (*places, (namespace, "", "")) for key in self._at.get(place, ())]
        async for key in in_turns(candidates, _AT_ONCE):
            selector = self._selectors.get(key)  # it may have gone meanwhile
            if selector is not None and selector.matches(labels):
                yield key

    def _best(self, namespace: str, selector: LabelSelector) -> _Place:
        places = [
            (namespace, each.key, each.values[0])
            for each in selector.requirements()
            if each.operator == "In" and len(each.values) == 1
        ]
        return min(places, key=lambda place: len(self._at.get(place, ())), default=(namespace, "", ""))
