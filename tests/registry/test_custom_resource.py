from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.meta import jsonpath
from aggserver.meta.json_types import JSONObject
from aggserver.registry.custom_resource import CustomResourceStrategy, read_fields
from aggserver.registry.rest import Context
from aggserver.registry.strategy import Verdict
from aggserver.schema.compiled import CompiledSchema
from tests.registry.world import World, create, crontab

FIELDS: dict[str, tuple[Any, str]] = {
    "a string": ({"spec": {"x": "red"}}, "red"),
    "true": ({"spec": {"x": True}}, "true"),
    "false": ({"spec": {"x": False}}, "false"),
    "a number": ({"spec": {"x": 42}}, "42"),
    "null": ({"spec": {"x": None}}, ""),
    "not there": ({"spec": {}}, ""),
    "nothing on the way": ({}, ""),
}


@pytest.mark.parametrize("case", FIELDS)
def test_selectable_fields(case: str) -> None:
    obj, value = FIELDS[case]
    assert read_fields({"spec.x": jsonpath.compile(".spec.x")})(obj) == {"spec.x": value}


# --- rules that take long ---

SQUARED = {"rule": "self.all(a, self.all(b, a + b > 0))", "message": "not positive"}
LISTS = CompiledSchema(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [SQUARED]},
        },
    }
)


def any_time(context: Context) -> None:
    return None


def never() -> bool:
    return False


def strategy() -> CustomResourceStrategy:
    return CustomResourceStrategy(World().info(), LISTS, has_status=False, scale=None, check_context=any_time)


def test_few_values_are_judged_at_once() -> None:
    verdict = strategy().validate(crontab(namespace="default") | {"spec": [0, 0]})
    assert [str(error) for error in verdict.errors] == ["spec: Invalid value: not positive"]
    assert verdict.later is None


@pytest.mark.parametrize("value", [0, 1])
def test_many_values_are_judged_later(value: int) -> None:
    obj = crontab(namespace="default") | {"spec": [1] * 100 + [value]}
    for verdict in (strategy().validate(obj), strategy().validate_update(obj, crontab(namespace="default") | {"spec": []})):
        assert verdict.later is not None
        assert [str(error) for error in verdict.later(never).errors] == ["spec: Invalid value: not positive"] * (value == 0)


class Slow(CustomResourceStrategy):
    """Validates until the test lets it end, or the request is given up."""

    def __init__(self, world: World) -> None:
        super().__init__(world.info(), LISTS, has_status=False, scale=None, check_context=any_time)
        self.begun, self.may_end, self.given_up = threading.Event(), threading.Event(), threading.Event()

    def validate(self, obj: JSONObject) -> Verdict:
        return Verdict([], later=self._later)

    def _later(self, is_given_up: Callable[[], bool]) -> Verdict:
        self.begun.set()
        while not self.may_end.wait(0.01):
            if is_given_up():
                self.given_up.set()
                break
        return Verdict([], ["it took long"])


async def test_later_is_not_on_the_event_loop(world: World) -> None:
    slow = Slow(world)
    created = asyncio.ensure_future(create(world.store().with_strategy(slow)))
    await asyncio.to_thread(slow.begun.wait)
    assert not created.done()
    slow.may_end.set()
    assert (await created)["metadata"]["name"] == "a"


async def test_nobody_waits_any_more(world: World) -> None:
    slow = Slow(world)
    created = asyncio.ensure_future(create(world.store().with_strategy(slow)))
    await asyncio.to_thread(slow.begun.wait)
    created.cancel()
    await asyncio.to_thread(slow.given_up.wait)
    assert created.cancelled()
