"""Credentials: what `aggserver dev` shows, whom it trusts, and the kubeconfig it hands out, all of one CA of its own.

They lie in a folder and are renewed while the server runs: the certificate is shown to new connections, an heir of the CA is
trusted beside it, and the kubeconfig is written anew. What is due is decided by `certificates/keeper.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from aggserver import disk
from aggserver.authentication.delegating import AuthenticationConfig, Authenticator, ClientCA
from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.authentication.x509 import Roots
from aggserver.certificates.issuing import Names, issue_client
from aggserver.certificates.keeper import CertificateKeeper, Certificates
from aggserver.certificates.store import FolderStore
from aggserver.server.tls import TLSConfig
from aggserver.standalone import kubeconfig

__all__ = ["Credentials"]

_ADMIN = "aggserver-admin"


class Credentials:
    """`start` before all else; `run` is the one task. clock: seconds since the epoch.

    shared: a kubeconfig that others have entries in, to put ours into as well.
    """

    def __init__(
        self, folder: Path, names: Names, tls: TLSConfig, clock: Callable[[], float], shared: Path | None = None
    ) -> None:
        self.authenticator = Authenticator(AuthenticationConfig())
        self.kubeconfig = folder / "kubeconfig"
        self._shared = shared
        self._keeper = CertificateKeeper(FolderStore(folder / "certificates"), names, clock)
        self._tls = tls
        self._clock = clock
        self._url = ""
        self._certificates: Certificates

    async def start(self) -> None:
        """Makes the CA and the certificate if they aren't there. Raises OSError."""
        await self._take(await self._keeper.ensure())

    def publish(self, url: str) -> None:
        """Writes the kubeconfig for the server at `url`, and again whenever a certificate is renewed.

        Raises OSError and KubeconfigError.
        """
        self._url = url
        admin = issue_client(self._certificates.ca, _ADMIN, [PRIVILEGED_GROUP], self._clock())
        config = kubeconfig.config(url, self._certificates.ca_bundle, admin.cert_pem, admin.key_pem)
        disk.replace(self.kubeconfig, kubeconfig.render(config))
        if self._shared is not None:
            kubeconfig.write_into(self._shared, config)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        await self._keeper.follow(self._take, sleep)

    async def _take(self, certificates: Certificates) -> None:
        self._certificates = certificates
        bundle, serving = certificates.ca_bundle, certificates.serving
        self._tls.update(cert_pem=serving.cert_pem, key_pem=serving.key_pem, client_ca_pem=bundle)
        self.authenticator.replace(AuthenticationConfig(client_ca=ClientCA(bundle, Roots.from_pem(bundle))))
        if self._url:
            self.publish(self._url)
