"""Semantic versions (semver.org): `semver('1.2.3-rc.1').isLessThan(semver('1.2.3'))`.

Source: k8s.io/apiserver pkg/cel/library/semverlib.go, version 1 of the library, v0.36.3; github.com/blang/semver v4.0.0, also
for error texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta.golang import parse_uint, quote

__all__ = ["IMPLEMENTATIONS", "Semver"]

_DIGITS = re.compile("[0-9]*", re.ASCII)
_IDENTIFIER = re.compile("[0-9A-Za-z-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Semver(Opaque):
    type_name: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()

    def equals(self, other: object) -> bool:
        if not isinstance(other, Semver):
            raise no_such_overload()
        return self == other

    def order(self) -> tuple[Any, ...]:
        """The sort key: a release comes after its pre-releases, numbers come before words."""
        words = tuple((0, word, "") if isinstance(word, int) else (1, 0, word) for word in self.prerelease)
        return self.major, self.minor, self.patch, not self.prerelease, words


def _parse(text: str) -> Semver:
    """Raises ValueError."""
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major"), _number(parts[1], "minor")
    patch, plus, build = parts[2].partition("+")
    patch, minus, prerelease = patch.partition("-")
    version = Semver(major, minor, _number(patch, "patch"), tuple(map(_identifier, prerelease.split("."))) if minus else ())
    for word in build.split(".") if plus else ():
        if not word:
            raise ValueError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(word):
            raise ValueError(f"Invalid character(s) found in build meta data {quote(word)}")
    return version


def _number(text: str, name: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in {name} number {quote(text)}")
    if _has_leading_zero(text):
        raise ValueError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return parse_uint(text)


def _identifier(text: str) -> int | str:
    if not text:
        raise ValueError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if _has_leading_zero(text):
            raise ValueError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return parse_uint(text)
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in prerelease {quote(text)}")
    return text


def _has_leading_zero(text: str) -> bool:
    return len(text) > 1 and text[0] == "0"


def _normalized(text: str) -> str:
    """Drop a leading v and leading zeros, and add a missing minor and patch. Raises ValueError."""
    parts = text.removeprefix("v").split(".", 2)
    for position, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[position] = stripped if stripped[:1] and stripped[0] in "0123456789" else f"0{stripped}"
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _semver(text: str, normalize: bool = False) -> Semver:
    try:
        return _parse(_normalized(text) if normalize else text)
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _parse(_normalized(text) if normalize else text)
    except ValueError:
        return False
    return True


def _compare(left: Semver, right: Semver) -> int:
    return (left.order() > right.order()) - (left.order() < right.order())


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_is_greater_than": lambda left, right: _compare(left, right) > 0,
    "semver_is_less_than": lambda left, right: _compare(left, right) < 0,
    "semver_compare_to": _compare,
    "semver_major": lambda version: version.major,
    "semver_minor": lambda version: version.minor,
    "semver_patch": lambda version: version.patch,
}
