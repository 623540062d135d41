"""Services: their store, which allocates addresses, and the Service `kubernetes`, which every cluster has.

An address is taken as soon as it is chosen: the store remembers it until the write that chose it has ended. Then the watch cache
has the Service, or the write has failed.
Source: k8s.io/kubernetes pkg/registry/core/service/storage/storage.go, pkg/controlplane/controller/kubernetesservice, v1.36.3.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import IPv4Network
from typing import NamedTuple

from aggserver.kinds.addresses import Pool, assign, first_address, node_ports, release
from aggserver.kinds.catalog import BuiltInKind
from aggserver.kinds.seeded import SeededStore
from aggserver.kinds.strategy import KindStrategy
from aggserver.meta.field import FieldError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import WriteRequest
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Verdict
from aggserver.registry.views import Views

__all__ = ["ServiceStore", "service_fields"]

# How long the choice of a cancelled write is remembered: the storage may go on with the write, but has finished by then.
_CANCELLED_SECONDS = 30.0
# Fields beside the selectable ones, by which taken addresses are known without decoding the objects again.
_IPS, _PORTS = "-clusterIPs", "-nodePorts"
# Seconds in which the event loop makes a choice for a thread that waits for it; only a server that has stopped takes longer.
_CHOICE_SECONDS = 60.0


class _Write:
    """One write of a Service. loop: the event loop that it runs in. thread: of that loop."""

    __slots__ = ("loop", "thread")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()


# The write that the current task is in, also in the thread that checks a large Service for it.
_current: ContextVar[_Write] = ContextVar("write of a Service")


class _Choice(NamedTuple):
    """What a write has chosen for the Service at a key."""

    key: str
    ips: tuple[str, ...]
    ports: tuple[int, ...]


def service_fields(read: Callable[[JSONObject], Mapping[str, str]]) -> Callable[[JSONObject], Mapping[str, str]]:
    """A function that reads the selectable fields and the addresses. read: reads the selectable fields."""

    def read_addresses(obj: JSONObject) -> dict[str, str]:
        spec = obj.get("spec") or {}
        ips = [ip for ip in spec.get("clusterIPs") or () if ip != "None"]
        return {**read(obj), _IPS: " ".join(ips), _PORTS: " ".join(map(str, node_ports(spec)))}

    return read_addresses


class _ServiceStrategy(KindStrategy):
    """choose: gives a Service its addresses, if they are free, in place; (Service, the old one) -> the problems.

    As upstream, addresses are allocated before a Service is validated, since validation requires them.
    """

    def __init__(self, kind: BuiltInKind, choose: Callable[[JSONObject, JSONObject | None], list[FieldError]]) -> None:
        super().__init__(kind)
        self._choose = choose

    def validate(self, obj: JSONObject) -> Verdict:
        return self._with_addresses(obj, None, super().validate)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        super().prepare_for_update(obj, old, now)
        release(obj, old)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        validate = super().validate_update
        return self._with_addresses(obj, old, lambda given: validate(given, old))

    def _with_addresses(self, obj: JSONObject, old: JSONObject | None, validate: Callable[[JSONObject], Verdict]) -> Verdict:
        problems = self._choose(obj, old)
        return Verdict(problems) if problems else validate(obj)


class ServiceStore(SeededStore):
    """The store of Services. network: the range of cluster IPs. port: returns the port of this server."""

    def __init__(
        self, resource: ResourceStorage, kind: BuiltInKind, views: Views, network: IPv4Network, port: Callable[[], int]
    ) -> None:
        strategy = _ServiceStrategy(kind, self._choose)
        super().__init__(resource, strategy, views, lambda now: [_kubernetes(network, port())])
        self._services = resource
        self._network = network
        self._choices: dict[_Write, _Choice] = {}

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        await self.catch_up("")  # which addresses are taken is known from the cache
        return await super().create(request, obj)

    def _choose(self, obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
        """See `_ServiceStrategy`. In the event loop, which is where the cache changes and other writes choose."""
        write = _current.get()
        if threading.get_ident() == write.thread:
            return self._chosen(write, obj, old)

        async def chosen() -> list[FieldError]:
            return self._chosen(write, obj, old)

        return asyncio.run_coroutine_threadsafe(chosen(), write.loop).result(_CHOICE_SECONDS)

    def _chosen(self, write: _Write, obj: JSONObject, old: JSONObject | None) -> list[FieldError]:
        problems = assign(obj, old, self._pool(obj, old is not None))
        if not problems:
            metadata, spec = obj["metadata"], obj["spec"]
            key = self._services.key_of(metadata.get("namespace") or "", metadata.get("name") or "")
            self._choices[write] = _Choice(key, tuple(spec.get("clusterIPs") or ()), tuple(node_ports(spec)))
        return problems

    def _pool(self, obj: JSONObject, is_there: bool) -> Pool:
        """The addresses that other Services have. As upstream, for a create these include a Service of the same name."""
        metadata = obj["metadata"]
        own = self._services.key_of(metadata.get("namespace") or "", metadata.get("name") or "")
        ips: set[str] = set()
        ports: set[int] = set()
        for choice in self._choices.values():
            if choice.key != own:
                ips.update(choice.ips)
                ports.update(choice.ports)
        for service in self._services.cacher.readable(self._services.prefix):
            if is_there and service.key == own:
                continue
            fields = service.fields(self._services.read_fields)
            ips.update(fields[_IPS].split())
            ports.update(map(int, fields[_PORTS].split()))
        return Pool(self._network, ips, ports, self._services.random)

    @contextmanager
    def during_write(self) -> Iterator[None]:
        """Run a write, and forget the addresses that it has chosen when it ends."""
        write = _Write()
        outer = _current.set(write)
        try:
            yield
        except asyncio.CancelledError:
            write.loop.call_later(_CANCELLED_SECONDS, self._choices.pop, write, None)
            raise
        except BaseException:
            self._choices.pop(write, None)
            raise
        else:
            self._choices.pop(write, None)
        finally:
            _current.reset(outer)


def _kubernetes(network: IPv4Network, port: int) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": first_address(network),
            "clusterIPs": [first_address(network)],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }
