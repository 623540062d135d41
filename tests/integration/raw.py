"""Plain HTTPS to an API server, as a kubeconfig says: the bytes that a client sends and the bytes that it gets, nothing between.

For tests about what kubectl and client libraries hide: media types, headers, odd paths and bodies. Used by `comparison.py`.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from tests import records
from tests.waiting import HANG_SECONDS

__all__ = ["Answer", "Client"]


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` has lower-case names, each with its values in their order."""

    status: int
    headers: Mapping[str, list[str]]
    body: bytes

    def header(self, name: str) -> str:
        return ", ".join(self.headers.get(name, []))


class Client:
    """One connection, kept alive and made anew where the server ended it. Not for several threads.

    certificate=False leaves out the client certificate of the kubeconfig: a stranger.
    """

    def __init__(self, kubeconfig: Path, *, certificate: bool = True) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        address = urlsplit(cluster["server"])
        context = ssl.create_default_context(cadata=_data(cluster, "certificate-authority").decode())
        if certificate:
            _load_certificate(context, config["users"][0]["user"])
        self.address = (address.hostname or "", address.port or 443)
        self.context = context
        self._connection = http.client.HTTPSConnection(*self.address, timeout=HANG_SECONDS, context=context)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def request(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Answer:
        """`path` goes out as it is, with its query. Raises OSError, http.client.HTTPException."""
        try:
            return self._request(method, path, headers or {}, body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, http.client.CannotSendRequest):
            # The server gave up the connection between two requests, as it may.
            self._connection.close()
            return self._request(method, path, headers or {}, body)

    def dial(self) -> ssl.SSLSocket:
        """A connection of its own, whose bytes are the caller's affair; reading and writing end after a while."""
        plain = socket.create_connection(self.address, HANG_SECONDS)
        return self.context.wrap_socket(plain, server_hostname=self.address[0])

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Answer:
        connection = self._connection
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        with connection.getresponse() as response:
            found: dict[str, list[str]] = {}
            for name, value in response.getheaders():
                found.setdefault(name.lower(), []).append(value)
            answer = Answer(response.status, found, response.read())
        records.exchange(method, path, list(headers.items()), body, answer.status, answer.body)
        return answer


def _data(entry: Mapping[str, Any], name: str) -> bytes:
    """What a kubeconfig has in itself or in a file."""
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return Path(entry[name]).read_bytes()


def _load_certificate(context: ssl.SSLContext, user: Mapping[str, Any]) -> None:
    with _file(_data(user, "client-certificate")) as certificate, _file(_data(user, "client-key")) as key:
        context.load_cert_chain(certificate, key)


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """ssl takes certificates from files only."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name
