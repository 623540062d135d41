"""How many frames without effect a client may send on one connection: a token bucket.

Anybody may open a connection, and a control frame costs its sender nothing. Useful frames earn credit.
Source: the token bucket of nghttp2 1.57 (nghttp2_ratelim).
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.server.http2.frames import ErrorCode, ProtocolError

__all__ = ["CREDIT_PER_DATA", "CREDIT_PER_RESPONSE", "Allowance"]

# The most frames without effect at once, and per second in the long run: nghttp2's figures. Go counts only frames whose answers
# the client does not read (10,000), since it has other processors for its other connections.
USELESS_BURST = 1000
USELESS_PER_SECOND = 33

# A response earns credit for the PRIORITY, WINDOW_UPDATEs and RST_STREAM that may come with its request; DATA that we send earns
# credit for two WINDOW_UPDATEs, and one more for every KB (Go's client sends two for 4 KB).
CREDIT_PER_RESPONSE = 4
CREDIT_PER_DATA = 2
BYTES_PER_CREDIT = 1024

# The most credit that is kept until it is spent. Hundreds of watches on one connection may be sent a batch each before the
# client's WINDOW_UPDATEs for the first one arrive, so the credit must cover all data on its way: a window for a thousand streams.
MOST_EARNED = 64 * 1024

# A request's body earns one credit for so many bytes, so that it may come in small frames, but not in empty ones only.
BODY_BYTES_PER_CREDIT = 64


class Allowance:
    """The number of frames without effect that a client may still send. clock: monotonic seconds."""

    __slots__ = ("_clock", "_earned", "_left", "_refilled")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = USELESS_BURST
        self._earned = 0
        self._refilled = clock()

    def spend(self, cost: int) -> None:
        """Raises ProtocolError when nothing is left, which ends the connection with ENHANCE_YOUR_CALM."""
        if cost <= self._earned:
            self._earned -= cost
            return
        if cost > self._left:
            now = self._clock()
            self._left = min(self._left + int((now - self._refilled) * USELESS_PER_SECOND), USELESS_BURST)
            self._refilled = now
            if cost > self._left:
                raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "more control frames than requests account for")
        self._left -= cost

    def earn(self, credit: int) -> None:
        self._earned = min(self._earned + credit, MOST_EARNED)
