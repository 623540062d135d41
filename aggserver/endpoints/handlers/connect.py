"""connect: a subresource that does something with an object, or streams what it tells.

POST is authorized as `create`, and GET as `get`; a websocket is a GET and needs `create` as well, as for pods/exec since 1.35.
What goes wrong before the first piece of a stream is an answer with its code; later, the stream is broken off, so that its end
can't be taken for all there is.
Source: k8s.io/apiserver pkg/endpoints/handlers/rest.go (ConnectResource), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Self

from aggserver.endpoints import access, negotiation, websocket
from aggserver.endpoints.handlers import body, options, reply
from aggserver.endpoints.request import AnyResponse, BrokenOff, Request, StreamResponse
from aggserver.endpoints.served import ResourceScope
from aggserver.registry.rest import Connecter, Context

__all__ = ["connect"]

_TEXT = b"text/plain; charset=utf-8"
# A client that reads nothing for so long gets no more of a stream.
_UNREAD_SECONDS = 60.0
# The head of a stream that has nothing to say yet is sent after so long.
_FIRST_SECONDS = 1.0


async def connect(scope: ResourceScope, resource: Connecter, context: Context, request: Request) -> AnyResponse:
    if websocket.is_upgrade(request):
        await access.require(request.authorizer, access.attributes_of(request.info, request.user)._replace(verb="create"))
    dry_run, given = False, None
    if request.info.verb == "create":
        dry_run = options.write_options("CreateOptions", request.query_all, request.header(b"user-agent")).dry_run
        given = await body.read_value(request)
    answer = await resource.connect(context, given, dry_run=dry_run)
    if isinstance(answer, dict):
        media = negotiation.for_object(request, tables=False)
        return reply.tree_reply(media, answer, 201 if request.info.verb == "create" else 200)
    pieces = _Stream(answer)
    await pieces.begin(_FIRST_SECONDS)
    return StreamResponse(pieces, _TEXT, unread_seconds=_UNREAD_SECONDS)


class _Stream:
    """`Chunks` of any async iterator."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self._first: asyncio.Future[bytes] | None = None

    async def begin(self, seconds: float) -> None:
        """Wait for the first piece, but not for ever. Raises what is wrong, which then is the answer instead of a stream."""
        self._first = asyncio.ensure_future(_next(self._pieces))
        try:
            await asyncio.wait((self._first,), timeout=seconds)
        except BaseException:
            await self.aclose()
            raise
        if self._first.done() and (error := self._first.exception()) is not None and not isinstance(error, _EndError):
            await self.aclose()
            raise error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        first, self._first = self._first, None
        try:
            return await (_next(self._pieces) if first is None else first)
        except _EndError:
            raise StopAsyncIteration from None
        except Exception as error:
            raise BrokenOff from error

    async def aclose(self) -> None:
        if self._first is not None:
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)
        close = getattr(self._pieces, "aclose", None)
        if close is not None:
            await close()


class _EndError(Exception):
    """The end of the pieces: a task can't raise StopAsyncIteration."""


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(pieces)
    except StopAsyncIteration:
        raise _EndError from None
