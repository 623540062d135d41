"""Jumps: the gaps in the revisions of a store that were made by advancing its counter. Pure.

`Storage.advance` makes one write at the revision that it advances to. The write's key is KEY, and its value lists the jumps of
the counter: from which revision to which. So a gap that was made on purpose can be distinguished from lost events, and the
compactor, which keeps a number of writes, does not count a gap as a million writes.
Source: none; etcd's counter can be advanced only by `etcdutl snapshot restore --bump-revision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

__all__ = ["KEY", "Jump", "decode", "encode", "follows", "reach_back"]

# No custom resource has the group `aggserver`, since their groups have a dot.
KEY = "/aggserver/store/revision"
# The number of jumps that are recorded. Earlier ones matter only as long as there is history from before them.
MOST = 32


class Jump(NamedTuple):
    """A jump from revision `after` to `to`: there is no write between them, and the one at `to` has made the jump."""

    after: int
    to: int


def encode(jumps: Sequence[Jump]) -> bytes:
    """The value of KEY for these jumps. The last jump is the one that this write makes."""
    return orjson.dumps({"jumps": [list(jump) for jump in jumps[-MOST:]]})


def decode(value: bytes) -> list[Jump]:
    """The jumps in a value of KEY. Raises ValueError if `encode` did not make it."""
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
    """The revision after which there are `count` (> 0) writes; 0 if the store never had so many."""
    for jump in reversed(jumps):
        since = newest - jump.to
        if since >= count:
            break
        count -= since + 1
        newest = jump.after
        if not count:
            break
    return max(newest - count, 0)
