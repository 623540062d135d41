"""Webhooks that behave badly, over TLS: what they can't do to a write, to the server's memory, and to other resources."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from aggserver.admission.webhook_configurations import WebhookIndex
from aggserver.admission.webhooks import (
    MAX_MUTATING_BYTES,
    MAX_VALIDATING_BYTES,
    MutatingWebhooks,
    ValidatingWebhooks,
    WebhookCalls,
)
from aggserver.meta.json_types import JSONObject
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer
from tests.fakes.webhook import CA, WebhookServer, calling, webhook_server


class World:
    """A server whose webhooks are one that answers as `answer` says."""

    def __init__(self) -> None:
        self.generation = 0
        self.found: list[JSONObject] = []
        self.answer: Any = None
        self.client: Client
        self.hooks: WebhookServer

    def __iter__(self) -> Iterator[JSONObject]:
        return iter(self.found)

    def configure(self, resources: str = "crontabs", **more: Any) -> None:
        entry = {
            "name": "bad",
            "clientConfig": {"url": f"https://127.0.0.1:{self.hooks.port}/", "caBundle": base64.b64encode(CA.cert_pem).decode()},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": [resources], "operations": ["*"]}],
            "namespaceSelector": {},
            "objectSelector": {},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }
        self.found = [{"metadata": {"name": "bad"}, "webhooks": [entry]}]
        self.generation += 1

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        found = self.answer(json.loads(self.hooks.bodies[-1])["request"])
        if asyncio.iscoroutine(found):
            found = await found
        if found is ENDLESS:
            return await stream(request)
        if isinstance(found, web.StreamResponse):
            return found
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": found})


class Nothing:
    generation = 0

    def __iter__(self) -> Iterator[JSONObject]:
        return iter(())


async def labels(name: str) -> Mapping[str, str]:
    return {}


def no_conditions(conditions: object) -> Any:
    raise AssertionError("no matchConditions here")


@pytest.fixture(params=["mutating", "validating"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World()
    async with calling() as caller, webhook_server(world.respond) as world.hooks:
        calls = WebhookCalls(caller, labels, lambda: "uid-1")
        mutating, validating = (world, Nothing()) if request.param == "mutating" else (Nothing(), world)
        server = LocalServer(
            mutating_plugins=[MutatingWebhooks(WebhookIndex(mutating, no_conditions), calls)],
            validating_plugins=[ValidatingWebhooks(WebhookIndex(validating, no_conditions), calls)],
        )
        await server.start()
        server.serve(CRONTABS)
        server.serve(WIDGETS)
        world.client = server.client()
        world.configure()
        yield world
        await server.stop()


async def hang(asked: JSONObject) -> Any:
    await asyncio.sleep(60)


def endless(asked: JSONObject) -> Any:
    return ENDLESS


ENDLESS = object()


async def stream(request: web.BaseRequest) -> web.StreamResponse:
    """100 MB, or as much as the client takes."""
    response = web.StreamResponse()
    await response.prepare(request)
    with suppress(ConnectionError):
        for _ in range(100):
            await response.write(b"x" * 2**20)
    return response


# name: (answer, the text of the refusal after `failed calling webhook "bad": `).
BAD: dict[str, tuple[Any, str]] = {
    "hangs": (hang, "failed to call webhook: Post "),
    "100 MB": (endless, "failed to call webhook: the response is larger than "),
    "wrong uid": (
        lambda asked: {"uid": "other", "allowed": True},
        'received invalid webhook response: expected response.uid="uid-1"',
    ),
    "no response": (lambda asked: None, "received invalid webhook response: webhook response was absent"),
    "no JSON": (
        lambda asked: web.Response(text="hello"),
        "failed to call webhook: couldn't get version/kind; json parse error: ",
    ),
    "500": (lambda asked: web.Response(status=500, text="x"), 'failed to call webhook: an error on the server ("x")'),
}


@pytest.mark.parametrize("case", BAD)
async def test_refused(world: World, case: str) -> None:
    world.answer, text = BAD[case]
    world.configure(timeoutSeconds=1 if case == "hangs" else 30)
    answer = await world.client.post(CRONTABS_PATH, crontab())
    assert answer.status == 500
    assert answer.message.startswith(f'Internal error occurred: failed calling webhook "bad": {text}')
    assert (await world.client.get(f"{CRONTABS_PATH}/one")).status == 404


@pytest.mark.parametrize("case", BAD)
async def test_ignored(world: World, case: str) -> None:
    world.answer, _ = BAD[case]
    world.configure(timeoutSeconds=1 if case == "hangs" else 30, failurePolicy="Ignore")
    assert (await world.client.post(CRONTABS_PATH, crontab())).status == 201


async def test_one_that_hangs_does_not_hold_up_other_resources(world: World) -> None:
    gate = asyncio.Event()

    async def answer(asked: JSONObject) -> Any:
        await gate.wait()
        return {"uid": asked["uid"], "allowed": True}

    world.answer = answer
    waiting = [asyncio.create_task(world.client.post(CRONTABS_PATH, crontab(f"c{number}"))) for number in range(40)]
    for number in range(5):
        assert (await world.client.post(WIDGETS_PATH, widget(f"w{number}"))).status == 201
    assert not any(task.done() for task in waiting)
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [201] * 40


def patched(*operations: Any) -> Any:
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda asked: {"uid": asked["uid"], "allowed": True, "patch": patch, "patchType": "JSONPatch"}


# name: (operations, code, a part of the text).
BREAKING: dict[str, tuple[list[Any], int, str]] = {
    "removes the name": ([{"op": "remove", "path": "/metadata/name"}], 422, "name or generateName is required"),
    "removes the metadata": ([{"op": "remove", "path": "/metadata"}], 422, "name or generateName is required"),
    "nulls the metadata": ([{"op": "replace", "path": "/metadata", "value": None}], 500, "system metadata was not initialized"),
    "another kind": ([{"op": "replace", "path": "/kind", "value": "Other"}], 422, "kind: Invalid value"),
    "another group": ([{"op": "replace", "path": "/apiVersion", "value": "x/v1"}], 500, "is not suitable for converting"),
    "no kind": ([{"op": "remove", "path": "/kind"}], 500, "Object 'Kind' is missing in"),
    "no object": ([{"op": "replace", "path": "", "value": []}], 500, "couldn't get version/kind; json parse error"),
    "does not apply": ([{"op": "remove", "path": "/nothing"}], 500, "Unable to remove nonexistent key"),
    "too many operations": ([{"op": "test", "path": "/kind", "value": "CronTab"}] * 10_001, 500, "at most 10000 are applied"),
    "copies itself": (
        [{"op": "add", "path": "/x", "value": ["x" * 1000]}, *([{"op": "copy", "from": "/x", "path": "/x/-"}] * 9_000)],
        500,
        "the accumulated size increase of copy is",
    ),
    "nests deeply": (
        [{"op": "add", "path": "/x", "value": {}}, *({"op": "move", "from": "/x", "path": "/y/x"} for _ in range(3))],
        500,
        "Internal error occurred",
    ),
    "too large": ([{"op": "add", "path": "/spec/cronSpec", "value": "x" * 4 * 2**20}], 413, "limit is"),
}


@pytest.mark.parametrize("world", ["mutating"], indirect=True)
@pytest.mark.parametrize("case", BREAKING)
async def test_a_patch_that_breaks_the_object(world: World, case: str) -> None:
    operations, code, text = BREAKING[case]
    world.answer = patched(*operations)
    answer = await world.client.post(CRONTABS_PATH, crontab())
    assert (answer.status, text in answer.message) == (code, True), answer.message
    assert (await world.client.get(f"{CRONTABS_PATH}/one")).status == 404


def test_limits() -> None:
    """A patch that replaces the largest object, in base64, fits."""
    assert MAX_MUTATING_BYTES > 3 * 2**20 * 4 / 3 + 2**20
    assert MAX_VALIDATING_BYTES == 2**20
