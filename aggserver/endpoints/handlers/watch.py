"""watch: a stream of events, until the client, the time limit or the server ends it. An event is one line of JSON, or a frame of
protobuf.

An event is encoded once for all watchers of the same version and form. Events that gather while the client is being written to
are sent in pieces, each when the socket has taken the one before, so that a client that doesn't read costs the memory of one
piece, however many events wait for it. A large object is sliced from the watch cache's bytes, and not copied as a whole.

If the resourceVersion is too old or in the future, the response is an ERROR event and not an HTTP error, since clients'
reflectors expect it there.
Source: k8s.io/apiserver pkg/endpoints/handlers/{watch,get}.go, pkg/storage/cacher/cache_watcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol, Self

from aggserver.endpoints import negotiation
from aggserver.endpoints.handlers import options
from aggserver.endpoints.handlers.reply import shows_metadata_only
from aggserver.endpoints.negotiation import MediaType
from aggserver.endpoints.request import Request, StreamResponse
from aggserver.endpoints.served import ResourceScope
from aggserver.meta import codec, errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.publish import table
from aggserver.registry.rest import Context, Watcher, WatchStream
from aggserver.scheme import protobuf
from aggserver.storage.cacher import WatchEvent

__all__ = ["CallLater", "Watching", "call_later"]

# Seconds that a watch lasts if the client sets no timeoutSeconds: a random time from this to twice this, so that watches don't
# all end together.
_MIN_TIMEOUT = 1800.0
# Seconds between bookmarks, and from the last bookmark to the end of the watch.
_BOOKMARK_EVERY = 60.0
_BOOKMARK_BEFORE_END = 2.0
_FRAME_HEAD, _FRAME_END = b'{"type":"%b","object":', b"}\n"
_EVENTS_END = "k8s.io/initial-events-end"

# Bytes of a piece of a large object. The watch cache decides the size of a batch of small ones (`storage/past.py`); the batch is
# sent as one piece if it has at most MAX_PIECE bytes.
PIECE_BYTES = 32 * 1024
MAX_PIECE = 128 * 1024

# Encodes an event as a frame, in parts that are sent one after the other.
Encode = Callable[[WatchEvent[Any]], Sequence[bytes]]


class Timer(Protocol):
    def cancel(self) -> None: ...


# (seconds, callback) -> a handle that cancels it, as the event loop's `call_later`.
CallLater = Callable[[float, Callable[[], None]], Timer]


def call_later(seconds: float, callback: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, callback)


class Watching:
    """The watch handler.

    random: a number in [0, 1), to spread the ends of watches. observe: called with the counts of events and bytes of each batch.
    """

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
        """Refuse new watches with 503 and Retry-After. Running watches are ended by the stores (`Store.end_watches`)."""
        self._stopped = True

    async def __call__(self, scope: ResourceScope, resource: Watcher, context: Context, request: Request) -> StreamResponse:
        media = negotiation.for_watch(request, built_in=scope.built_in)
        context.metadata_only = shows_metadata_only(scope, media)
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
            # The watch may have started after the running ones were ended, so it must be ended here.
            stream.close()
            raise errors.service_unavailable("apiserver is shutting down", retry_after=1)
        timers = _Timers(stream, timeout, self._call_later, bookmarks=selection.allow_bookmarks)

        def observe(count: int, size: int) -> None:
            self._observe(scope, count, size)

        return StreamResponse(_Frames(stream, encode, observe, timers, media), media.stream_content_type)


class _Frames:
    """The body of a watch's response, piece by piece. Closing it ends the watch."""

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
        """The whole batch, if it is small enough; else its first piece. The rest stays in `_pieces`."""
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
    """Ends the watch at its timeout. Asks for bookmarks, if the client allows them, every minute and shortly before the end."""

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
    """Join the parts and cut them into pieces of PIECE_BYTES."""
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
    if media.is_protobuf and not media.convert:
        memo = scope.info.api_version, media.subtype
        return _memoised(memo, lambda event: protobuf.encode(_tree(scope, event)), is_protobuf=True)
    if not media.convert:
        plain = _memoised(scope.info.api_version, lambda event: _raw(scope, event))
        return lambda event: _cuttable(scope, event) if event.size > PIECE_BYTES else plain(event)
    version = media.api_version
    if media.convert == "Table":
        return _table_encoder(scope, request, version)
    memo_key = scope.info.api_version, version, media.subtype
    return _memoised(memo_key, lambda event: _metadata_only(scope, event, media), is_protobuf=media.is_protobuf)


def _cuttable(scope: ResourceScope, event: WatchEvent[Any]) -> Sequence[bytes]:
    """A frame in parts, so that the bytes of a large object are not copied from the watch cache for each watch."""
    return (_FRAME_HEAD % event.type.encode(), _raw(scope, event), _FRAME_END)


def _memoised(memo_key: Hashable, form: Callable[[WatchEvent[Any]], bytes], *, is_protobuf: bool = False) -> Encode:
    """Encode each event once for all watchers of the same form: the frame is kept with the event."""
    in_frame = protobuf.encode_event if is_protobuf else _frame

    def encode(event: WatchEvent[Any]) -> Sequence[bytes]:
        frame = event.frames.get(memo_key)
        if frame is None:
            frame = event.frames[memo_key] = (in_frame(event.type, form(event)),)
        return frame

    return encode


def _metadata_only(scope: ResourceScope, event: WatchEvent[Any], media: MediaType) -> bytes:
    metadata = table.partial_object_metadata(_tree(scope, event), media.api_version)
    return protobuf.encode(metadata) if media.is_protobuf else codec.encode_json(metadata)


def _table_encoder(scope: ResourceScope, request: Request, api_version: str) -> Encode:
    """Tables are encoded for each watcher: the ages in them depend on the time, and only the first event has the columns."""
    include = options.include_object(request.query)
    first = True

    def encode(event: WatchEvent[Any]) -> Sequence[bytes]:
        nonlocal first
        # The bookmark at the end of the initial events is marked by an annotation, so its row must include the metadata.
        carried = "Metadata" if event.initial_events_end and include == "None" else include
        raw = _raw(scope, event)
        row = event.object.row(scope.table) if event.object else scope.table.row(_tree(scope, event), raw)
        meta = {"resourceVersion": event.resource_version}
        rows = table.encode_table(
            scope.table, [(row, raw)], carried, meta, time.time(), api_version=api_version, with_definitions=first
        )
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
    metadata: JSONObject = {"resourceVersion": event.resource_version}
    if event.initial_events_end:
        metadata["annotations"] = {_EVENTS_END: "true"}
    return {"apiVersion": scope.object_version, "kind": scope.kind, "metadata": metadata}


def _error_frame(error: StatusError, media: MediaType) -> bytes:
    if media.is_protobuf:
        return protobuf.encode_event("ERROR", protobuf.encode(error.status()))
    return _frame("ERROR", codec.encode_json(error.status()))


async def _only(piece: bytes) -> AsyncGenerator[bytes, None]:
    yield piece
