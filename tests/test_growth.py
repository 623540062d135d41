"""The search for inputs that grow (`make fuzz`): what it finds, with a clock that is made up, and that its cases can be read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.growth import encodings, measure, structures, texts
from tests.growth.measure import Case, find

# name: (seconds for a size, whether it is found)
TIMES: dict[str, tuple[Callable[[int], float], bool]] = {
    "quick": (lambda size: 1e-9 * size, False),
    "linear": (lambda size: 1e-5 * size, False),
    "linear and slow": (lambda size: 1e-3 * size, False),
    "a little more": (lambda size: 1e-5 * size * size.bit_length(), False),
    "one step": (lambda size: 1e-6 * size + (0.05 if size > 10_000 else 0), False),
    "quadratic": (lambda size: 1e-7 * size**2, True),
    "quadratic late": (lambda size: 2e-6 * size + 1e-9 * size**2, True),
    "cubic": (lambda size: 1e-9 * size**3, True),
    "exponential": (lambda size: 1e-3 * 1.1 ** min(size, 1000), True),
    "quadratic up to a bound": (lambda size: min(1e-7 * size**2, 0.01), False),
}


@pytest.mark.parametrize("name", TIMES)
def test_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds, is_found = TIMES[name]
    monkeypatch.setattr(measure, "_timed", lambda case, size: seconds(size))
    assert bool(find(Case("", str, str)).problem) is is_found


def test_a_run_that_is_disturbed_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(1)
    monkeypatch.setattr(measure, "_timed", lambda case, size: 1e-5 * size * chance.choice((1, 1, 1, 5)))
    assert [find(Case("", str, str)).problem for _ in range(100)] == [""] * 100


def test_errors_of_python_are_found() -> None:
    def recurse(size: int) -> int:
        return recurse(size - 1) if size else 0

    assert find(Case("", lambda size: size, recurse)).problem.startswith("RecursionError with ")
    assert find(Case("", lambda size: size, int.bit_length, 4)).problem == ""


def test_values_can_be_made_and_read() -> None:
    """A case that no longer fits its function would never find anything."""
    unfit = []
    for case in (*structures.cases(), *encodings.cases()):
        try:
            case.read(case.make(3))
        except (TypeError, AttributeError, NameError, KeyError, AssertionError) as error:
            unfit.append(f"{case.name}: {error!r}")
        except Exception:  # the answer to a request
            pass
    assert unfit == []


def test_texts_can_be_read() -> None:
    unfit = []
    for name, read in texts.READERS.items():
        try:
            read("a")
        except (TypeError, AttributeError, NameError, AssertionError) as error:
            unfit.append(f"{name}: {error!r}")
        except Exception:  # the answer to a request
            pass
    assert unfit == []
    assert sum(1 for _ in texts.cases(Random(0))) > 10_000
