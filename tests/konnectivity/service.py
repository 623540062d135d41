"""The Konnectivity service of a control plane: its server beside kube-apiserver, and an agent, which makes the connections.

Source: the Kubernetes page "Set up Konnectivity service", whose configuration, flags and RBAC rules these are. The agent has a
token of its ServiceAccount, by which the server knows it. In place of two pods there are two processes on loopback.

kube-apiserver reads its part of the configuration when it starts, and the server asks kube-apiserver whose a token is. So this is
made first, then the control plane with `apiserver_arguments`, then `start` is called.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Guard, Process, end, free_ports
from tests.integration.server import eventually
from tests.konnectivity.programs import Programs
from tests.waiting import HANG_SECONDS

__all__ = ["Konnectivity"]

NAMESPACE = "kube-system"
AGENT = "konnectivity-agent"
SERVER = "system:konnectivity-server"
_CONNECTIONS = "konnectivity_network_proxy_agent_open_endpoint_connections"

_RULES: list[dict[str, Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": SERVER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": SERVER}],
    },
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": AGENT, "namespace": NAMESPACE}},
]


class Konnectivity:
    """One server and at most one agent. `stop` ends both."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        # Not in a folder of pytest: the path of a socket has at most some hundred bytes.
        self._folder = Path(tempfile.mkdtemp(prefix="aggserver-konnectivity-"))
        self._guard = Guard(self._folder)
        self._socket = self._folder / "konnectivity-server.socket"
        self._configuration = self._folder / "egress-selector-configuration.json"
        self._configuration.write_text(json.dumps(_egress(self._socket)))
        self._agent_port, admin, health, self._agent_admin, self._agent_health = free_ports(5)
        self._server_ports = {"admin": admin, "health": health}
        self._server: Process | None = None
        self._agent: Process | None = None

    @property
    def apiserver_arguments(self) -> Sequence[str]:
        return [f"--egress-selector-config-file={self._configuration}"]

    def start(self, plane: ControlPlane) -> None:
        """Server and agent, which are connected afterwards."""
        plane.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, _RULES)))
        self._ca = plane.client_ca.pair.certificate
        self._token = self._folder / "konnectivity-agent-token"
        self._token.touch(mode=0o600)
        self._token.write_text(
            plane.kubectl("create", "token", AGENT, "-n", NAMESPACE, f"--audience={SERVER}", "--duration=2h").stdout.strip()
        )
        self._server = self._run("proxy-server", self._programs.server, self._server_arguments(plane))
        self.start_agent()

    def start_agent(self) -> None:
        """Connected when this returns."""
        self._agent = self._run("proxy-agent", self._programs.agent, self._agent_arguments())
        eventually(self._connected, "the agent is connected to the server")

    @contextlib.contextmanager
    def without_agent(self) -> Iterator[None]:
        """The agent is killed, and there is a new one after the block."""
        assert self._agent is not None
        self._agent.signal(signal.SIGKILL)
        assert self._agent.wait(HANG_SECONDS)
        self._agent = None
        eventually(lambda: not _is_ready(self._server_ports["health"]), "the server has noticed that its agent is gone")
        try:
            yield
        finally:
            self.start_agent()

    def connections(self) -> int:
        """How many the agent has made that are open now, without the one to the server."""
        found = re.search(rf"^{_CONNECTIONS} (\d+)$", _answer(self._agent_health, "/metrics")[1], re.MULTILINE)
        return int(found[1]) if found else 0

    def stop(self) -> None:
        """Ends both, and removes the files."""
        end([process for process in (self._agent, self._server) if process is not None])
        self._guard.dismiss()

    def _connected(self) -> bool:
        """Both say so."""
        for process in (self._server, self._agent):
            assert process is not None
            process.check()
        return _is_ready(self._agent_health) and _is_ready(self._server_ports["health"])

    def _run(self, name: str, program: Path, arguments: Sequence[str]) -> Process:
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ} | {"HOME": str(self._folder)}
        return Process(name, [str(program), *arguments], self._folder / f"{name}.log", environment, self._guard)

    def _server_arguments(self, plane: ControlPlane) -> list[str]:
        return [
            "--logtostderr=true",
            f"--uds-name={self._socket}",
            f"--cluster-cert={plane.serving.certificate}",
            f"--cluster-key={plane.serving.key}",
            "--mode=grpc",
            "--server-port=0",
            f"--agent-port={self._agent_port}",
            "--agent-bind-address=127.0.0.1",
            *(f"--{name}-port={port}" for name, port in self._server_ports.items()),
            *(f"--{name}-bind-address=127.0.0.1" for name in self._server_ports),
            f"--agent-namespace={NAMESPACE}",
            f"--agent-service-account={AGENT}",
            f"--kubeconfig={plane.user(SERVER)}",
            f"--authentication-audience={SERVER}",
        ]

    def _agent_arguments(self) -> list[str]:
        return [
            "--logtostderr=true",
            f"--ca-cert={self._ca}",
            "--proxy-server-host=127.0.0.1",
            f"--proxy-server-port={self._agent_port}",
            f"--admin-server-port={self._agent_admin}",
            "--admin-bind-address=127.0.0.1",
            f"--health-server-port={self._agent_health}",
            "--health-server-host=127.0.0.1",
            f"--service-account-token-path={self._token}",
        ]


def _egress(socket: Path) -> dict[str, Any]:
    """What kube-apiserver is told: connections into the cluster go through the server's socket."""
    connection = {"proxyProtocol": "GRPC", "transport": {"uds": {"udsName": str(socket)}}}
    return {
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    }


def _is_ready(port: int) -> bool:
    """Whether the server or the agent whose health port it is has the other one."""
    return _answer(port, "/readyz")[0] == http.HTTPStatus.OK


def _answer(port: int, path: str) -> tuple[int, str]:
    """Status and body; (0, "") where nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_SECONDS)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    return 0, ""
