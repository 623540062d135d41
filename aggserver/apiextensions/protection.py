"""DefinitionProtection: refuses to delete a definition that still has objects, if enabled.

Deleting a definition deletes all of its objects without confirmation. An annotation on the definition, or a flag for all
definitions, makes the server refuse that until the objects are gone. kube-apiserver ignores the annotation.

Admission runs this within the registry's loop. An object created between the count and the deletion is deleted too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aggserver.admission.chain import DELETE, Attributes
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.strategy import INFO
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject

__all__ = ["ANNOTATION", "DefinitionProtection"]

ANNOTATION = "aggserver.io/deletion-protection"


class DefinitionProtection:
    """count: returns how many objects a definition has. everywhere: protect all definitions whose annotation is not "false"."""

    def __init__(self, count: Callable[[str], Awaitable[int]], *, everywhere: bool) -> None:
        self._count = count
        self._everywhere = everywhere

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
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
            return False  # it is being deleted already
        annotation = member(metadata, "annotations", {}).get(ANNOTATION)
        return annotation == "true" or (self._everywhere and annotation != "false")
