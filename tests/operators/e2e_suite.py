"""Kubernetes' own end-to-end specs that need no running container: on a control plane without nodes, and on `aggserver dev`.

Which they are was found out by running all that do not obviously need containers on the control plane (kube-apiserver and
kube-controller-manager with nearly all controllers, one Node object, no scheduler): `e2e.yaml` lists those that pass. Its second
part has those that pass there and not here, with the reason. `find` looks for others, after a change of Kubernetes' version.
Called by `python -m tests.operators`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.binaries import MODULE as CONTROL_PLANE
from tests.controlplane.binaries import cache_folder, kubernetes_version, locked, obtain, stamps
from tests.controlplane.plane import ControlPlane
from tests.controlplane.toolchain import go_command, go_environment
from tests.integration.server import Standalone, running

__all__ = ["SIDES", "WAITING_SECONDS", "E2EError", "Listed", "Run", "build", "listed", "pattern", "run", "search"]

OURS = Path(__file__).with_name("e2e")
LIST = Path(__file__).with_name("e2e.yaml")

# Seconds for one spec: two of them wait for five minutes and more, the others are done in two. In a search most wait in vain.
SPEC_SECONDS, WAITING_SECONDS, SEARCH_SECONDS = 900, 120, 30
# Specs at once: for most of their time they wait.
AT_ONCE = 6
_TIMEOUT_SECONDS = 3600

# All controllers but one: the Node gets no heartbeats, and is to stay ready.
_CONTROLLERS = ("*", "-node-lifecycle-controller")
# An address of documentation stands for the server's, so that it has endpoints.
_API_SERVER = ("--allow-privileged=true", "--endpoint-reconciler-type=lease", "--advertise-address=192.0.2.1")
_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
_CAPACITY = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1", "labels": {"kubernetes.io/hostname": "node-1", "kubernetes.io/os": "linux"}},
    "status": {
        "capacity": _CAPACITY,
        "allocatable": _CAPACITY,
        "conditions": [_READY],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.2"}, {"type": "Hostname", "address": "node-1"}],
    },
}

# For a search: what needs containers, a cloud, or a node to break.
_SKIPPED = (
    r"\[Disruptive\]|\[sig-scheduling\].*\[Serial\]|AdmissionWebhook|ConversionWebhook|Netpol|NetworkPolic|LoadBalancer|DNS|Conntrack"
    r"|KubeProxy|StatefulSet|Simple pod|Port forwarding|Networking|Driver:|CSI Volumes|CSI Mock|In-tree|Dynamic PV|Flexvolumes"
    r"|\[Feature:(Windows|SCTP|GKE|GPU|Ingress)|NodeFeature|Projected|Downward API|Container|EmptyDir|HostPath|Subpath|Probing"
    r"|Sysctls|Security|Ephemeral|InitContainer|Kubelet|HPA|\[Serial\] \[Slow\]|DRA"
)


class E2EError(RuntimeError):
    """The specs can't be built or run; the text is the end of what was printed."""


@dataclass(frozen=True)
class Listed:
    """Names of specs. waiting: of those that fail here, by name, the reason."""

    passing: frozenset[str]
    waiting: Mapping[str, str]

    @property
    def all(self) -> frozenset[str]:
        return self.passing | self.waiting.keys()


@dataclass(frozen=True)
class Run:
    """states: of each spec that ran, by name, `passed`, `failed`, `timedout`, ...; skipped ones are left out."""

    states: Mapping[str, str]
    messages: Mapping[str, str]
    seconds: float
    output: str

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(name for name, state in self.states.items() if state == "passed")

    def with_more(self, other: Run) -> Run:
        """This run and another one of other specs."""
        states, messages = {**self.states, **other.states}, {**self.messages, **other.messages}
        return Run(states, messages, self.seconds + other.seconds, self.output + other.output)


def listed() -> Listed:
    """What e2e.yaml says."""
    read = yaml.safe_load(LIST.read_text())
    passing = [name for names in read["passing"].values() for name in names or ()]
    waiting = {name: reason for reason, names in (read["waiting"] or {}).items() for name in names}
    return Listed(frozenset(passing), waiting)


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The folder with the programs `e2e.test` and `ginkgo`, built first if need be. Raises E2EError, ToolchainError."""
    sources = sorted(OURS.glob("*.go"))
    folder = cache_folder(environ, "e2e", more=(file.read_bytes() for file in sources))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("e2e.lock"), say):
        if not (folder / "e2e.test").exists():
            say("building the end-to-end specs of kubernetes: three minutes, once")
            go, environment = go_command(CONTROL_PLANE / "go.mod", say), go_environment(environ)
            (folder / "specs").mkdir(parents=True, exist_ok=True)
            requirements = (CONTROL_PLANE / "go.mod").read_text()
            (folder / "go.mod").write_text(re.sub(r"^module .*$", "module aggserver.test/e2e", requirements, count=1, flags=re.M))
            shutil.copyfile(CONTROL_PLANE / "go.sum", folder / "go.sum")
            for file in sources:
                shutil.copyfile(file, folder / "specs" / file.name)
            # Go adds to go.mod what tests require beyond the control plane, in the versions of kubernetes. Not more than two
            # packages at once: some of the specs' take 1 GB each.
            flags = ["-mod=mod", "-p", "2", "-ldflags", stamps(kubernetes_version())]
            _go([go, "test", "-vet=off", *flags, "-c", "-o", str(folder / "new.test"), "./specs"], folder, environment)
            _go([go, "build", *flags, "-o", str(folder / "ginkgo"), "github.com/onsi/ginkgo/v2/ginkgo"], folder, environment)
            (folder / "new.test").rename(folder / "e2e.test")
    return folder


def _go(command: list[str], where: Path, environment: Mapping[str, str]) -> None:
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise E2EError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def run(programs: Path, kubeconfig: Path, kubectl: Path, specs: Collection[str], *, seconds: int = SPEC_SECONDS) -> Run:
    """Runs these specs. seconds: the limit of each. Raises E2EError."""
    return _run(programs, kubeconfig, kubectl, pattern(specs), "", seconds)


def search(programs: Path, kubeconfig: Path, kubectl: Path) -> Run:
    """Runs all specs that do not obviously need containers, most of which wait for one until their time is over."""
    return _run(programs, kubeconfig, kubectl, r"\[sig-", _SKIPPED, SEARCH_SECONDS)


def _run(programs: Path, kubeconfig: Path, kubectl: Path, focus: str, skip: str, seconds: int) -> Run:
    with tempfile.TemporaryDirectory() as scratch:
        of_ginkgo = [
            f"--procs={AT_ONCE}",
            "--no-color",
            "--keep-going",
            "--silence-skips",
            "--poll-progress-after=0s",
            f"--focus={focus}",
            *([f"--skip={skip}"] if skip else []),
            "--json-report=report.json",
            f"--output-dir={scratch}",
        ]
        of_specs = [
            f"--kubeconfig={kubeconfig}",
            f"--kubectl-path={kubectl}",
            "--provider=skeleton",
            "--num-nodes=1",
            "--allowed-not-ready-nodes=-1",
            "--minStartupPods=0",
            "--system-pods-startup-timeout=0s",
            "--dump-logs-on-failure=false",
        ]
        began = time.monotonic()
        done = subprocess.run(
            [str(programs / "ginkgo"), *of_ginkgo, str(programs / "e2e.test"), "--", *of_specs],
            cwd=scratch,
            env={**os.environ, "E2E_SPEC_SECONDS": str(seconds)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        report = Path(scratch, "report.json")
        if not report.exists():
            raise E2EError(f"the specs ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return _read(json.loads(report.read_text()), time.monotonic() - began, done.stdout)


def _read(report: Any, seconds: float, output: str) -> Run:
    states: dict[str, str] = {}
    messages: dict[str, str] = {}
    for spec in (spec for suite in report for spec in suite["SpecReports"] or ()):
        if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending"):
            name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
            states[name] = spec["State"]
            failures = [spec.get("Failure") or {}, *(each["Failure"] for each in spec.get("AdditionalFailures") or ())]
            messages[name] = " | ".join(each["Message"] for each in failures if each.get("Message"))
    return Run(states, messages, seconds, output)


def pattern(names: Iterable[str]) -> str:
    """A regular expression of Go for these specs and no others. ginkgo puts the suite's name before each."""
    return f"(?: |^)(?:{'|'.join(_escaped(name) for name in sorted(names))})$"


def _escaped(name: str) -> str:
    return re.sub(r"([][.*+?^${}()|\\])", r"\\\1", name)


@contextlib.contextmanager
def real(environ: Mapping[str, str], say: Callable[[str], None], scratch: Path) -> Iterator[tuple[Path, Path]]:
    """A control plane with a Node: its kubeconfig, and kubectl."""
    binaries = obtain(environ, say)
    with ControlPlane(
        binaries, controllers=_CONTROLLERS, apiserver_arguments=_API_SERVER, folder=scratch / "plane", signs=True
    ) as plane:
        _add_node(binaries.kubectl, plane.kubeconfig)
        yield plane.kubeconfig, binaries.kubectl


@contextlib.contextmanager
def ours(environ: Mapping[str, str], say: Callable[[str], None], scratch: Path) -> Iterator[tuple[Path, Path]]:
    """`aggserver dev` with a Node, where Pods stay Pending as there: its kubeconfig, and kubectl."""
    kubectl = obtain(environ, say).kubectl
    with running(server := Standalone(scratch / "dev", "--pods=pending")):
        _add_node(kubectl, server.kubeconfig)
        # A kubelet asks all the time; the control plane was asked whether it is ready. The metrics of a spec tell of it.
        subprocess.run(
            [str(kubectl), f"--kubeconfig={server.kubeconfig}", "get", "--raw", "/readyz"], check=True, capture_output=True
        )
        yield server.kubeconfig, kubectl


def _add_node(kubectl: Path, kubeconfig: Path) -> None:
    command = [str(kubectl), f"--kubeconfig={kubeconfig}"]
    subprocess.run([*command, "create", "-f", "-"], input=json.dumps(_NODE), text=True, check=True, capture_output=True)
    # Without its controller, nobody takes away the taint that a new Node gets; where there is none, this fails.
    taint = [*command, "taint", "node", "node-1", "node.kubernetes.io/not-ready:NoSchedule-"]
    subprocess.run(taint, check=False, capture_output=True)


SIDES = {"real": real, "ours": ours}
"""What starts each server: a context manager of (environment, function that tells of progress, folder)."""
