"""Web applications beside the API: paths, lifespan, and what they don't get."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.app.web import WebApps
from aggserver.endpoints.request import ASGIApp, Message
from aggserver.options import Options

OPTIONS = Options(command="dev")


def application(name: str, events: list[str], *, fails: bool = False) -> ASGIApp:
    """Answers with its name, its paths and the headers it gets; tells when it starts and ends."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                events.append(f"{name} {kind}")
                await send({"type": f"{kind}.failed", "message": "no database"} if fails else {"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        headers = ",".join(key.decode() for key, _ in scope["headers"])
        body = f"{name} {scope['root_path']} {scope['path']} {headers}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


async def without_lifespan(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"plain"})


@asynccontextmanager
async def started(**mounts: ASGIApp) -> AsyncIterator[Callable[[str], Any]]:
    web = WebApps({f"/{name.replace('_', '/')}": app for name, app in mounts.items()}, OPTIONS)
    for mounted in web._mounts.values():
        await mounted.start()

    async def get(path: str) -> tuple[int, str]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "path": path, "headers": [(b"host", b"x"), (b"x-remote-user", b"admin")]}
        await web.asgi(scope, lambda: None, send)  # type: ignore[arg-type, return-value]
        return sent[0]["status"], sent[1]["body"].decode()

    yield get
    for mounted in web._mounts.values():
        await mounted.end()


@pytest.mark.parametrize(
    ("path", "answer"),
    {
        "the path itself": ("/ui", (200, "outer /ui /ui host")),
        "below it": ("/ui/a/b", (200, "outer /ui /ui/a/b host")),
        "the longest path wins": ("/ui/admin/x", (200, "inner /ui/admin /ui/admin/x host")),
        "a name that only begins so": ("/uix", (404, "404 page not found\n")),
        "the API is not there": ("/apis", (404, "404 page not found\n")),
    }.values(),
)
async def test_paths_and_headers(path: str, answer: tuple[int, str]) -> None:
    events: list[str] = []
    async with started(ui=application("outer", events), ui_admin=application("inner", events)) as get:
        assert await get(path) == answer


async def test_the_lifespan() -> None:
    events: list[str] = []
    async with started(ui=application("it", events)):
        assert events == ["it lifespan.startup"]
    assert events == ["it lifespan.startup", "it lifespan.shutdown"]


async def test_one_that_does_not_start_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    events: list[str] = []
    async with started(bad=application("bad", events, fails=True), good=without_lifespan) as get:
        assert await get("/bad/x") == (503, "/bad: no database\n")
        assert await get("/good") == (200, "plain")
    assert "the web application at /bad does not run: no database" in caplog.text
