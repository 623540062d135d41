"""manifests/backup: the commands of its containers, on a server under writes and with an object storage that speaks S3; and back.

What a kubelet does is done here: it puts files at paths and variables into arguments. The storage is rclone's own, on loopback.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fenced import commands
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running
from tests.rclone.program import build, s3

pytestmark = pytest.mark.long

MANIFESTS = Path(__file__).parents[2] / "manifests"
CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"
JOB = "aggserver-backup-29402597"
SECRET = "kubectl create secret generic aggserver-backup "


class Pod:
    """The containers of a template, run one after the other as processes, with the paths of mounts in `folder`."""

    def __init__(
        self, template: Mapping[str, Any], folder: Path, programs: Mapping[str, Sequence[str]], variables: dict[str, str]
    ) -> None:
        self._containers = [*template["spec"]["initContainers"], *template["spec"]["containers"]]
        self._folder = folder
        self._programs = programs
        self._variables = variables

    def run(self) -> None:
        for container in self._containers:
            variables = dict(self._variables) if "envFrom" in container else {}
            variables |= {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
            if any("valueFrom" in each for each in container.get("env", [])):
                variables["JOB_NAME"] = JOB
            paths = {mount["mountPath"]: str(self._folder / mount["name"]) for mount in container["volumeMounts"]}
            arguments = [_at(paths, _expanded(argument, variables)) for argument in container["args"]]
            program = self._programs[container["image"].partition(":")[0]]
            environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder), **variables}
            done = subprocess.run([*program, *arguments], env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (container["name"], arguments, done.stdout, done.stderr)


def _at(paths: Mapping[str, str], argument: str) -> str:
    mounted = "|".join(map(re.escape, paths))
    return re.sub(rf"(^|=)({mounted})(?=/|$)", lambda found: found[1] + paths[found[2]], argument)


def _expanded(argument: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda found: variables[found[1]], argument)


def settings(**changed: str) -> dict[str, str]:
    """Of the Secret that docs/cluster.md shows, with what is different here."""
    (command,) = {each.text for each in commands() if each.text.startswith(SECRET)}
    shown = dict(re.findall(r"--from-literal (\w+)=(\S+)", command))
    assert set(changed) < set(shown)
    return shown | changed


class Writer(threading.Thread):
    """Creates objects until it is told to end; `acknowledged` has their names and revisions."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self.over = threading.Event()
        self.acknowledged: dict[str, int] = {}

    def run(self) -> None:
        with Client(self._kubeconfig) as client:
            for number in itertools.count():
                if self.over.is_set():
                    return
                obj = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": f"c{number}"}, "spec": {}}
                answer = client.request("POST", CRONTABS, {"content-type": "application/json"}, json.dumps(obj).encode())
                assert answer.status == 201, answer
                self.acknowledged[f"c{number}"] = int(json.loads(answer.body)["metadata"]["resourceVersion"])


def test_a_backup_of_a_running_server_comes_back_from_object_storage(tmp_path: Path) -> None:
    rclone = build(os.environ, print)
    programs = {"aggserver": [sys.executable, "-m", "aggserver"], "rclone/rclone": [str(rclone)]}
    buckets, pod = tmp_path / "buckets", tmp_path / "pod"
    (buckets / "backups").mkdir(parents=True)
    for name in ("data", "backup", "tmp"):
        (pod / name).mkdir(parents=True)
    key, secret = "an-id", "a-secret-key"
    access = {"RCLONE_CONFIG_BACKUP_ACCESS_KEY_ID": key, "RCLONE_CONFIG_BACKUP_SECRET_ACCESS_KEY": secret}
    with s3(rclone, buckets, key, secret) as url:
        variables = settings(DESTINATION="backups/aggserver", RCLONE_CONFIG_BACKUP_ENDPOINT=url, **access)
        job = yaml.safe_load((MANIFESTS / "backup" / "cron-job.yaml").read_text())["spec"]["jobTemplate"]["spec"]
        server = Standalone(pod / "data", "-f", str(MANIFESTS / "examples" / "crontab.yaml"))
        with running(server):
            writer = Writer(server.kubeconfig)
            writer.start()
            try:
                eventually(lambda: len(writer.acknowledged) > 50, "there are some objects")
                before = dict(writer.acknowledged)
                Pod(job["template"], pod, programs, variables).run()
                assert len(writer.acknowledged) > len(before), "writes went on meanwhile"
            finally:
                writer.over.set()
                writer.join()
        assert (buckets / "backups" / "aggserver" / f"{JOB}.db").stat().st_size > 10_000

        lost = tmp_path / "new"
        for name in ("data", "backup", "tmp"):
            (lost / name).mkdir(parents=True)
        restore = yaml.safe_load((MANIFESTS / "examples" / "restore.yaml").read_text())["spec"]
        Pod(restore["template"], lost, programs, variables).run()
    with running(server := Standalone(lost / "data")), Client(server.kubeconfig) as client:
        found = json.loads(client.request("GET", CRONTABS).body)
    there = {item["metadata"]["name"]: int(item["metadata"]["resourceVersion"]) for item in found["items"]}
    assert before.items() <= there.items() <= writer.acknowledged.items()
    assert int(found["metadata"]["resourceVersion"]) > max(writer.acknowledged.values())
