"""Conversions: asks a converter about stored objects, and remembers what it made of them.

Upstream asks a converter in each read, though a webhook is slow and may fail. Here it is asked once for each write: what
it made of an object at a revision is kept, with a limit in bytes for all resources of a server. Requests that need the same
object at the same time share one question; a list asks in batches, several at once. If a batch fails because of one of its
objects, the others are asked for again without it, and the error names that object.
Source: none; upstream converts in every read (k8s.io/apiextensions-apiserver pkg/apiserver/customresource_handler.go), v0.36.3.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
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

# Bytes of all converted objects of a server. Lists of more than that ask the converter each time, as upstream.
MAX_BYTES = 128 * 1024 * 1024
# Bytes of converted objects before deleted ones are looked for.
_SWEEP_BYTES = 8 * 1024 * 1024
# Memory of an entry beside the object's bytes.
_ENTRY_BYTES = 500
# A batch: as many objects as clients usually list at once, and at most so many bytes, since the converter decodes it as a whole.
BATCH_OBJECTS = 500
BATCH_BYTES = 4 * 1024 * 1024
# Batches of one resource that are with the converter at the same time, and single objects, which do not wait behind lists.
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
# What is above these is worked on in a thread: it takes more than some milliseconds.
_LARGE_BYTES = 256 * 1024
_LARGE_VALUES = 10_000

T = TypeVar("T")


class Converted(NamedTuple):
    """view: the object in another version. source: `fingerprint` of the object that it was made of, b"" if nobody was asked."""

    view: StoredObject
    source: bytes = b""

    @property
    def size(self) -> int:
        return self.view.size + _ENTRY_BYTES


class ConversionCache:
    """The memory. The least recently used objects go first.

    Objects are known by the `Conversions` that were asked, the form of the version (see `StoredObject.form`) and their key.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[tuple[Conversions, object, str], Converted] = OrderedDict()
        self._sweep_at = _SWEEP_BYTES
        self.bytes = 0

    def get(self, asked: Conversions, form: object, key: str) -> Converted | None:
        """What was made of an object at some revision."""
        entry = (asked, form, key)
        found = self._entries.get(entry)
        if found is not None:
            self._entries.move_to_end(entry)
        return found

    def put(self, asked: Conversions, form: object, made: Converted) -> None:
        """Remember an object, unless a newer revision of it is known, or its definition has changed while it was asked for."""
        if asked.is_over:
            return
        entry = (asked, form, made.view.key)
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
        """Drop objects that were deleted. Again after as much was added as is left, so that it costs little for each object."""
        for entry in [entry for entry in self._entries if not entry[0].exists(entry[2])]:
            self._drop(entry)
        self._sweep_at = max(2 * self.bytes, _SWEEP_BYTES)

    def forget(self, asked: Conversions) -> None:
        """Drop all objects of a definition that has changed or gone."""
        asked.is_over = True
        for entry in [entry for entry in self._entries if entry[0] is asked]:
            self._drop(entry)

    def _drop(self, entry: tuple[Conversions, object, str]) -> None:
        self.bytes -= self._entries.pop(entry).size


def fingerprint(tree: JSONObject) -> bytes:
    """Equal for two states of an object that are converted alike: they differ in nothing but the server's bookkeeping.

    All metadata but labels and annotations is the same in all versions, so another list of finalizers needs no new question.
    """
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _BOOKKEEPING}
    return hashlib.blake2b(codec.encode_json({**tree, "metadata": metadata}), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ConvertedVersion:
    """A version that objects are converted to.

    form: what `StoredObject.form` is in it. tree: decodes an object that is stored in another version. finished: prunes and
    encodes what the converter made of an object. accept: makes the view of that, given the fingerprint of what it was made of.
    The first two raise StatusError, and may be called in a thread.
    """

    form: object
    api_version: str
    tree: Callable[[StoredObject], JSONObject]
    finished: Callable[[StoredObject, JSONObject], bytes]
    accept: Callable[[StoredObject, bytes, bytes], StoredObject]

    def question(self, obj: StoredObject) -> tuple[object, str, int]:
        """Equal for the same content; what is not stored is asked for each time."""
        content = obj.content_revision
        return self.form, obj.key, -id(obj) if content == UNSTORED else content


class _Pending:
    """A question that was not answered yet. waiting: how many callers wait for it."""

    __slots__ = ("future", "obj", "waiting")

    def __init__(self, obj: StoredObject, future: asyncio.Future[StoredObject]) -> None:
        self.obj = obj
        self.future = future
        self.waiting = 0


class Conversions:
    """What is being asked of one converter. exists: whether there still is an object at a key.

    is_over: whether the definition has changed, so that nobody will ask for what is still answered.
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

    async def answers(self, target: ConvertedVersion, objects: Sequence[StoredObject]) -> list[StoredObject]:
        """The views of the objects. Raises StatusError, as soon as one of them fails.

        A call of the converter goes on when the caller is cancelled, since others may wait for the same objects.
        """
        loop = asyncio.get_running_loop()
        asked: list[_Pending] = []
        new: list[_Pending] = []
        for obj in objects:
            question = target.question(obj)
            pending = self._pending.get(question)
            if pending is None:
                pending = self._pending[question] = _Pending(obj, loop.create_future())
                new.append(pending)
            pending.waiting += 1
            asked.append(pending)
        for batch in _batches(new):
            task = loop.create_task(self._settle(target, batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.wait([pending.future for pending in asked], return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for pending in asked:
                pending.waiting -= 1
        for pending in asked:
            if pending.future.done():
                pending.future.result()  # raises what has failed
        return [pending.future.result() for pending in asked]

    async def _settle(self, target: ConvertedVersion, batch: list[_Pending]) -> None:
        """Answer all questions of a batch, with a view or an error."""
        parts = [batch]
        before = self._unanswered
        try:
            async with self._single_slots if len(batch) == 1 else self._slots:
                if self._unanswered is not None and self._unanswered is not before:
                    # A call got no answer while this one waited for its turn. It would wait for as long once more.
                    raise self._unanswered
                for _ in range(_MAX_CALLS):
                    if parts:
                        await self._ask(target, parts)
            if parts:
                raise ConversionError("too many objects of the list can't be converted")
        except Exception as error:
            for pending in batch:
                self._answer(target, pending, named(error, pending.obj.key, len(batch)))
        finally:
            for pending in batch:
                if not pending.future.done():
                    self._forget(target, pending)
                    pending.future.cancel()  # the server stops

    def _forget(self, target: ConvertedVersion, pending: _Pending) -> None:
        """Let the next caller ask anew. The same object may have been asked for again already, if nobody waited any more."""
        question = target.question(pending.obj)
        if self._pending.get(question) is pending:
            del self._pending[question]

    def _answer(self, target: ConvertedVersion, pending: _Pending, result: StoredObject | Exception) -> None:
        """Does nothing if the question was answered already."""
        if pending.future.done():
            return
        self._forget(target, pending)
        if isinstance(result, StoredObject):
            pending.future.set_result(result)
        else:
            pending.future.set_exception(result)
            pending.future.exception()  # otherwise asyncio complains if nobody waits any more

    async def _ask(self, target: ConvertedVersion, parts: list[list[_Pending]]) -> None:
        """Ask for the last part, and put back what has to be asked again. Raises what concerns all parts."""
        part, trees, sources = await self._decoded(target, parts[-1])
        try:
            converted = await self._converter.convert(trees, target.api_version) if part else []
        except ConversionError as error:
            if not error.answered:
                self._unanswered = error
                raise
            parts.pop()
            if len(part) == 1:
                self._answer(target, part[0], named(error, part[0].obj.key))
            elif error.index is not None:
                refused = part.pop(error.index)
                self._answer(target, refused, named(error, refused.obj.key))
                parts.append(part)
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
            return
        parts.pop()
        for number, (pending, tree, source) in enumerate(zip(part, converted, sources, strict=True), 1):
            try:
                encoded = await worked(partial(target.finished, pending.obj, tree), is_large=is_large(tree))
                self._answer(target, pending, target.accept(pending.obj, encoded, source))
            except StatusError as error:
                self._answer(target, pending, error)
            if number % _TURN == 0:
                await asyncio.sleep(0)

    async def _decoded(
        self, target: ConvertedVersion, part: list[_Pending]
    ) -> tuple[list[_Pending], list[JSONObject], list[bytes]]:
        """The questions that somebody waits for and whose objects can be decoded, the objects' trees, and their fingerprints."""
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
                self._answer(target, pending, error)
            if number % _TURN == 0:
                await asyncio.sleep(0)
        return wanted, trees, sources


async def worked(work: Callable[[], T], *, is_large: bool) -> T:
    """What a function returns; if it works on a large object, it is called in a thread, since it takes long."""
    return await asyncio.to_thread(work) if is_large else work()


def is_large(tree: Any) -> bool:
    """Whether a tree has many values: a converter may make millions of a small object. Looks at no more of them than it must."""
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
    """A conversion's error with the object's name after upstream's text. of: the number of objects that it was asked with."""
    if not isinstance(error, ConversionError):
        return error
    group, resource, namespace, name = keys.split(key)
    where = f"{namespace}/{name}" if namespace else name
    others = f" and {of - 1} more" if of > 1 else ""
    told = ConversionError(f"{error.message} (converting {where}{others})", answered=error.answered)
    told.group, told.kind, told.name = group, resource, name
    return told


def _batches(questions: Sequence[_Pending]) -> Iterator[list[_Pending]]:
    batch: list[_Pending] = []
    size = 0
    for pending in questions:
        if batch and (len(batch) == BATCH_OBJECTS or size + pending.obj.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(pending)
        size += pending.obj.size
    if batch:
        yield batch
