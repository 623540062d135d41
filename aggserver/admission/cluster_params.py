"""ClusterParams: the objects that policies have as params, of any kind of the hosting cluster.

A kind is watched from the first request that needs it, which waits at most a second for the list, until no policy names the kind
any more. So the paramKinds of policies for other resources are not read, and need no RBAC rule. This server may serve a kind
itself: it is read through the aggregator like any other, which is why readiness does not depend on params.
Source: k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_source.go (ensureParamsForPolicyLocked), policy_dispatcher.go
(CollectParams), v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aggserver.admission.cluster_kinds import discovered, resources_of_kind
from aggserver.admission.followed import Followed, group_path
from aggserver.admission.sources import Collection, StoredParams, param_kinds
from aggserver.cluster import Cluster
from aggserver.cluster.pacing import Sleep
from aggserver.meta.errors import qualified
from aggserver.meta.versions import parse_group_version

__all__ = ["ClusterParams"]

log = logging.getLogger("aggserver.admission")

# How long a request waits for the first list.
WAIT_SECONDS = 1.0
# Until a cluster that does not serve a kind is asked again. Upstream asks every 30 s.
RECHECK_SECONDS = 5.0
# How often kinds that no policy names any more are looked for.
SWEEP_SECONDS = 60.0


class ClusterParams:
    """Watches the paramKinds of policies. policies: one collection for each kind of policy. `run` is the task."""

    def __init__(
        self,
        cluster: Cluster,
        policies: Iterable[Collection],
        *,
        wait_seconds: float = WAIT_SECONDS,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._policies = tuple(policies)
        self._wait_seconds = wait_seconds
        self._sleep = sleep
        self._params: dict[tuple[str, str], tuple[StoredParams, Followed, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        try:
            while True:
                await self._sleep(SWEEP_SECONDS)
                for key in self._params.keys() - param_kinds(self._policies):
                    self._params.pop(key)[2].cancel()
        finally:
            for *_, task in self._params.values():
                task.cancel()
            self._params.clear()

    async def find(self, api_version: str, kind: str) -> StoredParams | None:
        """The objects of a kind, as last known; None if the cluster does not serve the kind."""
        key = (api_version, kind)
        if key not in self._params or self._params[key][2].done():
            self._params[key] = self._follow(api_version, kind)
        params, followed, _ = self._params[key]
        if not params.is_known:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await followed.known.wait()
                params.is_known = True
            except TimeoutError:
                return params
        return params if params.exists else None

    def warning(self) -> str | None:
        """For the readiness check: the kinds that can't be read; None if there are none."""
        troubles = [text for _, followed, _ in self._params.values() if (text := followed.trouble())]
        return f"params of policies: {'; '.join(troubles)}" if troubles else None

    def _follow(self, api_version: str, kind: str) -> tuple[StoredParams, Followed, asyncio.Task[None]]:
        params = StoredParams()
        group, version = parse_group_version(api_version)

        async def locate() -> str | None:
            found = resources_of_kind(await discovered(self._cluster, api_version), api_version, kind)
            if not found:
                params.exists = False
                return None
            if not params.exists:
                followed.known.clear()
                params.is_known = False
            params.exists, params.namespaced = True, found[0].namespaced
            return f"{group_path(group, version)}/{found[0].resource}"

        followed = Followed(
            self._cluster,
            qualified(kind, group),
            locate,
            params,
            grant=(
                f"grant this server's service account list and watch on the resource of kind {kind} in API group '{group}', "
                "which a policy names as its paramKind"
            ),
            recheck_seconds=RECHECK_SECONDS,
            sleep=self._sleep,
        )
        task = asyncio.create_task(followed.run())
        task.add_done_callback(_report)
        return params, followed, task


def _report(task: asyncio.Task[None]) -> None:
    """Log why a task failed, such as an answer that is no discovery document. The next request starts it again."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("params of policies: %s", error, exc_info=error)
