"""ClaimProtection: removes the finalizer of a deleted PersistentVolumeClaim when no Pod uses it.

Each claim is created with the finalizer kubernetes.io/pvc-protection. As upstream, a claim is used by the Pods that name it and
are bound to a node: the kubelet starts no other Pod with a claim that is being deleted. Before finalizers are removed, the Pods
are read again, once for all waiting claims of a namespace.
Source: k8s.io/kubernetes pkg/controller/volume/pvcprotection, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.volumes.finalizers import is_leaving, keep_finalizer, release
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import ALL, CONTROLLER, Informer, TransformingInformer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later, in_turns
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["ClaimProtection"]

FINALIZER = "kubernetes.io/pvc-protection"
_TOGETHER = 100  # claims that are decided by one read of a namespace's Pods; further ones wait for the next read
_STEPS = 1000  # volumes, or claims, that are processed before other tasks run
_DECODED = 256 * 1024  # bytes of Pods that are decoded before other tasks run: some milliseconds
_METADATA = ("namespace", "name", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_SOON = 1.0  # seconds until a claim is checked again whose Pod the watch has not delivered yet, or is gone since


class ClaimProtection:
    """`run` is the task."""

    def __init__(self, installer: Installer, storage: Storage, later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account("pvc-protection-controller"))
        self._pod_store = self._client.store("", "pods")
        self._claims = Informer(self._client.store("", "persistentvolumeclaims"), self._sync_claim, later)
        self._pods = TransformingInformer(self._pod_store, _kept, self._sync_pod, later)
        self._namespaces = WorkQueue("claims of the namespace", self._look, later)
        # By namespace, the names of deleted claims to check; and by Pod, the keys of claims that it used when it was last seen.
        self._waiting: dict[str, dict[str, None]] = {}
        self._used: dict[str, set[str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self._claims.run, self._pods.run, self._namespaces.run):
                tasks.create_task(part())

    async def _sync_claim(self, key: str, claim: JSONObject | None) -> float | None:
        if claim is None:
            return None
        if is_leaving(claim, FINALIZER):
            self._wait(key)
        else:
            await keep_finalizer(self._client, _at(key), claim, FINALIZER)
        return None

    async def _sync_pod(self, key: str, pod: JSONObject | None) -> float | None:
        """Check the deleted claims that a Pod does not use any more."""
        used = set[str]()
        if pod is not None:
            async for volume in in_turns(_volumes(pod), _STEPS):
                used.add(_claim_of(pod, volume, self._claims.objects))
        used.discard("")
        before = self._used.pop(key, set())
        if used:
            self._used[key] = used
        async for claim in in_turns(before - used, _STEPS):
            known = self._claims.objects.get(claim)
            if known is not None and is_leaving(known, FINALIZER):
                self._wait(claim)
        return None

    def _wait(self, claim: str) -> None:
        namespace, _, name = claim.partition("/")
        self._waiting.setdefault(namespace, {})[name] = None
        self._namespaces.add(namespace)

    async def _look(self, namespace: str) -> float | None:
        waiting = [f"{namespace}/{name}" for name in self._waiting.pop(namespace, ())]
        async for key in in_turns(waiting[_TOGETHER:], _STEPS):
            self._wait(key)
        known = {key: claim for key in waiting[:_TOGETHER] if (claim := self._claims.objects.get(key)) is not None}
        claims = {key: claim for key, claim in known.items() if is_leaving(claim, FINALIZER)}
        users = await self._users(namespace, claims)
        unused = {key: claim for key, claim in claims.items() if key not in users}
        releases = (release(self._client, _at(key), claim, FINALIZER) for key, claim in unused.items())
        done = await asyncio.gather(*releases, return_exceptions=True)
        errors = {key: error for key, error in zip(unused, done, strict=True) if error is not None}
        again = [*errors, *(key for key, is_followed in users.items() if not is_followed)]
        for key in again:
            self._waiting.setdefault(namespace, {})[key.partition("/")[2]] = None
        for error in errors.values():
            raise error
        return _SOON if again else None

    async def _users(self, namespace: str, claims: Mapping[str, JSONObject]) -> dict[str, bool]:
        """The keys of those claims that a Pod uses, each with whether the watch will show the end of that use."""
        found: dict[str, bool] = {}
        listed = (await self._pod_store.list(Context(CONTROLLER, namespace), ALL)).items
        async for item in in_turns(listed, _DECODED, lambda item: len(item.raw)):
            pod = item.decoded()
            for volume in _volumes(pod):
                claim = _claim_of(pod, volume, claims)
                if claim in claims:
                    found[claim] = self._follow(pod, claim) or found.get(claim, False)
        return found

    def _follow(self, pod: JSONObject, claim: str) -> bool:
        """Remember that a Pod uses a claim. Returns False if the watch has not delivered the Pod, or the Pod is gone since."""
        metadata = pod["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        known = self._pods.objects.get(key)
        if known is None or known["metadata"]["uid"] != metadata["uid"]:
            return False
        self._used.setdefault(key, set()).add(claim)
        return True


def _at(key: str) -> ObjectKey:
    namespace, _, name = key.partition("/")
    return ObjectKey("", "persistentvolumeclaims", namespace, name)


def _kept(pod: JSONObject) -> JSONObject:
    """What is kept of a Pod: whose claims it uses. As a whole it would take ten times its bytes."""
    metadata = {name: pod["metadata"][name] for name in _METADATA if name in pod["metadata"]}
    volumes = [each for each in _volumes(pod) if "persistentVolumeClaim" in each or "ephemeral" in each]
    return {"metadata": metadata, "spec": {"nodeName": pod["spec"].get("nodeName", ""), "volumes": volumes}}


def _volumes(pod: JSONObject) -> Sequence[JSONObject]:
    """The volumes of a Pod that is bound to a node; none of any other Pod."""
    spec = pod["spec"]
    return (spec.get("volumes") or ()) if spec.get("nodeName") else ()


def _claim_of(pod: JSONObject, volume: JSONObject, claims: Mapping[str, JSONObject]) -> str:
    """The key of the claim that a volume of the Pod uses, '' if none. claims: by key, to find the owner of an ephemeral one."""
    metadata = pod["metadata"]
    if (source := volume.get("persistentVolumeClaim")) is not None:
        return f"{metadata['namespace']}/{source['claimName']}"
    # The kubelet is done with a Pod whose grace period is over, and a finalizer of that Pod may wait for the claim's deletion.
    is_shut_down = "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0
    if "ephemeral" in volume and not is_shut_down:
        key = f"{metadata['namespace']}/{metadata['name']}-{volume['name']}"
        owners = claims.get(key, {}).get("metadata", {}).get("ownerReferences") or ()
        if any(each.get("controller") and each["uid"] == metadata["uid"] for each in owners):
            return key
    return ""
