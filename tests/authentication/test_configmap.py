from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aggserver.authentication.configmap import ConfigMapSource, TrustOverrides
from aggserver.authentication.delegating import AuthenticationConfig, ClientCA, TrustError
from aggserver.authentication.requestheader import RequestHeaderConfig
from aggserver.authentication.x509 import Roots
from aggserver.certificates.issuing import new_ca
from aggserver.cluster import Unreachable
from tests.fakes.clock import FakeClock, until
from tests.fakes.cluster import FakeCluster, status

PATH = "/api/v1/namespaces/kube-system/configmaps"
CA = {name: new_ca(name, 1_800_000_000.0).cert_pem for name in ("client", "proxy", "next", "flag")}


def config_map(client: str = "client", proxy: str = "proxy", **data: str) -> dict[str, object]:
    return {
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": CA[client].decode(),
            "requestheader-client-ca-file": CA[proxy].decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            **data,
        },
    }


class Applied(list[AuthenticationConfig]):
    """Every configuration that was applied."""

    @property
    def last(self) -> AuthenticationConfig:
        return self[-1]


@asynccontextmanager
async def running(
    cluster: FakeCluster, overrides: TrustOverrides | None = None
) -> AsyncIterator[tuple[ConfigMapSource, Applied, FakeClock]]:
    applied, clock = Applied(), FakeClock()
    source = ConfigMapSource(
        cluster, applied.append, overrides or TrustOverrides(), clock=clock, sleep=clock.sleep, random=lambda: 0.0
    )
    task = asyncio.create_task(source.run())
    try:
        yield source, applied, clock
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_loads_and_follows() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, applied, _):
        assert (
            source.healthy() == "waiting for ConfigMap kube-system/extension-apiserver-authentication: it has not been read yet"
        )
        await until(lambda: source.healthy() is None)
        first = applied.last
        assert first.client_ca is not None
        assert first.client_ca.pem == CA["client"]
        assert first.request_header is not None
        assert first.request_header.allowed_names == ("front-proxy-client",)
        assert first.request_header.uid_headers == ()
        await cluster.put(PATH, config_map(**{"requestheader-allowed-names": "[]"}))
        await until(lambda: len(applied) == 2)
        second = applied.last
        assert second.request_header is not None
        assert second.request_header.allowed_names == ()
        assert second.request_header.roots is first.request_header.roots, "what was verified against it stays verified"
        assert second.client_ca == first.client_ca
        await cluster.put(PATH, config_map(client="next", **{"requestheader-allowed-names": "[]"}))
        await until(lambda: len(applied) == 3)
        assert applied.last.handshake_bundle().count(b"BEGIN CERTIFICATE") == 2


async def test_an_unrelated_change_replaces_nothing() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (_, applied, _clock):
        await until(lambda: applied)
        again = config_map()
        again["metadata"] = {**again["metadata"], "annotations": {"a": "b"}}  # type: ignore[dict-item]
        await cluster.put(PATH, again)
        await cluster.put(PATH, config_map(proxy="next"))
        await until(lambda: len(applied) == 2)


async def test_waits_with_one_line_and_says_what_to_grant(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    refusal = (
        'configmaps "extension-apiserver-authentication" is forbidden: User "system:serviceaccount:ns:sa" cannot list resource'
    )
    cluster.fail("GET", PATH, status(403, "Forbidden", refusal), times=4)
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, _, clock):
        await until(lambda: clock.slept)
        waiting = source.healthy()
        await until(lambda: source.healthy() is None)
    command = (
        "kubectl create rolebinding -n kube-system aggserver-auth-reader --role=extension-apiserver-authentication-reader "
        "--serviceaccount=ns:sa"
    )
    assert waiting == f"waiting for ConfigMap kube-system/extension-apiserver-authentication: {refusal}; grant it with: {command}"
    assert len(warnings_of(caplog)) == 1
    assert warnings_of(caplog)[0].endswith(command)


@pytest.mark.parametrize(
    ("refusal", "subject"),
    [
        pytest.param('User "jane" cannot list', "--user=jane", id="a user"),
        pytest.param("no", "--serviceaccount=YOUR_NAMESPACE:YOUR_SERVICEACCOUNT", id="unknown"),
    ],
)
async def test_the_grant_names_who_was_refused(refusal: str, subject: str) -> None:
    cluster = FakeCluster()
    cluster.fail("GET", PATH, status(403, "Forbidden", refusal))
    async with running(cluster) as (source, _, clock):
        await until(lambda: clock.slept)
        assert (source.healthy() or "").endswith(f" {subject}")


async def test_the_last_good_one_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, applied, _):
        await until(lambda: applied)
        await cluster.put(PATH, config_map(**{"client-ca-file": "rubbish"}))
        await until(lambda: warnings_of(caplog))
        await cluster.put(PATH, config_map(**{"requestheader-group-headers": "{"}))
        await until(lambda: len(warnings_of(caplog)) == 2)
        await cluster.remove(PATH, "extension-apiserver-authentication")
        await until(lambda: len(warnings_of(caplog)) == 3)
        refused = Unreachable("https://fake.test:6443: connection refused", why="connection refused")
        cluster.fail("WATCH", PATH, refused, times=3)
        await cluster.end_watches()
        await until(lambda: len(warnings_of(caplog)) == 4)
        assert (len(applied), source.healthy()) == (1, None)
        await cluster.put(PATH, config_map(client="next"))
        await until(lambda: len(applied) == 2)
    prefix = "authentication: keeping the last valid ConfigMap kube-system/extension-apiserver-authentication: "
    assert [line.removeprefix(prefix) for line in warnings_of(caplog)] == [
        "its content is invalid: data does not contain any valid RSA or ECDSA certificates",
        "its content is invalid: requestheader-group-headers is not a JSON list of strings: "
        "unexpected end of data: line 1 column 2 (char 1)",
        "it does not exist (kube-apiserver writes it at its start and every minute)",
        "https://fake.test:6443 can't be reached: connection refused; watches keep what was last known, and try again",
    ]


async def test_a_cluster_without_aggregation(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map(**{"requestheader-client-ca-file": ""}))
    async with running(cluster) as (source, applied, _):
        await until(lambda: applied)
        assert applied.last.request_header is None
        assert source.healthy() is source.ready() is None
        said = source.warning()
        assert said is not None
        assert said.startswith("ConfigMap kube-system/extension-apiserver-authentication has no requestheader-client-ca-file")
    assert "requests through the aggregator can't be authenticated" in warnings_of(caplog)[0]


FLAG_CA = ClientCA(CA["flag"], Roots.from_pem(CA["flag"]))
PROXY_CA = Roots.from_pem(CA["proxy"])
FLAG_PROXY = RequestHeaderConfig(PROXY_CA)


async def test_flags_win_over_the_config_map() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster, TrustOverrides(client_ca=FLAG_CA)) as (source, applied, _):
        await until(lambda: source.healthy() is None)
        assert applied.last.client_ca is FLAG_CA
        assert applied.last.request_header_ca == CA["proxy"]
        source.override(TrustOverrides())
        assert applied.last.client_ca is not None
        assert applied.last.client_ca.pem == CA["client"], "at once, from what is known"


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(TrustOverrides(FLAG_CA, FLAG_PROXY, CA["proxy"]), id="flags give both"),
        pytest.param(TrustOverrides(skip_lookup=True), id="skipped"),
    ],
)
async def test_nothing_to_look_up(overrides: TrustOverrides) -> None:
    cluster, applied = FakeCluster(), Applied()
    source = ConfigMapSource(cluster, applied.append, overrides)
    await source.run()
    assert cluster.calls == []
    assert source.healthy() is None
    assert applied == [AuthenticationConfig(overrides.client_ca, overrides.request_header, overrides.request_header_ca)]


async def test_tolerated_failures_serve_with_what_the_flags_gave() -> None:
    cluster = FakeCluster()
    cluster.fail("GET", PATH, Unreachable("down"), times=2)
    await cluster.put(PATH, config_map())
    async with running(cluster, TrustOverrides(tolerate_failure=True)) as (source, applied, clock):
        await until(lambda: clock.slept)
        assert source.healthy() is None
        assert applied == [AuthenticationConfig()]
        await until(lambda: len(applied) == 2)


# --- what would let every client name anybody

OVERLAPPING: dict[str, str] = {"client": "next", "proxy": "next", "requestheader-allowed-names": "[]"}
REFUSAL = (
    "its content is invalid: --requestheader-client-ca-file and --client-ca-file contain overlapping certificates; "
    "--requestheader-allowed-names must be specified to ensure regular client certificates cannot set authenticating proxy "
    "headers for arbitrary users"
)
CONFIG_MAP = "ConfigMap kube-system/extension-apiserver-authentication"


async def test_an_overlap_keeps_the_last_good_one(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, applied, _):
        await until(lambda: applied)
        assert source.warning() is None
        await cluster.put(PATH, config_map(**OVERLAPPING))
        await until(lambda: warnings_of(caplog))
        assert (len(applied), source.healthy()) == (1, None)
        assert source.warning() == f"keeping the last valid {CONFIG_MAP}: {REFUSAL}"
        assert warnings_of(caplog) == [f"authentication: keeping the last valid {CONFIG_MAP}: {REFUSAL}"]
        # Allowed names resolve the overlap; so does the previous ConfigMap.
        await cluster.put(PATH, config_map(**OVERLAPPING | {"requestheader-allowed-names": '["front-proxy-client"]'}))
        await until(lambda: len(applied) == 2)
        assert source.warning() is None
        await cluster.put(PATH, config_map(**OVERLAPPING))
        await until(source.warning)
        await cluster.put(PATH, config_map())
        await until(lambda: len(applied) == 3)
        assert source.warning() is None


async def test_an_overlap_at_the_start_is_waited_out() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map(**OVERLAPPING))
    async with running(cluster) as (source, applied, _):
        await until(lambda: source.healthy() == f"waiting for {CONFIG_MAP}: {REFUSAL}")
        assert (applied, source.warning()) == ([], None)
        await cluster.put(PATH, config_map())
        await until(lambda: source.healthy() is None)


async def test_an_overlap_of_a_flag_with_the_config_map() -> None:
    """Whichever of the two changes, the last valid configuration of both stays in use."""
    cluster = FakeCluster()
    await cluster.put(PATH, config_map(**{"requestheader-allowed-names": "[]"}))
    async with running(cluster, TrustOverrides(client_ca=FLAG_CA)) as (source, applied, _):
        await until(lambda: source.healthy() is None)
        known = len(applied)
        source.override(TrustOverrides(client_ca=ClientCA(CA["proxy"], PROXY_CA)))
        assert source.warning() == f"keeping the last valid {CONFIG_MAP}: {REFUSAL}"
        assert len(applied) == known
        await cluster.put(PATH, config_map(proxy="next", **{"requestheader-allowed-names": "[]"}))
        await until(lambda: len(applied) == known + 1)
        assert applied.last.client_ca is not None
        assert applied.last.client_ca.pem == CA["proxy"], "what the flag says since"
        assert source.warning() is None


async def test_unusable_files_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    overrides = TrustOverrides(client_ca=FLAG_CA)
    async with running(cluster, overrides) as (source, applied, _):
        await until(lambda: source.healthy() is None)
        known = len(applied)
        source.keep(TrustError("--client-ca-file ca.crt: no certificate"))
        assert source.warning() == "keeping the CAs in use: --client-ca-file ca.crt: no certificate"
        assert (len(applied), source.healthy()) == (known, None)
        source.override(overrides)
        assert source.warning() is None
    assert "authentication: keeping the CAs in use: --client-ca-file ca.crt: no certificate" in warnings_of(caplog)


async def test_a_cluster_out_of_reach_is_a_warning() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, applied, _):
        await until(lambda: applied)
        cluster.fail("WATCH", PATH, Unreachable("connection refused"), times=2)
        await cluster.end_watches()
        await until(source.warning)
        assert (source.healthy(), source.warning()) == (None, f"keeping the last valid {CONFIG_MAP}: connection refused")
        assert source.ready() is None
        await cluster.put(PATH, config_map(client="next"))
        await until(lambda: len(applied) == 2)
        assert source.warning() is None


async def test_a_cluster_out_of_reach_for_long_is_no_state_to_go_on_with() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, config_map())
    async with running(cluster) as (source, applied, clock):
        await until(lambda: applied)
        clock.advance(3600)
        assert source.ready() is None, "nothing has failed"
        await cluster.put(PATH, config_map(client="next"))
        await until(lambda: len(applied) == 2)
        for method in ("GET", "WATCH"):
            cluster.fail(method, PATH, Unreachable("connection refused"), times=1000)
        await cluster.end_watches()
        await until(source.ready)
        assert clock.now > 4600 + 300
        assert (source.ready() or "").endswith(f" s: keeping the last valid {CONFIG_MAP}: connection refused")
        assert source.healthy() is None, "requests are still answered by it"
    async with running(FakeCluster(), TrustOverrides(skip_lookup=True)) as (source, _, clock):
        clock.advance(3600)
        assert source.ready() is None
