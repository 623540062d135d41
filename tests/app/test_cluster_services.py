"""ClusterServices: the addresses that upstream's proxy would use, with one request in ten seconds."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.app.cluster_services import ClusterServices
from aggserver.cluster import Unreachable
from aggserver.webhook.answers import WebhookError
from aggserver.webhook.config import ServiceReference
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import FakeCluster, status

HOOK = ServiceReference("system", "hook", "/convert", 8443)
PATH = "/api/v1/namespaces/system/services/hook"
PORTS = [{"port": 443}, {"port": 8443}]


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "hook", "namespace": "system"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": PORTS}, ("10.0.0.7", 8443), id="cluster IP"),
        pytest.param({"type": "NodePort", "clusterIP": "fd00::7", "ports": PORTS}, ("fd00::7", 8443), id="node port"),
        pytest.param({"type": "LoadBalancer", "clusterIP": "10.0.0.7", "ports": PORTS}, ("10.0.0.7", 8443), id="load balancer"),
        pytest.param({"type": "ExternalName", "externalName": "hook.test"}, ("hook.test", 8443), id="external name"),
        pytest.param(
            {"type": "ClusterIP", "clusterIP": "None", "ports": PORTS},
            'cannot route to service with ClusterIP "None"',
            id="headless",
        ),
        pytest.param(
            {"type": "ClusterIP", "clusterIP": "10.0.0.7", "ports": PORTS[:1]},
            'no service port 8443 found for service "hook"',
            id="another port",
        ),
        pytest.param({"type": "Odd"}, 'unsupported service type "Odd"', id="another type"),
    ],
)
async def test_addresses(spec: dict[str, Any], expected: Any) -> None:
    cluster = FakeCluster()
    cluster.on("GET", PATH, lambda _: service(**spec))
    services = ClusterServices(cluster, FakeClock())
    if isinstance(expected, tuple):
        assert await services.resolve(HOOK) == expected
    else:
        with pytest.raises(WebhookError) as caught:
            await services.resolve(HOOK)
        assert str(caught.value) == expected


async def test_a_service_is_read_once_in_ten_seconds() -> None:
    cluster, clock, address = FakeCluster(), FakeClock(), "10.0.0.7"
    cluster.on("GET", PATH, lambda _: service(type="ClusterIP", clusterIP=address, ports=PORTS))
    services = ClusterServices(cluster, clock)
    assert [await services.resolve(HOOK) for _ in range(3)] == [("10.0.0.7", 8443)] * 3
    address = "10.0.0.8"
    clock.advance(9)
    assert await services.resolve(HOOK) == ("10.0.0.7", 8443)
    clock.advance(1)
    assert await services.resolve(HOOK) == ("10.0.0.8", 8443)
    assert cluster.calls == [("GET", PATH)] * 2


async def test_the_last_address_stays_while_the_api_server_does_not_answer() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.on("GET", PATH, lambda _: service(type="ClusterIP", clusterIP="10.0.0.7", ports=PORTS))
    services = ClusterServices(cluster, clock)
    await services.resolve(HOOK)
    for error in (Unreachable("https://x: refused"), status(503, "ServiceUnavailable")):
        clock.advance(10)
        cluster.fail("GET", PATH, error)
        assert await services.resolve(HOOK) == ("10.0.0.7", 8443)
    clock.advance(10)
    cluster.fail("GET", PATH, status(404, "NotFound"))
    with pytest.raises(WebhookError, match=r'^service "hook" not found$'):
        await services.resolve(HOOK)
    cluster.fail("GET", PATH, status(403, "Forbidden", "no"))
    with pytest.raises(WebhookError, match=r"^service system/hook can't be read: 403 Forbidden: no$"):
        await services.resolve(HOOK)
