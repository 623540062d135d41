"""The credentials of `aggserver dev`: its serving certificate, the CA it trusts, and the kubeconfig it writes. All are of one CA.

They are kept in a folder and renewed while the server runs: new connections see the new certificate, a successor of the CA is
trusted besides it, and the kubeconfig is written again. `certificates/keeper.py` decides what is due.
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
    """Call `start` first; `run` is the background task. clock: seconds since the epoch.

    shared: another kubeconfig to put our entry into; the entries of others stay.
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
        """Loads the CA and the certificate, or makes them. Raises FileError."""
        with disk.file_errors():
            await self._take(await self._keeper.ensure())

    def publish(self, url: str) -> None:
        """Writes the kubeconfig for the server at `url`, and again whenever a certificate is renewed.

        Raises FileError and KubeconfigError.
        """
        self._url = url
        admin = issue_client(self._certificates.ca, _ADMIN, [PRIVILEGED_GROUP], self._clock())
        config = kubeconfig.config(url, self._certificates.ca_bundle, admin.cert_pem, admin.key_pem)
        with disk.file_errors():
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
