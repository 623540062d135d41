"""Sources of admission without a cluster: the rules and params that this server stores itself.

`OwnSources` follows the objects of admissionregistration.k8s.io, and `OwnParams` the params of policies, of any served kind. A
kind is followed from the first request that needs it until no policy names it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial

from aggserver.admission.sources import Collection, Sources, StoredParams, param_kinds
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.kept_up import kept_up
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.versions import parse_group_version
from aggserver.registry.store import Store

__all__ = ["OwnParams", "OwnSources", "own_kinds"]

# Seconds that a request waits for the objects of a kind to be read.
WAIT_SECONDS = 1.0


class OwnSources:
    """The rules of admission. `run` is the task. stores: of the resources of admissionregistration.k8s.io, by plural."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        self.rules = rules = Sources()
        followed = {
            "mutatingwebhookconfigurations": rules.mutating_webhooks,
            "validatingwebhookconfigurations": rules.validating_webhooks,
            "mutatingadmissionpolicies": rules.mutating_policies,
            "mutatingadmissionpolicybindings": rules.mutating_policy_bindings,
            "validatingadmissionpolicies": rules.validating_policies,
            "validatingadmissionpolicybindings": rules.validating_policy_bindings,
        }
        self._informers = [_informer(stores[resource], collection) for resource, collection in followed.items()]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())

    async def known(self) -> None:
        """Wait until all rules that were stored at the start were read."""
        for informer in self._informers:
            await informer.caught_up()


class OwnParams:
    """The params of policies. policies: a collection of each kind of policy, whose paramKinds are followed."""

    def __init__(self, installer: Installer, policies: Iterable[Collection], *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._installer = installer
        self._policies = tuple(policies)
        self._wait_seconds = wait_seconds
        self._followed: dict[tuple[str, str], _FollowedParams] = {}
        installer.on_change(self._sweep)

    async def find(self, api_version: str, kind: str) -> StoredParams | None:
        """The params of a kind; None if the kind is not served."""
        store = self._store(api_version, kind)
        if store is None:
            return None
        followed = self._followed.get((api_version, kind))
        if followed is None:
            self._sweep()
            followed = self._followed[api_version, kind] = _FollowedParams(store)
        return await followed.known(self._wait_seconds)

    def stop(self) -> None:
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()

    def _store(self, api_version: str, kind: str) -> Store | None:
        group, version = parse_group_version(api_version)
        for served in self._installer.everything():
            if (served.info.group, served.info.version, served.info.kind) == (group, version, kind):
                scope = served.scope("")
                return scope.rest if scope is not None and isinstance(scope.rest, Store) else None
        return None

    def _sweep(self) -> None:
        """Stop following kinds that no policy names any more, or that have another store now."""
        named = param_kinds(self._policies)
        for key, followed in list(self._followed.items()):
            if key not in named or self._store(*key) is not followed.store:
                followed.stop()
                del self._followed[key]


async def own_kinds(installer: Installer, api_version: str, kind: str) -> list[ResourceInfo]:
    """The resources of a kind. Raises LookupError, with upstream's text, if there are none."""
    group, version = parse_group_version(api_version)
    found = [
        ResourceInfo(group, version, served.info.resource, kind, "", served.info.namespaced)
        for served in installer.everything()
        if (served.info.group, served.info.version, served.info.kind) == (group, version, kind)
    ]
    if not found:
        raise LookupError(f'no matches for kind "{kind}" in version "{api_version}"')
    return found


class _FollowedParams:
    """The params in one store, followed by a task until `stop`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._params = StoredParams()
        self._params.exists = True
        self._params.namespaced = store.strategy.info.namespaced
        self._informer = _informer(store, self._params)
        name = f"watch of {store.strategy.info.resource}, params of policies,"
        self._task = asyncio.create_task(kept_up(name, self._informer.run))

    async def known(self, wait_seconds: float) -> StoredParams:
        if not self._params.is_known:
            try:
                async with asyncio.timeout(wait_seconds):
                    await self._informer.caught_up()
                self._params.is_known = True
            except TimeoutError:
                pass
        return self._params

    def stop(self) -> None:
        self._task.cancel()


def _informer(store: Store, collection: Collection) -> Informer:
    return Informer(store, partial(_take_over, collection))


async def _take_over(collection: Collection, key: str, obj: JSONObject | None) -> float | None:
    if obj is None:
        namespace, _, name = key.rpartition("/")
        collection.remove(namespace, name)
    else:
        collection.put(obj)
    return None
