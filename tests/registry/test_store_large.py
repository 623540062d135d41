"""Writes of large objects: what works on all of such an object runs in a thread, so that the event loop is free for others."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.registry import store as store_module
from aggserver.registry.custom_resource import CustomResourceStrategy
from aggserver.registry.rest import WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.strategy import Verdict
from tests.registry.world import ANYTHING, WRITE, World, context, crontab, refused

LARGE = "x" * 200_000


class Told(CustomResourceStrategy):
    """Notes which of its hooks run on the event loop."""

    def __init__(self, world: World) -> None:
        super().__init__(world.info(), ANYTHING, has_status=True, scale=None, check_context=lambda context: None)
        self.loop = threading.get_ident()
        self.on_loop: dict[str, bool] = {}

    def note(self, what: str) -> None:
        self.on_loop[what] = threading.get_ident() == self.loop

    def validate(self, obj: JSONObject) -> Verdict:
        self.note("validate")
        return super().validate(obj)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        self.note("prepare_for_update")
        super().prepare_for_update(obj, old, now)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        self.note("validate_update")
        return super().validate_update(obj, old)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        self.note("warnings")
        return super().warnings(obj, old)


async def write(store: Store, text: str, name: str = "a", **metadata: Any) -> None:
    obj = crontab(name, **metadata)
    obj["spec"]["anything"] = text
    asked = context()
    asked.body_bytes = len(codec.encode_json(obj))
    await store.create(WriteRequest(asked, WRITE), obj)


async def label(store: Store) -> None:
    """A small change, of whatever object."""

    async def transform(obj: JSONObject) -> JSONObject:
        obj["metadata"]["labels"] = {"a": "b"}
        return obj

    await store.update(WriteRequest(context(), WRITE), "a", transform)


@pytest.mark.parametrize("text", ["short", LARGE], ids=["small", "large"])
async def test_where_the_hooks_run(world: World, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    told = Told(world)

    def same(left: Any, right: Any) -> bool:
        told.note("same")
        return compare(left, right)

    compare = codec.same
    monkeypatch.setattr(codec, "same", same)
    store = world.store().with_strategy(told)
    await write(store, text)
    assert told.on_loop == dict.fromkeys(("validate", "warnings"), text != LARGE)
    told.on_loop.clear()
    await label(store)
    hooks = ("prepare_for_update", "validate_update", "warnings", "same")
    assert told.on_loop == dict.fromkeys(hooks, text != LARGE)


async def test_the_message_of_many_errors_is_made_in_a_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    invalid = store_module.errors.invalid

    def noted(*args: Any) -> Any:
        made.append(threading.get_ident())
        return invalid(*args)

    monkeypatch.setattr(store_module.errors, "invalid", noted)
    error = await refused(write(world.store(), LARGE, name="not a name"))
    assert error.code == 422
    assert (await refused(write(world.store(), "short", name="not a name"))).message == error.message
    assert [thread == threading.get_ident() for thread in made] == [False, True]
