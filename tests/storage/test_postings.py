from __future__ import annotations

import random
import sys

import pytest

from aggserver.storage import postings
from aggserver.storage.postings import Postings

ALL = (-(1 << 63), 1 << 63)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postings, "PART", 4)


def flat(found: Postings, span: tuple[int, int], start: str = "", end: str = "~") -> list[str]:
    return [key for piece in found.pieces(span, start, end) for key in found.keys(piece)]


@pytest.mark.parametrize("numbers", [1, 3, 200])
def test_as_a_sorted_list_of_pairs(numbers: int) -> None:
    chance = random.Random(numbers)
    found = Postings()
    expected: list[tuple[int, str]] = []
    for _ in range(800):
        number, key = chance.randrange(-numbers, numbers), f"{chance.randrange(100):03}"
        if (number, key) in expected:
            assert found.remove(number, key)
            expected.remove((number, key))
        elif chance.random() < 0.2:
            assert not found.remove(number, key)
        else:
            found.add(number, [key])
            expected = sorted([*expected, (number, key)])
        assert len(found) == len(expected)
        start, end = sorted(f"{chance.randrange(105):03}" for _ in range(2))
        wanted = [key for at, key in expected if at == number and start <= key < end]
        assert flat(found, (number, number + 1), start, end) == wanted
        low, high = sorted(chance.randrange(-numbers - 1, numbers + 2) for _ in range(2))
        if high - low != 1:
            wanted = [key for at, key in expected if low <= at < high]
            assert flat(found, (low, high), start, end) == wanted
    assert flat(found, ALL) == [key for _, key in expected]
    for number, key in expected:
        assert found.remove(number, key)
    assert len(found) == 0
    assert flat(found, ALL) == []


def test_many_keys_at_once() -> None:
    found = Postings()
    found.add(7, ["k0", "k9"])
    found.add(7, [f"l{number:02}" for number in range(30)])
    found.add(6, [f"m{number:02}" for number in range(30)])
    assert flat(found, (7, 8)) == ["k0", "k9", *(f"l{number:02}" for number in range(30))]
    assert flat(found, (7, 8), "l03", "l05") == ["l03", "l04"]
    assert max(last - first for _, first, last in found.pieces(ALL, "", "~")) <= 2 * postings.PART


def test_the_largest_and_the_smallest_number() -> None:
    found = Postings()
    for number in (ALL[1] - 1, ALL[0]):
        found.add(number, ["a"])
    assert flat(found, (ALL[1] - 1, ALL[1])) == ["a"]
    assert len(flat(found, ALL)) == 2


@pytest.mark.parametrize("values", [1, 10, 20_000])
def test_memory(monkeypatch: pytest.MonkeyPatch, values: int) -> None:
    """The same for any number of different values."""
    monkeypatch.undo()
    keys = [f"{number:05}" for number in range(20_000)]
    found = Postings()
    for number, key in enumerate(keys):
        found.add(hash(str(number % values)), [key])
    size = sum(sys.getsizeof(part) for part in (*found._keys, *found._numbers)) + sys.getsizeof(found._starts)
    assert size / len(keys) < 30
