"""What a node, a user or a rollout does to the pod while clients write and watch: nothing is lost, and how long it takes.

The clients are those of tests/history, through the cluster's aggregator; its checker says whether what was acknowledged is there,
and whether each watcher was told of each change once. The time without an answer is printed, since it is what docs/cluster.md
promises; nothing fails because of it, but what takes two minutes has not come back.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping

import pytest

from tests.controlplane.cluster import Cluster
from tests.history.checker import check
from tests.history.clients import clients
from tests.history.scenarios import observe
from tests.history.wire import Gone, Shared, Wire, connected, path_of
from tests.integration.in_the_cluster.conftest import SELECTOR, Pod
from tests.kind.cluster import NAMESPACE
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

WRITES = 100  # before and after each
SEED = 34_017
# Seconds between two looks of the one who measures, and between two writes of a writer.
LOOK = 0.05
PAUSE = 0.02


def _killed(pod: Pod) -> None:
    pod.kill()


def _deleted(pod: Pod) -> None:
    pod.cluster.kubectl("delete", "pod", "-n", NAMESPACE, pod.name, "--wait=false")


def _evicted(pod: Pod) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name, "namespace": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod.name}/eviction"
    pod.cluster.kubectl("create", "--raw", path, "-f", "-", input=json.dumps(eviction))


def _restarted(pod: Pod) -> None:
    pod.cluster.kubectl("rollout", "restart", "deployment/aggserver", "-n", NAMESPACE)
    pod.cluster.kubectl("rollout", "status", "deployment/aggserver", "-n", NAMESPACE, KUBECTL_LIMIT)


def _drained(pod: Pod) -> None:
    """Its node. Where that is the only one, the pod is back when it may have pods again."""
    options = ("--ignore-daemonsets", "--delete-emptydir-data", f"--pod-selector={SELECTOR}")
    node = pod.node
    pod.cluster.kubectl("drain", node, *options, KUBECTL_LIMIT)
    pod.cluster.kubectl("uncordon", node)


# A new pod comes first: the kubelet waits ten seconds before it starts a container of the same pod for the third time.
OUTAGES: dict[str, Callable[[Pod], None]] = {
    "deleted": _deleted,
    "killed": _killed,
    "evicted": _evicted,
    "rollout restart": _restarted,
    "drained": _drained,
}


class _Clock:
    """Looks all the time, and knows the longest time between two answers. clock: monotonic, in seconds."""

    def __init__(self, wire: Wire, clock: Callable[[], float] = time.monotonic) -> None:
        self.longest = 0.0
        self._wire = wire
        self._clock = clock
        self._answered = clock()

    async def run(self) -> None:
        while True:
            try:
                status, _ = await self._wire.call("GET", path_of("signs"))
            except Gone:
                status = 0
            if status == 200:
                now = self._clock()
                self.longest = max(self.longest, now - self._answered)
                self._answered = now
            await asyncio.sleep(LOOK)


async def test_nothing_is_lost(aggregated: Cluster, pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    times = await interrupted(aggregated, pod, OUTAGES)
    with capsys.disabled():
        print_times(times)


async def interrupted(cluster: Cluster, pod: Pod, outages: Mapping[str, Callable[[Pod], None]]) -> dict[str, float]:
    """The longest time without an answer in each of them, in seconds, where nothing was lost.

    One history for all: what is left of another would be objects that nobody has made. So a kept cluster can't have a second run.
    """
    shared, chance = Shared(), random.Random(SEED)
    shared.shaken = True
    shared.up.set()
    await asyncio.to_thread(cluster.kubectl, "create", "namespace", "other", check=False)
    times: dict[str, float] = {}
    async with connected([cluster.kubeconfig], chance) as wire:
        clock = _Clock(wire)
        looking = asyncio.create_task(clock.run())

        async def all_outages() -> None:
            for name, outage in outages.items():
                await shared.progress.more(WRITES)
                before = await asyncio.to_thread(pod.incarnations)
                clock.longest = 0.0
                await asyncio.to_thread(outage, pod)
                await asyncio.to_thread(pod.wait_until_ready)
                await shared.progress.more(WRITES)
                # Otherwise nothing has happened.
                assert await asyncio.to_thread(pod.incarnations) != before
                times[name] = clock.longest

        seen = await observe(wire, shared, chance, clients, all_outages, goal=WRITES, pause=PAUSE)
        looking.cancel()
    verdict = check(seen.writes, seen.recordings)
    assert not verdict.faults, f"{verdict}"
    assert len(verdict.truth.facts) > WRITES
    assert max(times.values()) < HANG_SECONDS
    return times


def print_times(times: Mapping[str, float]) -> None:
    print("\nnothing was lost; without an answer:", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items()))
