"""Streams: who may read them, how long they last, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aggserver.endpoints import websocket
from aggserver.endpoints.handlers import connect
from aggserver.resources import connecting
from aggserver.resources.app import App
from aggserver.resources.errors import Unavailable
from aggserver.resources.requests import Request
from tests.fakes.clock import settled, until
from tests.fakes.server import LocalServer
from tests.resources.site_types import Site
from tests.resources.stored_apps import SITES, serving, site, stored

LOG = f"{SITES}/web/log"


class Followed:
    """A stream that gives what a test puts into it, and knows whether it was closed."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[Any] = asyncio.Queue()
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()

    def function(self) -> Callable[..., Any]:
        async def follow(request: Request[None], obj: Site) -> AsyncIterator[Any]:
            self.begun.set()
            try:
                while True:
                    piece = await self.pieces.get()
                    if isinstance(piece, Exception):
                        raise piece
                    yield piece
            finally:
                self.closed.set()

        return follow


def with_stream(function: Callable[..., Any], name: str = "log") -> App[None]:
    app: App[None] = App()
    stored(app).stream(name)(function)
    return app


async def _async_pieces(request: Request[None], obj: Site) -> AsyncIterator[Any]:
    yield f"{obj.metadata.name}\n"
    yield b"\xff"


def _plain_pieces(request: Request[None], obj: Site) -> Iterator[Any]:
    yield f"{obj.metadata.name}\n"
    yield b"\xff"


@pytest.mark.parametrize("function", [_async_pieces, _plain_pieces])
async def test_pieces(function: Callable[..., Any]) -> None:
    async with serving(with_stream(function)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.get(LOG)
        assert answer.status == 200
        assert answer.header("content-type") == "text/plain; charset=utf-8"
        assert answer.body == b"web\n\xff"
        assert (await running.admin.post(LOG, {})).status == 405
        assert (await running.admin.get(f"{SITES}/other/log")).status == 404


async def test_it_is_a_get_of_the_subresource() -> None:
    async with serving(with_stream(_async_pieces)) as running:
        await running.admin.post(SITES, site())
        assert (await running.alice.get(LOG)).status == 403
        asked = running.server.rules.asked[-1]
        assert (asked.verb, asked.resource, asked.subresource) == ("get", "sites", "log")
        running.allow(("get", "sites"))
        assert (await running.alice.get(LOG)).status == 200


async def test_a_websocket_needs_create_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "is_upgrade", lambda request: True)
    async with serving(with_stream(_async_pieces)) as running:
        await running.admin.post(SITES, site())
        running.allow(("get", "sites"))
        answer = await running.alice.get(LOG)
        assert answer.status == 403
        assert 'cannot create resource "sites/log"' in answer.message
        asked = running.server.rules.asked[-1]
        assert (asked.verb, asked.subresource) == ("create", "log")


# --- what ends it ---


async def _shutdown(running: Any, exchange: Any) -> None:
    running.server.end_watches()


async def _deletion(running: Any, exchange: Any) -> None:
    assert (await running.admin.delete(f"{SITES}/web")).status == 200


async def _client(running: Any, exchange: Any) -> None:
    exchange.disconnect()


ENDS = {"the server stops": _shutdown, "the object is deleted": _deletion, "the client goes": _client}


@pytest.mark.parametrize("name", ENDS)
async def test_what_ends_it(name: str) -> None:
    followed = Followed()
    async with serving(with_stream(followed.function())) as running:
        await running.admin.post(SITES, site())
        exchange = running.admin.send("GET", LOG)
        followed.pieces.put_nowait("one")
        await exchange.start()
        assert await exchange.piece() == b"one"
        await settled()
        assert not exchange.task.done()
        await ENDS[name](running, exchange)
        await until(exchange.task.done)
        await until(followed.closed.is_set)
        if name != "the client goes":
            assert await exchange.piece() == b""


async def test_another_object_that_is_deleted_does_not_end_it() -> None:
    followed = Followed()
    async with serving(with_stream(followed.function())) as running:
        for name in ("web", "other"):
            await running.admin.post(SITES, site(name))
        exchange = running.admin.send("GET", LOG)
        followed.pieces.put_nowait("one")
        await exchange.start()
        await exchange.piece()
        await running.admin.delete(f"{SITES}/other")
        await settled()
        followed.pieces.put_nowait("two")
        assert await exchange.piece() == b"two"
        exchange.disconnect()
        await exchange.task


async def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect._FIRST_SECONDS == 1.0
    assert connect._UNREAD_SECONDS == 60.0
    monkeypatch.setattr(connect, "_UNREAD_SECONDS", 0.001)
    followed = Followed()
    async with serving(with_stream(followed.function())) as running:
        await running.admin.post(SITES, site())
        exchange = running.admin.send("GET", LOG)
        followed.pieces.put_nowait("one")
        await exchange.start()
        await exchange.piece()
        exchange.taking.clear()
        followed.pieces.put_nowait("two")
        await until(followed.closed.is_set)
        await until(exchange.task.done)


# --- how long ---


@pytest.mark.parametrize(("name", "ends"), [("log", False), ("exec", False), ("logs", True)])
async def test_only_some_names_last_longer_than_a_request(name: str, ends: bool) -> None:
    followed = Followed()
    server = LocalServer(timeout=0.2)
    await server.start()
    async with serving(with_stream(followed.function(), name), server=server) as running:
        await running.admin.post(SITES, site())
        exchange = running.admin.send("GET", f"{SITES}/web/{name}")
        followed.pieces.put_nowait("one")
        await exchange.start()
        assert await exchange.piece() == b"one"
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, over.set)
        await until(followed.closed.is_set if ends else over.is_set)
        assert followed.closed.is_set() == ends
        if ends:
            assert await exchange.message() is None, "it is broken off"
        exchange.disconnect()
        await asyncio.gather(exchange.task, return_exceptions=True)
    await server.stop()


@pytest.mark.parametrize(("name", "warns"), [("log", False), ("attach", False), ("logs", True)])
async def test_other_names_are_warned_of(name: str, warns: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with serving(with_stream(_async_pieces, name)):
            pass
    assert (f"streams of sites.paas.example.com/{name} end after a minute" in caplog.text) == warns


# --- errors ---


async def _fails_at_once(request: Request[None], obj: Site) -> AsyncIterator[bytes]:
    raise Unavailable("no log yet", 5)
    yield b""


async def _breaks_at_once(request: Request[None], obj: Site) -> AsyncIterator[bytes]:
    raise ValueError("secret")
    yield b""


def _plainly_breaks(request: Request[None], obj: Site) -> Iterator[bytes]:
    raise ValueError("secret")
    yield b""


async def _no_bytes(request: Request[None], obj: Site) -> AsyncIterator[Any]:
    yield 5


FIRST: dict[str, tuple[Callable[..., Any], int, str]] = {
    "Unavailable": (_fails_at_once, 503, "no log yet"),
    "its own error": (_breaks_at_once, 500, "Internal error occurred"),
    "of a plain generator": (_plainly_breaks, 500, "Internal error occurred"),
    "what is no text": (_no_bytes, 500, "Internal error occurred"),
}


@pytest.mark.parametrize("name", FIRST)
async def test_an_error_before_the_first_piece_is_an_answer(name: str) -> None:
    function, code, text = FIRST[name]
    async with serving(with_stream(function)) as running:
        await running.admin.post(SITES, site())
        answer = await running.admin.get(LOG)
        assert answer.status == code, answer.body
        assert text in answer.message
        assert b"secret" not in answer.body


async def test_an_error_later_breaks_the_stream_off(caplog: pytest.LogCaptureFixture) -> None:
    followed = Followed()
    async with serving(with_stream(followed.function())) as running:
        await running.admin.post(SITES, site())
        exchange = running.admin.send("GET", LOG)
        followed.pieces.put_nowait("one")
        await exchange.start()
        assert await exchange.piece() == b"one"
        followed.pieces.put_nowait(ValueError("secret"))
        with caplog.at_level(logging.ERROR):
            await asyncio.gather(exchange.task, return_exceptions=True)
        assert followed.closed.is_set()
        assert "ValueError: secret" in caplog.text
        # Without the last message, the server closes the connection.
        assert await exchange.message() is None


def _plain_for_ever(request: Request[None], obj: Site) -> Iterator[bytes]:
    yield b"begun\n"
    over = threading.Event()
    _HELD.append(over)
    over.wait()


_HELD: list[threading.Event] = []


@pytest.mark.parametrize(("is_plain", "most"), [(True, 2), (False, 3)], ids=["plain: half of the threads", "async"])
async def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch, is_plain: bool, most: int) -> None:
    """A plain one keeps a thread as long as it lasts: others must be left for all other functions."""
    monkeypatch.setattr(connecting, "_MOST_STREAMS", 3)
    app: App[None] = App(threads=4)
    stored(app).stream("log")(_plain_for_ever if is_plain else Followed().function())
    async with serving(app) as running, contextlib.AsyncExitStack() as stack:
        await running.admin.post(SITES, site())
        for _ in range(most):
            await stack.enter_async_context(running.admin.watch(LOG))
            await settled()
        refused = await running.admin.get(LOG)
        assert (refused.status, refused.json()["reason"]) == (429, "TooManyRequests")
        assert (await running.admin.get(f"{SITES}/web")).status == 200
        for over in _HELD:
            over.set()
        _HELD.clear()
    async with serving(with_stream(_async_pieces)) as running:
        await running.admin.post(SITES, site())
        assert (await running.admin.get(LOG)).status == 200
