"""A kopf operator goes on through an adoption and a release: it is not started again, and handles what is created and changed.

It is the operator of manifests/examples/kopf, in a process of its own beside the control plane.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.adopting import Adopting
from tests.integration.aggregation import EXAMPLE, MANIFESTS
from tests.integration.server import eventually, running

DEFINITION = "crontabs.stable.example.com"
OPERATOR = MANIFESTS / "examples" / "kopf" / "crontab_operator.py"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print)) as plane:
        plane.kubectl("apply", "-f", str(EXAMPLE))
        plane.kubectl("wait", "--for=condition=Established", "crd", DEFINITION, "--timeout=30s")
        yield plane


def test_an_operator_goes_on(plane: ControlPlane, tmp_path: Path) -> None:
    adopting = Adopting(plane, tmp_path, "stable.example.com")
    log = tmp_path / "operator.log"
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", "default", str(OPERATOR)]
    with running(adopting.start("--host-etcd-servers", plane.etcd)), log.open("wb") as output:
        operator = subprocess.Popen(
            command,
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
        )
        try:
            _handled(plane, "first", "0", log)
            adopting.adopt(DEFINITION)
            _handled(plane, "second", "1", log)
            _handled(plane, "first", "2", log)
            adopting.release(DEFINITION)
            _handled(plane, "third", "3", log)
            _handled(plane, "second", "4", log)
            assert operator.poll() is None, log.read_text()
        finally:
            operator.terminate()
            operator.wait(30)


def _handled(plane: ControlPlane, name: str, minute: str, log: Path) -> None:
    """Creates a CronTab, or changes it, and waits until the operator has written its status."""
    body = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"cronSpec": f"{minute} 2 * * *", "image": "backup", "replicas": 1},
    }
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=json.dumps(body))

    def done() -> bool:
        status: dict[str, Any] = plane.get("crontab", name, "-n", "default").get("status") or {}
        return bool((status.get("schedule") or {}).get("minute") == minute)

    eventually(done, f"the operator handles {name}: {log.read_text()[-4000:]}", 60.0)
