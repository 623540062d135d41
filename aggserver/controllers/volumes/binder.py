"""VolumeBinder: binds PersistentVolumeClaims and PersistentVolumes to each other, and writes the phases of both.

As upstream, both sides of a binding are written, the volume first, and a half that was written before a crash is completed.
Unlike upstream, which looks at everything every 15 seconds, claims that wait are looked at when a volume becomes available or a
class changes. There is no scheduler: a claim of a class with WaitForFirstConsumer is bound, as any other, once a Pod names it.
Source: k8s.io/kubernetes pkg/controller/volume/persistentvolume, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aggserver.controllers.event_recorder import EventRecorder
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.pod_facts import Pod
from aggserver.controllers.pod_index import PodIndex
from aggserver.controllers.volumes import matching
from aggserver.controllers.volumes.matching import BIND_COMPLETED, annotations_of, claim_class, claim_ref_key, volume_class
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later, in_turns
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["VolumeBinder"]

_STEPS = 500  # volumes or claims that are looked at before other tasks run: about a millisecond
# Seconds that a new volume waits for others before the claims that wait are looked at, for each of these, and at most.
_WAIT, _LONGEST = 0.0002, 2.0
_COMPARED = 50_000  # volumes that are compared with selectors at once; the rest of the claims wait
_PROVISIONER = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class VolumeBinder:
    """`run` is the task. pods: followed once a class waits for Pods. clock: seconds since the epoch."""

    def __init__(
        self, installer: Installer, storage: Storage, pods: PodIndex, clock: Callable[[], float], later: CallLater = call_later
    ) -> None:
        self._client = InternalClient(installer, storage, service_account("persistent-volume-binder"))
        self._volumes = Informer(self._client.store("", "persistentvolumes"), self._sync_volume, later)
        self._claims = Informer(self._client.store("", "persistentvolumeclaims"), self._sync_claim, later)
        self._classes = Informer(self._client.store("storage.k8s.io", "storageclasses"), self._class_changed, later)
        self._looks = WorkQueue("claims of the class", self._look, later)
        self._events = EventRecorder(self._client, "persistentvolume-controller", clock)
        self._pods = pods
        self._needs_pods = asyncio.Event()
        self._available = matching.AvailableVolumes()
        self._named: dict[str, dict[str, None]] = {}  # the names of volumes by the key of the claim that they name
        self._names: dict[str, str] = {}  # the key of the claim by the volume that names it
        self._claims_of: dict[str, dict[str, None]] = {}  # the keys of claims by the volume that they name
        self._volume_of: dict[str, str] = {}  # the name of the volume by the key of the claim that names it
        self._waiting: dict[str, dict[str, None]] = {}  # the keys of claims that wait for a volume, by their class
        self._waits: dict[str, str] = {}  # the class by the key of the claim
        self._lock = asyncio.Lock()  # a volume and its claim are never looked at both at a time
        pods.listen(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._classes.run())
            await self._classes.caught_up()
            tasks.create_task(self._follow_pods())
            tasks.create_task(self._volumes.run())
            await self._volumes.caught_up()  # else a claim would seem lost whose volume is not known yet
            tasks.create_task(self._claims.run())
            tasks.create_task(self._looks.run())

    async def _follow_pods(self) -> None:
        await self._needs_pods.wait()
        await self._pods.run()

    async def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None and after.claims and (before is None or before.claims != after.claims):
            for claim in after.claims:
                if f"{after.namespace}/{claim}" in self._claims.objects:
                    self._claims.enqueue(f"{after.namespace}/{claim}")

    async def _class_changed(self, name: str, found: JSONObject | None) -> float | None:
        for each in {name, *([""] if found is not None and _is_default(found) else ())}:
            async for key in in_turns(list(self._waiting.get(each, ())), _STEPS):
                self._claims.enqueue(key)
        return None

    # --- claims ---

    async def _sync_claim(self, key: str, claim: JSONObject | None) -> float | None:
        async with self._lock:
            self._wait(key, None)
            _move(self._volume_of, self._claims_of, key, (claim["spec"].get("volumeName") or "") if claim is not None else "")
            if claim is None:
                for name in list(self._named.get(key, ())):
                    self._volumes.enqueue(name)
            elif BIND_COMPLETED in annotations_of(claim):
                await self._check_bound(claim)
            elif claim["spec"].get("volumeName"):
                await self._bind_to_named(claim, claim["spec"]["volumeName"])
            else:
                await self._bind_to_any(key, claim)
        return None

    def _wait(self, key: str, of_class: str | None) -> None:
        """Remember the class of a claim that waits for a volume, None for one that does not."""
        before = self._waits.pop(key, None)
        if before is not None:
            del self._waiting[before][key]
            if not self._waiting[before]:
                del self._waiting[before]
        if of_class is not None:
            self._waits[key] = of_class
            self._waiting.setdefault(of_class, {})[key] = None

    async def _bind_to_any(self, key: str, claim: JSONObject) -> None:
        name = claim_class(claim) or ""
        found = self._classes.objects.get(name) if name else None
        is_delayed = found is not None and found.get("volumeBindingMode") == "WaitForFirstConsumer"
        if is_delayed:
            self._needs_pods.set()
            await self._pods.caught_up()
        has_user = is_delayed and bool(self._pods.users(key))
        volume = await self._best(key, claim, only_reserved=is_delayed and not has_user)
        if volume is not None:
            await self._bind(volume, claim)
            return
        default = self._default_class() if claim_class(claim) is None else None
        if default is not None:
            await self._update_claim(claim, {**claim, "spec": {**claim["spec"], "storageClassName": default}})
            return
        self._wait(key, name)
        if is_delayed and not has_user and _SELECTED_NODE not in annotations_of(claim):
            message = "waiting for first consumer to be created before binding"
            await self._events.tell(claim, "WaitForFirstConsumer", message)
        elif name:
            await self._provision(claim, name, found)
            return
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            await self._events.tell(claim, "FailedBinding", message)
        await self._set_claim_phase(claim, "Pending", None)

    async def _best(self, key: str, claim: JSONObject, *, only_reserved: bool = False) -> JSONObject | None:
        """The volume that a claim gets: one that names it, or else the best that is available."""
        for name in self._named.get(key, ()):
            reserved = self._volumes.objects.get(name)
            if reserved is not None and matching.is_bound_to(reserved, claim) and matching.fits_reserved(reserved, claim):
                return reserved
        candidates = () if only_reserved else self._available.candidates(claim)
        if "selector" not in claim["spec"]:
            best = next(iter(candidates), None)
            return None if best is None else self._volumes.objects.get(best)
        # In a thread: a selector may have thousands of terms.
        selector = await asyncio.to_thread(matching.selector_of, claim)
        if selector is None:
            return None
        weight = _weight(claim)
        async for name in in_turns(list(candidates), _STEPS, lambda name: weight):
            volume = self._volumes.objects.get(name)
            if volume is not None and selector.matches(volume["metadata"].get("labels") or {}):
                return volume
        return None

    async def _provision(self, claim: JSONObject, name: str, found: JSONObject | None) -> None:
        if found is None:
            await self._events.warn(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
            return
        provisioner = found.get("provisioner") or ""
        if provisioner.startswith("kubernetes.io/"):
            await self._events.warn(claim, "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
            return
        annotations = annotations_of(claim)
        if any(annotations.get(each) != provisioner for each in _PROVISIONER):
            metadata = {**claim["metadata"], "annotations": {**annotations, **dict.fromkeys(_PROVISIONER, provisioner)}}
            claim = await self._update_claim(claim, {**claim, "metadata": metadata})
        message = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system "
            "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
            "registered."
        )
        await self._events.tell(claim, "ExternalProvisioning", message)

    def _default_class(self) -> str | None:
        """The newest default class, of those of one time the first by name."""
        found = [each["metadata"] for each in self._classes.objects.values() if _is_default(each)]
        found.sort(key=lambda metadata: metadata["name"])
        newest = max(found, key=lambda metadata: metadata.get("creationTimestamp") or "", default=None)
        return None if newest is None else str(newest["name"])

    async def _bind_to_named(self, claim: JSONObject, name: str) -> None:
        volume = self._volumes.objects.get(name)
        if volume is None:
            await self._set_claim_phase(claim, "Pending", None)
        elif not volume["spec"].get("claimRef"):
            if why := matching.mismatch(volume, claim):
                await self._events.warn(claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {why}')
                await self._set_claim_phase(claim, "Pending", None)
            else:
                await self._bind(volume, claim)
        elif matching.is_bound_to(volume, claim):
            await self._bind(volume, claim)
        else:
            await self._events.warn(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.')
            await self._set_claim_phase(claim, "Pending", None)

    async def _check_bound(self, claim: JSONObject) -> None:
        name = claim["spec"].get("volumeName")
        volume = self._volumes.objects.get(name) if name else None
        if not name:
            message = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
            await self._lose(claim, "ClaimLost", message)
        elif volume is None:
            await self._lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
        elif not volume["spec"].get("claimRef") or volume["spec"]["claimRef"].get("uid") == claim["metadata"]["uid"]:
            await self._bind(volume, claim)
        else:
            message = "Two claims are bound to the same volume, this one is bound incorrectly"
            await self._lose(claim, "ClaimMisbound", message)

    async def _lose(self, claim: JSONObject, reason: str, message: str) -> None:
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._set_claim_phase(claim, "Lost", None)
            await self._events.warn(claim, reason, message)

    async def _bind(self, volume: JSONObject, claim: JSONObject) -> None:
        changed = matching.bound_volume(volume, claim)
        if changed is not None:
            volume = await self._update_volume(volume, changed)
        volume = await self._set_volume_phase(volume, "Bound")
        bound = matching.bound_claim(claim, volume["metadata"]["name"])
        if bound is not None:
            claim = await self._update_claim(claim, bound)
        await self._set_claim_phase(claim, "Bound", volume)
        self._look_soon(volume_class(volume))

    # --- volumes ---

    async def _sync_volume(self, name: str, volume: JSONObject | None) -> float | None:
        async with self._lock:
            self._place(name, volume)
            for claim in self._claims_of.get(name, ()):
                known = self._claims.objects.get(claim)
                if volume is None or (known is not None and (known.get("status") or {}).get("phase") != "Bound"):
                    self._claims.enqueue(claim)
            if volume is None:
                return None
            key = claim_ref_key(volume)
            if not key:
                await self._set_volume_phase(volume, "Available")
            elif not volume["spec"]["claimRef"].get("uid"):
                await self._set_volume_phase(volume, "Available")
                if key in self._claims.objects:
                    self._claims.enqueue(key)
            else:
                await self._check_claim(name, volume, key)
        return None

    async def _check_claim(self, name: str, volume: JSONObject, key: str) -> None:
        claim = await self._claim(key, volume["spec"]["claimRef"]["uid"])
        if claim is None:
            if (volume.get("status") or {}).get("phase") not in ("Released", "Failed"):
                volume = await self._set_volume_phase(volume, "Released")
            await self._reclaim(volume)
        elif not claim["spec"].get("volumeName"):
            if (claim["spec"].get("volumeMode") or "Filesystem") != (volume["spec"].get("volumeMode") or "Filesystem"):
                to = f'to requested PersistentVolumeClaim "{key.partition("/")[2]}" due to incompatible volumeMode.'
                await self._events.warn(volume, "VolumeMismatch", f"Cannot bind PersistentVolume {to}")
                to = f'"{name}" to requested PersistentVolumeClaim due to incompatible volumeMode.'
                await self._events.warn(claim, "VolumeMismatch", f"Cannot bind PersistentVolume {to}")
            else:
                self._claims.enqueue(key)
        elif claim["spec"]["volumeName"] == name:
            await self._set_volume_phase(volume, "Bound")
        else:
            changed = await self._update_volume(volume, matching.unbound_volume(volume))
            await self._set_volume_phase(changed, "Available")

    async def _claim(self, key: str, uid: str) -> JSONObject | None:
        """The claim with this key and uid. The informer may not have a new one yet."""
        known = self._claims.objects.get(key)
        if known is None or known["metadata"]["uid"] != uid:
            known = await self._client.read_whole(f"{keys.resource_prefix('', 'persistentvolumeclaims')}{key}")
        return known if known is not None and known["metadata"]["uid"] == uid else None

    async def _reclaim(self, volume: JSONObject) -> None:
        action, reason, message = matching.reclaim(volume)
        if action == "Delete":
            try:
                await self._client.delete(_of_volume(volume), DeleteOptions(uid=volume["metadata"]["uid"]))
            except StatusError as error:
                if error.code != 404:
                    raise
        elif action == "Recycle":
            await self._events.tell(volume, "VolumeRecycled", "Volume recycled")
            changed = await self._update_volume(volume, matching.unbound_volume(volume))
            await self._set_volume_phase(changed, "Available")
        elif action == "Fail" and (volume.get("status") or {}).get("phase") != "Failed":
            failed = await self._set_volume_phase(volume, "Failed", message)
            await self._events.warn(failed, reason, message)

    def _place(self, name: str, volume: JSONObject | None) -> None:
        """Remember what claim a volume names, and whether it is available."""
        _move(self._names, self._named, name, claim_ref_key(volume) if volume is not None else "")
        if self._available.put(name, volume) and volume is not None:
            self._look_soon(volume_class(volume))

    # --- claims that wait ---

    def _look_soon(self, of_class: str) -> None:
        waiting = len(self._waiting.get(of_class, ()))
        if waiting:
            self._looks.add(of_class, within=min(_LONGEST, _WAIT * waiting))

    async def _look(self, of_class: str) -> float | None:
        """Have claims looked at that can have one of the volumes which are available, as many as there are volumes."""
        left, compared = self._available.count(of_class), 0
        async for key in in_turns(list(self._waiting.get(of_class, ())), _STEPS):
            claim = self._claims.objects.get(key)
            if left <= 0 or claim is None:
                continue
            if compared > _COMPARED:
                return _LONGEST
            if "selector" not in claim["spec"]:
                can_have = next(iter(self._available.candidates(claim)), None) is not None
            else:
                compared += left * _weight(claim)
                can_have = await self._best(key, claim) is not None
            if can_have:
                left -= 1
                self._claims.enqueue(key)
            elif self._waits.get(key) == of_class:
                self._wait(key, of_class)  # behind the others, which are compared first the next time
        return None

    # --- writing ---

    async def _update_volume(self, volume: JSONObject, changed: JSONObject, subresource: str = "") -> JSONObject:
        written = await self._write(_of_volume(volume), volume, changed, subresource)
        self._volumes.put_written(written)
        self._place(written["metadata"]["name"], written)
        return written

    async def _set_volume_phase(self, volume: JSONObject, phase: str, message: str = "") -> JSONObject:
        status = volume.get("status") or {}
        if status.get("phase") == phase:
            return volume
        kept = {name: value for name, value in status.items() if name != "message"}
        changed = {**kept, "phase": phase, **({"message": message} if message else {})}
        return await self._update_volume(volume, {**volume, "status": changed}, "status")

    async def _update_claim(self, claim: JSONObject, changed: JSONObject, subresource: str = "") -> JSONObject:
        metadata = claim["metadata"]
        at = ObjectKey("", "persistentvolumeclaims", metadata["namespace"], metadata["name"])
        written = await self._write(at, claim, changed, subresource)
        self._claims.put_written(written)
        return written

    async def _set_claim_phase(self, claim: JSONObject, phase: str, volume: JSONObject | None) -> None:
        status = matching.claim_status(claim, phase, volume)
        if status is not None:
            await self._update_claim(claim, {**claim, "status": status}, "status")

    async def _write(self, at: ObjectKey, obj: JSONObject, changed: JSONObject, subresource: str) -> JSONObject:
        """Write an object, or its status. Raises StatusError 409 if it was changed since it was read."""

        async def new(current: JSONObject) -> JSONObject:
            copy: JSONObject = codec.decode_stored(codec.encode_json(changed))
            return copy

        uid = obj["metadata"]["uid"]
        return (await self._client.update(at, new, uid=uid, subresource=subresource, of_metadata=False)).decoded()


def _weight(claim: JSONObject) -> int:
    """How many volumes a comparison with the claim's selector counts as."""
    selector = claim["spec"].get("selector") or {}
    return 1 + (len(selector.get("matchLabels") or ()) + len(selector.get("matchExpressions") or ())) // 5


def _of_volume(volume: JSONObject) -> ObjectKey:
    return ObjectKey("", "persistentvolumes", "", volume["metadata"]["name"])


def _is_default(found: JSONObject) -> bool:
    return any(annotations_of(found).get(each) == "true" for each in _DEFAULT)


def _move(places: dict[str, str], members: dict[str, dict[str, None]], name: str, place: str) -> None:
    """Put a name to a place, '' for none. places: by name. members: by place."""
    before = places.pop(name, "")
    if before:
        del members[before][name]
        if not members[before]:
            del members[before]
    if place:
        places[name] = place
        members.setdefault(place, {})[name] = None
