"""ClusterSources: the rules, namespaces and quotas of the hosting cluster, kept up to date by watches.

Writes wait until all of them were listed, and are refused after ten seconds (`Readiness`); reads go on. When a watch fails later,
the last known state holds. A cluster may not serve a kind of policy, or only an older version of it: then discovery is asked
again from time to time.
Source: k8s.io/apiserver pkg/admission/handler.go (WaitForReady), pkg/admission/plugin/policy/generic/plugin.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from aggserver.admission.chain import Attributes
from aggserver.admission.sources import Collection, Sources
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import RECONNECT, Sleep
from aggserver.cluster.reflector import Reflector, key_of
from aggserver.meta import errors
from aggserver.meta.errors import qualified
from aggserver.meta.json_types import JSONObject

__all__ = ["ClusterSources", "Followed", "Readiness", "Resource"]

log = logging.getLogger("aggserver.admission")

# How long a write waits for the first lists.
WAIT_SECONDS = 10.0
# Until a cluster that does not serve a resource is asked again, as after an upgrade.
DISCOVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the cluster. versions: those understood, the preferred one first; if it is only one, it must be served."""

    group: str
    resource: str
    versions: tuple[str, ...] = ("v1",)

    def group_path(self, version: str) -> str:
        return f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"

    def path(self, version: str) -> str:
        return f"{self.group_path(version)}/{self.resource}"

    def grant(self) -> str:
        rule = f"{{apiGroups: ['{self.group}'], resources: [{self.resource}], verbs: [get, list, watch]}}"
        return f"grant this server's service account {rule} (cluster-access.yaml)"


def _registered(resource: str, versions: tuple[str, ...] = ("v1",)) -> Resource:
    return Resource("admissionregistration.k8s.io", resource, versions)


def _policy(resource: str) -> Resource:
    return _registered(resource, ("v1", "v1beta1", "v1alpha1"))


class Followed:
    """Keeps a collection as the cluster has it. `run` is its task. name: for messages."""

    def __init__(self, cluster: Cluster, resource: Resource, collection: Collection, *, sleep: Sleep = asyncio.sleep) -> None:
        self.known = asyncio.Event()
        self.name = qualified(resource.resource, resource.group)
        self._cluster = cluster
        self._resource = resource
        self._collection = collection
        self._sleep = sleep
        self._trouble = "not listed yet"
        self._gone = asyncio.Event()
        self._first = True  # whether the next state is the first of a reflector

    def trouble(self) -> str | None:
        """Why the watch does not work now."""
        return f"{self.name}: {self._trouble}" if self._trouble else None

    async def run(self) -> None:
        pauses = RECONNECT.pauses()
        while True:
            try:
                path = await self._path()
            except (ClusterError, Unreachable) as error:
                self._failed(error)
                await self._sleep(next(pauses))
                continue
            self._first = True
            if path is None:
                self._on_state({}, frozenset())
                self._recovered()
                await self._sleep(DISCOVERY_SECONDS)
            else:
                pauses = RECONNECT.pauses()
                await self._reflect(path)

    async def _path(self) -> str | None:
        """The path of the version to follow; None if the cluster serves none."""
        wanted = self._resource
        if len(wanted.versions) == 1:
            return wanted.path(wanted.versions[0])
        for version in wanted.versions:
            try:
                found = await self._cluster.request("GET", wanted.group_path(version))
            except ClusterError as error:
                if error.code != 404:
                    raise
            else:
                if any(resource["name"] == wanted.resource for resource in found["resources"]):
                    return wanted.path(version)
        return None

    async def _reflect(self, path: str) -> None:
        """Until the resource is no longer served at this path."""
        self._gone.clear()
        reflector = Reflector(self._cluster, path, {}, self._on_state, self._on_error, sleep=self._sleep)
        reflecting = asyncio.create_task(reflector.run())
        gone = asyncio.create_task(self._gone.wait())
        try:
            done, _ = await asyncio.wait((reflecting, gone), return_when=asyncio.FIRST_COMPLETED)
            if reflecting in done:
                reflecting.result()
        finally:
            for task in (reflecting, gone):
                task.cancel()
            await asyncio.gather(reflecting, gone, return_exceptions=True)

    def _on_state(self, objects: Mapping[str, JSONObject], changed: AbstractSet[str]) -> None:
        if self._first:
            self._first = False
            changed = changed | {key_of(obj) for obj in self._collection}
        for key in changed:
            if key in objects:
                self._collection.put(objects[key])
            else:
                namespace, _, name = key.rpartition("/")
                self._collection.remove(namespace, name)
        if not self.known.is_set():
            self._trouble = ""
            self.known.set()

    def _on_error(self, error: ClusterError | Unreachable | None) -> None:
        if error is None:
            self._recovered()
            return
        self._failed(error)
        if isinstance(error, ClusterError) and error.code == 404 and len(self._resource.versions) > 1:
            self._gone.set()

    def _failed(self, error: ClusterError | Unreachable) -> None:
        trouble = str(error)
        if isinstance(error, ClusterError) and error.code == 403:
            trouble = f"{trouble}; {self._resource.grant()}"
        if trouble != self._trouble:
            self._trouble = trouble
            kept = ", going on with what was last known" if self.known.is_set() else ""
            log.warning("watch of %s failed%s: %s", self.name, kept, trouble)

    def _recovered(self) -> None:
        if self._trouble:
            self._trouble = ""
            log.info("watch of %s works again", self.name)


class ClusterSources:
    """`rules`, `namespaces` and `quotas` as last known. `run` is the task; `healthy` and `warning` are for a readiness check.

    plugins: names of the enabled ones; what none of them needs is not followed, and needs no right.
    """

    def __init__(self, cluster: Cluster, plugins: AbstractSet[str], *, sleep: Sleep = asyncio.sleep) -> None:
        self.rules = Sources()
        self.namespaces = Collection()
        self.quotas = Collection()
        rules = self.rules
        followed = [
            ("", Resource("", "namespaces"), self.namespaces),
            ("ResourceQuota", Resource("", "resourcequotas"), self.quotas),
            ("MutatingAdmissionWebhook", _registered("mutatingwebhookconfigurations"), rules.mutating_webhooks),
            ("ValidatingAdmissionWebhook", _registered("validatingwebhookconfigurations"), rules.validating_webhooks),
            ("MutatingAdmissionPolicy", _policy("mutatingadmissionpolicies"), rules.mutating_policies),
            ("MutatingAdmissionPolicy", _policy("mutatingadmissionpolicybindings"), rules.mutating_policy_bindings),
            ("ValidatingAdmissionPolicy", _policy("validatingadmissionpolicies"), rules.validating_policies),
            ("ValidatingAdmissionPolicy", _policy("validatingadmissionpolicybindings"), rules.validating_policy_bindings),
        ]
        self._followed = [
            Followed(cluster, resource, collection, sleep=sleep)
            for plugin, resource, collection in followed
            if not plugin or plugin in plugins
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for followed in self._followed:
                tasks.create_task(followed.run())

    async def known(self) -> None:
        """Wait until all were listed once."""
        for followed in self._followed:
            await followed.known.wait()

    def healthy(self) -> str | None:
        missing = [text for one in self._followed if not one.known.is_set() and (text := one.trouble())]
        return f"waiting for {'; '.join(missing)}" if missing else None

    def warning(self) -> str | None:
        """Of watches that have worked before."""
        failing = [text for one in self._followed if one.known.is_set() and (text := one.trouble())]
        return f"going on with what was last known of {'; '.join(failing)}" if failing else None


class Readiness:
    """The first mutating plugin: holds writes back until the sources are known."""

    def __init__(self, sources: ClusterSources, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._sources = sources
        self._wait_seconds = wait_seconds
        self._ready = False

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if not self._ready:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._sources.known()
            except TimeoutError:
                info = attributes.resource
                why = "not yet ready to handle request"
                raise errors.forbidden(info.group, info.resource, attributes.name, why) from None
            self._ready = True
        return False
