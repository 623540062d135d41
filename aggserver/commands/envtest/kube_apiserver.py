"""What the `kube-apiserver` that `aggserver envtest` writes runs: the arguments of `aggserver dev` that its flags stand for.

Where data is kept depends on the etcd that --etcd-servers names. Its stand-in is asked for its data folder, and data is kept in
SQLite there; any other etcd is used as one.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from aggserver.commands.envtest import flags
from aggserver.errors import AggserverError

__all__ = ["EtcdError", "translate"]

# Seconds that etcd has to answer: both may be started at once. As long as envtest waits for each.
_ETCD_SECONDS = 20.0
_ETCD_INTERVAL = 0.1
_LARGEST_ANSWER = 64 * 1024
_CERTIFICATE, _KEY = "apiserver.crt", "apiserver.key"
# Of the controllers, only the one without which deleted namespaces would stay. envtest has none: its tests make up owners, which
# the garbage collector would miss, delete themselves what it would delete, and count ServiceAccounts.
_CONTROLLERS = "--controllers=namespace-controller"
_CONTROLLERS_VARIABLE = "AGGSERVER_CONTROLLERS"


class EtcdError(AggserverError):
    """The etcd of --etcd-servers does not answer. The text names it."""


def translate(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[str], str]:
    """From arguments of kube-apiserver (arguments of `aggserver`, what the log shall say of them). environ: the environment.

    Raises EtcdError.
    """
    given = flags.read(arguments)
    controllers = [] if _CONTROLLERS_VARIABLE in environ else [_CONTROLLERS]
    options = [*controllers, *_certificate(given), *given.options]
    if not given.etcd_servers:
        place, stored = "in memory", ["--data=:memory:"]
    elif (folder := _data_folder(given.etcd_servers[0], sleep, clock)) is not None:
        # Its certificates and kubeconfig are there, too. As etcd with --unsafe-no-fsync, which envtest starts: beside a build
        # that writes much, the 23 syncs of a start took seconds.
        place, stored = f"in {folder}", [f"--data={folder}", "--sqlite-synchronous=off"]
    else:
        servers = ",".join(given.etcd_servers)
        place = f"in etcd ({servers})"
        stored = ["--data=:memory:", "--storage=etcd", f"--etcd-servers={servers}", *given.etcd_options]
    remark = f"in the place of kube-apiserver; data is {place}"
    if given.without_effect:
        remark += f"; flags without effect: {' '.join(given.without_effect)}"
    return ["dev", *stored, *options], remark


def _certificate(given: flags.GivenFlags) -> list[str]:
    """kube-apiserver serves the certificate that it finds in --cert-dir, unless another is named."""
    cert, key = (Path(given.cert_dir, name) for name in (_CERTIFICATE, _KEY))
    if not given.cert_dir or given.names("tls-cert-file") or not (cert.exists() and key.exists()):
        return []
    return [f"--tls-cert-file={cert}", f"--tls-private-key-file={key}"]


def _data_folder(url: str, sleep: Callable[[float], None], clock: Callable[[], float]) -> str | None:
    """The folder that etcd's stand-in names; None for an etcd that really is one. Raises EtcdError."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return None
    until = clock() + _ETCD_SECONDS
    while True:
        try:
            head, _, body = _get((parts.hostname, parts.port or 2379), b"/data-dir").partition(b"\r\n\r\n")
        except OSError as error:
            if clock() >= until:
                raise EtcdError(f"--etcd-servers={url}: {error.strerror or error}") from None
            sleep(_ETCD_INTERVAL)
            continue
        return os.fsdecode(body) if head.split(b" ", 2)[1:2] == [b"200"] else None


def _get(address: tuple[str, int], path: bytes) -> bytes:
    """The answer, head and body. Raises OSError."""
    answer = b""
    with socket.create_connection(address, timeout=_ETCD_SECONDS) as connection:
        connection.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path)
        while len(answer) < _LARGEST_ANSWER and (read := connection.recv(_LARGEST_ANSWER)):
            answer += read
    return answer
