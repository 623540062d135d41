from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.adoption.switch.api_services import OurService, to_us
from aggserver.adoption.switch.switching import (
    DEFINITIONS,
    PASSING_CATEGORY,
    Switcher,
    SwitchError,
    end_watches,
    proxied,
)
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.cluster import ClusterError, Unreachable
from aggserver.endpoints.discovery import ADOPTED_HEADER
from tests.adoption.switch.test_api_services import ELSEWHERE, local
from tests.fakes.clock import FakeClock, settled, until
from tests.fakes.cluster import FakeCluster, status

SERVICE = Service("agg", "aggserver", 8443)
PAIR = ("a.io", "v1")
NAME = "v1.a.io"
OTHER_PAIR = ("a.io", "v2")


class Host:
    """A fake host with a local APIService of each group-version, and the switcher."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.clock = FakeClock()
        self.problems: list[tuple[str, str]] = []
        self.led_away: list[tuple[str, str]] = []
        self.switcher = Switcher(
            self.cluster,
            SERVICE,
            "one",
            lambda name, problem: self.problems.append((name, problem)),
            self.led_away.append,
            clock=self.clock,
            sleep=self.clock.sleep,
            random=lambda: 0.0,
        )
        self.switcher.trust(b"ca")

    @classmethod
    async def made(cls, *pairs: tuple[str, str]) -> Host:
        host = cls()
        for pair in pairs or (PAIR,):
            await host.put(pair, local())
        return host

    async def put(self, pair: tuple[str, str], found: dict[str, Any]) -> None:
        group, version = pair
        meta = {**found["metadata"], "name": f"{version}.{group}"}
        await self.cluster.put(API_SERVICES, {**found, "metadata": meta, "spec": {**found["spec"], "version": version}})

    def found(self, name: str = NAME) -> dict[str, Any]:
        return self.cluster.objects[API_SERVICES][name]

    def service(self, name: str = NAME) -> Any:
        return self.found(name)["spec"].get("service")

    def writes(self) -> list[str]:
        return [method for method, _ in self.cluster.calls if method != "GET"]

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.switcher.run())
        try:
            await until(lambda: self.cluster.watches)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


OURS = {"namespace": "agg", "name": "aggserver", "port": 8443}


async def test_there_and_back() -> None:
    host = await Host.made(PAIR, OTHER_PAIR)
    for _ in range(2):
        await host.switcher.to_us([PAIR, OTHER_PAIR])
    assert host.service() == host.service("v2.a.io") == OURS
    assert host.writes() == ["PUT", "PUT"]
    going = asyncio.create_task(host.switcher.to_host([PAIR, OTHER_PAIR]))
    await until(lambda: host.clock.slept)
    assert host.cluster.objects[API_SERVICES] == {}
    # As kube-apiserver does.
    for pair in (PAIR, OTHER_PAIR):
        await host.put(pair, local())
    await going
    await host.switcher.to_host([PAIR, OTHER_PAIR])
    assert host.writes() == ["PUT", "PUT", "DELETE", "DELETE"]
    assert host.problems == []


async def test_kube_apiserver_is_not_waited_for_without_end(caplog: pytest.LogCaptureFixture) -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    await host.switcher.to_host([PAIR])
    assert 3.0 < sum(host.clock.slept) < 6.0
    assert "APIService v1.a.io is deleted, and kube-apiserver has not made its own yet" in caplog.text


async def test_one_that_is_not_there_is_created() -> None:
    host = Host()
    await host.switcher.to_us([PAIR])
    assert host.service() == OURS
    assert host.writes() == ["POST"]


async def test_nothing_is_changed_if_one_is_somebody_elses() -> None:
    host = await Host.made(PAIR, OTHER_PAIR)
    await host.put(OTHER_PAIR, local({}, service=ELSEWHERE))
    with pytest.raises(SwitchError, match=r"^APIService v2\.a\.io is left alone: it is served by the Service other/aggserver$"):
        await host.switcher.to_us([PAIR, OTHER_PAIR])
    await host.switcher.to_host([PAIR, OTHER_PAIR])
    await host.switcher.remove([PAIR, OTHER_PAIR])
    assert host.writes() == []


async def test_nothing_is_changed_without_a_certificate() -> None:
    host = await Host.made()
    host.switcher.trust(b"")
    with pytest.raises(SwitchError, match="no serving certificate"):
        await host.switcher.to_us([PAIR])
    assert host.writes() == []


async def test_a_refusal_is_known_before_anything_is_changed() -> None:
    host = await Host.made(PAIR)
    refusal = status(403, "Forbidden", 'apiservices "v1.a.io" is forbidden: ValidatingAdmissionPolicy denied the request')
    host.cluster.fail("PUT", f"{API_SERVICES}/{NAME}", refusal)
    with pytest.raises(SwitchError, match=r"denied the request$"):
        await host.switcher.try_to_us([PAIR])
    before = host.found()
    await host.switcher.try_to_us([PAIR])
    assert host.found() == before


async def test_removed() -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    uid, version = (host.found()["metadata"][name] for name in ("uid", "resourceVersion"))
    for _ in range(2):
        await host.switcher.remove([PAIR])
    assert host.cluster.objects[API_SERVICES] == {}
    deleted = host.cluster.bodies[host.cluster.calls.index(("DELETE", f"{API_SERVICES}/{NAME}"))]
    assert deleted["preconditions"] == {"uid": uid, "resourceVersion": version}
    assert host.writes() == ["PUT", "DELETE"]


CONFLICT = status(409, "Conflict")


@pytest.mark.parametrize(
    ("error", "times", "slept"),
    [
        pytest.param(CONFLICT, 5, 0, id="conflicts: read again at once"),
        pytest.param(status(404, "NotFound"), 1, 0, id="deleted in between"),
        pytest.param(status(500, "InternalError"), 2, 2, id="kube-apiserver's errors"),
        pytest.param(Unreachable("gone"), 2, 2, id="no connection"),
    ],
)
async def test_tried_again(error: ClusterError | Unreachable, times: int, slept: int) -> None:
    host = await Host.made()
    host.cluster.fail("PUT", f"{API_SERVICES}/{NAME}", error, times)
    await host.switcher.to_us([PAIR])
    assert host.service() == OURS
    assert len(host.clock.slept) == slept


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        pytest.param(CONFLICT, 6, id="always a conflict"),
        pytest.param(status(503, "ServiceUnavailable"), 6, id="always an error"),
        pytest.param(status(403, "Forbidden"), 1, id="not allowed"),
        pytest.param(status(422, "Invalid"), 1, id="invalid"),
    ],
)
async def test_tried_not_for_ever(error: ClusterError, attempts: int) -> None:
    host = await Host.made()
    host.cluster.fail("PUT", f"{API_SERVICES}/{NAME}", error, 20)
    with pytest.raises(SwitchError, match=r"^APIService v1\.a\.io can't be changed: ") as caught:
        await host.switcher.to_us([PAIR])
    assert host.writes() == ["PUT"] * attempts
    assert ("grant " in str(caught.value)) == (error.code == 403)


async def test_a_new_ca_is_told_to_the_aggregator() -> None:
    host = await Host.made(PAIR, OTHER_PAIR)
    await host.switcher.to_us([PAIR])
    async with host.keeping():
        host.switcher.trust(b"new")
        await until(lambda: host.found()["spec"]["caBundle"] == base64.b64encode(b"new").decode())
    assert host.service("v2.a.io") is None
    assert host.problems == []


async def test_one_that_was_deleted_is_taken_again() -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    async with host.keeping():
        await host.cluster.remove(API_SERVICES, NAME)
        await until(lambda: NAME in host.cluster.objects[API_SERVICES])
        assert host.service() == OURS
        # As kube-apiserver makes it after somebody has deleted ours.
        await host.put(PAIR, local())
        await until(lambda: host.service() == OURS)
    assert host.problems == []


async def test_one_that_was_given_back_is_not_taken_again() -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    async with host.keeping():
        going = asyncio.create_task(host.switcher.to_host([PAIR]))
        await until(lambda: not host.cluster.objects[API_SERVICES])
        await host.put(PAIR, local())
        await going
        host.switcher.trust(b"new")
        await settled()
    assert host.service() is None


async def test_somebody_elses_decision_is_told_and_not_fought() -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    ours = host.found()
    async with host.keeping():
        for _ in range(2):
            await host.put(PAIR, {**ours, "spec": {**ours["spec"], "service": ELSEWHERE}})
            await settled()
        assert host.service() == ELSEWHERE
        assert host.problems == [(NAME, "APIService v1.a.io is left alone: it is served by the Service other/aggserver")]
        await host.put(PAIR, ours)
        await until(lambda: len(host.problems) == 2)
        assert host.problems[1] == (NAME, "")
        assert host.writes() == ["PUT"]


async def test_failures_of_keeping_are_told_and_tried_again() -> None:
    host = await Host.made()
    await host.switcher.to_us([PAIR])
    async with host.keeping():
        host.cluster.fail("PUT", f"{API_SERVICES}/{NAME}", status(403, "Forbidden"))
        host.switcher.trust(b"new")
        await until(lambda: len(host.problems) == 2)
    (name, problem), well = host.problems
    assert name == NAME
    assert "can't be changed: 403 Forbidden" in problem
    assert well == (NAME, "")
    assert host.found()["spec"]["caBundle"] == base64.b64encode(b"new").decode()


# --- what kube-apiservers do ---

DISCOVERY = "/apis/a.io/v1"


def kube_apiserver(*served: str | ClusterError) -> FakeCluster:
    """Answers discovery with the installations in turn ('': itself), and with the last one from then on."""
    cluster = FakeCluster()
    left = list(served)

    def answer(_: Any) -> dict[str, Any]:
        now = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(now, ClusterError):
            raise now
        cluster.headers[DISCOVERY] = {ADOPTED_HEADER: now} if now else {}
        return {"kind": "APIResourceList"}

    cluster.on("GET", DISCOVERY, answer)
    return cluster


UNAVAILABLE = status(503, "", "service unavailable")


@pytest.mark.parametrize("installation", ["one", ""])
async def test_proxied_when_all_do(installation: str) -> None:
    other = "" if installation else "one"
    clusters = [kube_apiserver(other, UNAVAILABLE, installation), kube_apiserver(installation)]
    clock = FakeClock()
    await proxied(clusters, [PAIR], installation, clock=clock, sleep=clock.sleep)
    assert [cluster.calls.count(("GET", DISCOVERY)) for cluster in clusters] == [3, 1]


@pytest.mark.parametrize(
    ("served", "wanted", "said"),
    [
        pytest.param("", "one", "kube-apiserver still answers itself", id="not switched"),
        pytest.param("one", "", "the server of installation 'one' answers", id="not switched back"),
        pytest.param("two", "one", "the server of installation 'two' answers", id="another installation"),
        pytest.param(
            UNAVAILABLE,
            "one",
            "503: service unavailable (its condition Available is False: no such host)",
            id="not available",
        ),
    ],
)
async def test_proxied_says_who_does_not(served: str | ClusterError, wanted: str, said: str) -> None:
    cluster = kube_apiserver(served)
    found = to_us(local(), PAIR, OurService(SERVICE, "one", b"ca"))
    condition = {"type": "Available", "status": "False", "message": "no such host"}
    await cluster.put(API_SERVICES, {**found, "status": {"conditions": [condition]}})
    clock = FakeClock()
    with pytest.raises(SwitchError) as caught:
        await proxied([cluster, kube_apiserver(wanted)], [PAIR], wanted, seconds=5.0, clock=clock, sleep=clock.sleep)
    assert str(caught.value) == f"after 5 s this is not switched everywhere: https://fake.test:6443: APIService v1.a.io: {said}"
    assert 5.0 <= sum(clock.slept) < 6.0


# --- watches at the host ---

DEFINITION = "things.a.io"


async def definition(cluster: FakeCluster, *, controller: bool, categories: list[str] | None = None) -> list[list[str]]:
    """A definition in the cluster. Returns the accepted categories after each update of its status.

    controller: whether the naming controller removes what the spec does not have.
    """
    names = {"plural": "things", "kind": "Thing"} | ({"categories": categories} if categories else {})
    found = {
        "metadata": {"name": DEFINITION},
        "spec": {"names": names},
        "status": {"acceptedNames": names, "storedVersions": ["v1"]},
    }
    await cluster.put(DEFINITIONS, found)
    written: list[list[str]] = []

    def update(body: Any) -> dict[str, Any]:
        current = cluster.objects[DEFINITIONS][DEFINITION]
        if body["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise CONFLICT
        assert {**body, "status": None} == {**current, "status": None}
        assert body["status"]["storedVersions"] == ["v1"]
        written.append(body["status"]["acceptedNames"]["categories"])
        version = str(int(current["metadata"]["resourceVersion"]) + 1)
        status_now = {**body["status"], "acceptedNames": body["spec"]["names"]} if controller else body["status"]
        cluster.objects[DEFINITIONS][DEFINITION] = {
            **body,
            "metadata": {**body["metadata"], "resourceVersion": version},
            "status": status_now,
        }
        return cluster.objects[DEFINITIONS][DEFINITION]

    cluster.on("PUT", f"{DEFINITIONS}/{DEFINITION}/status", update)
    return written


@pytest.mark.parametrize("categories", [None, ["all"]])
async def test_the_naming_controller_removes_the_category(categories: list[str] | None) -> None:
    cluster, clock = FakeCluster(), FakeClock()
    written = await definition(cluster, controller=True, categories=categories)
    await end_watches(cluster, DEFINITION, sleep=clock.sleep)
    assert written == [[*(categories or []), PASSING_CATEGORY]]


async def test_the_category_is_removed_here_if_nobody_else_does() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    written = await definition(cluster, controller=False, categories=["all"])
    await end_watches(cluster, DEFINITION, sleep=clock.sleep)
    assert written == [["all", PASSING_CATEGORY], ["all"]]
    assert sum(clock.slept) < 6.0


async def test_a_category_that_was_left_behind_is_removed() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    written = await definition(cluster, controller=False, categories=[PASSING_CATEGORY])
    await end_watches(cluster, DEFINITION, sleep=clock.sleep)
    assert written == [[]]


async def test_conflicts_and_failures_while_watches_are_ended() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    written = await definition(cluster, controller=True)
    cluster.fail("PUT", f"{DEFINITIONS}/{DEFINITION}/status", CONFLICT, 2)
    cluster.fail("GET", f"{DEFINITIONS}/{DEFINITION}", Unreachable("gone"))
    await end_watches(cluster, DEFINITION, sleep=clock.sleep)
    assert written == [[PASSING_CATEGORY]]
    cluster.fail("PUT", f"{DEFINITIONS}/{DEFINITION}/status", status(403, "Forbidden"))
    with pytest.raises(SwitchError, match=r"the host's watches of things\.a\.io can't be ended: 403 Forbidden.*; grant "):
        await end_watches(cluster, DEFINITION, sleep=clock.sleep)


async def test_no_definition_no_watches() -> None:
    clock = FakeClock()
    await end_watches(FakeCluster(), DEFINITION, sleep=clock.sleep)
