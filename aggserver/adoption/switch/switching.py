"""Switching: leads requests for group-versions of the host's definitions to this server, and back, by their APIServices.

`Switcher` changes APIServices and keeps ours as they should be: the serving certificate's CA changes, and somebody may delete an
APIService or point it elsewhere. `proxied` waits until each kube-apiserver does what the APIServices say. `end_watches` ends the
watches that clients had open at the host: a switch does not end them, and they deliver no events any more.
Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go (an update keeps the condition Available, so that requests are
proxied at once) and handler_discovery.go (AddAPIService does not forget one that has become local), and
k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (updateCustomResourceDefinition, tearDown) and
pkg/controller/status/naming_controller.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random as randomness
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aggserver.adoption.switch.api_services import OurService, Owner, deletion, name_of, owner, to_us
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.apiextensions.followed_api_services import FollowedAPIServices, OnProblem
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.pacing import REVIEWS, Sleep
from aggserver.endpoints.discovery import ADOPTED_HEADER
from aggserver.errors import AggserverError
from aggserver.meta.backoff import Backoff
from aggserver.meta.json_types import JSONObject

__all__ = ["PASSING_CATEGORY", "SwitchError", "Switcher", "end_watches", "proxied"]

logger = logging.getLogger(__name__)

GroupVersion = tuple[str, str]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

# A category that a definition has among its accepted names for a moment, see `end_watches`.
PASSING_CATEGORY = "aggserver-passing"

# How often one change is tried before the error is raised: after a conflict at once, after a failure later.
ATTEMPTS = 6

# Codes of errors that another attempt would get again.
LASTING = (400, 401, 403, 422)

# Pauses between two checks whether a kube-apiserver proxies, or has removed the passing category.
LOOKS = Backoff(initial=0.02, longest=0.5, factor=1.5)

# How many times to check whether the host has done its part in `end_watches` and `to_host`: about 4 s in all.
PATIENCE = 15

# Checks at the same time, over all kube-apiservers and group-versions.
CONCURRENT_LOOKS = 16

GRANT = (
    "grant get, list, watch, create, update and delete on apiservices.apiregistration.k8s.io, and get and update on "
    "customresourcedefinitions/status.apiextensions.k8s.io to this server's service account"
)


class SwitchError(AggserverError):
    """An APIService could not be changed, or a kube-apiserver does not follow the change. The text says which and why."""


class Switcher:
    """Changes APIServices. `run`, a task, keeps the group-versions of `to_us` at this server.

    installation: this installation's id. on_led_away: called with a group-version that the host was found to serve itself, after
    it was led here again.
    """

    def __init__(
        self,
        cluster: Cluster,
        service: Service,
        installation: str,
        on_problem: OnProblem,
        on_led_away: Callable[[GroupVersion], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._target = OurService(service, installation, b"")
        self._on_led_away = on_led_away
        self._sleep = sleep
        self._random = random
        self._kept: set[GroupVersion] = set()
        self._services = FollowedAPIServices(cluster, GRANT, on_problem, clock=clock, sleep=sleep, random=random)
        # One change at a time: otherwise `run` could take back what `to_host` has just given.
        self._changing = asyncio.Lock()

    def trust(self, ca_bundle: bytes) -> None:
        """Set the CA (PEM) that kube-apiserver must trust: before the first switch, and whenever it changes."""
        self._target = OurService(self._target.service, self._target.installation, ca_bundle)
        self._services.look_again()

    async def to_us(self, group_versions: Iterable[GroupVersion]) -> bool:
        """Send requests for (group, version) pairs to this server. Changes nothing if an APIService has another owner.

        Returns whether the host served one itself. Raises SwitchError; some may be ours then, and `to_host` gives them back.
        """
        wanted, taken = list(group_versions), False
        self._check_certificate()
        for group_version in wanted:
            await self._settle(group_version, self._checked)
        for group_version in wanted:
            async with self._changing:
                change = await self._settle(group_version, self._taken)
                taken = taken or (change is not None and change.taken)
                self._kept.add(group_version)
                self._services.report(name_of(group_version), "")
        return taken

    async def try_to_us(self, group_versions: Iterable[GroupVersion]) -> None:
        """Try the writes of `to_us` by dry runs. Raises SwitchError if kube-apiserver would refuse one."""
        self._check_certificate()
        for group_version in group_versions:
            await self._settle(group_version, self._taken, dry_run=True)

    async def to_host(self, group_versions: Iterable[GroupVersion]) -> list[GroupVersion]:
        """Let kube-apiserver serve group-versions itself again. Returns them without those whose APIService has another owner.

        Raises SwitchError.

        Our APIServices are deleted: kube-apiserver serves without one, and makes a local one within milliseconds. This waits for
        that. To make ours local is not enough: the aggregator would ask this server about discovery for ever, and without an
        answer kubectl would not know the resources any more.
        """
        wanted, given = list(group_versions), []
        await self.remove(wanted)
        for group_version in wanted:
            name, found = name_of(group_version), None
            for pause in itertools.islice(LOOKS.pauses(), PATIENCE):
                with contextlib.suppress(ClusterError, Unreachable):
                    found = await self._read(name)
                    if found is not None:
                        break
                await self._sleep(pause)
            else:
                logger.warning("APIService %s is deleted, and kube-apiserver has not made its own yet", name)
            if found is None or owner(found, self._target)[0] is not Owner.OTHER:
                given.append(group_version)
        return given

    async def remove(self, group_versions: Iterable[GroupVersion]) -> None:
        """Delete our APIServices of these group-versions, and keep them no longer. Raises SwitchError."""
        for group_version in group_versions:
            async with self._changing:
                self._forget(group_version)
                await self._settle(group_version, self._removed)

    async def run(self) -> None:
        """Keep the APIServices that were switched as they should be, until cancelled."""
        await self._services.run(self._keep)

    # --- one change ---

    def _check_certificate(self) -> None:
        if not self._target.ca_bundle:
            raise SwitchError("there is no serving certificate yet whose CA kube-apiserver could trust")

    def _checked(self, group_version: GroupVersion, found: JSONObject | None) -> None:
        if found is not None:
            whose, why = owner(found, self._target)
            if whose is Owner.OTHER:
                raise SwitchError(f"APIService {name_of(group_version)} is left alone: it is {why}")

    def _taken(self, group_version: GroupVersion, found: JSONObject | None) -> _Change | None:
        self._checked(group_version, found)
        wanted = to_us(found, group_version, self._target)
        if wanted == found:
            return None
        taken = found is None or owner(found, self._target)[0] is Owner.HOST
        return _Change("POST" if found is None else "PUT", wanted, "names this server now", taken)

    def _removed(self, _: GroupVersion, found: JSONObject | None) -> _Change | None:
        if found is None or owner(found, self._target)[0] is not Owner.OURS:
            return None
        return _Change("DELETE", deletion(found), "is deleted")

    async def _settle(
        self,
        group_version: GroupVersion,
        decide: Callable[[GroupVersion, JSONObject | None], _Change | None],
        *,
        dry_run: bool = False,
    ) -> _Change | None:
        """Read the APIService and change it as `decide` says, again after a conflict. Returns how it was changed."""
        name = name_of(group_version)
        pauses = REVIEWS.pauses(self._random)
        for left in reversed(range(ATTEMPTS)):
            try:
                change = decide(group_version, await self._read(name))
                if change is None:
                    return None
                path = API_SERVICES if change.method == "POST" else f"{API_SERVICES}/{name}"
                query = {"dryRun": "All"} if dry_run else None
                await self._cluster.request(change.method, path, query=query, body=change.body)
            except (ClusterError, Unreachable) as error:
                code = error.code if isinstance(error, ClusterError) else 0
                if not left or code in LASTING:
                    raise SwitchError(f"APIService {name} can't be changed: {error}{_grant(error)}") from error
                # Changed or deleted since it was read: read it again at once.
                if code not in (404, 409):
                    await self._sleep(next(pauses))
            else:
                if not dry_run:
                    logger.info("APIService %s %s", name, change.what)
                return change
        raise AssertionError("the last attempt returns or raises")

    async def _read(self, name: str) -> JSONObject | None:
        return await find(self._cluster, f"{API_SERVICES}/{name}")

    # --- what was switched is kept ---

    async def _keep(self) -> bool:
        """Correct what differs. Returns False if something failed and should be tried again."""
        well = True
        for group_version in sorted(self._kept):
            name = name_of(group_version)
            found = None if self._services.found is None else self._services.found.get(name)
            if self._services.found is None or found == to_us(found, group_version, self._target):
                self._services.report(name, "")
                continue
            async with self._changing:
                if group_version not in self._kept:
                    continue
                try:
                    self._checked(group_version, found)
                except SwitchError as error:
                    # Somebody has given it another owner: left alone until the watch delivers another change.
                    self._services.report(name, str(error))
                    continue
                try:
                    change = await self._settle(group_version, self._taken)
                except SwitchError as error:
                    self._services.report(name, str(error))
                    well = False
                else:
                    self._services.report(name, "")
                    if change is not None and change.taken:
                        self._on_led_away(group_version)
        return well

    def _forget(self, group_version: GroupVersion) -> None:
        self._kept.discard(group_version)
        self._services.report(name_of(group_version), "")


@dataclass(frozen=True, slots=True)
class _Change:
    """One request. what: completes "APIService NAME ...". taken: whether the host served the group-version itself before."""

    method: str
    body: JSONObject
    what: str
    taken: bool = False


# --- what kube-apiservers do ---


async def proxied(
    clusters: Iterable[Cluster],
    group_versions: Iterable[GroupVersion],
    installation: str,
    *,
    seconds: float = 30.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Wait until each kube-apiserver sends requests for all group-versions to `installation`, or if '', serves them itself.

    clusters: one for each kube-apiserver. seconds: the limit for all. Raises SwitchError, which names the kube-apiserver.
    """
    slots = asyncio.Semaphore(CONCURRENT_LOOKS)
    deadline = clock() + seconds
    wanted = list(group_versions)

    async def seen(cluster: Cluster, group_version: GroupVersion) -> str:
        """Wait until the kube-apiserver does as wanted. Returns '' then, or at the deadline what it does instead."""
        for pause in LOOKS.pauses():
            async with slots:
                why = await _look(cluster, group_version, installation)
            if not why:
                return ""
            if clock() >= deadline:
                return f"{cluster.server}: APIService {name_of(group_version)}: {why}"
            await sleep(pause)
        raise AssertionError("the pauses are endless")

    async with asyncio.TaskGroup() as tasks:
        looking = [tasks.create_task(seen(cluster, each)) for cluster in clusters for each in wanted]
    missing = [why for task in looking if (why := task.result())]
    if missing:
        more = f" (and {len(missing) - 1} more like it)" if len(missing) > 1 else ""
        raise SwitchError(f"after {seconds:g} s this is not switched everywhere: {missing[0]}{more}")


async def _look(cluster: Cluster, group_version: GroupVersion, installation: str) -> str:
    """'' if the kube-apiserver does as wanted, otherwise what it does."""
    group, version = group_version
    try:
        served = await cluster.header(f"/apis/{group}/{version}", ADOPTED_HEADER)
    except (ClusterError, Unreachable) as error:
        return f"{error}{await _availability(cluster, group_version)}"
    if served == installation:
        return ""
    if not served:
        return "kube-apiserver still answers itself"
    return f"the server of installation {served!r} answers"


async def _availability(cluster: Cluster, group_version: GroupVersion) -> str:
    """Why the APIService is not available, as text to add to an error; '' if it is available or can't be read."""
    try:
        found = await cluster.request("GET", f"{API_SERVICES}/{name_of(group_version)}")
    except (ClusterError, Unreachable):
        return ""
    conditions = (found.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition.get("type") == "Available" and condition.get("status") != "True":
            return f" (its condition Available is {condition.get('status')}: {condition.get('message', '')})"
    return ""


async def end_watches(cluster: Cluster, definition: str, *, sleep: Sleep = asyncio.sleep) -> None:
    """End all watches of the definition's objects at every kube-apiserver. Those at this server go on.

    kube-apiserver ends them about a second after the definition's spec or accepted names have changed. So a category is added to
    the accepted names. The host's own naming controller sees that the spec does not have the category and removes it, even if
    this server ends in between. The spec, the generation and the owners of the spec's fields in managedFields do not change.
    Does nothing if the definition is gone. Raises SwitchError.
    """
    await _set_passing_category(cluster, definition, there=True, sleep=sleep)
    for pause in itertools.islice(LOOKS.pauses(), PATIENCE):
        await sleep(pause)
        with contextlib.suppress(ClusterError, Unreachable):
            if _with_passing_category(await cluster.request("GET", f"{DEFINITIONS}/{definition}"), there=False) is None:
                return
    await _set_passing_category(cluster, definition, there=False, sleep=sleep)


async def _set_passing_category(cluster: Cluster, definition: str, *, there: bool, sleep: Sleep) -> None:
    path = f"{DEFINITIONS}/{definition}"
    pauses = LOOKS.pauses()
    for left in reversed(range(ATTEMPTS)):
        try:
            changed = _with_passing_category(await cluster.request("GET", path), there=there)
            if changed is not None:
                await cluster.request("PUT", f"{path}/status", body=changed)
        except (ClusterError, Unreachable) as error:
            code = error.code if isinstance(error, ClusterError) else 0
            if code == 404:
                return
            if not left or code in LASTING:
                raise SwitchError(f"the host's watches of {definition} can't be ended: {error}{_grant(error)}") from error
            await sleep(next(pauses))
        else:
            return


def _with_passing_category(definition: JSONObject, *, there: bool) -> JSONObject | None:
    """The definition with or without the category among its accepted names; None if it is so already."""
    status = definition.get("status") or {}
    names = status.get("acceptedNames") or {}
    categories = [each for each in names.get("categories") or () if each != PASSING_CATEGORY]
    if (categories != (names.get("categories") or [])) == there:
        return None
    if there:
        categories.append(PASSING_CATEGORY)
    return {**definition, "status": {**status, "acceptedNames": {**names, "categories": categories}}}


def _grant(error: ClusterError | Unreachable) -> str:
    """Text that names the missing right, if RBAC has refused; '' otherwise, as an admission policy gives its own reason."""
    lacks = isinstance(error, ClusterError) and error.code == 403 and "denied" not in error.message
    return f"; {GRANT}" if lacks else ""
