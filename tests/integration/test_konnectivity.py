"""A control plane that reaches the cluster through Konnectivity only: aggserver behind its aggregator, and admission webhooks.

kube-apiserver's connections to services go through a tunnel: the aggregator's to aggserver, and those to a webhook that is named
by its service. While the tunnel has no agent they fail, though everything that they lead to listens on loopback and answers, so
none goes another way. The connections that aggserver makes itself don't use the tunnel, nor do those to a webhook with a URL.

Source: the Kubernetes page "Set up Konnectivity service", with the server and the agent of sigs.k8s.io/apiserver-network-proxy.
Which connections use the tunnel is decided in kube-aggregator's pkg/apiserver/apiserver.go, and for webhooks in apiserver's
pkg/util/webhook/authentication.go.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.bad_webhooks import review_of
from tests.fakes.webhook import CA, RunningWebhook
from tests.integration import pages
from tests.integration.aggregation import API_SERVICE, Aggregation, wait_until_served
from tests.integration.direct import Answer, Direct
from tests.integration.informer_program import informing
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.watching import watching
from tests.konnectivity.programs import build
from tests.konnectivity.service import Konnectivity

NAME = "my-new-cron-object"
AS_MASTER = (("X-Remote-User", "wanda"), ("X-Remote-Group", "system:masters"))
HOOK = "hook"


@pytest.fixture(scope="module")
def konnectivity() -> Iterator[Konnectivity]:
    made = Konnectivity(build(os.environ, print))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def control_plane(konnectivity: Konnectivity) -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), apiserver_arguments=konnectivity.apiserver_arguments) as plane:
        konnectivity.start(plane)
        yield plane


@pytest.fixture(scope="module")
def aggregation(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    """Served when made, and so through the tunnel."""
    made = Aggregation(control_plane, tmp_path_factory.mktemp("aggregated"))
    try:
        yield made
    finally:
        assert made.server.stop() == 0, made.server.output


def crontab(name: str) -> dict[str, Any]:
    obj: dict[str, Any] = yaml.safe_load(pages.MY_CRONTAB)
    return {**obj, "metadata": {"name": name}}


def crontabs(namespace: str) -> str:
    return f"/apis/stable.example.com/v1/namespaces/{namespace}/crontabs"


def create_directly(aggregation: Aggregation, namespace: str, name: str, query: str = "") -> Answer:
    """A CronTab, with the request that the aggregator would send, but not through the tunnel."""
    body = json.dumps(crontab(name)).encode()
    proxy = aggregation.plane.front_proxy
    return Direct(aggregation.port).request("POST", crontabs(namespace) + query, AS_MASTER, body, certificate=proxy)


def is_available(plane: ControlPlane, status: str, message: str) -> bool:
    """Whether the condition says so now."""
    # Without a change of the object, kube-apiserver looks every half minute.
    plane.kubectl("annotate", "apiservice", API_SERVICE, f"example.com/changed={time.monotonic()}", "--overwrite")
    conditions = plane.get("apiservice", API_SERVICE)["status"]["conditions"]
    found = next(each for each in conditions if each["type"] == "Available")
    return found["status"] == status and message in found["message"]


# --- aggserver behind the aggregator


def test_requests_and_watches(konnectivity: Konnectivity, aggregation: Aggregation, namespace: str) -> None:
    plane = aggregation.plane
    assert is_available(plane, "True", "all checks passed")
    with watching(plane, namespace) as watch:
        plane.kubectl("-n", namespace, "create", "-f", "-", input=pages.MY_CRONTAB)
        plane.kubectl("-n", namespace, "patch", "crontab", NAME, "--type=merge", "-p", '{"spec":{"image":"other"}}')
        assert plane.kubectl("-n", namespace, "get", "crontab", NAME, "-o", "jsonpath={.spec.image}").stdout == "other"
        plane.kubectl("-n", namespace, "delete", "crontab", NAME)
        assert watch.events(NAME, "DELETED") == ["ADDED", "MODIFIED", "DELETED"]
        assert konnectivity.connections() >= 1


def test_the_agent_is_killed(konnectivity: Konnectivity, aggregation: Aggregation, namespace: str, tmp_path: Path) -> None:
    plane = aggregation.plane
    plane.kubectl("-n", namespace, "create", "-f", "-", input=pages.MY_CRONTAB)
    before = plane.get("crontab", NAME, "-n", namespace)
    with informing(tmp_path / "said", plane.kubeconfig, "crontabs.v1.stable.example.com") as informer:
        assert informer.told("add", NAME)["uid"] == before["metadata"]["uid"]
        with konnectivity.without_agent(), Client(plane.kubeconfig) as client:
            assert client.request("GET", crontabs(namespace)).status == 503
            eventually(lambda: is_available(plane, "False", "No agent available"), "the APIService is unavailable")
            assert client.request("GET", crontabs(namespace)).status == 503
            # Of kube-apiserver itself nothing is missing, nor of aggserver.
            plane.kubectl("-n", namespace, "create", "configmap", "meanwhile")
            assert create_directly(aggregation, namespace, "meanwhile").status == 201
        eventually(lambda: is_available(plane, "True", "all checks passed"), "the APIService is available again")
        wait_until_served(plane)
        found = {each["metadata"]["name"]: each for each in plane.get("crontabs", "-n", namespace)["items"]}
        assert found[NAME] == before
        assert informer.told("add", "meanwhile")["uid"] == found["meanwhile"]["metadata"]["uid"]
        plane.kubectl("-n", namespace, "label", "crontab", NAME, "after=all")
        eventually(lambda: informer.told("update", NAME).get("labels") == {"after": "all"}, "the watch goes on")
        deleted = [line["object"]["metadata"] for line in informer.lines("delete")]
        assert [each for each in deleted if each["namespace"] == namespace] == []


# --- webhooks


@contextlib.contextmanager
def webhooks(plane: ControlPlane, namespace: str) -> Iterator[RunningWebhook]:
    """Two that refuse all: one that is named by its service for ConfigMaps and CronTabs, one by its URL for Secrets."""

    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        review = await review_of(request)
        response = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": f"refused at {request.path}"}}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    with RunningWebhook(refuse, names=[f"{HOOK}.{namespace}.svc"]) as webhook:
        port = webhook.server.port
        service = {"name": HOOK, "namespace": namespace, "port": port, "path": "/service"}
        entries = [
            entry(namespace, "service", {"service": service}, [rule("", "configmaps"), rule("stable.example.com", "crontabs")]),
            entry(namespace, "url", {"url": f"https://127.0.0.1:{port}/url"}, [rule("", "secrets")]),
        ]
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": entries,
        }
        plane.kubectl("-n", namespace, "create", "service", "externalname", HOOK, "--external-name=localhost")
        plane.kubectl("create", "-f", "-", input=json.dumps(configuration))
        try:
            yield webhook
        finally:
            plane.kubectl("delete", "validatingwebhookconfiguration", namespace)


def entry(namespace: str, name: str, client: dict[str, Any], rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {**client, "caBundle": base64.b64encode(CA.cert_pem).decode()},
        "rules": rules,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
    }


def rule(group: str, resource: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}


def created(plane: ControlPlane, namespace: str, *what: str) -> str:
    """What kubectl says when it tries to create that, without doing it."""
    done = plane.kubectl("-n", namespace, "create", *what, "--dry-run=server", check=False)
    return done.stdout + done.stderr


def test_webhooks(konnectivity: Konnectivity, aggregation: Aggregation, namespace: str) -> None:
    plane = aggregation.plane
    config_map, secret = ("configmap", "c"), ("secret", "generic", "s")

    def denied(name: str, *what: str) -> bool:
        by = f'admission webhook "{name}.example.com" denied the request: refused at /{name}'
        return by in created(plane, namespace, *what)

    def denied_directly() -> bool:
        answer = create_directly(aggregation, namespace, "c", "?dryRun=All")
        return b"denied the request: refused at /service" in answer.body

    with webhooks(plane, namespace) as webhook:
        eventually(lambda: denied("service", *config_map) and denied("url", *secret), "kube-apiserver asks both")
        eventually(denied_directly, "aggserver asks the one")
        with konnectivity.without_agent():
            webhook.server.seen.clear()
            assert 'failed calling webhook "service.example.com"' in created(plane, namespace, *config_map)
            assert webhook.server.seen == []
            assert denied("url", *secret)
            assert denied_directly()
        eventually(lambda: denied("service", *config_map), "through the new agent")
    wait_until_served(plane)
