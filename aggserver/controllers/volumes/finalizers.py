"""The finalizers of volumes and their claims: adds missing ones, and removes them when nothing uses the object any more."""

from __future__ import annotations

from aggserver.controllers.internal_client import InternalClient
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.storage.keys import ObjectKey

__all__ = ["is_leaving", "keep_finalizer", "release"]


def is_leaving(obj: JSONObject, finalizer: str) -> bool:
    """Whether the object is being deleted and has the finalizer."""
    return "deletionTimestamp" in obj["metadata"] and finalizer in (obj["metadata"].get("finalizers") or ())


async def keep_finalizer(client: InternalClient, at: ObjectKey, obj: JSONObject, finalizer: str) -> None:
    """Add the finalizer to an object that is not being deleted: admission adds it on creation, but a client may remove it."""
    if "deletionTimestamp" in obj["metadata"] or finalizer in (obj["metadata"].get("finalizers") or ()):
        return

    async def kept(current: JSONObject) -> JSONObject:
        given = current["metadata"].get("finalizers") or []
        if "deletionTimestamp" in current["metadata"] or finalizer in given:
            return current
        return {**current, "metadata": {**current["metadata"], "finalizers": [*given, finalizer]}}

    await client.update(at, kept, uid=obj["metadata"]["uid"])


async def release(client: InternalClient, at: ObjectKey, obj: JSONObject, finalizer: str) -> None:
    async def without(current: JSONObject) -> JSONObject:
        left = [each for each in current["metadata"].get("finalizers") or () if each != finalizer]
        return {**current, "metadata": {**current["metadata"], "finalizers": left}}

    try:
        await client.update(at, without, uid=obj["metadata"]["uid"])
    except StatusError as error:
        if error.code != 404:
            raise
