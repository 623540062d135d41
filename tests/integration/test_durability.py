"""What was acknowledged is there: `aggserver dev` under write load, killed again and again over one folder.

A killed process shows that nothing is acknowledged before the operating system has it, and that a restart takes up where things
were left. Whether the disk has it too, for a power cut, is up to SQLite and its settings, and not seen here.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import random
import resource
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.integration import pages
from tests.integration.server import Standalone, eventually, running
from tests.waiting import HANG_SECONDS

CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"
ROUNDS = 20
WRITERS = 8
# Acknowledged writes before the kill: from before the first answers to a few group commits later.
LOAD = (0, 200)


def connect(kubeconfig: Path) -> http.client.HTTPSConnection:
    config = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    pair = kubeconfig.with_name("client.pem")
    pair.write_bytes(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
    context.load_cert_chain(pair)
    host, _, port = cluster["server"].removeprefix("https://").rpartition(":")
    return http.client.HTTPSConnection(host, int(port), timeout=HANG_SECONDS, context=context)


@dataclass
class Acknowledged:
    """`created` and not deleted since: objects by name. `versions`: every resourceVersion of a creation."""

    created: dict[str, dict[str, Any]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    versions: list[int] = field(default_factory=list)

    def add(self, other: Acknowledged) -> None:
        self.created |= other.created
        self.deleted |= other.deleted
        self.versions += other.versions


class Writer(threading.Thread):
    """Creates one object after the other over one connection until the server is gone, and deletes every fourth again."""

    def __init__(self, kubeconfig: Path, prefix: str) -> None:
        super().__init__(daemon=True)
        self._connection = connect(kubeconfig)
        self._prefix = prefix
        self.acknowledged = Acknowledged()
        self.refused = ""

    def run(self) -> None:
        try:
            for number in itertools.count():
                self._write(f"{self._prefix}-{number}", number)
        except (OSError, http.client.HTTPException):
            pass  # killed
        except AssertionError as error:
            self.refused = str(error)
        finally:
            self._connection.close()

    def _write(self, name: str, number: int) -> None:
        made = json.loads(self._answer("POST", CRONTABS, body(name, number)))
        self.acknowledged.versions.append(int(made["metadata"]["resourceVersion"]))
        if number % 4 < 3:
            self.acknowledged.created[name] = made
        else:
            self._answer("DELETE", f"{CRONTABS}/{name}", b"")
            self.acknowledged.deleted.add(name)

    def _answer(self, method: str, path: str, content: bytes) -> bytes:
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status in (200, 201), answer.decode()
        return answer


def body(name: str, number: int) -> bytes:
    spec = {"cronSpec": f"{number % 60} * * * *", "image": "x" * 200, "replicas": number}
    return json.dumps(
        {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}
    ).encode()


def load_until_killed(server: Standalone, prefix: str, goal: int) -> Acknowledged:
    """What was acknowledged before the kill."""
    writers = [Writer(server.kubeconfig, f"{prefix}-{number}") for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    eventually(lambda: sum(len(writer.acknowledged.versions) for writer in writers) >= goal, "the writers write")
    server.kill()
    acknowledged = Acknowledged()
    for writer in writers:
        writer.join(timeout=HANG_SECONDS)
        assert not writer.is_alive()
        assert writer.refused == ""
        acknowledged.add(writer.acknowledged)
    return acknowledged


def listed(server: Standalone) -> tuple[int, dict[str, dict[str, Any]]]:
    """(resourceVersion of the list, the objects by name)."""
    connection = connect(server.kubeconfig)
    try:
        connection.request("GET", CRONTABS)
        found = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    kind = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
    return int(found["metadata"]["resourceVersion"]), {item["metadata"]["name"]: {**kind, **item} for item in found["items"]}


def test_killed_under_load(tmp_path: Path) -> None:
    definition = tmp_path / "definition.yaml"
    definition.write_text(pages.RESOURCE_DEFINITION)
    moments = random.Random(20)
    acknowledged = Acknowledged()
    for number in range(ROUNDS):
        server = Standalone(tmp_path / "data", "-f", str(definition))
        try:
            version, there = listed(server)
            check(acknowledged, version, there)
            new = load_until_killed(server, f"round-{number}", moments.randint(*LOAD))
        except BaseException:
            server.kill()
            raise
        assert len(set(new.versions)) == len(new.versions)
        # Not even what was committed without being acknowledged has its version given again.
        assert all(one > version for one in new.versions)
        acknowledged.add(new)
    assert len(acknowledged.versions) > ROUNDS * WRITERS, "the server was killed before it did anything worth losing"


def check(acknowledged: Acknowledged, version: int, there: dict[str, dict[str, Any]]) -> None:
    """A list of version `version` after a restart has all that was acknowledged before."""
    missing = acknowledged.created.keys() - there.keys()
    assert not missing, f"{len(missing)} of {len(acknowledged.created)} are lost, as {min(missing)}"
    assert {name: there[name] for name in acknowledged.created} == acknowledged.created
    assert not acknowledged.deleted & there.keys()
    assert version >= max(acknowledged.versions, default=0)


def test_a_full_disk_is_told_and_got_over(tmp_path: Path) -> None:
    """Writes are answered with 500 and what to do; reads and watches go on; when there is room again all is as before."""
    definition = tmp_path / "definition.yaml"
    definition.write_text(pages.RESOURCE_DEFINITION)
    server = Standalone(tmp_path / "data", "-f", str(definition))
    with running(server):
        connection = connect(server.kubeconfig)
        watching = connect(server.kubeconfig)

        def ask(method: str, path: str, content: bytes = b"") -> tuple[int, dict[str, Any]]:
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

        assert ask("POST", CRONTABS, body("before", 0))[0] == 201
        version, _ = listed(server)
        watching.request("GET", f"{CRONTABS}?watch=1&resourceVersion={version}")
        watch = watching.getresponse()

        soft, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        log = (tmp_path / "data" / "aggserver.db-wal").stat().st_size
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (log, hard))
        for number in range(2):
            status, answer = ask("POST", CRONTABS, body(f"refused-{number}", 0))
            assert (status, answer["kind"], answer["reason"]) == (500, "Status", "InternalError")
            assert answer["message"] == (
                "Internal error occurred: can't write to the store: disk I/O error: "
                "the disk may be full, read-only or broken; the system's log says more"
            )
        assert listed(server) == (version, {"before": ask("GET", f"{CRONTABS}/before")[1]})

        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (soft, hard))
        assert ask("POST", CRONTABS, body("after", 0))[0] == 201
        event = json.loads(watch.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "after")
        assert set(listed(server)[1]) == {"before", "after"}
        connection.close()
        watching.close()
