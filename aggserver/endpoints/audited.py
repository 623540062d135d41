"""Audited: what a request tells its audit on its way: who was allowed what, what was sent, what is answered.

`request.audit` is an `Audit`; it is None without a policy, and where the policy's level is None. `endpoints/auditing.py` makes
it, `endpoints/filters.py` tells it of the response.
Source: k8s.io/apiserver pkg/endpoints/filters/{audit,authn_audit}.go, pkg/audit/context.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from aggserver.audit.events import MAX_KEPT_BYTES, AuditRecord
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.scheme import protobuf

__all__ = ["Audit", "Pieces", "SendStage"]

# Sends the event of a stage, and tells whether it was taken.
SendStage = Callable[[AuditRecord, str], "bool | Awaitable[bool]"]
Pieces = Callable[[], Iterable[bytes]]

_JSON, _YAML, _PROTOBUF = b"application/json", b"application/yaml", b"application/vnd.kubernetes.protobuf"
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
# Bodies above this many bytes are decoded in a thread.
_LONG = 128 * 1024
_STATUS_HEADS = (b'{"kind":"Status",', b'{\n  "kind": "Status",')


class Audit:
    """The audit of one request. record: what handlers add to.

    is_api: whether its answer may be an object. is_long_running: whether it has an event when its answer begins. refused: whether
    it was refused before the filter, and has only that event.
    """

    __slots__ = ("_is_api", "_is_long_running", "_refused", "_send_stage", "_started", "record")

    def __init__(self, send: SendStage, record: AuditRecord, *, is_api: bool, is_long_running: bool, refused: bool) -> None:
        self._send_stage = send
        self._is_api = is_api
        self._is_long_running = is_long_running
        self._refused = refused
        self._started = False
        self.record = record

    def decided(self, reason: str, *, allowed: bool) -> None:
        """What the authorizer has said."""
        self.record.annotate(_DECISION, "allow" if allowed else "forbid")
        self.record.annotate(_REASON, reason)

    def undecided(self) -> None:
        self.record.annotate(_REASON, "internal error")

    def failed(self, error: StatusError) -> None:
        self.record.status = error.status()

    async def started(self, code: int) -> None:
        """The head of the response is about to be sent. Tells of a request that is long-running, or was refused early."""
        self.record.code = self.record.code or code
        if (self._is_long_running or self._refused) and not self._started:
            self._started = True
            await self._send("ResponseStarted")

    async def answered(self, code: int, content_type: bytes, body: bytes) -> None:
        """The response is about to be sent, and is all there."""
        record = self.record
        if record.status is None or record.wants_response:
            await self._look_at(content_type, body)
        if self._is_long_running or self._refused:
            await self.ended(code)
        elif not record.is_ended:  # as `ended`, without its coroutines, which most requests need not have
            record.is_ended, record.code = True, code
            taken = self._send_stage(record, "ResponseComplete")
            if not isinstance(taken, bool):
                await taken

    def keeping(self, content_type: bytes, pieces: Pieces) -> tuple[Pieces, Callable[[], Awaitable[None]]]:
        """For a response that is made while it is sent: pieces that are kept, if they are recorded, and what looks at them when
        they were sent.
        """
        kept: list[bytes] = []
        size = 0

        def all_of_them() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces():
                size += len(piece)
                if size <= MAX_KEPT_BYTES:
                    kept.append(piece)
                else:
                    kept.clear()
                yield piece

        async def look() -> None:
            if size > MAX_KEPT_BYTES:
                self.record.too_long()
            else:
                await self._look_at(content_type, b"".join(kept))

        async def nothing() -> None:
            return

        return (all_of_them, look) if self.record.wants_response else (pieces, nothing)

    async def ended(self, code: int) -> None:
        """The response was sent, or could not be. The first call counts. code: 0 if there was no response."""
        record = self.record
        if record.is_ended:
            return
        if not record.code and not code:
            record.status, code = {"status": "Success", "message": "Connection closed early"}, 200
        await self.started(code)
        record.is_ended = True
        if not self._refused:
            await self._send("ResponseComplete")

    async def panicked(self, error: Exception) -> None:
        """A handler has failed. The event names the kind of the error only: its text may tell of objects, and is in the log."""
        record = self.record
        if record.is_ended:
            return
        record.is_ended, record.code = True, 500
        message = f"APIServer panic'd: {type(error).__name__}"
        record.status = {"status": "Failure", "message": message, "reason": "InternalError"}
        await self._send("Panic")

    async def _send(self, stage: str) -> bool:
        taken = self._send_stage(self.record, stage)
        return taken if isinstance(taken, bool) else await taken

    async def _look_at(self, content_type: bytes, body: bytes) -> None:
        """AuditRecord the object in the body of a response, and its Status if it is one."""
        record = self.record
        kind = content_type.partition(b";")[0]
        is_status = record.status is None and _is_status(kind, body)
        if not is_status and not (record.wants_response and self._is_api):
            return
        if len(body) <= _LONG:
            _look(record, kind, body, is_status=is_status)
        else:
            await asyncio.to_thread(_look, record, kind, body, is_status=is_status)


def _is_status(kind: bytes, body: bytes) -> bool:
    if kind == _JSON:
        return body.startswith(_STATUS_HEADS)
    return b"Status" in body[:200] and kind in (_YAML, _PROTOBUF)


def _look(record: AuditRecord, kind: bytes, body: bytes, *, is_status: bool) -> None:
    try:
        value: Any = None
        if kind == _YAML:
            value = codec.decode_yaml(body)
        elif kind != _JSON:
            value = protobuf.decode(body)
        if value is not None:
            body = codec.encode_json(value)
        if is_status:
            value = codec.decode_stored(body)
            record.status = value if value.get("kind") == "Status" else None
        if record.wants_response and body:
            record.response(body)
    except (codec.DecodeError, protobuf.ProtobufError, protobuf.UnknownKind):
        return  # text, such as that of pods/log, or of a path that does not exist
