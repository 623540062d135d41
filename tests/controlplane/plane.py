"""etcd, kube-apiservers (one or more) and the controller manager on free loopback ports, with a PKI and a folder of their own.

Ready means: kube-apiserver's /readyz is ok, the ConfigMap extension-apiserver-authentication is written, and the default
namespace has its service account, so that the first test finds what the last one finds. Flags: what kubeadm sets, less what needs
nodes.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import signal
import ssl
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.binaries import Binaries
from tests.controlplane.cluster import Cluster, write_kubeconfig
from tests.controlplane.pki import Authority, write_service_account_key
from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports
from tests.waiting import HANG_SECONDS

__all__ = ["CONTROLLERS", "ControlPlane"]

# What is under test works through these: namespace deletion and cascading deletion go through discovery to every API there is,
# the others make a namespace look as it does in a cluster.
CONTROLLERS = (
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "clusterrole-aggregation-controller",
    "root-ca-certificate-publisher-controller",
    "resourcequota-controller",
    "persistentvolumeclaim-protection-controller",
    "persistentvolume-protection-controller",
    "validatingadmissionpolicy-status-controller",
)

_MANAGER = "kube-controller-manager"

# Per cent by which the memory of a Go program grows until it collects garbage; Go's default is 100.
SELDOM = "400"

SERVICE_RANGE = "10.0.0.0/24"
API_HOSTS = ("localhost", "127.0.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "10.0.0.1")

READY_PATHS = (
    "/readyz",
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
    "/api/v1/namespaces/default/serviceaccounts/default",
)


class ControlPlane(Cluster):
    """Start with `start()` or as a context manager; end with `stop()`. One start for each object.

    `fsync=False` lets etcd keep nothing for a power cut, and all of them use memory to save time: right for tests, wrong for
    benchmarks. `folder` holds everything and is kept at the end; without it a temporary folder is made and removed. `controllers`
    names what the controller manager runs; `apiserver_arguments` are added to kube-apiserver's flags, and win. `replicas` is how
    many kube-apiservers share the etcd. `signs`: whether the controller manager has the key that signs certificates of users.

    Attributes: `servers` are the URLs of all kube-apiservers; `server` is the first, which kubeconfigs name and the controller
    manager uses (`kubectl --server URL` asks another). `etcd` is a URL without TLS; `client_ca` and `front_proxy_ca` can issue
    certificates; `front_proxy` is the aggregator's own client certificate, `serving` kube-apiserver's certificate, which
    `client_ca` signed; `token_key` and `token_public_key` are files of the key that signs tokens of ServiceAccounts.
    `etcd_ways`, to be set before the start: the URLs by which single kube-apiservers reach etcd, by their places in `servers`.
    """

    def __init__(
        self,
        binaries: Binaries,
        *,
        fsync: bool = False,
        folder: Path | None = None,
        controllers: Sequence[str] = CONTROLLERS,
        apiserver_arguments: Sequence[str] = (),
        replicas: int = 1,
        signs: bool = False,
    ) -> None:
        temporary = folder is None
        # Absolute, since the children run elsewhere.
        folder = Path(tempfile.mkdtemp(prefix="aggserver-controlplane-")) if folder is None else folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder, binaries.kubectl)
        self._guard = Guard(folder if temporary else None)
        self._binaries = binaries
        self._fsync = fsync
        self._controllers = tuple(controllers)
        self._apiserver_arguments = tuple(apiserver_arguments)
        self._signs = signs
        self._processes: list[Process] = []
        self._make_keys()
        self._minor = binaries.minor()
        etcd_port, self._etcd_peer_port, *self._ports = free_ports(2 + replicas)
        self.etcd = f"http://127.0.0.1:{etcd_port}"
        self.servers = [f"https://127.0.0.1:{port}" for port in self._ports]
        self.server = self.servers[0]
        self.etcd_ways: dict[int, str] = {}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all of them and wait until they are ready. Raises ProcessError with the end of the logs; nothing runs then."""
        try:
            self._write_user(self.kubeconfig, "kubernetes-admin", ("system:masters",))
            self._run("etcd", self._binaries.etcd, self._etcd_arguments())
            for number in range(len(self._ports)):
                self._run_server(number)
            # The controller manager ends when it may not ask for /healthz within 20 s: on a busy machine, roles take that long.
            self._wait_until_ready(READY_PATHS[:1])
            self._run_manager()
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all of them, surely, and remove the temporary folder. Can be called twice."""
        # The last started first: the controller manager then sees no server vanish, nor kube-apiserver its etcd.
        end(self._processes[::-1])
        self._processes.clear()
        self._guard.dismiss()

    def kill(self, number: int) -> None:
        """SIGKILL for a kube-apiserver, which is told by its place in `servers`."""
        self._kill(_server_name(number))

    def restart(self, number: int) -> None:
        """Start one that was killed, and wait until all are ready. Its log begins anew. Raises as `start`."""
        self._run_server(number)
        self._wait_until_ready()

    def restart_manager(self) -> None:
        """The controller manager anew. Its garbage collector follows the definitions that there are, and later ones half a minute
        after they are made. Its log begins anew.
        """
        self._kill(_MANAGER)
        self._run_manager()

    def log_tails(self) -> dict[str, str]:
        """The end of each component's log, by component."""
        return {process.name: process.tail() for process in self._processes}

    def _kill(self, name: str) -> None:
        (killed,) = (process for process in self._processes if process.name == name)
        killed.signal(signal.SIGKILL)
        killed.wait(HANG_SECONDS)
        self._processes.remove(killed)

    def _run_manager(self) -> None:
        user = self.user("system:kube-controller-manager")
        self._run(_MANAGER, self._binaries.kube_controller_manager, self._manager_arguments(user))

    def _make_keys(self) -> None:
        pki = self.folder / "pki"
        pki.mkdir(exist_ok=True)
        self.client_ca = Authority(pki, "ca")
        self.front_proxy_ca = Authority(pki, "front-proxy-ca")
        self.front_proxy = self.front_proxy_ca.client("front-proxy-client", "front-proxy-client")
        self.serving = self.client_ca.server("apiserver", API_HOSTS)
        self.token_key, self.token_public_key = write_service_account_key(pki)
        self._admin = self.client_ca.client("admin", "kubernetes-admin", ("system:masters",))

    def _write_user(self, path: Path, name: str, groups: Sequence[str]) -> None:
        pair = self.client_ca.client(path.stem, name, groups)
        write_kubeconfig(path, self.server, self.client_ca.pair.certificate, name, pair)

    def _run_server(self, number: int) -> None:
        self._run(_server_name(number), self._binaries.kube_apiserver, self._kube_apiserver_arguments(number))

    def _run(self, name: str, binary: Path, arguments: Sequence[str]) -> None:
        log = self.folder / f"{name}.log"
        # No proxy settings, cloud credentials or Go debug flags of the machine: only what a program needs to start.
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ} | {"HOME": str(self.folder)}
        if not self._fsync:
            environment["GOGC"] = SELDOM
        self._processes.append(Process(name, [str(binary), *arguments], log, environment, self._guard))

    def _etcd_arguments(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._etcd_peer_port}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd}",
            f"--advertise-client-urls={self.etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            *([] if self._fsync else ["--unsafe-no-fsync"]),
        ]

    def _kube_apiserver_arguments(self, number: int) -> list[str]:
        return [
            f"--etcd-servers={self.etcd_ways.get(number, self.etcd)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[number]}",
            f"--tls-cert-file={self.serving.certificate}",
            f"--tls-private-key-file={self.serving.key}",
            f"--client-ca-file={self.client_ca.pair.certificate}",
            f"--requestheader-client-ca-file={self.front_proxy_ca.pair.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            # kube-apiserver refuses it before 1.33: 1.31 has no such header, 1.32 only with a feature that is off by default.
            *(["--requestheader-uid-headers=X-Remote-Uid"] if self._minor >= 33 else []),
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self.front_proxy.certificate}",
            f"--proxy-client-key-file={self.front_proxy.key}",
            f"--service-account-key-file={self.token_public_key}",
            f"--service-account-signing-key-file={self.token_key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            # There is one address, loopback, and the reconcilers refuse to publish that as an endpoint.
            "--endpoint-reconciler-type=none",
            *self._apiserver_arguments,
        ]

    def _manager_arguments(self, kubeconfig: Path) -> list[str]:
        return [
            f"--kubeconfig={kubeconfig}",
            f"--controllers={','.join(self._controllers)}",
            # As kubeadm: each controller has an account and role of its own; the manager's may not delete what GC deletes.
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.token_key}",
            f"--root-ca-file={self.client_ca.pair.certificate}",
            *self._signing_arguments(),
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
        ]

    def _signing_arguments(self) -> list[str]:
        pair = self.client_ca.pair
        return (
            [f"--cluster-signing-cert-file={pair.certificate}", f"--cluster-signing-key-file={pair.key}"] if self._signs else []
        )

    def _wait_until_ready(self, paths: Sequence[str] = READY_PATHS) -> None:
        context = ssl.create_default_context(cafile=self.client_ca.pair.certificate)
        context.load_cert_chain(self._admin.certificate, self._admin.key)
        deadline = time.monotonic() + HANG_SECONDS
        for port, path in itertools.product(self._ports, paths):
            while not (answer := self._answer(port, path, context)).startswith("200"):
                for process in self._processes:
                    process.check()
                if time.monotonic() > deadline:
                    tails = "\n".join(f"{name}:\n{tail}" for name, tail in self.log_tails().items())
                    late = f"{path} on port {port} was not ready after {HANG_SECONDS:.0f} s ({answer})"
                    raise ProcessError(f"{late}; the end of the logs:\n{tails}")
                time.sleep(0.05)

    def _answer(self, port: int, path: str, context: ssl.SSLContext) -> str:
        """What the kube-apiserver on `port` says to GET `path` now: status and body, or why there is none."""
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10.0, context=context)
        try:
            with contextlib.closing(connection):
                connection.request("GET", path)
                response = connection.getresponse()
                return f"{response.status} {response.read().decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as error:
            return repr(error)


def _server_name(number: int) -> str:
    """Of the process and its log. number: its place in `servers`."""
    return f"kube-apiserver-{number + 1}" if number else "kube-apiserver"
