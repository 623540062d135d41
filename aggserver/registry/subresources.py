"""ScaleStore and StatusStore: `/scale` and `/status` as views of a Store.

A Scale is never stored: it is read out of the object by the definition's paths, and written back into it. (`/status` is
the same Store under another strategy.)
Built by `apiextensions/serving.py`. Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go, v0.36.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.meta import codec, errors, field
from aggserver.meta.field import Path
from aggserver.registry.custom_resource import ScalePaths
from aggserver.registry.nested import NestedError, find_integer, find_string, put
from aggserver.registry.rest import Admit, Context, JSONObject, Transform, WriteOptions
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject

__all__ = ["ScaleStore", "StatusStore"]


class ScaleStore:
    """Getter and Updater of autoscaling/v1 Scale."""

    def __init__(self, store: Store, paths: ScalePaths) -> None:
        self._store = store
        self._paths = paths

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        obj = await self._store.get(context, name, resource_version)
        tree = obj.decoded()
        if self._spec_replicas(tree) is None:
            raise errors.internal_error(f'the spec replicas field "{self._paths.spec_replicas}" does not exist')
        return self._view(obj, tree)

    async def update(
        self, context: Context, name: str, transform: Transform, options: WriteOptions, admit: Admit | None = None
    ) -> StoredObject:
        async def on_parent(parent: JSONObject) -> JSONObject:
            scale = await transform(self._scale(parent))
            return self._apply(parent, scale)

        async def admit_scale(new: JSONObject | None, old: JSONObject | None) -> None:
            assert admit is not None
            await admit(new and self._scale(new), old and self._scale(old))

        written = await self._store.update(context, name, on_parent, options, None if admit is None else admit_scale)
        return self._view(written, written.decoded())

    def _apply(self, parent: JSONObject, scale: JSONObject) -> JSONObject:
        spec = scale.get("spec")
        replicas = spec.get("replicas") if isinstance(spec, dict) else None
        if replicas is None:
            raise errors.bad_request(f'the spec replicas field "{self._paths.spec_replicas}" cannot be empty')
        self._check(parent, scale, replicas)
        try:
            put(parent, self._paths.spec_replicas, replicas)
        except NestedError as error:
            raise errors.internal_error(str(error)) from None
        given = scale.get("metadata") or {}
        # The client's preconditions are the object's.
        for key in ("resourceVersion", "uid"):
            if given.get(key):
                parent["metadata"][key] = given[key]
        return parent

    def _check(self, parent: JSONObject, scale: JSONObject, replicas: Any) -> None:
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise errors.bad_request(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal "
                f"{'string' if isinstance(replicas, str) else 'number'} into Go struct field ScaleSpec.spec.replicas of type int32"
            )
        if replicas < 0:
            problem = field.invalid(Path("spec.replicas"), replicas, "must be greater than or equal to 0")
            raise errors.invalid("autoscaling", "Scale", parent["metadata"]["name"], [problem])

    def _view(self, obj: StoredObject, tree: JSONObject) -> StoredObject:
        return StoredObject(obj.key, codec.encode_json(self._scale(tree)), obj.revision)

    def _spec_replicas(self, tree: JSONObject) -> int | None:
        try:
            return find_integer(tree, self._paths.spec_replicas)
        except NestedError as error:
            raise errors.bad_request(str(error)) from None

    def _scale(self, tree: JSONObject) -> JSONObject:
        paths = self._paths
        try:
            status: JSONObject = {"replicas": find_integer(tree, paths.status_replicas) or 0}
            selector = find_string(tree, paths.label_selector) if paths.label_selector else None
        except NestedError as error:
            raise errors.bad_request(str(error)) from None
        if selector:
            status["selector"] = selector
        replicas = self._spec_replicas(tree)
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {key: tree["metadata"][key] for key in kept if key in tree["metadata"]},
            # omitempty leaves a zero out upstream too, as it does where the field is missing
            "spec": {"replicas": replicas} if replicas else {},
            "status": status,
        }


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
