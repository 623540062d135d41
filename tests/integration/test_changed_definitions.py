"""Watches while their definition changes, at kube-apiserver and aggserver side by side.

Both end them, and both refuse to go on from before.
"""

from __future__ import annotations

import copy
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.sides import Side, both

_OURS, _THEIRS = "stable.example.com", "changed.example.com"
DEFINITION: dict[str, Any] = json.loads(json.dumps(CRONTABS).replace(_OURS, _THEIRS))
PATH = CRONTABS_PATH.replace(_OURS, _THEIRS).replace("/default/", "/changed/")
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION['metadata']['name']}"
MERGE_PATCH = {"content-type": "application/merge-patch+json"}


def obj(name: str) -> bytes:
    return json.dumps(crontab(name)).replace(_OURS, _THEIRS).encode()


def with_default(versions: list[dict[str, Any]], value: str) -> None:
    for version in versions:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        spec["color"] = {"type": "string", "default": value}


def with_version(versions: list[dict[str, Any]]) -> None:
    versions.append({**copy.deepcopy(versions[0]), "name": "v7", "storage": False})


def with_title(versions: list[dict[str, Any]]) -> None:
    versions[0]["additionalPrinterColumns"] = [{"name": "When", "type": "string", "jsonPath": ".spec.cronSpec"}]
    versions[0]["schema"]["openAPIV3Schema"]["description"] = "A job that comes again."


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("changed"), [DEFINITION], ["changed"]) as pair:
        yield pair


def ask(client: Client, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
    answer = client.request(method, path, headers or {"content-type": "application/json"}, body)
    assert answer.status < 300, answer.body
    return json.loads(answer.body)


def change(client: Client, edit: Callable[[list[dict[str, Any]]], None]) -> None:
    versions = ask(client, "GET", CRD)["spec"]["versions"]
    edit(versions)
    ask(client, "PATCH", CRD, json.dumps({"spec": {"versions": versions}}).encode(), MERGE_PATCH)


def begin(client: Client, revision: str) -> ssl.SSLSocket:
    """A watch whose head has come."""
    connection = client.dial()
    path = f"{PATH}?watch=1&resourceVersion={revision}&timeoutSeconds=25"
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    return connection


def rest(connection: ssl.SSLSocket) -> bytes:
    """What comes until the end, which is a whole one: the last chunk is there."""
    found = b""
    with connection:
        while data := connection.recv(65536):
            found += data
    assert found.endswith(b"0\r\n\r\n")
    return found


def color_of(client: Client) -> str:
    color: str = ask(client, "GET", f"{PATH}/one")["spec"].get("color", "")
    return color


def revision_of(client: Client) -> str:
    revision: str = ask(client, "GET", PATH)["metadata"]["resourceVersion"]
    return revision


def resumed(client: Client, revision: str) -> Any:
    answer = client.request("GET", f"{PATH}?watch=1&resourceVersion={revision}&timeoutSeconds=1")
    return [
        (event["type"], event["object"].get("code"), event["object"].get("reason"))
        for event in map(json.loads, answer.body.splitlines())
    ]


EXPIRED = [("ERROR", 410, "Expired")]


@pytest.mark.parametrize("index", [0, 1], ids=["kube-apiserver", "aggserver"])
def test_a_new_default_and_a_new_version(sides: tuple[Side, Side], index: int) -> None:
    client = sides[index].client
    ask(client, "POST", PATH, obj("one"))
    before = ask(client, "GET", PATH)["metadata"]["resourceVersion"]
    watch = begin(client, before)
    change(client, lambda versions: with_default(versions, "red"))
    assert b"ERROR" not in rest(watch)
    eventually(lambda: color_of(client) == "red", "the default")
    assert resumed(client, before) == EXPIRED
    eventually(lambda: resumed(client, revision_of(client)) == [], "a watch from the list of now")
    listed = ask(client, "GET", PATH)
    assert [item["spec"]["color"] for item in listed["items"]] == ["red"]

    watch = begin(client, listed["metadata"]["resourceVersion"])
    change(client, with_version)
    assert b"ERROR" not in rest(watch)
    eventually(lambda: client.request("GET", PATH.replace("/v1/", "/v7/")).status == 200, "the new version")
    assert resumed(client, listed["metadata"]["resourceVersion"]) == EXPIRED


def test_columns_and_descriptions_end_none_here(sides: tuple[Side, Side]) -> None:
    """kube-apiserver ends its watches whatever changes."""
    client = sides[1].client
    # The server records the last change after it has applied it, and until then a list may be older than the record.
    eventually(lambda: resumed(client, revision_of(client)) == [], "a watch from the list of now")
    watch = begin(client, revision_of(client))
    change(client, with_title)
    ask(client, "POST", PATH, obj("two"))
    with watch:
        data = b""
        while b"\n" not in data.partition(b'"type"')[2]:
            data += watch.recv(65536)
    assert b'"name":"two"' in data
