"""The credentials of `aggserver dev`: its serving certificate, the CAs it trusts, and the kubeconfig it writes.

Unless flags name others, all certificates are signed by the server's own CA. They are kept in a folder and renewed while the
server runs: new connections see the new certificate, a new CA is trusted beside the old one, and the kubeconfig is written again.
`certificates/keeper.py` decides what is due. Files that flags name are followed for changes. A serving certificate replaces the
server's own one. A client CA is trusted beside the server's own one, which the administrator's kubeconfig and `dev user` need.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from aggserver import disk
from aggserver.app.access import takes_anonymous
from aggserver.app.pem_files import ServingPair, client_ca_files, client_ca_from, serving_files, serving_pair_from
from aggserver.app.storage import files_last
from aggserver.app.tasks import Task
from aggserver.authentication.delegating import AuthenticationConfig, Authenticator, ClientCA, Tokens, TrustError
from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.authentication.x509 import Roots
from aggserver.certificates.issuing import KeyPair, SubjectNames, issue_client
from aggserver.certificates.keeper import CertificateKeeper, Certificates
from aggserver.certificates.store import FolderStore
from aggserver.options import Options
from aggserver.server.tls import FileWatcher, TLSConfig, TLSError
from aggserver.standalone import kubeconfig

__all__ = ["Credentials", "keeper_in"]

log = logging.getLogger("aggserver.certificates")

_ADMIN = "aggserver-admin"


def keeper_in(folder: Path, names: SubjectNames, clock: Callable[[], float], *, lasting: bool = True) -> CertificateKeeper:
    """The keeper of the certificates in a data folder.

    folder: the data folder. clock: seconds since the epoch. lasting: whether certificates must survive a crash of the machine.
    """
    return CertificateKeeper(FolderStore(folder / "certificates", lasting=lasting), names, clock)


class Credentials:
    """The credentials of one server. Call `start` first; `tasks` returns the background tasks.

    folder: the data folder. clock: seconds since the epoch. tokens: verifies bearer tokens; None: none are accepted.
    """

    def __init__(
        self,
        folder: Path,
        names: SubjectNames,
        tls: TLSConfig,
        clock: Callable[[], float],
        options: Options,
        tokens: Tokens | None = None,
    ) -> None:
        self.authenticator = Authenticator(AuthenticationConfig(), tokens=tokens, anonymous=takes_anonymous(options))
        self.kubeconfig = folder / "kubeconfig"
        self._shared = options.kubeconfig_to_write
        self._lasting = files_last(options)
        self._keeper = keeper_in(folder, names, clock, lasting=self._lasting)
        self._tls = tls
        self._clock = clock
        self.url = ""  # of the server, once it is published
        self._certificates: Certificates
        self._files = {**client_ca_files(options), **serving_files(options)}
        self._watcher = FileWatcher(self._files, self._read_again)
        self._given: tuple[ClientCA | None, ServingPair | None] = (None, None)

    async def start(self) -> None:
        """Loads the CA and the certificate, or makes them. Raises FileError, and for files of flags TLSError and TrustError."""
        self._given = self._read(self._watcher.read())
        with disk.file_errors():
            await self._take(await self._keeper.ensure())

    @property
    def ca(self) -> KeyPair:
        """The server's own CA, which signs client certificates."""
        return self._certificates.ca

    def publish(self, url: str) -> None:
        """Writes the kubeconfig for the server at `url`, and again whenever a certificate is renewed.

        Raises FileError and KubeconfigError.
        """
        self.url = url
        admin = issue_client(self._certificates.ca, _ADMIN, [PRIVILEGED_GROUP], self._clock())
        config = kubeconfig.config(url, self.ca_bundle, admin.cert_pem, admin.key_pem)
        with disk.file_errors():
            disk.replace(self.kubeconfig, kubeconfig.render(config), lasting=self._lasting)
        if self._shared is not None:
            kubeconfig.write_into(self._shared, config)

    @property
    def ca_bundle(self) -> bytes:
        """The CAs by which clients verify the server, as PEM."""
        _, pair = self._given
        return pair.ca_bundle if pair is not None else self._certificates.ca_bundle

    def tasks(self) -> list[Task]:
        watch = [("watch of the certificate files", lambda: self._watcher.run(asyncio.sleep))]
        return [("renewal of the certificates", self.run), *(watch if self._files else [])]

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Renews the server's own certificates, until cancelled."""
        await self._keeper.follow(self._take, sleep)

    async def _take(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._use()

    def _read(self, contents: dict[str, bytes]) -> tuple[ClientCA | None, ServingPair | None]:
        pair = serving_pair_from(self._files, contents) if "tls-cert-file" in contents else None
        return client_ca_from(self._files, contents), pair

    def _read_again(self, contents: dict[str, bytes]) -> None:
        try:
            self._given = self._read(contents)
        except (TLSError, TrustError) as error:
            log.error("keeping the certificates in use: %s", error)
        else:
            self._use()

    def _use(self) -> None:
        client_ca, pair = self._given
        own = self._certificates.ca_bundle
        trusted = own if client_ca is None else b"\n".join((own, client_ca.pem))
        serving = self._certificates.serving if pair is None else pair
        self._tls.update(cert_pem=serving.cert_pem, key_pem=serving.key_pem, client_ca_pem=trusted)
        self.authenticator.replace(AuthenticationConfig(client_ca=ClientCA(trusted, Roots.from_pem(trusted))))
        if self.url:
            self.publish(self.url)
