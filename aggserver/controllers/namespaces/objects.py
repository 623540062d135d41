"""NamespaceObjects: creates an object in each namespace from its beginning, and restores it when it is deleted or changed.

There are two: the ServiceAccount `default`, and the ConfigMap `kube-root-ca.crt` with the CA by which clients in the namespace
verify the server. They are looked up by their keys, so that nothing is loaded or compiled where they exist.
Source: k8s.io/kubernetes pkg/controller/serviceaccount/serviceaccounts_controller.go, pkg/controller/certificates/
rootcacertpublisher/publisher.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from aggserver.authentication.user import UserInfo
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import RETRY, CallLater, call_later
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.store import Store
from aggserver.storage import keys
from aggserver.storage.interface import Event, Storage, StorageError, Subscription
from aggserver.storage.keys import ObjectKey

__all__ = ["NamespaceObject", "NamespaceObjects", "default_service_account", "root_ca"]

# Upstream's annotation, which tools show.
_DESCRIPTION = "kubernetes.io/description"
_ABOUT_ROOT_CA = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal "
    "service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


@dataclass(frozen=True, slots=True)
class NamespaceObject:
    """An object that each namespace has. resource: its plural, of the core group. user: the one who creates it.

    content: the members that the object must have, besides apiVersion, kind and metadata. annotations: those it must have.
    """

    resource: str
    kind: str
    name: str
    user: UserInfo
    content: JSONObject = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    def made(self, namespace: str) -> JSONObject:
        metadata: JSONObject = {"name": self.name, "namespace": namespace}
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        return {"apiVersion": "v1", "kind": self.kind, "metadata": metadata, **self.content}

    def is_right(self, obj: JSONObject) -> bool:
        annotations = obj["metadata"].get("annotations") or {}
        return all(obj.get(key) == value for key, value in self.content.items()) and all(map(annotations.get, self.annotations))

    def corrected(self, obj: JSONObject) -> JSONObject:
        metadata = obj["metadata"]
        if self.annotations:
            metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **self.annotations}}
        return {**obj, **self.content, "metadata": metadata}


def default_service_account() -> NamespaceObject:
    return NamespaceObject("serviceaccounts", "ServiceAccount", "default", service_account("service-account-controller"))


def root_ca(bundle: str) -> NamespaceObject:
    """The ConfigMap with the server's CA. bundle: PEM."""
    return NamespaceObject(
        "configmaps",
        "ConfigMap",
        "kube-root-ca.crt",
        service_account("root-ca-cert-publisher"),
        {"data": {"ca.crt": bundle}},
        {_DESCRIPTION: _ABOUT_ROOT_CA},
    )


class NamespaceObjects:
    """The controller; `run` is its task. wanted: the object that each namespace must have. namespaces: their store."""

    def __init__(
        self, wanted: NamespaceObject, namespaces: Store, installer: Installer, storage: Storage, later: CallLater = call_later
    ) -> None:
        self._wanted = wanted
        self._storage = storage
        self._later = later
        self._client = InternalClient(installer, storage, wanted.user)
        self._informer = Informer(namespaces, self._sync, later)
        self._prefix = keys.resource_prefix("", wanted.resource)
        self._suffix = f"/{wanted.name}"
        self._subscription: Subscription | None = None
        self._lost = asyncio.Event()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._informer.run())
                tasks.create_task(self._follow())
        finally:
            if self._subscription is not None:
                self._subscription.close()

    async def _sync(self, namespace: str, obj: JSONObject | None) -> float | None:
        if obj is None or "deletionTimestamp" in obj["metadata"]:
            return None
        wanted = self._wanted
        found = await self._client.read_whole(f"{self._prefix}{namespace}{self._suffix}")
        if found is not None and wanted.is_right(found):
            return None

        async def corrected(current: JSONObject) -> JSONObject:
            return wanted.corrected(current)

        try:
            if found is None:
                await self._client.create("", wanted.resource, wanted.made(namespace))
            else:
                await self._client.update(ObjectKey("", wanted.resource, namespace, wanted.name), corrected, of_metadata=False)
        except StatusError as error:
            # The namespace has been deleted, or somebody else has just written the object.
            if error.code not in (404, 409) and not any(cause.reason == "NamespaceTerminating" for cause in error.causes):
                raise
        return None

    # --- deletions and changes of the object, by a watch of the storage ---

    async def _follow(self) -> None:
        pauses = RETRY.pauses()
        while True:
            self._lost.clear()
            try:
                self._subscription = await self._storage.watch(self._prefix, await self._storage.revision(), self)
                pauses = RETRY.pauses()
            except StorageError:
                over = asyncio.Event()
                self._later(next(pauses), over.set)
                await over.wait()
                continue
            # Check all namespaces, since changes may have been missed while there was no watch.
            for namespace in self._informer.objects:
                self._informer.enqueue(namespace)
            await self._lost.wait()

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink."""
        for event in batch:
            if event.key.endswith(self._suffix):
                self._informer.enqueue(keys.split(event.key).namespace)

    def lost(self, error: StorageError) -> None:
        """As the store's sink."""
        self._subscription = None
        self._lost.set()
