"""The rules of RFC 9113 by single frames: which error ends the connection, which one its stream alone, and what is none."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from aggserver.server.http2.frames import PREFACE, ErrorCode, ProtocolError
from aggserver.server.http2.header_block import MAX_FIELDS
from aggserver.server.http2.protocol import CONNECTION_WINDOW, FRAMES_PER_TURN, STREAM_WINDOW, ServerConnection
from tests.server.frames import HEAD, Peer, parsed

# Of a connection with stream 1 answered, 3 open for its body of 4 bytes, and 5 open without a body, whose answer waits.
LENGTH = (b"content-length", b"4")


def raw(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">HBBBL", len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


ENDS = {
    "DATA of the connection": (raw(0, 0, 0, b"x"), ErrorCode.PROTOCOL_ERROR),
    "DATA of a stream that is not open": (DataFrame(7, b"x"), ErrorCode.PROTOCOL_ERROR),
    "DATA of a stream of ours": (DataFrame(2, b"x"), ErrorCode.PROTOCOL_ERROR),
    "DATA that is padded by more than all": (raw(0, 8, 3, b"\x04xxx"), ErrorCode.PROTOCOL_ERROR),
    "DATA that is padded by nothing at all": (raw(0, 8, 3, b""), ErrorCode.FRAME_SIZE_ERROR),
    "HEADERS of the connection": (raw(1, 5, 0, b"\x82"), ErrorCode.PROTOCOL_ERROR),
    "HEADERS of a stream of ours": (raw(1, 5, 2, b"\x82"), ErrorCode.PROTOCOL_ERROR),
    "HEADERS of an answered stream": (raw(1, 5, 1, b"\x82"), ErrorCode.STREAM_CLOSED),
    "HEADERS with half a priority": (raw(1, 0x25, 7, b"\x00\x00\x00"), ErrorCode.FRAME_SIZE_ERROR),
    "HEADERS that are no block": (raw(1, 5, 7, b"\xff\x00"), ErrorCode.COMPRESSION_ERROR),
    "PRIORITY of the connection": (raw(2, 0, 0, bytes(5)), ErrorCode.PROTOCOL_ERROR),
    "PRIORITY of another size": (raw(2, 0, 3, bytes(4)), ErrorCode.FRAME_SIZE_ERROR),
    "PRIORITY over itself, not open": (PriorityFrame(9, depends_on=9), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of the connection": (raw(3, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM that is not open": (RstStreamFrame(7, 8), ErrorCode.PROTOCOL_ERROR),
    "RST_STREAM of another size": (raw(3, 0, 3, bytes(5)), ErrorCode.FRAME_SIZE_ERROR),
    "SETTINGS of a stream": (raw(4, 0, 3, b""), ErrorCode.PROTOCOL_ERROR),
    "SETTINGS of another size": (raw(4, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "SETTINGS that acknowledge and set": (raw(4, 1, 0, bytes(6)), ErrorCode.FRAME_SIZE_ERROR),
    "a push that is neither": (SettingsFrame(0, settings={2: 2}), ErrorCode.PROTOCOL_ERROR),
    "an initial window too large": (SettingsFrame(0, settings={4: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
    "frames too small": (SettingsFrame(0, settings={5: 16_383}), ErrorCode.PROTOCOL_ERROR),
    "frames too large": (SettingsFrame(0, settings={5: 2**24}), ErrorCode.PROTOCOL_ERROR),
    "PUSH_PROMISE": (PushPromiseFrame(3, 8, b"\x82", flags=["END_HEADERS"]), ErrorCode.PROTOCOL_ERROR),
    "PING of a stream": (raw(6, 0, 3, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "PING of another size": (raw(6, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "GOAWAY of a stream": (raw(7, 0, 3, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "GOAWAY of another size": (raw(7, 0, 0, bytes(7)), ErrorCode.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE of another size": (raw(8, 0, 3, bytes(3)), ErrorCode.FRAME_SIZE_ERROR),
    "WINDOW_UPDATE that is not open": (WindowUpdateFrame(7, 1), ErrorCode.PROTOCOL_ERROR),
    "WINDOW_UPDATE by nothing": (raw(8, 0, 0, bytes(4)), ErrorCode.PROTOCOL_ERROR),
    "WINDOW_UPDATE too large": (WindowUpdateFrame(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
    "CONTINUATION of nothing": (ContinuationFrame(7, b"\x82", flags=["END_HEADERS"]), ErrorCode.PROTOCOL_ERROR),
    "CONTINUATION of another stream": (raw(1, 1, 7, b"\x82") + raw(9, 4, 9, b"\x87"), ErrorCode.PROTOCOL_ERROR),
    "a frame within a header block": (raw(1, 1, 7, b"\x82") + raw(6, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
    "a frame that nobody knows within a header block": (raw(1, 1, 7, b"\x82") + raw(0xEE, 0, 0, b""), ErrorCode.PROTOCOL_ERROR),
    "too many fields": (raw(1, 5, 7, b"\x82" * (MAX_FIELDS + 1)), ErrorCode.ENHANCE_YOUR_CALM),
    "too many changes of the table": (raw(1, 5, 7, b"\x20" * (MAX_FIELDS + 1)), ErrorCode.ENHANCE_YOUR_CALM),
    "too many bytes in few fields": (
        raw(1, 5, 7, b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000 + b"\xbe" * 20),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "a field that is too long": (raw(1, 5, 7, b"\x00\x01x\x7f\x81\xff\x03" + b"y" * 65_536), ErrorCode.ENHANCE_YOUR_CALM),
}

RESETS = {
    "DATA beyond the length": (DataFrame(3, b"12345"), 3, ErrorCode.PROTOCOL_ERROR),
    "DATA that ends before the length": (DataFrame(3, b"123", flags=["END_STREAM"]), 3, ErrorCode.PROTOCOL_ERROR),
    "DATA behind the end": (DataFrame(5, b"1"), 5, ErrorCode.STREAM_CLOSED),
    "DATA of an answered stream": (DataFrame(1, b"1"), 1, ErrorCode.STREAM_CLOSED),
    "DATA behind a reset": (RstStreamFrame(3, 8).serialize() + DataFrame(3, b"1").serialize(), 3, ErrorCode.STREAM_CLOSED),
    "HEADERS behind a reset": (RstStreamFrame(3, 8).serialize() + raw(1, 5, 3, b"\x82"), 3, ErrorCode.STREAM_CLOSED),
    "HEADERS behind the end": (raw(1, 5, 5, b"\x00\x01a\x01b"), 5, ErrorCode.STREAM_CLOSED),
    "trailers that do not end": (raw(1, 4, 3, b"\x00\x01a\x01b"), 3, ErrorCode.PROTOCOL_ERROR),
    "trailers before the length": (raw(1, 5, 3, b"\x00\x01a\x01b"), 3, ErrorCode.PROTOCOL_ERROR),
    "trailers with a method": (DataFrame(3, b"1234").serialize() + raw(1, 5, 3, b"\x82"), 3, ErrorCode.PROTOCOL_ERROR),
    "HEADERS over themselves": (raw(1, 0x25, 7, b"\x00\x00\x00\x07\x00\x82\x87\x84"), 7, ErrorCode.PROTOCOL_ERROR),
    "PRIORITY over itself": (PriorityFrame(3, depends_on=3), 3, ErrorCode.PROTOCOL_ERROR),
    "WINDOW_UPDATE by nothing": (raw(8, 0, 3, bytes(4)), 3, ErrorCode.PROTOCOL_ERROR),
    "WINDOW_UPDATE too large": (WindowUpdateFrame(3, 2**31 - 1), 3, ErrorCode.FLOW_CONTROL_ERROR),
    "a length without a body": (raw(1, 5, 7, b"\x82\x87\x84\x0f\x0d\x011"), 7, ErrorCode.PROTOCOL_ERROR),
}

FINE = {
    "PRIORITY of a stream that is not open": PriorityFrame(99, depends_on=3),
    "WINDOW_UPDATE of an answered stream": WindowUpdateFrame(1, 1),
    "RST_STREAM of an answered stream": RstStreamFrame(1, 8),
    "a type that nobody knows": raw(0xEE, 0xFF, 3, b"x"),
    "a setting that nobody knows": SettingsFrame(0, settings={0xBA: 1}),
    "settings that acknowledge": SettingsFrame(0, flags=["ACK"]),
    "the reserved bit": raw(8, 0, 1 << 31, struct.pack(">L", 1 << 31 | 5)),
    "the largest initial window": SettingsFrame(0, settings={4: 2**31 - 1}),
    "many fields": raw(1, 5, 7, b"\x82\x87\x84" + b"\x9f" * 3),
    "trailers": DataFrame(3, b"1234").serialize() + raw(1, 5, 3, b"\x00\x01a\x01b"),
    "CONTINUATION without anything": raw(1, 1, 7, b"\x82\x87\x84") + raw(9, 0, 7, b"") + raw(9, 4, 7, b""),
    "padding": raw(0, 8, 3, b"\x02ab\x00\x00"),
}


async def opened() -> Peer:
    async def app(scope, receive, send):
        if scope["path"] == "/":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        while (await receive())["type"] != "http.disconnect":
            pass
        lost.append(scope["path"])

    lost: list[str] = []
    peer = await Peer(app).open()
    peer.lost = lost
    await peer.request()
    for stream, path, more, flags in ((3, b"/3", [LENGTH], []), (5, b"/5", [], ["END_STREAM"])):
        block = peer.encoder.encode([*HEAD[:-1], (b":path", path), *more])
        assert await peer.send(HeadersFrame(stream, block, flags=["END_HEADERS", *flags]))
    await asyncio.sleep(0)
    peer.take()
    return peer


def end(peer: Peer) -> None:
    peer.http2.closed()
    peer.requests.cancel()


@pytest.mark.parametrize(("sent", "code"), ENDS.values(), ids=ENDS)
async def test_an_error_of_the_connection(sent: Frame | bytes, code: ErrorCode) -> None:
    peer = await opened()
    assert not await peer.send(sent)
    assert [each for each, _ in peer.goaways()] == [code]
    for _ in range(3):
        await asyncio.sleep(0)
    assert sorted(peer.lost) == ["/3", "/5"], "the applications hear of it"
    end(peer)


@pytest.mark.parametrize(("sent", "stream", "code"), RESETS.values(), ids=RESETS)
async def test_an_error_of_a_stream(sent: Frame | bytes, stream: int, code: ErrorCode) -> None:
    peer = await opened()
    assert await peer.send(sent)
    (reset,) = peer.take()
    assert (type(reset), reset.stream_id, reset.error_code) == (RstStreamFrame, stream, code)
    assert await peer.send(DataFrame(stream, b"late"), HeadersFrame(stream, b"\x82", flags=["END_HEADERS", "END_STREAM"]))
    assert peer.take() == [], "what has crossed the reset"
    for _ in range(3):
        await asyncio.sleep(0)
    assert peer.lost == ([f"/{stream}"] if stream in (3, 5) else [])
    end(peer)


@pytest.mark.parametrize("sent", FINE.values(), ids=FINE)
async def test_no_error(sent: Frame | bytes) -> None:
    peer = await opened()
    assert await peer.send(sent, PingFrame(0, b"12345678"))
    assert not [frame for frame in peer.take() if isinstance(frame, (RstStreamFrame, GoAwayFrame))]
    end(peer)


async def test_answers() -> None:
    peer = await opened()
    assert await peer.send(PingFrame(0, b"12345678"), PingFrame(0, b"12345678", flags=["ACK"]), SettingsFrame(0))
    ping, settings = peer.take()
    assert (ping.opaque_data, set(ping.flags)) == (b"12345678", {"ACK"})
    assert (type(settings), set(settings.flags)) == (SettingsFrame, {"ACK"})
    end(peer)


@pytest.mark.parametrize(
    "begin",
    [b"GET / HTTP/1.1\r\n\r\n", PREFACE[:-1] + b"x", PREFACE + raw(6, 0, 0, bytes(8)), PREFACE + raw(4, 1, 0, b"")],
    ids=["HTTP/1.1", "the last byte", "PING", "an acknowledgement"],
)
async def test_beginnings_that_are_none(begin: bytes) -> None:
    peer = Peer()
    peer.http2.initiate()
    peer.take()
    for byte in begin:
        peer.http2.receive(bytes([byte]))
    assert peer.goaways() == [(ErrorCode.PROTOCOL_ERROR, 0)]


async def test_a_client_that_leaves() -> None:
    """It has its answers; later streams are refused."""
    release = asyncio.Event()

    async def app(scope, receive, send):
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    peer = await Peer(app).open()
    assert await peer.send(peer.head(), GoAwayFrame(0), peer.head())
    goaway, reset = peer.take()
    assert (goaway.error_code, goaway.last_stream_id) == (0, 1)
    assert (reset.stream_id, reset.error_code) == (3, ErrorCode.REFUSED_STREAM)
    release.set()
    while peer.requests.tasks:  # noqa: ASYNC110
        await asyncio.sleep(0)
    head, data = peer.take()
    assert (head.stream_id, data.data) == (1, b"ok")
    assert peer.wire.is_idle


# Flow control, without a shell


def connection() -> ServerConnection:
    made = ServerConnection(lambda: 0.0)
    made.initiate()
    made.receive(PREFACE + SettingsFrame(0).serialize())
    made.data_to_send()
    return made


POST = b"\x83\x87\x84"
GET = b"\x82\x87\x84"


def test_the_windows_for_bodies() -> None:
    """They open when half of them is consumed, padding at once; a body that is complete needs none."""
    made = connection()
    made.receive(raw(1, 4, 1, POST))
    half = STREAM_WINDOW // 2
    made.receive(raw(0, 0, 1, bytes(half)) + raw(0, 8, 1, b"\x09" + bytes(9)))
    made.consumed(1, half - 11)
    assert made.data_to_send() == b""
    made.consumed(1, 1)
    (update,) = parsed(made.data_to_send())
    assert (update.stream_id, update.window_increment) == (1, half)
    made.receive(raw(0, 1, 1, b"x"))
    made.consumed(1, half)
    assert made.data_to_send() == b""


def test_the_window_of_the_connection() -> None:
    made = connection()
    made.consumed(1, CONNECTION_WINDOW // 2 - 1)
    assert made.data_to_send() == b""
    made._receivable -= CONNECTION_WINDOW // 2
    made.consumed(3, 1)
    (update,) = parsed(made.data_to_send())
    assert (update.stream_id, update.window_increment) == (0, CONNECTION_WINDOW // 2)
    assert (made._receivable, made._returned) == (CONNECTION_WINDOW, 0)


def test_a_body_beyond_the_window() -> None:
    """Ends the stream; beyond the connection's, everything. What no stream takes is given back."""
    made = connection()
    made.receive(raw(1, 4, 1, POST))
    events, _ = made.receive(raw(0, 0, 1, bytes(STREAM_WINDOW)))
    assert len(events) == 1
    made.receive(raw(0, 0, 1, b"x"))
    (reset,) = parsed(made.data_to_send())
    assert (reset.stream_id, reset.error_code) == (1, ErrorCode.FLOW_CONTROL_ERROR)
    last = 1 + 2 * (CONNECTION_WINDOW // STREAM_WINDOW - 1)
    for stream in range(3, last, 2):
        made.receive(raw(1, 4, stream, POST) + raw(0, 0, stream, bytes(STREAM_WINDOW)))
    assert (made._receivable, made._returned) == (STREAM_WINDOW - 1, 1)
    with pytest.raises(ProtocolError) as caught:
        made.receive(raw(1, 4, last, POST) + raw(0, 0, last, bytes(STREAM_WINDOW)))
    assert caught.value.code is ErrorCode.FLOW_CONTROL_ERROR


def test_a_window_below_zero() -> None:
    made = connection()
    made.receive(raw(1, 5, 1, GET))
    made.send_head(1, 200, [], ended=False)
    made.send_data(1, bytes(65_535 - 10), ended=False)
    made.data_to_send()
    made.receive(SettingsFrame(0, settings={4: 100}).serialize() + WindowUpdateFrame(0, 10**6).serialize())
    assert made.room(1) == 100 - (65_535 - 10)
    events, _ = made.receive(WindowUpdateFrame(1, 65_535 - 10 - 100).serialize())
    assert (made.room(1), events) == (0, [])
    events, _ = made.receive(WindowUpdateFrame(1, 1).serialize())
    assert (made.room(1), len(events)) == (1, 1)
    made.receive(SettingsFrame(0, settings={4: 65_535}).serialize())
    assert made.room(1) == 65_535 - 100 + 1


def test_large_heads_are_cut() -> None:
    """By the client's limit of a frame."""
    made = connection()
    made.receive(raw(1, 5, 1, GET))
    made.send_head(1, 200, [(b"x", b"\xff" * 40_000)], ended=True)
    sent = made.data_to_send()
    assert sent[3:5] + sent[9 + 16_384 :][3:5] == b"\x01\x01\x09\x00", "the end of the stream is the first one's"
    head, *rest = parsed(sent)
    assert (type(head), set(head.flags)) == (HeadersFrame, {"END_STREAM"})
    assert {type(frame) for frame in rest} == {ContinuationFrame}
    assert [set(frame.flags) for frame in rest] == [set()] * (len(rest) - 1) + [{"END_HEADERS"}]
    assert {len(frame.data) for frame in (head, *rest[:-1])} == {16_384}


def test_the_table_that_was_smaller_for_a_while() -> None:
    """The client has dropped what was in it: RFC 7541, 4.2 wants to hear of the smallest size and the last, not of the others."""
    made = connection()
    sizes = b"".join(SettingsFrame(0, settings={1: size}).serialize() for size in (100, 0, 50, 4096))
    made.receive(raw(1, 5, 1, GET) + sizes)
    made.data_to_send()
    made.send_head(1, 200, [], ended=True)
    (head,) = parsed(made.data_to_send())
    assert head.data == b"\x20\x3f\xe1\x1f\x88"


def test_bodies_are_cut() -> None:
    made = connection()
    made.receive(raw(1, 5, 1, GET))
    made.send_head(1, 200, [], ended=False)
    made.send_data(1, bytes(40_000), ended=True)
    _, *rest = parsed(made.data_to_send())
    assert [len(frame.data) for frame in rest] == [16_384, 16_384, 40_000 - 2 * 16_384]
    assert [set(frame.flags) for frame in rest] == [set(), set(), {"END_STREAM"}]


def test_a_turn_ends_after_much_of_headers() -> None:
    """As many fields as may be in a frame are more work than the others of a turn."""
    made = connection()
    block = GET + b"\x9f" * 1_500
    events, more = made.receive(b"".join(raw(1, 5, stream, block) for stream in range(1, 2 * FRAMES_PER_TURN, 2)))
    assert more
    assert len(events) == 1


def test_settings_cost_what_they_change() -> None:
    """Every open stream's window, so often as there are frames, but not for each setting of a frame."""
    made = connection()
    made.receive(b"".join(raw(1, 5, stream, GET) for stream in range(1, 2 * FRAMES_PER_TURN, 2)))
    made.receive(b"")
    before = made.allowance._left
    many = b"".join(struct.pack(">HL", 4, size) for size in range(100))
    events, _ = made.receive(raw(4, 0, 0, many) + SettingsFrame(0, settings={4: 99}).serialize())
    assert before - made.allowance._left == (1 + 100) + 1 + (1 + 1)
    assert events == []
    events, _ = made.receive(SettingsFrame(0, settings={4: 70_000}).serialize())
    assert len(events) == FRAMES_PER_TURN


# Who is woken


async def test_streams_wait_in_turn_for_the_connection_s_window() -> None:
    """A WINDOW_UPDATE wakes as many as it has room for: not all, or a byte would cost a thousand tasks their turn."""
    count, tried = 20, []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 65_535})

    peer = await Peer(app).open(settings={4: 1_000_000})
    for _ in range(count):
        assert await peer.send(peer.head())
    for _ in range(5):
        await asyncio.sleep(0)
    assert sum(len(frame.data) for frame in peer.take() if isinstance(frame, DataFrame)) == 65_535
    protocol = peer.http2.protocol
    room = protocol.room
    protocol.room = lambda stream: tried.append(stream) or room(stream)
    for step in range(3):
        tried.clear()
        assert await peer.send(WindowUpdateFrame(0, 10))
        for _ in range(5):
            await asyncio.sleep(0)
        (data,) = peer.take()
        assert (data.stream_id, len(data.data)) == (3 + 2 * step, 10), "the one that has waited longest"
        assert len(set(tried)) == 1
    assert await peer.send(RstStreamFrame(9, 8), WindowUpdateFrame(0, 2_000_000))
    while peer.requests.tasks:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert len({frame.stream_id for frame in peer.take() if "END_STREAM" in frame.flags}) == count - 2
    assert not peer.http2._waiting


async def test_streams_that_are_reset_do_not_wait() -> None:
    """Nothing of them is kept while the connection's window stays closed."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 65_536})

    peer = await Peer(app).open(settings={4: 1_000_000})
    assert await peer.send(peer.head())
    for _ in range(50):
        head = peer.head()
        assert await peer.send(head)
        await asyncio.sleep(0)
        assert await peer.send(RstStreamFrame(head.stream_id, 8))
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(peer.http2._waiting) == 1
    end(peer)
