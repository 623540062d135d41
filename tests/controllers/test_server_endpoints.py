"""The Endpoints and the EndpointSlice of the Service `kubernetes`."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from aggserver.controllers.server_endpoints import advertised, publish
from aggserver.kinds.served import Kinds
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context
from tests.fakes.server import ADMIN, LocalServer

CONTEXT = Context(ADMIN, "default")


async def found(kinds: Kinds) -> tuple[JSONObject, JSONObject]:
    both = (("", "endpoints"), ("discovery.k8s.io", "endpointslices"))
    endpoints, slice_ = [(await kinds.store(*each).get(CONTEXT, "kubernetes")).decoded() for each in both]
    return endpoints, slice_


async def test_what_is_written(server: LocalServer) -> None:
    kinds = Kinds(server.environment, server.engine.admission)
    await publish(kinds.store, "10.1.2.3", 6443)
    endpoints, slice_ = await found(kinds)
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    assert endpoints["subsets"] == [{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}]
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert (slice_["addressType"], slice_["ports"]) == ("IPv4", ports)
    assert slice_["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert [entry["manager"] for obj in (endpoints, slice_) for entry in obj["metadata"]["managedFields"]] == [
        "kube-apiserver"
    ] * 2


async def test_the_next_start(server: LocalServer) -> None:
    kinds = Kinds(server.environment, server.engine.admission)
    await publish(kinds.store, "10.1.2.3", 6443)
    first = await found(kinds)
    await publish(kinds.store, "10.1.2.3", 6443)
    assert await found(kinds) == first  # the resourceVersion, too
    await publish(kinds.store, "10.1.2.4", 7443)
    endpoints, slice_ = await found(kinds)
    assert endpoints["subsets"][0]["addresses"] == [{"ip": "10.1.2.4"}]
    assert slice_["ports"][0]["port"] == 7443
    await publish(kinds.store, "fd00::1", 7443)
    assert (await found(kinds))[1]["addressType"] == "IPv6"


@pytest.mark.parametrize("bind", ["127.0.0.1", "0.0.0.0", "localhost", "::1"])
def test_the_loopback_is_no_endpoint(bind: str) -> None:
    address = advertised(bind)
    assert not address or not ipaddress.ip_address(address).is_loopback


def test_the_address_that_it_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert advertised("10.1.2.3") == "10.1.2.3"

    def no_network(*arguments: object) -> socket.socket:
        raise OSError("no network")

    monkeypatch.setattr(socket, "socket", no_network)
    assert advertised("127.0.0.1") == ""
