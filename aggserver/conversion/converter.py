"""Converter: converts objects from one version of their resource to another.

The None strategy changes only apiVersion; pruning for the target version follows in the registry, which converts every object
whose stored version is not the requested one. Converters that need no I/O convert one object at once. Others call a webhook, with
batches, since one call can convert a whole list.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/conversion/{converter,nop_converter}.go, v0.36.3.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject

__all__ = ["NONE", "ComputedConverter", "ConversionError", "Converter", "NoneConverter", "TakesLong"]


class ConversionError(StatusError):
    """A conversion that failed: HTTP 500 without a reason, with upstream's text.

    index: of the object that was not converted; None if the converter refused the objects as a whole. answered: whether the
    converter has looked at the objects. If not, it could not be reached, and smaller batches would fail as well.
    """

    def __init__(self, message: str, index: int | None = None, *, answered: bool = True) -> None:
        super().__init__(500, "", message)
        self.index = index
        self.answered = answered


class TakesLong(Exception):
    """A conversion costs more than may be spent in the event loop. There is no result yet."""


class Converter(Protocol):
    """at_once: converts one object without I/O; None if only `convert` can be used. The object passed in may be changed. Raises
    ConversionError, and TakesLong for an object that needs `convert` all the same.

    changes_metadata: whether labels and annotations may differ between versions. Other metadata never differs.
    """

    @property
    def at_once(self) -> Callable[[JSONObject, str], JSONObject] | None: ...

    @property
    def changes_metadata(self) -> bool: ...

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        """The objects in `api_version`, in the same order. The objects passed in may be changed. Raises ConversionError."""


class ComputedConverter(ABC):
    """The base of converters that need no I/O."""

    changes_metadata = True

    @abstractmethod
    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        """See `Converter`."""

    def quickly(self, obj: JSONObject, api_version: str) -> JSONObject:
        """Like `at_once`, but raises TakesLong after some milliseconds; then the object must not be used any more."""
        return self.at_once(obj, api_version)

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        return [self.at_once(obj, api_version) for obj in objects]


class NoneConverter(ComputedConverter):
    """spec.conversion.strategy None: only apiVersion changes. versions: the apiVersions that objects may have; None for any.

    An object in another version is refused: its fields may mean something else, and would be pruned and lost with the next write.
    """

    changes_metadata = False

    def __init__(self, versions: Container[str] | None = None) -> None:
        self._versions = versions

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if self._versions is not None and obj["apiVersion"] not in self._versions:
            raise ConversionError(f"request to convert CR from an invalid group/version: {obj['apiVersion']}")
        obj["apiVersion"] = api_version
        return obj


NONE = NoneConverter()
