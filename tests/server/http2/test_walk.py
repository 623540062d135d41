"""Walks at random, each from a seed: h2, an independent implementation, is the client. It refuses whatever breaks the protocol.

The client opens streams, sends bodies in padded pieces, trailers, resets, priorities, pings, settings in the middle and small
windows; header blocks are cut into CONTINUATION frames, and frames of types that nobody knows are put between. The bytes arrive
in pieces of any size. The application answers before, while or after it reads the body. At the end, every stream that was not
reset has its whole answer, and both sides agree on every window.
"""

from __future__ import annotations

import asyncio
import hashlib
import random

import h2.connection
import h2.events
import pytest
from h2.config import H2Configuration
from h2.exceptions import StreamClosedError
from h2.settings import SettingCodes
from hyperframe.frame import ContinuationFrame, Frame, HeadersFrame

from aggserver.server.http2.connection import HTTP2
from aggserver.server.http2.frames import PREFACE
from aggserver.server.http2.protocol import CONNECTION_WINDOW
from aggserver.server.requests import Requests
from tests.server.frames import Wire

STEPS = 250
SEEDS = range(20)

UNKNOWN = b"\x00\x00\x03\xee\xff\x00\x00\x00\x00abc"


async def digest(scope, receive, send):
    """Answers with what it has received, as often as x-times says, in pieces; x-early before it has read the body."""
    headers = dict(scope["headers"])
    seen = b"".join(b"%s=%s;" % pair for pair in scope["headers"] if pair[0].startswith(b"x-"))
    body = b""
    more = b"x-early" not in headers
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body += message["body"]
        more = message["more_body"]
        await asyncio.sleep(0)
    piece = seen + hashlib.sha256(body).hexdigest().encode() + body
    status, long = (200, b"y" * int(headers[b"x-header"]))
    await send({"type": "http.response.start", "status": status, "headers": [(b"x-long", long), (b"etag", b"e")]})
    for _ in range(int(headers[b"x-times"])):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Asked:
    """A request of the client's, and what came of it."""

    def __init__(self, headers, *, ended):
        self.headers = headers
        self.sent = b""
        self.ended = ended  # the client's side
        self.received = b""
        self.unacknowledged = 0
        self.status = ""
        self.over = ""

    @property
    def answer(self):
        seen = b"".join(f"{name}={value};".encode() for name, value in self.headers if name.startswith("x-"))
        headers = dict(self.headers)
        body = b"" if "x-early" in headers else self.sent
        return (seen + hashlib.sha256(body).hexdigest().encode() + body) * int(headers["x-times"])


class Walk:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.client = h2.connection.H2Connection(H2Configuration(client_side=True, header_encoding="ascii"))
        self.wire = Wire()
        self.failures = []
        self.requests = Requests(asyncio.get_running_loop(), self.failures.append)
        self.server = HTTP2(digest, self.requests, self.wire, {"type": "http", "http_version": "2"})
        self.asked: dict[int, Asked] = {}
        self.unsent = b""
        self.settling = True  # SETTINGS are on their way

    # between both

    async def pass_on(self):
        """What the client has to say, changed as a client may, in pieces; and the answers."""
        self.unsent += self._changed(self.client.data_to_send())
        while self.unsent:
            size = self.chance.choice([1, 5, 9, 40, 3_000, 100_000])
            piece, self.unsent = self.unsent[:size], self.unsent[size:]
            more = self.server.receive(piece)
            while more:
                await asyncio.sleep(0)
                more = self.server.receive(b"")
            if self.chance.random() < 0.3:
                await asyncio.sleep(0)
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        self.take()

    def take(self):
        data, self.wire.written = self.wire.written, b""
        while data:  # frame by frame: h2 looks at a new limit of frames only at the next call
            size = 9 + int.from_bytes(data[:3], "big")
            for event in self.client.receive_data(data[:size]):
                self._note(event)
            data = data[size:]

    def _note(self, event):
        stream = self.asked.get(getattr(event, "stream_id", 0))
        if isinstance(event, h2.events.ConnectionTerminated):
            raise AssertionError(f"the server has ended the connection: {event}")
        if isinstance(event, h2.events.SettingsAcknowledged):
            self.settling = False
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            headers = dict(event.headers)
            stream.status = headers[":status"]
            assert len(headers["x-long"]) == int(dict(stream.headers)["x-header"])
        elif isinstance(event, h2.events.DataReceived):
            stream.received += event.data
            stream.unacknowledged += event.flow_controlled_length
        elif isinstance(event, h2.events.StreamEnded):
            stream.over = "answered"
        elif isinstance(event, h2.events.StreamReset):
            assert event.error_code == 0, f"stream {event.stream_id}: {event}"
            assert stream.over == "answered"

    def _changed(self, data):
        """Header blocks cut into pieces, and unknown frames between frames."""
        begin = b""
        if data.startswith(PREFACE):
            begin, data = data[: len(PREFACE)], data[len(PREFACE) :]
            first = 9 + int.from_bytes(data[:3], "big")
            begin, data = begin + data[:first], data[first:]  # the first SETTINGS come first
        out = [begin]
        while data:
            length = 9 + int.from_bytes(data[:3], "big")
            raw, data = data[:length], data[length:]
            frame, _ = Frame.parse_frame_header(memoryview(raw[:9]))
            out += self._cut(frame, raw) if isinstance(frame, HeadersFrame) and self.chance.random() < 0.4 else [raw]
            if self.chance.random() < 0.05:
                out.append(UNKNOWN)
        return b"".join(out)

    def _cut(self, frame, raw):
        frame.parse_body(memoryview(raw[9:]))
        block, parts = frame.data, []
        while block:
            size = self.chance.randrange(1, len(block) + 1)
            parts.append(block[:size])
            block = block[size:]
        frame.data = parts.pop(0)
        frame.flags.discard("END_HEADERS")
        rest = [ContinuationFrame(frame.stream_id, part) for part in parts] or [ContinuationFrame(frame.stream_id, b"")]
        rest[-1].flags.add("END_HEADERS")
        return [each.serialize() for each in (frame, *rest)]

    # the client's steps

    def open(self):
        chance = self.chance
        if sum(1 for stream in self.asked.values() if not stream.over) > 40:
            return
        ended = chance.random() < 0.4
        headers = [
            (":method", chance.choice(["GET", "POST", "PATCH"])),
            (":authority", "localhost"),
            (":scheme", "https"),
            (":path", f"/{chance.randrange(5)}?a={chance.randrange(1000)}"),
            ("x-times", str(chance.choice([0, 1, 1, 3, 20]))),
            ("x-header", str(chance.choice([0, 10, 10, 300, 40_000]))),
            *((f"x-{chance.randrange(6)}", "v" * chance.choice([1, 30, 3_000])) for _ in range(chance.randrange(4))),
            *([("x-early", "1")] if chance.random() < 0.2 else []),
        ]
        stream = self.client.get_next_available_stream_id()
        priority = {"priority_weight": 7, "priority_depends_on": 0} if chance.random() < 0.2 else {}
        self.client.send_headers(stream, headers, end_stream=ended, **priority)
        self.asked[stream] = Asked(headers, ended=ended)

    def _sending(self):
        """A stream whose body the client has not ended, None without any."""
        return self._any(lambda stream: not stream.ended)

    def _any(self, condition):
        found = [number for number, stream in self.asked.items() if not stream.over and condition(stream)]
        return self.chance.choice(found) if found else None

    def data(self, *, end=None):
        number = self._sending()
        if number is None:
            return
        stream, chance = self.asked[number], self.chance
        room = min(self.client.local_flow_control_window(number), self.client.max_outbound_frame_size)
        padding = chance.choice([None, None, 0, 10, 200])
        body = bytes(chance.choice(b"abc") for _ in range(chance.choice([0, 1, 100, 5_000])))
        body = body[: max(0, room - 1 - (padding or 0))]
        if padding is not None and room < padding + 1:
            padding = None
        ended = chance.random() < 0.3 if end is None else end
        self.client.send_data(number, body, end_stream=ended, pad_length=padding)
        stream.sent += body
        stream.ended = ended

    def trailers(self):
        number = self._sending()
        if number is not None:
            self.client.send_headers(number, [("x-trailer", "t" * self.chance.randrange(50))], end_stream=True)
            self.asked[number].ended = True

    def reset(self):
        number = self._any(lambda stream: True)
        if number is not None and self.chance.random() < 0.3:
            self.client.reset_stream(number, 8)
            self.asked[number].over = "reset"
            self.asked[number].ended = True

    def acknowledge(self):
        for number, stream in self.asked.items():
            if stream.unacknowledged and self.chance.random() < 0.5:
                self._give_back(number, stream)

    def _give_back(self, number, stream):
        size, stream.unacknowledged = stream.unacknowledged, 0
        self.client.acknowledge_received_data(size, number)

    def settings(self):
        if self.settling:
            return  # h2 takes the acknowledgement of one frame for that of all
        self.settling = True
        changed = self.chance.choice(
            [
                {SettingCodes.INITIAL_WINDOW_SIZE: self.chance.choice([0, 1, 70, 65_535, 200_000])},
                {SettingCodes.MAX_FRAME_SIZE: self.chance.choice([16_384, 20_000, 2**24 - 1])},
                {SettingCodes.HEADER_TABLE_SIZE: self.chance.choice([0, 60, 300, 4_096, 100_000])},
                {SettingCodes.MAX_HEADER_LIST_SIZE: 100_000, 0xF000: 7},
            ]
        )
        self.client.update_settings(changed)

    def ping(self):
        self.client.ping(b"12345678")

    def priority(self):
        self.client.prioritize(self.chance.randrange(1, 200) | 1, weight=9, depends_on=0)

    def window(self):
        number = self._any(lambda stream: True)
        self.client.increment_flow_control_window(self.chance.choice([1, 70, 20_000]), number)

    async def finish(self):
        """Ends all bodies and opens all windows, until everything has been answered."""
        for turn in range(2_000):
            await self.pass_on()
            if turn == 1:
                self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10_000_000})
            while (number := self._sending()) is not None and self.client.local_flow_control_window(number) > 0:
                self.client.send_data(number, b"", end_stream=True)
                self.asked[number].ended = True
            for number, stream in self.asked.items():
                if stream.unacknowledged:
                    self._give_back(number, stream)
            if not self.requests.tasks and all(stream.over for stream in self.asked.values()):
                break
        await self.pass_on()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_walk(seed):
    walk = Walk(seed)
    walk.client.initiate_connection()
    walk.server.initiate()
    await walk.pass_on()
    steps = [walk.open] * 3 + [walk.data] * 5 + [walk.acknowledge] * 3
    steps += [walk.trailers, walk.reset, walk.settings, walk.ping, walk.priority, walk.window]
    for _ in range(STEPS):
        step = walk.chance.choice(steps)
        try:
            step()
        except StreamClosedError:
            # The server's reset has arrived since the client's last look.
            continue
        if walk.chance.random() < 0.5:
            await walk.pass_on()
    await walk.finish()
    assert not walk.failures
    for number, stream in walk.asked.items():
        if stream.over != "reset":
            assert (stream.over, stream.status) == ("answered", "200"), number
            assert stream.received == stream.answer, number
    assert not walk.server._streams
    assert not walk.server.protocol._streams
    protocol = walk.server.protocol
    assert protocol.window == walk.client.inbound_flow_control_window
    assert protocol._receivable == walk.client.outbound_flow_control_window
    assert protocol._receivable + protocol._returned == CONNECTION_WINDOW
