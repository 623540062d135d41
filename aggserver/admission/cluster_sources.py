"""ClusterSources: the rules, namespaces and quotas of the hosting cluster, kept up to date by watches.

Writes wait until all of them were listed, and are refused after ten seconds (`Readiness`); reads go on. A cluster may not serve a
kind of policy, or only an older version of it.
Source: k8s.io/apiserver pkg/admission/handler.go (WaitForReady), pkg/admission/plugin/policy/generic/plugin.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from aggserver.admission.chain import Attributes
from aggserver.admission.followed import Followed, group_path
from aggserver.admission.sources import Collection, Sources
from aggserver.cluster import Cluster, find
from aggserver.cluster.pacing import Sleep
from aggserver.meta import errors
from aggserver.meta.errors import qualified
from aggserver.meta.json_types import JSONObject

__all__ = ["GUARD_LABEL", "ClusterSources", "Readiness"]

# On a webhook configuration by which an aggserver keeps writes away from the host (adoption/switch/guard.py). It concerns
# requests that kube-apiserver serves itself; here it would refuse every write of the resources that have moved to this server.
GUARD_LABEL = "aggserver.io/guard"

# How long a write waits for the first lists.
WAIT_SECONDS = 10.0
# Until a cluster that does not serve a resource is asked again, as after an upgrade.
DISCOVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FollowedResource:
    """A resource of the cluster. versions: those understood, the preferred one first. A single one is not looked up by discovery.

    selector: of labels; '' for all objects.
    """

    group: str
    resource: str
    versions: tuple[str, ...] = ("v1",)
    selector: str = ""

    def grant(self) -> str:
        rule = f"{{apiGroups: ['{self.group}'], resources: [{self.resource}], verbs: [get, list, watch]}}"
        return f"grant this server's service account {rule} (cluster-access.yaml)"


def _registered(resource: str, versions: tuple[str, ...] = ("v1",), selector: str = "") -> FollowedResource:
    return FollowedResource("admissionregistration.k8s.io", resource, versions, selector)


def _policy(resource: str) -> FollowedResource:
    return _registered(resource, ("v1", "v1beta1", "v1alpha1"))


def _follow(
    cluster: Cluster, resource: FollowedResource, collection: Collection, sleep: Sleep, clock: Callable[[], float]
) -> Followed:
    return Followed(
        cluster,
        qualified(resource.resource, resource.group),
        partial(_locate, cluster, resource),
        collection,
        selector=resource.selector,
        grant=resource.grant(),
        recheck_seconds=DISCOVERY_SECONDS,
        sleep=sleep,
        clock=clock,
    )


async def _locate(cluster: Cluster, wanted: FollowedResource) -> str | None:
    """The path of the preferred version that the cluster serves."""
    if len(wanted.versions) == 1:
        return f"{group_path(wanted.group, wanted.versions[0])}/{wanted.resource}"
    for version in wanted.versions:
        path = group_path(wanted.group, version)
        found = await find(cluster, path)
        if found is not None and any(resource["name"] == wanted.resource for resource in found["resources"]):
            return f"{path}/{wanted.resource}"
    return None


class ClusterSources:
    """`rules`, `namespaces` and `quotas` as last known. `run` is the task; `healthy` and `warning` are for a readiness check.

    plugins: names of the enabled ones. Resources that none of them needs are not watched, and need no RBAC rule.
    """

    def __init__(
        self,
        cluster: Cluster,
        plugins: AbstractSet[str],
        *,
        sleep: Sleep = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = Sources()
        self.namespaces = Collection()
        self.quotas = Collection()
        rules = self.rules
        validating_webhooks = _registered("validatingwebhookconfigurations", selector=f"{GUARD_LABEL}!=true")
        followed = [
            ("", FollowedResource("", "namespaces"), self.namespaces),
            ("ResourceQuota", FollowedResource("", "resourcequotas"), self.quotas),
            ("MutatingAdmissionWebhook", _registered("mutatingwebhookconfigurations"), rules.mutating_webhooks),
            ("ValidatingAdmissionWebhook", validating_webhooks, rules.validating_webhooks),
            ("MutatingAdmissionPolicy", _policy("mutatingadmissionpolicies"), rules.mutating_policies),
            ("MutatingAdmissionPolicy", _policy("mutatingadmissionpolicybindings"), rules.mutating_policy_bindings),
            ("ValidatingAdmissionPolicy", _policy("validatingadmissionpolicies"), rules.validating_policies),
            ("ValidatingAdmissionPolicy", _policy("validatingadmissionpolicybindings"), rules.validating_policy_bindings),
        ]
        self._followed = [
            _follow(cluster, resource, collection, sleep, clock)
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
        if missing:
            return f"waiting for {'; '.join(missing)}"
        return "; ".join(text for one in self._followed if (text := one.stale())) or None

    def warning(self) -> str | None:
        """The watches that fail now after they have worked before; None if there are none."""
        failing = [text for one in self._followed if one.known.is_set() and (text := one.trouble())]
        return f"going on with what was last known of {'; '.join(failing)}" if failing else None


class Readiness:
    """The first mutating plugin: holds writes back until the sources are known."""

    def __init__(self, sources: ClusterSources, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._sources = sources
        self._wait_seconds = wait_seconds
        self._ready = False

    def concerns(self, attributes: Attributes) -> bool:
        """Until the sources are known, any rule may concern the request."""
        return not self._ready

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
