"""Controllers for objects that most servers never have: each starts with the first such object, and costs nothing before.

Names as in k8s.io/kubernetes cmd/kube-controller-manager/names, v1.36.3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from aggserver.app.admission import OwnLimits
from aggserver.app.credentials import Credentials
from aggserver.app.service_accounts import ServiceAccounts
from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.certificates.issuing import sign_request
from aggserver.controllers.first_use import until_stored
from aggserver.endpoints.installer import Installer
from aggserver.kinds.served import Kinds
from aggserver.storage import keys
from aggserver.storage.interface import Storage

if TYPE_CHECKING:
    from aggserver.controllers.network.selected_pods import SelectedPods
    from aggserver.controllers.pod_index import PodIndex

__all__ = ["rare_controllers"]


def rare_controllers(
    storage: Storage,
    kinds: Kinds,
    installer: Installer,
    accounts: ServiceAccounts,
    credentials: Credentials,
    limits: OwnLimits,
) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """The function that runs each controller, by the controller's name."""
    network = _Network(storage, kinds, installer)
    return {
        "endpoints-controller": network.write_endpoints,
        "endpointslice-controller": network.write_slices,
        "endpointslice-mirroring-controller": network.mirror_endpoints,
        "disruption-controller": partial(_follow_budgets, storage, installer, network),
        "persistentvolume-binder-controller": partial(_bind_volumes, storage, installer, network),
        "serviceaccount-token-controller": partial(_fill_secrets, storage, kinds, accounts, credentials),
        "certificatesigningrequest-signing-controller": partial(_sign_requests, storage, kinds, credentials),
        "persistentvolumeclaim-protection-controller": partial(_protect_claims, storage, installer),
        "resourcequota-controller": limits.count,
        "persistentvolume-protection-controller": partial(_protect_volumes, storage, installer),
        "volumeattributesclass-protection-controller": partial(_protect_attributes_classes, storage, installer),
        "cronjob-controller": partial(_run_cron_jobs, storage, installer),
        "ttl-after-finished-controller": partial(_delete_finished, storage, installer),
    }


async def _fill_secrets(storage: Storage, kinds: Kinds, accounts: ServiceAccounts, credentials: Credentials) -> None:
    await until_stored(storage, keys.resource_prefix("", "secrets"), b'"kubernetes.io/service-account-token"')
    from aggserver.controllers.token_secrets import TokenSecretsController

    secrets, owners = kinds.store("", "secrets"), kinds.store("", "serviceaccounts")
    await TokenSecretsController(secrets, owners, accounts.signing_key, lambda: credentials.ca_bundle).run()


async def _sign_requests(storage: Storage, kinds: Kinds, credentials: Credentials) -> None:
    group, resource = "certificates.k8s.io", "certificatesigningrequests"
    await until_stored(storage, keys.resource_prefix(group, resource))
    from aggserver.controllers.signer import CertificateSigner

    def sign(request: bytes, usages: Sequence[str], seconds: int) -> bytes:
        # As upstream's admission plugin CertificateSubjectRestriction: else users who may approve could make administrators.
        return sign_request(credentials.ca, request, usages, time.time(), seconds, refused_group=PRIVILEGED_GROUP)

    await CertificateSigner(kinds.status_store(group, resource), sign, time.time).run()


async def _protect_claims(storage: Storage, installer: Installer) -> None:
    await until_stored(storage, keys.resource_prefix("", "persistentvolumeclaims"))
    from aggserver.controllers.volumes.claims import ClaimProtection

    await ClaimProtection(installer, storage).run()


async def _protect_volumes(storage: Storage, installer: Installer) -> None:
    await until_stored(storage, keys.resource_prefix("", "persistentvolumes"))
    from aggserver.controllers.volumes.volumes import VolumeProtection

    await VolumeProtection(installer, storage).run()


async def _follow_budgets(storage: Storage, installer: Installer, network: _Network) -> None:
    await until_stored(storage, keys.resource_prefix("policy", "poddisruptionbudgets"))
    from aggserver.controllers.disruption import DisruptionController

    await DisruptionController(installer, storage, network.pods, time.time).run()


async def _bind_volumes(storage: Storage, installer: Installer, network: _Network) -> None:
    prefixes = [keys.resource_prefix("", resource) for resource in ("persistentvolumes", "persistentvolumeclaims")]
    await _first(*(until_stored(storage, prefix) for prefix in prefixes))
    from aggserver.controllers.volumes.binder import VolumeBinder

    await VolumeBinder(installer, storage, network.pods, time.time).run()


class _Network:
    """The controllers of Endpoints and EndpointSlices, which share what they know of Services and Pods."""

    def __init__(self, storage: Storage, kinds: Kinds, installer: Installer) -> None:
        self._storage = storage
        self._kinds = kinds
        self._installer = installer

    @cached_property
    def pods(self) -> PodIndex:
        from aggserver.controllers.pod_index import PodIndex

        return PodIndex(partial(self._kinds.store, "", "pods"))

    @cached_property
    def _selected(self) -> SelectedPods:
        from aggserver.controllers.network.selected_pods import SelectedPods

        return SelectedPods(partial(self._kinds.store, "", "services"), self.pods)

    async def write_endpoints(self) -> None:
        # The Endpoints that a client has written are deleted with their Service.
        await _first(self._until_selecting(), self._until_endpoints())
        from aggserver.controllers.network.endpoints_controller import EndpointsController

        await EndpointsController(self._installer, self._storage, self._selected).run()

    async def write_slices(self) -> None:
        await self._until_selecting()
        from aggserver.controllers.network.slices_controller import SlicesController

        await SlicesController(self._installer, self._storage, self._selected).run()

    async def mirror_endpoints(self) -> None:
        await self._until_endpoints()
        from aggserver.controllers.network.mirroring_controller import MirroringController

        await MirroringController(self._installer, self._storage, self._selected, time.time).run()

    async def _until_selecting(self) -> None:
        await until_stored(self._storage, keys.resource_prefix("", "services"), b'"selector":{')

    async def _until_endpoints(self) -> None:
        """Wait for Endpoints that neither the server nor a controller writes."""
        without = (b'"endpointslice.kubernetes.io/skip-mirror":"true"', b'"endpoints.kubernetes.io/managed-by":')
        await until_stored(self._storage, keys.resource_prefix("", "endpoints"), without=without)


async def _first(*awaited: Coroutine[Any, Any, None]) -> None:
    """Wait until one of them has ended, and cancel the others. Raises what that one raises."""
    tasks = [asyncio.create_task(each) for each in awaited]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _protect_attributes_classes(storage: Storage, installer: Installer) -> None:
    await until_stored(storage, keys.resource_prefix("storage.k8s.io", "volumeattributesclasses"))
    from aggserver.controllers.volumes.attributes import AttributesClassProtection

    await AttributesClassProtection(installer, storage).run()


async def _run_cron_jobs(storage: Storage, installer: Installer) -> None:
    await until_stored(storage, keys.resource_prefix("batch", "cronjobs"))
    from aggserver.controllers.cron_jobs.controller import CronJobController

    await CronJobController(installer, storage, time.time).run()


async def _delete_finished(storage: Storage, installer: Installer) -> None:
    await until_stored(storage, keys.resource_prefix("batch", "jobs"), b'"ttlSecondsAfterFinished"')
    from aggserver.controllers.finished_jobs import FinishedJobs

    await FinishedJobs(installer, storage, time.time).run()
