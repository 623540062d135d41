"""What one client may cost, frame by frame: counted, with a clock in hand, and without a socket."""

from __future__ import annotations

import asyncio
import gc
import struct
import tracemalloc

import pytest
from hpack import Decoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from aggserver.server.http2.allowance import (
    BYTES_PER_CREDIT,
    CREDIT_PER_DATA,
    CREDIT_PER_RESPONSE,
    USELESS_BURST,
    Allowance,
)
from aggserver.server.http2.header_block import MAX_HEADER_LIST
from aggserver.server.http2.protocol import FRAMES_PER_TURN, MAX_CLOSED_STREAMS, MAX_FRAME_SIZE, MAX_STREAMS
from tests.server.frames import Peer, answer, parsed

CALM, REFUSED, PROTOCOL, FRAME_SIZE = 11, 7, 1, 6

# Stream 1 is answered, stream 3 has an application that waits for its body.
FLOODS = {
    "SETTINGS": SettingsFrame(0, settings={4: 65535}).serialize(),
    "SETTINGS without any": SettingsFrame(0).serialize(),
    "PING": PingFrame(0, b"12345678").serialize(),
    "PRIORITY": PriorityFrame(5, depends_on=3).serialize(),
    "WINDOW_UPDATE of the connection": WindowUpdateFrame(0, 1).serialize(),
    "WINDOW_UPDATE of a closed stream": WindowUpdateFrame(1, 1).serialize(),
    "RST_STREAM of a closed stream": RstStreamFrame(1, 8).serialize(),
    "DATA that is empty": DataFrame(3, b"").serialize(),
    "DATA that is padding": DataFrame(3, b"", pad_length=1, flags=["PADDED"]).serialize(),
    "DATA for a closed stream": DataFrame(1, b"").serialize(),
    "a type that nobody knows": b"\x00\x00\x01\xbb\x00\x00\x00\x00\x00x",
}


async def stalled(scope, receive, send):
    if scope["path"] == "/":
        await answer(scope, receive, send)
    else:
        await asyncio.get_running_loop().create_future()


async def flooded():
    """A connection whose clock stands, stream 1 answered and stream 3 open; with no credit for what was done."""
    peer = Peer(stalled)
    await peer.open()
    await peer.request()
    head = [(b":method", b"POST"), (b":scheme", b"https"), (b":authority", b"a"), (b":path", b"/stalled")]
    await peer.send(HeadersFrame(3, peer.encoder.encode(head), flags=["END_HEADERS"]))
    peer.take()
    peer.http2.protocol.allowance = Allowance(lambda: 0.0)
    return peer


@pytest.mark.parametrize("data", FLOODS.values(), ids=FLOODS)
async def test_a_flood_ends_the_connection(data):
    peer = await flooded()
    cost = 2 if data == FLOODS["SETTINGS"] else 1
    assert await peer.send(data * (USELESS_BURST // cost)), "so many are nothing"
    assert not peer.goaways()
    assert not await peer.send(data)
    assert peer.goaways() == [(CALM, 3)]
    peer.requests.cancel()


async def test_large_settings_cost_what_they_hold():
    peer = await flooded()
    settings = b"".join(struct.pack(">HL", 0xBA00 + number, 1) for number in range(USELESS_BURST))
    assert not await peer.send(struct.pack(">HBBBL", len(settings) >> 8, len(settings) & 0xFF, 4, 0, 0) + settings)
    assert peer.goaways() == [(CALM, 3)]
    peer.requests.cancel()


async def test_streams_that_are_reset_at_once():
    """CVE-2023-44487: what is reset before its answer was no use."""
    asked = 0

    async def app(scope, receive, send):
        nonlocal asked
        asked += 1

    peer = await Peer(app).open()
    heads = [peer.head() for _ in range(2 * USELESS_BURST)]
    assert not await peer.send(*(frame for head in heads for frame in (head, RstStreamFrame(head.stream_id, 8))))
    assert [code for code, _ in peer.goaways()] == [CALM]
    assert asked <= USELESS_BURST + FRAMES_PER_TURN


async def test_malformed_requests_are_no_use():
    peer = await Peer().open()
    frames = [peer.head(headers=[(b"Upper", b"case")]) for _ in range(2 * USELESS_BURST)]
    assert not await peer.send(*frames)
    *resets, goaway = peer.take()
    assert {reset.error_code for reset in resets} == {PROTOCOL}
    assert goaway.error_code == CALM


async def test_useful_work_pays_for_frames():
    """A client that sends a frame for each KB that it gets, and a few with each request, goes on for ever."""
    size = 8 * BYTES_PER_CREDIT

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * size})

    peer = await Peer(app).open()
    peer.http2.protocol.allowance = Allowance(lambda: 0.0)
    more = CREDIT_PER_RESPONSE + CREDIT_PER_DATA + size // BYTES_PER_CREDIT - 1
    for _ in range(8 * USELESS_BURST // more):
        stream = await peer.request()
        assert await peer.send(PriorityFrame(stream), WindowUpdateFrame(0, size), *[PingFrame(0, b"12345678")] * (more - 2))
    assert not peer.goaways()


async def test_bodies_in_small_frames():
    peer = await flooded()
    piece = DataFrame(3, b"x" * 64).serialize()
    assert await peer.send(piece * (4 * USELESS_BURST)), "64 bytes are something"
    peer.requests.cancel()


@pytest.mark.parametrize("frame", [PingFrame(0, b"12345678"), HeadersFrame(1)], ids=["PING", "HEADERS"])
async def test_others_have_their_turn_between_frames(frame):
    """A turn of the loop for each FRAMES_PER_TURN of them, and one more at the end of what was read."""
    peer = await Peer().open()
    data = b"".join((peer.head() if isinstance(frame, HeadersFrame) else frame).serialize() for _ in range(10 * FRAMES_PER_TURN))
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(others())
    await asyncio.sleep(0)
    turns = 0
    assert await peer.send(data)
    assert turns >= 10
    turns = 0
    assert await peer.send(b"")
    assert turns >= 1
    task.cancel()


async def test_a_stop_between_turns():
    """What comes in the same read as the end is not begun any more."""
    peer = await Peer().open()
    asyncio.get_running_loop().call_soon(peer.http2.closed)
    assert not await peer.send(*[peer.head() for _ in range(3 * FRAMES_PER_TURN)])
    assert peer.http2.protocol.highest_stream == 2 * FRAMES_PER_TURN - 1


async def test_one_stream_too_many():
    """RFC 9113, 5.1.2: it is refused alone, and its header block is decoded, or those after it would be read wrong."""
    release = asyncio.Event()
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]).get(b"x-of-the-table"))
        await release.wait()
        await answer(scope, receive, send)

    peer = await Peer(app).open()
    assert await peer.send(*[peer.head() for _ in range(MAX_STREAMS)])
    peer.take()
    refused = peer.head(headers=[(b"x-of-the-table", b"value")])
    assert await peer.send(refused)
    (reset,) = peer.take()
    assert (reset.stream_id, reset.error_code) == (refused.stream_id, REFUSED)
    release.set()
    while peer.http2._streams:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert len(seen) == MAX_STREAMS
    again = peer.head(headers=[(b"x-of-the-table", b"value")])
    assert len(again.data) < 10, "both fields come from the table"
    await peer.send(again)
    await asyncio.sleep(0)
    assert seen[-1] == b"value"


async def test_fewer_streams():
    async def app(scope, receive, send):
        await asyncio.Event().wait()

    peer = Peer(app, max_streams=2)
    peer.http2.initiate()
    (settings, _) = peer.take()
    assert settings.settings[3] == 2
    await peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", SettingsFrame(0))
    peer.take()
    assert await peer.send(peer.head(), peer.head())
    refused = peer.head()
    assert await peer.send(refused)
    (reset,) = peer.take()
    assert (reset.stream_id, reset.error_code) == (refused.stream_id, REFUSED)
    peer.requests.cancel()


async def test_as_many_streams_as_there_may_be():
    """In one read, with one in the middle that is not counted any more."""
    release = asyncio.Event()

    async def app(scope, receive, send):
        await release.wait()
        await answer(scope, receive, send)

    peer = await Peer(app).open()
    heads = [peer.head() for _ in range(MAX_STREAMS)]
    assert await peer.send(*heads, RstStreamFrame(heads[3].stream_id, 8), peer.head())
    assert not peer.take()
    release.set()


async def test_memory_of_a_connection():
    """What is kept of requests that are over: which of the last MAX_CLOSED_STREAMS were reset, and nothing of the rest."""
    peer = await Peer().open()

    async def requests(count):
        for _ in range(count):
            await peer.request(headers=[(b"x-unique", b"%d" % peer.next_stream)])
            await peer.request(flags=["END_HEADERS"])
        peer.take()
        await asyncio.sleep(0)

    await requests(2 * MAX_CLOSED_STREAMS)
    gc.collect()
    tracemalloc.start()
    try:
        await requests(512)
        gc.collect()
        # Of what handles the connection alone: threads that other tests have left allocate memory, too.
        ours = [tracemalloc.Filter(True, f"*/{package}/*") for package in ("aggserver", "jh2")]
        grown = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)
    finally:
        tracemalloc.stop()
    connection = peer.http2.protocol
    assert (len(connection._streams), len(connection._reset)) == (0, MAX_CLOSED_STREAMS)
    assert not peer.http2._streams
    assert not peer.requests.tasks
    assert grown < 50_000, "the 256 streams remembered are new ones; all of them would be 135 KB"


ENDINGS = {
    "answered before the body ends": ["END_HEADERS"],
    "answered": ["END_HEADERS", "END_STREAM"],
}


@pytest.mark.parametrize("flags", ENDINGS.values(), ids=ENDINGS)
async def test_a_stream_is_let_go_when_it_is_over(flags):
    peer = await Peer().open()
    stream = await peer.request(flags=flags)
    assert stream not in peer.http2.protocol._streams
    assert await peer.send(DataFrame(stream, b"late"), WindowUpdateFrame(stream, 1), RstStreamFrame(stream, 8))
    assert (await peer.request()) not in peer.http2.protocol._streams
    assert not peer.goaways()


async def test_late_trailers_end_nothing_as_long_as_the_stream_is_remembered():
    peer = await Peer().open()
    stream = await peer.request(flags=["END_HEADERS"])
    for _ in range(MAX_CLOSED_STREAMS - 1):
        await peer.request()
    assert await peer.send(HeadersFrame(stream, peer.encoder.encode([(b"x", b"y")]), flags=["END_HEADERS", "END_STREAM"]))
    assert not peer.goaways()


@pytest.mark.parametrize(("wanted", "used"), [(2**32 - 1, 4096), (4096, 4096), (100, 100), (0, 0)])
async def test_the_table_of_our_headers_is_bounded(wanted, used):
    peer = await Peer().open(settings={1: wanted})
    decoder = Decoder()
    decoder.max_allowed_table_size = 2**32
    await peer.request()
    (head,) = [frame for frame in peer.take() if isinstance(frame, HeadersFrame)]
    assert dict(decoder.decode(head.data))[":status"] == "200"
    assert decoder.header_table_size == used


async def test_a_frame_too_large_is_refused_by_its_head():
    peer = await Peer().open()
    assert not await peer.send(struct.pack(">HBBBL", (MAX_FRAME_SIZE + 1) >> 8, (MAX_FRAME_SIZE + 1) & 0xFF, 0, 0, 1))
    assert peer.goaways() == [(FRAME_SIZE, 0)]


async def test_a_header_block_without_end():
    peer = await Peer().open()
    part = b"\x00\x01x" + b"\x7f\x81\x7e" + b"y" * 16_384
    assert await peer.send(HeadersFrame(1, part))
    assert not await peer.send(*[ContinuationFrame(1, part)] * (MAX_HEADER_LIST // 16_384 + 1))
    assert peer.goaways() == [(CALM, 0)]


async def test_refusals_after_goodbye():
    peer = await Peer().open()
    await peer.request()
    peer.take()
    peer.http2.goodbye()
    peer.http2.goodbye()
    assert await peer.send(peer.head())
    goaway, reset = parsed(peer.wire.written)
    assert (goaway.error_code, goaway.last_stream_id) == (0, 1)
    assert (reset.stream_id, reset.error_code) == (3, REFUSED)
