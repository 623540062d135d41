"""What is logged of the libraries."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from aggserver.app.logs import log_to


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, library = logging.getLogger(), logging.getLogger("asyncio")
    before = root.level, root.handlers[:], library.level, library.filters[:]
    stream = io.StringIO()
    # `basicConfig` closes the handlers that it replaces.
    root.handlers[:] = []
    log_to(stream, "info", {})
    yield stream
    root.level, root.handlers[:], library.level, library.filters[:] = before


CLOSED = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"

# name: (message, error, whether it is logged)
RECORDS = {
    "a call that was given up during the handshake": ("Fatal error on SSL protocol", RuntimeError(CLOSED), False),
    "another error of a handshake": ("Fatal error on SSL protocol", RuntimeError("unexpected"), True),
    "the same error elsewhere": ("Task exception was never retrieved", RuntimeError(CLOSED), True),
    "no error": ("Fatal error on SSL protocol", None, True),
}


@pytest.mark.parametrize("name", RECORDS)
def test_errors_of_connections(stream: io.StringIO, name: str) -> None:
    message, error, logged = RECORDS[name]
    logging.getLogger("asyncio").error(message, exc_info=error)
    assert (message in stream.getvalue()) is logged
