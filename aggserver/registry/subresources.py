"""ScaleStore and StatusStore: `/scale` and `/status` as views of a Store.

A Scale is never stored: it is read out of the object by the definition's paths, and written back into it. (`/status` is
the same Store under another strategy.)
Built by `apiextensions/serving.py`. Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.custom_resource import ScalePaths
from aggserver.registry.nested import NestedError, find_integer, find_string, put
from aggserver.registry.rest import Admit, Context, Transform, WriteOptions
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["ScaleStore", "StatusStore"]

_SCALE = lookup("autoscaling/v1.Scale")
# Stands for a spec.replicas that is not set, so that a patch which leaves it so is seen: the least int32, as upstream.
_UNSET = -(1 << 31)


class ScaleStore:
    """Getter and Updater of autoscaling/v1 Scale."""

    def __init__(self, store: Store, paths: ScalePaths) -> None:
        self._store = store
        self._paths = paths

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        obj = await self._store.get(context, name, resource_version)
        tree = obj.decoded()
        with _failing():
            if find_integer(tree, self._paths.spec_replicas) is None:
                raise errors.internal_error(f'the spec replicas field "{self._paths.spec_replicas}" does not exist')
        return self._view(obj, tree)

    async def update(
        self, context: Context, name: str, transform: Transform, options: WriteOptions, admit: Admit | None = None
    ) -> StoredObject:
        async def on_parent(parent: JSONObject) -> JSONObject:
            return self._apply(parent, await transform(self._scale(parent, unset=_UNSET)))

        async def admit_scale(new: JSONObject | None, old: JSONObject | None) -> None:
            assert admit is not None
            await admit(new and self._scale(new), old and self._scale(old))

        written = await self._store.update(context, name, on_parent, options, None if admit is None else admit_scale)
        return self._view(written, written.decoded())

    def _apply(self, parent: JSONObject, scale: JSONObject) -> JSONObject:
        replicas = _replicas(scale)
        if replicas == _UNSET:
            raise errors.bad_request(f'the spec replicas field "{self._paths.spec_replicas}" cannot be empty')
        with _failing():
            put(parent, self._paths.spec_replicas, replicas)
        given = (scale.get("metadata") or {}).get("resourceVersion")
        if given:
            # The client's precondition is the object's.
            parent["metadata"]["resourceVersion"] = given
        return parent

    def _view(self, obj: StoredObject, tree: JSONObject) -> StoredObject:
        return StoredObject(obj.key, codec.encode_json(self._scale(tree)), obj.revision)

    def _scale(self, tree: JSONObject, unset: int = 0) -> JSONObject:
        """unset: what stands for a spec.replicas that is not there."""
        paths = self._paths
        with _failing():
            replicas = find_integer(tree, paths.spec_replicas)
            status: JSONObject = {"replicas": find_integer(tree, paths.status_replicas) or 0}
            selector = find_string(tree, paths.label_selector) if paths.label_selector else None
        if selector:
            status["selector"] = selector
        shown = unset if replicas is None else replicas
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: tree["metadata"][key] for key in kept if key in tree["metadata"]},
            # omitempty leaves a zero out upstream too
            "spec": {"replicas": shown} if shown else {},
            "status": status,
        }


def _replicas(scale: JSONObject) -> int:
    """spec.replicas as Go's decoder has it: 0 where it is missing, which is how Go's clients write a zero."""
    if why := decode_error(scale, _SCALE):
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {why}')
    replicas: int | None = (scale.get("spec") or {}).get("replicas")
    return replicas or 0


@contextmanager
def _failing() -> Iterator[None]:
    """An object whose paths lead elsewhere: upstream fails with the bare text."""
    try:
        yield
    except NestedError as error:
        raise errors.StatusError(500, "", str(error)) from None


class StatusStore:
    """Getter and Updater of `/status`: the Store under the status strategy, with nothing but these two verbs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        return await self._store.get(context, name, resource_version)

    async def update(
        self, context: Context, name: str, transform: Transform, options: WriteOptions, admit: Admit | None = None
    ) -> StoredObject:
        return await self._store.update(context, name, transform, options, admit)
