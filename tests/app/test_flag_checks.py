"""Flags whose values can't work, as the cluster shows: what is said, in the log once and as a warning of `/readyz`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.apiextensions.registration import Service
from aggserver.app import flag_checks
from aggserver.app.flag_checks import IDENTITY, FlagChecks
from aggserver.cluster import Unreachable
from aggserver.cluster.replicas import Replicas
from tests.fakes.cluster import FakeCluster, status

SERVICES = "/api/v1/namespaces/ns/services"
NONE = (
    "--service-name, --service-namespace: the cluster has no Service ns/aggserver, so no request reaches this server through it"
)


class Named(FakeCluster):
    """A kube-apiserver of a cluster. uid: of its namespace kube-system."""

    def __init__(self, url: str, uid: str = "one") -> None:
        super().__init__()
        self.url = url
        self.on("GET", IDENTITY, lambda body: {"metadata": {"name": "kube-system", "uid": uid}})

    @property
    def server(self) -> str:
        return self.url


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "aggserver", "namespace": "ns"}, "spec": {"ports": [{"port": 443}], **spec}}


@asynccontextmanager
async def checking(monkeypatch: pytest.MonkeyPatch, *servers: Named) -> AsyncIterator[tuple[Named, FlagChecks]]:
    """With these kube-apiservers by their URLs."""
    by_url = {each.url: each for each in servers}

    async def connect(url: str) -> Named:
        return by_url[url]

    monkeypatch.setattr(flag_checks, "connect_each", lambda cluster, kubeconfig, urls, agent: Replicas(cluster, connect, urls))
    cluster = Named("https://main")
    await cluster.put(SERVICES, service())
    yield cluster, FlagChecks(cluster, Service("ns", "aggserver"), "", list(by_url), "test")


async def test_all_is_well(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with checking(monkeypatch, Named("https://a"), Named("https://b")) as (_, flags):
        await flags.look()
    assert (flags.warning(), caplog.records) == (None, [])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, NONE),
        (service(ports=[{"port": 80}, {"port": 8443}]), "--service-port: the Service ns/aggserver has no port 443, but 80, 8443"),
        (service(ports=None), "--service-port: the Service ns/aggserver has no port 443, but none"),
        (service(ports=None, type="ExternalName"), None),
    ],
    ids=["none", "other ports", "no ports", "an external name"],
)
async def test_the_service(monkeypatch: pytest.MonkeyPatch, found: dict[str, Any] | None, said: str | None) -> None:
    async with checking(monkeypatch) as (cluster, flags):
        await cluster.remove(SERVICES, "aggserver")
        if found is not None:
            await cluster.put(SERVICES, found)
        await flags.look()
    assert flags.warning() == said


async def test_kube_apiservers(monkeypatch: pytest.MonkeyPatch) -> None:
    away, strange, other = Named("https://away"), Named("https://strange"), Named("https://other", "two")
    away.fail("GET", IDENTITY, Unreachable("https://away: connection refused", why="connection refused"))
    strange.fail("GET", IDENTITY, status(401, "Unauthorized"))
    async with checking(monkeypatch, away, strange, other, Named("https://a")) as (_, flags):
        await flags.look()
    assert str(flags.warning()).split("; no definition moves meanwhile") == [
        "--kube-apiservers: https://away does not answer: connection refused",
        "; --kube-apiservers: https://strange does not know this server: 401 Unauthorized: Unauthorized",
        "; --kube-apiservers: https://other is a kube-apiserver of another cluster",
        "",
    ]


async def test_the_log_says_it_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, flag_checks.__name__)
    async with checking(monkeypatch) as (cluster, flags):
        await cluster.remove(SERVICES, "aggserver")
        await flags.look()
        await flags.look()
        # What was known is kept while nothing can be known.
        cluster.fail("GET", f"{SERVICES}/aggserver", Unreachable("away"))
        await flags.look()
        assert flags.warning() == NONE
        await cluster.put(SERVICES, service())
        await flags.look()
    assert [each.getMessage() for each in caplog.records] == [NONE, "all flags can work now"]


async def test_it_looks_soon_again_while_something_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done(Exception):
        pass

    slept: list[float] = []
    async with checking(monkeypatch) as (cluster, flags):
        await cluster.remove(SERVICES, "aggserver")

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 2:
                raise Done
            await cluster.put(SERVICES, service())

        with pytest.raises(Done):
            await flags.run(sleep)
    assert slept == [10.0, 120.0]
