"""The two measured servers, each started as its users start it, on loopback with TLS and durable writes.

kube-apiserver runs with etcd, with fsync enabled, and stores the custom resources there. aggserver runs as `aggserver dev` with
its defaults, on SQLite or on an etcd of its own. A server that is started on the folder of an earlier one has its objects.
"""

from __future__ import annotations

import base64
import http.client
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import yaml

from benchmarks.client import Access, call
from benchmarks.processes import Usage, children, file_bytes, usage
from tests.controlplane.binaries import Binaries
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports

__all__ = ["Aggserver", "KubeApiserver", "ReadyWatch", "Server", "kubeconfig_access"]

REPOSITORY = Path(__file__).parents[1]

# Seconds to wait for a server. Both are ready in a few, unless the machine is busy.
START_TIMEOUT = 120.0

# Seconds between two readiness checks: the precision of the figure.
READY_INTERVAL = 0.01

# Seconds for a graceful end, writing a profile included.
STOP_TIMEOUT = 15.0

# Only the controllers that the control plane waits for. The garbage collector would watch the custom resources, and so slow every
# write.
CONTROLLERS = ("serviceaccount-controller",)
# Those that make Pods, and that select or count them.
OF_WORKLOADS = tuple(
    f"{name}-controller"
    for name in ("deployment", "replicaset", "statefulset", "daemonset", "job", "disruption", "endpointslice", "resourcequota")
)


class Server(Protocol):
    """A running server. `start_seconds`: from starting its processes until /readyz is ok."""

    name: str
    access: Access
    start_seconds: float

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...

    def user(self, name: str) -> Access:
        """The access of an ordinary user, who may do nothing yet."""
        ...

    def filled(self) -> None:
        """Called once, when the definition and the objects that reads and patches work on are there."""
        ...

    def usage(self) -> dict[str, Usage]:
        """The usage of each of its programs, including the storage."""
        ...

    def stored_bytes(self) -> int:
        """Bytes on disk, including logs of recent writes."""
        ...

    def check(self) -> None:
        """Raise ProcessError if one of its programs has ended."""
        ...


class KubeApiserver:
    """kube-apiserver and etcd; `folder` gets logs, keys and data. With `pods`, Pods of workloads are made, which stay Pending."""

    name = "kube-apiserver"

    def __init__(self, binaries: Binaries, folder: Path, *, pods: bool = False) -> None:
        controllers = (*CONTROLLERS, *OF_WORKLOADS) if pods else CONTROLLERS
        # On the disk aggserver uses: etcd waits for the disk, and so does SQLite.
        self._plane = ControlPlane(binaries, fsync=True, folder=folder, controllers=controllers)
        self._programs: dict[str, int] = {}

    def __enter__(self) -> Self:
        watch = ReadyWatch(self._plane.kubeconfig, self._plane.folder / "access")
        before = children(os.getpid())
        self._plane.start()
        self.access, self.start_seconds = watch.result()
        started = {name: pid for pid, name in children(os.getpid()).items() if pid not in before}
        self._programs = {name: started[name] for name in ("kube-apiserver", "etcd")}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._plane.stop()

    def user(self, name: str) -> Access:
        return kubeconfig_access(self._plane.user(name), self._plane.folder / f"access-{name}")

    def filled(self) -> None:
        return None

    def usage(self) -> dict[str, Usage]:
        return {name: usage(pid) for name, pid in self._programs.items()}

    def stored_bytes(self) -> int:
        return file_bytes(self._plane.folder / "etcd")

    def check(self) -> None:
        running = children(os.getpid())
        for name, pid in self._programs.items():
            if running.get(pid) != name:
                raise ProcessError(f"{name} ended; the end of its log:\n{self._plane.log_tails().get(name, '')}")


class Aggserver:
    """`aggserver dev` with the interpreter that runs the benchmarks; `folder` gets log, keys and data.

    With `profile` it runs under cProfile, which writes that file when it ends. With `etcd`, the path of that program, it stores
    its objects in etcd. With `pods`, workloads have Pods, which are Running at once.
    """

    name = "aggserver"

    def __init__(self, folder: Path, *, profile: Path | None = None, etcd: Path | None = None, pods: bool = False) -> None:
        self._folder = folder.absolute()
        self._profiler = ["-m", "cProfile", "-o", str(profile.absolute())] if profile else []
        self._etcd = etcd
        self._pods = ["--pods=run"] if pods else []
        self._guard = Guard(None)
        self._processes: list[Process] = []

    def __enter__(self) -> Self:
        data = self._folder / "data"
        self._folder.mkdir(exist_ok=True)
        watch = ReadyWatch(data / "kubeconfig", self._folder / "access")
        storage = self._start_etcd(self._etcd) if self._etcd else []
        dev = ["-m", "aggserver", "dev", "--data", str(data), "--secure-port", "0", *self._pods, *storage]
        process = self._start(self.name, [sys.executable, *self._profiler, *dev])
        try:
            self.access, self.start_seconds = watch.result(process)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start_etcd(self, program: Path) -> list[str]:
        """Start etcd as the control plane does; returns aggserver's flags for it."""
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        own = [f"--data-dir={self._folder / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        cluster = [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
        self._start("etcd", [str(program), *own, *cluster, "--log-level=warn"])
        return ["--storage", "etcd", "--etcd-servers", client, "--etcd-prefix", "/registry"]

    def _start(self, name: str, command: list[str]) -> Process:
        environment = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        environment |= {"HOME": str(self._folder), "PYTHONPATH": str(REPOSITORY)}
        process = Process(name, command, self._folder / f"{name}.log", environment, self._guard)
        self._processes.append(process)
        return process

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # One after the other, aggserver first: etcd must not go while it is still in use.
        for process in reversed(self._processes):
            end([process], STOP_TIMEOUT)
        self._guard.dismiss()

    def user(self, name: str) -> Access:
        path = self._folder / f"{name}.kubeconfig"
        command = [sys.executable, "-m", "aggserver", "dev", "user", name]
        where = ["--data", str(self._folder / "data"), "--kubeconfig", str(path)]
        subprocess.run([*command, *where], cwd=self._folder, env={"PYTHONPATH": str(REPOSITORY)}, check=True, capture_output=True)
        return kubeconfig_access(path, self._folder / f"access-{name}")

    def filled(self) -> None:
        return None

    @property
    def pid(self) -> int:
        """Of aggserver itself."""
        return self._processes[-1].pid

    def usage(self) -> dict[str, Usage]:
        return {process.name: usage(process.pid) for process in self._processes}

    def stored_bytes(self) -> int:
        return file_bytes(self._folder / ("etcd" if self._etcd else "data"))

    def check(self) -> None:
        for process in self._processes:
            process.check()


class ReadyWatch:
    """Measures the time until the server that writes `kubeconfig` is ready; keeps PEM files in `folder`."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig = kubeconfig
        self._folder = folder
        self._found: tuple[Access, float] | None = None
        self._began = time.monotonic()
        # In a thread, because ControlPlane.start waits for more than readiness, which must not be measured.
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def result(self, process: Process | None = None) -> tuple[Access, float]:
        """The server's address and the seconds. Raises ProcessError if it takes too long or `process` ends before."""
        while self._thread.is_alive():
            self._thread.join(0.1)
            if process is not None:
                process.check()
        if self._found is None:
            raise ProcessError(f"a server was not ready after {START_TIMEOUT:.0f} s ({self._kubeconfig})")
        return self._found

    def _look(self) -> None:
        while time.monotonic() - self._began < START_TIMEOUT:
            if (access := _ready(self._kubeconfig, self._folder)) is not None:
                self._found = access, time.monotonic() - self._began
                return
            time.sleep(READY_INTERVAL)


def _ready(kubeconfig: Path, folder: Path) -> Access | None:
    """The server's address, if it has written its kubeconfig, listens and is ready."""
    try:
        access = kubeconfig_access(kubeconfig, folder)
        call(access, "GET", "/readyz")
    # HTTPError is an OSError. A partially written file may lack any key.
    except (OSError, http.client.HTTPException, KeyError, TypeError, ValueError, yaml.YAMLError):
        return None
    return access


def kubeconfig_access(kubeconfig: Path, folder: Path) -> Access:
    """The current context of a kubeconfig, with its keys in PEM files for other programs."""
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    folder.mkdir(exist_ok=True)
    return Access(
        cluster["server"],
        _pem(cluster, "certificate-authority", folder),
        _pem(user, "client-certificate", folder),
        _pem(user, "client-key", folder),
    )


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next((entry for entry in entries if entry["name"] == name), {})


def _pem(entry: Mapping[str, str], field: str, folder: Path) -> Path:
    target = folder / field
    if field in entry:
        shutil.copyfile(entry[field], target)
    else:
        target.write_bytes(base64.b64decode(entry[f"{field}-data"]))
    target.chmod(0o600)
    return target
