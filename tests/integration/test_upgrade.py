"""What older versions have left: their data folders are opened by today's code, and all that is in them is served.

And back: what today's code writes is opened by the version before, as long as the store's format is the same, and refused in
words where it is not. `tests/upgrades` keeps the folders and that version.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.storage import store_format
from aggserver.storage.etcd import EtcdStorage
from tests.controlplane.binaries import obtain
from tests.controlplane.etcd import EtcdCluster
from tests.integration.raw import Client
from tests.integration.server import AggServer, Standalone, running
from tests.upgrades.kept import DATA, unpacked_code, unpacked_data

CRONTABS = "/apis/stable.example.com/v1/namespaces/team/crontabs"
JSON = {"content-type": "application/json"}
MERGE = {"content-type": "application/merge-patch+json"}


def moved(kubeconfig: bytes, server: Standalone, to: Path) -> Path:
    """The kubeconfig of then, with the port of now: the one of then may have been taken."""
    config = yaml.safe_load(kubeconfig)
    config["clusters"][0]["cluster"]["server"] = server.url
    to.write_text(yaml.safe_dump(config))
    return to


def kept(answer: Mapping[str, Any], there: Mapping[str, Any], path: str) -> None:
    """All objects of the answer of then are there, as they were; later versions may have some more of their own.

    But for the kind, which lists of built-in kinds once had in each item: kube-apiserver's don't.
    """
    found = {_name(item): _untyped(item) for item in there["items"]}
    for item in answer["items"]:
        assert found.get(_name(item)) == _untyped(item), (path, _name(item))


def _untyped(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}


def _name(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def read(client: Client, path: str) -> Any:
    answer = client.request("GET", path)
    assert answer.status == 200, (path, answer)
    return json.loads(answer.body)


def written(client: Client, name: str, revision: int) -> None:
    """Objects of then can be changed and deleted, and new ones created, at revisions beyond those of then."""
    created = client.request("POST", CRONTABS, JSON, json.dumps({"metadata": {"name": name}, "spec": {}} | VERSION).encode())
    assert created.status == 201, created
    assert int(json.loads(created.body)["metadata"]["resourceVersion"]) > revision
    changed = client.request("PATCH", f"{CRONTABS}/rich", MERGE, json.dumps({"spec": {"image": name}}).encode())
    assert changed.status == 200, changed
    ended = client.request("PATCH", f"{CRONTABS}/ending", MERGE, b'{"metadata": {"finalizers": null}}')
    assert ended.status == 200, ended
    assert client.request("GET", f"{CRONTABS}/ending").status == 404
    assert client.request("GET", f"{CRONTABS}/{name}").status == 200


VERSION = {"apiVersion": "stable.example.com/v1", "kind": "CronTab"}


@pytest.mark.parametrize("name", DATA)
def test_a_data_folder_is_opened_and_all_is_served(name: str, tmp_path: Path) -> None:
    data, answers = unpacked_data(name, tmp_path)
    then = (data / "kubeconfig").read_bytes()
    authority = (data / "certificates" / "ca.crt").read_bytes()
    with running(server := Standalone(data)), Client(moved(then, server, tmp_path / "kubeconfig")) as client:
        assert (data / "certificates" / "ca.crt").read_bytes() == authority
        for path, answer in answers.items():
            kept(answer, read(client, path), path)
        written(client, "new", int(answers["/api/v1/namespaces"]["metadata"]["resourceVersion"]))


def test_the_version_before_opens_what_today_s_has_written(tmp_path: Path) -> None:
    """A downgrade: the format of the store is the same, so everything is served, and what was made meanwhile too."""
    data, answers = unpacked_data("0.1.0", tmp_path)
    environment = unpacked_code(tmp_path / "code")
    with running(server := Standalone(data)), Client(server.kubeconfig) as client:
        revision = int(read(client, CRONTABS)["metadata"]["resourceVersion"])
        written(client, "meanwhile", revision)
        seen = {path: read(client, path) for path in answers}
    with running(server := Standalone(data, environment=environment)), Client(server.kubeconfig) as client:
        assert "meanwhile" in {item["metadata"]["name"] for item in read(client, CRONTABS)["items"]}
        for path, answer in seen.items():
            kept(answer, read(client, path), path)


@pytest.mark.parametrize("older", [True, False], ids=["the version before", "this version"])
def test_a_store_of_a_later_format_is_refused_in_words(older: bool, tmp_path: Path) -> None:
    data, _ = unpacked_data("0.1.0", tmp_path)
    with sqlite3.connect(data / "aggserver.db") as connection:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {schema + 1}")
    connection.close()
    before = (data / "aggserver.db").read_bytes()
    environment = unpacked_code(tmp_path / "code") if older else None
    server = AggServer(["dev", "--data", str(data), "--secure-port", "0"], tmp_path / "log", environment)
    with pytest.raises(
        AssertionError, match=r"ended with 1:[^$]*made by a newer version .*: start that version, or restore a backup"
    ):
        server.wait_for("aggserver serves")
    assert (data / "aggserver.db").read_bytes() == before


def test_an_etcd_of_a_later_format_is_refused_in_words(tmp_path: Path) -> None:
    with EtcdCluster(obtain(os.environ, print), tmp_path) as etcd:
        arguments = ["dev", "--data", str(tmp_path / "data"), "--secure-port", "0", "--storage", "etcd"]
        asyncio.run(_given_format(etcd.urls[0], store_format.KNOWN + 1))
        server = AggServer([*arguments, "--etcd-servers", etcd.urls[0]], tmp_path / "log")
        with pytest.raises(
            AssertionError, match=r"ended with 1:[^$]*the store /registry/ has a newer version's format \(2, known is 1"
        ):
            server.wait_for("aggserver serves")


async def _given_format(url: str, number: int) -> None:
    storage = EtcdStorage([url])
    await storage.start()
    await storage.create(store_format.KEY, json.dumps({"format": number}).encode())
    await storage.close()


def test_the_code_that_is_kept_is_what_runs(tmp_path: Path) -> None:
    """Otherwise today's would be held against itself."""
    program = [sys.executable, "-c", "import aggserver; print(aggserver.__file__)"]
    environment = {**os.environ, **unpacked_code(tmp_path)}
    said = subprocess.run(program, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert Path(said.strip()).is_relative_to(tmp_path)
