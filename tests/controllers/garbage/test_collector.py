"""The garbage collector on a whole server in memory.

The tests named in UPSTREAM are those of k8s.io/kubernetes test/integration/garbagecollector, v1.36.3, with custom resources.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from typing import Any

import pytest

from aggserver.controllers.garbage.collector import GarbageCollector
from aggserver.conversion.webhook import WebhookCall
from aggserver.kinds.served import Kinds
from aggserver.storage.interface import Unavailable
from tests.fakes.asgi import Client
from tests.fakes.clock import until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, definition, version, widget
from tests.fakes.server import LocalServer

OTHER_PATH = CRONTABS_PATH.replace("default", "other")
GADGETS = definition("gadgets", "Gadget", version("v1", {"spec": {"type": "object"}}))
GADGETS_PATH = CRONTABS_PATH.replace("crontabs", "gadgets")
CRDS_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> None:
    server.serve(CRONTABS)
    server.serve(WIDGETS)
    await server.namespace("other")
    server.run()
    await settled(server)


async def settled(server: LocalServer) -> None:
    """Wait until the collector has nothing to do."""
    for _ in range(20):
        await asyncio.sleep(0)
    await until(lambda: server.garbage_collector.idle)


def owner(obj: Any, *, blocks: bool | None = None, **changes: Any) -> dict[str, Any]:
    """An owner reference to an object."""
    metadata = obj["metadata"]
    found = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, **({} if blocks is None else {"blockOwnerDeletion": blocks}), **changes}


async def make(
    client: Client,
    name: str,
    *owners: dict[str, Any],
    path: str = CRONTABS_PATH,
    finalizers: Sequence[str] = (),
) -> Any:
    obj = widget(name) if path == WIDGETS_PATH else crontab(name)
    if path == GADGETS_PATH:
        obj = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}}
    if owners:
        obj["metadata"]["ownerReferences"] = list(owners)
    if finalizers:
        obj["metadata"]["finalizers"] = list(finalizers)
    answer = await client.post(path, obj)
    assert answer.status == 201, answer.body
    return answer.json()


async def delete(client: Client, name: str, policy: str = "", path: str = CRONTABS_PATH) -> None:
    answer = await client.delete(f"{path}/{name}", {"propagationPolicy": policy} if policy else None)
    assert answer.status == 200, answer.body


async def there(client: Client, path: str = CRONTABS_PATH) -> dict[str, list[str]]:
    """The objects that are there: of each the names of its owners."""
    items = (await client.get(path)).json()["items"]
    return {item["metadata"]["name"]: [entry["name"] for entry in item["metadata"].get("ownerReferences", ())] for item in items}


# --- upstream's tests ---


@pytest.mark.parametrize("first", ["owner", "child"])
async def test_cross_namespace_references(server: LocalServer, client: Client, first: str) -> None:
    """TestCrossNamespaceReferencesWithWatchCache and ...WithoutWatchCache: good children stay, whatever comes first."""
    parent = await make(client, "parent")
    for index in range(3):
        await make(client, f"invalid-{index}", owner(parent), path=OTHER_PATH)
        await make(client, f"valid-{index}", owner(parent))
    await settled(server)
    assert await there(client, OTHER_PATH) == {}
    assert len(await there(client)) == 4
    if first == "child":
        # A collector that starts on what is stored.
        collector = GarbageCollector(server.engine.installer, server.storage, server.clock, server.timers.call_later)
        task = asyncio.create_task(collector.run())
        await until(lambda: collector.idle)
        task.cancel()
        assert len(await there(client)) == 4


async def test_cascading_deletion(server: LocalServer, client: Client) -> None:
    """TestCascadingDeletion."""
    gone, kept = await make(client, "to-be-deleted"), await make(client, "remaining")
    await make(client, "only-gone", owner(gone))
    await make(client, "both", owner(gone), owner(kept))
    await make(client, "independent")
    await delete(client, "to-be-deleted", "Background")
    await settled(server)
    assert await there(client) == {"both": ["remaining"], "independent": [], "remaining": []}


async def test_create_with_non_existent_owner(server: LocalServer, client: Client) -> None:
    """TestCreateWithNonExistentOwner."""
    nobody = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "name": "nobody", "uid": "doesn't matter"}
    await make(client, "one", nobody)
    await settled(server)
    assert await there(client) == {}


async def test_stressing_cascading_deletion(server: LocalServer, client: Client) -> None:
    """TestStressingCascadingDeletion: many owners, a fifth deleted with each policy, and a fifth kept."""
    policies = ["", "Background", "Foreground", "Orphan"]
    for index in range(20):
        parent = await make(client, f"p-{index}")
        for child in range(3):
            await make(client, f"p-{index}-{child}", owner(parent, blocks=True))
    await asyncio.gather(*(delete(client, f"p-{index}", policies[index % 5]) for index in range(20) if index % 5 != 4))
    await settled(server)
    wanted = {f"p-{index}-{child}": [] for index in range(3, 20, 5) for child in range(3)}
    wanted |= {f"p-{index}-{child}": [f"p-{index}"] for index in range(4, 20, 5) for child in range(3)}
    assert await there(client) == wanted | {f"p-{index}": [] for index in range(4, 20, 5)}
    assert sorted(server.garbage_collector._graph.objects()) == sorted(
        f"{KEY}{name}" for name, owners in wanted.items() if owners
    )


KEY = f"/{GROUP}/crontabs/default/"


async def test_orphaning(server: LocalServer, client: Client) -> None:
    """TestOrphaning."""
    parent = await make(client, "parent")
    for index in range(3):
        await make(client, f"child-{index}", owner(parent))
    await delete(client, "parent", "Orphan")
    await settled(server)
    assert await there(client) == {"child-0": [], "child-1": [], "child-2": []}


async def test_solid_owner_does_not_block_waiting_owner(server: LocalServer, client: Client) -> None:
    """TestSolidOwnerDoesNotBlockWaitingOwner."""
    gone, kept = await make(client, "to-be-deleted"), await make(client, "remaining")
    await make(client, "child", owner(gone, blocks=True), owner(kept))
    await delete(client, "to-be-deleted", "Foreground")
    await settled(server)
    assert await there(client) == {"child": ["remaining"], "remaining": []}


async def test_non_blocking_owner_ref_does_not_block(server: LocalServer, client: Client) -> None:
    """TestNonBlockingOwnerRefDoesNotBlock."""
    parent = await make(client, "parent")
    await make(client, "false", owner(parent, blocks=False), finalizers=["x/y"])
    await make(client, "unset", owner(parent), finalizers=["x/y"])
    await delete(client, "parent", "Foreground")
    await settled(server)
    assert sorted(await there(client)) == ["false", "unset"]


async def test_double_deletion_with_finalizer(server: LocalServer, client: Client) -> None:
    """TestDoubleDeletionWithFinalizer: the second deletion does not take the finalizer of the first."""
    await make(client, "one", finalizers=["x/y"])
    await delete(client, "one", "Foreground")
    await settled(server)
    left = (await client.get(f"{CRONTABS_PATH}/one")).json()["metadata"]
    assert left["finalizers"] == ["x/y"]
    await delete(client, "one", "Foreground")
    await settled(server)
    assert (await client.get(f"{CRONTABS_PATH}/one")).json()["metadata"]["finalizers"] == ["x/y"]
    await client.merge(f"{CRONTABS_PATH}/one", {"metadata": {"finalizers": None}})
    await settled(server)
    assert await there(client) == {}


async def test_blocking_owner_ref_does_block(server: LocalServer, client: Client) -> None:
    """TestBlockingOwnerRefDoesBlock."""
    parent = await make(client, "parent")
    await make(client, "child", owner(parent, blocks=True), finalizers=["x/y"])
    await delete(client, "parent", "Foreground")
    await settled(server)
    assert await there(client) == {"child": ["parent"], "parent": []}
    await client.merge(f"{CRONTABS_PATH}/child", {"metadata": {"finalizers": None}})
    await settled(server)
    assert await there(client) == {}


async def test_custom_resource_cascading_deletion(server: LocalServer, client: Client) -> None:
    """TestCustomResourceCascadingDeletion: across kinds."""
    server.serve(GADGETS)
    parent = await make(client, "parent", path=GADGETS_PATH)
    await make(client, "child", owner(parent))
    await delete(client, "parent", "Background", GADGETS_PATH)
    await settled(server)
    assert await there(client) == {}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_mixed_relationships(server: LocalServer, client: Client, policy: str) -> None:
    """TestMixedRelationships: owners and dependents of different kinds, namespaced and not."""
    cluster, own = await make(client, "cluster", path=WIDGETS_PATH), await make(client, "own")
    await make(client, "of-cluster", owner(cluster, blocks=True))
    await make(client, "of-cluster", owner(cluster, blocks=True), path=OTHER_PATH)
    server.serve(GADGETS)
    await make(client, "of-own", owner(own, blocks=True), path=GADGETS_PATH)
    await delete(client, "cluster", policy, WIDGETS_PATH)
    await delete(client, "own", policy)
    await settled(server)
    assert [await there(client, path) for path in (CRONTABS_PATH, OTHER_PATH, WIDGETS_PATH, GADGETS_PATH)] == [{}] * 4


async def test_crd_deletion_cascading(server: LocalServer, client: Client) -> None:
    """TestCRDDeletionCascading: the objects of a deleted definition go, and what they own, though their kind is gone by then."""
    for _ in range(2):
        assert (await client.post(CRDS_PATH, copy.deepcopy(GADGETS))).status == 201
        await until(lambda: server.engine.installer.find(GROUP, "v1", "gadgets"))
        parent = await make(client, "parent", path=GADGETS_PATH)
        await make(client, "child", owner(parent))
        await settled(server)
        assert await there(client) == {"child": ["parent"]}
        await client.delete(f"{CRDS_PATH}/gadgets.{GROUP}")
        await until(lambda: server.engine.installer.find(GROUP, "v1", "gadgets") is None)
        await settled(server)
        assert await there(client) == {}


async def test_cascading_delete_on_crd_conversion_failure(server: LocalServer, client: Client) -> None:
    """TestCascadingDeleteOnCRDConversionFailure: a webhook that does not answer is not needed."""
    broken = copy.deepcopy(CRONTABS)
    webhook = {"clientConfig": {"url": "https://127.0.0.1:1/"}, "conversionReviewVersions": ["v1"]}
    parent = await make(client, "parent")
    await make(client, "child", owner(parent, blocks=True))
    await make(client, "both", owner(parent), owner(await make(client, "kept", path=WIDGETS_PATH)))
    broken["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    broken["spec"]["versions"][0]["storage"] = False
    broken["spec"]["versions"][1]["storage"] = True
    calls: list[WebhookCall] = []
    server.serve(broken)
    await delete(client, "parent", "Foreground")
    await settled(server)
    assert calls == []
    kv = await server.storage.list(KEY)
    assert [item.key for item in kv.items] == [f"{KEY}both"]
    assert b'"name":"parent"' not in kv.items[0].value


async def test_cluster_scoped_owners(server: LocalServer, client: Client) -> None:
    """TestClusterScopedOwners: a solid one keeps its dependents, one that does not exist is dangling in each namespace."""
    parent = await make(client, "parent", path=WIDGETS_PATH)
    await make(client, "valid", owner(parent))
    await make(client, "invalid", owner(parent, uid="invalid", name="none"))
    await settled(server)
    assert await there(client) == {"valid": ["parent"]}


# --- more of the rules ---


async def test_a_wrong_uid_is_no_owner(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child", owner(parent, uid="other"))
    await make(client, "both", owner(parent, uid="other"), owner(await make(client, "kept")))
    await settled(server)
    assert await there(client) == {"both": ["kept"], "kept": [], "parent": []}


async def test_an_owner_that_was_made_again_is_another(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent", finalizers=["x/y"])
    await make(client, "child", owner(parent))
    await settled(server)
    await delete(client, "parent")
    await client.merge(f"{CRONTABS_PATH}/parent", {"metadata": {"finalizers": None}})
    await make(client, "parent")
    await settled(server)
    assert await there(client) == {"parent": []}


async def test_wrong_coordinates_of_the_right_uid(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "good", owner(parent))
    await make(client, "bad", owner(parent, name="other"))
    await make(client, "of-other-version", owner(parent, apiVersion=f"{GROUP}/v1beta1"))
    await settled(server)
    assert await there(client) == {"good": ["parent"], "of-other-version": ["parent"], "parent": []}


async def test_a_namespaced_owner_of_a_cluster_scoped_object(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child", owner(parent), path=WIDGETS_PATH)
    await delete(client, "parent")
    await settled(server)
    assert await there(client, WIDGETS_PATH) == {"child": ["parent"]}


async def test_an_unknown_kind_is_waited_for(server: LocalServer, client: Client) -> None:
    unknown = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "name": "none", "uid": "1"}
    await make(client, "child", unknown)
    kept = await make(client, "kept")
    await make(client, "both", unknown, owner(kept))
    await settled(server)
    assert await there(client) == {"both": ["none", "kept"], "child": ["none"], "kept": []}
    server.serve(GADGETS)
    await settled(server)
    assert await there(client) == {"both": ["kept"], "kept": []}


async def test_references_that_are_set_later(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child")
    await client.merge(f"{CRONTABS_PATH}/child", {"metadata": {"ownerReferences": [owner(parent)]}})
    await delete(client, "parent")
    await settled(server)
    assert await there(client) == {}
    assert server.garbage_collector._graph.objects() == []


async def test_references_that_are_removed(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child", owner(parent, blocks=True), finalizers=["x/y"])
    await delete(client, "parent", "Foreground")
    await settled(server)
    await client.merge(f"{CRONTABS_PATH}/child", {"metadata": {"ownerReferences": None}})
    await settled(server)
    assert list(await there(client)) == ["child"]


async def test_a_dependent_that_blocks_no_more(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child", owner(parent, blocks=True), finalizers=["x/y"])
    await delete(client, "parent", "Foreground")
    await settled(server)
    await client.merge(f"{CRONTABS_PATH}/child", {"metadata": {"ownerReferences": [owner(parent, blocks=False)]}})
    await settled(server)
    assert list(await there(client)) == ["child"]


async def test_foreground_through_generations(server: LocalServer, client: Client) -> None:
    parent = await make(client, "a")
    child = await make(client, "b", owner(parent, blocks=True))
    await make(client, "c", owner(child, blocks=True), finalizers=["x/y"])
    await delete(client, "a", "Foreground")
    await settled(server)
    assert list(await there(client)) == ["a", "b", "c"]
    await client.merge(f"{CRONTABS_PATH}/c", {"metadata": {"finalizers": None}})
    await settled(server)
    assert await there(client) == {}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_owners_in_a_circle(server: LocalServer, client: Client, policy: str) -> None:
    first = await make(client, "a")
    second = await make(client, "b", owner(first, blocks=True))
    await client.merge(f"{CRONTABS_PATH}/a", {"metadata": {"ownerReferences": [owner(second, blocks=True)]}})
    await settled(server)
    assert await there(client) == {"a": ["b"], "b": ["a"]}
    await delete(client, "a", policy)
    await settled(server)
    assert await there(client) == {}


async def test_a_dependents_own_orphan_finalizer_is_honoured(server: LocalServer, client: Client) -> None:
    parent = await make(client, "a")
    child = await make(client, "b", owner(parent), finalizers=["orphan"])
    await make(client, "c", owner(child))
    await delete(client, "a")
    await settled(server)
    assert await there(client) == {"c": []}


async def test_what_a_policy_refuses_is_tried_again(server: LocalServer, client: Client) -> None:
    """A deletion of an object that is being written all the time succeeds too."""
    parent = await make(client, "parent")
    await make(client, "child", owner(parent))
    await settled(server)
    conflicts = 0
    read = server.garbage_collector._client.read

    async def stale(key: str) -> Any:
        nonlocal conflicts
        found = await read(key)
        if key.endswith("/child") and conflicts < 1:
            conflicts += 1
            await client.merge(f"{CRONTABS_PATH}/child", {"metadata": {"labels": {"a": str(conflicts)}}})
        return found

    server.garbage_collector._client.read = stale  # type: ignore[method-assign]
    await delete(client, "parent")
    await settled(server)
    assert conflicts == 1
    assert await there(client) == {}


# --- the store ---


async def test_what_was_deleted_while_no_collector_ran(server: LocalServer, client: Client) -> None:
    parent, kept = await make(client, "parent"), await make(client, "kept")
    await make(client, "child", owner(parent))
    await make(client, "both", owner(parent), owner(kept))
    waiting = await make(client, "waiting")
    await make(client, "blocking", owner(waiting, blocks=True))
    await settled(server)
    await server.stop()
    await server.storage.start()

    after = LocalServer(server.storage)
    after.serve(CRONTABS)
    again = after.client()
    await delete(again, "parent")
    await delete(again, "waiting", "Foreground")
    after.run()
    await settled(after)
    assert await there(again) == {"both": ["kept"], "kept": []}
    await after.stop()
    await server.storage.start()


async def test_a_lost_subscription(server: LocalServer, client: Client) -> None:
    parent = await make(client, "parent")
    await make(client, "child", owner(parent))
    await settled(server)
    collector = server.garbage_collector
    assert collector._subscription is not None
    collector._subscription.close()
    collector.lost(Unavailable("lost"))
    await delete(client, "parent")
    await settled(server)
    assert await there(client) == {}


async def test_objects_without_owners_are_not_known(server: LocalServer, client: Client) -> None:
    await make(client, "one", finalizers=["x/y"])
    await make(client, "two")
    await delete(client, "one")
    await settled(server)
    assert server.garbage_collector._graph.objects() == []


async def test_bytes_that_are_no_object(server: LocalServer, client: Client) -> None:
    await server.storage.create("/odd", b'{"ownerReferences"')
    await server.storage.create(f"{KEY}odd", b'{"ownerReferences"')
    await server.storage.create(f"{KEY}odder", b'{"apiVersion":"a/v1","kind":"b","metadata":{"ownerReferences":')
    parent = await make(client, "parent")
    await client.post(CRONTABS_PATH, {**crontab("child"), "metadata": {"name": "child", "ownerReferences": [owner(parent)]}})
    await delete(client, "parent")
    await settled(server)
    assert (await client.get(f"{CRONTABS_PATH}/child")).status == 404


# --- Events ---

EVENTS_PATH = "/api/v1/namespaces/{}/events"


async def events(client: Client, namespace: str) -> list[tuple[str, str, str]]:
    items = (await client.get(EVENTS_PATH.format(namespace))).json()["items"]
    return [(item["involvedObject"]["name"], item["reason"], item["message"]) for item in items]


async def test_an_owner_in_another_namespace_is_told(server: LocalServer, client: Client) -> None:
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    parent = await make(client, "parent")
    await make(client, "bad", owner(parent), path=OTHER_PATH)
    server.clock.advance(1)
    await make(client, "cluster", owner(parent), path=WIDGETS_PATH)
    await settled(server)
    said = f"ownerRef [{GROUP}/v1/CronTab, namespace: {{0}}, name: parent, uid: {parent['metadata']['uid']}] does not exist"
    reason = "OwnerRefInvalidNamespace"
    assert await events(client, "other") == [("bad", reason, said.format("other") + ' in namespace "other"')]
    assert await events(client, "default") == [("cluster", reason, said.format("") + ' in namespace ""')]
    # Nothing is told of owners that are just gone.
    await make(client, "child", owner(parent))
    await make(client, "of-nobody", owner(parent, uid="none", name="none"))
    await delete(client, "parent")
    await settled(server)
    assert len(await events(client, "default")) == 1
    kinds.end_watches()
