"""PodIndex: what controllers need to know of all Pods, found by their labels, in one watch for all of these controllers.

A server may have a hundred thousand Pods, so only a `Pod` of about a kilobyte is kept of each. A selector is asked about the
Pods with one of its labels, the one that fewest have, and not about all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from aggserver.controllers.pod_facts import Pod, pod_of
from aggserver.informers.informer import TransformingInformer
from aggserver.informers.shared import SharedTask
from aggserver.informers.work_queue import CallLater, call_later
from aggserver.meta.selectors import LabelSelector
from aggserver.registry.store import Store

__all__ = ["PodIndex"]

K = TypeVar("K")
V = TypeVar("V")


# (the Pod as it was, as it is): None before it was known, or after it is gone.
Listener = Callable[[Pod | None, Pod | None], Awaitable[None]]


class PodIndex:
    """pods: the store of Pods, asked for when the first controller runs the index."""

    def __init__(self, pods: Callable[[], Store], later: CallLater = call_later) -> None:
        self._store = pods
        self._later = later
        self._shared = SharedTask(self._follow)
        self._follower: TransformingInformer[Pod] | None = None
        self._caught_up = asyncio.Event()
        self._listeners: list[Listener] = []
        self._pods: dict[str, Pod] = {}
        self._in_namespace: dict[str, dict[str, Pod]] = {}
        self._with_label: dict[tuple[str, str, str], dict[str, Pod]] = {}  # by namespace, key and value
        self._using: dict[str, dict[str, None]] = {}  # the keys of Pods by the key of a claim that they name

    async def run(self) -> None:
        """Follow the Pods while a controller runs this."""
        await self._shared.run()

    async def caught_up(self) -> None:
        """Wait until all Pods are known that there were when the index began."""
        await self._caught_up.wait()

    def listen(self, listener: Listener) -> None:
        """Await a function with each change from now on. The next change waits for it."""
        self._listeners.append(listener)

    def selected(self, namespace: str, selector: LabelSelector) -> Iterable[Pod]:
        """The Pods among which are all that a selector matches: those with one of its labels, or all of the namespace."""
        fewest = self._in_namespace.get(namespace, {})
        for requirement in selector.requirements():
            if requirement.operator == "In" and len(requirement.values) == 1:
                found = self._with_label.get((namespace, requirement.key, requirement.values[0]), {})
                fewest = min(fewest, found, key=len)
        return list(fewest.values())

    def get(self, key: str) -> Pod | None:
        """The Pod with a key, `namespace/name`; None if there is none."""
        return self._pods.get(key)

    def disrupted(self) -> list[Pod]:
        """The Pods that are to be disrupted, by their condition."""
        return [pod for pod in self._pods.values() if pod.disrupted_since]

    def users(self, claim: str) -> list[Pod]:
        """The Pods that name a claim. claim: its key."""
        return [self._pods[key] for key in self._using.get(claim, ())]

    async def _follow(self) -> None:
        if self._follower is None:
            self._follower = TransformingInformer(self._store(), pod_of, self._sync, self._later)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follower.run())
            await self._follower.caught_up()
            self._caught_up.set()

    async def _sync(self, key: str, pod: Pod | None) -> float | None:
        before = self._pods.pop(key, None)
        if before is not None:
            self._remove(before)
        if pod is not None:
            self._add(pod)
        if pod != before:
            for listener in self._listeners:
                await listener(before, pod)
        return None

    def _add(self, pod: Pod) -> None:
        self._pods[pod.key] = pod
        self._in_namespace.setdefault(pod.namespace, {})[pod.key] = pod
        for name, value in pod.labels.items():
            self._with_label.setdefault((pod.namespace, name, value), {})[pod.key] = pod
        for claim in pod.claims:
            self._using.setdefault(f"{pod.namespace}/{claim}", {})[pod.key] = None

    def _remove(self, pod: Pod) -> None:
        _drop(self._in_namespace, pod.namespace, pod.key)
        for name, value in pod.labels.items():
            _drop(self._with_label, (pod.namespace, name, value), pod.key)
        for claim in set(pod.claims):
            _drop(self._using, f"{pod.namespace}/{claim}", pod.key)


def _drop(groups: dict[K, dict[str, V]], group: K, key: str) -> None:
    members = groups[group]
    del members[key]
    if not members:
        del groups[group]
