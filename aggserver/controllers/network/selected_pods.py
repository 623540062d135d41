"""SelectedPods: the Services, and the Pods that each of them selects, for the controllers of Endpoints and of EndpointSlices.

A Service is synced soon after one of its Pods has changed, and once for all changes until then: the more Pods it has, the longer
that takes, so that the work for a rollout of thousands of Pods does not grow with their square.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aggserver.controllers.network.services import has_endpoints
from aggserver.controllers.pod_facts import Pod
from aggserver.controllers.pod_index import PodIndex
from aggserver.controllers.selector_index import SelectorIndex
from aggserver.informers.informer import TransformingInformer
from aggserver.informers.shared import SharedTask
from aggserver.informers.work_queue import CallLater, call_later, in_turns
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.registry.store import Store

__all__ = ["SelectedPods"]

# Seconds that a change waits for others, for each Pod of the Service, and at most.
_WAIT, _LONGEST = 0.0002, 1.0
_STEPS = 500  # Pods or endpoints that are handled before other tasks run: about a millisecond

# (key of a Service, seconds within which it is to be synced)
_Listener = Callable[[str, float], None]


class SelectedPods:
    """services: their store, asked for when the first controller runs this. `services`: the known ones by key."""

    def __init__(self, services: Callable[[], Store], pods: PodIndex, later: CallLater = call_later) -> None:
        self.services: dict[str, JSONObject] = {}
        self._store = services
        self._pods = pods
        self._later = later
        self._shared = SharedTask(self._follow)
        self._follower: TransformingInformer[JSONObject] | None = None
        self._caught_up = asyncio.Event()
        self._selecting = asyncio.Event()  # whether there is a Service that selects Pods
        self._selectors = SelectorIndex()
        self._counts: dict[str, int] = {}  # how many Pods each Service had when it was last asked
        self._listeners: list[_Listener] = []
        pods.listen(self._pod_changed)

    async def run(self) -> None:
        """Follow Services, and Pods once a Service selects some, while a controller runs this."""
        await self._shared.run()

    async def caught_up(self) -> None:
        """Wait until all Services are known that there were at the beginning."""
        await self._caught_up.wait()

    def listen(self, listener: _Listener) -> None:
        """Call a function for each Service that changes, is gone, or has Pods that change."""
        self._listeners.append(listener)

    async def pods(self, key: str) -> list[Pod]:
        """The Pods that a Service selects."""
        selector = self._selectors.get(key)
        found: list[Pod] = []
        if selector is not None:
            await self._pods.caught_up()
            candidates = in_turns(self._pods.selected(key.partition("/")[0], selector), _STEPS)
            found = [pod async for pod in candidates if selector.matches(pod.labels)]
        self._counts[key] = len(found)
        return found

    async def _follow(self) -> None:
        if self._follower is None:
            self._follower = TransformingInformer(self._store(), _kept, self._sync, self._later)
            self.services = self._follower.objects
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follower.run())
            tasks.create_task(self._follow_pods())
            await self._follower.caught_up()
            self._caught_up.set()

    async def _follow_pods(self) -> None:
        await self._selecting.wait()
        await self._pods.run()

    async def _sync(self, key: str, service: JSONObject | None) -> float | None:
        if service is not None and has_endpoints(service):
            self._selecting.set()
        self._selectors.put(key, _selector(service) if service is not None else None)
        if service is None:
            self._counts.pop(key, None)
        for listener in self._listeners:
            listener(key, 0.0)
        return None

    async def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        is_relabelled = before is None or after is None or before.labels != after.labels
        for pod in (before, after) if is_relabelled else (after,):
            if pod is not None:
                async for key in self._selectors.matching(pod.namespace, pod.labels):
                    within = min(_LONGEST, _WAIT * self._counts.get(key, 0))
                    for listener in self._listeners:
                        listener(key, within)


def _kept(service: JSONObject) -> JSONObject:
    metadata = {name: value for name, value in service["metadata"].items() if name not in ("managedFields", "annotations")}
    return {"metadata": metadata, "spec": service["spec"]}


def _selector(service: JSONObject) -> LabelSelector | None:
    if not has_endpoints(service):
        return None
    try:
        return LabelSelector.from_object({"matchLabels": service["spec"]["selector"]})
    except SelectorError:
        return None
