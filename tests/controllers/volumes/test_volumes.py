"""Deleted PersistentVolumeClaims stay while a Pod uses them, deleted PersistentVolumes while a claim has them,
VolumeAttributesClasses while one of both names them; then they go.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.controllers.volumes import claims as claim_protection
from aggserver.controllers.volumes.attributes import AttributesClassProtection
from aggserver.controllers.volumes.claims import ClaimProtection
from aggserver.controllers.volumes.volumes import VolumeProtection
from aggserver.kinds.served import Kinds
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer
from tests.fakes.work import longest_turn

CORE = "/api/v1/namespaces/default"
CLAIMS, PODS, VOLUMES = f"{CORE}/persistentvolumeclaims", f"{CORE}/pods", "/api/v1/persistentvolumes"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/p"}}
BOUND = {"status": {"phase": "Bound"}}
NOW = {"gracePeriodSeconds": 0}


@pytest.fixture
async def claims(server: LocalServer) -> AsyncIterator[ClaimProtection]:
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    server.run()
    made = ClaimProtection(server.engine.installer, server.storage, server.timers.call_later)
    volumes = VolumeProtection(server.engine.installer, server.storage, server.timers.call_later)
    classes = AttributesClassProtection(server.engine.installer, server.storage, server.timers.call_later)
    tasks = [asyncio.create_task(each.run()) for each in (made, volumes, classes)]
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    kinds.end_watches()


pytestmark = pytest.mark.usefixtures("claims")


async def post(client: Client, path: str, kind: str, name: str, spec: Any, **metadata: Any) -> Any:
    answer = await client.post(path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec})
    assert answer.status == 201, answer.body
    return answer.json()


async def pod(client: Client, name: str, *volumes: Any, node: str = "n", **metadata: Any) -> Any:
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": list(volumes)}
    return await post(client, PODS, "Pod", name, {**spec, **({"nodeName": node} if node else {})}, **metadata)


def of(claim: str) -> Any:
    return {"name": f"v-{claim}", "persistentVolumeClaim": {"claimName": claim}}


async def settled() -> None:
    for _ in range(300):
        await asyncio.sleep(0)


async def stays(client: Client, path: str) -> None:
    await settled()
    assert "deletionTimestamp" in (await client.get(path)).json()["metadata"]


async def goes(client: Client, path: str) -> None:
    for _ in range(1000):
        if (await client.get(path)).status == 404:
            return
        await asyncio.sleep(0)
    raise AssertionError((await client.get(path)).json())


async def test_a_claim_that_nobody_uses_goes(client: Client) -> None:
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await client.delete(f"{CLAIMS}/c")
    await goes(client, f"{CLAIMS}/c")


async def test_a_claim_stays_until_its_last_pod_is_gone(client: Client) -> None:
    for name in ("c", "other"):
        await post(client, CLAIMS, "PersistentVolumeClaim", name, CLAIM)
    await pod(client, "one", of("c"), of("other"))
    await pod(client, "two", of("c"))
    await client.delete(f"{CLAIMS}/c")
    await stays(client, f"{CLAIMS}/c")
    await client.delete(f"{PODS}/one", NOW)
    await stays(client, f"{CLAIMS}/c")
    await client.delete(f"{PODS}/two", NOW)
    await goes(client, f"{CLAIMS}/c")
    assert "deletionTimestamp" not in (await client.get(f"{CLAIMS}/other")).json()["metadata"]


async def test_a_pod_that_is_bound_to_no_node_uses_nothing(client: Client) -> None:
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await pod(client, "one", of("c"), node="")
    await client.delete(f"{CLAIMS}/c")
    await goes(client, f"{CLAIMS}/c")


@pytest.mark.parametrize("own", [True, False], ids=["of the Pod", "of another"])
async def test_the_claim_of_an_ephemeral_volume(client: Client, own: bool) -> None:
    """It goes before a Pod that waits for it: the finalizer of one may need the claim gone."""
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
    owner = await pod(client, "one", volume, finalizers=["example.com/f"])
    uid = owner["metadata"]["uid"] if own else "another"
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": uid, "controller": True}
    await post(client, CLAIMS, "PersistentVolumeClaim", "one-v", CLAIM, ownerReferences=[reference])
    await client.delete(f"{CLAIMS}/one-v")
    if own:
        await stays(client, f"{CLAIMS}/one-v")
        await client.delete(f"{PODS}/one", NOW)
    await goes(client, f"{CLAIMS}/one-v")
    assert (await client.get(f"{PODS}/one")).status == 200


async def test_more_than_one_look_decides_about(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim_protection, "_TOGETHER", 2)
    for number in range(7):
        await post(client, CLAIMS, "PersistentVolumeClaim", f"c{number}", CLAIM)
    await pod(client, "one", of("c6"))
    await client.delete(CLAIMS)
    for number in range(6):
        await goes(client, f"{CLAIMS}/c{number}")
    await stays(client, f"{CLAIMS}/c6")


async def test_a_pod_that_is_gone_before_its_watch_says_so(client: Client, server: LocalServer, claims: ClaimProtection) -> None:
    """Nobody will tell of its end, so the claim is looked at again."""
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await pod(client, "one", of("c"))
    await settled()
    claims._used.clear()
    known = claims._pods.objects.pop("default/one")
    await client.delete(f"{CLAIMS}/c")
    await stays(client, f"{CLAIMS}/c")
    claims._pods.objects["default/one"] = known
    server.timers.fire(1.0)
    await stays(client, f"{CLAIMS}/c")
    await client.delete(f"{PODS}/one", NOW)
    await goes(client, f"{CLAIMS}/c")


async def test_a_finalizer_that_was_removed_comes_again(client: Client) -> None:
    """As upstream, from objects that are not deleted."""
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await post(client, VOLUMES, "PersistentVolume", "v", VOLUME)
    for path, finalizer in ((f"{CLAIMS}/c", "kubernetes.io/pvc-protection"), (f"{VOLUMES}/v", "kubernetes.io/pv-protection")):
        await client.merge(path, {"metadata": {"finalizers": ["example.com/f"]}})
        await settled()
        assert (await client.get(path)).json()["metadata"]["finalizers"] == ["example.com/f", finalizer]


async def bound(client: Client, **reference: Any) -> None:
    spec = {**VOLUME, "claimRef": {"namespace": "default", "name": "c", **reference}}
    await post(client, VOLUMES, "PersistentVolume", "v", spec)
    await client.merge(f"{VOLUMES}/v/status", BOUND)


async def test_a_bound_volume_stays_until_its_claim_is_gone(client: Client) -> None:
    claim = await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await bound(client, uid=claim["metadata"]["uid"])
    await client.delete(f"{VOLUMES}/v")
    await stays(client, f"{VOLUMES}/v")
    await client.delete(f"{CLAIMS}/c")
    await goes(client, f"{VOLUMES}/v")


async def test_a_bound_volume_stays_until_it_is_released(client: Client) -> None:
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await bound(client)
    await client.delete(f"{VOLUMES}/v")
    await stays(client, f"{VOLUMES}/v")
    await client.merge(f"{VOLUMES}/v/status", {"status": {"phase": "Released"}})
    await goes(client, f"{VOLUMES}/v")


@pytest.mark.parametrize("phase", ["Bound", "Pending"])
async def test_a_volume_that_no_claim_has_goes(client: Client, phase: str) -> None:
    """Bound to one that is gone, or was made anew since; or bound to none."""
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", CLAIM)
    await bound(client, uid="another")
    await client.merge(f"{VOLUMES}/v/status", {"status": {"phase": phase}})
    await client.delete(f"{VOLUMES}/v")
    await goes(client, f"{VOLUMES}/v")


async def test_other_tasks_run_while_a_pod_with_many_volumes_is_looked_at(claims: ClaimProtection) -> None:
    volumes = [of("c") | {"name": f"v{number}"} for number in range(5000)]
    many = {"metadata": {"name": "many", "namespace": "default", "uid": "u"}, "spec": {"nodeName": "n", "volumes": volumes}}
    assert await longest_turn(claims._sync_pod("default/many", many)) < 100 * claim_protection._STEPS


CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"


async def attributes_class(client: Client, name: str, **metadata: Any) -> None:
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name, **metadata}}
    answer = await client.post(CLASSES, {**head, "driverName": "d.example.com", "parameters": {"a": "b"}})
    assert answer.status == 201, answer.body


async def test_an_attributes_class_that_nobody_names_goes(client: Client) -> None:
    await attributes_class(client, "gold")
    await attributes_class(client, "silver")
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", {**CLAIM, "volumeAttributesClassName": "silver"})
    await client.delete(f"{CLASSES}/gold")
    await goes(client, f"{CLASSES}/gold")


async def test_an_attributes_class_stays_until_the_last_that_names_it_is_gone(client: Client) -> None:
    await attributes_class(client, "gold")
    named = {"volumeAttributesClassName": "gold"}
    await post(client, CLAIMS, "PersistentVolumeClaim", "c", {**CLAIM, **named})
    await post(client, CLAIMS, "PersistentVolumeClaim", "d", CLAIM)
    csi = {**{name: value for name, value in VOLUME.items() if name != "hostPath"}, "csi": {"driver": "d", "volumeHandle": "h"}}
    await post(client, VOLUMES, "PersistentVolume", "v", {**csi, **named})
    await client.delete(f"{CLASSES}/gold")
    await stays(client, f"{CLASSES}/gold")
    await client.delete(f"{CLAIMS}/c")
    await goes(client, f"{CLAIMS}/c")
    await stays(client, f"{CLASSES}/gold")
    await client.delete(f"{VOLUMES}/v")
    await goes(client, f"{CLASSES}/gold")
    assert (await client.get(f"{CLAIMS}/d")).status == 200


async def test_an_attributes_class_gets_its_finalizer_back(client: Client) -> None:
    await attributes_class(client, "gold")
    await client.merge(f"{CLASSES}/gold", {"metadata": {"finalizers": None}})
    await settled()
    assert (await client.get(f"{CLASSES}/gold")).json()["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
