"""Views: stored objects as one version of a resource shows them, and back.

Mostly that is the bytes as they are. An object that is stored in another version is converted; one that was stored before its
definition changed is pruned and defaulted once, which is remembered with it. What can't be read, or would be too large with its
defaults, is told of here.
Called by `registry/store.py`, for answers and for watches.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (schemaCoercingDecoder), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import stored
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.stored import StoredObject
from aggserver.registry.unreadable import Unreadable
from aggserver.schema.pruning import MalformedError
from aggserver.storage.interface import Corrupt

__all__ = ["Views"]

# Objects converted before other requests have their turn, and bytes of one that is converted alone.
_TURN = 100
_LARGE = 256 * 1024
# Bytes that a changed definition's defaults may add to the objects of one answer, and to what is remembered of all objects as
# they read with them: it can do so to thousands of objects at once. Upstream has no bound.
_MAX_GROWTH = 256 * 1024 * 1024

T = TypeVar("T")


class Views:
    """Of one version. form: stands for its schema: bytes that are known to be in it are sent as they are.

    prune: what is done to a tree that was converted to this version, in place.
    """

    def __init__(
        self, resource: ResourceStorage, info: ResourceInfo, prune: Callable[[JSONObject], object], form: object = None
    ) -> None:
        self.form = form or object()
        self._resource = resource
        self._info = info
        self._prune = prune
        self._cacher = resource.cacher
        self._head = stored.head(info.api_version, info.kind)
        self._remembered = 0  # of _MAX_GROWTH

    async def of(self, obj: StoredObject, *, lenient: bool = False) -> StoredObject:
        """As `of_all`, for one."""
        return obj if obj.form is self.form else (await self.of_all([obj], lenient=lenient))[0]

    async def of_all(self, objects: Sequence[StoredObject], *, lenient: bool = False) -> Sequence[StoredObject]:
        """The objects as this version has them: mostly as they are, those stored in another version converted in one call.

        An object is looked into once; what was found then is remembered with it until the definition changes. lenient: one that
        would be too large with its defaults is given without them, so that it can be made smaller, or deleted; others are told
        that it can't be shown.
        """
        unknown = [obj for obj in objects if obj.form is not self.form]
        if not unknown:
            return objects
        views, foreign, trees, growth = {}, [], [], 0
        async for obj in _in_turns(unknown):
            view = obj.conformed(self.form)
            if view is None:
                view = self._look_into(obj, lenient=lenient)
            if view is None:
                try:
                    trees.append(self._stored_tree(obj))
                except errors.ObjectTooLarge as error:
                    trees.append(self._without_defaults(obj, error, lenient=lenient).decoded())
                foreign.append(obj)
                continue
            views[obj.key] = view
            growth += view.size - obj.size
            if growth > _MAX_GROWTH:
                raise self._too_much_growth()
            if view.size > _LARGE:
                await asyncio.sleep(0)
        if foreign:
            trees = await self._resource.converter.convert(trees, self._info.api_version)
        async for obj, tree in _in_turns(list(zip(foreign, trees, strict=True))):
            self._prune(tree)
            views[obj.key] = view = StoredObject(obj.key, codec.encode_json(tree), obj.revision)
            growth += view.size - obj.size
            if growth > _MAX_GROWTH:
                raise self._too_much_growth()
        return [views.get(obj.key, obj) for obj in objects]

    async def as_read(self, obj: StoredObject, *, is_whole: bool) -> StoredObject:
        """What was written, as whoever reads it has it: with the defaults of the version in which it is stored.

        is_whole: nothing was taken away from it after it went through its version's schema, and nothing in it is from an object
        that didn't, so that it lacks no default.
        """
        if is_whole and obj.raw.startswith(self._head):
            obj.form = self.form
        return await self.of(obj, lenient=True)

    async def to_stored(self, obj: JSONObject) -> bytes:
        """The bytes to keep of an object of this version."""
        target = self._resource.api_version
        if self._info.api_version != target:
            copy = codec.decode_stored(self.encode_whole(obj))
            (obj,) = await self._resource.converter.convert([copy], target)
            self._resource.prune(obj)
        return stored.encode(obj, target, self._info.kind)

    def encode_whole(self, obj: JSONObject) -> bytes:
        """An object of this version that is not kept, as an answer."""
        return codec.encode_json({"apiVersion": self._info.api_version, "kind": self._info.kind, **obj})

    def _look_into(self, obj: StoredObject, *, lenient: bool) -> StoredObject | None:
        """The object conformed, None where it is stored in another version."""
        if not obj.raw.startswith(self._head):
            return None
        if self._resource.conform_stored is None:
            return obj.conform(self.form, obj.raw)
        try:
            raw = codec.encode_json(self._stored_tree(obj))
        except errors.ObjectTooLarge as error:
            return self._without_defaults(obj, error, lenient=lenient)
        growth = max(len(raw) - obj.size, 0)
        remember = self._remembered + growth <= _MAX_GROWTH
        if remember:
            self._remembered += growth
        return obj.conform(self.form, raw, remember=remember)

    def _stored_tree(self, obj: StoredObject) -> JSONObject:
        """Raises Unreadable."""
        try:
            tree = obj.decoded()
            if self._resource.conform_stored is not None:
                self._resource.conform_stored(tree)
        except Corrupt as error:
            raise Unreadable(self._cacher.spoil(error)) from None
        except MalformedError as error:
            raise Unreadable(self._cacher.spoil(Corrupt(obj.key, obj.revision, str(error)))) from None
        return tree

    def _without_defaults(self, obj: StoredObject, error: errors.ObjectTooLarge, *, lenient: bool) -> StoredObject:
        """In no form, so that nobody takes it for one that has them."""
        if lenient:
            return StoredObject(obj.key, obj.raw, obj.revision)
        limit = self._resource.max_object_bytes
        why = f"the defaults of its definition add more than {limit} bytes to it; delete it, make it smaller, or change these"
        raise errors.internal_error(f"{obj.key} can't be read: {why}") from error

    def look_at(self, obj: StoredObject) -> None:
        """Raises Unreadable."""
        if obj.form is not self.form and obj.conformed(self.form) is None:
            try:
                self._stored_tree(obj)
            except errors.ObjectTooLarge:
                return  # it can be read, and then made smaller

    def cached(self, key: str) -> StoredObject | None:
        """Raises Unreadable."""
        try:
            return self._cacher.get(key)
        except Corrupt as error:
            raise Unreadable(error) from None

    def _too_much_growth(self) -> errors.StatusError:
        why = f"the defaults of their definition add more than {_MAX_GROWTH} bytes to them; ask for fewer at once, with limit"
        return errors.internal_error(f"{self._info.resource} can't be listed: {why}")


async def _in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """The items, with a turn for other requests after every few milliseconds of work on them."""
    for index, item in enumerate(items, 1):
        yield item
        if index % _TURN == 0:
            await asyncio.sleep(0)
