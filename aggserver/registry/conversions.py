"""Conversions: converts stored objects by a converter that does I/O, such as a webhook. ConversionCache: caches the results.

Upstream converts in each read, though a webhook is slow and may fail. Here an object is converted once for each write: the
converted object is cached by its revision, with a limit in bytes for all resources of a server. Requests that need the same
object at the same time share one conversion; a list is converted in batches, several at once. If a batch fails because of one of
its objects, the others are sent again without it, and the error names that object.
Source: none; upstream converts in every read (k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go), v0.36.3.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

from aggserver.conversion.converter import ConversionError, Converter
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.stored import UNSTORED, StoredObject
from aggserver.storage import keys

__all__ = ["ConversionCache", "Conversions", "Converted", "ConvertedVersion", "fingerprint", "is_large", "named", "worked"]

# Bytes of all converted objects of a server. Lists of more than that are converted each time, as upstream.
MAX_BYTES = 128 * 1024 * 1024
# Bytes of converted objects before deleted ones are looked for.
_SWEEP_BYTES = 8 * 1024 * 1024
# Memory of an entry beside the object's bytes.
_ENTRY_BYTES = 500
# A batch: a quarter of the objects that clients usually list at once, so that a webhook works on some while others are decoded
# here, and at most so many bytes, since the converter decodes it as a whole.
BATCH_OBJECTS = 125
BATCH_BYTES = 4 * 1024 * 1024
# Concurrent conversions of one resource: of batches, and of single objects, which do not wait behind lists.
_CONCURRENT = 4
_CONCURRENT_SINGLE = 16
# Calls for one batch, to find the objects that make it fail: enough for two of them among 500.
_MAX_CALLS = 32
# Metadata that no conversion depends on.
_BOOKKEEPING = frozenset(
    {"deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation", "managedFields", "resourceVersion"}
)
# Other requests get their turn after so many objects, which take a few milliseconds.
_TURN = 100
# Objects above these limits are worked on in a thread, since that takes more than some milliseconds.
_LARGE_BYTES = 256 * 1024
_LARGE_VALUES = 10_000

T = TypeVar("T")


class Converted(NamedTuple):
    """view: the object in another version. source: `fingerprint` of the object it was made of, b"" if no webhook was called."""

    view: StoredObject
    source: bytes = b""

    @property
    def size(self) -> int:
        return self.view.size + _ENTRY_BYTES


class ConversionCache:
    """The cache of converted objects. The least recently used ones are dropped first.

    An entry's key is the `Conversions` that has made it, the form of the version (see `StoredObject.form`), and the object's key.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[tuple[Conversions, object, str], Converted] = OrderedDict()
        self._sweep_at = _SWEEP_BYTES
        self.bytes = 0

    @property
    def objects(self) -> int:
        """The number of converted objects in it."""
        return len(self._entries)

    def get(self, conversions: Conversions, form: object, key: str) -> Converted | None:
        """The converted object, at the last revision that was converted; None if there is none."""
        entry = (conversions, form, key)
        found = self._entries.get(entry)
        if found is not None:
            self._entries.move_to_end(entry)
        return found

    def put(self, conversions: Conversions, form: object, made: Converted) -> None:
        """Cache an object, unless a newer revision of it is cached, or its definition has changed during the conversion."""
        if conversions.is_over:
            return
        entry = (conversions, form, made.view.key)
        before = self._entries.get(entry)
        if before is not None:
            if before.view.content_revision > made.view.content_revision:
                return
            self._drop(entry)
        self._entries[entry] = made
        self.bytes += made.size
        if self.bytes > self._sweep_at:
            self._sweep()
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _sweep(self) -> None:
        """Drop deleted objects. The next sweep is when the cache has twice the size that is left, so that sweeps are rare."""
        for entry in [entry for entry in self._entries if not entry[0].exists(entry[2])]:
            self._drop(entry)
        self._sweep_at = max(2 * self.bytes, _SWEEP_BYTES)

    def forget(self, conversions: Conversions) -> None:
        """Drop all objects of a definition that was changed or deleted."""
        conversions.is_over = True
        for entry in [entry for entry in self._entries if entry[0] is conversions]:
            self._drop(entry)

    def _drop(self, entry: tuple[Conversions, object, str]) -> None:
        self.bytes -= self._entries.pop(entry).size


def fingerprint(tree: JSONObject) -> bytes:
    """Equal for two states of an object that differ only in metadata that no conversion depends on.

    All metadata but labels and annotations is the same in all versions, so a change of finalizers needs no new conversion.
    """
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _BOOKKEEPING}
    return hashlib.blake2b(codec.encode_json({**tree, "metadata": metadata}), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ConvertedVersion:
    """A version that objects are converted to.

    form: `StoredObject.form` of its objects. tree: decodes an object that is stored in another version. finished: prunes and
    encodes the converted object. accept: (stored object, result of `finished`, fingerprint of the stored object) -> the view,
    which it caches. `tree` and `finished` raise StatusError, and may be called in a thread.
    """

    form: object
    api_version: str
    tree: Callable[[StoredObject], JSONObject]
    finished: Callable[[StoredObject, JSONObject], bytes]
    accept: Callable[[StoredObject, bytes, bytes], StoredObject]

    def identity(self, obj: StoredObject) -> tuple[object, str, int]:
        """Equal for the same content in the same version; unique for an object that is not stored."""
        content = obj.content_revision
        return self.form, obj.key, -id(obj) if content == UNSTORED else content


class _Pending:
    """A conversion that is not done yet. waiting: how many callers wait for it."""

    __slots__ = ("future", "obj", "waiting")

    def __init__(self, obj: StoredObject, future: asyncio.Future[StoredObject]) -> None:
        self.obj = obj
        self.future = future
        self.waiting = 0


class Conversions:
    """The pending conversions of one converter. exists: whether the object with a key still exists.

    is_over: whether the definition has changed, so that results are not cached any more.
    """

    def __init__(self, converter: Converter, exists: Callable[[str], bool]) -> None:
        self.exists = exists
        self.is_over = False
        self._converter = converter
        self._pending: dict[tuple[object, str, int], _Pending] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(_CONCURRENT)
        self._single_slots = asyncio.Semaphore(_CONCURRENT_SINGLE)
        self._unanswered: ConversionError | None = None  # of the last call that got no answer

    async def views(self, target: ConvertedVersion, objects: Sequence[StoredObject]) -> list[StoredObject]:
        """The views of the objects. Raises StatusError, as soon as one of them fails.

        A call of the converter goes on when the caller is cancelled, since others may wait for the same objects.
        """
        loop = asyncio.get_running_loop()
        wanted: list[_Pending] = []
        new: list[_Pending] = []
        for obj in objects:
            identity = target.identity(obj)
            pending = self._pending.get(identity)
            if pending is None:
                pending = self._pending[identity] = _Pending(obj, loop.create_future())
                new.append(pending)
            pending.waiting += 1
            wanted.append(pending)
        for batch in _batches(new):
            task = loop.create_task(self._settle(target, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([pending.future for pending in wanted], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for pending in wanted:
                pending.waiting -= 1
        for pending in wanted:
            if pending.future.done():
                pending.future.result()  # raises the error of a failed one
        return [pending.future.result() for pending in wanted]

    async def _settle(self, target: ConvertedVersion, batch: list[_Pending]) -> None:
        """Convert a batch, and set the view or the error of each of its objects."""
        parts = [batch]
        before = self._unanswered
        try:
            async with self._single_slots if len(batch) == 1 else self._slots:
                if self._unanswered is not None and self._unanswered is not before:
                    # A call got no answer while this one waited for its turn. This one would probably wait as long in vain.
                    raise self._unanswered
                for _ in range(_MAX_CALLS):
                    if parts:
                        await self._convert(target, parts)
            if parts:
                raise ConversionError("too many objects of the list can't be converted")
        except Exception as error:
            for pending in batch:
                self._finish(target, pending, named(error, pending.obj.key, len(batch)))
        finally:
            for pending in batch:
                if not pending.future.done():
                    self._forget(target, pending)
                    pending.future.cancel()  # the server stops

    def _forget(self, target: ConvertedVersion, pending: _Pending) -> None:
        """Let the next caller start a new conversion. There may be one already, if nobody waited for this one any more."""
        identity = target.identity(pending.obj)
        if self._pending.get(identity) is pending:
            del self._pending[identity]

    def _finish(self, target: ConvertedVersion, pending: _Pending, result: StoredObject | Exception) -> None:
        """Set the result of a conversion, unless it has one already."""
        if pending.future.done():
            return
        self._forget(target, pending)
        if isinstance(result, StoredObject):
            pending.future.set_result(result)
        else:
            pending.future.set_exception(result)
            pending.future.exception()  # otherwise asyncio complains if nobody waits any more

    async def _convert(self, target: ConvertedVersion, parts: list[list[_Pending]]) -> None:
        """Convert the last part, and put back the objects that have to be tried again. Raises errors that concern all parts."""
        part, trees, sources = await self._decoded(target, parts[-1])
        try:
            converted = await self._converter.convert(trees, target.api_version) if part else []
        except ConversionError as error:
            if not error.answered:
                self._unanswered = error
                raise
            parts.pop()
            if len(part) == 1:
                self._finish(target, part[0], named(error, part[0].obj.key))
            elif error.index is not None:
                refused = part.pop(error.index)
                self._finish(target, refused, named(error, refused.obj.key))
                parts.append(part)
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
            return
        parts.pop()
        for number, (pending, tree, source) in enumerate(zip(part, converted, sources, strict=True), 1):
            try:
                encoded = await worked(partial(target.finished, pending.obj, tree), is_large=is_large(tree))
                self._finish(target, pending, target.accept(pending.obj, encoded, source))
            except StatusError as error:
                self._finish(target, pending, error)
            if number % _TURN == 0:
                await asyncio.sleep(0)

    async def _decoded(
        self, target: ConvertedVersion, part: list[_Pending]
    ) -> tuple[list[_Pending], list[JSONObject], list[bytes]]:
        """The conversions that somebody waits for and whose objects can be decoded; the decoded objects; their fingerprints."""
        wanted, trees, sources = [], [], []
        for number, pending in enumerate(part, 1):
            if pending.future.done():
                continue
            if not pending.waiting:
                self._forget(target, pending)
                continue
            try:
                tree = await worked(partial(target.tree, pending.obj), is_large=pending.obj.size > _LARGE_BYTES)
                sources.append(fingerprint(tree))  # before the converter changes it
                trees.append(tree)
                wanted.append(pending)
            except StatusError as error:
                self._finish(target, pending, error)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        return wanted, trees, sources


async def worked(work: Callable[[], T], *, is_large: bool) -> T:
    """Call a function that works on an object: in a thread if the object is large, since that takes long."""
    return await asyncio.to_thread(work) if is_large else work()


def is_large(tree: Any) -> bool:
    """Whether a JSON value has many values in it: a converter may return millions for a small object. Stops at the limit."""
    with suppress(TypeError):  # it is nested too deeply to be encoded
        # Each value takes two bytes at least, so that the values of nearly all objects need not be counted.
        if len(codec.encode_json(tree)) <= 2 * _LARGE_VALUES:
            return False
    left, rest = _LARGE_VALUES, [tree]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            left -= len(value)
            if left < 0:
                return True
            rest.extend(value.values() if isinstance(value, dict) else value)
    return False


def named(error: Exception, key: str, of: int = 1) -> Exception:
    """A conversion's error with the object's name after upstream's text. of: the number of objects in the call."""
    if not isinstance(error, ConversionError):
        return error
    group, resource, namespace, name = keys.split(key)
    where = f"{namespace}/{name}" if namespace else name
    others = f" and {of - 1} more" if of > 1 else ""
    with_name = ConversionError(f"{error.message} (converting {where}{others})", answered=error.answered)
    with_name.group, with_name.kind, with_name.name = group, resource, name
    return with_name


def _batches(conversions: Sequence[_Pending]) -> Iterator[list[_Pending]]:
    batch: list[_Pending] = []
    size = 0
    for pending in conversions:
        if batch and (len(batch) == BATCH_OBJECTS or size + pending.obj.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(pending)
        size += pending.obj.size
    if batch:
        yield batch
