"""The admission of a server: puts the enabled plugins together in upstream's order, for either mode.

Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go (AllOrderedPlugins), v1.36.3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from aggserver.admission.certificates import CertificateApproval, CertificateSigning, CertificateSubjectRestriction
from aggserver.admission.chain import Attributes, Chain, Mutating, Validating
from aggserver.admission.cluster_kinds import ClusterKinds
from aggserver.admission.cluster_namespaces import ClusterNamespaces
from aggserver.admission.cluster_params import ClusterParams
from aggserver.admission.cluster_sources import ClusterSources, Readiness
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle, Namespaces
from aggserver.admission.observer import AdmissionObserver, ObservedMutating, ObservedValidating, steps
from aggserver.admission.resource_quota import ClusterQuotas, ResourceQuota
from aggserver.admission.sources import Collection, Sources
from aggserver.admission.webhook_configurations import Conditions, WebhookIndex
from aggserver.admission.webhooks import MutatingWebhooks, ValidatingWebhooks, WebhookCalls
from aggserver.authentication.user import UserInfo
from aggserver.authorization import attributes as access
from aggserver.authorization.delegating import Authorizer
from aggserver.certificates.issuing import requested_groups
from aggserver.cluster import Cluster
from aggserver.controllers.first_use import until_stored
from aggserver.endpoints.installer import Installer
from aggserver.kinds.namespaces import StoredNamespaces
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.options import ADMISSION_PLUGINS, Options
from aggserver.registry.store import Store
from aggserver.standalone.sources import OwnParams, OwnSources, own_kinds
from aggserver.standalone.stored_collection import StoredCollection
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.webhook.config import ClientConfig
from aggserver.webhook.identities import Identities
from aggserver.webhook.lazy import LazyWebhooks

# The modules that run expressions take a tenth of a second to import, so they are imported with the first rule that has one.
if TYPE_CHECKING:
    from aggserver.admission.owner_references import FindResources, OwnerReferencesPermissionEnforcement
    from aggserver.admission.policy.plugins import FindParams, Lookups, MutatingAdmissionPolicies, ValidatingAdmissionPolicies
    from aggserver.controllers.quota.controller import QuotaController
    from aggserver.kinds.limit_ranger import LimitRanger

__all__ = ["AggregatedAdmission", "Common", "OwnLimits", "StandaloneAdmission"]


@dataclass(frozen=True, slots=True)
class Common:
    """What the plugins of both modes need. identities: by name of the webhook plugin. new_uid: for AdmissionReviews."""

    options: Options
    authorizer: Authorizer
    webhooks: LazyWebhooks
    identities: Mapping[str, Identities]
    new_uid: Callable[[], str]

    def enabled(self) -> frozenset[str]:
        """The names of the enabled plugins."""
        defaults = {name for name, enabled in ADMISSION_PLUGINS.items() if enabled}
        return frozenset((defaults | {*self.options.enable_admission_plugins}) - {*self.options.disable_admission_plugins})


class AggregatedAdmission:
    """Admission by the rules of a cluster. `run` is the task; `healthy` and `warning` are for a readiness check."""

    def __init__(self, common: Common, cluster: Cluster) -> None:
        self._common = common
        self._cluster = cluster
        self._sources = ClusterSources(cluster, common.enabled())
        self._params = ClusterParams(cluster, _policies(self._sources.rules))

    def chain(self, installer: Installer, observer: AdmissionObserver) -> Chain:
        sources = self._sources
        plugins = {
            **_plugins(
                self._common,
                sources.rules,
                _World(
                    ClusterNamespaces(self._cluster, sources.namespaces),
                    self._params.find,
                    ClusterKinds(self._cluster).find,
                    observer,
                ),
            ),
            "ResourceQuota": ResourceQuota(ClusterQuotas(self._cluster), sources.quotas),
        }
        return _chain(plugins, self._common.enabled(), [Readiness(sources)], observer)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sources.run())
            tasks.create_task(self._params.run())

    def healthy(self) -> str | None:
        return self._sources.healthy()

    def warning(self) -> str | None:
        return "; ".join(filter(None, (self._sources.warning(), self._params.warning()))) or None


class OwnLimits:
    """The LimitRanges and ResourceQuotas of the server itself."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.ranges = StoredCollection(storage, "", "limitranges")
        self.quotas = StoredCollection(storage, "", "resourcequotas")
        self._installer: Installer | None = None

    def plugins(self, installer: Installer) -> dict[str, _Plugin]:
        self._installer = installer
        quotas = _ResourceQuota(self.quotas.objects, lambda: self.quota_controller.plugin)
        return {"LimitRanger": _LimitRanger(self.ranges.objects), "ResourceQuota": quotas}

    @cached_property
    def quota_controller(self) -> QuotaController:
        """Made with the first quota."""
        from aggserver.controllers.quota.controller import QuotaController

        assert self._installer is not None
        controller = QuotaController(self._storage, self.quotas.objects, self._installer, time.time)
        self.quotas.changed = controller.quota_changed
        return controller

    async def count(self) -> None:
        """The task of the controller of quotas, which waits for the first of them."""
        await until_stored(self._storage, keys.resource_prefix("", "resourcequotas"))
        await self.quota_controller.run()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.ranges.run())
            tasks.create_task(self.quotas.run())

    async def known(self) -> None:
        """Wait until those in the store at the start were read."""
        await self.ranges.known()
        await self.quotas.known()


class StandaloneAdmission:
    """Admission by the rules that the server itself stores.

    stores: of admissionregistration.k8s.io, by resource. limits: the LimitRanges and ResourceQuotas; None without built-in kinds.
    last: plugins that run after all others that may change an object.
    """

    def __init__(
        self,
        common: Common,
        stores: Mapping[str, Store],
        namespaces: StoredNamespaces,
        limits: OwnLimits | None,
        last: Sequence[Mutating] = (),
    ) -> None:
        self._common = common
        self._limits = limits
        self._last = last
        self._sources = OwnSources(stores)
        self._namespaces = namespaces
        self._params: OwnParams | None = None

    def chain(self, installer: Installer, observer: AdmissionObserver) -> Chain:
        rules = self._sources.rules
        self._params = OwnParams(installer, _policies(rules))
        world = _World(self._namespaces, self._params.find, partial(own_kinds, installer), observer)
        plugins = {**_plugins(self._common, rules, world), **_certificate_plugins(self._common.authorizer)}
        if self._limits is not None:
            plugins |= self._limits.plugins(installer)
        return _chain(plugins, self._common.enabled(), [], observer, self._last)

    def of_files(self) -> Chain:
        """The admission of objects from files at the start: no webhooks and no policies (see `seed`)."""
        plugins = [NamespaceLifecycle(self._namespaces)]
        return Chain(plugins if "NamespaceLifecycle" in self._common.enabled() else [])

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sources.run())
            if self._limits is not None:
                tasks.create_task(self._limits.run())

    async def known(self) -> None:
        """Wait until the rules in the store at the start were read."""
        await self._sources.known()
        if self._limits is not None:
            await self._limits.known()

    def stop(self) -> None:
        if self._params is not None:
            self._params.stop()


class _Namespaces(Namespaces, Protocol):
    async def get(self, name: str) -> JSONObject | None: ...


_Plugin = Mutating | Validating


@dataclass(frozen=True, slots=True)
class _World:
    """What the plugins look up beside the rules, and the observer that they report to."""

    namespaces: _Namespaces
    find_params: FindParams
    find_resources: FindResources
    observer: AdmissionObserver


def _plugins(common: Common, rules: Sources, world: _World) -> dict[str, _Plugin]:
    """The plugins of both modes, by name."""

    def compile_conditions(conditions: Sequence[JSONObject]) -> Conditions:
        from aggserver.admission.policy.evaluating import WebhookConditions
        from aggserver.app.policy_checks import policy_checks

        return WebhookConditions(policy_checks(common.authorizer)).compile(conditions)

    async def labels(name: str) -> Mapping[str, str]:
        namespace = await world.namespaces.get(name)
        if namespace is None:
            raise errors.not_found("", "namespaces", name)
        found: Mapping[str, str] = namespace["metadata"].get("labels") or {}
        return found

    def calls(plugin: str) -> WebhookCalls:
        return WebhookCalls(_Identified(common.webhooks, common.identities[plugin]), labels, common.new_uid, world.observer)

    return {
        "NamespaceLifecycle": NamespaceLifecycle(world.namespaces),
        "OwnerReferencesPermissionEnforcement": _Owners(common.authorizer, world.find_resources),
        "MutatingAdmissionPolicy": _MutatingPolicies(rules, world, common.authorizer, common.options.max_object_bytes),
        "MutatingAdmissionWebhook": MutatingWebhooks(
            WebhookIndex(rules.mutating_webhooks, compile_conditions), calls("MutatingAdmissionWebhook")
        ),
        "ValidatingAdmissionPolicy": _ValidatingPolicies(rules, world, common.authorizer),
        "ValidatingAdmissionWebhook": ValidatingWebhooks(
            WebhookIndex(rules.validating_webhooks, compile_conditions), calls("ValidatingAdmissionWebhook")
        ),
    }


def _certificate_plugins(authorizer: Authorizer) -> dict[str, _Plugin]:
    async def may_use(user: UserInfo, verb: str, signer: str) -> bool:
        attributes = access.Attributes(user, verb, "certificates.k8s.io", "*", "signers", name=signer)
        return (await authorizer.authorize(attributes)).allowed

    return {
        "CertificateApproval": CertificateApproval(may_use),
        "CertificateSigning": CertificateSigning(may_use),
        "CertificateSubjectRestriction": CertificateSubjectRestriction(requested_groups),
    }


class _LimitRanger:
    """`LimitRanger`, imported with the first write in a namespace with a LimitRange. ranges: all there are."""

    resources = frozenset({("", "pods"), ("", "persistentvolumeclaims")})

    def __init__(self, ranges: Collection) -> None:
        self._ranges = ranges

    def concerns(self, attributes: Attributes) -> bool:
        return bool(self._ranges.within(attributes.namespace)) and self._plugin.concerns(attributes)

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._plugin.mutate(attributes, obj, old)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._plugin.validate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> LimitRanger:
        from aggserver.kinds.limit_ranger import LimitRanger

        return LimitRanger(self._ranges)


class _ResourceQuota:
    """`ResourceQuota`, made with the first write in a namespace with a quota. quotas: all there are."""

    def __init__(self, quotas: Collection, plugin: Callable[[], ResourceQuota]) -> None:
        self._quotas = quotas
        self._plugin = plugin

    def concerns(self, attributes: Attributes) -> bool:
        return bool(self._quotas.within(attributes.namespace)) and self._plugin().concerns(attributes)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._plugin().validate(attributes, obj, old)


class _Owners:
    """OwnerReferencesPermissionEnforcement, made at the first write that it checks, since it is off by default."""

    def __init__(self, authorizer: Authorizer, find_resources: FindResources) -> None:
        self._authorizer = authorizer
        self._find_resources = find_resources

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._plugin.validate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> OwnerReferencesPermissionEnforcement:
        from aggserver.admission.owner_references import OwnerReferencesPermissionEnforcement
        from aggserver.app.policy_checks import policy_checks

        return OwnerReferencesPermissionEnforcement(policy_checks(self._authorizer), self._find_resources)


class _Policies:
    """Base of the policy plugins, which are made when there is a first policy."""

    def __init__(self, rules: Sources, world: _World, authorizer: Authorizer) -> None:
        self._rules = rules
        self._world = world
        self._authorizer = authorizer

    def _lookups(self) -> Lookups:
        from aggserver.admission.policy.plugins import Lookups
        from aggserver.app.policy_checks import policy_checks

        return Lookups(self._world.namespaces.get, self._world.find_params, policy_checks(self._authorizer))


class _MutatingPolicies(_Policies):
    def __init__(self, rules: Sources, world: _World, authorizer: Authorizer, max_object_bytes: int) -> None:
        super().__init__(rules, world, authorizer)
        self._max_object_bytes = max_object_bytes

    def concerns(self, attributes: Attributes) -> bool:
        return bool(self._rules.mutating_policies) and self._plugin.concerns(attributes)

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return await self._plugin.mutate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> MutatingAdmissionPolicies:
        from aggserver.admission.policy.plugins import MutatingAdmissionPolicies

        policies, bindings = self._rules.mutating_policies, self._rules.mutating_policy_bindings
        return MutatingAdmissionPolicies(policies, bindings, self._lookups(), self._max_object_bytes)


class _ValidatingPolicies(_Policies):
    def concerns(self, attributes: Attributes) -> bool:
        return bool(self._rules.validating_policies) and self._plugin.concerns(attributes)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._plugin.validate(attributes, obj, old)

    @cached_property
    def _plugin(self) -> ValidatingAdmissionPolicies:
        from aggserver.admission.policy.plugins import ValidatingAdmissionPolicies

        policies, bindings = self._rules.validating_policies, self._rules.validating_policy_bindings
        return ValidatingAdmissionPolicies(policies, bindings, self._lookups())


def _chain(
    plugins: Mapping[str, _Plugin],
    enabled: frozenset[str],
    first: Sequence[Mutating],
    observer: AdmissionObserver,
    last: Sequence[Mutating] = (),
) -> Chain:
    """The chain of the enabled plugins. first, last: run before and after all others that may change an object."""
    ordered = [(name, plugins[name]) for name in ADMISSION_PLUGINS if name in enabled and name in plugins]
    clock = time.monotonic
    mutating = [ObservedMutating(name, plugin, observer, clock) for name, plugin in ordered if isinstance(plugin, Mutating)]
    validating = [ObservedValidating(name, plugin, observer, clock) for name, plugin in ordered if isinstance(plugin, Validating)]
    # The plugins of the built-in kinds follow these, as upstream: in a namespace that is not there, no account is looked for.
    leading = len(first) + sum(name in ("NamespaceLifecycle", "LimitRanger") for name, _ in ordered)
    return Chain([*first, *mutating, *last], validating, steps(observer, clock), leading)


def _policies(rules: Sources) -> tuple[Collection, ...]:
    return rules.validating_policies, rules.mutating_policies


class _Identified:
    """A `WebhookCaller` that calls each webhook with the identity that is configured for it."""

    def __init__(self, webhooks: LazyWebhooks, identities: Identities) -> None:
        self._webhooks = webhooks
        self._identities = identities

    async def call(self, config: ClientConfig, body: bytes, *, timeout: float, max_bytes: int) -> bytes:  # noqa: ASYNC109
        if config.service is not None:
            host, port = config.service.server_name, config.service.port
        else:
            url = urlsplit(config.url)
            host, port = url.hostname or "", url.port or 443
        identity = self._identities.of(host, port)
        return await self._webhooks.call(config, body, timeout=timeout, max_bytes=max_bytes, identity=identity)
