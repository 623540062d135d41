"""What is refused while objects are being moved: all writes while they are frozen, all reads while they are hidden."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aggserver.registry.gate import Gate
from aggserver.registry.rest import DeleteOptions
from aggserver.registry.store import Store
from tests.registry.world import GROUP, World, change, context, create, refused, selection, watching

READS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "get": lambda store: store.get(context(), "a"),
    "list": lambda store: store.list(context(), selection()),
    "watch": lambda store: watching(store),
}
WRITES: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "create": lambda store: create(store, "b"),
    "update": lambda store: change(store, "a", lambda obj: obj.update(spec={"color": "blue"})),
    "delete": lambda store: store.delete(context(), "a", DeleteOptions()),
}


@pytest.mark.parametrize("name", [*READS, *WRITES])
@pytest.mark.parametrize("state", ["open", "frozen", "hidden"])
async def test_gate(world: World, store: Store, name: str, state: str) -> None:
    gate: Gate = world.gate()
    await create(store, "a")
    gate.frozen, gate.hidden = state == "frozen", state == "hidden"
    request = (READS | WRITES)[name](store)
    if (name in READS and state == "hidden") or (name in WRITES and state == "frozen"):
        error = await refused(request)
        assert (error.code, error.reason) == (503, "ServiceUnavailable")
        assert f"crontabs.{GROUP}" in error.message
    else:
        await request
