"""What users' functions tell: the changes of a feed, and the events of a watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

__all__ = ["Bookmark", "Changed", "Event", "Gone", "Relist"]

U = TypeVar("U")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Event(Generic[T_co]):
    """What a `watch` function tells of an object: in order, with the revision of the change in the object's metadata.

    object: as it is now; of DELETED as it was at last, with the revision of its deletion. old: as it was before, where the source
    knows: then clients with selectors are told exactly when an object begins and ceases to match.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T_co
    old: T_co | None = None

    def map(self, convert: Callable[[T_co], U]) -> Event[U]:
        """The event of another object, which is made of this one."""
        return Event(self.type, convert(self.object), None if self.old is None else convert(self.old))


@dataclass(frozen=True, slots=True)
class Bookmark:
    """All that came until a revision was told. The first one, before any event, says that the watch is on."""

    revision: str

    def map(self, convert: Callable[..., object]) -> Bookmark:
        """As it is: so that `event.map(convert)` does for whatever comes."""
        return self


@dataclass(frozen=True, slots=True)
class Changed(Generic[T_co]):
    """An object is new, or has changed. object: as it is now."""

    object: T_co

    def map(self, convert: Callable[[T_co], U]) -> Changed[U]:
        """The change of another object, which is made of this one."""
        return Changed(convert(self.object))


@dataclass(frozen=True, slots=True)
class Gone:
    """An object is there no more. namespace: '' for one that is in none."""

    name: str
    namespace: str = ""

    def map(self, convert: Callable[..., object]) -> Gone:
        """As it is: so that `change.map(convert)` does for whatever comes."""
        return self


@dataclass(frozen=True, slots=True)
class Relist:
    """Changes may have been missed: the resource's `list` is called, and the differences are told to watches."""

    def map(self, convert: Callable[..., object]) -> Relist:
        """As it is, see `Gone.map`."""
        return self
