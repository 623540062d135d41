"""Quantities: what they are, and what is none."""

from __future__ import annotations

import pytest

from aggserver.meta.quantity import Quantity, canonical, parse, text

# text: (the same in billionths, whether it is an integer of 64 bits)
READ = {
    "0": (0, True),
    "1": (10**9, True),
    "-1": (-(10**9), True),
    "+1": (10**9, True),
    "1.5": (1_500_000_000, False),
    "1.0": (10**9, False),
    ".5": (500_000_000, False),
    "5.": (5 * 10**9, True),
    "1n": (1, False),
    "0.1n": (1, False),
    "-0.1n": (-1, False),
    "100m": (100_000_000, False),
    "1k": (10**12, True),
    "1e3": (10**12, True),
    "1E-3": (10**6, False),
    "1E": (10**27, True),
    "1Ki": (1024 * 10**9, True),
    "1.5Gi": (1536 * 1024**2 * 10**9, False),
    **{f"3{suffix}": (3 * 1024**power * 10**9, True) for power, suffix in enumerate(("Mi", "Gi", "Ti"), 2)},
    "3Pi": (3 * 1024**5 * 10**9, False),
    **{f"3{suffix}": (3 * 1000**power * 10**9, True) for power, suffix in enumerate("MGTP", 2)},
    "3u": (3_000, False),
    "9223372036854775807": ((2**63 - 1) * 10**9, False),
    "20Ei": ((2**63 - 1) * 10**9, False),
}


@pytest.mark.parametrize("given", READ)
def test_parse(given: str) -> None:
    billionths, is_integer = READ[given]
    quantity = parse(given)
    assert quantity.value * 10 ** (quantity.scale + 9) == billionths
    assert (quantity.as_int64() is not None) is is_integer


NONE = ("", "x", "1x", "1 k", "1kk", "1.2.3", "--1", "1e", "1eE", "1K", "1mi", "1e999999999")


@pytest.mark.parametrize("text", NONE)
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="quantit"):
        parse(text)


@pytest.mark.parametrize(
    ("left", "right", "order"),
    [("1k", "1000", 0), ("1G", "1Gi", -1), ("1", "999m", 1), ("-1", "1", -1), ("1e30", "1e31", -1)],
)
def test_compare(left: str, right: str, order: int) -> None:
    assert parse(left).compare(parse(right)) == order
    assert parse(right).compare(parse(left)) == -order


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [("1", "1", "2"), ("1k", "1m", "1000.001"), ("1Ki", "24", "1048"), ("9223372036854775807", "1", "9223372036854775808")],
)
def test_add_and_sub(left: str, right: str, total: str) -> None:
    assert parse(left).add(parse(right)).compare(parse(total)) == 0
    assert parse(total).sub(parse(right)).compare(parse(left)) == 0


# A quantity: itself and one more, as upstream writes it.
ONE_MORE = {
    "0": "1",
    "1": "2",
    "999": "1k",
    "1k": "1001",
    "999k": "999001",
    "1500m": "2500m",
    "0.5": "1500m",
    "1Ki": "1025",
    "1023": "1024",
    "1023Ki": "1047553",
    "1.5Gi": "1610612737",
    "1e3": "1001",
    "12e5": "1200001",
    "999999999999999999": "1E",
    "999E": "999000000000000000001",
    "100n": "1000000100n",
    "-1": "0",
}


@pytest.mark.parametrize("given", ONE_MORE)
def test_text(given: str) -> None:
    assert text(parse(given).add(Quantity(1)), like=given) == ONE_MORE[given]


# As kube-apiserver returns them.
CANONICAL = {
    "0": "0",
    "0Ki": "0",
    "1.0": "1",
    "1000": "1k",
    "1e3": "1e3",
    "1e4": "10e3",
    "1000Ki": "1000Ki",
    "1024Ki": "1Mi",
    "1.5Gi": "1536Mi",
    "512": "512",
    "0.5Ki": "512",
    "1024Pi": "1Ei",
    "100m": "100m",
    "-2000": "-2k",
}


@pytest.mark.parametrize("given", CANONICAL)
def test_canonical_text(given: str) -> None:
    assert text(parse(given), like=given) == CANONICAL[given]


REWRITTEN = {
    "5": "5",
    "+5": "+5",
    "05": "05",
    "00": "0",
    "1.000": "1",
    "1e-1": "100e-3",
    "1E3": "1E3",
    "0.0001Ki": "102400u",
    "100Ei": "9223372036854775807",
    "0": "0",
    "0.0": "0",
    "0.5": "500m",
    ".5": "500m",
    "1.5": "1500m",
    "1.500": "1.500",
    "1.250": "1.250",
    "1500m": "1500m",
    "1000": "1k",
    "1000m": "1",
    "1024": "1024",
    "100k": "100k",
    "1e3": "1e3",
    "1e2": "100",
    "12E": "12E",
    "1024Ki": "1Mi",
    "1025Ki": "1025Ki",
    "1000Ki": "1000Ki",
    "1.5Gi": "1536Mi",
    "0.5Ki": "512",
    "0.1n": "1n",
    "-0.5": "-500m",
}


@pytest.mark.parametrize("given", REWRITTEN)
def test_what_is_read_is_written(given: str) -> None:
    """As Go writes what it has read."""
    assert canonical(given) == REWRITTEN[given]


def test_no_canonical_quantity() -> None:
    with pytest.raises(ValueError, match="quantities must match"):
        canonical("a")


# Texts that would take minutes, gigabytes or an error of Python, and what becomes of them.
LARGE = {
    "zeros and no end": ("0" * 300_000 + "!", "quantities must match"),
    "digits and no end": ("1" * 300_000 + ".!", "quantities must match"),
    "digits": ("1" * 2001, "unable to parse numeric part of quantity"),
    "digits after the point": ("1." + "1" * 2000, "unable to parse numeric part of quantity"),
    "exponent": ("1e1001", "unable to parse numeric part of quantity"),
    "small exponent": ("1e-100001", "unable to parse numeric part of quantity"),
    "digits of an exponent": ("1e" + "1" * 5000, "unable to parse quantity's suffix"),
    "digits of a small exponent": ("1e-" + "1" * 5000, "unable to parse quantity's suffix"),
}


@pytest.mark.parametrize(("given", "error"), LARGE.values(), ids=LARGE)
def test_what_is_too_large_is_refused(given: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse(given)


LARGEST = {
    "exponent": ("1e1000", "10e999"),
    "small exponent": ("1e-99999", "1e-9"),
    "small negative": ("-1e-99999", "-1e-9"),
    "nothing": ("0e-99999", "0"),
    "digits": ("1" + "0" * 1999, "1" + "0" * 1981 + "E"),
    "leading zeros": ("0" * 300_000 + "5", "0" * 300_000 + "5"),
    "zeros of an exponent": ("1e" + "0" * 5000 + "3", "1e" + "0" * 5000 + "3"),
}


@pytest.mark.parametrize(("given", "wanted"), LARGEST.values(), ids=LARGEST)
def test_the_largest(given: str, wanted: str) -> None:
    assert canonical(given) == wanted
    assert parse(wanted).compare(parse(given)) == 0


def test_sums_of_the_largest_can_be_printed() -> None:
    large = parse("9" * 2000 + "e1000").add(parse("9" * 2000 + "e-1000"))
    assert text(large, "1").endswith("E")
    assert text(large, "1e3") == "1e3000"
