"""custom-metrics-apiserver's test-adapter, built once into the user's cache, and run beside a control plane.

go.mod and go.sum pin it, over the control plane's version of Kubernetes' modules. main.go is ours, since the published one takes
numbers at a fixed port of every address.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import build_program
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.sample_apiserver.program import GoServer

__all__ = ["MetricsAdapter", "build"]

MODULE = Path(__file__).parent


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be. Raises BinariesError, ToolchainError."""
    return build_program("metrics-adapter", MODULE, ".", environ, say)


class MetricsAdapter(GoServer):
    def __init__(self, plane: ControlPlane, folder: Path, port: int = 0) -> None:
        self._writes = f"http://127.0.0.1:{free_ports(1)[0]}/write-metrics"
        own = (f"--lister-kubeconfig={plane.kubeconfig}", f"--write-address={self._writes.split('/')[2]}")
        super().__init__(build(os.environ, print), plane, folder, port, own)

    def write(self, path: str, value: str) -> None:
        """path: as the metric is read, below the version, with `labels` as a query."""
        request = urllib.request.Request(
            f"{self._writes}/{path}", json.dumps(value).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request):
            pass
