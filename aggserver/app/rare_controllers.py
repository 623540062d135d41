"""Controllers for objects that most servers never have: each starts with the first such object, and costs nothing before.

Names as in k8s.io/kubernetes cmd/kube-controller-manager/names, v1.36.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from aggserver.app.credentials import Credentials
from aggserver.app.service_accounts import ServiceAccounts
from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.certificates.issuing import sign_request
from aggserver.controllers.first_use import until_stored
from aggserver.endpoints.installer import Installer
from aggserver.kinds.served import Kinds
from aggserver.storage import keys
from aggserver.storage.interface import Storage

__all__ = ["rare_controllers"]


def rare_controllers(
    storage: Storage, kinds: Kinds, installer: Installer, accounts: ServiceAccounts, credentials: Credentials
) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
    """The function that runs each controller, by the controller's name."""
    return {
        "serviceaccount-token-controller": partial(_fill_secrets, storage, kinds, accounts, credentials),
        "certificatesigningrequest-signing-controller": partial(_sign_requests, storage, kinds, credentials),
        "persistentvolumeclaim-protection-controller": partial(_protect_claims, storage, installer),
        "persistentvolume-protection-controller": partial(_protect_volumes, storage, installer),
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
