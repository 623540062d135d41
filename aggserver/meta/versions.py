"""API versions and their order of preference; group, version and kind.

Versions like v1, v2beta1, v1alpha3 come first: GA before beta before alpha, then the higher number. All others follow in
alphabetical order.
Pure. Source: k8s.io/apimachinery pkg/version/helpers.go and pkg/runtime/schema/group_version.go, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["GroupVersionKind", "api_version", "parse_group_version", "sort_key"]

_KUBE_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {"": 0, "beta": 1, "alpha": 2}
# A version with a number beyond Go's int is not treated as a Kubernetes version, but ordered alphabetically.
_MAX_INT = 2**63 - 1

SortKey = tuple[int, int, int, int, str]


def sort_key(version: str) -> SortKey:
    """The key for sorted(), which puts the preferred version first."""
    match = _KUBE_VERSION.fullmatch(version)
    # The length is checked first, since int() refuses thousands of digits.
    if match is None or max(len(match[1]), len(match[3] or "")) > 4000:
        return (1, 0, 0, 0, version)
    major, minor = int(match[1]), int(match[3] or 0)
    if max(major, minor) > _MAX_INT:
        return (1, 0, 0, 0, version)
    return (0, _STABILITY[match[2] or ""], -major, -minor, "")


def api_version(group: str, version: str) -> str:
    """`group/version`, or the bare version for the core group."""
    return f"{group}/{version}" if group else version


def parse_group_version(text: str) -> tuple[str, str]:
    """(group, version) of an apiVersion; both are empty for ''. Raises ValueError with upstream's text."""
    if text in ("", "/"):
        return "", ""
    parts = text.split("/")
    if len(parts) == 1:
        return "", text
    if len(parts) == 2:
        return parts[0], parts[1]
    raise ValueError(f"unexpected GroupVersion string: {text}")


@dataclass(frozen=True, slots=True)
class GroupVersionKind:
    """The type of an object. `str()` is Go's `group/version, Kind=kind`."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> GroupVersionKind:
        """From an object's apiVersion and kind, which must be strings or absent. Raises ValueError for a malformed apiVersion."""
        group, version = parse_group_version(obj.get("apiVersion", ""))
        return cls(group, version, obj.get("kind", ""))

    @property
    def api_version(self) -> str:
        return api_version(self.group, self.version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"
