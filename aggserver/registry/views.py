"""Views: makes the view of a stored object in one version of its resource, and the bytes to store for an object of this version.

Usually the stored bytes are the view. An object that is stored in another version is converted and then pruned, once for
each write (`conversions.py`). An object that was stored before its definition changed is pruned and defaulted once, and the
result is cached with it. Raises the errors for objects that can't be read, or are too large with their defaults.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go (schemaCoercingDecoder), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TypeVar

from aggserver.conversion.converter import ConversionError, TakesLong
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import stored
from aggserver.registry.conversions import Converted, ConvertedVersion, fingerprint, is_large, named, worked
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.stored import StoredObject
from aggserver.registry.unreadable import Unreadable
from aggserver.schema.pruning import MalformedError
from aggserver.storage.interface import Corrupt

__all__ = ["Views"]

# Other requests get their turn after this many objects, and after each object with more than _LARGE bytes.
_TURN = 100
_LARGE = 256 * 1024
# The same for objects whose view is cached, which takes only a lookup.
_KNOWN_TURN = 1000
# Bytes that the defaults of a changed definition may add to the objects of one response, and to all cached results together:
# one change can make thousands of objects larger. Upstream has no limit.
_MAX_GROWTH = 256 * 1024 * 1024

T = TypeVar("T")


class Views:
    """The views of one version. form: identifies its schema; objects whose `form` is this one are sent unchanged.

    prune: prunes an object that was converted to this version, in place.
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
        self._remembered = 0  # bytes of _MAX_GROWTH that cached results use

    @property
    def api_version(self) -> str:
        return self._info.api_version

    async def of(self, obj: StoredObject) -> StoredObject:
        """As `of_all`, for one object."""
        return obj if obj.form is self.form else (await self.of_all([obj]))[0]

    async def for_write(self, obj: StoredObject) -> StoredObject:
        """An object that is changed or deleted: as `of_all`, leniently."""
        return obj if obj.form is self.form else (await self.of_all([obj], lenient=True))[0]

    async def of_all(self, objects: Sequence[StoredObject], *, lenient: bool = False) -> Sequence[StoredObject]:
        """The objects in this version. Those that are stored in another version are converted.

        lenient: return an object that is too large with its defaults without them, so that it can be made smaller or deleted;
        otherwise it is an error. Raises Unreadable and StatusError.
        """
        unknown = [(index, obj) for index, obj in enumerate(objects) if obj.form is not self.form]
        if not unknown:
            return objects
        views = list(objects)
        growth = 0
        new: list[tuple[int, StoredObject]] = []
        for index, obj in unknown:
            view = self._known(obj)
            if view is None:
                new.append((index, obj))
                continue
            views[index] = view
            growth += view.size - obj.size
            if not (index + 1) % _KNOWN_TURN:
                await asyncio.sleep(0)
        if growth > _MAX_GROWTH:
            raise self._too_much_growth()
        to_convert: list[tuple[int, StoredObject]] = []
        async for index, obj in _in_turns(new):
            if obj.size > _LARGE and self.is_own(obj):
                view = await asyncio.to_thread(self._conformed, obj, lenient=lenient)
            else:
                view = self.at_once(obj, lenient=lenient)
            if view is None:
                to_convert.append((index, obj))
                continue
            views[index] = view
            growth += view.size - obj.size
            if growth > _MAX_GROWTH:
                raise self._too_much_growth()
            if view.size > _LARGE or not self.is_own(obj):
                await asyncio.sleep(0)
        if to_convert:
            converted = await self._resource.conversions.views(self._target, [obj for _, obj in to_convert])
            for (index, obj), view in zip(to_convert, converted, strict=True):
                views[index] = _as_of(view, obj)
                growth += view.size - obj.size
            if growth > _MAX_GROWTH:
                raise self._too_much_growth()
        return views

    def _known(self, obj: StoredObject) -> StoredObject | None:
        """The cached view; None if there is none. Most objects of a list have one."""
        view = obj.conformed(self.form)
        if view is not None:
            return view
        resource = self._resource
        known = resource.converted.get(resource.conversions, self.form, obj.key)
        if known is None or known.view.content_revision != obj.content_revision:
            return None
        return _as_of(known.view, obj)

    def at_once(self, obj: StoredObject, *, lenient: bool = False) -> StoredObject | None:
        """The object in this version, None if that needs `Converter.convert`. Raises as `of_all`."""
        view = self._known(obj) or self._conformed(obj, lenient=lenient)
        if view is not None:
            return view
        convert = self._resource.converter.at_once
        known = self._resource.converted.get(self._resource.conversions, self.form, obj.key)
        if known is not None and convert is None and (view := self._carried_over(obj, known)) is not None:
            return view
        if convert is None:
            return None
        try:
            tree = convert(self._tree_to_convert(obj), self._info.api_version)
            return self._accept(obj, self._finished(obj, tree))
        except ConversionError as error:
            raise named(error, obj.key) from None
        except TakesLong:
            return None

    def _carried_over(self, obj: StoredObject, known: Converted) -> StoredObject | None:
        """The view made from the view at another revision; None if more has changed than metadata that conversion ignores."""
        try:
            current = self._tree_to_convert(obj)
            if fingerprint(current) != known.source:
                return None
            tree, metadata = known.view.decoded(), current["metadata"]
            for name in ("labels", "annotations"):
                metadata.pop(name, None)
                if name in tree["metadata"]:
                    metadata[name] = tree["metadata"][name]
            tree["metadata"] = metadata
            encoded = stored.encode(tree, self._info.api_version, self._info.kind)
        except TypeError:
            raise self._too_deep(obj) from None
        return self._keep(stored.converted(obj, encoded, self.form), known.source)

    def is_own(self, obj: StoredObject) -> bool:
        """Whether an object is stored in this version."""
        return obj.form is self.form or obj.raw.startswith(self._head)

    def computed(self, obj: StoredObject) -> StoredObject:
        """The object in this version, for selectors. Only for a ComputedConverter. Raises StatusError."""
        return obj if self.is_own(obj) else self.at_once(obj, lenient=True) or obj

    @property
    def _target(self) -> ConvertedVersion:
        return ConvertedVersion(self.form, self._info.api_version, self._tree_to_convert, self._finished, self._accept)

    def _tree_to_convert(self, obj: StoredObject) -> JSONObject:
        """As `_stored_tree`, or without its defaults if it is too large with them. Raises Unreadable."""
        try:
            return self._stored_tree(obj)
        except errors.ObjectTooLarge:
            return obj.decoded()

    def _accept(self, obj: StoredObject, encoded: bytes, source: bytes = b"") -> StoredObject:
        """The view of an object from what `_finished` has returned. source: as in `Converted`."""
        return self._keep(stored.converted(obj, encoded, self.form), source)

    def _keep(self, view: StoredObject, source: bytes) -> StoredObject:
        if view.content_revision != stored.UNSTORED:
            self._resource.converted.put(self._resource.conversions, self.form, Converted(view, source))
        return view

    def _source(self, obj: StoredObject) -> bytes:
        """`Converted.source` for an object."""
        return b"" if self._resource.converter.at_once is not None else fingerprint(self._tree_to_convert(obj))

    def _finished(self, obj: StoredObject, tree: JSONObject) -> bytes:
        """A converted object, pruned and encoded. Raises StatusError."""
        _prune(tree, self._prune)
        try:
            return stored.encode(tree, self._info.api_version, self._info.kind)
        except TypeError:
            raise self._too_deep(obj) from None

    async def expected(self, key: str, encoded: bytes) -> bytes | None:
        """The view of bytes that are about to be stored, for `remember`; None if reads need no webhook to make it.

        If the webhook can't convert for readers what it has converted for the storage, the write fails, and nothing is stored.
        Raises StatusError.
        """
        if self._resource.converter.at_once is not None or encoded.startswith(self._head):
            return None
        obj = StoredObject(key, encoded, 0)
        try:
            (tree,) = await self._resource.converter.convert([self._tree_to_convert(obj)], self._info.api_version)
        except ConversionError as error:
            raise named(error, key) from None
        return await worked(partial(self._finished, obj, tree), is_large=is_large(tree))

    def remember(self, obj: StoredObject, expected: bytes) -> None:
        """Cache the result of `expected`, after the object was stored."""
        self._keep(stored.converted(obj, expected, self.form), self._source(obj))

    async def as_read(self, obj: StoredObject, *, is_whole: bool) -> StoredObject:
        """An object that was just written, as a read would return it: with the defaults of the version in which it is stored.

        is_whole: whether it surely has all defaults of its version's schema: nothing was removed from it after defaulting, and
        nothing was copied into it from an object that was not defaulted.
        """
        if is_whole and obj.raw.startswith(self._head):
            obj.form = self.form
        return await self.for_write(obj)

    async def to_stored(self, obj: JSONObject) -> bytes:
        """The bytes to store for an object of this version. Raises StatusError: see `_prune`."""
        target = self._resource.api_version
        if self._info.api_version != target:
            copy = codec.decode_stored(self.encode_whole(obj))
            try:
                (obj,) = await self._resource.converter.convert([copy], target)
            except ConversionError as error:
                metadata = obj["metadata"]
                raise named(error, self._resource.key_of(metadata.get("namespace") or "", metadata["name"])) from None
            await worked(partial(_prune, obj, self._resource.prune), is_large=is_large(obj))
        return stored.encode(obj, target, self._info.kind)

    def unchanged(self, obj: JSONObject) -> bytes:
        """The bytes to store for an object that stays in this version, even if it is not the storage version."""
        return stored.encode(obj, self._info.api_version, self._info.kind)

    def encode_whole(self, obj: JSONObject) -> bytes:
        """The bytes of an object of this version that is not stored, for a response."""
        return codec.encode_json({"apiVersion": self._info.api_version, "kind": self._info.kind, **obj})

    def _conformed(self, obj: StoredObject, *, lenient: bool) -> StoredObject | None:
        """The object, pruned and defaulted; None if it is stored in another version."""
        if not obj.raw.startswith(self._head):
            return None
        if self._resource.conform_stored is None:
            return obj.conform(self.form, obj.raw)
        try:
            raw = self._encoded(obj, self._stored_tree(obj))
        except errors.ObjectTooLarge as error:
            return self._without_defaults(obj, error, lenient=lenient)
        growth = max(len(raw) - obj.size, 0)
        remember = self._remembered + growth <= _MAX_GROWTH
        if remember:
            self._remembered += growth
        return obj.conform(self.form, raw, remember=remember)

    def _stored_tree(self, obj: StoredObject) -> JSONObject:
        """The decoded object in its stored version, pruned and defaulted. Raises Unreadable and ObjectTooLarge."""
        try:
            tree = obj.decoded()
            is_conformed = obj.form is not None and obj.form is self._resource.stored_form
            if self._resource.conform_stored is not None and not is_conformed:
                self._resource.conform_stored(tree)
        except Corrupt as error:
            raise Unreadable(self._cacher.mark_corrupt(error)) from None
        except MalformedError as error:
            raise Unreadable(self._cacher.mark_corrupt(Corrupt(obj.key, obj.revision, str(error)))) from None
        return tree

    def _encoded(self, obj: StoredObject, tree: JSONObject) -> bytes:
        """The tree of an object as JSON. Raises Unreadable for one that another server has stored with over 254 levels."""
        try:
            return codec.encode_json(tree)
        except TypeError:
            raise self._too_deep(obj) from None

    def _too_deep(self, obj: StoredObject) -> Unreadable:
        return Unreadable(self._cacher.mark_corrupt(Corrupt(obj.key, obj.revision, "it is nested too deeply")))

    def _without_defaults(self, obj: StoredObject, error: errors.ObjectTooLarge, *, lenient: bool) -> StoredObject:
        """The object without its defaults and without a form, so that it is not taken for one that has them."""
        if lenient:
            return StoredObject(obj.key, obj.raw, obj.revision)
        limit = self._resource.max_object_bytes
        why = f"the defaults of its definition add more than {limit} bytes to it; delete it, shrink it, or change the defaults"
        raise errors.internal_error(f"{obj.key} can't be read: {why}") from error

    def look_at(self, obj: StoredObject) -> None:
        """Decode an object, unless it is known to be readable. Raises Unreadable."""
        if obj.form is not self.form and obj.conformed(self.form) is None:
            try:
                self._encoded(obj, self._stored_tree(obj))
            except errors.ObjectTooLarge:
                return  # it can be read, without its defaults

    def cached(self, key: str) -> StoredObject | None:
        """The object at a key in the watch cache, None if there is none. Raises Unreadable."""
        try:
            return self._cacher.get(key)
        except Corrupt as error:
            raise Unreadable(error) from None

    def _too_much_growth(self) -> errors.StatusError:
        why = f"the defaults of their definition add more than {_MAX_GROWTH} bytes to them; list fewer at once, with `limit`"
        return errors.internal_error(f"{self._info.resource} can't be listed: {why}")


def _prune(obj: JSONObject, prune: Callable[[JSONObject], object]) -> None:
    """Prune a converted object. Raises StatusError (500) for an embedded resource that can't be decoded.

    In the version that it was converted from, this need not have been one.
    """
    try:
        prune(obj)
    except MalformedError as error:
        raise errors.StatusError(500, "", str(error)) from None


def _as_of(view: StoredObject, obj: StoredObject) -> StoredObject:
    """The view with the object's revision, which differs in the event of its deletion."""
    return view if view.revision == obj.revision else stored.at(view, obj.revision)


async def _in_turns(items: Sequence[T]) -> AsyncIterator[T]:
    """The items. Lets other requests run after every _TURN items, which take a few milliseconds."""
    for index, item in enumerate(items, 1):
        yield item
        if index % _TURN == 0:
            await asyncio.sleep(0)
