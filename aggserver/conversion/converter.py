"""Converter: converts objects from one version to another.

The None strategy changes only apiVersion; pruning and defaulting for the target version follow in the registry, which converts
every object whose stored version is not the requested one. It is asynchronous, since other strategies call a webhook, and works
on batches, since they call it once for a whole list.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{converter,nop_converter}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Converter", "NoneConverter"]


class Converter(Protocol):
    async def convert(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        """Return the objects in `api_version`, in the same order. The objects passed in may be changed."""


class NoneConverter:
    """spec.conversion.strategy None: only apiVersion changes."""

    async def convert(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        for obj in objects:
            obj["apiVersion"] = api_version
        return list(objects)
