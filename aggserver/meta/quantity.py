"""Quantities: `100m`, `1.5Gi`, `2e3`; exact numbers with a precision of one billionth.

As upstream, a quantity is either short (64 bits and a power of ten) or of any length, which makes a difference only for
`as_int64`. Pure.
Source: k8s.io/apimachinery pkg/api/resource/{quantity,amount,suffix}.go, v0.36.3, also for error texts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from aggserver.meta.golang import INT64_MAX, INT64_MIN, parse_int

__all__ = ["Quantity", "canonical", "parse", "text"]

_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX = "unable to parse quantity's suffix"
# The repeats are possessive: otherwise `re` would try every split of a row of digits between four of them before it rejects a
# wrong end.
_PARTS = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)", re.ASCII)
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+", re.ASCII)
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# One more than the digits of the largest factor of a suffix.
_MOST_TWOS_DIGITS = 20
_NANO = -9
# The most digits of a short quantity.
_SHORT = 18
# The most digits of a number, and the largest decimal exponent; upstream has no limits. Computing with such numbers takes some
# microseconds, and sums of them can still be printed: Python refuses to print more than 4,300 digits.
_MOST_DIGITS = 2_000
_LARGEST_EXPONENT = 1_000
# Negative exponents need no such small limit, since all values below one billionth are rounded up to it.
_SMALLEST_EXPONENT = -100_000


@dataclass(frozen=True, slots=True)
class Quantity:
    """value * 10**scale."""

    value: int
    scale: int = 0
    is_short: bool = True

    def sign(self) -> int:
        return (self.value > 0) - (self.value < 0)

    def compare(self, other: Quantity) -> int:
        mine, theirs, _ = _aligned(self, other)
        return (mine > theirs) - (mine < theirs)

    def add(self, other: Quantity) -> Quantity:
        mine, theirs, scale = _aligned(self, other)
        # Adding zero keeps the scale, on which `as_int64` depends.
        if self.is_short and other.is_short and (not self.value or not other.value):
            return self if not other.value else other
        total = mine + theirs
        fits = all(INT64_MIN <= number <= INT64_MAX for number in (mine, theirs, total))
        return Quantity(total, scale, self.is_short and other.is_short and fits)

    def sub(self, other: Quantity) -> Quantity:
        return self.add(Quantity(-other.value, other.scale, other.is_short))

    def as_int64(self) -> int | None:
        """The value as an int64; None if it does not fit, is no integer or was not written as one (`1.0`)."""
        if not self.is_short or self.scale < 0:
            return None
        number = self.value * 10**self.scale
        return number if INT64_MIN <= number <= INT64_MAX else None

    def rounded(self, scale: int) -> int:
        """The number of 10**scale, rounded away from zero: 0 for whole numbers, -3 for thousandths."""
        if self.scale >= scale:
            return self.value * int(10 ** (self.scale - scale))
        number = -(-abs(self.value) // int(10 ** (scale - self.scale)))
        return -number if self.value < 0 else number

    def as_float(self) -> float:
        """The value as a float, rounded in two steps as upstream does."""
        try:
            base = float(self.value)
        except OverflowError:
            base = math.copysign(math.inf, self.value)
        if self.scale == 0:
            return base
        return base * (0.0 if self.scale < -323 else math.inf if self.scale > 308 else float(f"1e{self.scale}"))


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """Both values with a common scale, and the scale."""
    scale = min(left.scale, right.scale)
    return left.value * 10 ** (left.scale - scale), right.value * 10 ** (right.scale - scale), scale


def parse(text: str) -> Quantity:
    """Parse a quantity. Raises ValueError with upstream's message."""
    found = _PARTS.fullmatch(text)
    if found is None or not text:
        raise ValueError(_FORMAT)
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    if suffix in _TENS:
        exponent, twos = _TENS[suffix], 0
    elif suffix in _TWOS:
        exponent, twos = 0, _TWOS[suffix]
    elif _EXPONENT.fullmatch(suffix):
        exponent, twos = _exponent(suffix[1:]), 0
    else:
        raise ValueError(_SUFFIX)
    if not _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT or len(whole) + len(fraction) > _MOST_DIGITS:
        raise ValueError("unable to parse numeric part of quantity")
    value = int(whole + fraction or "0") * (-1 if sign == "-" else 1) << twos
    scale = exponent - len(fraction)
    if _is_short(whole or "0", fraction, twos) and scale >= _NANO and INT64_MIN <= value <= INT64_MAX:
        return Quantity(value, scale)
    return _long(value, scale, is_binary=twos > 0)


def _exponent(digits: str) -> int:
    try:
        return parse_int(digits)
    except ValueError:
        raise ValueError(_SUFFIX) from None


def _is_short(whole: str, fraction: str, twos: int) -> bool:
    if twos:
        return not fraction and 15 - len(whole) - twos * 3 // 10 - 1 >= 0
    return len(whole) + len(fraction) <= _SHORT


def _long(value: int, scale: int, *, is_binary: bool) -> Quantity:
    """A quantity rounded away from zero to billionths; with a binary suffix, it is limited to 64 bits."""
    if scale >= _NANO:
        billionths = value * 10 ** (scale - _NANO)
    else:
        # A power with more digits than any value has the same result, but takes milliseconds.
        rounded = -(-abs(value) // 10 ** min(_NANO - scale, _MOST_DIGITS + _MOST_TWOS_DIGITS))
        billionths = -rounded if value < 0 else rounded
    if is_binary and abs(billionths) > INT64_MAX * 10**9:
        return Quantity(INT64_MAX if value > 0 else -INT64_MAX, 0, is_short=False)
    return Quantity(billionths, _NANO, is_short=False)


def canonical(written: str) -> str:
    """The text of a quantity after Go has read and written it. Raises ValueError with upstream's message.

    Go leaves a text unchanged that it takes for canonical, by a quick test that is not exact: `+5` and `1500m` are unchanged,
    `0.5` becomes `500m`.
    """
    if written.isdecimal() and written.isascii() and written[0] != "0" and len(written) <= _SHORT and written[-3:] != "000":
        return written
    number, found = parse(written), _PARTS.fullmatch(written)
    assert found is not None
    whole, fraction, suffix = found[2] or "0", found[3] or "", found[4]
    if number.is_short and suffix in _TWOS:
        kept = number.value >> _TWOS[suffix] & 7 != 0
    else:
        kept = number.is_short and number.scale % 3 == 0 and not (whole + fraction).endswith("000") and whole[0] != "0"
    return written if kept and number.value else text(number, suffix)


def text(number: Quantity, like: str) -> str:
    """The canonical form: with the largest suffix that leaves no fraction. like: a quantity whose kind of suffix is used."""
    if not number.value:
        return "0"
    value, exponent = _without_factors(number.value, 10)
    exponent += number.scale
    if like.endswith("i") and exponent >= 0 and abs(value) * 10**exponent >= 1024:
        whole, times = _without_factors(value * 10**exponent, 1024)
        largest = min(times, len(_TWOS))
        return (
            f"{whole * 1024 ** (times - largest)}{next((suffix for suffix, twos in _TWOS.items() if twos == largest * 10), '')}"
        )
    value *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if _EXPONENT.search(like):
        return f"{value}e{exponent}" if exponent else str(value)
    largest = min(exponent, _TENS["E"])
    return f"{value * 10 ** (exponent - largest)}{next(suffix for suffix, tens in _TENS.items() if tens == largest)}"


def _without_factors(value: int, factor: int) -> tuple[int, int]:
    """The value divided by `factor` as often as possible, and how often. By squares, so thousands of zeros take ten divisions."""
    squares = [factor]
    while squares[-1] <= abs(value):
        squares.append(squares[-1] ** 2)
    times = 0
    for place in reversed(range(len(squares))):
        if value % squares[place] == 0:
            value //= squares[place]
            times += 1 << place
    return value, times
