"""The program behind the `etcd` that `aggserver envtest` writes: it answers that it is healthy, and where its data folder is.

kube-apiserver's stand-in keeps its data in that folder, so that data lives as long as with etcd: a kube-apiserver that is started
again with the same etcd finds it. This program stores no keys.

Run as a file, with neither aggserver nor any library to import (python -I -S), since envtest starts kube-apiserver only when this
answers.
Source of the flags and of /health: etcd v3.6, server/etcdmain/help.go and server/etcdserver/api/etcdhttp/health.go.
"""

from __future__ import annotations

import os
import select
import socket
import sys

__all__ = ["main"]

_DEFAULT_CLIENT_URL = "http://localhost:2379"
# Seconds that a client has to send its request. Requests are answered one after the other.
_PATIENCE = 1.0
_LARGEST_REQUEST = 8192


def main(arguments: list[str]) -> int:
    """Serves until a signal ends the process. Returns 1 if it can't."""
    flags = _flags(arguments)
    folder = os.path.abspath(flags.get("data-dir") or f"{flags.get('name', 'default')}.etcd")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        urls = (flags.get("listen-client-urls") or _DEFAULT_CLIENT_URL).split(",")
        listeners = [listener for url in urls for listener in _listen(url)]
    except (OSError, ValueError) as error:
        print(f"etcd of aggserver envtest: {error}", file=sys.stderr)
        return 1
    answers = {b"/health": b'{"health":"true","reason":""}', b"/data-dir": os.fsencode(folder)}
    while True:
        for listener in select.select(listeners, (), ())[0]:
            _answer(listener, answers)


def _flags(arguments: list[str]) -> dict[str, str]:
    """The values of flags by name. The value of a flag without `=` is the next word."""
    found = {}
    words = iter([*arguments, ""])
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        found[name] = value if equals else next(words, "")
    return found


def _listen(url: str) -> list[socket.socket]:
    """The sockets of all addresses of a URL's host. Raises OSError, and ValueError for a URL of another kind."""
    scheme, _, rest = url.strip().partition("://")
    host, _, port = rest.rstrip("/").rpartition(":")
    if scheme != "http" or not port.isdigit():
        raise ValueError(f"--listen-client-urls={url}: only http://HOST:PORT can be listened on")
    listeners = []
    for family, _, _, _, address in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise OSError(f"--listen-client-urls={url}: {error.strerror}") from None
        listener.listen(64)
        listener.setblocking(False)  # the client may be gone again
        listeners.append(listener)
    return listeners


def _answer(listener: socket.socket, answers: dict[bytes, bytes]) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return
    with connection:
        connection.settimeout(_PATIENCE)
        request = b""
        try:
            while b"\r\n\r\n" not in request and len(request) < _LARGEST_REQUEST:
                if not (read := connection.recv(_LARGEST_REQUEST)):
                    return
                request += read
            words = request.split(b" ", 2)
            body = answers.get(words[1]) if len(words) == 3 else None
            status = b"404 Not Found" if body is None else b"200 OK"
            body = body or b""
            connection.sendall(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body))
        except OSError:
            return


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
