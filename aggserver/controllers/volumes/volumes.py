"""VolumeProtection: removes the finalizer of a deleted PersistentVolume when no claim uses it.

Each volume is created with the finalizer kubernetes.io/pv-protection. As upstream, a volume is used while its phase is Bound. The
controller that changes phases may be turned off, so that nobody would change one that a client has written. Hence a Bound volume
is used only as long as the claim that it names exists.
Source: k8s.io/kubernetes pkg/controller/volume/{pvprotection,persistentvolume}, v1.36.3.
"""

from __future__ import annotations

import asyncio

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.volumes.finalizers import is_leaving, keep_finalizer, release
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import CallLater, call_later, in_turns
from aggserver.meta.json_types import JSONObject
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["VolumeProtection"]

FINALIZER = "kubernetes.io/pv-protection"
_STEPS = 1000  # volumes of one claim that are enqueued before other tasks run


class VolumeProtection:
    """`run` is the task."""

    def __init__(self, installer: Installer, storage: Storage, later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account("pv-protection-controller"))
        self._volumes = Informer(self._client.store("", "persistentvolumes"), self._sync, later)
        self._claims = Informer(self._client.store("", "persistentvolumeclaims"), self._look_again, later)
        # By the key of a claim, the deleted volumes that wait for its deletion.
        self._kept: dict[str, dict[str, None]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._volumes, self._claims):
                tasks.create_task(informer.run())

    async def _look_again(self, key: str, claim: JSONObject | None) -> float | None:
        if claim is None or key in self._kept:
            async for volume in in_turns(list(self._kept.pop(key, ())), _STEPS):
                self._volumes.enqueue(volume)
        return None

    async def _sync(self, name: str, volume: JSONObject | None) -> float | None:
        if volume is None:
            return None
        at = ObjectKey("", "persistentvolumes", "", name)
        if not is_leaving(volume, FINALIZER):
            await keep_finalizer(self._client, at, volume, FINALIZER)
        elif not await self._is_used(volume):
            await release(self._client, at, volume, FINALIZER)
        return None

    async def _is_used(self, volume: JSONObject) -> bool:
        reference = (volume.get("spec") or {}).get("claimRef") or {}
        if (volume.get("status") or {}).get("phase") != "Bound" or not reference.get("name"):
            return False
        claim = f"{reference.get('namespace', '')}/{reference['name']}"
        # Remember the volume before the claim is read, since the claim may be deleted right after.
        self._kept.setdefault(claim, {})[volume["metadata"]["name"]] = None
        found = await self._client.read(f"{keys.resource_prefix('', 'persistentvolumeclaims')}{claim}")
        return found is not None and reference.get("uid", "") in ("", found.metadata["uid"])
