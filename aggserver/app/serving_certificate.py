"""The serving certificate of `aggserver serve`, and the CA bundle by which clients verify it.

They come from the files that flags name. Without these flags, the server makes its own, and keeps them in a Secret beside its
Service, or in the folder of `--cert-dir`. The server listens before it has read the Secret; until then it uses a temporary
certificate, whose CA is in no bundle.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from aggserver.apiextensions.registration import Service
from aggserver.app.pem_files import serving_files, serving_pair_from
from aggserver.certificates.issuing import SubjectNames, issue_serving, new_ca
from aggserver.certificates.keeper import CertificateKeeper, Certificates
from aggserver.certificates.secret_store import SecretStore
from aggserver.certificates.store import CertificateStore, FolderStore
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.options import Options
from aggserver.server.tls import FileWatcher, TLSConfig, TLSError

__all__ = ["ServingCertificate"]

log = logging.getLogger("aggserver.certificates")

_RETRY_SECONDS = 2.0


class ServingCertificate:
    """Keeps the certificate of a TLSConfig up to date.

    `ca_bundle`: PEM, empty until there is a certificate to trust. `run`: the background task. `healthy`: a readiness check.

    Raises TLSError if the files that flags name can't be used.
    """

    def __init__(self, options: Options, cluster: Cluster, service: Service, tls: TLSConfig) -> None:
        self.ca_bundle = b""
        self._tls = tls
        self._listeners: list[Callable[[], None]] = []
        self._trouble = "the Secret with the certificate has not been read yet"
        self._watcher: FileWatcher | None = None
        names = SubjectNames.for_service(service.name, service.namespace, "localhost", "127.0.0.1")
        self._files = serving_files(options)
        if self._files:
            self._watcher = FileWatcher(self._files, self._read_again)
            self._from_files(self._watcher.read())
            return
        store: CertificateStore
        if options.cert_dir is not None:
            store = FolderStore(options.cert_dir)
        else:
            store = SecretStore(cluster, service.namespace, f"{service.name}-certificates")
        self._keeper = CertificateKeeper(store, names, time.time)
        now = time.time()
        temporary = issue_serving(new_ca("aggserver-temporary", now), names.dns, names.ips, now)
        tls.update(cert_pem=temporary.cert_pem, key_pem=temporary.key_pem)

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)
        listener()

    def healthy(self) -> str | None:
        return None if self.ca_bundle else self._trouble

    async def run(self) -> None:
        if self._watcher is not None:
            await self._watcher.run(asyncio.sleep)
            return
        await self._first()
        while True:
            try:
                await self._keeper.follow(self._from_keeper, asyncio.sleep)
            except (ClusterError, Unreachable, OSError) as error:
                log.warning("the Secret with the serving certificate can't be read: %s; retrying in %g s", error, _RETRY_SECONDS)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _first(self) -> None:
        while not self.ca_bundle:
            try:
                await self._from_keeper(await self._keeper.ensure())
            except (ClusterError, Unreachable, OSError) as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.warning("waiting for the Secret with the serving certificate: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _from_keeper(self, certificates: Certificates) -> None:
        self._take(certificates.serving.cert_pem, certificates.serving.key_pem, certificates.ca_bundle)

    def _read_again(self, contents: dict[str, bytes]) -> None:
        try:
            self._from_files(contents)
        except TLSError as error:
            log.error("keeping the serving certificate in use: %s", error)

    def _from_files(self, contents: dict[str, bytes]) -> None:
        """Takes all files or none, because clients must not get a bundle before its certificate is served. Raises TLSError."""
        self._take(*serving_pair_from(self._files, contents))

    def _take(self, cert_pem: bytes, key_pem: bytes, ca_bundle: bytes) -> None:
        self._tls.update(cert_pem=cert_pem, key_pem=key_pem)
        self.ca_bundle = ca_bundle
        for listener in self._listeners:
            listener()
