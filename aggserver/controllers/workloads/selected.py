"""Which objects without a controller a workload's selector selects: those it may adopt.

A join that is kept up to date as either side changes, so that a hundred thousand Pods do not slow down a workload that selects
others, nor workloads Pods: a Pod finds workloads by its labels, and a workload finds Pods by the label that its selector demands.
Only selectors that demand no label are compared with every object of the namespace.
Source: k8s.io/kubernetes pkg/controller/controller_ref_manager.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from aggserver.informers.work_queue import in_turns
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.selectors import LabelSelector, SelectorError

__all__ = ["Selected", "Workload", "selector_of"]

_AT_ONCE = 1000  # objects that are compared before other tasks run
# (namespace, label, value), or (namespace, '', '') for all.
_Place = tuple[str, str, str]

K = TypeVar("K")
V = TypeVar("V")


class Workload(NamedTuple):
    """A workload by its kind and its key, `namespace/name`."""

    kind: str
    key: str


def selector_of(owner: JSONMapping) -> LabelSelector | None:
    """The selector of a workload; None if it selects nothing."""
    given = owner["spec"].get("selector") or {}
    if owner["kind"] == "ReplicationController":
        given = {"matchLabels": given}
    try:
        selector = LabelSelector.from_object(given)
    except SelectorError:
        return None
    return None if selector.empty else selector


class Selected:
    """The objects of one kind that have no controller, and the workloads that select such objects.

    may_adopt: whether a workload may adopt the object with a key if it selects it. Pairs that stay as they are would be kept for
    ever, so that their number would grow with the product of both.
    """

    def __init__(self, may_adopt: Callable[[Workload, str], bool] = lambda workload, key: True) -> None:
        self._may_adopt = may_adopt
        self._labels: dict[str, Mapping[str, str]] = {}  # by the objects' keys
        self._objects: dict[_Place, dict[str, None]] = {}
        self._selectors: dict[Workload, LabelSelector] = {}
        self._workloads: dict[_Place, dict[Workload, None]] = {}
        self._by_workload: dict[Workload, dict[str, None]] = {}
        self._by_object: dict[str, dict[Workload, None]] = {}

    def of(self, workload: Workload) -> list[str]:
        """The keys of the objects that the workload may adopt."""
        return list(self._by_workload.get(workload, ()))

    def put_object(self, key: str, labels: Mapping[str, str]) -> list[Workload]:
        """An object without a controller was written. Returns the workloads that select it."""
        if self._labels.get(key) != labels:
            self.remove_object(key)
            self._labels[key] = labels
            for place in _places(key, labels):
                self._objects.setdefault(place, {})[key] = None
            for place in _places(key, labels):
                for workload in self._workloads.get(place, ()):
                    self._join(workload, key)
        return list(self._by_object.get(key, ()))

    def remove_object(self, key: str) -> None:
        """An object is gone, or has a controller."""
        labels = self._labels.pop(key, None)
        if labels is None:
            return
        for place in _places(key, labels):
            _discard(self._objects, place, key)
        for workload in self._by_object.pop(key, ()):
            _discard(self._by_workload, workload, key)

    async def put_workload(self, workload: Workload, selector: LabelSelector | None) -> None:
        if self._selectors.get(workload) == selector:
            return
        self.remove_workload(workload)
        if selector is None:
            return
        self._selectors[workload] = selector
        self._workloads.setdefault(self._place(workload, selector), {})[workload] = None
        # Objects that come while other tasks run find the workload themselves.
        async for key in self._candidates(workload, selector):
            if key in self._labels and self._selectors.get(workload) is selector:
                self._join(workload, key)

    def remove_workload(self, workload: Workload) -> None:
        selector = self._selectors.pop(workload, None)
        if selector is None:
            return
        _discard(self._workloads, self._place(workload, selector), workload)
        for key in self._by_workload.pop(workload, ()):
            _discard(self._by_object, key, workload)

    def _candidates(self, workload: Workload, selector: LabelSelector) -> AsyncIterator[str]:
        found = self._objects.get(self._place(workload, selector), {})
        return in_turns(list(found), _AT_ONCE)

    def _join(self, workload: Workload, key: str) -> None:
        known = self._by_workload.get(workload, {})
        if key in known or not self._may_adopt(workload, key):
            return
        if self._selectors[workload].matches(self._labels[key]):
            self._by_workload.setdefault(workload, known)[key] = None
            self._by_object.setdefault(key, {})[workload] = None

    @staticmethod
    def _place(workload: Workload, selector: LabelSelector) -> _Place:
        namespace = workload.key.partition("/")[0]
        for label, operator, values in selector.requirements():
            if operator == "In" and len(values) == 1:
                return namespace, label, values[0]
        return namespace, "", ""


def _places(key: str, labels: Mapping[str, str]) -> Iterator[_Place]:
    namespace = key.partition("/")[0]
    yield namespace, "", ""
    for label, value in labels.items():
        yield namespace, label, value


def _discard(index: dict[K, dict[V, None]], at: K, member: V) -> None:
    members = index.get(at, {})
    members.pop(member, None)
    if not members:
        index.pop(at, None)
