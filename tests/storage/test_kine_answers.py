"""What kine's answers to a write mean, by answers that its database gives when it fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aggserver.storage import etcd_wire as wire
from aggserver.storage.interface import Conflict, KeyExists, KeyValue, NotFound, Precondition, Unavailable
from aggserver.storage.kine import KineStorage

KEY = "/pods/default/a"


class Answering(KineStorage):
    """Its hold never lapses. Each write gets the next answer: the revision of the write, 0 if it is not taken, and the key's."""

    def __init__(self, answers: Sequence[tuple[int, int]]) -> None:
        super().__init__(["http://127.0.0.1:1"], clock=lambda: 0.0)
        self._held, self._until = 1, 60.0
        self.left = list(answers)

    async def _txn(
        self, key: str, expected: int, operation: bytes, guard: Precondition | None = None, seconds: float = 0.0
    ) -> wire.TxnAnswer:
        revision, current = self.left.pop(0)
        items = [KeyValue(key, b"", current, current)] if current else []
        return wire.TxnAnswer(revision or 9, bool(revision), wire.RangeAnswer(9, items, False, len(items), 1), None)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        return KeyValue(key, b"", 9, 9)


BUSY, FULL = (0, 0), [(0, 0)] * 3


@pytest.mark.parametrize(
    ("expected", "answers", "error"),
    [
        pytest.param(0, [(9, 0)], None, id="a new key"),
        pytest.param(0, [BUSY, (9, 0)], None, id="a new key, after the database was busy"),
        pytest.param(0, FULL, Unavailable, id="a new key that the database does not take"),
        pytest.param(0, [(0, 7)], KeyExists, id="a key that is there"),
        pytest.param(0, [BUSY, (0, 7)], KeyExists, id="a key that came meanwhile"),
        pytest.param(5, [(0, 5), (9, 5)], None, id="a change, after the database was busy"),
        pytest.param(5, [(0, 5)] * 3, Unavailable, id="a change that the database does not take"),
        pytest.param(5, [(0, 7)], Conflict, id="a change of what has changed"),
        pytest.param(5, [BUSY], NotFound, id="a change of what is gone"),
    ],
)
async def test_only_what_was_written_is_acknowledged(
    expected: int, answers: list[tuple[int, int]], error: type[Exception] | None
) -> None:
    store = Answering(answers)
    write = store.update(KEY, b"x", expected) if expected else store.create(KEY, b"x")
    if error is None:
        assert await write == 9
    else:
        with pytest.raises(error):
            await write
    assert not store.left


class Free(Answering):
    """Nobody has the hold, and it is refused; `taken` says whether somebody has it then."""

    taken = False

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        return KeyValue(key, b"", 9, 9) if self.taken and not self.left else None


@pytest.mark.parametrize(("taken", "told"), [(False, "is its database busy"), (True, "another server has begun")])
async def test_a_hold_that_is_refused_is_another_servers_fault_only_if_that_has_it(taken: bool, told: str) -> None:
    store = Free([BUSY])
    store.taken = taken
    with pytest.raises(Unavailable, match=told):
        await store._take()
