"""Requests to a server's own port, past the aggregator: with any certificate, any header, any scheme.

What the aggregator would never send is what must be refused. One connection for each request, since a certificate is a
connection's. Used by `test_authentication.py`.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests import records
from tests.controlplane.pki import KeyPair
from tests.waiting import HANG_SECONDS

__all__ = ["Answer", "Direct", "forwarding"]


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Direct:
    """A server on a port of loopback, known by a CA (PEM); without one, whoever answers is believed."""

    def __init__(self, port: int, ca: str = "") -> None:
        self._port = port
        self._ca = ca

    def get(self, path: str, *headers: tuple[str, str], certificate: KeyPair | None = None) -> Answer:
        """Raises OSError where the server ends the connection: a certificate of a CA that it doesn't know."""
        return self.request("GET", path, headers, certificate=certificate)

    def request(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        certificate: KeyPair | None = None,
    ) -> Answer:
        context = ssl.create_default_context(cadata=self._ca) if self._ca else _believing()
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=HANG_SECONDS, context=context)
        with contextlib.closing(connection):
            connection.putrequest(method, path)
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
                connection.putheader("Content-Type", "application/json")
            connection.endheaders(body)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        records.exchange(method, path, headers, body, answer.status, answer.body)
        return answer

    def plain_text(self, request: bytes) -> bytes:
        """What comes back for bytes that are sent without TLS."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=HANG_SECONDS) as connection:
            connection.sendall(request)
            try:
                return connection.recv(65536)
            except ConnectionResetError:
                return b""


def _believing() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextlib.contextmanager
def forwarding(port: int, to: int) -> Iterator[None]:
    """A TCP forwarder on loopback: what begins to answer on `port` is what listens on `to`."""
    listener = socket.create_server(("127.0.0.1", port))
    opened: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", to))
                opened.extend((near, far))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Closing alone does not wake a thread that waits in accept or recv.
        for one in (listener, *opened):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        thread.join()
        for one in (listener, *opened):
            one.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            target.sendall(content)
        target.shutdown(socket.SHUT_WR)
