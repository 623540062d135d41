"""Operators go on through adopt, release, adopt: they are not started again, and handle what is created, changed and deleted.

One is that of manifests/examples/kopf, the other `tests/operators/shelves`, which is written with controller-runtime; each is a
process of its own beside the control plane. A ResourceQuota of the cluster holds all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.history.wire import connected
from tests.integration.adopting import Adopting
from tests.integration.aggregation import EXAMPLE, MANIFESTS
from tests.integration.server import eventually, running
from tests.integration.shelving import GROUP, NAMESPACE, SHELVES, Churn, definition
from tests.operators.suite import obtain_program
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

CRONTABS = "crontabs.stable.example.com"
KOPF = MANIFESTS / "examples" / "kopf" / "crontab_operator.py"

COUNT = f"count/{CRONTABS}"
SOME = 25  # writes between two moves, at least
SEED = 815_094  # of what is written

# What the operators may say while the objects move, and try again by themselves.
RETRIED = re.compile(
    r"Operation cannot be fulfilled|the object has been modified"  # 409, since the cache is behind
    r"|is moving between the cluster's etcd and aggserver"  # 503, the guard's
    r"|are being moved; please try again"  # 503, ours, before the switch is known everywhere
    r"|storage is \(re\)initializing"  # 429, of a kube-apiserver that has just been given the objects back
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print)) as plane:
        plane.kubectl("apply", "-f", str(EXAMPLE))
        plane.kubectl("create", "-f", "-", input=json.dumps(definition(SHELVES)))
        for namespace in (NAMESPACE, "limited"):
            plane.kubectl("create", "namespace", namespace)
        plane.kubectl("wait", "--for=condition=Established", f"crd/{CRONTABS}", f"crd/{SHELVES}", KUBECTL_LIMIT)
        yield plane


class Operator:
    """One process, whose log is what it writes to standard error."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=log.parent,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def ask(self) -> dict[str, Any]:
        """Of Shelves and ConfigMaps the resourceVersions by name: `cached` and `live`. Only that of Shelves answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self.log
        found: dict[str, Any] = json.loads(line)
        return found

    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=HANG_SECONDS)


@contextlib.contextmanager
def operators(plane: ControlPlane, folder: Path) -> Iterator[tuple[Operator, Operator]]:
    """kopf's, and controller-runtime's."""
    program = obtain_program("shelves", os.environ, print)
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", str(KOPF)]
    with contextlib.ExitStack() as started:
        kopf = Operator(command, folder / "kopf.log", {"KUBECONFIG": str(plane.kubeconfig)})
        started.callback(kopf.end)
        shelves = Operator([str(program), str(plane.kubeconfig)], folder / "shelves.log")
        started.callback(shelves.end)
        yield kopf, shelves


async def test_operators_go_on(plane: ControlPlane, tmp_path: Path) -> None:
    adopting = await asyncio.to_thread(Adopting, plane, tmp_path, "stable.example.com", GROUP)
    chance = random.Random(SEED)
    server = await asyncio.to_thread(adopting.start, "--host-etcd-servers", plane.etcd)
    with running(server), operators(plane, tmp_path) as (kopf, shelves):
        async with connected([plane.kubeconfig], chance) as wire:
            churn = Churn(wire, chance)
            churning = asyncio.create_task(churn.run())
            try:
                await asyncio.to_thread(moves, plane, adopting, kopf, churn, churning)
            finally:
                churn.stop()
                await churning
            await asyncio.to_thread(settled, plane, shelves, churn)
        assert kopf.runs()
        assert shelves.runs()
        found = complaints(kopf.log, shelves.log)
        assert not found, "\n".join(found)


def moves(plane: ControlPlane, adopting: Adopting, kopf: Operator, churn: Churn, churning: asyncio.Task[None]) -> None:
    """All that happens while Shelves are written: CronTabs are, too, and the quota holds on either side."""
    minute = iter(map(str, range(60)))

    def some() -> None:
        for name in ("first", "second"):
            handled(plane, name, next(minute), kopf)
        goal = churn.acknowledged + SOME
        eventually(lambda: churn.acknowledged >= goal or churning.done(), "Shelves are written")

    def move(by: Callable[[str], None], label: str) -> None:
        for name in (CRONTABS, SHELVES):
            adopting.label(name, label)
        for name in (CRONTABS, SHELVES):
            by(name)
        some()

    some()
    move(adopting.adopt, "true")
    move(adopting.release, "")
    eventually(lambda: is_limited(plane), "the quota is counted")
    assert "created" in limited(plane, "a")
    assert "created" in limited(plane, "b")
    refusal = limited(plane, "c")
    assert f"exceeded quota: crontabs, requested: {COUNT}=1, used: {COUNT}=2, limited: {COUNT}=2" in refusal
    move(adopting.adopt, "true")
    assert limited(plane, "c") == refusal
    # What is deleted here is counted by the cluster's controller.
    plane.kubectl("delete", CRONTABS, "a", "-n", "limited")
    eventually(lambda: "created" in limited(plane, "c"), "there is room again")


def is_limited(plane: ControlPlane) -> bool:
    """Makes a quota, unless kube-controller-manager does not know yet what it limits: it looks only at a quota that is new."""
    plane.kubectl("create", "quota", "crontabs", "-n", "limited", f"--hard={COUNT}=2")

    def status() -> dict[str, Any]:
        found: dict[str, Any] = plane.get("resourcequota", "crontabs", "-n", "limited")["status"]
        return found

    eventually(lambda: status().get("hard"), "the quota is taken over")
    if (status().get("used") or {}).get(COUNT) == "0":
        return True
    plane.kubectl("delete", "quota", "crontabs", "-n", "limited")
    return False


def handled(plane: ControlPlane, name: str, minute: str, operator: Operator) -> None:
    """Creates a CronTab, or changes it, and waits until the operator has written its status."""
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(crontab(name, "default", minute)))

    def done() -> bool:
        status: dict[str, Any] = plane.get("crontab", name, "-n", "default").get("status") or {}
        return bool((status.get("schedule") or {}).get("minute") == minute)

    eventually(done, f"the operator handles {name}: {operator.log[-4000:]}")


def limited(plane: ControlPlane, name: str) -> str:
    """What kubectl says of a CronTab created in the namespace with the quota."""
    done = plane.kubectl("create", "-f", "-", input=json.dumps(crontab(name, "limited", "0")), check=False)
    return done.stdout + done.stderr


def crontab(name: str, namespace: str, minute: str) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"cronSpec": f"{minute} 2 * * *", "image": "backup", "replicas": 1},
    }


def settled(plane: ControlPlane, operator: Operator, churn: Churn) -> None:
    """Every Shelf is as it was written last, and handled; those that were deleted are gone, with what they owned."""

    def marks() -> dict[str, tuple[int, int, int]]:
        """Of each Shelf: its mark, that of the status, and whether the status is of its last generation."""
        found = {}
        for item in plane.get(SHELVES, "-n", NAMESPACE)["items"]:
            status = item.get("status") or {}
            behind = item["metadata"]["generation"] - status.get("observedGeneration", 0)
            found[item["metadata"]["name"]] = (item["spec"]["mark"], status.get("mark", 0), behind)
        return found

    def config_maps() -> dict[str, str]:
        items = plane.get("configmaps", "-n", NAMESPACE)["items"]
        return {item["metadata"]["name"]: item["data"]["mark"] for item in items if "mark" in item.get("data", {})}

    expected = {name: (mark, mark, 0) for name, mark in churn.marks.items()}
    eventually(lambda: marks() == expected, f"all are handled as written: {expected}: {operator.log[-4000:]}")
    assert config_maps() == {name: str(mark) for name, mark in churn.marks.items()}

    def is_current() -> bool:
        held = operator.ask()
        return bool(held["cached"] == held["live"] and held["live"]["Shelf"].keys() == churn.marks.keys())

    eventually(is_current, "the operator's cache is what the cluster has")


def complaints(kopf: str, shelves: str) -> list[str]:
    """The lines of the operators' logs that tell of an error that is not one that they try again."""
    found = [line for line in kopf.splitlines() if re.search(r"\[(ERROR|CRITICAL)|Traceback", line)]
    found += [line for line in shelves.splitlines() if not line.startswith("{") or json.loads(line)["level"] == "error"]
    return [line for line in found if not RETRIED.search(line)]
