"""ResourceStorage: what all versions of one resource share: where their objects are, and how they come from there.

Made by `registry/environment.py` and `apiextensions/serving.py`, for `registry/store.py` and `registry/views.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aggserver.conversion.converter import Converter
from aggserver.meta.json_types import JSONObject
from aggserver.registry.stored import StoredObject
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Compacted, Storage

__all__ = ["ResourceStorage"]


@dataclass(frozen=True, slots=True)
class ResourceStorage:
    """What all versions of one resource share.

    api_version: the version objects are stored in. prune: what is done to a tree that was converted to it, in place.
    conform_stored: what is done to a tree that comes from the storage, in whatever version, before anyone looks at it; None where
    there is no schema, and bytes in the right version are sent as they are.
    read_fields: the selectable fields of an object beside its name and namespace. clock: seconds since the epoch.
    random: an integer below its argument, for generated names. max_object_bytes: of an object as it is stored.
    epoch: of the cacher, as these forms came up. good_since: the revision from which on what clients were told of the objects
    looks as it does now.
    """

    group: str
    resource: str
    api_version: str
    storage: Storage
    cacher: Cacher[StoredObject]
    converter: Converter
    prune: Callable[[JSONObject], object]
    conform_stored: Callable[[JSONObject], object] | None
    read_fields: Callable[[JSONObject], Mapping[str, str]]
    clock: Callable[[], float]
    new_uid: Callable[[], str]
    random: Callable[[int], int]
    max_object_bytes: int
    epoch: int = 0
    good_since: Callable[[], int] = int

    @property
    def is_over(self) -> bool:
        """Whether the definition has changed since, and others serve the objects as they look now."""
        return self.epoch != self.cacher.epoch

    def check_resumable(self, revision: int) -> None:
        """Raises Compacted for a watch from a revision of which the client may know objects as they no longer look."""
        since = max(self.cacher.broken_off + 1, self.good_since()) if self.cacher.epoch else self.good_since()
        if revision < since:
            raise Compacted(revision, since)

    @property
    def prefix(self) -> str:
        return keys.resource_prefix(self.group, self.resource)
