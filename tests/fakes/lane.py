"""Compared: an application that gives every request to the lane first, and demands that both answer alike."""

from __future__ import annotations

from aggserver.endpoints.lane import Lane, LaneAnswer
from aggserver.endpoints.request import ASGIApp, Message, Receive, Request, Scope, Send

__all__ = ["Compared", "Uncounted"]

ROOM = 1 << 20


class Uncounted:
    """Counts nothing: the same request is counted when the application answers it."""

    def authenticated(self, request: Request) -> None:
        return None

    def authorized(self, request: Request) -> None:
        return None

    def request_done(self, request: Request, code: int, seconds: float, size: int) -> None:
        pass

    def in_flight(self, kind: str, count: int) -> None:
        pass

    def long_running(self, request: Request, change: int) -> None:
        pass


class Compared:
    """taken: the answers of the lane, in order. Requests for which it has none go to the application alone."""

    def __init__(self, app: ASGIApp, lane: Lane) -> None:
        self._app = app
        self._lane = lane
        self.taken: list[LaneAnswer] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._lane(dict(scope), ROOM) if scope["type"] == "http" else None
        if answer is None:
            await self._app(scope, receive, send)
            return
        self.taken.append(answer)
        sent: list[Message] = []

        async def record(message: Message) -> None:
            sent.append(dict(message))
            await send(message)

        await self._app(scope, receive, record)
        head = sent[0]
        other = LaneAnswer(head["status"], head["headers"], b"".join(message.get("body", b"") for message in sent[1:]))
        assert answer == other, (scope["path"], answer, other)
