"""The image under the Deployment's securityContext, probes and limits, and the volume."""

from __future__ import annotations

import json

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.in_the_cluster.conftest import Pod, on_node
from tests.kind.cluster import NAMESPACE

OBJECTS = 10_000
# Of one object as it is stored: with what a controller's status takes, beside what a person writes.
OBJECT_BYTES = 3_700
MEMORY_LIMIT = 1 << 30  # as deployment.yaml has it

# Of process 1 in the container, in the words of proc(5).
_STATUS = """
import json
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
print(json.dumps({name: status[name].split() for name in ("Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}))
"""
_WRITE = """
import errno, pathlib
for place in ("/", "/opt/aggserver", "/etc/aggserver/definitions", "/var/lib/aggserver", "/tmp"):
    try:
        pathlib.Path(place, "written").write_text("")
        print(place, "written")
        pathlib.Path(place, "written").unlink()
    except OSError as error:
        print(place, errno.errorcode[error.errno])
"""
# cgroup v1 and v2 have other names for it.
_MEMORY = """
import pathlib
for name in ("memory.current", "memory/memory.usage_in_bytes"):
    path = pathlib.Path("/sys/fs/cgroup", name)
    if path.exists():
        stat = dict(line.split() for line in path.with_name("memory.stat").read_text().splitlines())
        print(int(path.read_text()) - int(stat.get("inactive_file", stat.get("total_inactive_file", 0))))
        break
"""


def test_without_privileges(pod: Pod) -> None:
    status = json.loads(pod.python(_STATUS))
    assert set(status["Uid"]) == set(status["Gid"]) == {"65532"}
    assert status["CapEff"] == status["CapBnd"] == ["0" * 16]
    assert status["NoNewPrivs"] == ["1"]
    assert status["Seccomp"] == ["2"]  # a filter


def test_only_its_own_places_can_be_written(pod: Pod) -> None:
    assert dict(line.split() for line in pod.python(_WRITE).splitlines()) == {
        "/": "EROFS",
        "/opt/aggserver": "EROFS",
        "/etc/aggserver/definitions": "EROFS",
        "/var/lib/aggserver": "written",
        "/tmp": "written",
    }


def test_the_namespace_enforces_the_restricted_level(pod: Pod) -> None:
    labels = pod.cluster.get("namespace", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    assert pod.object()["status"]["phase"] == "Running"


def test_nothing_but_its_port_listens(pod: Pod) -> None:
    table = pod.python("print(open('/proc/net/tcp').read() + open('/proc/net/tcp6').read())")
    listening = {line.split()[1].rsplit(":", 1)[1] for line in table.splitlines() if line.split()[3:4] == ["0A"]}
    assert listening == {f"{6443:04X}"}


def test_ten_thousand_objects_within_the_limit(pod: Pod, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Made in one go, as a migration does, and still there when the container has started anew over its volume."""
    filling = "x" * (OBJECT_BYTES - 700)
    spec = {"cronSpec": "* * * * */5", "image": filling, "replicas": 1}
    items = [
        {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": f"many-{number}"}, "spec": spec}
        for number in range(OBJECTS)
    ]
    lines = "\n".join(map(json.dumps, items))
    pod.cluster.kubectl("create", "-n", namespace, "-f", "-", input=lines, timeout=1200)
    before = pod.restarts()
    assert _count(pod.cluster, namespace) == OBJECTS
    full = int(pod.python(_MEMORY))
    assert full < MEMORY_LIMIT
    pod.kill()
    pod.wait_until_ready()
    assert _count(pod.cluster, namespace) == OBJECTS
    again = int(pod.python(_MEMORY))
    assert again < MEMORY_LIMIT
    assert pod.restarts() == before + 1
    last = pod.object()["status"]["containerStatuses"][0]["lastState"]["terminated"]
    assert last["reason"] != "OOMKilled"
    with capsys.disabled():
        print(f"\nmemory with {OBJECTS} objects of {OBJECT_BYTES} bytes: {full >> 20} MiB, after a restart {again >> 20} MiB")


def _count(cluster: Cluster, namespace: str) -> int:
    return len(cluster.kubectl("get", "crontabs", "-n", namespace, "-o", "name").stdout.splitlines())


def test_no_network_policy_is_needed_to_be_reached(pod: Pod) -> None:
    """The cluster of these tests enforces none, which is said here; that the policy's port is the one that listens is shown."""
    policy = pod.cluster.get("networkpolicy", "aggserver", "-n", NAMESPACE)
    assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] in ([6443], ["https"])
    address = pod.object()["status"]["podIP"]
    assert on_node("curl", "-sk", f"https://{address}:6443/livez") == "ok"
