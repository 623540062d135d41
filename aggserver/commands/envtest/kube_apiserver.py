"""The `kube-apiserver` that `aggserver envtest` writes: translates its flags into arguments of `aggserver dev`.

Where data is kept depends on the etcd that --etcd-servers names. etcd's stand-in is asked for its data folder, and data is kept
in SQLite there; a real etcd is used as such.
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

# Seconds that etcd has to answer, as long as envtest waits for either: both may be started at once.
_ETCD_SECONDS = 20.0
_ETCD_INTERVAL = 0.1
_LARGEST_ANSWER = 64 * 1024
_CERTIFICATE, _KEY = "apiserver.crt", "apiserver.key"
# Only the controller without which deleted namespaces would stay. envtest runs none, and tests rely on that: they name owners
# that do not exist, whose dependents the garbage collector would delete, delete dependents themselves, and count ServiceAccounts.
_CONTROLLERS = "--controllers=namespace-controller"
_CONTROLLERS_VARIABLE = "AGGSERVER_CONTROLLERS"
_DISABLED, _RESTRICTION = "--disable-admission-plugins=", "NodeRestriction"


class EtcdError(AggserverError):
    """The etcd of --etcd-servers does not answer. The text names it."""


def translate(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[str], str]:
    """Translate arguments of kube-apiserver. Returns arguments of `aggserver` and a remark for the log. environ: the environment.

    Raises EtcdError.
    """
    given = flags.read(arguments)
    controllers = [] if _CONTROLLERS_VARIABLE in environ else [_CONTROLLERS]
    options = [*controllers, *_certificate(given), *_without_restriction(given.options)]
    if not given.etcd_servers:
        place, stored = "in memory", ["--data=:memory:"]
    elif (folder := _data_folder(given.etcd_servers[0], sleep, clock)) is not None:
        # The certificates and the kubeconfig are in that folder, too. Nothing is synced, as in envtest's etcd, which has
        # --unsafe-no-fsync: beside a build that writes much, the 23 syncs of a start took seconds.
        place, stored = f"in {folder}", [f"--data={folder}", "--sqlite-synchronous=off"]
    else:
        servers = ",".join(given.etcd_servers)
        place = f"in etcd ({servers})"
        stored = ["--data=:memory:", "--storage=etcd", f"--etcd-servers={servers}", *given.etcd_options]
    remark = f"in the place of kube-apiserver; data is {place}"
    if given.without_effect:
        remark += f"; flags without effect: {' '.join(given.without_effect)}"
    return ["dev", *stored, *options], remark


def _without_restriction(options: Sequence[str]) -> list[str]:
    """The options, with NodeRestriction disabled if none enables it: kube-apiserver has it off by default."""
    if any(option.startswith("--enable-admission-plugins=") and _RESTRICTION in option for option in options):
        return list(options)
    disabled = [option for option in options if option.startswith(_DISABLED)]
    others = [option for option in options if option not in disabled]
    names = [name for option in disabled for name in option.removeprefix(_DISABLED).split(",")]
    return [*others, f"{_DISABLED}{','.join(dict.fromkeys((*names, _RESTRICTION)))}"]


def _certificate(given: flags.GivenFlags) -> list[str]:
    """The options for the certificate in --cert-dir, which kube-apiserver serves if it is there and flags name no other."""
    cert, key = (Path(given.cert_dir, name) for name in (_CERTIFICATE, _KEY))
    if not given.cert_dir or given.names("tls-cert-file") or not (cert.exists() and key.exists()):
        return []
    return [f"--tls-cert-file={cert}", f"--tls-private-key-file={key}"]


def _data_folder(url: str, sleep: Callable[[float], None], clock: Callable[[], float]) -> str | None:
    """The data folder of etcd's stand-in; None for a real etcd. Raises EtcdError."""
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
    """The answer to a GET, head and body. Raises OSError."""
    answer = b""
    with socket.create_connection(address, timeout=_ETCD_SECONDS) as connection:
        connection.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path)
        while len(answer) < _LARGEST_ANSWER and (read := connection.recv(_LARGEST_ANSWER)):
            answer += read
    return answer
