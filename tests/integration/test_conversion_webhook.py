"""Conversion webhooks of kube-apiserver and of aggserver, which are asked the same and answer the same, also to bad webhooks.

The definitions name a webhook of this process. An object is created in v1, which is stored, and asked for in v2.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import web

from tests.controlplane.cluster import Cluster
from tests.fakes.bad_webhooks import BAD_ANSWERS, BAD_OBJECTS, BAD_RESPONSES, HANGS, answered, good, review_of
from tests.fakes.webhook import CA, STRANGER, RunningWebhook
from tests.integration.sides import Side, both
from tests.waiting import HANG_SECONDS

GROUP, NAMESPACE = "conversions.example.com", "conversions"
BAD = {**BAD_RESPONSES, **BAD_ANSWERS, **BAD_OBJECTS}
STRING = {"type": "string"}

# In the order in which they occur in texts.
DIFFERENT = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
    # The order of members is not kept by both.
    (re.compile(r"(Object 'Kind' is missing in ').*'"), r"\1...'"),
)


def definition(plural: str, url: str, ca: bytes = CA.cert_pem, *versions: str) -> dict[str, Any]:
    def version(name: str, **properties: Any) -> dict[str, Any]:
        schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    config = {"url": url, "caBundle": base64.b64encode(ca).decode()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind_of(plural)},
            "versions": [version("v1", hostPort=STRING), version("v2", host=STRING, port=STRING)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": config, "conversionReviewVersions": list(versions) or ["v1"]},
            },
        },
    }


def kind_of(plural: str) -> str:
    return plural.removesuffix("s").capitalize()


def obj(plural: str, version: str, name: str) -> dict[str, Any]:
    address = {"hostPort": "example.com:80"} if version == "v1" else {"host": "example.com", "port": "80"}
    return {"apiVersion": f"{GROUP}/{version}", "kind": kind_of(plural), "metadata": {"name": name}, **address}


class Pair:
    """kube-apiserver and aggserver. `ask` asks both at once, for the status and the body of each."""

    def __init__(self, sides: tuple[Side, Side], webhook: RunningWebhook) -> None:
        self.sides = sides
        self.webhook = webhook

    def ask(self, method: str, plural: str, version: str, name: str = "", body: Any = None) -> list[tuple[int, Any]]:
        path = f"/apis/{GROUP}/{version}/namespaces/{NAMESPACE}/{plural}" + (f"/{name}" if name else "")
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda side: self._ask(side, method, path, body), self.sides))

    def _ask(self, side: Side, method: str, path: str, body: Any) -> tuple[int, Any]:
        headers = {"accept": "application/json", "content-type": "application/json"}
        answer = side.client.request(method, path, headers, None if body is None else json.dumps(body).encode())
        return answer.status, json.loads(answer.body)

    def refused(self, method: str, plural: str, version: str, name: str = "", body: Any = None) -> str:
        """What both answer: 500 with the same text, which ours ends with the name of the object."""
        told = []
        for status, answer in self.ask(method, plural, version, name, body):
            assert (status, answer["kind"], answer.get("reason", "")) == (500, "Status", "")
            text = answer["message"]
            for pattern, word in DIFFERENT:
                text = pattern.sub(word, text)
            told.append(text)
        upstream, ours = told
        subject = name or body["metadata"]["name"]
        assert ours == f"{upstream} (converting {NAMESPACE}/{subject})"
        return upstream

    def create(self, plural: str, name: str) -> None:
        self.webhook.answer = good
        assert [status for status, _ in self.ask("POST", plural, "v1", "", obj(plural, "v1", name))] == [201, 201]


@pytest.fixture(scope="module")
def pair(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with RunningWebhook(good) as webhook:
        url = webhook.server.config().url
        with RunningWebhook(good) as gone:
            refused = gone.server.config().url
        definitions = [
            definition("tabs", url),
            definition("olds", url, CA.cert_pem, "v1beta1", "v1"),
            definition("strangers", url, STRANGER.cert_pem),
            definition("gones", refused),
            definition("lists", url),
            definition("hangs", url),
        ]
        with both(control_plane, tmp_path_factory.mktemp("conversion"), definitions, [NAMESPACE]) as sides:
            yield Pair(sides, webhook)


def test_conversion(pair: Pair) -> None:
    pair.create("tabs", "fine")
    for status, found in pair.ask("GET", "tabs", "v2", "fine"):
        assert status == 200
        assert {key: found.get(key) for key in ("apiVersion", "host", "port", "hostPort")} == {
            "apiVersion": f"{GROUP}/v2",
            "host": "example.com",
            "port": "80",
            "hostPort": None,
        }
    for status, _ in pair.ask("POST", "tabs", "v2", "", obj("tabs", "v2", "fine-too")):
        assert status == 201
    for _, found in pair.ask("GET", "tabs", "v1", "fine-too"):
        assert found["hostPort"] == "example.com:80"


def test_reviews_are_alike(pair: Pair) -> None:
    """Both ask for the same conversions; upstream sends an empty response with them."""
    pair.create("tabs", "review")
    sent = []
    for side in pair.sides:
        before = len(pair.webhook.server.bodies)
        pair._ask(side, "GET", f"/apis/{GROUP}/v2/namespaces/{NAMESPACE}/tabs/review", None)
        # kube-apiserver's cache asks, too.
        review = json.loads([body for body in pair.webhook.server.bodies[before:] if b'"review"' in body][-1])
        review.pop("response", None)
        (converted,) = review["request"]["objects"]
        metadata = converted["metadata"]
        # As the documentation shows it; kube-apiserver leaves it out of what it reads.
        metadata.pop("resourceVersion", None)
        for entry in (review["request"], metadata):
            assert entry.pop("uid")
        for entry in (metadata, *metadata["managedFields"]):
            assert entry.pop("creationTimestamp", None) or entry.pop("time")
        sent.append(review)
    assert sent[0] == sent[1]


async def relabelled(request: web.BaseRequest) -> web.StreamResponse:
    """With other labels and annotations, which may be changed, and with more of metadata changed, which is ignored."""
    review = answered(await review_of(request))
    for converted in review["response"]["convertedObjects"]:
        changed = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "generation": 77, "finalizers": ["example.com/hold"]}
        converted["metadata"] |= changed
    return web.json_response(review)


def test_metadata_that_a_webhook_changes(pair: Pair) -> None:
    pair.create("tabs", "relabelled")
    pair.webhook.answer = relabelled
    for _, found in pair.ask("GET", "tabs", "v2", "relabelled"):
        metadata = found["metadata"]
        kept = [metadata.get(name) for name in ("labels", "annotations", "generation", "finalizers")]
        assert kept == [{"a": "b"}, {"c": "d"}, 1, None]


@pytest.mark.parametrize("name", BAD)
def test_bad_webhooks(pair: Pair, name: str) -> None:
    subject = f"bad-{list(BAD).index(name)}"
    pair.create("tabs", subject)
    pair.webhook.answer = BAD[name]
    pair.refused("GET", "tabs", "v2", subject)
    pair.refused("POST", "tabs", "v2", "", obj("tabs", "v2", f"{subject}-new"))
    assert [status for status, _ in pair.ask("GET", "tabs", "v1", f"{subject}-new")] == [404, 404]
    assert [status for status, _ in pair.ask("GET", "tabs", "v1", subject)] == [200, 200]


@pytest.mark.parametrize("name", ["failure", "no response", "too few objects", "another version"])
def test_reviews_of_v1beta1(pair: Pair, name: str) -> None:
    subject = f"old-{list(BAD).index(name)}"
    pair.create("olds", subject)
    pair.webhook.answer = BAD[name]
    if name == "another version":  # it is of the right one here
        assert [status for status, _ in pair.ask("GET", "olds", "v2", subject)] == [200, 200]
    else:
        pair.refused("GET", "olds", "v2", subject)


def test_a_certificate_of_another_ca(pair: Pair) -> None:
    pair.create("strangers", "one")
    text = pair.refused("GET", "strangers", "v2", "one")
    assert text.endswith(": tls: failed to verify certificate: x509: certificate signed by unknown authority")


def test_nobody_listens(pair: Pair) -> None:
    pair.create("gones", "one")
    assert pair.refused("GET", "gones", "v2", "one").endswith(": connect: connection refused")


def test_a_list(pair: Pair) -> None:
    """kube-apiserver answers a list as a get, if its cache does not have the objects of that version already."""
    pair.create("lists", "one")
    pair.webhook.answer = BAD["failure"]
    text = pair.refused("GET", "lists", "v2", "one")
    _, (status, ours) = pair.ask("GET", "lists", "v2")
    assert (status, ours["message"]) == (500, f"{text} (converting {NAMESPACE}/one)")


def test_a_webhook_that_hangs_holds_up_nothing_else(pair: Pair) -> None:
    pair.create("hangs", "one")
    pair.create("tabs", "meanwhile")
    pair.webhook.answer = HANGS

    def wait(side: Side) -> str:
        """The text that comes after 30 s, over a connection of its own."""
        connection = http.client.HTTPSConnection(*side.client.address, timeout=HANG_SECONDS, context=side.client.context)
        connection.request("GET", f"/apis/{GROUP}/v2/namespaces/{NAMESPACE}/hangs/one")
        text: str = json.loads(connection.getresponse().read())["message"]
        connection.close()
        return text

    with ThreadPoolExecutor(2) as pool:
        hanging = [pool.submit(wait, side) for side in pair.sides]
        answered = 0
        while answered < 10 and not any(asked.done() for asked in hanging):
            assert [status for status, _ in pair.ask("GET", "tabs", "v1")] == [200, 200]
            assert [status for status, _ in pair.ask("GET", "hangs", "v1", "one")] == [200, 200]
            answered += not any(asked.done() for asked in hanging)
        assert answered, "others wait as long"
        upstream, ours = (asked.result() for asked in hanging)
    # It has two timers of 30 s, each with a text of its own.
    either = r": (context deadline exceeded|net/http: request canceled)( \(Client\.Timeout exceeded while awaiting headers\))?$"
    told, count = re.subn(either, ": context deadline exceeded", upstream)
    assert count == 1, upstream
    assert ours == f"{told} (converting {NAMESPACE}/one)"
