"""Environment: the values that the stores of all resources of a server share.

The only place where a clock and randomness enter the registry, so that tests can replace them.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from aggserver.conversion.converter import NONE, Converter
from aggserver.conversion.webhook import Caller, NoCaller, WebhookCall, unobserved
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import stored
from aggserver.registry.conversions import ConversionCache
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.views import Views
from aggserver.schema.defaulting import MAX_OBJECT_BYTES
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher
from aggserver.storage.fair_turns import FairTurns
from aggserver.storage.interface import Corrupt, KeyValue, Storage

__all__ = ["Environment"]

_MAX_NAMED = 10  # unreadable objects, or caches, that a readiness check names


@dataclass(frozen=True, slots=True)
class Environment:
    """clock: seconds since the epoch. monotonic: seconds. random: an integer in [0, argument).

    max_object_bytes: limit for an object as it is stored.
    corrupt: the objects known to be unreadable, by key. behind: why a cache does not follow the store, by prefix. Both are shared
    by all cachers. cachers: those that are in use, by prefix. converted: the cache of converted objects.
    webhooks: calls conversion webhooks. observe_conversion: called with each such call.
    """

    storage: Storage
    clock: Callable[[], float]
    monotonic: Callable[[], float]
    new_uid: Callable[[], str]
    random: Callable[[int], int]
    max_object_bytes: int = MAX_OBJECT_BYTES
    corrupt: dict[str, Corrupt] = field(default_factory=dict)
    behind: dict[str, str] = field(default_factory=dict)
    cachers: WeakValueDictionary[str, Cacher[StoredObject]] = field(default_factory=WeakValueDictionary)
    converted: ConversionCache = field(default_factory=ConversionCache)
    webhooks: Caller = field(default_factory=NoCaller)
    observe_conversion: Callable[[WebhookCall], None] = unobserved
    turns: FairTurns = field(default_factory=FairTurns)

    def unreadable(self) -> str | None:
        """The objects known to be unreadable, as the message of a readiness check; None if there are none."""
        return _named(map(str, self.corrupt.values()), len(self.corrupt))

    def not_followed(self) -> str | None:
        """The caches that do not follow the store now, as the message of a readiness check; None if there are none.

        Reads that do not wait for the store's current revision get outdated objects from them.
        """
        return _named((f"{prefix}: {why}" for prefix, why in self.behind.items()), len(self.behind))

    def cacher(
        self,
        group: str,
        resource: str,
        make: Callable[[KeyValue], StoredObject] = stored.make,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> Cacher[StoredObject]:
        """The watch cache of a resource. make, prepare: see `Cacher`."""
        prefix = keys.resource_prefix(group, resource)
        cacher = self.cachers[prefix] = Cacher(
            self.storage,
            prefix,
            make=make,
            at=stored.at,
            prepare=prepare,
            clock=self.monotonic,
            corrupt=self.corrupt,
            turns=self.turns,
            behind=self.behind,
        )
        return cacher

    def extent(self, group: str, resource: str, namespace: str) -> tuple[int, int]:
        """The number of objects of a resource, and about how many bytes they have; those of a namespace, or all.

        (0, 0) if they are not in a watch cache yet.
        """
        prefix = keys.resource_prefix(group, resource)
        cacher = self.cachers.get(prefix)
        return cacher.extent(f"{prefix}{namespace}/" if namespace else prefix) if cacher is not None else (0, 0)

    def own_store(
        self,
        strategy: Strategy,
        converter: Converter | None = None,
        read_fields: Callable[[JSONObject], Mapping[str, str]] | None = None,
    ) -> Store:
        """A store for one of the server's own kinds that has one version, no schema and few objects.

        converter: for objects that another server has stored in a version that is not served here. read_fields: the selectable
        fields.
        """
        info = strategy.info
        cacher = self.cacher(info.group, info.resource, stored.make_decodable)
        resource = self.own_storage(info, cacher, converter or NONE, read_fields or _no_fields)
        return Store(resource, strategy, Views(resource, info, _keep_all))

    def own_storage(
        self,
        info: ResourceInfo,
        cacher: Cacher[StoredObject],
        converter: Converter,
        read_fields: Callable[[JSONObject], Mapping[str, str]],
    ) -> ResourceStorage:
        """The storage of one of the server's own kinds. info: of the version that is stored."""
        return ResourceStorage(
            group=info.group,
            resource=info.resource,
            api_version=info.api_version,
            storage=self.storage,
            cacher=cacher,
            converter=converter,
            prune=_keep_all,
            conform_stored=None,
            read_fields=read_fields,
            clock=self.clock,
            new_uid=self.new_uid,
            random=self.random,
            max_object_bytes=self.max_object_bytes,
            converted=self.converted,
        )


def _named(troubles: Iterable[str], count: int) -> str | None:
    found = list(itertools.islice(troubles, _MAX_NAMED))
    more = count - len(found)
    return "; ".join(found) + (f"; and {more} more" if more else "") if found else None


def _keep_all(obj: JSONObject) -> None:
    return None


def _no_fields(obj: JSONObject) -> dict[str, str]:
    return {}
