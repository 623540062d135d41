from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import CREATE, Attributes, Chain, Selective
from aggserver.admission.observer import ObservedMutating, ObservedValidating, steps
from aggserver.authentication.user import UserInfo
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from tests.fakes.clock import FakeClock

CRONTABS = ResourceInfo("g", "v1", "crontabs", "CronTab", "CronTabList", namespaced=True)
ATTRIBUTES = Attributes(CREATE, UserInfo("alice"), CRONTABS, "", "CronTab", "g/v1", "default", "a", dry_run=False)


class Counted:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def step(self, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self.seen.append((kind, operation, seconds, rejected))

    def controller(self, name: str, kind: str, operation: str, seconds: float, *, rejected: bool) -> None:
        self.seen.append((name, kind, operation, seconds, rejected))


class Plugin:
    """Takes two seconds. refuses: what."""

    def __init__(self, clock: FakeClock, refuses: str = "") -> None:
        self._clock = clock
        self._refuses = refuses

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        self._clock.now += 2
        if self._refuses:
            raise errors.bad_request(self._refuses)
        return True

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self.mutate(attributes, obj, old)


class Choosy(Plugin):
    def concerns(self, attributes: Attributes) -> bool:
        return False


async def test_what_is_counted() -> None:
    clock, counted = FakeClock(100.0), Counted()
    observer: Any = counted
    fine, bad = Plugin(clock), Plugin(clock, "no")
    chain = Chain(
        [ObservedMutating("one", fine, observer, clock), ObservedMutating("two", Choosy(clock), observer, clock)],
        [ObservedValidating("three", bad, observer, clock)],
        steps(observer, clock),
    )
    bound = chain.bind(ATTRIBUTES)
    assert await bound.mutate({"metadata": {}}, None)
    with pytest.raises(StatusError):
        await bound.validate({"metadata": {}}, None)
    assert counted.seen == [
        ("one", "admit", CREATE, 2.0, False),
        ("admit", CREATE, 2.0, False),
        ("three", "validate", CREATE, 2.0, True),
        ("validate", CREATE, 2.0, True),
    ]


def test_a_plugin_that_is_always_asked_stays_one() -> None:
    clock, observer = FakeClock(0.0), Counted()
    told: Any = observer
    assert not isinstance(ObservedMutating("one", Plugin(clock), told, clock), Selective)
    assert isinstance(ObservedMutating("one", Choosy(clock), told, clock), Selective)
