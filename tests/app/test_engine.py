"""The uids of a running server."""

from __future__ import annotations

import os
import uuid

import pytest

from aggserver.app.engine import new_uids


def test_uids_are_random_uuids(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the library makes them of the same bytes, for every value of the bits that it sets."""
    block = bytes(range(256)) * 16
    monkeypatch.setattr(os, "urandom", lambda size: block[:size])
    make = new_uids()
    for start in range(0, len(block), 16):
        assert make() == str(uuid.UUID(bytes=block[start : start + 16], version=4))
    monkeypatch.undo()
    assert len({make() for _ in range(1_000)}) == 1_000
