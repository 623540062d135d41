"""The page "Versions in CustomResourceDefinitions" at three places: kube-apiserver, `aggserver dev`, and behind the aggregator.

What is true at kube-apiserver is then shown to be true here by the same assertions. The webhook is manifests/examples'.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.cluster import Cluster
from tests.controlplane.pki import Authority
from tests.integration.aggregation import Aggregation
from tests.integration.server import eventually
from tests.integration.watching import Watch

__all__ = ["FilePlace", "Place", "Webhook", "crontab", "example", "in_group", "with_versions"]

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
GROUP = "example.com"
DEFINITION = "customresourcedefinitions"


class Webhook:
    """manifests/examples/conversion_webhook.py, running when made."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder, "webhook-ca")
        self._pair = authority.server("webhook", ["localhost", "127.0.0.1"])
        self._log = folder / "webhook.log"
        self._port = "0"
        self.authority = authority.pair.certificate
        self.start()

    def start(self) -> None:
        """On the port that it had before, if it had one."""
        before = self._log.stat().st_size if self._log.exists() else 0
        files = ["--certificate", str(self._pair.certificate), "--key", str(self._pair.key)]
        command = [sys.executable, str(EXAMPLES / "conversion_webhook.py"), *files, "--port", self._port]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        found = eventually(lambda: re.search(r"https://[0-9.]+:(\d+)", self._log.read_text()[before:]), "the webhook listens")
        self._port = found[1]

    def stop(self) -> None:
        """As when its node is lost: nothing listens any more. Can be called twice."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def url(self) -> str:
        return f"https://localhost:{self._port}/crdconvert"

    @property
    def calls(self) -> int:
        """Reviews that it has answered so far."""
        return sum(line.startswith(("converted", "failed")) for line in self._log.read_text().splitlines())

    def conversion(self, *review_versions: str) -> dict[str, Any]:
        """spec.conversion of a definition."""
        config = {"url": self.url, "caBundle": base64.b64encode(self.authority.read_bytes()).decode()}
        versions = list(review_versions or ("v1", "v1beta1"))
        return {"strategy": "Webhook", "webhook": {"conversionReviewVersions": versions, "clientConfig": config}}


class Place:
    """A server whose definitions are an API, and a namespace of it. `kubectl` is that of the namespace.

    `ours`: it is aggserver, and not kube-apiserver.
    """

    group = GROUP

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, user: Path | None = None) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kubeconfig = user or cluster.kubeconfig
        self.ours = user is not None
        self._folder = folder
        self._count = 0
        self._current: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """Of the definition."""
        return f"crontabs.{self.group}"

    def kubectl(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.cluster.kubectl(*self._where(), *arguments, user=self.kubeconfig, **more)

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json").stdout)

    def create(self, *objects: dict[str, Any]) -> None:
        for obj in objects:
            self.kubectl("create", "-f", "-", input=json.dumps(obj))

    def refused(self, *arguments: str, **more: Any) -> str:
        """What kubectl complains of, which fails."""
        done = self.kubectl(*arguments, check=False, **more)
        assert done.returncode, done.stdout
        return done.stderr

    @contextlib.contextmanager
    def watching(self, resource: str) -> Iterator[Watch]:
        """Its lines are events, as JSON; the first are ADDED, of what there is."""
        arguments = [*self._where(), "get", resource, "--watch", "--output-watch-events", "-o", "json"]
        with self.cluster.running_kubectl(*arguments, user=self.kubeconfig) as process:
            yield Watch(process)

    def define(self, definition: dict[str, Any]) -> None:
        """Make the definition, or put it in the place of the one there is, and wait until its versions are served."""
        self._current = in_group(definition, self.group)
        self._put(self._current)
        eventually(self._is_served, "the versions are served")

    def put(self, definition: dict[str, Any]) -> None:
        """As `define`, without a wait."""
        self._put(in_group(definition, self.group))

    def change(self, **spec: Any) -> None:
        """Of the definition there is."""
        self.define({**self._current, "spec": {**self._current["spec"], **spec}})

    def stored_versions(self) -> list[str]:
        """In which objects may be stored."""
        versions: list[str] = self.get("crd", self.name)["status"]["storedVersions"]
        return versions

    def path(self, version: str) -> str:
        return f"/apis/{self.group}/{version}/namespaces/{self.namespace}/crontabs"

    def remove(self, *options: str) -> None:
        """The definition and all its objects; finalizers are not waited for."""
        self.kubectl("delete", DEFINITION, self.name, "--ignore-not-found", *options)

    def _put(self, definition: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", input=json.dumps(definition))

    def _is_served(self) -> bool:
        versions = self._served()
        group = self.kubectl("get", "--raw", f"/apis/{self.group}", check=False)
        if group.returncode or versions != {each["version"] for each in json.loads(group.stdout)["versions"]}:
            return False
        # What kubectl looks resources up in, which the aggregator puts together in its own time.
        discovered = self.kubectl("api-versions", check=False).stdout.split()
        if {f"{self.group}/{name}" for name in versions} != {each for each in discovered if each.startswith(f"{self.group}/")}:
            return False
        roots = [f"/apis/{self.group}/{name}" for name in versions]
        paths = [*roots, *(f"/openapi/v3{root}" for root in roots), *map(self.path, versions)]
        return all("crontab" in self.kubectl("get", "--raw", path, check=False).stdout.lower() for path in paths)

    def _served(self) -> set[str]:
        return {version["name"] for version in self._current["spec"]["versions"] if version["served"]}

    def _where(self) -> Sequence[str]:
        # kubectl keeps what it has discovered for hours. A definition that was changed is discovered anew.
        self._count += 1
        return ["-n", self.namespace, f"--cache-dir={self._folder / f'kubectl-{self.group}-{self._count}'}"]


class FilePlace(Place):
    """aggserver behind the aggregator of the cluster, whose definitions are files.

    In a group of its own, since the page's is kube-apiserver's.
    """

    group = f"aggregated.{GROUP}"

    def __init__(self, aggregation: Aggregation, namespace: str, folder: Path) -> None:
        super().__init__(aggregation.plane, namespace, folder)
        self.ours = True
        self._aggregation = aggregation
        self._file = ExitStack()
        self._said = 0  # of the log, when the definition was last changed: other tests have had one of this name

    def remove(self, *options: str) -> None:
        for version in self._served() if self._current else ():
            # kubectl would list them first, which can fail.
            self.kubectl("delete", "--raw", self.path(version), check=False)
        self._file.close()
        eventually(lambda: not self._services(), "the APIServices are gone")

    def stored_versions(self) -> list[str]:
        """What the log has last said that all objects are stored as; a file has no status."""
        said = self._aggregation.log[self._said :]
        return re.findall(rf"crontabs\.{re.escape(self.group)}: all objects are stored as (\w+)", said)[-1:]

    def _services(self) -> list[str]:
        return [name for name in self._aggregation.api_services() if name.endswith(f".{self.group}")]

    def _put(self, definition: dict[str, Any]) -> None:
        said = self._said = len(self._aggregation.log)
        text = json.dumps(definition)
        path = self._aggregation.definitions / "versions.yaml"
        if path.exists():
            path.write_text(text)
        else:
            self._file.enter_context(self._aggregation.definition(path.name, text))
        eventually(lambda: "definitions: serving" in self._aggregation.log[said:], "the file is read")


def example(name: str) -> dict[str, Any]:
    """A definition of manifests/examples."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return found


def in_group(definition: dict[str, Any], group: str) -> dict[str, Any]:
    """The definition, in this group; as it is, if it is there already."""
    names = definition["spec"]["names"]
    return {
        **definition,
        "metadata": {**definition["metadata"], "name": f"{names['plural']}.{group}"},
        "spec": {**definition["spec"], "group": group},
    }


def with_versions(definition: dict[str, Any], **changes: dict[str, Any] | None) -> dict[str, Any]:
    """The definition with its versions changed, by their names; None removes one."""
    versions = definition["spec"]["versions"]
    changed = [{**version, **(changes.get(version["name"]) or {})} for version in versions]
    kept = [version for version in changed if changes.get(version["name"], {}) is not None]
    return {**definition, "spec": {**definition["spec"], "versions": kept}}


def crontab(group: str, version: str, name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": f"{group}/{version}", "kind": "CronTab", "metadata": metadata, **fields}
