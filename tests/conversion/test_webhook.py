"""WebhookConverter with a webhook on loopback, and what it makes of webhooks that do something wrong."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from aggserver.conversion.converter import ConversionError
from aggserver.conversion.review import decode_answer
from aggserver.conversion.webhook import SHORT_BYTES, WebhookCall, WebhookConverter
from tests.fakes.bad_webhooks import BAD_ANSWERS, BAD_OBJECTS, BAD_RESPONSES, ENDLESS, Answer, answered, good, review_of
from tests.fakes.clock import FakeClock
from tests.fakes.webhook import WebhookServer, calling, webhook_server

BAD = {**BAD_RESPONSES, **BAD_ANSWERS, **BAD_OBJECTS}
TEXTS: Mapping[str, str] = yaml.safe_load(Path("tests/cases/conversion_webhooks.yaml").read_text())

V1, V2 = "conv.example.com/v1", "conv.example.com/v2"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def tab(name: str = "one", api_version: str = V1, **more: Any) -> dict[str, Any]:
    address = {"hostPort": "a:1"} if api_version == V1 else {"host": "a", "port": "1"}
    metadata = {"name": name, "namespace": "default", "uid": "00000000-0000-0000-0000-000000000001", "labels": {"x": "y"}}
    return {"apiVersion": api_version, "kind": "Tab", "metadata": {**metadata, "generation": 3, **more}, **address}


class Setup:
    """A converter of a definition, the webhook, and the calls that were observed."""

    def __init__(self, server: WebhookServer, converter: WebhookConverter, calls: list[WebhookCall]) -> None:
        self.server = server
        self.converter = converter
        self.calls = calls

    def reviews(self) -> list[dict[str, Any]]:
        return [json.loads(body) for body in self.server.bodies]


@asynccontextmanager
async def converting(answer: Answer, *versions: str, clock: FakeClock | None = None) -> AsyncIterator[Setup]:
    calls: list[WebhookCall] = []
    async with webhook_server(answer) as server, calling() as webhooks:
        converter = WebhookConverter(
            "tabs.example.com",
            server.config(),
            versions or ("v1",),
            webhooks,
            new_uid=lambda: "11111111-1111-1111-1111-111111111111",
            clock=clock or FakeClock(),
            observe=calls.append,
        )
        yield Setup(server, converter, calls)


# Of the bad responses, those that may be about the objects that were sent.
ANSWERED = {
    *(
        "HTML",
        "HTML as JSON",
        "a text",
        "half of JSON",
        "JSON with an error",
        "YAML with an error",
        "a number",
        "a string",
        "a list",
    ),
    *("null", "an empty object", "nothing", "nothing, of another type", "204", "a type that can't be read", "400", "422"),
    *("200 with a Status", "200 with a Status of success", "500 and a text", "500 and HTML", "500 and JSON", "500 and nothing"),
}
MALFORMED = {
    *("null", "an empty object", "no response", "response null", "another uid", "no uid", "no kind", "no version"),
    *("a group without a version", "failure", "failure without a message", "no result", "result null"),
}
PARTIAL = {"no objects", "no list of objects", "convertedObjects null", "too few objects", "too many objects"}


async def test_objects_of_other_versions_are_sent() -> None:
    async with converting(good, "v2alpha1", "v1", "v1beta1") as setup:
        made = await setup.converter.convert([tab("one"), tab("two", V2), tab("three")], V2)
        assert made == [tab("one", V2), tab("two", V2), tab("three", V2)]
        assert setup.reviews() == [
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "ConversionReview",
                "request": {
                    "uid": "11111111-1111-1111-1111-111111111111",
                    "desiredAPIVersion": V2,
                    "objects": [tab("one"), tab("three")],
                },
            }
        ]
        assert setup.server.seen == [("POST", "/convert?timeout=30s")]
        assert setup.calls == [WebhookCall("tabs.example.com", "v1", "v2", 0.0, "")]


async def test_objects_of_the_wanted_version_need_no_call() -> None:
    async with converting(good) as setup:
        assert await setup.converter.convert([tab("one", V2)], V2) == [tab("one", V2)]
        assert await setup.converter.convert([], V2) == []
        assert (setup.server.seen, setup.calls) == ([], [])


async def test_many_objects() -> None:
    async with converting(good) as setup:
        made = await setup.converter.convert([tab(f"t{n}", size="x" * 1000) for n in range(500)], V2)
        assert made == [tab(f"t{n}", V2, size="x" * 1000) for n in range(500)]


async def test_the_review_is_of_the_first_version_that_both_know() -> None:
    async with converting(good, "v1beta1", "v1") as setup:
        await setup.converter.convert([tab()], V2)
        assert setup.reviews()[0]["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    async with converting(good, "v7") as setup:
        with pytest.raises(ConversionError, match=r"^no supported conversion review versions$"):
            await setup.converter.convert([tab()], V2)


@pytest.mark.parametrize("name", ["another uid", "no uid", "no version", "no kind"])
async def test_reviews_of_v1beta1_need_no_uid_kind_and_version(name: str) -> None:
    async with converting(BAD[name], "v1beta1") as setup:
        assert await setup.converter.convert([tab()], V2) == [tab(api_version=V2)]


def test_each_bad_webhook_has_a_text() -> None:
    assert TEXTS.keys() | {"500 and a long text"} == BAD.keys()


@pytest.mark.parametrize("name", TEXTS)
async def test_bad_webhooks(name: str) -> None:
    async with converting(BAD[name]) as setup:
        with pytest.raises(ConversionError) as caught:
            await setup.converter.convert([tab()], V2)
    text = str(caught.value).replace("conversion webhook for conv.example.com/v1, Kind=Tab", "<webhook>")
    text = UID.sub("<uid>", text).replace(f"127.0.0.1:{setup.server.port}", "<address>")
    assert re.sub(r"'\{.*\}'$", "'<object>'", text) == TEXTS[name].replace("'{}'", "'<object>'")
    assert (caught.value.code, caught.value.reason) == (500, "")
    kinds = ((MALFORMED, "malformed_response"), (PARTIAL, "partial_response"), (BAD_OBJECTS, "invalid_converted_object"))
    failure = next((kind for names, kind in kinds if name in names), "call")
    assert [call.failure for call in setup.calls] == [f"conversion_webhook_{failure}_failure"]
    assert caught.value.answered == (name not in BAD_RESPONSES or name in ANSWERED)
    assert caught.value.index == (0 if caught.value.answered else None)


async def test_long_bodies_are_quoted_in_part() -> None:
    async with converting(BAD["500 and a long text"]) as setup:
        with pytest.raises(ConversionError) as caught:
            await setup.converter.convert([tab()], V2)
    quoted = re.findall('"(.*)"', str(caught.value))[0]
    assert quoted == ("no " * 1000)[:2048].strip()


@pytest.mark.parametrize("name", ["another name", "a text for an object", "labels a list"])
async def test_a_bad_object_among_others_is_named_by_its_index(name: str) -> None:
    async with converting(BAD[name]) as setup:
        with pytest.raises(ConversionError) as caught:
            await setup.converter.convert([tab("one"), tab("two", V2), tab("three")], V2)
        assert caught.value.index == 2


async def test_a_refusal_of_several_objects_names_none() -> None:
    async with converting(BAD["failure"]) as setup:
        with pytest.raises(ConversionError) as caught:
            await setup.converter.convert([tab("one"), tab("two")], V2)
        assert (caught.value.index, caught.value.answered) == (None, True)


async def test_metadata_stays_but_for_labels_and_annotations() -> None:
    async def other_metadata(request: web.BaseRequest) -> web.StreamResponse:
        made = answered(await review_of(request))
        changed = {"labels": {"new": "label"}, "annotations": None, "generation": 99, "finalizers": ["x"]}
        made["response"]["convertedObjects"][0]["metadata"] |= changed
        return web.json_response(made)

    async with converting(other_metadata) as setup:
        made = await setup.converter.convert([tab(annotations={"gone": "x"}, resourceVersion="7")], V2)
        assert made[0]["metadata"] == tab(resourceVersion="7", labels={"new": "label"})["metadata"]


async def test_a_slow_call_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Slow is more than 50 ms and 8 ms for each object."""
    clock = FakeClock()

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        clock.advance(takes.pop(0))
        return await good(request)

    takes = [0.065, 0.067]
    async with converting(slow, clock=clock) as setup:
        for _ in (1, 2):
            await setup.converter.convert([tab("one"), tab("two")], V2)
        assert [round(call.seconds, 3) for call in setup.calls] == [0.065, 0.067]
    assert [record.getMessage() for record in caplog.records if record.name == "aggserver.conversion"] == [
        "the conversion webhook of tabs.example.com took 67 ms for 2 objects from conv.example.com/v1 to conv.example.com/v2"
    ]


async def test_an_endless_answer_is_not_read_to_its_end() -> None:
    async with converting(ENDLESS) as setup:
        with pytest.raises(ConversionError, match=r"failed: the response is larger than 4[0-9]{6} bytes$"):
            await setup.converter.convert([tab()], V2)


async def test_large_answers_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may need 40 times its size, and other threads wait while one is decoded."""
    threads: set[str] = set()

    def decode(*arguments: Any) -> Any:
        threads.add(threading.current_thread().name)
        return decode_answer(*arguments)

    monkeypatch.setattr("aggserver.conversion.webhook.decode_answer", decode)
    async with converting(good) as setup:
        large = tab(annotations={"x": "y" * SHORT_BYTES})
        await asyncio.gather(*(setup.converter.convert([large], V2) for _ in range(8)))
    assert threads == {"conversion-answers_0"}
