"""Plain HTTP clients behind `kubectl proxy`, which speaks for them: through the aggregator, and to the standalone server.

Source: the Kubernetes page "Use an HTTP Proxy to Access the Kubernetes API".
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.aggregation import EXAMPLE, wait_until_served
from tests.integration.server import Standalone
from tests.waiting import HANG_SECONDS

GROUP = "/apis/stable.example.com/v1"
CRONTAB = {
    "apiVersion": "stable.example.com/v1",
    "kind": "CronTab",
    "metadata": {"name": "by-proxy"},
    "spec": {"cronSpec": "* * * * */5", "image": "my-awesome-cron-image"},
}


class Plain:
    """A client without TLS, credentials or knowledge of Kubernetes."""

    def __init__(self, port: int) -> None:
        self._port = port

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=HANG_SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    @contextlib.contextmanager
    def watch(self, path: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch, as its lines come."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=HANG_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200
            yield map(json.loads, iter(answer.readline, b""))


@pytest.fixture(params=["aggregated", "standalone"])
def plain(request: pytest.FixtureRequest, control_plane: Cluster) -> Iterator[Plain]:
    kubeconfig: Path | None = None
    if request.param == "standalone":
        standalone: Standalone = request.getfixturevalue("standalone")
        kubeconfig = standalone.kubeconfig
        control_plane.kubectl("apply", "-f", str(EXAMPLE), user=kubeconfig)
        control_plane.kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", user=kubeconfig)
    else:
        wait_until_served(request.getfixturevalue("aggregated"))
    with control_plane.running_kubectl("proxy", "--port=0", user=kubeconfig) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = re.fullmatch(r"Starting to serve on 127\.0\.0\.1:(\d+)\n", said)
        assert port, said
        yield Plain(int(port[1]))


def test_the_requests_of_the_page(plain: Plain) -> None:
    status, versions = plain.request("GET", "/api/")
    assert (status, versions["kind"], versions["versions"]) == (200, "APIVersions", ["v1"])
    status, pods = plain.request("GET", "/api/v1/namespaces/default/pods")
    assert (status, pods["kind"], pods["items"]) == (200, "PodList", [])


def test_get_list_watch_create(plain: Plain) -> None:
    status, groups = plain.request("GET", "/apis")
    assert status == 200
    assert "stable.example.com" in {group["name"] for group in groups["groups"]}
    status, resources = plain.request("GET", GROUP)
    assert (status, "crontabs" in {resource["name"] for resource in resources["resources"]}) == (200, True)

    path = f"{GROUP}/namespaces/default/crontabs"
    status, made = plain.request("POST", path, CRONTAB)
    assert (status, made["spec"]) == (201, CRONTAB["spec"])
    status, found = plain.request("GET", f"{path}/by-proxy")
    assert (status, found) == (200, made)
    status, listed = plain.request("GET", path)
    assert (status, [item["metadata"]["name"] for item in listed["items"]]) == (200, ["by-proxy"])

    version = listed["metadata"]["resourceVersion"]
    with plain.watch(f"{path}?watch=1&timeoutSeconds=100&resourceVersion={version}") as events:
        patch = {"spec": {"image": "another"}}
        status, patched = plain.request("PATCH", f"{path}/by-proxy", patch, "application/merge-patch+json")
        assert (status, patched["spec"]["image"]) == (200, "another")
        assert next(events) == {"type": "MODIFIED", "object": patched}
        status, _ = plain.request("DELETE", f"{path}/by-proxy")
        assert status == 200
        assert next(events)["type"] == "DELETED"


def test_what_is_refused_says_why(plain: Plain) -> None:
    path = f"{GROUP}/namespaces/default/crontabs"
    wrong = {**CRONTAB, "spec": {"cronSpec": 5}}
    status, refused = plain.request("POST", path, wrong)
    assert (status, refused["kind"], refused["reason"]) == (422, "Status", "Invalid")
    assert refused["details"]["causes"][0]["field"] == "spec.cronSpec"
    status, missing = plain.request("GET", f"{path}/nobody")
    assert (status, missing["message"]) == (404, 'crontabs.stable.example.com "nobody" not found')
