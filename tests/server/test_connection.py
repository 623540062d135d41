"""What a connection does for both protocols, with a transport that is made up: writers that wait, and reading that stops."""

from __future__ import annotations

import asyncio
from typing import Any

from hyperframe.frame import PingFrame, SettingsFrame

from aggserver.server.connection import MAX_DROPPED, MAX_UNREAD, Connection, EngineConfig, WorkerContext
from aggserver.server.http2.protocol import FRAMES_PER_TURN
from tests.server.frames import PREFACE, answer


class TLS:
    """As an SSLObject: HTTP/2 was agreed on, and there is no certificate."""

    def selected_alpn_protocol(self) -> str:
        return "h2"

    def getpeercert(self, *, binary_form: bool) -> None:
        return None


class Peer:
    family = 0

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getsockname = getpeername


class Transport:
    """Keeps what is written. unsent: what it says about it."""

    def __init__(self, *, tls: bool) -> None:
        self.extra: dict[str, Any] = {"ssl_object": TLS() if tls else None, "socket": Peer()}
        self.written = b""
        self.unsent = 0
        self.is_reading = True

    def get_extra_info(self, name: str) -> Any:
        return self.extra[name]

    def set_write_buffer_limits(self, *, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def abort(self) -> None: ...


def opened(*, tls: bool) -> tuple[Connection, Any]:
    connection = Connection(answer, EngineConfig(), WorkerContext(None), lambda made: None)
    transport: Any = Transport(tls=tls)
    connection.connection_made(transport)
    if tls:
        connection.data_received(PREFACE + SettingsFrame(0).serialize())
    return connection, transport


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_writers_wait_in_turn() -> None:
    """One fills the buffer again: the others wait on, also a new one, and one that is cancelled holds nobody up."""
    connection, _ = opened(tls=False)
    connection.pause_writing()
    wrote: list[int] = []

    async def writer(number: int) -> None:
        await connection.drain()
        wrote.append(number)
        connection.pause_writing()

    tasks = [asyncio.ensure_future(writer(number)) for number in range(4)]
    await turns()
    assert wrote == []
    tasks[0].cancel()
    for expected in ([1], [1, 2]):
        connection.resume_writing()
        await turns()
        assert wrote == expected
    connection.connection_lost(None)
    await turns()
    assert wrote == [1, 2, 3]


async def test_writers_that_leave_room_wake_the_next() -> None:
    connection, _ = opened(tls=False)
    connection.pause_writing()
    tasks = [asyncio.ensure_future(connection.drain()) for _ in range(3)]
    await turns()
    connection.resume_writing()
    await turns()
    assert all(task.done() for task in tasks)


async def test_reading_stops_while_there_is_more_to_handle() -> None:
    connection, transport = opened(tls=True)
    await turns()
    transport.written = b""
    ping = PingFrame(0, b"12345678").serialize()
    connection.data_received(ping * 3 * FRAMES_PER_TURN)
    assert not transport.is_reading
    connection.data_received(ping)  # of before the stop
    await turns(10)
    assert transport.is_reading
    assert len(transport.written) == (3 * FRAMES_PER_TURN + 1) * len(ping)


async def test_reading_stops_while_answers_are_unread() -> None:
    connection, transport = opened(tls=True)
    ping = PingFrame(0, b"12345678").serialize()
    transport.unsent = MAX_UNREAD + 1
    connection.pause_writing()
    connection.data_received(ping * 3 * FRAMES_PER_TURN)
    await turns(10)
    assert not transport.is_reading
    assert transport.written.count(b"12345678") == FRAMES_PER_TURN, "no more are handled, either"
    transport.unsent = 0
    connection.resume_writing()
    await turns(10)
    assert transport.is_reading
    assert transport.written.count(b"12345678") == 3 * FRAMES_PER_TURN


async def test_what_follows_an_error_is_dropped() -> None:
    """And after a while not even read."""
    connection, transport = opened(tls=True)
    connection.data_received(b"\x00\x00\x00\x06\x00\x00\x00\x00\x01")
    connection.data_received(bytes(MAX_DROPPED))
    assert transport.is_reading
    connection.data_received(b"x")
    assert not transport.is_reading
