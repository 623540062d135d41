"""Environment: what every resource of a server is built on.

The one place where the clock and randomness of a running server enter the registry; tests put their own in. Made by `app/`,
handed to whoever makes stores.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from aggserver.conversion.converter import Converter, NoneConverter
from aggserver.meta.json_types import JSONObject
from aggserver.registry import stored
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.views import Views
from aggserver.schema.defaulting import MAX_OBJECT_BYTES
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Corrupt, KeyValue, Storage

__all__ = ["Environment"]

_NAMED = 10  # unreadable objects that readiness names


@dataclass(frozen=True, slots=True)
class Environment:
    """clock: seconds since the epoch; monotonic: seconds; random: an integer below its argument.

    max_object_bytes: of an object as it is stored.
    corrupt: what was met in the storage and can't be read, by key.
    """

    storage: Storage
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    new_uid: Callable[[], str]
    random: Callable[[int], int]
    max_object_bytes: int = MAX_OBJECT_BYTES
    corrupt: dict[str, Corrupt] = field(default_factory=dict)

    def unreadable(self) -> str | None:
        """Which stored objects can't be read, None if all that were met can be: for readiness."""
        found = [str(error) for _, error in zip(range(_NAMED), self.corrupt.values(), strict=False)]
        more = len(self.corrupt) - len(found)
        return "; ".join(found) + (f"; and {more} more" if more else "") if found else None

    def cacher(
        self,
        group: str,
        resource: str,
        make: Callable[[KeyValue], StoredObject] = stored.make,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> Cacher[StoredObject]:
        """make, prepare: as of `Cacher`."""
        prefix = keys.resource_prefix(group, resource)
        return Cacher(self.storage, prefix, make=make, at=stored.at, prepare=prepare, clock=self.monotonic, corrupt=self.corrupt)

    def own_store(self, strategy: Strategy, converter: Converter | None = None) -> Store:
        """A store of one of the server's own kinds, which have one version, no schema and no selectable fields.

        converter: for objects that another server stored in a version that isn't served.
        """
        info = strategy.info
        resource = ResourceStorage(
            group=info.group,
            resource=info.resource,
            api_version=info.api_version,
            storage=self.storage,
            cacher=self.cacher(info.group, info.resource, stored.make_decodable),
            converter=converter or NoneConverter(),
            prune=_as_it_is,
            conform_stored=None,
            read_fields=_nothing,
            clock=self.clock,
            new_uid=self.new_uid,
            random=self.random,
            max_object_bytes=self.max_object_bytes,
        )
        return Store(resource, strategy, Views(resource, info, _as_it_is))


def _as_it_is(obj: JSONObject) -> None:
    return None


def _nothing(obj: JSONObject) -> dict[str, str]:
    return {}
