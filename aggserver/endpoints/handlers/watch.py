"""watch: a stream of events, until the client, the time limit or the server ends it. An event is one JSON document on a line, or
a frame of protobuf.

An event is encoded once for all who watch the same version in the same form; what has gathered while a client was being written
to goes out in pieces of some 64 KiB, the next one when the socket has taken the one before. So a client that doesn't read costs
one piece, however much it is to be told: a large object is cut where it lies, and not copied first.

Once the resourceVersion has been understood, what goes wrong is an ERROR event and not an HTTP code, since clients' reflectors
look there.
Source: k8s.io/apiserver pkg/endpoints/handlers/{watch,get}.go, pkg/storage/cacher/cache_watcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol, Self

from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import options
from aggserver.endpoints.installer import ResourceScope
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, StreamResponse
from aggserver.meta import codec, errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.publish import table
from aggserver.registry.rest import Context, Watcher, WatchStream
from aggserver.scheme import protobuf
from aggserver.storage.cacher import WatchEvent

__all__ = ["CallLater", "Watching", "call_later"]

# Seconds a watch lasts at least when the client names no timeoutSeconds; up to twice that, so that they don't end together.
_MIN_TIMEOUT = 1800.0
# Seconds between bookmarks, and how long before the end the last one is sent.
_BOOKMARK_EVERY = 60.0
_BOOKMARK_BEFORE_END = 2.0
_FRAME_HEAD, _FRAME_END = b'{"type":"%b","object":', b"}\n"
_EVENTS_END = "k8s.io/initial-events-end"

# Bytes of a piece of a large object. A batch of small ones is as large as the cache has made it (`storage/past.py`), and goes out
# as one piece if it is no more than MAX_PIECE.
PIECE_BYTES = 32 * 1024
MAX_PIECE = 128 * 1024

# The frame of an event, in parts that are sent one after the other.
Encode = Callable[[WatchEvent[Any]], Sequence[bytes]]


class Timer(Protocol):
    def cancel(self) -> None: ...


# (seconds, what to do then), as an event loop has it.
CallLater = Callable[[float, Callable[[], None]], Timer]


def call_later(seconds: float, callback: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, callback)


class Watching:
    """The handler. random: a number from [0, 1), to spread the ends of watches. observe: told of each piece (events, bytes)."""

    def __init__(
        self,
        random: Callable[[], float],
        observe: Callable[[ResourceScope, int, int], None],
        call_later: CallLater = call_later,
    ) -> None:
        self._random = random
        self._observe = observe
        self._call_later = call_later
        self._stopped = False

    def stop(self) -> None:
        """From now on a watch is refused, so that clients try again soon. Those that run are others' to end."""
        self._stopped = True

    async def __call__(self, scope: ResourceScope, resource: Watcher, context: Context, request: Request) -> StreamResponse:
        media = negotiation.for_watch(request)
        selection = options.list_options(scope, request.query, name=request.info.name)
        encode = _encoder(scope, request, media)
        timeout = selection.timeout_seconds or _MIN_TIMEOUT * (1 + self._random())
        try:
            stream = await resource.watch(context, selection)
        except StatusError as error:
            if error.reason not in ("Expired", "Timeout"):
                raise
            return StreamResponse(_only(_error_frame(error, media)), media.stream_content_type)
        if self._stopped:
            # It may have begun after the others were ended, and nobody would end it.
            stream.close()
            raise errors.service_unavailable("apiserver is shutting down", retry_after=1)
        timers = _Timers(stream, timeout, self._call_later, bookmarks=selection.allow_bookmarks)

        def observe(count: int, size: int) -> None:
            self._observe(scope, count, size)

        return StreamResponse(_Frames(stream, encode, observe, timers, media), media.stream_content_type)


class _Frames:
    """The pieces of a watch. Whoever has it closes it, and with it the watch."""

    def __init__(
        self, stream: WatchStream, encode: Encode, observe: Callable[[int, int], None], timers: _Timers, media: MediaType
    ) -> None:
        self._stream = stream
        self._media = media
        self._batches = aiter(stream)
        self._encode = encode
        self._observe = observe
        self._timers = timers
        self._pieces: Iterator[bytes] = iter(())
        self._failed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        if self._failed:
            raise StopAsyncIteration
        try:
            return self._first_piece(await anext(self._batches))
        except StatusError as error:
            self._failed = True
            return _error_frame(error, self._media)

    def _first_piece(self, batch: Sequence[WatchEvent[Any]]) -> bytes:
        """The whole batch as a rule; what is left of a large one stays."""
        parts = [part for event in batch for part in self._encode(event)]
        size = sum(map(len, parts))
        self._observe(len(batch), size)
        if size <= MAX_PIECE:
            return b"".join(parts)
        self._pieces = _pieces(parts)
        return next(self._pieces)

    async def aclose(self) -> None:
        self._pieces = iter(())
        self._timers.cancel()
        self._stream.close()


class _Timers:
    """Ends the watch at its time, and asks for bookmarks on the way: every minute, and shortly before the end."""

    def __init__(self, stream: WatchStream, seconds: float, call_later: CallLater, *, bookmarks: bool) -> None:
        self._stream = stream
        self._call_later = call_later
        self._ends = [call_later(seconds, stream.close)]
        self._every: Timer | None = None
        if bookmarks:
            if seconds > _BOOKMARK_BEFORE_END:
                self._ends.append(call_later(seconds - _BOOKMARK_BEFORE_END, stream.bookmark))
            self._every = call_later(_BOOKMARK_EVERY, self._bookmark)

    def _bookmark(self) -> None:
        self._stream.bookmark()
        self._every = self._call_later(_BOOKMARK_EVERY, self._bookmark)

    def cancel(self) -> None:
        for timer in (*self._ends, self._every):
            if timer is not None:
                timer.cancel()


def _pieces(parts: Sequence[bytes]) -> Iterator[bytes]:
    """The parts joined, and cut into pieces."""
    gathered: list[bytes] = []
    room = PIECE_BYTES
    for part in parts:
        start = 0
        while len(part) - start >= room:
            yield b"".join((*gathered, part[start : start + room]))
            start += room
            gathered, room = [], PIECE_BYTES
        gathered.append(part[start:])
        room -= len(part) - start
    if gathered[-1] or len(gathered) > 1:
        yield b"".join(gathered)


def _encoder(scope: ResourceScope, request: Request, media: MediaType) -> Encode:
    if not media.convert:
        plain = _memoised(scope.info.api_version, lambda event: _raw(scope, event))
        return lambda event: _cuttable(scope, event) if event.size > PIECE_BYTES else plain(event)
    version = media.api_version
    if media.convert == "Table":
        return _table_encoder(scope, request, version)
    memo_key = scope.info.api_version, version, media.subtype
    return _memoised(memo_key, lambda event: _metadata_only(scope, event, media), is_protobuf=media.is_protobuf)


def _cuttable(scope: ResourceScope, event: WatchEvent[Any]) -> Sequence[bytes]:
    """A large object's bytes as the cache has them, which all watches share."""
    return (_FRAME_HEAD % event.type.encode(), _raw(scope, event), _FRAME_END)


def _memoised(memo_key: Hashable, form: Callable[[WatchEvent[Any]], bytes], *, is_protobuf: bool = False) -> Encode:
    """Frames that are the same for all who watch in this form; kept with the event."""
    in_frame = protobuf.encode_event if is_protobuf else _frame

    def encode(event: WatchEvent[Any]) -> Sequence[bytes]:
        frame: Sequence[bytes] | None = event.encodings.get(memo_key)
        if frame is None:
            frame = event.encodings[memo_key] = (in_frame(event.type, form(event)),)
        return frame

    return encode


def _metadata_only(scope: ResourceScope, event: WatchEvent[Any], media: MediaType) -> bytes:
    metadata = table.partial_object_metadata(_tree(scope, event), media.api_version)
    return protobuf.encode(metadata) if media.is_protobuf else codec.encode_json(metadata)


def _table_encoder(scope: ResourceScope, request: Request, api_version: str) -> Encode:
    """A table for each watcher, since ages are told as of now; the columns go out with the first event only."""
    include = options.include_object(request.query)
    first = True

    def encode(event: WatchEvent[Any]) -> Sequence[bytes]:
        nonlocal first
        # The annotation is all that the bookmark at the end of the initial events is for: its row always has the object.
        carried = "Metadata" if event.initial_events_end and include == "None" else include
        row = event.object.row(scope.table) if event.object else scope.table.row(_tree(scope, event), _raw(scope, event))
        meta = {"resourceVersion": str(event.revision)}
        rows = table.encode_table(scope.table, [row], carried, meta, time.time(), api_version=api_version, with_definitions=first)
        first = False
        return (_frame(event.type, rows),)

    return encode


def _frame(kind: str, obj: bytes) -> bytes:
    return b"".join((_FRAME_HEAD % kind.encode(), obj, _FRAME_END))


def _raw(scope: ResourceScope, event: WatchEvent[Any]) -> bytes:
    raw: bytes = event.object.raw if event.object is not None else codec.encode_json(_bookmark(scope, event))
    return raw


def _tree(scope: ResourceScope, event: WatchEvent[Any]) -> JSONObject:
    tree: JSONObject = event.object.decoded() if event.object is not None else _bookmark(scope, event)
    return tree


def _bookmark(scope: ResourceScope, event: WatchEvent[Any]) -> JSONObject:
    metadata: JSONObject = {"resourceVersion": str(event.revision)}
    if event.initial_events_end:
        metadata["annotations"] = {_EVENTS_END: "true"}
    return {"apiVersion": scope.object_version, "kind": scope.kind, "metadata": metadata}


def _error_frame(error: StatusError, media: MediaType) -> bytes:
    if media.is_protobuf:
        return protobuf.encode_event("ERROR", protobuf.encode(error.status()))
    return _frame("ERROR", codec.encode_json(error.status()))


async def _only(piece: bytes) -> AsyncGenerator[bytes, None]:
    yield piece
