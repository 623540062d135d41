"""Lease: elects one of several servers, which works as long as it renews a Lease of the cluster.

Whether a Lease has expired is judged by when this server saw it change, not by the times in it, because the clocks of machines
differ. The holder gives up before the others may take over: it stops working RENEW_SECONDS after it sent its last renewal, even
if it waits for an answer. Others count from when they saw that renewal, which is later than it was sent.
Source: k8s.io/client-go tools/leaderelection/leaderelection.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.pacing import Sleep
from aggserver.cluster.problems import Problems
from aggserver.errors import AggserverError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.times import format_micro_time

__all__ = ["Lease", "LeaseError", "new_identity"]

log = logging.getLogger("aggserver.lease")

T = TypeVar("T")

# As kube-controller-manager: seconds after which others take over, within which the holder must renew, and between attempts.
LEASE_SECONDS = 15
RENEW_SECONDS = 10.0
RETRY_SECONDS = 2.0
# The limit of an attempt, which is a read and a write: if it hangs, there is time for a second one.
ATTEMPT_SECONDS = RENEW_SECONDS / 2
CONFIRMATIONS = 3

GRANT = (
    "grant get, create and update on leases.coordination.k8s.io in the namespace of this server's Service to its service account"
)


class LeaseError(AggserverError):
    """Another server holds the Lease."""


def new_identity() -> str:
    """An identity for this process. The host name, which is the pod's, is for people. A restarted container has the same
    one, so a UUID is added.
    """
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Lease:
    """One Lease. identity: of this process, unique. does: what the holder does, for the log. clock: monotonic, in seconds. now:
    seconds since 1970.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        *,
        does: str = "moves definitions",
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._name = name
        self._identity = identity
        self._does = does
        self._clock = clock
        self._now = now
        self._sleep = sleep
        # The state of the Lease that was seen last, and when.
        self._seen: JSONObject = {}
        self._seen_at = 0.0
        self._problems = Problems()
        self._renewed = 0.0  # when the last write was sent that renewed the Lease

    async def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` anew each time the Lease is acquired, and cancel it when the Lease is lost; until cancelled.

        An error of `work` is raised.
        """
        while True:
            while not await self._attempt(ATTEMPT_SECONDS):
                await self._sleep(RETRY_SECONDS)
            log.info("holding the Lease %s: this server %s", self._name, self._does)
            working = asyncio.create_task(work())
            renewing = asyncio.create_task(self._renew())
            try:
                await asyncio.wait([working, renewing], return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    working.result()
                log.warning("the Lease %s is lost: this server %s no more", self._name, self._does)
            finally:
                for task in (working, renewing):
                    task.cancel()
                await asyncio.wait([working, renewing])
                await self._release()

    async def confirm(self) -> None:
        """Renew the Lease now. This shows that the cluster takes writes, and that no other server has taken over.

        Raises LeaseError, ClusterError and Unreachable.
        """
        for left in reversed(range(CONFIRMATIONS)):
            try:
                held = await self._write()
            except ClusterError as error:
                if error.code != 409 or not left:  # renewed at the same time
                    raise
            else:
                if not held:
                    raise LeaseError(f"the Lease {self._name} is held by {self._seen['holderIdentity']}")
                return

    async def _renew(self) -> None:
        """Renew the Lease regularly. Returns when it could not be renewed in time, or another server holds it."""
        while (left := self._left()) > 0:
            await self._sleep(min(RETRY_SECONDS, left))
            if (left := self._left()) <= 0 or await self._attempt(min(ATTEMPT_SECONDS, left)):
                continue
            if self._seen.get("holderIdentity") not in ("", None, self._identity):
                return

    def _left(self) -> float:
        """The seconds for which this server still holds the Lease without a renewal."""
        return self._renewed + RENEW_SECONDS - self._clock()

    async def _attempt(self, seconds: float) -> bool:
        """Try to acquire or renew the Lease within `seconds`. Returns whether this server holds it now."""
        try:
            held = await self._within(seconds, self._write())
        except (ClusterError, Unreachable, TimeoutError) as error:
            if isinstance(error, ClusterError) and error.code in (404, 409):
                return False  # somebody else was faster
            grant = f"; {GRANT}" if isinstance(error, ClusterError) and error.code == 403 else ""
            self._log_once(f"the Lease {self._name} can't be acquired: {str(error) or 'no answer in time'}{grant}")
            return False
        self._log_once("" if held else f"the Lease {self._name} is held by {self._seen['holderIdentity']}, which {self._does}")
        return held

    async def _write(self) -> bool:
        found = await self._read()
        before: JSONObject = (found or {}).get("spec") or {}
        if before != self._seen:
            self._seen, self._seen_at = before, self._clock()
        holder = before.get("holderIdentity") or ""
        if holder not in ("", self._identity) and self._clock() < self._seen_at + before.get(
            "leaseDurationSeconds", LEASE_SECONDS
        ):
            return False
        began, now = self._clock(), self._time()
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": before.get("acquireTime", now) if holder == self._identity else now,
            "renewTime": now,
            "leaseTransitions": before.get("leaseTransitions", 0) + (0 if holder == self._identity or found is None else 1),
        }
        await self._put(found, spec)
        self._renewed = max(self._renewed, began)
        return True

    async def _put(self, found: JSONObject | None, spec: JSONObject) -> None:
        if found is None:
            kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
            answer = await self._cluster.request("POST", self._collection, body={**kind, "spec": spec})
        else:
            # With the resourceVersion that was read, so that only one of two servers succeeds.
            answer = await self._cluster.request("PUT", f"{self._collection}/{self._name}", body={**found, "spec": spec})
        self._seen, self._seen_at = answer["spec"], self._clock()

    async def _read(self) -> JSONObject | None:
        return await find(self._cluster, f"{self._collection}/{self._name}")

    async def _release(self) -> None:
        """Release the Lease, so that another server need not wait. If that fails, the others wait until it expires."""
        with contextlib.suppress(ClusterError, Unreachable, TimeoutError):
            await self._within(RETRY_SECONDS, self._free())

    async def _free(self) -> None:
        found = await self._read()
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            freed = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._time()}
            await self._put(found, freed)

    async def _within(self, seconds: float, work: Coroutine[Any, Any, T]) -> T:
        """What `work` returns, if that takes no longer by this server's clock. Raises TimeoutError, and what `work` raises."""
        working, ending = asyncio.create_task(work), asyncio.create_task(self._sleep_for(seconds))
        try:
            await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise TimeoutError
            return working.result()
        finally:
            working.cancel()
            ending.cancel()
            await asyncio.wait([working, ending])

    async def _sleep_for(self, seconds: float) -> None:
        await self._sleep(seconds)

    def _time(self) -> str:
        seconds, part = divmod(self._now(), 1.0)
        return format_micro_time(int(seconds), int(part * 1_000_000))

    def _log_once(self, problem: str) -> None:
        """Log a problem when it is new, not while it persists."""
        if self._problems.changed(problem) and problem:
            log.info("%s", problem) if "is held by" in problem else log.warning("%s", problem)
