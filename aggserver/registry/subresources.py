"""ScaleStore and StatusStore: `/scale` and `/status` as views of a Store.

A Scale is never stored: it is read from the object, at the paths that the definition names, and written back to them. `/status`
is a Store of the same objects with another strategy.
Source: k8s.io/apiextensions-apiserver pkg/registry/customresource/etcd.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from aggserver.merge import go_types
from aggserver.merge.managed_fields import FieldManager, set_entries
from aggserver.merge.managers import no_other_version
from aggserver.merge.scale_owners import ScaleOwners
from aggserver.meta import codec, errors, field
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.registry import preparation
from aggserver.registry.custom_resource import ScalePaths
from aggserver.registry.nested import NestedError, find_integer, find_string, put
from aggserver.registry.rest import (
    Admission,
    ApplyConfiguration,
    Context,
    Object,
    Transform,
    WriteRequest,
    Written,
)
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.write import APPLIED_TO_PART, PART_CHANGED
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = ["ScaleStore", "StatusStore"]

_TYPE = "autoscaling/v1.Scale"
_SCALE = lookup(_TYPE)
_FIELDS = FieldManager("autoscaling/v1", "Scale", lambda api_version: go_types.of_type(_TYPE), no_other_version, "scale")

# Stands for an unset spec.replicas in the Scale that is patched, so that a patch which doesn't set it is noticed. The least
# int32, as upstream.
_UNSET = -(1 << 31)


class ScaleStore:
    """Getter, Updater and Applier of autoscaling/v1 Scale.

    store: the parent's, without a field manager: the parent's managedFields are computed from the Scale's by `owners`.
    selector: reads the selector of a built-in kind, whose text is not at a path.
    """

    def __init__(
        self, store: Store, paths: ScalePaths, owners: ScaleOwners, selector: Callable[[JSONObject], str] | None = None
    ) -> None:
        self._store = store
        self._paths = paths
        self._owners = owners
        self._selector = selector

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        obj = await self._store.get(context, name, resource_version)
        tree = obj.decoded()
        with _failing():
            if find_integer(tree, self._paths.spec_replicas) is None:
                raise errors.internal_error(f'the spec replicas field "{self._paths.spec_replicas}" does not exist')
        return self._view(obj, tree)

    async def update(self, request: WriteRequest, name: str, transform: Transform) -> Written:
        async def make(old: JSONObject, copy: JSONObject) -> JSONObject:
            scale = await transform(copy)
            scale["metadata"] = dict(scale["metadata"])
            _FIELDS.update(old, scale, request.options.field_manager, self._store.now())
            return scale

        return await self._write(request, name, make)

    async def apply(self, request: WriteRequest, name: str, configuration: ApplyConfiguration) -> Written:
        async def make(old: JSONObject, copy: JSONObject) -> JSONObject:
            config = configuration.decoded()
            scale = _FIELDS.apply(copy, config, request.options.field_manager, force=request.options.force, now=self._store.now())
            configuration.accept(request.context)
            return scale

        return await self._write(request, name, make)

    async def _write(
        self, request: WriteRequest, name: str, make: Callable[[JSONObject, JSONObject], Awaitable[JSONObject]]
    ) -> Written:
        """make: (the current Scale, a copy of it to change) -> the new Scale, with its managedFields."""

        async def on_parent(parent: JSONObject) -> JSONObject:
            owners = parent["metadata"].get("managedFields")
            shown = self._owners.to_scale(owners)
            old, copy = self._scale(parent, unset=_UNSET), self._scale(parent, unset=_UNSET)
            for each in (old, copy):
                set_entries(each, shown)
            scale = await make(old, copy)
            preparation.place_in_namespace(
                scale["metadata"], request.context.namespace, namespaced=self._store.strategy.info.namespaced
            )
            preparation.check_name(scale, name)
            _fill(scale)
            await request.admission.mutate(scale, old)
            self._put(parent, scale)
            set_entries(parent, self._owners.to_parent(owners, scale["metadata"].get("managedFields")))
            return parent

        # `_put` may add the parent of the replicas, without the defaults of its other members.
        of_parent = replace(request, admission=_ScaleAdmission(request.admission, self._scale))
        written = await self._store.update(of_parent, name, on_parent, PART_CHANGED)
        return Written(self._view(written.object, written.object.decoded()), created=False)

    def _put(self, parent: JSONObject, scale: JSONObject) -> None:
        replicas = _replicas(scale)
        if replicas == _UNSET:
            raise errors.bad_request(f'the spec replicas field "{self._paths.spec_replicas}" cannot be empty')
        if replicas < 0 and self._selector is not None:
            problem = field.invalid(Path("spec").child("replicas"), replicas, "must be greater than or equal to 0")
            raise errors.invalid("autoscaling", "Scale", scale["metadata"]["name"], [problem])
        with _failing():
            put(parent, self._paths.spec_replicas, replicas)
        given = (scale.get("metadata") or {}).get("resourceVersion")
        if given:
            # The client's precondition, checked when the parent is written.
            parent["metadata"]["resourceVersion"] = given

    def _view(self, obj: Object, tree: JSONObject) -> StoredObject:
        assert isinstance(obj, StoredObject)  # Scales are parts of objects that a Store has written
        return StoredObject(obj.key, codec.encode_json(self._scale(tree)), obj.revision)

    def _scale(self, tree: JSONObject, unset: int = 0) -> JSONObject:
        """The Scale of a parent. unset: the value of spec.replicas if the parent has none."""
        paths = self._paths
        with _failing():
            replicas = find_integer(tree, paths.spec_replicas)
            status: JSONObject = {"replicas": find_integer(tree, paths.status_replicas) or 0}
            selector = find_string(tree, paths.label_selector) if paths.label_selector else None
        if self._selector is not None:
            selector = self._selector(tree)
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


class _ScaleAdmission:
    """Gives validating admission the Scale, not its parent. Mutating admission has already run on the Scale."""

    def __init__(self, admission: Admission, scale_of: Callable[[JSONObject], JSONObject]) -> None:
        self._admission = admission
        self._scale_of = scale_of

    @property
    def looks_at_objects(self) -> bool:
        return self._admission.looks_at_objects

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return False

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        await self._admission.validate(obj and self._scale_of(obj), old and self._scale_of(old))

    def failed(self) -> None:
        self._admission.failed()


def _fill(scale: JSONObject) -> None:
    """Add the members that Go always writes in a Scale, so that admission sees them. Raises 400 if it can't be decoded."""
    _replicas(scale)
    scale["spec"] = scale.get("spec") or {}
    scale["status"] = {"replicas": 0, **(scale.get("status") or {})}


def _replicas(scale: JSONObject) -> int:
    """spec.replicas as Go decodes it: 0 if it is missing, since Go's clients omit a zero. Raises 400."""
    if why := decode_error(scale, _SCALE):
        raise errors.bad_request(f'Scale in version "v1" cannot be handled as a Scale: {why}')
    replicas: int | None = (scale.get("spec") or {}).get("replicas")
    return replicas or 0


@contextmanager
def _failing() -> Iterator[None]:
    """Turn a value of the wrong type at one of the paths into a 500 with the bare text, as upstream."""
    try:
        yield
    except NestedError as error:
        raise errors.StatusError(500, "", str(error)) from None


class StatusStore:
    """Getter, Updater and Applier of `/status`: a Store with the status strategy. An apply here creates no object."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        return await self._store.get(context, name, resource_version)

    async def update(self, request: WriteRequest, name: str, transform: Transform) -> Written:
        return await self._store.update(request, name, transform)

    async def apply(self, request: WriteRequest, name: str, configuration: ApplyConfiguration) -> Written:
        return await self._store.apply(request, name, configuration, APPLIED_TO_PART)
