"""The built-in kinds in a store in memory: made at first use, addresses that nobody gets twice, evictions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admission.chain import Chain
from aggserver.authentication.user import UserInfo
from aggserver.endpoints.served import ResourceScope
from aggserver.kinds.catalog import KINDS
from aggserver.kinds.pods import Bindings, Evictions
from aggserver.kinds.served import Kinds
from aggserver.meta.errors import StatusError
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.environment import Environment
from aggserver.registry.rest import Context, DeleteOptions, ListOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.write import PART_CHANGED
from aggserver.storage.memory import MemoryStorage
from aggserver.workers import LARGE_BYTES
from tests.fakes.clock import FakeClock

NOW = 1767323045.0
USER = UserInfo("alice")
WRITE = WriteOptions(field_manager="test")
ALL = ListOptions(labels=LabelSelector.parse(""), fields=FieldSelector.parse(""))


def _kinds(storage: MemoryStorage, cluster_ips: str = "10.0.0.0/24") -> Kinds:
    uids = itertools.count(1)
    clock = FakeClock(NOW)
    environment = Environment(storage, clock, clock, lambda: f"uid-{next(uids)}", lambda below: 0)
    return Kinds(environment, Chain([]), cluster_ips=cluster_ips)


@pytest.fixture
async def storage() -> AsyncIterator[MemoryStorage]:
    made = MemoryStorage()
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def kinds(storage: MemoryStorage) -> Kinds:
    return _kinds(storage)


def _context(name: str = "") -> Context:
    return Context(USER, "default", name=name)


async def _create(kinds: Kinds, group: str, resource: str, obj: dict[str, Any]) -> dict[str, Any]:
    store = kinds.store(group, resource)
    store.strategy.conform(obj)
    return (await store.create(WriteRequest(_context(), WRITE), obj)).decoded()


def _service(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def _pod(**spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": spec}


async def test_a_store_is_made_once_and_shared_by_all_versions(kinds: Kinds) -> None:
    assert kinds.store("", "pods") is kinds.store("", "pods")
    assert {served.info.resource for served in kinds.served()} == {kind.plural for kind in KINDS} | {
        "bindings",
        "componentstatuses",
    }
    with pytest.raises(KeyError):
        kinds.store("", "crontabs")
    await _create(kinds, "", "events", {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "m"})
    newer = next(served for served in kinds.served() if served.info.group == "events.k8s.io")
    scope = newer.scope("")
    assert scope is not None
    assert isinstance(scope.rest, Store)
    assert (await scope.rest.get(_context(), "e")).decoded()["note"] == "m"


async def test_nobody_gets_the_address_of_another(storage: MemoryStorage) -> None:
    kinds = _kinds(storage, "10.0.0.0/28")
    made = await asyncio.gather(*(_create(kinds, "", "services", _service(f"s{number}")) for number in range(13)))
    addresses = {service["spec"]["clusterIP"] for service in made}
    assert len(addresses) == 13
    assert "10.0.0.1" not in addresses  # that of `kubernetes`
    with pytest.raises(StatusError, match="range is full"):
        await _create(kinds, "", "services", _service("late"))
    with pytest.raises(StatusError, match="provided IP is already allocated"):
        await _create(kinds, "", "services", _service("same", clusterIP=made[0]["spec"]["clusterIP"]))
    await kinds.store("", "services").delete(_context(), "s0", DeleteOptions())
    assert (await _create(kinds, "", "services", _service("late")))["spec"]["clusterIP"] in addresses


async def test_a_service_without_a_name_is_refused(kinds: Kinds) -> None:
    """Addresses are chosen before it is validated."""
    nameless = _service("")
    del nameless["metadata"]["name"]
    with pytest.raises(StatusError, match="name or generateName is required"):
        await _create(kinds, "", "services", nameless)


async def test_large_services_get_their_addresses_too(kinds: Kinds) -> None:
    """They are checked in threads; the choice is made where nobody else chooses at that time."""

    async def create(name: str) -> str:
        store = kinds.store("", "services")
        obj = _service(name, ports=[{"name": f"p{number}", "port": 1 + number} for number in range(300)])
        store.strategy.conform(obj)
        context = _context()
        context.body_bytes = LARGE_BYTES
        address: str = (await store.create(WriteRequest(context, WRITE), obj)).decoded()["spec"]["clusterIP"]
        return address

    made = await asyncio.gather(*(create(f"large-{number}") for number in range(8)))
    assert len(set(made)) == 8


async def test_what_a_deleted_or_refused_service_had_is_free(storage: MemoryStorage) -> None:
    kinds = _kinds(storage, "10.0.0.0/29")
    services = kinds.store("", "services")
    fixed = {"type": "NodePort", "clusterIP": "10.0.0.5", "ports": [{"port": 80, "nodePort": 30080}]}
    for number in range(8):  # more than there are addresses
        await _create(kinds, "", "services", _service(f"deleted-{number}", **fixed))
        await services.delete(_context(), f"deleted-{number}", DeleteOptions())
    for number in range(8):
        wanted = _service(f"tried-{number}", clusterIP="10.0.0.5")
        await services.create(WriteRequest(_context(), WriteOptions(dry_run=True)), wanted)
    await _create(kinds, "", "services", _service("a", **fixed))

    async def moved(service: dict[str, Any]) -> dict[str, Any]:
        return {**service, "spec": {**service["spec"], "type": "ClusterIP"}}

    await services.update(WriteRequest(_context(), WRITE), "a", moved)
    await services.delete(_context(), "a", DeleteOptions())
    await _create(kinds, "", "services", _service("b", **fixed))


async def test_addresses_stay_taken_after_a_restart(storage: MemoryStorage) -> None:
    first = await _create(_kinds(storage), "", "services", _service("a", type="NodePort"))
    second = await _create(_kinds(storage), "", "services", _service("b", type="NodePort"))
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert first["spec"]["ports"][0]["nodePort"] != second["spec"]["ports"][0]["nodePort"]
    services = (await _kinds(storage).store("", "services").list(_context(), ALL)).items
    assert [service.decoded()["metadata"]["name"] for service in services] == ["a", "b", "kubernetes"]


async def test_a_pod_is_bound_once(kinds: Kinds) -> None:
    await _create(kinds, "", "pods", _pod())
    bindings = Bindings(kinds.store("", "pods"))
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await bindings.create(WriteRequest(_context("p"), WRITE), binding)
    pod = (await kinds.store("", "pods").get(_context(), "p")).decoded()
    assert pod["spec"]["nodeName"] == "n"
    with pytest.raises(StatusError, match='already assigned to node "n"'):
        await bindings.create(WriteRequest(_context("p"), WRITE), binding)


async def test_a_binding_names_its_pod_where_the_url_does_not(kinds: Kinds) -> None:
    await _create(kinds, "", "pods", _pod())
    scope = next(each for each in kinds.served() if each.info.resource == "bindings").scope("")
    assert scope is not None
    assert scope.verbs == {"create"}
    bindings: Any = scope.rest
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
    await bindings.create(WriteRequest(_context(), WRITE), binding)
    assert (await kinds.store("", "pods").get(_context(), "p")).decoded()["spec"]["nodeName"] == "n"
    with pytest.raises(StatusError, match="already assigned"):
        await bindings.create(WriteRequest(_context(), WRITE), binding)
    with pytest.raises(StatusError, match=r"Name parameter required\."):
        await bindings.create(WriteRequest(_context(), WRITE), {"metadata": {}, "target": {"kind": "Node", "name": "n"}})


BUDGETS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown yet": ({"observedGeneration": 0, "disruptionsAllowed": 1}, "still being processed by the server"),
    "none left": (
        {"observedGeneration": 1, "desiredHealthy": 2, "currentHealthy": 1},
        "needs 2 healthy pods and has 1",
    ),
    "negative": ({"observedGeneration": 1, "disruptionsAllowed": -1}, "pdb disruptions allowed is negative"),
    "one left": ({"observedGeneration": 1, "disruptionsAllowed": 1}, ""),
}


@pytest.mark.parametrize("name", BUDGETS)
async def test_eviction(kinds: Kinds, name: str) -> None:
    status, why = BUDGETS[name]
    await _create(kinds, "", "pods", _pod())
    await _set_status(kinds, "", "pods", "p", {"phase": "Running"})
    spec = {"selector": {"matchLabels": {"a": "b"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "d"}, "spec": spec}
    await _create(kinds, "policy", "poddisruptionbudgets", budget)
    await _set_status(kinds, "policy", "poddisruptionbudgets", "d", status)
    evictions = Evictions(kinds.store("", "pods"), lambda: kinds.store("policy", "poddisruptionbudgets"))
    if why:
        with pytest.raises(StatusError) as refusal:
            await evictions.create(WriteRequest(_context("p"), WRITE), {"metadata": {"name": "p"}})
        assert why in refusal.value.message + " ".join(cause.message for cause in refusal.value.causes)
        return
    await evictions.create(WriteRequest(_context("p"), WRITE), {"metadata": {"name": "p"}})
    with pytest.raises(StatusError, match="not found"):
        await kinds.store("", "pods").get(_context(), "p")
    left = (await kinds.store("policy", "poddisruptionbudgets").get(_context(), "d")).decoded()["status"]
    assert (left["disruptionsAllowed"], list(left["disruptedPods"])) == (0, ["p"])


async def _set_status(kinds: Kinds, group: str, resource: str, name: str, status: dict[str, Any]) -> None:
    scope = next(each for each in kinds.served() if (each.info.group, each.info.resource) == (group, resource)).scope("status")
    assert scope is not None

    async def changed(obj: dict[str, Any]) -> dict[str, Any]:
        obj["status"] = {**obj.get("status", {}), **status}
        scope.conform(obj)
        return obj

    rest: Any = scope.rest
    await rest.update(WriteRequest(_context(), WRITE), name, changed)


def _scope(kinds: Kinds, api_version: str, resource: str) -> ResourceScope:
    group, _, version = api_version.rpartition("/")
    served = next(
        each
        for each in kinds.served()
        if each.info.group == group and each.info.version == version and each.info.resource == resource
    )
    scope = served.scope("")
    assert scope is not None
    return scope


async def test_the_versions_of_a_kind_for_admission(kinds: Kinds) -> None:
    objects = _scope(kinds, "autoscaling/v2", "horizontalpodautoscalers").admitted
    targets = objects.equivalents("status")
    assert [target.api_version for target in targets] == ["autoscaling/v2", "autoscaling/v1"]
    newer = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
    }
    older = await objects.convert(newer, "autoscaling/v1")
    assert (older["apiVersion"], newer["apiVersion"]) == ("autoscaling/v1", "autoscaling/v2")
    del older["spec"]["maxReplicas"]
    objects.accept(older)
    assert older["spec"]["maxReplicas"] == 0
    with pytest.raises(ValueError, match="json: cannot unmarshal string into Go struct field"):
        objects.accept({**older, "spec": {"maxReplicas": "x"}})
    with pytest.raises(ValueError, match="unknown conversion"):
        objects.accept_of_policy(older, "autoscaling/v2")
    events = _scope(kinds, "events.k8s.io/v1", "events").admitted
    assert [target.group for target in events.equivalents("")] == ["", "events.k8s.io"]
    assert _scope(kinds, "v1", "configmaps").admitted.equivalents("") == ()


async def test_a_put_creates_only_what_may_be_created_so(kinds: Kinds) -> None:
    async def wanted(obj: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "x", "metadata": {"name": "a"}}

    context = _context()
    leases = kinds.store("coordination.k8s.io", "leases")
    assert (await leases.update(WriteRequest(context, WriteOptions(creates=True)), "a", wanted)).created
    with pytest.raises(StatusError, match="not found"):
        await leases.update(WriteRequest(context, WRITE), "b", wanted)
    with pytest.raises(StatusError, match="not found"):  # of a part, as by PATCH, whatever is asked for
        await leases.update(WriteRequest(context, WriteOptions(creates=True)), "b", wanted, PART_CHANGED)
    with pytest.raises(StatusError, match="not found"):
        await kinds.store("", "configmaps").update(WriteRequest(context, WriteOptions(creates=True)), "a", wanted)
