"""The guard's configuration, how it is written, and how each kube-apiserver is asked whether it applies it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.adoption.switch.guard import (
    CONFIGURATIONS,
    PATH,
    SELF_REVIEWS,
    Guard,
    GuardError,
    configuration,
    guard_name,
    own_name,
)
from aggserver.apiextensions.registration import Service
from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.json_types import JSONObject
from tests.fakes.cluster import FakeCluster, status

SERVICE = Service("aggserver-system", "aggserver", 8443)
NAME = "aggserver-guard.aggserver-system.aggserver"
CONFIGMAPS = "/api/v1/namespaces/aggserver-system/configmaps"
ME = "system:serviceaccount:aggserver-system:aggserver"
CRONTABS = ("stable.example.com", "crontabs")
WIDGETS = ("example.org", "widgets")


def wanted(*resources: tuple[str, str], exempt: str = ME) -> JSONObject:
    return configuration(resources, "abc", SERVICE, b"PEM", exempt)


# --- the configuration ---


def test_the_configuration_is_named_after_the_service() -> None:
    assert guard_name(SERVICE) == NAME
    assert guard_name(Service("a-b", "c")) != guard_name(Service("a", "b-c"))


def test_writes_are_refused_when_nobody_answers_and_probes_are_not() -> None:
    writes, probe = wanted(CRONTABS)["webhooks"]
    assert (writes["failurePolicy"], probe["failurePolicy"]) == ("Fail", "Ignore")


def test_rules_cover_all_versions_subresources_and_operations() -> None:
    assert wanted(CRONTABS, WIDGETS, ("example.org", "gadgets"), CRONTABS)["webhooks"][0]["rules"] == [
        {
            "apiGroups": ["example.org"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["gadgets", "gadgets/*", "widgets", "widgets/*"],
            "scope": "*",
        },
        {
            "apiGroups": ["stable.example.com"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["crontabs", "crontabs/*"],
            "scope": "*",
        },
    ]


def test_both_webhooks_lead_to_the_service() -> None:
    for webhook in wanted(CRONTABS)["webhooks"]:
        assert webhook["clientConfig"] == {
            "service": {"namespace": "aggserver-system", "name": "aggserver", "port": 8443, "path": PATH},
            "caBundle": base64.b64encode(b"PEM").decode(),
        }


def test_the_probe_concerns_one_namespace_and_label() -> None:
    probe = wanted(CRONTABS)["webhooks"][1]
    assert probe["name"] == "abc.probe.guard.aggserver.io"
    assert probe["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "aggserver-system"}}
    assert probe["objectSelector"] == {"matchLabels": {"aggserver.io/guard-probe": "aggserver"}}


@pytest.mark.parametrize(
    ("user", "literal"),
    [(ME, f'"{ME}"'), ('a"b\\c', '"a\\"b\\\\c"'), ("Zoë 𝄞", '"Zoë 𝄞"')],
    ids=["service account", "quotes", "beyond the BMP"],
)
def test_the_exempt_user_is_a_literal_of_cel(user: str, literal: str) -> None:
    condition = wanted(CRONTABS, exempt=user)["webhooks"][0]["matchConditions"]
    assert condition == [{"name": "not-aggserver", "expression": f"request.userInfo.username != {literal}"}]


# --- writing it ---


class Host(FakeCluster):
    """A host that knows the caller as `user`."""

    def __init__(self) -> None:
        super().__init__()
        self.user = ME
        self.on("POST", SELF_REVIEWS, lambda _: {"status": {"userInfo": {"username": self.user}}})

    @property
    def guard(self) -> JSONObject | None:
        return self.objects.get(CONFIGURATIONS, {}).get(NAME)

    @property
    def generation(self) -> str:
        assert self.guard is not None
        return str(self.guard["webhooks"][1]["name"].partition(".")[0])

    @property
    def guarded(self) -> list[str]:
        assert self.guard is not None
        return [name for rule in self.guard["webhooks"][0]["rules"] for name in rule["resources"]]

    @property
    def writes(self) -> list[str]:
        return [method for method, path in self.calls if method in ("POST", "PUT", "DELETE") and path != SELF_REVIEWS]


def numbers() -> Callable[[], str]:
    count = iter(range(1, 100))
    return lambda: f"g{next(count)}"


def guard_of(host: FakeCluster, **more: Any) -> Guard:
    return Guard(host, SERVICE, lambda: b"PEM", new_generation=numbers(), **more)


async def test_own_name() -> None:
    assert await own_name(Host()) == ME


async def test_the_guard_is_created_updated_and_deleted() -> None:
    host = Host()
    guard = guard_of(host)
    await guard.set([CRONTABS])
    assert (host.guarded, host.generation) == (["crontabs", "crontabs/*"], "g1")
    await guard.set([CRONTABS, WIDGETS])
    assert (host.guarded, host.generation) == (["widgets", "widgets/*", "crontabs", "crontabs/*"], "g2")
    await guard.set([])
    assert host.guard is None
    await guard.set([])
    assert host.writes == ["POST", "PUT", "DELETE"]


async def test_what_is_as_wanted_stays_after_a_restart() -> None:
    host = Host()
    await guard_of(host).set([CRONTABS])
    await guard_of(host).set([CRONTABS])
    assert host.writes == ["POST"]


@pytest.mark.parametrize(
    "change",
    [
        lambda guard: guard["webhooks"][0].update(failurePolicy="Ignore"),
        lambda guard: guard["webhooks"].pop(1),
        lambda guard: guard["metadata"]["labels"].pop("aggserver.io/guard"),
        lambda guard: guard.pop("webhooks"),
    ],
    ids=["policy", "no probe", "no label", "no webhooks"],
)
async def test_changes_by_others_are_undone(change: Callable[[JSONObject], object]) -> None:
    host = Host()
    await guard_of(host).set([CRONTABS])
    assert host.guard is not None
    as_written = host.guard["webhooks"]
    changed = {**host.guard, "metadata": {**host.guard["metadata"], "labels": {**host.guard["metadata"]["labels"], "team": "a"}}}
    changed["webhooks"] = [dict(webhook) for webhook in as_written]
    change(changed)
    await host.put(CONFIGURATIONS, changed)
    await guard_of(host).set([CRONTABS])
    assert host.guard["webhooks"] == as_written
    assert host.guard["metadata"]["labels"] == {
        "team": "a",
        "app.kubernetes.io/managed-by": "aggserver",
        "aggserver.io/guard": "true",
    }


async def test_another_account_is_written_down() -> None:
    host = Host()
    await guard_of(host).set([CRONTABS])
    host.user = "system:serviceaccount:other:aggserver"
    await guard_of(host).set([CRONTABS])
    assert host.guard is not None
    assert "system:serviceaccount:other:aggserver" in str(host.guard["webhooks"][0]["matchConditions"])


PATH_OF_GUARD = f"{CONFIGURATIONS}/{NAME}"


async def test_conflicts_are_tried_again() -> None:
    host = Host()
    guard = guard_of(host)
    host.fail("POST", CONFIGURATIONS, status(409, "AlreadyExists"))
    await guard.set([CRONTABS])
    host.fail("PUT", PATH_OF_GUARD, status(409, "Conflict"))
    host.fail("PUT", PATH_OF_GUARD, status(404, "NotFound"))
    await guard.set([WIDGETS])
    assert host.guarded == ["widgets", "widgets/*"]
    host.fail("DELETE", PATH_OF_GUARD, status(409, "Conflict"), times=4)
    await guard.set([])
    assert host.guard is None


@pytest.mark.parametrize(
    ("error", "times"),
    [(status(409, "Conflict"), 5), (status(403, "Forbidden"), 1), (Unreachable("down"), 1)],
    ids=["endless conflict", "forbidden", "unreachable"],
)
async def test_other_failures_are_raised(error: ClusterError | Unreachable, times: int) -> None:
    host = Host()
    host.fail("POST", CONFIGURATIONS, error, times)
    with pytest.raises(type(error)):
        await guard_of(host).set([CRONTABS])
    assert host.guard is None


async def test_two_at_once_do_not_meet() -> None:
    host = Host()
    guard = guard_of(host)
    await asyncio.gather(guard.set([CRONTABS]), guard.set([WIDGETS]), guard.set([CRONTABS, WIDGETS]))
    assert host.writes == ["POST", "PUT", "PUT"]
    assert host.generation == "g3"


# --- each kube-apiserver ---


class Time:
    """A clock that only sleeping moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def clock(self) -> float:
        return self.now


class Replica(FakeCluster):
    """answers: to the probes, in order; the last is repeated. None: it is let pass."""

    def __init__(self, server: str, *answers: ClusterError | Unreachable | None) -> None:
        super().__init__()
        self._server = server
        self.answers = list(answers)
        self.on("POST", CONFIGMAPS, self._probed)

    @property
    def server(self) -> str:
        return self._server

    @property
    def probes(self) -> int:
        return len(self.calls)

    def _probed(self, body: JSONObject) -> JSONObject:
        assert body["metadata"]["labels"] == {"aggserver.io/guard-probe": "aggserver"}
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return body


def refusal(generation: str) -> ClusterError:
    text = f'admission webhook "{generation}.probe.guard.aggserver.io" denied the request: moving'
    return status(503, "ServiceUnavailable", text, retry_after=1)


FORBIDDEN = status(403, "Forbidden", "configmaps is forbidden")


async def see(*replicas: Replica, resources: tuple[tuple[str, str], ...] = (CRONTABS,)) -> Time:
    time = Time()
    guard = guard_of(Host(), clock=time.clock, sleep=time.sleep)
    await guard.set(resources)
    await guard.seen(replicas)
    return time


async def test_each_is_asked_until_it_refuses_for_this_generation() -> None:
    fast = Replica("https://a", refusal("g1"))
    slow = Replica("https://b", None, refusal("g0"), Unreachable("down"), FORBIDDEN, refusal("g1"))
    await see(fast, slow)
    assert (fast.probes, slow.probes) == (1, 5)


async def test_each_is_asked_until_the_guard_is_gone() -> None:
    replica = Replica("https://a", refusal("g1"), Unreachable("down"), FORBIDDEN, None)
    await see(replica, resources=())
    assert replica.probes == 4


@pytest.mark.parametrize(
    ("answer", "resources", "text"),
    [
        (None, [CRONTABS], "its probe was let pass"),
        (refusal("g0"), [CRONTABS], "it still applies an earlier guard"),
        (Unreachable("no answer within 5 s"), [CRONTABS], "no answer within 5 s"),
        (FORBIDDEN, [CRONTABS], "it refuses the probe for another reason: 403 Forbidden: configmaps is forbidden"),
        (refusal("g1"), [], "it still applies an earlier guard"),
        (FORBIDDEN, [], "it refuses the probe for another reason"),
    ],
    ids=["passes", "earlier", "unreachable", "forbidden", "stays", "gone but forbidden"],
)
async def test_who_is_late_is_named(answer: Any, resources: list[tuple[str, str]], text: str) -> None:
    good = Replica("https://good", refusal("g1") if resources else None)
    with pytest.raises(GuardError, match="within 15 s") as raised:
        await see(good, Replica("https://late", answer), resources=tuple(resources))
    assert f"https://late: {text}" in str(raised.value)
    assert "https://good" not in str(raised.value)
