"""`apps` serves Apps in a whole server in memory; its pauses between polls and retries end when a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.fakes.server import LocalServer
from tests.resources.served import Apps


@pytest.fixture
async def apps(server: LocalServer) -> AsyncIterator[Apps]:
    apps = Apps(server)
    yield apps
    await apps.stop()
