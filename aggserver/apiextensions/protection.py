"""DefinitionProtection: a definition that still has objects can't be deleted, where somebody asked for that.

Deleting a definition deletes every object of it, and nothing asks twice. Here an annotation on the definition, or a flag for all
of them, has the deletion refused until the objects are gone. No other server has this; an annotation means nothing there.
Called by admission, within the registry's loop. A create that comes between the count and the deletion goes with the definition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aggserver.admission.chain import DELETE, Attributes
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.strategy import INFO
from aggserver.meta import errors

__all__ = ["ANNOTATION", "DefinitionProtection"]

ANNOTATION = "aggserver.io/deletion-protection"


class DefinitionProtection:
    """count: how many objects a definition has, by its name. everywhere: also without the annotation, unless it says "false"."""

    def __init__(self, count: Callable[[str], Awaitable[int]], *, everywhere: bool) -> None:
        self._count = count
        self._everywhere = everywhere

    async def validate(self, attributes: Attributes, obj: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
        if attributes.operation != DELETE or old is None or not self._protects(old["metadata"]):
            return
        name = old["metadata"]["name"]
        count = await self._count(name)
        if count:
            objects = f"{count} object{'' if count == 1 else 's'} would be deleted with it"
            what = f"delete them first, or set its annotation {ANNOTATION} to false"
            raise errors.forbidden(INFO.group, INFO.resource, name, f"{objects}: {what}")

    def _protects(self, metadata: Mapping[str, Any]) -> bool:
        if "deletionTimestamp" in metadata:
            return False  # too late
        said = member(metadata, "annotations", {}).get(ANNOTATION)
        return said == "true" or (self._everywhere and said != "false")
