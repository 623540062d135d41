"""Write: the values that are the same in all attempts of a write. Attempt: one attempt, with the object that it has made.

The steps of a write depend on two of these values: how the object is made (`Making`), and in which version it is stored
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

    creates: whether the write creates the object if there is none.
    by_apply: whether it is a server-side apply. Then managedFields are never dropped to make the object smaller, since the
    applier relies on them; the result is pruned only after it was validated; and it may have a resourceVersion though there is no
    object.
    keeps_defaults: whether the result has all defaults of the schema if the current object has them.
    """

    creates: bool = False
    by_apply: bool = False
    keeps_defaults: bool = True


# A new object, or one that replaces the current object, as a client has sent it.
CREATED = Making(creates=True)
# The current object, changed: by a PUT, a patch, or the server itself.
CHANGED = Making()
# A PUT of a kind that can be created by PUT.
PUT = Making(creates=True)
# A change through a Scale, which is a part of the object: parents that are added for this part get no defaults.
PART_CHANGED = Making(keeps_defaults=False)
APPLIED = Making(creates=True, by_apply=True)
# An apply to `/status`, which creates no object.
APPLIED_TO_PART = Making(by_apply=True)


class StoredIn(Enum):
    """The version in which a write stores its object."""

    # For most writes: they migrate the object, and are refused if it can't be converted for readers.
    STORAGE_VERSION = "the resource's storage version"
    # For changes of metadata alone, which must not fail because a conversion webhook does: nothing is converted.
    ITS_VERSION = "the version in which it is stored already"


@dataclass(slots=True)
class Write(WriteRequest):
    """The values that are the same in every attempt of one write."""

    making: Making = CHANGED
    stored_in: StoredIn = StoredIn.STORAGE_VERSION

    @classmethod
    def of(cls, request: WriteRequest, making: Making, stored_in: StoredIn = StoredIn.STORAGE_VERSION) -> Self:
        return cls(request.context, request.options, request.admission, making, stored_in)

    @property
    def keeps_version(self) -> bool:
        return self.stored_in is StoredIn.ITS_VERSION

    async def aside(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that works on the object: in a thread if the object is large."""
        context = self.context
        size = max(context.body_bytes, context.object_bytes)
        if size <= _LONG:
            return function(*args, **kwargs)
        return await OBJECTS.run(context.user.name, size, function, *args, **kwargs)


class Current(NamedTuple):
    """The object that an attempt replaces. view: in the version of the write. tree: the view decoded, which is never changed."""

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
        """Drop managedFields to make the object smaller, except in an apply. Returns whether there were any."""
        return not self.write.making.by_apply and self.obj["metadata"].pop("managedFields", None) is not None


async def final(context: Context, verdict: Verdict) -> Verdict:
    """The actual verdict. Slow validation runs in a thread, which can see that the request was cancelled and stop early."""
    if verdict.later is None:
        return verdict
    given_up = threading.Event()
    try:
        return await _SLOW.run(context.user.name, context.body_bytes, verdict.later, given_up.is_set)
    finally:
        given_up.set()
