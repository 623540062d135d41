"""FollowedAPIServices: the cluster's APIServices, kept up to date, and what is wrong with them.

Who registers APIServices and who switches them do so in their own way, but both follow all of them, act when something has
changed, try again after a pause, and report each problem once.
Source: k8s.io/client-go tools/cache/reflector.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import random as randomness
import time
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet

from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import Sleep, settling
from aggserver.cluster.problems import Problems
from aggserver.cluster.reflector import Reflector
from aggserver.meta.json_types import JSONObject

__all__ = ["FollowedAPIServices", "OnProblem"]

# (name of an APIService, '' for all of them; what is wrong, '' for nothing any more).
OnProblem = Callable[[str, str], None]


class FollowedAPIServices:
    """`run` is the task. found: by name; None before the first list. Who writes one may record the answer in it at once.

    grant: the permissions to ask for where the cluster refuses the watch. clock: monotonic, in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        grant: str,
        on_problem: OnProblem,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self.found: dict[str, JSONObject] | None = None
        self._cluster = cluster
        self._grant = grant
        self._on_problem = on_problem
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._changed = asyncio.Event()
        self._problems = Problems()

    @property
    def troubled(self) -> AbstractSet[str]:
        """The names of the APIServices with a problem; '' if they can't be watched."""
        return self._problems.subjects()

    def look_again(self) -> None:
        """Call `settle` even if no APIService has changed, because something else has."""
        self._changed.set()

    async def run(self, settle: Callable[[], Awaitable[bool]]) -> None:
        """Follow them until cancelled. settle: called after each change, and after a pause again if it returned False."""
        reflector = Reflector(
            self._cluster,
            API_SERVICES,
            {},
            self._on_state,
            self._on_error,
            clock=self._clock,
            sleep=self._sleep,
            random=self._random,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reflector.run())
            tasks.create_task(settling(self._changed, settle, sleep=self._sleep, random=self._random))

    def report(self, name: str, problem: str) -> None:
        """Hand a problem on when it is new and when it is gone, but not while it lasts. problem: '' for none."""
        if self._problems.changed(problem, name):
            self._on_problem(name, problem)

    def _on_state(self, objects: Mapping[str, JSONObject], _: AbstractSet[str]) -> None:
        self.found = dict(objects)
        self._changed.set()

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is None:
            self.report("", "")
        elif isinstance(error, Unreachable):
            pass  # logged once for all watches, see `cluster/outage.py`; and nothing can be reported to the cluster meanwhile
        elif error.code == 403:
            self.report("", f"APIServices can't be watched: {error.message}; {self._grant}")
        else:
            self.report("", f"APIServices can't be watched: {error}")
