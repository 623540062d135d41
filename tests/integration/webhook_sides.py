"""kube-apiserver and aggserver with the same webhooks, which this process serves to both.

A case has webhooks of its own: they select its namespace by a label, so that all cases are configured at once. Every webhook is
called at a path that says for whom (`kube` or `ours`), for which case and which of its webhooks it is; what it is sent is kept.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from aggserver.meta.json_types import JSONObject
from tests.controlplane.cluster import Cluster
from tests.fakes.webhook import CA, webhook_server
from tests.integration.comparison import Case, Seen, comparable, play
from tests.integration.raw import Client
from tests.integration.server import NO_COLLECTOR, Standalone, eventually, running

__all__ = ["ASKER", "Hook", "WebhookCase", "WebhookSides", "webhook_sides"]

GROUP = "webhooks.example.com"
# Who makes the requests for objects of built-in kinds; for some of them, the case follows.
ASKER = "alice"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
# Seconds until kube-apiserver has noticed new configurations, at most.

T = TypeVar("T")

# (the review) -> the answer: a response of an AdmissionReview, or an HTTP response.
Answering = Callable[[JSONObject], Any]


@dataclass(frozen=True)
class Hook:
    """A webhook of a case. fields: of its entry in the configuration. configuration: the end of its configuration's name."""

    answer: Answering
    mutates: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    name: str = "hook"
    configuration: str = "a"


@dataclass(frozen=True)
class WebhookCase:
    """steps: requests; `$namespace` is the case's namespace. everywhere: whether its webhooks are for all namespaces.

    malformed: whether a webhook leaves metadata that can't be decoded. It is dropped at once here, and upstream only after all
    webhooks, so what later ones are sent is not compared. is_late: whether the server gives the request up: kube-apiserver may
    then close the connection without an answer, upon which the client sends the request once more: equal reviews count once.
    """

    hooks: Sequence[Hook]
    steps: Case
    everywhere: bool = False
    malformed: bool = False
    is_late: bool = False


@dataclass(frozen=True)
class Told:
    """answers: to the requests. asked: what each webhook was sent, by its name."""

    answers: list[Seen]
    asked: dict[str, list[Any]]


class WebhookSides:
    """Plays cases against both. All are configured at the start."""

    upstream: Client
    ours: Client

    def __init__(self, cases: Mapping[str, WebhookCase]) -> None:
        self.cases = cases
        self._asked: dict[tuple[str, str, str], list[Any]] = {}

    def play(self, slug: str) -> tuple[Told, Told]:
        return self._played("kube", slug, self.upstream), self._played("ours", slug, self.ours)

    def _played(self, side: str, slug: str, client: Client) -> Told:
        case = self.cases[slug]
        steps = [_placed(step, slug) for step in case.steps]
        seen = play(steps, "thing", client, client, settled=True)
        compared = [hook.name for hook in case.hooks if hook.mutates or not case.malformed]
        asked = {name: [_told(each) for each in self._asked.get((side, slug, name), [])] for name in compared}
        if case.is_late:
            asked = {name: [each for at, each in enumerate(told) if each not in told[:at]] for name, told in asked.items()}
        return Told([_without_sides(each) for each in seen], asked)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        _, side, slug, name = request.path.split("/")
        review = json.loads(await request.read())
        asked = review["request"]
        who = asked["userInfo"]["username"]
        by_controller = who.startswith("system:serviceaccount:kube-system:")  # such as the garbage collector
        if who.startswith(ASKER) or (asked["resource"]["group"] == GROUP and not by_controller):
            self._asked.setdefault((side, slug, name), []).append(review)
        hook = next(each for each in self.cases[slug].hooks if each.name == name)
        answer = hook.answer(review)
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        found = {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": answer}
        return web.json_response(found)


def _placed(step: Any, slug: str) -> Any:
    def filled(text: str) -> str:
        return text.replace("$namespace", slug)

    body = None if step.body is None else filled(step.body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return type(step)(step.method, filled(step.path), body, step.headers, step.compared, step.stranger, step.pick)


def _told(review: Any) -> Any:
    """What a webhook was sent, without what is made by chance."""
    found = comparable(review)
    found["request"]["uid"] = "<uid>"
    return _without_uids(found)


def _without_uids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "<uid>" if key == "uid" and isinstance(each, str) else _without_uids(each) for key, each in value.items()}
    return [_without_uids(each) for each in value] if isinstance(value, list) else value


def _without_sides(seen: Seen) -> Seen:
    text = json.dumps(_without_uids(seen.body)).replace("/kube/", "/<side>/").replace("/ours/", "/<side>/")
    return Seen(seen.status, seen.headers, seen.form, json.loads(text))


def configurations(case: WebhookCase, slug: str, url: str) -> Iterator[JSONObject]:
    """The configurations of a case, whose webhooks are at `url`, followed by their names."""
    for mutates in (True, False):
        of_kind = [hook for hook in case.hooks if hook.mutates is mutates]
        for end in sorted({hook.configuration for hook in of_kind}):
            yield {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration" if mutates else "ValidatingWebhookConfiguration",
                "metadata": {"name": f"{slug}-{end}"},
                "webhooks": [_entry(hook, case, slug, url) for hook in of_kind if hook.configuration == end],
            }


def _entry(hook: Hook, case: WebhookCase, slug: str, url: str) -> JSONObject:
    chosen = {} if case.everywhere else {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": slug}}}
    return {
        "name": f"{hook.name}.example.com",
        "clientConfig": {"url": f"{url}/{slug}/{hook.name}", "caBundle": base64.b64encode(CA.cert_pem).decode()},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["gadgets"], "operations": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1", "v1beta1"],
        **chosen,
        **hook.fields,
    }


@contextmanager
def webhook_sides(
    cluster: Cluster, folder: Path, cases: Mapping[str, WebhookCase], definitions: Sequence[JSONObject]
) -> Iterator[WebhookSides]:
    """folder: for the data of an aggserver of its own. The cluster is left as it was."""
    cases = {**cases, _PROBE: _probe()}
    sides = WebhookSides(cases)
    server = Standalone(folder / "data", NO_COLLECTOR)
    with (
        _served(sides) as port,
        running(server),
        Client(cluster.kubeconfig) as sides.upstream,
        Client(server.kubeconfig) as sides.ours,
    ):
        stored = _plant(sides.upstream, cases, definitions, f"https://127.0.0.1:{port}/kube")
        _plant(sides.ours, cases, definitions, f"https://127.0.0.1:{port}/ours")
        for client in (sides.upstream, sides.ours):
            _await_effect(client)
        yield sides
        _clear(sides.upstream, stored, cases, definitions)


@contextmanager
def _served(sides: WebhookSides) -> Iterator[int]:
    """The webhooks of all cases, on an event loop of their own; the port."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    try:
        yield run(stack.enter_async_context(webhook_server(sides.answer))).port
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _clear(
    client: Client, stored: Sequence[JSONObject], cases: Mapping[str, WebhookCase], definitions: Sequence[JSONObject]
) -> None:
    for each in stored:
        client.request("DELETE", f"{_path(each)}/{each['metadata']['name']}")
    eventually(lambda: _released(client), "no gadget has a finalizer")
    for definition in definitions:
        client.request("DELETE", f"{_DEFINITIONS}/{definition['metadata']['name']}")
    for name in cases:
        client.request("DELETE", f"/api/v1/namespaces/{name}")


_PROBE = "zz-probe-of-webhooks"


def _probe() -> WebhookCase:
    def refuse(name: str) -> Answering:
        return lambda review: {"uid": review["request"]["uid"], "allowed": review["request"]["name"] != name}

    return WebhookCase([Hook(refuse("mutating"), True, name="m"), Hook(refuse("validating"), name="v")], [])


_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JSON = {"content-type": "application/json"}


def _path(configuration: JSONObject) -> str:
    return f"{REGISTRATION}/{configuration['kind'].lower()}s"


def _plant(client: Client, cases: Mapping[str, WebhookCase], definitions: Sequence[JSONObject], url: str) -> list[JSONObject]:
    """Definitions, namespaces and configurations on kube-apiserver; the configurations as it has stored them."""

    def create(path: str, obj: JSONObject) -> JSONObject:
        answer = client.request("POST", path, _JSON, json.dumps(obj).encode())
        assert answer.status == 201, answer.body
        made: JSONObject = json.loads(answer.body)
        return made

    for definition in definitions:
        create(_DEFINITIONS, definition)
    for name in cases:
        create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    stored = [create(_path(each), each) for slug, case in cases.items() for each in configurations(case, slug, url)]
    for definition in definitions:
        eventually(lambda name=definition["metadata"]["name"]: _established(client, name), f"{definition} is established")
    return stored


def _established(client: Client, name: str) -> bool:
    status = json.loads(client.request("GET", f"{_DEFINITIONS}/{name}").body).get("status") or {}
    return any(each["type"] == "Established" and each["status"] == "True" for each in status.get("conditions") or ())


def _await_effect(client: Client) -> None:
    """Until kube-apiserver refuses what the last configurations refuse: it knows those before them, too."""
    path = f"/apis/webhooks.example.com/v1/namespaces/{_PROBE}/gadgets?dryRun=All"
    for name in ("mutating", "validating"):
        body = {"apiVersion": "webhooks.example.com/v1", "kind": "Gadget", "metadata": {"name": name}}
        raw = json.dumps(body).encode()
        eventually(
            lambda raw=raw: b"denied the request" in client.request("POST", path, _JSON, raw).body, f"the {name} webhook is asked"
        )


def _released(client: Client) -> bool:
    """Remove the finalizers of all gadgets, without which they can't be deleted; whether none is left."""
    found = json.loads(client.request("GET", "/apis/webhooks.example.com/v1/gadgets").body)["items"]
    kept = [each["metadata"] for each in found if each["metadata"].get("finalizers")]
    for metadata in kept:
        path = f"/apis/webhooks.example.com/v1/namespaces/{metadata['namespace']}/gadgets/{metadata['name']}"
        raw = json.dumps({"metadata": {"finalizers": None}}).encode()
        client.request("PATCH", path, {"content-type": "application/merge-patch+json"}, raw)
    return not kept
