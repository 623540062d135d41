"""World: stores of a custom resource `crontabs` in memory, with time, uids and randomness that the test controls.

The resource is stored as v1 and served as v1 and v2; v2 doesn't know `spec.color`, v1 doesn't know `spec.paused`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from aggserver.authentication.user import UserInfo
from aggserver.conversion.converter import NONE, ConversionError, Converter
from aggserver.meta import codec, errors, jsonpath
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.custom_resource import CustomResourceStrategy, ScalePaths, StatusStrategy, read_fields
from aggserver.registry.environment import Environment
from aggserver.registry.gate import Gate
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Context, DeleteOptions, ListOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.views import Views
from aggserver.registry.watch import Watch
from aggserver.schema.compiled import CompiledSchema
from aggserver.storage.memory import MemoryStorage
from tests.fakes.clock import FakeClock
from tests.waiting import HANG_SECONDS

GROUP = "stable.example.com"
NOW = 1767323045.0
NOW_TEXT = "2026-01-02T03:04:05Z"
USER = UserInfo("alice")
WRITE = WriteOptions(field_manager="test")
DRY = WriteOptions(dry_run=True, field_manager="test")
SCALE = ScalePaths(".spec.replicas", ".status.replicas", ".status.selector")
# A schema that allows everything: validation by schemas has its own tests.
ANYTHING = CompiledSchema({})
FORMS = {"v1": object(), "v2": object()}
KNOWN = {"v1": ("replicas", "color", "anything"), "v2": ("replicas", "paused", "anything")}

T = TypeVar("T")


class AskedConverter:
    """Converts as the None strategy does, but has to be asked, as a webhook. labels: those of objects in v2.

    calls: the number of objects and the target version of every call. failing: names of objects that are refused. down: the error
    of every call. gate: what calls wait for.
    """

    at_once = None
    changes_metadata = True

    def __init__(self) -> None:
        self.calls: list[tuple[int, str]] = []
        self.failing: set[str] = set()
        self.labels: dict[str, str] = {}
        self.down: ConversionError | None = None
        self.gate: asyncio.Event | None = None

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        self.calls.append((len(objects), api_version))
        if self.gate is not None:
            await self.gate.wait()
        if self.down is not None:
            raise self.down
        if self.failing.intersection(obj["metadata"]["name"] for obj in objects):
            raise ConversionError("conversion webhook failed: no")
        for obj in objects:
            obj["apiVersion"] = api_version
            if self.labels:
                obj["metadata"].pop("labels", None)
                if api_version.endswith("/v2"):
                    obj["metadata"]["labels"] = dict(self.labels)
        return list(objects)


class World:
    """Makes stores of `crontabs` that share a storage, a clock and sources of uids and random numbers."""

    def __init__(self, converter: Converter = NONE) -> None:
        self.storage = MemoryStorage()
        self.clock = FakeClock(NOW)
        self.numbers: list[int] = []
        self.uids = 0
        self.terminating = False
        self.converter = converter
        self.environment = Environment(self.storage, self.clock, self.clock, self._new_uid, self._random)
        self._storages: dict[bool, ResourceStorage] = {}

    def _new_uid(self) -> str:
        self.uids += 1
        return f"uid-{self.uids}"

    def _random(self, below: int) -> int:
        """The numbers in `numbers`, then always 0."""
        return self.numbers.pop(0) % below if self.numbers else 0

    def _check_context(self, context: Context) -> None:
        if self.terminating:
            raise errors.method_not_supported(GROUP, "crontabs", "create")

    def info(self, version: str = "v1", *, namespaced: bool = True) -> ResourceInfo:
        return ResourceInfo(GROUP, version, "crontabs" if namespaced else "clocks", "CronTab", "CronTabList", namespaced)

    def strategy(
        self, version: str = "v1", *, has_status: bool = True, scale: ScalePaths | None = None, namespaced: bool = True
    ) -> CustomResourceStrategy:
        info = self.info(version, namespaced=namespaced)
        return CustomResourceStrategy(info, ANYTHING, has_status=has_status, scale=scale, check_context=self._check_context)

    def store(
        self, version: str = "v1", *, has_status: bool = True, scale: ScalePaths | None = None, namespaced: bool = True
    ) -> Store:
        strategy = self.strategy(version, has_status=has_status, scale=scale, namespaced=namespaced)
        resource = self._resource(namespaced)
        views = Views(resource, strategy.info, conform(version), FORMS[version])
        return Store(resource, strategy, views, lambda api_version: self.store(api_version.rpartition("/")[2]))

    def status(self, store: Store, *, scale: ScalePaths | None = None) -> Store:
        info = store.strategy.info
        strategy = StatusStrategy(info, ANYTHING, has_status=True, scale=scale, check_context=self._check_context)
        return store.with_strategy(strategy)

    def _resource(self, namespaced: bool) -> ResourceStorage:
        if namespaced not in self._storages:
            info = self.info(namespaced=namespaced)
            self._storages[namespaced] = ResourceStorage(
                group=info.group,
                resource=info.resource,
                api_version=info.api_version,
                storage=self.storage,
                cacher=self.environment.cacher(info.group, info.resource),
                converter=self.converter,
                prune=conform("v1"),
                conform_stored=conform_stored,
                stored_form=FORMS["v1"],
                read_fields=read_fields({"spec.color": jsonpath.compile(".spec.color")}),
                clock=self.clock,
                new_uid=self._new_uid,
                random=self._random,
                max_object_bytes=self.environment.max_object_bytes,
                converted=self.environment.converted,
            )
        return self._storages[namespaced]

    def gate(self) -> Gate:
        """Of the resource in namespaces, whose store was made."""
        return self._storages[True].gate

    def restarted(self) -> Store:
        """The v1 store of a server that has just started on the same storage, with an empty watch cache."""
        self._storages.clear()
        return self.store()

    async def stored(self, name: str, namespace: str = "default") -> JSONObject:
        """The object as it is in the storage."""
        kv = await self.storage.get(f"/{GROUP}/crontabs/{namespace}/{name}")
        assert kv is not None
        tree: JSONObject = codec.decode_json(kv.value)
        return tree


class Validating:
    """Validating admission by a function."""

    looks_at_objects = True

    def __init__(self, admit: Callable[[JSONObject | None, JSONObject | None], Awaitable[None]]) -> None:
        self.validate = admit
        self.failures = 0

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        return False

    def failed(self) -> None:
        self.failures += 1


def conform(version: str) -> Callable[[JSONObject], None]:
    def prune(obj: JSONObject) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            for key in [key for key in spec if key not in KNOWN[version]]:
                del spec[key]

    return prune


def conform_stored(obj: JSONObject) -> None:
    conform(obj["apiVersion"].rpartition("/")[2])(obj)


def crontab(name: str = "a", version: str = "v1", **metadata: Any) -> JSONObject:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "CronTab",
        "metadata": {"name": name, **metadata} if name else metadata,
        "spec": {"replicas": 1},
    }


def context(namespace: str = "default") -> Context:
    return Context(USER, namespace)


def selection(labels: str = "", fields: str = "", **options: Any) -> ListOptions:
    return ListOptions(LabelSelector.parse(labels), FieldSelector.parse(fields), **options)


async def create(store: Store, name: str = "a", namespace: str = "default", **changes: Any) -> JSONObject:
    """changes: top-level fields of the object; metadata is merged into the default metadata."""
    obj = crontab(name, store.strategy.info.version, **changes.pop("metadata", {}))
    obj.update(copy.deepcopy(changes))
    return (await store.create(WriteRequest(context(namespace), WRITE), obj)).decoded()


async def change(store: Store, name: str, edit: Callable[[JSONObject], Any], options: WriteOptions = WRITE) -> StoredObject:
    """Update by a function that changes its argument."""

    async def transform(obj: JSONObject) -> JSONObject:
        edit(obj)
        return obj

    written = (await store.update(WriteRequest(context(), options), name, transform)).object
    assert isinstance(written, StoredObject)
    return written


async def replace(store: Store, obj: JSONObject, options: WriteOptions = WRITE) -> JSONObject:
    """Update to a whole object, as PUT does."""

    async def transform(current: JSONObject) -> JSONObject:
        return copy.deepcopy(obj)

    return (await store.update(WriteRequest(context(), options), obj["metadata"]["name"], transform)).object.decoded()


async def delete(store: Store, name: str = "a", **options: Any) -> Any:
    return await store.delete(context(), name, DeleteOptions(**options))


async def refused(awaitable: Awaitable[Any]) -> errors.StatusError:
    try:
        await awaitable
    except errors.StatusError as error:
        return error
    raise AssertionError("it was not refused")


async def after(seconds: float, awaitable: Awaitable[T]) -> T:
    """The result of `awaitable`. Once it waits, the event loop's clock is advanced by `seconds`, so that timers fire."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(awaitable)
    for _ in range(50):
        await asyncio.sleep(0)
    real = loop.time
    loop.time = lambda: real() + seconds  # type: ignore[method-assign]
    try:
        return await task
    finally:
        loop.time = real  # type: ignore[method-assign]


class Seen:
    """Reads a watch. `next(n)` returns its next n events as (type, name, revision); a bookmark's name is '' or 'end'."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.objects: list[Any] = []
        self._batches = aiter(watch)
        self._pending: list[Any] = []

    async def next(self, count: int) -> list[tuple[str, str, int]]:
        told = []
        for _ in range(count):
            while not self._pending:
                self._pending = list(await asyncio.wait_for(anext(self._batches), HANG_SECONDS))
            event = self._pending.pop(0)
            self.objects.append(event.object)
            name = "end" if event.initial_events_end else ""
            if event.object is not None:
                name = event.object.decoded()["metadata"]["name"]
            told.append((event.type, name, event.revision))
        return told

    async def nothing_more(self) -> bool:
        """Whether no event is waiting: then a requested bookmark is the next event."""
        # Start reading first, since a bookmark requested before all past events are read is not sent.
        told = asyncio.ensure_future(self.next(1))
        for _ in range(10):
            await asyncio.sleep(0)
        self.watch.bookmark()
        return (await told)[0][0] == "BOOKMARK"


async def watching(store: Store, namespace: str = "default", **options: Any) -> Seen:
    return Seen(await store.watch(context(namespace), selection(**options)))
