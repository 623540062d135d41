"""The certificates of `--tls-sni-cert-key`, each for the names that clients ask for; read again when a file changes.

A name that is given has priority over one from a certificate, an earlier flag over a later one, a full name over one with `*`.
Source: k8s.io/apiserver pkg/server/dynamiccertificates/named_certificates.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from aggserver.app.tasks import Task
from aggserver.certificates.issuing import names_of
from aggserver.options.convert import NamedPair
from aggserver.server.tls import FileWatcher, TLSConfig, TLSError, check_pair

__all__ = ["NamedCertificates", "by_name"]

log = logging.getLogger("aggserver.certificates")


class NamedCertificates:
    """Keeps the named certificates of a TLSConfig, which has a serving certificate already, up to date.

    Raises TLSError if a file can't be used.
    """

    def __init__(self, pairs: Sequence[NamedPair], tls: TLSConfig) -> None:
        self._pairs = pairs
        self._tls = tls
        files = {
            f"{number} {kind}": Path(path) for number, pair in enumerate(pairs) for kind, path in zip("ck", pair[:2], strict=True)
        }
        self._watcher = FileWatcher(files, self._read_again)
        if pairs:
            tls.update(named=by_name(pairs, self._watcher.read()))

    def tasks(self) -> list[Task]:
        return [("watch of the SNI certificates", lambda: self._watcher.run(asyncio.sleep))] if self._pairs else []

    def _read_again(self, contents: dict[str, bytes]) -> None:
        try:
            self._tls.update(named=by_name(self._pairs, contents))
        except TLSError as error:
            log.error("keeping the SNI certificates in use: %s", error)


def by_name(pairs: Sequence[NamedPair], contents: Mapping[str, bytes]) -> dict[str, tuple[bytes, bytes]]:
    """(certificate, key) as PEM by name. contents: by `<number of the pair> c` or `k`. Raises TLSError that names the flag."""
    given: dict[str, tuple[bytes, bytes]] = {}
    found: dict[str, tuple[bytes, bytes]] = {}
    for number, (cert_file, key_file, names) in reversed(list(enumerate(pairs))):
        pair = contents[f"{number} c"], contents[f"{number} k"]
        try:
            check_pair(*pair)
        except TLSError as error:
            raise TLSError(f"--tls-sni-cert-key {cert_file},{key_file}: {error}") from error
        given |= dict.fromkeys(map(str.lower, names), pair)
        if not names:
            found |= dict.fromkeys(map(str.lower, names_of(pair[0])), pair)
    return {**found, **given}
