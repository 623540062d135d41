"""Clients of HTTP/1.1 and HTTP/2 over real sockets, small enough to misbehave on purpose."""

from __future__ import annotations

import asyncio
import socket
import ssl

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.waiting import HANG_SECONDS


def tls_context(ca_pem, *, alpn=("h2",), client=None, tmp_path=None):
    """What a client connects with; `client` is its KeyPair."""
    context = ssl.create_default_context(cadata=ca_pem.decode())
    context.set_alpn_protocols(list(alpn))
    if client is not None:
        path = tmp_path / "client.pem"
        path.write_bytes(client.cert_pem + client.key_pem)
        context.load_cert_chain(path)
    return context


async def http1(port, request, context=None):
    """Send the bytes, read until the server closes, return all."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost" if context else None
    )
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), HANG_SECONDS)
    finally:
        await close(writer)


async def close(writer):
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        return


class HTTP2Client:
    """One connection. `received[stream]` has its status, headers, body, and how it ended: "end", "reset" or None."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True, header_encoding="ascii", validate_outbound_headers=False, normalize_outbound_headers=False
            )
        )
        self.received = {}
        self.goaway = None  # (error code, last stream)
        self.unread = b""
        self.closed = False
        self.acknowledge = True

    @classmethod
    async def connect(cls, port, context, receive_buffer=0, name="localhost"):
        """receive_buffer: bytes that the kernel keeps unread, 0 for as many as it likes. name: in the server's certificate."""
        connected = socket.socket()
        if receive_buffer:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connected.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connected, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=connected, ssl=context, server_hostname=name)
        client = cls(reader, writer)
        client.h2.initiate_connection()
        client.flush()
        return client

    def flush(self):
        if data := self.h2.data_to_send():
            self.writer.write(data)

    def request(self, path="/", *, method="GET", end=True, headers=()):
        """Send a request's head; returns the stream."""
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":authority", "localhost"), (":scheme", "https"), (":path", path), *headers]
        self.h2.send_headers(stream, head, end_stream=end)
        self.received[stream] = {"status": None, "headers": {}, "body": b"", "ended": None}
        self.flush()
        return stream

    def send(self, stream, data, *, end=False):
        self.h2.send_data(stream, data, end_stream=end)
        self.flush()

    async def until(self, condition):
        """Read until the condition holds. Fails when the server closes before, or nothing comes."""
        while not condition():
            data = await asyncio.wait_for(self.reader.read(65536), HANG_SECONDS)
            if not data:
                self.closed = True
                assert condition(), "the server closed the connection"
            for event in self.h2.receive_data(self.without_goaway(data)):
                self.take(event)
            self.flush()

    def without_goaway(self, data):
        """Whole frames, without GOAWAY, after which the library would read nothing more although the streams go on."""
        self.unread += data
        frames = b""
        while len(self.unread) >= 9 and len(self.unread) >= (size := 9 + int.from_bytes(self.unread[:3], "big")):
            frame, self.unread = self.unread[:size], self.unread[size:]
            if frame[3] == 7:
                self.goaway = (int.from_bytes(frame[13:17], "big"), int.from_bytes(frame[9:13], "big"))
            else:
                frames += frame
        return frames

    async def response(self, stream):
        await self.until(lambda: self.received[stream]["ended"])
        return self.received[stream]

    async def get(self, path="/"):
        return await self.response(self.request(path))

    def take(self, event):
        got = self.received.get(getattr(event, "stream_id", None))
        if got is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            got["headers"] = dict(event.headers)
            got["status"] = int(got["headers"].pop(":status"))
        elif isinstance(event, h2.events.DataReceived):
            got["body"] += event.data
            if self.acknowledge and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            got["ended"] = "end"
        elif isinstance(event, h2.events.StreamReset):
            got["ended"] = f"reset {int(event.error_code)}"

    async def close(self):
        await close(self.writer)
