"""`python -m tests.kind`, which `make kind` runs: the image in a real cluster of containers, from nothing.

Finds or starts a Docker engine, pulls or makes the image of a node and the Python that our image is built on, builds our image,
makes a kind cluster that runs it, and runs in it the tests that the cluster tells something: those of tests/integration that use
the server of the cluster they are given, and those of this folder. Ends what it started, and leaves nothing but the cache.

What is wanted and can't be had ends it with one line that says what to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.arguments import split
from tests.controlplane.binaries import BinariesError
from tests.controlplane.toolchain import ToolchainError
from tests.kind import engine
from tests.kind.cluster import IMAGE, KindCluster, kubectl_program
from tests.kind.images import Images, cache

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
# Bytes: for the images that are made, the cluster's volumes, and ours. Of a file system that has less, the failures are riddles.
ROOM = 12 << 30
PYTHON = "3.14"
# Those that change least come first; adoption adds to what is installed.
IN_THE_CLUSTER = [
    f"tests/integration/in_the_cluster/{name}.py"
    for name in ("installation", "container", "schedulers", "outages", "certificates", "adoption", "operators", "replicas")
]


def main(arguments: Sequence[str]) -> int:
    options, more = _parsed(arguments)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s: {text}", flush=True)

    try:
        folder = cache(os.environ)
        look_at_the_machine(folder)
        engine.install(say)
        with engine.engine(folder / "docker", say, keep=options.keep):
            images = Images(os.environ, say)
            kind, kubectl = images.kind(), kubectl_program(say)
            node, base = options.node or images.node(), images.python(options.python)
            say(f"building {IMAGE} on {base}")
            engine.run("docker", "build", "--tag", IMAGE, "--build-arg", f"PYTHON={base}", REPOSITORY)
            scratch = Path(tempfile.mkdtemp(prefix="aggserver-kind-"))
            try:
                cluster = KindCluster(kind, kubectl, scratch, say)
                with cluster.running(node, options.config, keep=options.keep):
                    cluster.install()
                    status = _tests(cluster, base, more)
            finally:
                if not options.keep:
                    shutil.rmtree(scratch)
    except (engine.EngineError, BinariesError, ToolchainError) as error:
        print(f"make kind: {error}", file=sys.stderr)
        return 1
    say("done" if not status else f"the tests ended with status {status}")
    return status


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tests.kind", description="The image in a real cluster of containers.")
    parser.add_argument("--keep", action="store_true", help="keep the cluster, and the Docker engine if it was started for this")
    parser.add_argument("--node", metavar="IMAGE", help="of the node (default: kindest/node, or made here)")
    parser.add_argument("--config", type=Path, default=HERE / "kind.yaml", metavar="FILE", help="of the cluster, for kind")
    parser.add_argument("--python", default=PYTHON, metavar="VERSION", help="of the image (default: %(default)s)")
    own, more = split(arguments)
    return parser.parse_args(own), more


def look_at_the_machine(folder: Path, cgroups: Path = Path("/sys/fs/cgroup")) -> None:
    """folder: where images will be. Raises EngineError with what stands in the way, before minutes are spent."""
    folder.mkdir(parents=True, exist_ok=True)
    if not cgroups.is_dir() or not any(cgroups.iterdir()):
        raise engine.EngineError(f"this needs cgroups, and {cgroups} has none: containers can't be made here")
    if (free := shutil.disk_usage(folder).free) < ROOM:
        raise engine.EngineError(f"this needs {ROOM >> 30} GiB of disk for images in {folder}, and {free >> 30} GiB are free")


def _tests(cluster: KindCluster, python: str, more: Sequence[str]) -> int:
    """The exit status of pytest. Files whose names it does not look for are only read if their folder is not named as well.

    python: the image that ours was built on.
    """
    path = f"{cluster.kubectl_path.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KIND_MANIFESTS": str(cluster.manifests), "KIND_PYTHON": python}
    command = [sys.executable, "-m", "pytest", "-q", f"--kubeconfig={cluster.kubeconfig}"]
    runs = [[*command, *places, *more] for places in (["tests/integration"], IN_THE_CLUSTER)]
    return max(subprocess.run(run, cwd=REPOSITORY, env=environment, check=False).returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
