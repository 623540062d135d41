"""Requests that are answered at once: what is sent, and when the application is asked instead."""

import asyncio
from typing import NamedTuple

import pytest
from hpack import Decoder
from hyperframe.frame import DataFrame, GoAwayFrame, HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

from aggserver.server.http2.connection import LEAST_ROOM
from tests.server.frames import Peer


class Answer(NamedTuple):
    status: int
    headers: list
    body: bytes


class Lane:
    """Answers everything with `body`, if there is room for it. asked: the room of each request."""

    def __init__(self, body=b"lane", headers=()):
        self.body = body
        self.headers = headers
        self.asked = []

    def __call__(self, scope, room):
        self.asked.append(room)
        if self.body is None or len(self.body) > room:
            return None
        return Answer(200, [(b"content-length", b"%d" % len(self.body)), *self.headers], self.body)


async def opened(lane, settings=None):
    return await Peer(at_once=lane).open(settings)


def bodies(frames):
    """stream -> its body, of streams that have ended."""
    found, ended = {}, set()
    for frame in frames:
        if isinstance(frame, DataFrame):
            found[frame.stream_id] = found.get(frame.stream_id, b"") + frame.data
        if "END_STREAM" in frame.flags:
            ended.add(frame.stream_id)
            found.setdefault(frame.stream_id, b"")
    return {stream: body for stream, body in found.items() if stream in ended}


async def test_an_answer():
    lane = Lane()
    peer = await opened(lane)
    peer.wire.is_idle = False
    await peer.send(peer.head(), peer.head())
    frames = peer.take()
    assert [type(frame) for frame in frames] == [HeadersFrame, DataFrame] * 2
    assert bodies(frames) == {1: b"lane", 3: b"lane"}
    assert not peer.requests.tasks
    assert peer.wire.is_idle
    assert lane.asked[0] == 65_535
    assert lane.asked[1] == 65_535 - len(b"lane"), "the connection's window is smaller by the first answer"


async def test_an_answer_without_a_body():
    peer = await opened(Lane(b""))
    await peer.send(peer.head())
    (head,) = peer.take()
    assert "END_STREAM" in head.flags


async def test_what_the_lane_leaves_is_the_applications():
    lane = Lane(None)
    peer = await opened(lane)
    await peer.request()
    assert bodies(peer.take()) == {1: b"ok"}
    assert len(lane.asked) == 1


async def test_requests_with_a_body():
    lane = Lane()
    peer = await opened(lane)
    await peer.send(peer.head(flags=("END_HEADERS",)))
    await peer.send(DataFrame(1, b"x", flags=("END_STREAM",)))
    assert not lane.asked
    assert bodies(peer.take()) == {1: b"ok"}


@pytest.mark.parametrize("size", [LEAST_ROOM - 1, LEAST_ROOM])
async def test_a_small_window(size):
    lane = Lane()
    peer = await opened(lane, {SettingsFrame.INITIAL_WINDOW_SIZE: size})
    await peer.request()
    assert lane.asked == ([size] if size >= LEAST_ROOM else [])
    assert bodies(peer.take()) == {1: b"lane" if lane.asked else b"ok"}


async def test_the_windows_are_kept():
    """Answers take from both windows, so that a client never gets more than it has allowed."""
    lane = Lane(b"x" * 30_000)
    peer = await opened(lane)
    await peer.send(peer.head(), peer.head(), peer.head())
    assert lane.asked == [65_535, 35_535, 5_535]
    assert {stream: len(body) for stream, body in bodies(peer.take()).items()} == {1: 30_000, 3: 30_000, 5: len(b"ok")}


async def test_a_socket_that_is_full():
    lane = Lane()
    peer = await opened(lane)
    peer.wire.is_full = True
    frame = peer.head()
    await peer.send(frame)
    assert not lane.asked
    peer.wire.is_full = False
    await peer.send(WindowUpdateFrame(0, 1))


async def test_a_stream_that_is_reset_behind_its_request():
    lane = Lane()
    peer = await opened(lane)
    await peer.send(peer.head(), RstStreamFrame(1, error_code=8))
    assert not lane.asked
    assert not [frame for frame in peer.take() if isinstance(frame, HeadersFrame | DataFrame)]


async def test_the_connection_ends_with_an_answer_that_says_so():
    lane = Lane(headers=[(b"connection", b"close")])
    peer = await opened(lane)
    await peer.send(peer.head(), peer.head())
    frames = peer.take()
    assert [type(frame) for frame in frames[:3]] == [HeadersFrame, DataFrame, GoAwayFrame]
    head = Decoder().decode(frames[0].data)
    assert head == [(":status", "200"), ("content-length", "4"), ("date", "today")], "HTTP/2 has no header `connection`"
    assert peer.http2.leaving
    await peer.send(peer.head())
    assert [type(frame) for frame in peer.take()] == [RstStreamFrame], "the client is to send it elsewhere"


async def test_a_server_that_stops_refuses():
    lane = Lane()
    peer = await opened(lane)
    peer.http2.goodbye()
    peer.take()
    await peer.send(peer.head())
    assert [type(frame) for frame in peer.take()] == [RstStreamFrame]
    assert not lane.asked
    await asyncio.sleep(0)
