from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from aggserver.app.adoption import Adoption


async def test_objects_are_not_deleted_while_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that nobody expects must not pass for the end of it, since the definition would be taken for empty."""
    tries: list[str] = []

    async def delete_objects(name: str) -> bool:
        tries.append(name)
        if len(tries) == 1:
            raise KeyError("what nobody expects")
        return True

    adoption = object.__new__(Adoption)
    definitions = SimpleNamespace(get=lambda name: None, delete_objects=delete_objects)
    adoption._definitions = definitions  # type: ignore[assignment]
    adoption._changed = asyncio.Event()
    for pause in ("_RETRY_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(f"aggserver.app.adoption.{pause}", 0.0)
    await adoption._empty("things.example.com")
    assert len(tries) == 2
    assert adoption._changed.is_set()
