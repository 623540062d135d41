"""The index for compare-and-swap, compared with a dict, with parts so small that they are often divided and emptied."""

import random
import tracemalloc

import pytest

from aggserver.storage import heads
from aggserver.storage.heads import Heads
from aggserver.storage.log import Head


@pytest.mark.parametrize("loaded", [0, 3, 4, 50])
@pytest.mark.parametrize("removals", [0.3, 0.7])
def test_any_writes_leave_what_a_dict_has(monkeypatch: pytest.MonkeyPatch, loaded: int, removals: float) -> None:
    monkeypatch.setattr(heads, "PART", 4)
    chance = random.Random(loaded)
    expected = {f"{number:03}": Head(number + 2, 1) for number in range(0, 2 * loaded, 2)}
    found = Heads()
    for key, head in expected.items():
        found.append(key, *head)
    for number in range(600):
        key = f"{chance.randrange(120):03}"
        if expected and chance.random() < removals:
            key = chance.choice(list(expected))
            found.remove(key)
            del expected[key]
        else:
            found.put(key, Head(number, number // 2))
            expected[key] = Head(number, number // 2)
        for each in (key, *(f"{chance.randrange(120):03}" for _ in range(5))):
            assert found.get(each) == expected.get(each)
    assert {key: found.get(key) for key in expected} == expected
    for key in [*expected, "absent"]:
        found.remove(key)
    assert found.get("001") is None


def test_readers_get_the_text_that_is_there() -> None:
    found = Heads()
    keys = [f"/g.io/foos/{number:05}" for number in range(5000)]
    for key in keys:
        found.append(key, 2, 2)
    assert all(found.shared(f"/g.io/foos/{number:05}") is keys[number] for number in range(5000))
    for other in ("/g.io/foos/00001x", "/a", "/z"):
        assert found.shared(other) is other


def test_a_key_takes_few_bytes_beside_its_text() -> None:
    keys = [f"/g.io/foos/{number:06}" for number in range(20_000)]
    tracemalloc.start()
    try:
        found = Heads()
        for number, key in enumerate(keys):
            found.append(key, 10**9 + number, 10**9)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert found.get(keys[-1]) is not None
    assert held < 30 * len(keys)  # 25 were measured
