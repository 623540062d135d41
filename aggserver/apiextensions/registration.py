"""Registration: the APIServices by which the cluster's aggregator sends requests to this server.

`Registrar` reconciles one APIService for each group and version that the server serves: it creates missing ones, updates those
that differ (the CA was rotated, somebody edited them) and deletes its own that are no longer served. It recognizes its own by a
label and by the service they name. Others of the same name are left alone and reported: those that kube-apiserver made for its
own CRDs, those of another installation, and those created by hand. APIServices of adopted group-versions are left alone silently.
Source: k8s.io/kube-aggregator pkg/controllers/autoregister, pkg/apis/apiregistration/validation, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import random as randomness
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from aggserver.apiextensions.api_service import ADOPTED, API_SERVICES, FIRST_VERSION_PRIORITY, Service, api_service, ownership
from aggserver.apiextensions.followed_api_services import FollowedAPIServices
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import Sleep
from aggserver.meta import versions
from aggserver.meta.json_types import JSONObject

__all__ = ["Registrar", "Service"]

logger = logging.getLogger(__name__)

GRANT = (
    "grant get, list, watch, create, update and delete on apiservices.apiregistration.k8s.io to this server's service account "
    "(a ClusterRole and a ClusterRoleBinding), or create the APIServices by hand"
)


@dataclass(frozen=True, slots=True)
class _Write:
    """One request that brings the cluster closer to the desired state."""

    method: str
    path: str
    body: JSONObject
    what: str


class Registrar:
    """`want` sets the desired state, at any time; `run` is the task that reconciles it."""

    def __init__(
        self,
        cluster: Cluster,
        service: Service,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._service = service
        self._wanted: dict[str, JSONObject] | None = None
        self._services = FollowedAPIServices(cluster, GRANT, _log, clock=clock, sleep=sleep, random=random)

    def want(self, group_versions: Iterable[tuple[str, str]], ca_bundle: bytes) -> None:
        """Replace the desired state: (group, version) pairs, and the CA (PEM) that the aggregator must trust."""
        wanted: dict[str, JSONObject] = {}
        groups: dict[str, list[str]] = {}
        for group, version in group_versions:
            groups.setdefault(group, []).append(version)
        for group, names in groups.items():
            for index, version in enumerate(sorted(set(names), key=versions.sort_key)):
                priority = max(FIRST_VERSION_PRIORITY - index, 1)
                wanted[f"{version}.{group}"] = api_service(group, version, priority, self._service, ca_bundle)
        self._wanted = wanted
        self._services.look_again()

    async def run(self) -> None:
        """Run until cancelled. Nothing is changed before `want` is called for the first time."""
        await self._services.run(self._reconcile)

    async def _reconcile(self) -> bool:
        """Take all steps that are needed now. Returns False if one failed and should be retried."""
        if self._wanted is None or self._services.found is None:
            return True
        settled = True
        for name, step in self._steps(self._wanted, self._services.found):
            try:
                answer = await self._cluster.request(step.method, step.path, body=step.body)
            except (ClusterError, Unreachable) as error:
                settled = self._failed(name, step, error) and settled
            else:
                logger.info("%s APIService %s", step.what, name)
                self._services.report(name, "")
                self._record(name, step, answer)
        return settled

    def _steps(self, wanted: Mapping[str, JSONObject], found: Mapping[str, JSONObject]) -> list[tuple[str, _Write]]:
        steps: list[tuple[str, _Write]] = []
        for name, target in wanted.items():
            current = found.get(name)
            if current is None:
                steps.append((name, _Write("POST", API_SERVICES, target, "created")))
                continue
            whose = ownership(current, self._service)
            if not whose and current["spec"] != target["spec"]:
                steps.append((name, _Write("PUT", f"{API_SERVICES}/{name}", {**current, "spec": target["spec"]}, "updated")))
            else:
                is_foreign = whose not in ("", ADOPTED)
                self._services.report(name, f"APIService {name} is left alone: it is {whose}" if is_foreign else "")
        for name, current in found.items():
            if name not in wanted and not ownership(current, self._service):
                uid = current["metadata"].get("uid", "")
                body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
                steps.append((name, _Write("DELETE", f"{API_SERVICES}/{name}", body, "removed")))
        # Forget reported problems of APIServices that are no longer wanted.
        for name in self._services.troubled - wanted.keys() - {name for name, _ in steps} - {""}:
            self._services.report(name, "")
        return steps

    def _record(self, name: str, step: _Write, answer: JSONObject) -> None:
        """Record the result of a step at once: until the watch delivers it, the step could be taken twice."""
        found = self._services.found
        if found is None:
            return
        if step.method == "DELETE":
            found.pop(name, None)
        else:
            found[name] = answer

    def _failed(self, name: str, step: _Write, error: ClusterError | Unreachable) -> bool:
        """Report a failed step. Returns whether no retry is needed: the watch delivers the other change, or the deletion."""
        if isinstance(error, ClusterError) and error.code == 409:
            return True
        if isinstance(error, ClusterError) and error.code == 404 and step.method != "POST":
            return True
        if isinstance(error, ClusterError) and error.code == 403:
            self._services.report(name, f"APIService {name} can't be {step.what}: {error.message}; {GRANT}")
        else:
            self._services.report(name, f"APIService {name} can't be {step.what}: {error}")
        return False


def _log(_name: str, problem: str) -> None:
    if problem:
        logger.warning("%s", problem)
