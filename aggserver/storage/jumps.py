"""Jumps: the gaps in the revisions of a store that were made by advancing its counter. Pure.

`Storage.advance` makes one write at the revision that it advances to. Its key is KEY, and its value lists the jumps: from which
revision the counter went to which. So a gap that is meant can be told from events that were lost, and the compactor, which keeps
a number of writes, does not take a gap for a million of them.
Source: none; etcd's counter can't be advanced, but by `etcdutl snapshot restore --bump-revision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

__all__ = ["KEY", "Jump", "decode", "encode", "follows", "reach_back"]

# No custom resource has the group `aggserver`, since their groups have a dot.
KEY = "/aggserver/store/revision"
# Jumps that are remembered. Earlier ones matter only as long as there is history from before them.
MOST = 32


class Jump(NamedTuple):
    """There is no write between the revisions `after` and `to`, and one at `to`: the one that has made the jump."""

    after: int
    to: int


def encode(jumps: Sequence[Jump]) -> bytes:
    """The value of KEY for these jumps, of which the last is the one that the write makes."""
    return orjson.dumps({"jumps": [list(jump) for jump in jumps[-MOST:]]})


def decode(value: bytes) -> list[Jump]:
    """The reverse of `encode`. Raises ValueError for what it did not make."""
    document = orjson.loads(value)
    try:
        jumps = [Jump(after, to) for after, to in document["jumps"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{KEY} is no list of jumps") from error
    if not jumps or not all(type(number) is int for jump in jumps for number in jump):
        raise ValueError(f"{KEY} is no list of jumps")
    return jumps


def follows(before: int, revision: int, key: str, value: bytes | None) -> bool:
    """Whether the write at `revision` is the next one after the revision `before`, so that none between them was lost."""
    if revision == before + 1:
        return True
    if key != KEY or value is None:
        return False
    try:
        jump = decode(value)[-1]
    except ValueError:
        return False
    return jump.to == revision and jump.after <= before < revision


def reach_back(newest: int, count: int, jumps: Sequence[Jump]) -> int:
    """A revision after which there are at most `count` (> 0) writes, and no fewer than that if there were as many."""
    for jump in reversed(jumps):
        since = newest - jump.to
        if since >= count:
            break
        count -= since + 1
        newest = jump.after
        if not count:
            break
    return max(newest - count, 0)
