"""The token bucket of frames without effect, with a clock in hand."""

from __future__ import annotations

import pytest

from aggserver.server.http2.allowance import MOST_EARNED, USELESS_BURST, USELESS_PER_SECOND, Allowance
from aggserver.server.http2.frames import ErrorCode, ProtocolError


def is_calm(error):
    return error.code is ErrorCode.ENHANCE_YOUR_CALM


def test_an_allowance_comes_back():
    now = 0.0
    allowance = Allowance(lambda: now)
    allowance.spend(USELESS_BURST)
    now = 1.0
    allowance.spend(1)
    allowance.spend(USELESS_PER_SECOND - 1)
    with pytest.raises(ProtocolError, check=is_calm):
        allowance.spend(1)
    now = 1e9
    allowance.spend(USELESS_BURST)
    with pytest.raises(ProtocolError, check=is_calm):
        allowance.spend(1)


def test_what_is_earned_is_kept_and_bounded():
    """Hundreds of watches are sent events before the client's WINDOW_UPDATEs for the first of them arrive."""
    allowance = Allowance(lambda: 0.0)
    for _ in range(MOST_EARNED):
        allowance.earn(2)
    for _ in range(MOST_EARNED + USELESS_BURST):
        allowance.spend(1)
    with pytest.raises(ProtocolError, check=is_calm):
        allowance.spend(1)
