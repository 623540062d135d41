"""AttributesClassProtection: removes the finalizer of a deleted VolumeAttributesClass when no volume and no claim names it.

Each class is created with the finalizer kubernetes.io/vac-protection.
Source: k8s.io/kubernetes pkg/controller/volume/vacprotection, v1.36.3.
"""

from __future__ import annotations

import asyncio
from functools import partial

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.volumes.finalizers import is_leaving, keep_finalizer, release
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import CallLater, call_later
from aggserver.meta.json_types import JSONObject
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["AttributesClassProtection"]

FINALIZER = "kubernetes.io/vac-protection"
_GROUP, _RESOURCE = "storage.k8s.io", "volumeattributesclasses"


class AttributesClassProtection:
    """`run` is the task."""

    def __init__(self, installer: Installer, storage: Storage, later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account("volumeattributesclass-protection-controller"))
        self._classes = Informer(self._client.store(_GROUP, _RESOURCE), self._sync, later)
        self._named_by = [
            Informer(self._client.store("", resource), partial(self._look_again, resource), later)
            for resource in ("persistentvolumes", "persistentvolumeclaims")
        ]
        # By class, the volumes and claims that name it, as (resource, key); and by these, the classes.
        self._users: dict[str, set[tuple[str, str]]] = {}
        self._used: dict[tuple[str, str], set[str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._classes, *self._named_by):
                tasks.create_task(informer.run())

    async def _look_again(self, resource: str, key: str, obj: JSONObject | None) -> float | None:
        user, named = (resource, key), set() if obj is None else _classes(obj)
        before = self._used.pop(user, set())
        if named:
            self._used[user] = named
        for name in named - before:
            self._users.setdefault(name, set()).add(user)
        for name in before - named:
            self._users[name].discard(user)
            if not self._users[name]:
                del self._users[name]
                self._classes.enqueue(name)
        return None

    async def _sync(self, name: str, made: JSONObject | None) -> float | None:
        if made is None:
            return None
        at = ObjectKey(_GROUP, _RESOURCE, "", name)
        if not is_leaving(made, FINALIZER):
            await keep_finalizer(self._client, at, made, FINALIZER)
            return None
        for informer in self._named_by:
            await informer.caught_up()
        if name not in self._users:
            await release(self._client, at, made, FINALIZER)
        return None


def _classes(obj: JSONObject) -> set[str]:
    """The classes that a volume or a claim names, as wanted, as it is, and as it is being made."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    modified = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    found = (spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), modified)
    return {name for name in found if name}
