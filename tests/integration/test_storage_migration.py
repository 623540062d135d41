"""Storage migrations: of two servers on one etcd, while clients write to both; by a conversion webhook, and without a server."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.storage.etcd import EtcdStorage
from tests.controlplane.binaries import obtain
from tests.controlplane.etcd import EtcdCluster
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "crontabs.example.com"
PATH = "/apis/example.com/v1/namespaces/default/crontabs"
JSON = {"content-type": "application/json", "accept": "application/json"}


def crd(storage: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == storage, "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def crontab(name: str) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "count": 0}


def send(client: Client, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
    raw = None if body is None else json.dumps(body).encode()
    answer = client.request(method, path, {**JSON, "content-type": kind}, raw)
    return answer.status, json.loads(answer.body)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(obtain(os.environ, print), tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


async def test_two_servers_and_their_writers(etcd: EtcdCluster, tmp_path: Path) -> None:
    """No write is lost, none fails but with 503 and the advice to try again, and no object stays in the old version."""
    with ExitStack() as stack:
        servers = []
        for number in range(2):
            made = Standalone(tmp_path / f"data-{number}", "--storage", "etcd", "--etcd-servers", etcd.urls[0])
            servers.append(stack.enter_context(running(made)))
        _run(servers, stack.enter_context(Client(servers[0].kubeconfig)))
    storage = EtcdStorage(etcd.urls, "/registry")
    await storage.start()
    found = {json.loads(item.value)["apiVersion"] for item in (await storage.list("/example.com/crontabs/")).items}
    await storage.close()
    assert found == {"example.com/v2"}


def _run(servers: list[Standalone], client: Client) -> None:
    assert send(client, "POST", CRDS, crd("v1"))[0] == 201
    for server in servers:
        with Client(server.kubeconfig) as each:
            eventually(lambda each=each: each.request("GET", PATH, JSON).status == 200, "both serve the definition")
    for number in range(200):
        assert send(client, "POST", PATH, crontab(f"kept-{number}"))[0] == 201
    done = threading.Event()
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(_write, server, f"writer-{number}", done) for number, server in enumerate(servers)]
        try:
            status, _ = send(client, "PATCH", f"{CRDS}/{NAME}", {"spec": crd("v2")["spec"]}, "application/merge-patch+json")
            assert status == 200
            eventually(
                lambda: send(client, "GET", f"{CRDS}/{NAME}")[1]["status"]["storedVersions"] == ["v2"], "the versions are trimmed"
            )
        finally:
            done.set()
        for writer in writers:
            name, count = writer.result()
            assert count
            assert send(client, "GET", f"{PATH}/{name}")[1]["count"] == count
    assert len(send(client, "GET", PATH)[1]["items"]) >= 200


def _write(server: Standalone, name: str, done: threading.Event) -> tuple[str, int]:
    """Counts one object up, and makes others. Returns its name and its last count."""
    count = 0
    with Client(server.kubeconfig) as client:
        assert send(client, "POST", PATH, crontab(name))[0] == 201
        while not done.is_set():
            status, body = send(client, "PATCH", f"{PATH}/{name}", {"count": count + 1}, "application/merge-patch+json")
            count += _is_done(status, body, 200)
            made, body = send(client, "POST", PATH, crontab(f"{name}-{count}-{made_at(client)}"))
            _is_done(made, body, 201)
    return name, count


def made_at(client: Client) -> int:
    return int(send(client, "GET", f"{PATH}?limit=1")[1]["metadata"]["resourceVersion"])


def _is_done(status: int, body: Any, expected: int) -> bool:
    if status == 503:
        assert body["details"]["retryAfterSeconds"] == 1, body
        return False
    assert status == expected, body
    return True


# --- by a webhook ---

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


@contextmanager
def webhook(folder: Path, port: int = 0) -> Iterator[int]:
    """The webhook of the page; yields its port."""
    command = [sys.executable, str(EXAMPLES / "conversion_webhook.py"), "--port", str(port)]
    command += ["--certificate", str(folder / "tls.crt"), "--key", str(folder / "tls.key")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)/crdconvert", process.stdout.readline())
            assert found is not None
            yield int(found[1])
        finally:
            process.terminate()


def converted(storage: str, port: int, folder: Path) -> dict[str, Any]:
    """The example's definition, with this storage version."""
    made: dict[str, Any] = yaml.safe_load((EXAMPLES / "my-versioned-crontab-with-conversion.yaml").read_text())
    for version in made["spec"]["versions"]:
        version["storage"] = version["name"] == storage
    made["spec"]["conversion"]["webhook"]["clientConfig"] = {
        "url": f"https://localhost:{port}/crdconvert",
        "caBundle": base64.b64encode((folder / "ca.crt").read_bytes()).decode(),
    }
    return made


def test_a_webhook_that_is_down_at_first(tmp_path: Path) -> None:
    """Objects are migrated when it is back; and those of a second change by the command, without a server."""
    ca = new_ca("example", time.time())
    pair = issue_serving(ca, ["localhost"], [], time.time())
    (tmp_path / "ca.crt").write_bytes(ca.cert_pem)
    (tmp_path / "tls.crt").write_bytes(pair.cert_pem)
    (tmp_path / "tls.key").write_bytes(pair.key_pem)
    data = tmp_path / "data"
    with ExitStack() as stack:
        server = stack.enter_context(running(Standalone(data)))
        client = stack.enter_context(Client(server.kubeconfig))
        with webhook(tmp_path) as port:
            assert send(client, "POST", CRDS, converted("v1beta1", port, tmp_path))[0] == 201
            eventually(lambda: client.request("GET", PATH, JSON).status == 200, "it is served")
            for number in range(60):
                obj = {
                    "apiVersion": "example.com/v1",
                    "kind": "CronTab",
                    "metadata": {"name": f"c-{number}"},
                    "host": "h",
                    "port": "1",
                }
                assert send(client, "POST", PATH, obj)[0] == 201
        spec = {"spec": converted("v1", port, tmp_path)["spec"]}
        assert send(client, "PATCH", f"{CRDS}/{NAME}", spec, "application/merge-patch+json")[0] == 200
        told = eventually(lambda: _retrying(client), "it is told that the webhook is down")
        assert "conversion webhook for example.com/v1beta1, Kind=CronTab failed" in told
        with webhook(tmp_path, port):
            eventually(lambda: _stored_versions(client) == ["v1"], "all are migrated")
        # Now the objects can be read as v1 without the webhook.
        found = send(client, "GET", PATH)[1]["items"]
        assert {(item["host"], item["port"]) for item in found} == {("h", "1")}
        assert len(found) == 60
    with running(Standalone(data, "--migrate-storage=false")) as server, Client(server.kubeconfig) as client:
        spec = {"spec": converted("v1beta1", port, tmp_path)["spec"]}
        assert send(client, "PATCH", f"{CRDS}/{NAME}", spec, "application/merge-patch+json")[0] == 200
    command = [sys.executable, "-m", "aggserver", "storage", "migrate", "--data", str(data)]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (failed.returncode, "crontabs.example.com can't be rewritten as v1beta1" in failed.stderr) == (1, True), failed
    with webhook(tmp_path, port):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    with running(Standalone(data)) as server, Client(server.kubeconfig) as client:
        assert _stored_versions(client) == ["v1beta1"]
        found = send(client, "GET", PATH.replace("/v1/", "/v1beta1/"))[1]["items"]
        assert {item["hostPort"] for item in found} == {"h:1"}


def _stored_versions(client: Client) -> list[str]:
    found: list[str] = send(client, "GET", f"{CRDS}/{NAME}")[1]["status"]["storedVersions"]
    return found


def _retrying(client: Client) -> str:
    conditions = send(client, "GET", f"{CRDS}/{NAME}")[1]["status"]["conditions"]
    return next((each["message"] for each in conditions if each["reason"] == "MigrationRetrying"), "")
