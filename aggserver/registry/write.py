"""A write: what stays the same in all its attempts, and the object that one of them makes.

Two values say what the steps of a write depend on: how its object is made (`Making`), and in which version it is stored
(`StoredIn`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, ParamSpec, Self, TypeVar

from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, WriteRequest
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Verdict
from aggserver.workers import OBJECTS, Workers

__all__ = [
    "APPLIED",
    "APPLIED_TO_PART",
    "CHANGED",
    "CREATED",
    "PART_CHANGED",
    "PUT",
    "Attempt",
    "Current",
    "Making",
    "StoredIn",
    "Write",
    "final",
]

# Runs slow validation, so that the event loop is free for other requests, and the default executor for other work.
_SLOW = Workers(2, "validation")
# Objects above this many bytes are compared and validated in a thread, since each step takes more than some milliseconds.
_LONG = 128 * 1024

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Making:
    """How a write makes its object, and what follows from that.

    creates: whether it makes one where there is none.
    by_apply: whether it is a server-side apply. Then managedFields are never dropped to make room, since the applier relies on
    them; the result is pruned only after it was validated; and it may have a resourceVersion though there is no object.
    sees_to_defaults: whether the result has all defaults of the schema, as long as the current object has them.
    """

    creates: bool = False
    by_apply: bool = False
    sees_to_defaults: bool = True


# An object as a client has sent it, new or in the place of another one.
CREATED = Making(creates=True)
# The current object, changed: by a PUT, a patch, or the server itself.
CHANGED = Making()
# By a PUT, for the kinds that it creates.
PUT = Making(creates=True)
# Through a view that has a part of it (a Scale): what has to be added around this part gets no defaults.
PART_CHANGED = Making(sees_to_defaults=False)
APPLIED = Making(creates=True, by_apply=True)
# An apply to `/status`, which the object must be there for.
APPLIED_TO_PART = Making(by_apply=True)


class StoredIn(Enum):
    """The version in which a write stores its object."""

    # So that writes migrate objects, and that one which readers could not convert is refused.
    STORAGE_VERSION = "the resource's storage version"
    # So that no converter has to be asked: nothing but metadata is changed, and that must not fail with a converter.
    ITS_VERSION = "the version in which it is stored already"


@dataclass(frozen=True, slots=True)
class Write(WriteRequest):
    """What stays the same in every attempt of one write."""

    making: Making = CHANGED
    stored_in: StoredIn = StoredIn.STORAGE_VERSION

    @classmethod
    def of(cls, request: WriteRequest, making: Making, stored_in: StoredIn = StoredIn.STORAGE_VERSION) -> Self:
        return cls(request.context, request.options, request.admission, making, stored_in)

    @property
    def keeps_version(self) -> bool:
        return self.stored_in is StoredIn.ITS_VERSION

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that works on the object: in a thread if that is large."""
        context = self.context
        size = max(context.body_bytes, context.object_bytes)
        if size <= _LONG:
            return function(*args, **kwargs)
        return await OBJECTS.run(context.user.name, size, function, *args, **kwargs)


class Current(NamedTuple):
    """The object that an attempt replaces: as it is stored, in the version of the write, and this decoded, never changed."""

    stored: StoredObject
    view: StoredObject
    tree: JSONObject


@dataclass(slots=True)
class Attempt:
    """The object that one attempt of a write has made.

    current: what it replaces; None for a new object.
    is_pruned: whether it surely has no fields beyond the schema.
    is_whole: whether it surely has all defaults of the schema: nothing was removed from it after defaulting, and nothing was
    copied into it from an object that was not defaulted.
    """

    write: Write
    obj: JSONObject
    current: Current | None = None
    is_pruned: bool = True
    is_whole: bool = True

    def drop_managed_fields(self) -> bool:
        """Drop the one part that an object can do without, except in an apply. Returns whether there were any."""
        return not self.write.making.by_apply and self.obj["metadata"].pop("managedFields", None) is not None


async def final(context: Context, verdict: Verdict) -> Verdict:
    """Wait for slow validation, which runs in a thread and is told when the request is cancelled."""
    if verdict.later is None:
        return verdict
    given_up = threading.Event()
    try:
        return await _SLOW.run(context.user.name, context.body_bytes, verdict.later, given_up.is_set)
    finally:
        given_up.set()
