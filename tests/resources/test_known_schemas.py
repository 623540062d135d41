"""A changed schema of a stored resource is told at the next start on the same store."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from aggserver.resources.app import App
from aggserver.resources.known_schemas import PREFIX
from aggserver.storage.memory import MemoryStorage
from aggserver.typed.metadata import Metadata
from tests.fakes.server import LocalServer
from tests.resources.stored_apps import serving


@dataclass
class Now:
    metadata: Metadata
    size: int
    colour: str = "red"


@dataclass
class Later:
    metadata: Metadata
    size: str
    shape: str


async def start(storage: MemoryStorage, type_: type) -> None:
    app: App[None] = App()
    app.stored("paas.example.com/v1", type_, plural="things")
    async with serving(app, server=LocalServer(storage)):
        pass


async def test_what_is_told_and_when(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    await storage.start()
    with caplog.at_level(logging.WARNING):
        await start(storage, Now)
        await start(storage, Now)
        assert caplog.text == ""
        await start(storage, Later)
        told = [record.getMessage().partition("another schema: ")[2] for record in caplog.records]
        assert told == [
            "v1: .size: the type was integer and is string",
            "v1: .colour: was removed, so that it is dropped from objects that have it",
            "v1: .shape: is required now, and has no default",
        ]
        assert caplog.records[0].getMessage().startswith("test_known_schemas.py:")
        caplog.clear()
        await start(storage, Later)
        assert caplog.text == ""


async def test_a_damaged_record_is_written_again(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    await storage.start()
    await storage.create(PREFIX + "things.paas.example.com", b'{"other": 1}')
    with caplog.at_level(logging.WARNING):
        await start(storage, Now)
        assert "are not known" in caplog.text
        caplog.clear()
        await start(storage, Now)
        assert caplog.text == ""
