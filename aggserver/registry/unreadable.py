"""Stored objects that can't be read, and their errors, as in kube-apiserver with the feature AllowUnsafeMalformedObjectDeletion.

With that feature, which is always on here, errors name the key, and the object can be deleted; without it, upstream's errors have
only the decoder's text. Updates get the same error as reads, where upstream leaves out the key.
Source: k8s.io/apiserver pkg/storage/{errors.go,errors/storage.go}, pkg/storage/etcd3/{corrupt_obj_deleter.go,errors.go},
pkg/registry/generic/registry/corrupt_obj_deleter.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from aggserver.meta import errors, field
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.field import Path
from aggserver.registry.stored import StoredObject
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Corrupt, CorruptList, Storage
from aggserver.storage.keys import prefix_end

__all__ = ["STORE_READ_ERROR", "CorruptObjects", "Unreadable", "unreadable_event", "unsafe_delete_refused"]

# Unreadable objects that the error of a list names, as upstream.
MAX_NAMED = 100
# Objects checked before other requests get their turn.
_TURN = 100

_OPTION = "ignoreStoreReadErrorWithClusterBreakingPotential"
STORE_READ_ERROR = "StorageReadError"  # the reason in the Status of lists and watches


class Unreadable(StatusError):
    """The error (500) for one unreadable object."""

    def __init__(self, error: Corrupt) -> None:
        text = _storage_error(error.key, error)
        super().__init__(500, "InternalError", f"Internal error occurred: {text}", causes=[Cause("", text)])
        self.error = error


class Place(Protocol):
    """The parts of a ResourceStorage (`resource_storage.py`) that are needed here."""

    @property
    def group(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def cacher(self) -> Cacher[StoredObject]: ...


class CorruptObjects:
    """The objects of a resource that can't be read. The watch cache has those that are visibly broken, and those that a request
    has failed to decode. look: decodes an object; if that fails, it reports the object to the cache and raises Unreadable.
    """

    def __init__(self, place: Place, look: Callable[[StoredObject], None]) -> None:
        self._place = place
        self._look = look

    def known(self, prefix: str) -> Sequence[Corrupt]:
        """The objects below a prefix that are known to be unreadable, sorted by key."""
        return self._place.cacher.corrupt_in(prefix, prefix_end(prefix))

    async def look_at_all(self, prefix: str) -> None:
        """Decode all objects below a prefix, so that the unreadable ones are known."""
        for number, obj in enumerate(self._place.cacher.readable(prefix), 1):
            with suppress(Unreadable):
                self._look(obj)
            if number % _TURN == 0:
                await asyncio.sleep(0)

    async def list_error(self, prefix: str, error: Corrupt | CorruptList | Unreadable) -> StatusError:
        """The error of a list: names all unreadable objects below its prefix, or those of `error` if they have gone since."""
        await self.look_at_all(prefix)
        found = self.known(prefix)
        if not found:
            found = error.errors if isinstance(error, CorruptList) else [error.error if isinstance(error, Unreadable) else error]
        return _list_error(self._place.group, self._place.resource, found, self._place.storage.location)

    def at(self, key: str) -> Corrupt | None:
        """Why the object at a key can't be read; None if it can, or if there is none."""
        try:
            obj = self._place.cacher.get(key)
            if obj is not None:
                self._look(obj)
        except Corrupt as error:
            return error
        except Unreadable as unreadable:
            return unreadable.error
        return None


def _list_error(group: str, resource: str, found: Sequence[Corrupt], location: Callable[[str], str]) -> StatusError:
    """The error (500) of a list, naming the unreadable objects. location: the key of an object in the backend."""
    causes = [
        Cause("UnexpectedServerResponse", _storage_error(location(error.key), error), location(error.key))
        for error in found[:MAX_NAMED]
    ]
    if len(found) > MAX_NAMED:
        causes.append(Cause("FieldValueTooMany", "too many errors, the list is truncated"))
    message = f"failed to read one or more {errors.qualified(resource, group)} from the storage"
    return StatusError(500, STORE_READ_ERROR, message, name="list", group=group, kind=resource, causes=causes)


def unreadable_event(error: Corrupt) -> StatusError:
    """The error that ends a watch which should get an event for the object."""
    text = _not_decodable(error)
    if error.deleted:
        text = f"saw a DELETED event, but object data is corrupt - {text}"
    return StatusError(500, STORE_READ_ERROR, text)


def unsafe_delete_refused(group: str, resource: str, name: str) -> StatusError:
    """The error (422) for the option to delete an unreadable object, if the object can be read, or doesn't exist."""
    why = "is exclusively used to delete corrupt object(s), try again by removing this option"
    return errors.invalid(group, resource, name, [field.invalid(Path(_OPTION), True, why)])


def _storage_error(key: str, error: Corrupt) -> str:
    return f"StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {_not_decodable(error)}"


def _not_decodable(error: Corrupt) -> str:
    return f"object not decodable revision={error.revision}: {error.why}"
