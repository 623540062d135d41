"""Claims and volumes on a server in memory: they are bound, lost, released and reclaimed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from aggserver.controllers.pod_index import PodIndex
from aggserver.controllers.volumes import binder
from aggserver.controllers.volumes.binder import VolumeBinder
from aggserver.kinds.served import Kinds
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer

CORE = "/api/v1/namespaces/default"
CLAIMS, PODS, EVENTS, VOLUMES = f"{CORE}/persistentvolumeclaims", f"{CORE}/pods", f"{CORE}/events", "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


class World:
    def __init__(self, server: LocalServer) -> None:
        self.kinds = Kinds(server.environment, server.engine.admission)
        self._server = server
        server.engine.installer.install([("built-in kinds", self.kinds.served())])
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        server, later = self._server, self._server.timers.call_later
        pods = PodIndex(partial(self.kinds.store, "", "pods"), later)
        made = VolumeBinder(server.engine.installer, server.storage, pods, server.clock, later)
        self._task = asyncio.create_task(made.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.fixture
async def world(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(binder, "_WAIT", 0.0)  # timers are not fired
    made = World(server)
    server.run()
    made.start()
    yield made
    await made.stop()
    made.kinds.end_watches()


pytestmark = pytest.mark.usefixtures("world")


async def post(client: Client, path: str, kind: str, name: str, **members: Any) -> Any:
    version = "v1" if path.startswith("/api/") else "storage.k8s.io/v1"
    metadata = {"name": name, **members.pop("metadata", {})}
    answer = await client.post(path, {"apiVersion": version, "kind": kind, "metadata": metadata, **members})
    assert answer.status == 201, answer.body
    return answer.json()


async def volume(client: Client, name: str, size: str = "1Gi", labels: Any = None, **more: Any) -> Any:
    path = {"path": "/tmp/x"}
    spec = {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": path, **more}
    return await post(client, VOLUMES, "PersistentVolume", name, spec=spec, metadata={"labels": labels or {}})


async def claim(client: Client, name: str, size: str = "1Gi", **more: Any) -> Any:
    spec = {"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"], **more}
    return await post(client, CLAIMS, "PersistentVolumeClaim", name, spec=spec)


async def becomes(client: Client, path: str, phase: str) -> Any:
    for _ in range(1500):
        answer = await client.get(path)
        if answer.status == 200 and answer.json()["status"].get("phase") == phase:
            return answer.json()
        await asyncio.sleep(0)
    raise AssertionError(answer.json())


async def bound(client: Client, claim_name: str, volume_name: str) -> None:
    of_claim = await becomes(client, f"{CLAIMS}/{claim_name}", "Bound")
    of_volume = await becomes(client, f"{VOLUMES}/{volume_name}", "Bound")
    assert of_claim["spec"]["volumeName"] == volume_name
    assert of_volume["spec"]["claimRef"]["name"] == claim_name
    assert of_volume["spec"]["claimRef"]["uid"] == of_claim["metadata"]["uid"]
    assert of_claim["status"]["capacity"] == of_volume["spec"]["capacity"]
    assert of_claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"


async def tells(client: Client, reason: str, message: str) -> None:
    found: list[Any] = []
    for _ in range(1500):
        found = [(each["reason"], each["message"]) for each in (await client.get(EVENTS)).json()["items"]]
        if (reason, message) in found:
            return
        await asyncio.sleep(0)
    raise AssertionError(found)


async def gone(client: Client, path: str) -> None:
    for _ in range(1500):
        if (await client.get(path)).status == 404:
            return
        await asyncio.sleep(0)
    raise AssertionError(path)


async def remove(client: Client, path: str) -> None:
    """Delete an object whose finalizer no controller removes here."""
    await client.delete(path)
    await client.merge(path, {"metadata": {"finalizers": None}})
    await gone(client, path)


async def test_the_smallest_that_fits(client: Client) -> None:
    await volume(client, "large", "9Gi")
    await volume(client, "small", "2Gi")
    await becomes(client, f"{VOLUMES}/small", "Available")
    await claim(client, "c")
    await bound(client, "c", "small")
    await becomes(client, f"{VOLUMES}/large", "Available")


async def test_claims_that_wait(client: Client) -> None:
    for name in ("a", "b"):
        await claim(client, name)
    message = "no persistent volumes available for this claim and no storage class is set"
    await tells(client, "FailedBinding", message)
    await becomes(client, f"{CLAIMS}/a", "Pending")
    await volume(client, "one")
    await bound(client, "a", "one")
    await volume(client, "two")
    await bound(client, "b", "two")


async def test_a_selector(client: Client) -> None:
    await claim(client, "c", selector={"matchLabels": {"a": "b"}})
    await volume(client, "other", labels={"a": "c"})
    await volume(client, "mine", labels={"a": "b"})
    await bound(client, "c", "mine")


async def test_a_volume_that_is_reserved(client: Client) -> None:
    reference = {"namespace": "default", "name": "c"}
    await volume(client, "mine", "5Gi", claimRef=reference)
    await volume(client, "smaller")
    await claim(client, "other")
    await bound(client, "other", "smaller")
    await claim(client, "c")
    await bound(client, "c", "mine")
    assert "annotations" not in (await client.get(f"{VOLUMES}/mine")).json()["metadata"]


async def test_a_claim_that_names_its_volume(client: Client) -> None:
    await claim(client, "c", volumeName="mine")
    await claim(client, "large", "9Gi", volumeName="mine")
    await becomes(client, f"{CLAIMS}/c", "Pending")
    await volume(client, "mine")
    await bound(client, "c", "mine")
    await tells(client, "FailedBinding", 'volume "mine" already bound to a different claim.')
    await volume(client, "small")
    await claim(client, "too-large", "9Gi", volumeName="small")
    await tells(client, "VolumeMismatch", 'Cannot bind to requested volume "small": requested PV is too small')


async def test_a_volume_is_released(client: Client) -> None:
    await volume(client, "kept", persistentVolumeReclaimPolicy="Retain")
    await claim(client, "c")
    await bound(client, "c", "kept")
    await remove(client, f"{CLAIMS}/c")
    await becomes(client, f"{VOLUMES}/kept", "Released")
    # Without its reference, it is available again.
    await client.merge(f"{VOLUMES}/kept", {"spec": {"claimRef": None}})
    await becomes(client, f"{VOLUMES}/kept", "Available")


async def test_what_becomes_of_released_volumes(client: Client) -> None:
    await volume(client, "deleted", persistentVolumeReclaimPolicy="Delete")
    await claim(client, "c")
    await bound(client, "c", "deleted")
    await remove(client, f"{CLAIMS}/c")
    await gone(client, f"{VOLUMES}/deleted")
    await volume(client, "recycled", persistentVolumeReclaimPolicy="Recycle")
    await claim(client, "d")
    await bound(client, "d", "recycled")
    await remove(client, f"{CLAIMS}/d")
    await becomes(client, f"{VOLUMES}/recycled", "Available")
    await volume(client, "failed", "2Gi", persistentVolumeReclaimPolicy="Delete", hostPath={"path": "/data"})
    await claim(client, "e", "2Gi")
    await bound(client, "e", "failed")
    await remove(client, f"{CLAIMS}/e")
    found = await becomes(client, f"{VOLUMES}/failed", "Failed")
    assert found["status"]["message"] == "host_path deleter only supports /tmp/.+ but received provided /data"


async def test_a_claim_is_lost_with_its_volume(client: Client) -> None:
    await volume(client, "v")
    await claim(client, "c")
    await bound(client, "c", "v")
    await remove(client, f"{VOLUMES}/v")
    await becomes(client, f"{CLAIMS}/c", "Lost")
    await tells(client, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")


async def test_classes(client: Client) -> None:
    await claim(client, "c", storageClassName="slow")
    await tells(client, "ProvisioningFailed", 'storageclass.storage.k8s.io "slow" not found')
    await post(client, CLASSES, "StorageClass", "slow", provisioner="example.com/slow")
    for _ in range(1500):
        annotations = (await client.get(f"{CLAIMS}/c")).json()["metadata"].get("annotations", {})
        if "volume.kubernetes.io/storage-provisioner" in annotations:
            break
        await asyncio.sleep(0)
    assert annotations["volume.kubernetes.io/storage-provisioner"] == "example.com/slow"
    await volume(client, "v", storageClassName="slow")
    await bound(client, "c", "v")


async def test_a_default_class_that_comes_later(client: Client) -> None:
    await claim(client, "c")
    await becomes(client, f"{CLAIMS}/c", "Pending")
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    metadata = {"annotations": annotations}
    await post(client, CLASSES, "StorageClass", "usual", provisioner="example.com/x", metadata=metadata)
    await volume(client, "v", storageClassName="usual")
    await bound(client, "c", "v")


async def test_a_class_that_waits_for_a_pod(client: Client) -> None:
    await post(client, CLASSES, "StorageClass", "late", provisioner="example.com/x", volumeBindingMode="WaitForFirstConsumer")
    await volume(client, "v", storageClassName="late")
    await becomes(client, f"{VOLUMES}/v", "Available")
    await claim(client, "c", storageClassName="late")
    await tells(client, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    await becomes(client, f"{CLAIMS}/c", "Pending")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    await post(client, PODS, "Pod", "p", spec={"containers": [{"name": "c", "image": "i"}], "volumes": volumes})
    await bound(client, "c", "v")


async def test_half_of_a_binding(world: World, client: Client) -> None:
    """The server was killed after it had written the volume."""
    await world.stop()
    made = await claim(client, "c")
    reference = {"namespace": "default", "name": "c", "uid": made["metadata"]["uid"]}
    await volume(client, "v", claimRef=reference)
    world.start()
    await bound(client, "c", "v")


async def test_nothing_is_lost_at_a_start(world: World, client: Client) -> None:
    await volume(client, "v")
    await claim(client, "c")
    await bound(client, "c", "v")
    await world.stop()
    before = [(await client.get(path)).json()["metadata"]["resourceVersion"] for path in (f"{CLAIMS}/c", f"{VOLUMES}/v")]
    world.start()
    for _ in range(500):
        await asyncio.sleep(0)
    after = [(await client.get(path)).json()["metadata"]["resourceVersion"] for path in (f"{CLAIMS}/c", f"{VOLUMES}/v")]
    assert after == before
