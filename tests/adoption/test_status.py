"""Status: the ConfigMap's entries and their bound, the Events of steps, and the writer over a fake of the host."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aggserver.adoption.records.record import Copied, Moving, Phase, Record
from aggserver.adoption.status import CONFIG_MAP, EVENTS, LEFT_OUT, LOOK_SECONDS, Notice, Status, entry, event, fitted, notice
from aggserver.cluster import Unreachable
from aggserver.meta.json_types import JSONObject
from aggserver.monitoring.adoption import AdoptionMetrics
from tests.fakes.clock import settled, until
from tests.fakes.cluster import FakeCluster
from tests.fakes.cluster import status as refusal
from tests.waiting import HANG_SECONDS

NAME = "crontabs.stable.example.com"
T1, T2 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"
MAPS = "/api/v1/namespaces/ns/configmaps"
T3, T4 = "2026-01-01T00:00:07Z", "2026-01-01T00:00:08Z"
COPYING = Record(NAME, {NAME: "u1"}, [("stable.example.com", "v1")], Phase.COPYING, False, T1)
ADOPTED = replace(COPYING.at(Phase.ADOPTED, T2), copied={NAME: Copied(10, 3, "d", 4, 300)})


def test_progress_is_shown() -> None:
    shown = entry(COPYING, NAME, Moving(5, 100, 7, 2.4), (), None, {}, T1)
    assert shown["progress"] == {"objects": 5, "bytes": 100, "remaining": 7, "secondsLeft": 2}
    assert [(each["type"], each["status"]) for each in shown["conditions"]] == [
        ("Adopted", "False"),
        ("Progressing", "True"),
        ("Degraded", "False"),
    ]


def test_times_of_changes_are_kept() -> None:
    before = entry(COPYING, NAME, None, (), None, {}, T1)
    shown = entry(ADOPTED, NAME, None, ["lost"], None, before, T3)
    assert shown["copied"] == {"objects": 3, "bytes": 300}
    assert shown["adoptedSince"] == T2
    assert [each["lastTransitionTime"] for each in shown["conditions"]] == [T2, T2, T3]
    later = entry(ADOPTED.at(Phase.GIVING_BACK, "2026-01-01T00:00:03Z"), NAME, None, ["lost"], None, shown, T4)
    assert later["adoptedSince"] == T2
    assert [each["lastTransitionTime"] for each in later["conditions"]] == [T2, "2026-01-01T00:00:03Z", T3]


def test_a_problem_begins_and_ends_within_a_phase() -> None:
    """The phase has its own time, which says nothing about the problem."""
    times = []
    shown: JSONObject = {}
    for problems, now in (((), T2), (("lost",), T3), (("lost", "more"), T4), ((), T4)):
        shown = entry(ADOPTED, NAME, None, problems, None, shown, now)
        times.append([each["lastTransitionTime"] for each in shown["conditions"]])
    assert times == [[T2, T2, T2], [T2, T2, T3], [T2, T2, T3], [T2, T2, T4]]


NOTICES = {
    "begins": (None, COPYING, "AdoptionCopying"),
    "same": (COPYING, COPYING, None),
    "adopted": (COPYING, ADOPTED, "Adopted"),
    "waits": (None, COPYING.at(Phase.WAITING, T1, "why"), "AdoptionWaiting"),
    "waits for its turn": (None, COPYING.at(Phase.WAITING, T1), None),
    "another reason": (COPYING.at(Phase.WAITING, T1, "a"), COPYING.at(Phase.WAITING, T1, "b"), "AdoptionWaiting"),
    "released": (COPYING.at(Phase.SWITCHING_BACK, T1), None, "Released"),
    "released, as the mover says it": (COPYING.at(Phase.SWITCHING_BACK, T1), COPYING.at(Phase.WAITING, T2), "Released"),
    "went back": (COPYING.at(Phase.SWITCHING_BACK, T1), COPYING.at(Phase.WAITING, T2, "why"), "AdoptionWaiting"),
    "not wanted any more": (COPYING.at(Phase.WAITING, T1), None, None),
}


@pytest.mark.parametrize(("before", "after", "reason"), NOTICES.values(), ids=NOTICES)
def test_notice(before: Record | None, after: Record | None, reason: str | None) -> None:
    found = notice(before, after)
    assert (found.reason if found else None) == reason


def _many(count: int, phase: Phase = Phase.ADOPTED) -> dict[str, dict[str, Any]]:
    record = replace(ADOPTED, phase=phase, reason="r" * 400)
    return {
        f"things{number}.{number}.example.com": entry(record, NAME, None, ["p" * 400], None, {}, T1) for number in range(count)
    }


def test_few_are_whole() -> None:
    data = fitted(_many(100))
    assert len(data) == 100
    assert all("conditions" in json.loads(text) for text in data.values())


def test_a_thousand_fit_all() -> None:
    data = fitted(_many(1000))
    assert len(data) == 1000
    assert sum(len(key) + len(text.encode()) for key, text in data.items()) <= 900 * 1024


def test_what_moves_is_left_out_last() -> None:
    moving = entry(COPYING, NAME, None, (), None, {}, T1)
    data = fitted({**_many(10_000), NAME: moving})
    assert sum(len(key) + len(text.encode()) for key, text in data.items()) <= 900 * 1024
    assert NAME in data
    assert int(data[LEFT_OUT]) == 10_001 - (len(data) - 1)


def test_event_is_of_the_definition() -> None:
    made = event(NAME, "u1", Notice("Adopted", "m"), T1)
    assert made["metadata"]["namespace"] == "default"
    assert made["involvedObject"]["name"] == NAME
    assert made["type"] == "Normal"
    assert made["metadata"]["name"] != event(NAME, "u1", Notice("Adopted", "n"), T1)["metadata"]["name"]


class Host(FakeCluster):
    """Stops the writer after so many pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []
        self.enough = asyncio.Event()
        self.gone_on = asyncio.Event()
        self.looks = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds == LOOK_SECONDS:
            await self.looks.wait()
            self.looks.clear()
            return
        self.slept.append(seconds)
        self.enough.set()
        await self.gone_on.wait()
        self.gone_on.clear()

    async def once(self) -> None:
        """Let the writer come to its next pause."""
        await asyncio.wait_for(self.enough.wait(), HANG_SECONDS)
        self.enough.clear()

    def events(self) -> list[tuple[str, int]]:
        return [(each["reason"], each["count"]) for each in self.objects.get(EVENTS, {}).values()]

    def shown(self) -> dict[str, Any]:
        return {name: json.loads(text) for name, text in self.objects[MAPS][CONFIG_MAP]["data"].items()}


def _status(host: Host) -> tuple[Status, CollectorRegistry]:
    registry = CollectorRegistry()
    return Status(host, "ns", AdoptionMetrics(registry), now=lambda: 0.0, clock=lambda: 0.0, sleep=host.sleep), registry


async def test_steps_are_written() -> None:
    host = Host()
    status, registry = _status(host)
    status.observe(COPYING, Moving(1, 2, 3, None))
    task = asyncio.create_task(status.run())
    await host.once()
    assert host.shown()[NAME]["phase"] == "Copying"
    assert registry.get_sample_value("aggserver_adoption_definitions", {"phase": "Copying"}) == 1
    status.observe(ADOPTED)
    status.report(NAME, "a write came late", "AdoptionLateWrite")
    host.gone_on.set()
    await host.once()
    assert host.shown()[NAME]["told"]["message"] == "a write came late"
    status.observe(ADOPTED.at(Phase.SWITCHING_BACK, T2))
    status.observe(ADOPTED.at(Phase.WAITING, T2))
    host.gone_on.set()
    await host.once()
    assert host.shown() == {}
    assert host.events() == [
        ("AdoptionCopying", 1),
        ("Adopted", 1),
        ("AdoptionLateWrite", 1),
        ("ReleaseSwitchingBack", 1),
        ("Released", 1),
    ]
    assert host.slept == [1.0, 1.0, 1.0]
    task.cancel()


async def test_a_repetition_is_counted() -> None:
    host = Host()
    status, _ = _status(host)
    status.observe(COPYING)
    task = asyncio.create_task(status.run())
    await host.once()
    for _ in range(2):
        status.report(NAME, "again", "AdoptionLateWrite")
        host.gone_on.set()
        await host.once()
    assert host.events() == [("AdoptionCopying", 1), ("AdoptionLateWrite", 2)]
    task.cancel()


async def test_events_of_a_definition_are_limited() -> None:
    host = Host()
    status, _ = _status(host)
    status.observe(COPYING)
    for number in range(100):
        status.report(NAME, f"number {number}")
    task = asyncio.create_task(status.run())
    await host.once()
    assert len(host.events()) == 25
    task.cancel()


async def test_goes_on_after_a_failure() -> None:
    host = Host()
    host.fail("GET", f"{MAPS}/{CONFIG_MAP}", Unreachable("away"))
    status, _ = _status(host)
    status.observe(COPYING)
    task = asyncio.create_task(status.run())
    await host.once()
    assert MAPS not in host.objects or CONFIG_MAP not in host.objects[MAPS]
    host.gone_on.set()
    await host.once()
    assert host.shown()[NAME]["phase"] == "Copying"
    task.cancel()


async def test_a_restart_keeps_what_stays_as_it_is() -> None:
    host = Host()
    for restored in (COPYING, ADOPTED, ADOPTED):
        status, registry = _status(host)
        status.restore([restored])
        task = asyncio.create_task(status.run())
        await host.once()
        task.cancel()
        assert host.shown()[NAME]["phase"] == restored.phase.value
        assert registry.get_sample_value("aggserver_adoption_definitions", {"phase": restored.phase.value}) == 1
    # The last one was shown already.
    assert host.events() == [("AdoptionCopying", 1), ("Adopted", 1)]


async def test_what_is_waited_for_no_longer_is_not_shown() -> None:
    host = Host()
    status, _ = _status(host)
    status.observe(COPYING.at(Phase.WAITING, T1, "why"))
    status.wanted({NAME})
    task = asyncio.create_task(status.run())
    await host.once()
    assert host.shown()[NAME]["reason"] == "why"
    status.wanted(set())
    host.gone_on.set()
    await host.once()
    assert host.shown() == {}
    task.cancel()


async def test_a_refused_config_map_is_told_once_and_keeps_no_event_back(caplog: pytest.LogCaptureFixture) -> None:
    host = Host()
    status, _ = _status(host)
    status.observe(COPYING)
    for _ in range(3):
        host.fail("POST", MAPS, refusal(403, "Forbidden", "a policy denied the request"))
    task = asyncio.create_task(status.run())
    for _ in range(3):
        await host.once()
        host.gone_on.set()
    await host.once()
    assert host.shown()[NAME]["phase"] == "Copying"
    assert host.events() == [("AdoptionCopying", 1)]
    assert host.slept[0] < host.slept[1] < host.slept[2], "less and less often"
    assert caplog.text.count("a policy denied the request") == 1
    task.cancel()


@pytest.mark.parametrize("how", ["deleted", "changed"])
async def test_what_somebody_else_does_to_the_config_map_is_put_right(how: str) -> None:
    host = Host()
    status, _ = _status(host)
    status.observe(COPYING)
    task = asyncio.create_task(status.run())
    await host.once()
    written = dict(host.objects[MAPS][CONFIG_MAP]["data"])
    if how == "deleted":
        await host.request("DELETE", f"{MAPS}/{CONFIG_MAP}")
    else:
        await host.put(MAPS, {"metadata": {"name": CONFIG_MAP, "namespace": "ns"}, "data": {"other": "{}"}})
    host.gone_on.set()
    host.looks.set()
    await host.once()
    assert host.objects[MAPS][CONFIG_MAP]["data"] == written
    # Nothing is written while it is as it was.
    calls = len(host.calls)
    host.gone_on.set()
    host.looks.set()
    await until(lambda: len(host.calls) > calls)
    await settled()
    assert host.calls[calls:] == [("GET", f"{MAPS}/{CONFIG_MAP}")]
    task.cancel()
