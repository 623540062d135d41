"""`python -m tests.controlplane build | up`: the control plane of the tests, for a person.

`build` gets the binaries into the cache and prints their folder. `up` starts the control plane, writes an administrator's
kubeconfig, and runs until it is interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
from pathlib import Path

from tests.controlplane.binaries import Binaries, BinariesError, obtain
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        binaries = obtain(os.environ, _say)
        if options.command == "build":
            print(binaries.folder)
        else:
            _up(binaries, options)
    except (BinariesError, ToolchainError, ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane", description="A real Kubernetes control plane on loopback."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the binaries into the cache, unless they are there, and print their folder")
    up = commands.add_parser("up", help="start the control plane and run until interrupted")
    up.add_argument("--kubeconfig", type=Path, metavar="FILE", help="also write the administrator's kubeconfig to FILE")
    up.add_argument("--folder", type=Path, help="keep keys, logs and etcd's data here (default: a temporary folder)")
    up.add_argument("--fsync", action="store_true", help="let etcd sync its writes to disk, as outside of tests")
    up.add_argument("--replicas", type=int, default=1, metavar="N", help="how many kube-apiservers share the etcd (default: 1)")
    return parser


def _up(binaries: Binaries, options: argparse.Namespace) -> None:
    # All end it as Ctrl-C does, which a shell has a program in the background ignore.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    made = ControlPlane(binaries, fsync=options.fsync, folder=options.folder, replicas=options.replicas)
    with contextlib.suppress(KeyboardInterrupt), made as plane:
        if options.kubeconfig is not None:
            options.kubeconfig.touch(mode=0o600)
            shutil.copyfile(plane.kubeconfig, options.kubeconfig)
        servers = " and ".join(plane.servers)
        _say(f"kube-apiserver is ready at {servers}, etcd at {plane.etcd}; logs and keys are in {plane.folder}")
        _say("interrupt to end it. In another shell:")
        _say(f"  export KUBECONFIG={(options.kubeconfig or plane.kubeconfig).absolute()}")
        _say(f"  export PATH={binaries.folder}:$PATH")
        signal.pause()
    _say("ended")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
