"""What a client is told that asks for what has been compacted: the same by kube-apiserver over a compacted etcd and by aggserver.

Revision 2 is older than anything else that runs on this etcd asks for.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from aggserver.storage.keys import decode_continue
from tests.controlplane.plane import ControlPlane
from tests.fakes.asgi import Client as LocalClient
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer
from tests.integration.raw import Client
from tests.waiting import KUBECTL_LIMIT

# A group of its own: other tests have theirs served by an aggregated server.
_OURS, _THEIRS = "stable.example.com", "expired.example.com"
DEFINITION = json.loads(json.dumps(CRONTABS).replace(_OURS, _THEIRS))
PATH = CRONTABS_PATH.replace(_OURS, _THEIRS)
TOKEN = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":2,"start":"b\\u0000"}').rstrip(b"=").decode()
CASES = {
    "exact": "resourceVersion=2&resourceVersionMatch=Exact",
    "exact by a limit": "resourceVersion=2&limit=1",
    "continue": f"continue={TOKEN}&limit=1",
    "continue at any": f"continue={TOKEN}&resourceVersion=0",
    "watch": "watch=true&resourceVersion=2&timeoutSeconds=1",
    "watch without bookmarks": "watch=true&resourceVersion=2&allowWatchBookmarks=false&timeoutSeconds=1",
    "watch of one": "watch=true&resourceVersion=2&fieldSelector=metadata.name%3Da&timeoutSeconds=1",
}


def comparable(text: str) -> Any:
    """Without the revisions of now; a token as what it says."""
    document = json.loads(text)
    status = document.get("object", document)
    if token := status["metadata"].get("continue"):
        status["metadata"]["continue"] = decode_continue(token, "/")
    status["message"] = re.sub(r"\(\d+\)", "(<revision>)", status["message"])
    return document


@pytest.fixture(scope="module")
def compacted(own_control_plane: ControlPlane) -> Iterator[Client]:
    """kube-apiserver with crontabs, whose cache begins after revision 3, up to which etcd forgets."""
    own_control_plane.kubectl("create", "-f", "-", input=json.dumps(DEFINITION))
    name = f"crd/{DEFINITION['metadata']['name']}"
    own_control_plane.kubectl("wait", "--for=condition=Established", name, KUBECTL_LIMIT)
    own_control_plane.kubectl("get", DEFINITION["metadata"]["name"])  # comes back until the cache is there
    with Client(own_control_plane.kubeconfig) as client:
        body = json.dumps({"revision": "3"}).encode()
        # 400: kube-apiserver has done that by itself, as it does every five minutes.
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{own_control_plane.etcd}/v3/kv/compaction", body).close()
        yield client
    own_control_plane.kubectl("delete", name)


@pytest.mark.parametrize("name", CASES)
async def test_expired(compacted: Client, server: LocalServer, client: LocalClient, name: str) -> None:
    upstream = compacted.request("GET", f"{PATH}?{CASES[name]}")
    server.serve(CRONTABS)
    for number in "abcd":
        await client.post(CRONTABS_PATH, crontab(number))
    await server.storage.compact(4)
    ours = await client.get(f"{CRONTABS_PATH}?{CASES[name]}")
    assert ours.status == upstream.status
    assert comparable(ours.body.decode()) == comparable(upstream.body.decode())
