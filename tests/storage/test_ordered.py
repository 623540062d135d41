"""The sorted map of the watch cache, compared with a dict, with parts so small that they are often divided and emptied."""

import random

import pytest

from aggserver.storage import ordered
from aggserver.storage.ordered import Ordered


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "PART", 4)


def check(found: Ordered[int], expected: dict[str, int], start: str, end: str) -> None:
    inside = [(key, value) for key, value in sorted(expected.items()) if start <= key < end]
    first, last = found.span(start, end)
    assert last - first == len(inside)
    assert list(found.items(first, last)) == inside
    assert found.values(first, last) == [value for _, value in inside]
    for position, (key, _) in enumerate(inside, first):
        assert found.key(position) == key


@pytest.mark.parametrize("loaded", [0, 3, 4, 50])
@pytest.mark.parametrize("removals", [0.3, 0.7])
def test_any_writes_leave_what_a_dict_has(loaded: int, removals: float) -> None:
    chance = random.Random(loaded)
    expected = {f"{number:03}": number for number in range(0, 2 * loaded, 2)}
    found = Ordered(list(expected), list(expected.values()))
    for number in range(600):
        key = f"{chance.randrange(120):03}"
        if expected and chance.random() < removals:
            key = chance.choice(list(expected))
            found.remove(key)
            del expected[key]
        else:
            found.put(key, number)
            expected[key] = number
        assert found.get(key) == expected.get(key)
        start, end = sorted(f"{chance.randrange(125):03}" for _ in range(2))
        check(found, expected, start, end)
    check(found, expected, "", "~")
    for key in sorted(expected):
        found.remove(key)
    check(found, {}, "", "~")
    assert found.get("001") is None


@pytest.mark.parametrize("sizes", [(0, 5, 0, 9), (4, 4), (1, 1, 1), (3, 10)])
def test_what_is_appended(sizes: tuple[int, ...]) -> None:
    keys = [f"{number:03}" for number in range(0, 2 * sum(sizes), 2)]
    expected = {key: int(key) for key in keys}
    found: Ordered[int] = Ordered()
    for size in sizes:
        part, keys = keys[:size], keys[size:]
        found.append(part, [expected[key] for key in part])
    check(found, expected, "", "~")
    for number in range(1, 2 * sum(sizes), 2):
        found.put(f"{number:03}", number)
        expected[f"{number:03}"] = number
    check(found, expected, "", "~")


@pytest.mark.parametrize("seed", range(3))
def test_the_values_of_many_keys(seed: int) -> None:
    chance = random.Random(seed)
    expected = {f"{number:03}": number for number in sorted(chance.sample(range(200), 80))}
    found = Ordered(list(expected), list(expected.values()))
    for count in (0, 1, 5, 100, 200):
        keys = sorted(f"{number:03}" for number in chance.sample(range(200), count))
        assert list(found.get_all(keys)) == [(key, expected[key]) for key in keys if key in expected]
    assert list(found.get_all(expected)) == list(expected.items())


def test_an_empty_map() -> None:
    check(Ordered(), {}, "", "~")


@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_map_stays_as_it_was_whatever_is_written_meanwhile(seed: int) -> None:
    chance = random.Random(seed)
    expected = {f"{number:03}": number for number in range(0, 60, 2)}
    found = Ordered(list(expected), list(expected.values()))
    snapshots = []
    for number in range(400):
        if number % 20 == 0:
            start, end = sorted(f"{chance.randrange(125):03}" for _ in range(2))
            inside = [(key, value) for key, value in sorted(expected.items()) if start <= key < end]
            frozen = found.frozen()
            snapshots.append((frozen, frozen.items(*frozen.span(start, end)), inside))
        key = f"{chance.randrange(120):03}"
        if key in expected and chance.random() < 0.6:
            found.remove(key)
            del expected[key]
        else:
            found.put(key, number)
            expected[key] = number
    check(found, expected, "", "~")
    for frozen, items, inside in snapshots:
        assert list(items) == inside
        assert all(frozen.get(key) == value for key, value in inside)


def test_a_part_is_copied_once_after_a_freeze() -> None:
    found = Ordered([f"{number:03}" for number in range(8)], list(range(8)))
    before = found._keys[1]
    frozen = found.frozen()
    found.put("004", -4)
    copied = found._keys[1]
    found.put("005", -5)
    assert copied is not before
    assert found._keys[1] is copied
    assert frozen.values(0, 8) == list(range(8))
