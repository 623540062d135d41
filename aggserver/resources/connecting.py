"""Actions and streams: subresources of a resource that are functions.

An action is a POST and changes something; a stream is a GET, whose pieces are sent as they come. A stream ends with the server,
with its object, when its client goes, and when the client does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.rest import Context, ListOptions
from aggserver.registry.store import Store
from aggserver.resources.calls import Calls, name_of
from aggserver.resources.commit import asked
from aggserver.resources.errors import AnswerError, named
from aggserver.resources.requests import Request
from aggserver.schema import structural
from aggserver.schema.pruning import MalformedError, Pruner
from aggserver.schema.validation import validate
from aggserver.storage.changes import DELETED
from aggserver.typed.codec import Codec, UndecodableError, UnencodableError
from aggserver.typed.schema import TypeSchema

__all__ = ["ConnectedAction", "ConnectedStream", "Ends", "Running", "SubresourceFunction"]

# Open streams of one App. There is no other limit for requests that last.
_MOST_STREAMS = 500
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class SubresourceFunction:
    """One subresource as it was declared. is_stream: GET instead of POST. body: of what type the body of an action is; None for
    JSON as it comes, or no body. answer: of what other type than the resource's its answer is; None for the object, JSON, or
    nothing. dry_run: whether the function knows `Request.dry_run`.
    """

    name: str
    function: Callable[..., Any]
    is_stream: bool
    takes_body: bool = False
    body: TypeSchema[Any] | None = None
    answer: TypeSchema[Any] | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Running:
    """What functions need of the server that runs them. hub: an object in the version of the user's class."""

    info: ResourceInfo
    calls: Calls
    state: Callable[[], Any]
    codec: Codec[Any]
    hub: Callable[[JSONObject], Awaitable[JSONObject]]
    authorize: Callable[[Request[Any], JSONObject], Awaitable[None]]
    ends: Ends
    seconds: float


class Ends:
    """The streams of an App that are open, and the watches of its sources: ends them when the server stops, and refuses more than
    can be borne.

    threads: of the App. A stream of a plain generator keeps one as long as it lasts, so that only half of them may be kept so.
    """

    def __init__(self, threads: int) -> None:
        self._most_plain = max(1, threads // 2)
        # What ends each of them.
        self._streams: dict[Callable[[], object], bool] = {}

    def check(self, *, is_plain: bool) -> None:
        """Raise 429 if there are too many streams already."""
        plain = sum(self._streams.values())
        if len(self._streams) >= _MOST_STREAMS or (is_plain and plain >= self._most_plain):
            raise errors.too_many_requests()

    def add(self, end: Callable[[], object], *, is_plain: bool) -> None:
        self._streams[end] = is_plain

    def forget(self, end: Callable[[], object]) -> None:
        self._streams.pop(end, None)

    def end_all(self) -> None:
        for end in [*self._streams]:
            end()


class _Connected:
    def __init__(self, running: Running, declared: SubresourceFunction, store: Store) -> None:
        self._running = running
        self._declared = declared
        self._store = store

    async def _found(self, context: Context, request: Request[Any]) -> tuple[JSONObject, Any]:
        """The object, and the instance of it for the function."""
        running = self._running
        obj = (await self._store.get(context, context.name)).decoded()
        hub = await running.hub(obj)
        if context.user is not CONTROLLER:
            await running.authorize(request, hub)
        return obj, running.codec.decode(hub)

    def _request(self, context: Context, *, dry_run: bool = False) -> Request[Any]:
        request = asked(context, dry_run=dry_run)
        values = {name: getattr(request, name) for name in request.__dataclass_fields__}
        return Request(**values | {"state": self._running.state()})


class ConnectedAction(_Connected):
    """A POST. The answer is what the function returns: an object of the resource, or of the class that it is annotated with,
    JSON, or nothing, which is a success.
    """

    def __init__(self, running: Running, declared: SubresourceFunction, store: Store) -> None:
        super().__init__(running, declared, store)
        self._prune = None if declared.body is None else Pruner(structural.compile(declared.body.schema))

    async def connect(self, context: Context, body: Any, *, dry_run: bool) -> JSONObject | AsyncIterator[bytes]:
        running, declared = self._running, self._declared
        if dry_run and not declared.dry_run:
            what = f"{errors.qualified(running.info.resource, running.info.group)}/{declared.name}"
            raise errors.bad_request(f"dry run is not supported for {what}")
        request = self._request(context, dry_run=dry_run)
        obj, value = await self._found(context, request)
        args = [request, value]
        if declared.takes_body:
            args.append(self._body(body, request, context.name))
        seconds = min(running.seconds, request.seconds_left)
        try:
            answer = await running.calls.write(declared.function, *args, seconds=seconds)
        except StatusError as error:
            raise named(error, running.info, context.name) from None
        if answer is None:
            return dict(_SUCCESS)
        try:
            if declared.answer is not None:
                return declared.answer.codec.encode(answer)
            if isinstance(answer, Mapping):
                return dict(answer)
            made = running.codec.encode(answer)
        except UnencodableError as error:
            raise AnswerError(_no_answer(declared, answer, running.info.kind, error)) from None
        metadata = {**obj["metadata"], **made.get("metadata", {})}
        return {"apiVersion": running.info.api_version, "kind": running.info.kind, **made, "metadata": metadata}

    def _body(self, body: Any, request: Request[Any], name: str) -> Any:
        declared, info = self._declared.body, self._running.info
        if declared is None:
            return body
        if not isinstance(body, dict | None):
            raise errors.bad_request("the body must be a JSON object")
        given = body or {}
        assert self._prune is not None
        try:
            unknown = self._prune(given)
        except MalformedError as error:
            raise errors.bad_request(str(error)) from None
        for path in unknown:
            request.warn(f'unknown field "{path}"')
        if problems := validate(given, declared.schema):
            raise errors.invalid(info.group, info.kind, name, problems)
        try:
            return declared.codec.decode(given)
        except UndecodableError as error:
            raise errors.invalid(info.group, info.kind, name, error.errors) from None


def _no_answer(declared: SubresourceFunction, answer: Any, kind: str, error: UnencodableError) -> str:
    name, class_ = name_of(declared.function), type(answer).__name__
    if declared.answer is not None or class_ == kind:
        return f"{name} returned a {class_} that can't be an answer: {error}"
    return f"{name} returned a {class_}: it must be a {kind}, a dict or None, or of the class that the function is annotated with"


class ConnectedStream(_Connected):
    """A GET whose answer is text, piece by piece."""

    @property
    def _is_plain(self) -> bool:
        return not inspect.isasyncgenfunction(self._declared.function)

    async def connect(self, context: Context, body: Any, *, dry_run: bool) -> JSONObject | AsyncIterator[bytes]:
        self._running.ends.check(is_plain=self._is_plain)
        request = self._request(context)
        obj, value = await self._found(context, request)
        return self._pieces(context, request, value, obj["metadata"].get("resourceVersion") or "")

    async def _pieces(self, context: Context, request: Request[Any], value: Any, revision: str) -> AsyncIterator[bytes]:
        running, function = self._running, self._declared.function
        ended = asyncio.Event()
        running.ends.add(ended.set, is_plain=self._is_plain)
        waiting = asyncio.ensure_future(ended.wait())
        watching = asyncio.ensure_future(self._until_deleted(context, revision, ended))
        items = running.calls.stream(function, request, value)
        following: asyncio.Future[Any] | None = None
        try:
            while True:
                following = asyncio.ensure_future(anext(items))
                await asyncio.wait((following, waiting), return_when=asyncio.FIRST_COMPLETED)
                if ended.is_set():
                    return
                try:
                    piece = following.result()
                except StopAsyncIteration:
                    return
                except StatusError as error:
                    raise named(error, running.info, context.name) from None
                if not isinstance(piece, bytes | str):
                    raise AnswerError(f"{name_of(function)} must yield bytes or str, not {type(piece).__name__}")
                yield piece.encode() if isinstance(piece, str) else piece
        finally:
            running.ends.forget(ended.set)
            unfinished = [task for task in (waiting, watching, following) if task is not None and not task.done()]
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            # Not before its current step has ended: a generator that runs can't be closed.
            with contextlib.suppress(Exception):
                await items.aclose()

    async def _until_deleted(self, context: Context, revision: str, ended: asyncio.Event) -> None:
        """Sets `ended` when the object is deleted after a revision. A resource without watches has no such end."""
        by_name = ListOptions(
            LabelSelector.parse(""), FieldSelector.parse(f"metadata.name={context.name}"), resource_version=revision
        )
        with contextlib.suppress(StatusError, NotImplementedError):
            stream = await self._store.watch(Context(CONTROLLER, context.namespace), by_name)
            try:
                async for batch in stream:
                    if any(event.type == DELETED for event in batch):
                        ended.set()
                        return
            finally:
                stream.close()
