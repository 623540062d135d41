"""`python -m tests.versions`, which `make versions` runs: aggserver beside the kube-apiservers of other versions of Kubernetes.

For each version a control plane is built from Go modules, and the integration tests that are about the host run beside it: files
mode behind the aggregator, authentication, the host's admission rules and quotas, adoption and release. At the end there is one
line for each version. Comparisons of what two servers answer are left out: those of other versions answer differently.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.arguments import split
from tests.controlplane.binaries import BinariesError, kubernetes_version, obtain
from tests.controlplane.hosts import obtain_version
from tests.controlplane.toolchain import ToolchainError

REPOSITORY = Path(__file__).parents[1]

# The newest of each minor version when this was written; the version of the other tests comes last.
VERSIONS = ("v1.31.14", "v1.32.11", "v1.33.7", "v1.34.3", "v1.35.4")

MODULES = (
    "test_aggregated",
    "test_aggregated_server",
    "test_authentication",
    "test_api_service_policy",
    "test_admission_rules",
    "test_quota",
    "test_kubectl_proxy",
    "test_adopt_plan",
    "test_adoption_switch",
    "test_adoption",
)

# Tests of what kube-apiserver itself does, and since which minor version it does so.
SINCE = {
    "test_flags_that_make_every_client_the_proxy": 35,  # a check of its flags, which aggserver has beside any version
    "test_no_client_becomes_the_proxy": 33,  # before, it writes a ConfigMap back at once that somebody has changed
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description="Beside other versions of kube-apiserver.")
    parser.add_argument("versions", nargs="*", help=f"(default: {' '.join(VERSIONS)}, and that of the other tests)")
    own, more = split(arguments)
    versions = parser.parse_args(own).versions or [*VERSIONS, kubernetes_version()]
    lines, status = [], 0
    for version in versions:
        began = time.monotonic()
        try:
            is_ours = version == kubernetes_version()
            binaries = obtain(os.environ, print) if is_ours else obtain_version(version, os.environ, print)
        except (BinariesError, ToolchainError) as error:
            print(f"make versions: {version}: {error}", file=sys.stderr)
            lines.append(f"{version}: could not be built")
            status = 1
            continue
        print(f"beside kube-apiserver {version}", flush=True)
        missing = [name for name, since in SINCE.items() if binaries.minor() < since]
        ended, passed, failed = _tested(binaries.folder, ["-k", " and ".join(f"not {name}" for name in missing), *more])
        lines.append(f"{version}: {passed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
        status = max(status, ended)
    print("\n".join(lines))
    return status


def _tested(assets: Path, more: Sequence[str]) -> tuple[int, int, int]:
    """(exit status, passed, failed) of pytest."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts")
        options = ["-q", "-n", "2", "--dist", "loadfile", "-m", "not long", f"--counts={counts}"]
        places = [f"tests/integration/{module}.py" for module in MODULES]
        environment = {**os.environ, "KUBEBUILDER_ASSETS": str(assets)}
        command = [sys.executable, "-m", "pytest", *options, *places, *more]
        ended = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
        counted = json.loads(counts.read_text()) if counts.exists() else {}
    return ended, counted.get("passed", 0), counted.get("failed", 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
