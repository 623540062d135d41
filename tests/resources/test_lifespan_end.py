"""An App whose lifespan fails at its end does not keep the server from stopping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from aggserver import App
from aggserver.admission.chain import Chain
from aggserver.resources.serving import ServedApp
from tests.fakes.server import LocalServer
from tests.waiting import HANG_SECONDS


async def test_a_lifespan_that_fails_at_its_end_is_not_entered_again(caplog: pytest.LogCaptureFixture) -> None:
    entered = asyncio.Event()
    times = 0

    @asynccontextmanager
    async def failing() -> AsyncGenerator[None, None]:
        nonlocal times
        times += 1
        entered.set()
        try:
            yield
        finally:
            raise RuntimeError("no goodbye")

    server = LocalServer()
    served = ServedApp("test", App(failing), server.environment, Chain(), server.engine.definitions)
    running = asyncio.create_task(served.run())
    await entered.wait()
    running.cancel()
    await asyncio.wait({running}, timeout=HANG_SECONDS)
    assert running.cancelled()
    assert times == 1
    assert "no goodbye" in caplog.text
