"""Converter: objects of one version in, the same objects in another version out.

The None strategy changes apiVersion and nothing else; pruning and defaulting for the target version follow in the registry.
Called by `registry/store.py` for every object whose stored version is not the one asked for; asynchronous, since other strategies
ask a webhook, and in batches, since they ask once for a whole list.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{converter,nop_converter}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Converter", "NoneConverter"]


class Converter(Protocol):
    async def convert(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        """Takes the objects over and returns them, in order, in `api_version`."""


class NoneConverter:
    """spec.conversion.strategy None: every version has the same schema but for what it prunes."""

    async def convert(self, objects: Sequence[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        for obj in objects:
            obj["apiVersion"] = api_version
        return list(objects)
