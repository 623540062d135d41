"""What the integration tests know of a cluster, be it the control plane they start or one they are pointed at by --kubeconfig.

A cluster is a kubeconfig of an administrator, kubectl, and a way to be somebody else. kubectl gets a discovery cache of its
own: the cache lives for six hours and is keyed by host and port, which a later run may be given again.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import records
from tests.controlplane.pki import KeyPair
from tests.waiting import HANG_SECONDS

__all__ = ["Cluster", "ExistingCluster", "Kubectl", "write_kubeconfig"]

# `Cluster.kubectl`, or a function that gives it some of its arguments.
Kubectl = Callable[..., subprocess.CompletedProcess[str]]

# Seconds for one kubectl command: more than one waits with `KUBECTL_LIMIT`, which tells more of what it waited for.
KUBECTL_TIMEOUT = 2 * HANG_SECONDS

# What `kubectl wait` ends with at once for a definition whose conditions are null, as they are at first in kube-apiserver and in
# aggserver.
_NO_CONDITIONS = ".status.conditions accessor error: <nil>"


class Cluster(ABC):
    """`kubeconfig` is an administrator's; `folder` is where this cluster's files are kept; `program` is the kubectl for it."""

    def __init__(self, folder: Path, kubectl: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "admin.kubeconfig"
        self.program = kubectl
        self._users: dict[tuple[str, tuple[str, ...]], Path] = {}

    @abstractmethod
    def _write_user(self, path: Path, name: str, groups: Sequence[str]) -> None:
        """Write the kubeconfig of a user."""

    def user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig of this user in these groups, who has the rights that RBAC gives them; the same file when asked again."""
        key = (name, tuple(groups))
        if key not in self._users:
            path = self.folder / f"user-{len(self._users)}.kubeconfig"  # by number: names may hold `:` and `/`
            self._write_user(path, name, groups)
            self._users[key] = path
        return self._users[key]

    def kubectl(
        self,
        *arguments: str,
        user: Path | None = None,
        input: str | None = None,  # noqa: A002  # subprocess' word
        check: bool = True,
        timeout: float = KUBECTL_TIMEOUT,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, or with the kubeconfig `user`; `input` goes to standard input (`apply -f -`),
        `environment` is added to its variables (KUBE_EDITOR).

        `wait` is run again where it meets an object before its first conditions. Raises AssertionError with the command and all
        it printed if it fails and `check` is true, subprocess.TimeoutExpired after `timeout` seconds.
        """
        until = time.monotonic() + timeout
        while True:
            done = subprocess.run(
                self._command(arguments, user),
                env=self._environment() | dict(environment or {}),
                input=input or "",
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
            said = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
            records.exchanged(f"kubectl {' '.join(arguments)}\n{input or ''}", said)
            if arguments[:1] != ("wait",) or _NO_CONDITIONS not in done.stderr or time.monotonic() > until:
                break
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {said}")
        return done

    @contextlib.contextmanager
    def running_kubectl(self, *arguments: str, user: Path | None = None) -> Iterator[subprocess.Popen[str]]:
        """kubectl in the background (`get --watch`), with pipes for what it prints; killed at the end of the block."""
        with subprocess.Popen(
            self._command(arguments, user),
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def get(self, *arguments: str, user: Path | None = None) -> Any:
        """`kubectl get <arguments> -o json`, decoded."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json", user=user).stdout)

    def _command(self, arguments: Sequence[str], user: Path | None) -> list[str]:
        cache = self.folder / "kubectl-cache" / (user or self.kubeconfig).name
        return [str(self.program), f"--kubeconfig={user or self.kubeconfig}", f"--cache-dir={cache}", *arguments]

    def _environment(self) -> dict[str, str]:
        # Without KUBECONFIG, KUBECTL_* and the like, and without the person's own aliases and defaults.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
        return kept | {"KUBERC": "off"}


class ExistingCluster(Cluster):
    """A cluster that somebody else runs. Other users are impersonated, since its client CA's key is not ours.

    `folder` must exist; the current context of `kubeconfig` is used.
    """

    def __init__(self, kubeconfig: Path, folder: Path, kubectl: Path) -> None:
        super().__init__(folder, kubectl)
        flat = self.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json", user=kubeconfig.absolute())
        self._config = json.loads(flat.stdout)
        _write(self.kubeconfig, self._config)

    def _write_user(self, path: Path, name: str, groups: Sequence[str]) -> None:
        config = copy.deepcopy(self._config)
        for entry in config["users"]:
            entry["user"] |= {"as": name, "as-groups": list(groups)}
        _write(path, config)


def write_kubeconfig(path: Path, server: str, authority: Path, user: str, pair: KeyPair, namespace: str = "default") -> None:
    """Write a kubeconfig that needs no other file; JSON, which YAML's readers take."""
    cluster = {"server": server, "certificate-authority-data": _data(authority)}
    credentials = {"client-certificate-data": _data(pair.certificate), "client-key-data": _data(pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "aggserver-test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "aggserver-test", "context": {"cluster": "aggserver-test", "user": user, "namespace": namespace}}],
        "current-context": "aggserver-test",
    }
    _write(path, config)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write(path: Path, config: Mapping[str, Any]) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2) + "\n")
