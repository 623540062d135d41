"""`aggserver.testing.Server`: what it offers while it runs, what it leaves behind, and what it says when it can't start."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from aggserver.testing import Server, ServerError
from tests.command import REPOSITORY
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, definition, version, widget
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

EXAMPLE = REPOSITORY / "manifests" / "examples" / "crontab.yaml"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "given"}}


def ask(server: Server, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    """A request with the files that the server offers, as any program may send it."""
    tls = ssl.create_default_context(cafile=server.ca_file)
    tls.load_cert_chain(server.client_certificate_file, server.client_key_file)
    connection = http.client.HTTPSConnection(urlsplit(server.url).netloc, context=tls, timeout=HANG_SECONDS)
    try:
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made, to see that none is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def test_from_start_to_stop(temporary: Path) -> None:
    server = Server([EXAMPLE, str(EXAMPLE.with_name("my-crontab.yaml")), WIDGETS, NAMESPACE])
    with server:
        status, found = ask(server, f"/apis/{GROUP}/v1/namespaces/default/crontabs/my-new-cron-object")
        assert (status, found["spec"]["image"]) == (200, "my-awesome-cron-image")
        assert ask(server, WIDGETS_PATH)[0] == ask(server, "/api/v1/namespaces/given")[0] == 200
        config = yaml.safe_load(server.kubeconfig.read_text())
        assert config["clusters"][0]["cluster"]["server"] == server.url
        assert f"serving HTTPS on {urlsplit(server.url).netloc}" in server.log
        assert server.log_since(server.log_bytes) == ""
        pid = server.pid
        assert server.is_running
        # Ctrl-C in a terminal does not reach it.
        assert os.getsid(pid) == pid
    assert not server.is_running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert list(temporary.iterdir()) == []
    assert "stopped accepting connections" in server.log
    assert server.log_since(0) == server.log
    for attribute in ("url", "kubeconfig", "ca_file", "pid"):
        with pytest.raises(ServerError, match=r"^the server is not started$"):
            getattr(server, attribute)


def test_it_starts_again_empty(tmp_path: Path) -> None:
    """And may have a folder given."""
    server = Server(folder=tmp_path)
    with server:
        server.apply(WIDGETS)
        with pytest.raises(ServerError, match="is started already"):
            server.start()
    assert (tmp_path / "aggserver.log").exists()
    with server:
        assert ask(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")[1]["items"] == []


async def test_async() -> None:
    async with Server([WIDGETS]) as server:
        assert (await asyncio.to_thread(ask, server, WIDGETS_PATH))[0] == 200
    assert not server.is_running


async def test_a_start_that_is_cancelled(temporary: Path) -> None:
    server = Server()

    async def use() -> None:
        async with server:
            raise AssertionError("it was cancelled")

    task = asyncio.create_task(use())
    await asyncio.to_thread(eventually, lambda: files(temporary), "the start has begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not server.is_running
    assert files(temporary) == []


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


# name: (arguments of Server, what the error has)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an argument": ({"arguments": ["--no-such-flag"]}, r"status 2 before it was ready; its log:\n.*--no-such-flag"),
    "a file": ({"definitions": ["nothing.yaml"]}, r"its log:\naggserver: nothing.yaml: No such file or directory"),
    "an object": ({"definitions": [widget()]}, r"does not store Widget of stable.example.com/v1"),
    "time": ({"start_seconds": 0.0}, r"^aggserver was not ready within 0 s; it has logged nothing$"),
}


@pytest.mark.parametrize(("arguments", "told"), REFUSED.values(), ids=REFUSED)
def test_it_can_not_start(temporary: Path, arguments: dict[str, Any], told: str) -> None:
    server = Server(**arguments)
    with pytest.raises(ServerError, match=f"(?s){told}"):
        server.start()
    assert not server.is_running
    assert list(temporary.iterdir()) == []


def test_one_that_was_killed() -> None:
    with Server() as server:
        os.kill(server.pid, signal.SIGKILL)
        eventually(lambda: not server.is_running, "the server is gone")
        with pytest.raises(ServerError, match=r"(?s)^https://.* can't be reached: .*; its log:\n.*serving HTTPS"):
            server.apply(WIDGETS)


def test_one_that_does_not_stop() -> None:
    with Server(stop_seconds=0.05) as server:
        os.kill(server.pid, signal.SIGSTOP)
    assert not server.is_running


def test_it_ends_with_its_parent(temporary: Path) -> None:
    program = "from aggserver.testing import Server; s = Server().start(); print(s.pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)},
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    eventually(lambda: _ended(pid), "the server ends too")


def _ended(pid: int) -> bool:
    # An orphan whose new parent asks for no statuses stays as a zombie.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return not state.strip() or state.startswith("Z")


# --- apply ---


def test_apply_creates_and_changes(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "objects.yaml"
    objects = [{**crontab(replicas=1), "metadata": {"name": "one", "namespace": "team"}}, CRONTABS]
    team = {**NAMESPACE, "metadata": {"name": "team"}}
    file.write_text(yaml.safe_dump_all([*objects, team]))
    server.apply(file)
    server.apply(crontab("two", replicas=2), {**crontab(), "metadata": {"generateName": "new-"}})
    server.apply(crontab("two", replicas=3))
    path = f"/apis/{GROUP}/v1/crontabs"
    found = {obj["metadata"]["name"][:4]: obj["spec"].get("replicas") for obj in ask(server, path)[1]["items"]}
    assert found == {"one": 1, "two": 3, "new-": None}


def test_apply_takes_v1beta1(server: Server) -> None:
    spec = {
        "group": "old.example.com",
        "version": "v1",
        "scope": "Cluster",
        "names": {"plural": "olds", "kind": "Old"},
        "preserveUnknownFields": False,
        "validation": {"openAPIV3Schema": {"type": "object"}},
    }
    name = {"name": "olds.old.example.com"}
    server.apply({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": WIDGETS["kind"], "metadata": name, "spec": spec})
    assert ask(server, "/apis/old.example.com/v1/olds")[0] == 200


TAKEN = definition("others", "Widget", version("v1", {}), scope="Cluster")
# name: (objects, what the error has)
NOT_APPLIED: dict[str, tuple[list[Any], str]] = {
    "a kind of nobody": ([{**widget(), "kind": "Gadget"}], r"^Gadget one: the server does not serve Gadget of stable.example"),
    "a group of nobody": ([{**widget(), "apiVersion": "a.b/v1"}], r"^Widget one: the server does not serve Widget of a.b/v1"),
    "an invalid object": ([widget(size="much")], r"^Widget one: .*\.spec\.size: expected numeric \(int or float\), got string$"),
    "no namespace": ([{**crontab(), "metadata": {"name": "a", "namespace": "no"}}], r'^CronTab a: namespaces "no" not found'),
    "a name that is taken": ([TAKEN], r"^CustomResourceDefinition others.* is not established: .*is already in use"),
    "no file": (["nothing.yaml"], r"^nothing.yaml: No such file or directory$"),
}


@pytest.mark.parametrize(("objects", "told"), NOT_APPLIED.values(), ids=NOT_APPLIED)
def test_not_applied(server: Server, objects: list[Any], told: str) -> None:
    server.apply(WIDGETS, CRONTABS)
    with pytest.raises(ServerError, match=told):
        server.apply(*objects)


# --- users and namespaces ---


def test_another_user(server: Server) -> None:
    file = server.user("jane", ["team-a", "team-b"])
    assert file == server.user("jane", ["team-a", "team-b"])
    assert file != server.user("jane")
    content = yaml.safe_load(file.read_text())
    pem = base64.b64decode(content["users"][0]["user"]["client-certificate-data"])
    names = x509.load_pem_x509_certificate(pem).subject
    assert [name.value for name in names.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert {name.value for name in names.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)} == {"team-a", "team-b"}
    assert content["clusters"][0]["cluster"]["server"] == server.url
    with pytest.raises(ServerError, match=r"^user '': NAME: must not be empty$"):
        server.user("")


def test_a_namespace_for_a_while(server: Server) -> None:
    server.apply(CRONTABS)
    with server.namespace("mine") as name, server.namespace("mine") as other:
        assert name.startswith("mine-")
        assert name != other
        crontabs = CRONTABS_PATH.replace("default", name)
        assert ask(server, crontabs, "POST", crontab())[0] == 201
    eventually(lambda: ask(server, f"/api/v1/namespaces/{name}")[0] == 404, "the namespace is deleted")
    assert ask(server, crontabs)[1]["items"] == []


def test_one_that_the_test_deleted(server: Server) -> None:
    with server.namespace() as name:
        assert ask(server, f"/api/v1/namespaces/{name}", "DELETE")[0] == 200


def test_a_namespace_of_a_server_that_ended() -> None:
    with Server() as server, server.namespace():
        server.stop()
