"""Source: the functions of one virtual resource as operations on JSON objects.

What a function returns becomes an object of the API here: it gets apiVersion and kind, a uid that stays the same over restarts
and replicas, and nothing that the source does not keep. What a client sends is made ready for a function the same way: system
fields that only mean something in a store (uid, generation, managedFields) are not passed on.

Failure is never absence: a function that raises is an error of the request, and never an empty list or a missing object.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from aggserver.informers.informer import CONTROLLER
from aggserver.meta import codec, errors
from aggserver.meta.errors import StatusError
from aggserver.meta.field import Path, forbidden
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import stored
from aggserver.resources.calls import Calls, is_stream, name_of
from aggserver.resources.errors import AnswerError, NotFound, named
from aggserver.resources.events import Bookmark, Event
from aggserver.resources.pages import Page
from aggserver.resources.requests import ListRequest, Request, WatchRequest
from aggserver.scheme import object_meta
from aggserver.storage import keys
from aggserver.storage.changes import ADDED, DELETED, MODIFIED
from aggserver.typed.codec import Codec, UndecodableError, UnencodableError
from aggserver.typed.metadata import Metadata

__all__ = ["LAST_APPLIED", "VERSION", "Functions", "Keeps", "ListedPage", "Made", "ObjectSource", "RevisionsOf", "ToldEvent"]

log = logging.getLogger("aggserver.resources")

# Who keeps the labels, annotations, owner references, finalizers and managedFields of clients: nobody, the source, or the server
# beside it.
Keeps = Literal["", "metadata", "sidecar"]
# Who makes resourceVersions: the server, or the source.
RevisionsOf = Literal["", "source"]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Of our own, for uids that are made of names.
_UIDS = uuid.UUID("5d9f1a53-0a3c-4f0e-9a0f-6f1f4b6f1c55")
# Objects made of what a function returned before other requests run: about a millisecond.
_TURN = 50
# Objects of a source that can't be served and are named in the log.
_MOST_NAMED = 100
# What makes of a function's result no object of the API.
_UNSERVABLE = (ValueError, TypeError, AttributeError, UnencodableError)
_SYSTEM = ("uid", "creationTimestamp", "generation", "selfLink", "deletionGracePeriodSeconds")
_OF_CLIENTS = ("labels", "annotations", "finalizers", "ownerReferences")
# A resourceVersion that clients may compare (KEP-5504): a number that is greater than 0, or a text that begins with a letter.
VERSION = re.compile(r"[1-9][0-9]*|[A-Za-z][A-Za-z0-9._-]*")

# (key, encoded object, its own resourceVersion or '')
Made = tuple[str, bytes, str]
Items = Iterable[Any] | AsyncGenerator[Any, None]


class ListedPage(NamedTuple):
    """What one call of `list` has returned. cursor: '' after the last page. filtered: whether all objects match the selectors.

    revision: of the list, '' if the source has none.
    """

    objects: Sequence[Made]
    cursor: str
    filtered: bool
    revision: str


class ToldEvent(NamedTuple):
    """What a `watch` function has told. type: ADDED, MODIFIED or DELETED. old: None if the source did not tell it."""

    type: str
    object: Made
    old: Made | None


class _Unservable(NamedTuple):
    """An object that can't be shown. key: '' if it never was one."""

    key: str


@dataclass
class Functions:
    """The functions of a resource, each None until it is declared. dry_run: the names of those that know `Request.dry_run`."""

    list: Callable[..., Any] | None = None
    get: Callable[..., Any] | None = None
    create: Callable[..., Any] | None = None
    update: Callable[..., Any] | None = None
    delete: Callable[..., Any] | None = None
    feed: Callable[..., Any] | None = None
    watch: Callable[..., Any] | None = None
    filtered_watch: bool = False
    visible: Callable[..., Any] | None = None
    dry_run: set[str] = field(default_factory=set)


class ObjectSource:
    """info: of the resource. state: what the App's lifespan has yielded; raises 503 before that. read_seconds: the longest that
    a function may take.
    """

    def __init__(
        self,
        info: ResourceInfo,
        functions: Functions,
        codec: Codec[Any],
        calls: Calls,
        state: Callable[[], Any],
        *,
        keeps: Keeps = "",
        revisions: RevisionsOf = "",
        read_seconds: float = 30.0,
        max_object_bytes: int = 1 << 20,
    ) -> None:
        self.info = info
        self.functions = functions
        # Of this resource alone, since whether they are running is asked, and several resources may share a function.
        self.lists = None if functions.list is None else partial(functions.list)
        self.feed = None if functions.feed is None else partial(functions.feed)
        self.keeps = keeps
        self._has_revisions = revisions == "source"
        self._codec = codec
        self._calls = calls
        self._state = state
        self._seconds = read_seconds
        self._max_object_bytes = max_object_bytes
        self._prefix = keys.resource_prefix(info.group, info.resource)
        self._skipped: set[str] = set()

    def request(self, request: Request[None]) -> Request[Any]:
        """The request with the App's state in it. Raises 503 while there is none."""
        return replace(request, state=self._state())

    def key_of(self, namespace: str, name: str) -> str:
        return f"{self._prefix}{namespace}/{name}" if namespace else self._prefix + name

    # --- reading ---

    async def page(self, request: ListRequest[Any]) -> ListedPage:
        """One call of `list`, for a request of a client."""
        function = self._function("list")
        with self._faults(request, function):
            result = await self._read(function, replace(request, state=self._state()))
            page = result if isinstance(result, Page) else Page(_items(result, function))
            if self._has_revisions and not request.cursor and not VERSION.fullmatch(page.revision):
                raise ValueError(f"{name_of(function)} must return a Page with the list's revision, not {page.revision!r}")
            made: dict[str, Made] = {}
            async for item in self._made(page.items, request.namespace):
                if isinstance(item, _Unservable):
                    request.warn(f"an object of {self.info.resource} can't be shown, see the server's log")
                elif made.setdefault(item[0], item) is not item:
                    self._skip(f"{item[0]} is in the list twice")
        return ListedPage([*made.values()], page.cursor or "", page.filtered, page.revision)

    async def everything(self, present: set[str], most_calls: int = 100_000) -> AsyncGenerator[tuple[str, bytes], None]:
        """All objects with their keys, page after page, as the server itself asks for them. Raises what functions raise.

        present: the keys of all objects found so far. The caller adds those that it gets, this those that can't be read.
        """
        function = self.lists
        assert function is not None
        request: ListRequest[Any] = ListRequest(user=CONTROLLER, state=None)
        for _ in range(most_calls):
            items: Items
            cursor: str | None = None
            if is_stream(function):
                asked = replace(request, state=self._state())
                items = self._limited(function, self._calls.stream(function, asked))
            else:
                result = await self._read(function, replace(request, state=self._state()))
                page = result if isinstance(result, Page) else Page(_items(result, function))
                items, cursor = page.items, page.cursor
                del result, page
            async with contextlib.aclosing(self._made(items, "")) as made:
                del items
                async for item in made:
                    key = item.key if isinstance(item, _Unservable) else item[0]
                    if not isinstance(item, _Unservable) and key not in present:
                        yield key, item[1]
                    elif key in present:
                        self._skip(f"{key} is in the list twice")
                    if key and isinstance(item, _Unservable):
                        present.add(key)
            if not cursor:
                return
            if cursor == request.cursor:
                raise AnswerError(f"{name_of(function)} returned the same cursor twice")
            request = replace(request, cursor=cursor)
        raise AnswerError(f"{name_of(function)} never came to its last page")

    async def _limited(self, function: Callable[..., Any], items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """The items of a generator function. It may take its time for all of them, but not without any progress."""
        async with self._calls.limit(function, self._seconds) as limit, contextlib.aclosing(items) as stream:
            count = 0
            async for item in stream:
                count += 1
                if not count % _TURN:
                    limit.renew()
                yield item

    async def one(self, request: Request[Any], name: str) -> tuple[bytes, str] | None:
        """The object of a name, encoded, and its own resourceVersion; None if the source says that there is none."""
        function = self._function("get")
        with self._faults(request, function, name):
            try:
                value = await self._read(function, self.request(request), name)
            except NotFound:
                return None
            if value is None:
                return None
            made = self._encoded(value, request.namespace)
            self._check_key(made[0], request, name, function)
        return made[1:]

    async def events(self, request: WatchRequest[Any]) -> AsyncGenerator[ToldEvent | Bookmark, None]:
        """What `watch` tells, for one request. What can't be served is left out and logged. To be closed (`aclosing`)."""
        function = self._function("watch")
        with self._faults(request, function):
            async with contextlib.aclosing(self._calls.stream(function, replace(request, state=self._state()))) as told:
                async for each in told:
                    if isinstance(each, Bookmark) and VERSION.fullmatch(each.revision):
                        yield each
                    elif isinstance(each, Event) and each.type in (ADDED, MODIFIED, DELETED):
                        if (event := self._told(each, request.namespace)) is not None:
                            yield event
                    else:
                        raise TypeError(f"{name_of(function)} must yield an Event or a Bookmark, not {each!r:.100}")

    def _told(self, event: Event[Any], namespace: str) -> ToldEvent | None:
        try:
            old = None if event.old is None else self._encoded(event.old, namespace)
            return ToldEvent(event.type, self._encoded(event.object, namespace), old)
        except _UNSERVABLE as error:
            self._skip(str(error))
            return None

    def changed(self, value: Any) -> tuple[str, bytes] | None:
        """(key, encoded object) of what a feed tells; None for what can't be served, which is logged."""
        try:
            return self._encoded(value, "")[:2]
        except _UNSERVABLE as error:
            self._skip(str(error))
            return None

    def gone(self, namespace: str, name: str) -> str | None:
        """The key of what a feed tells is gone; None if it names nothing, which is logged."""
        if bool(namespace) != self.info.namespaced:
            self._skip(f"Gone({name!r}, {namespace!r}): its namespace is {'missing' if self.info.namespaced else 'one too many'}")
            return None
        return self.key_of(namespace, name)

    async def _read(self, function: Callable[..., Any], *args: Any) -> Any:
        request: Request[Any] = args[0]
        return await self._calls.read(function, *args, seconds=min(self._seconds, request.seconds_left))

    @contextlib.contextmanager
    def _faults(self, request: Request[Any], function: Callable[..., Any], name: str = "") -> Iterator[None]:
        """Names resource and object in the errors of a function. All but StatusErrors are faults of its code: the client gets 500
        without a word of them, and the log the traceback.
        """
        try:
            yield
        except StatusError as error:
            if (shown := named(error, self.info, name)) is not error:
                # The class of the error stays: the write loop knows Conflict and AlreadyExists by it.
                error.__dict__.update(shown.__dict__)
            raise
        except Exception as error:
            log.exception("%s failed, audit id %s", name_of(function), request.audit_id)
            resource = errors.qualified(self.info.resource, self.info.group)
            where = f", under the audit id {request.audit_id}" if request.audit_id else ""
            raise errors.internal_error(f"the source of {resource} has failed; the server's log has more{where}") from error

    def _check_key(self, key: str, request: Request[Any], name: str, function: Callable[..., Any]) -> None:
        if key != self.key_of(request.namespace if self.info.namespaced else "", name):
            raise AnswerError(f"{name_of(function)} returned another object than {name}: {key}")

    async def _made(
        self, items: Iterable[Any] | AsyncGenerator[Any, None], namespace: str
    ) -> AsyncGenerator[Made | _Unservable, None]:
        """The objects. Those that can't be served are named in the log: one bad row must not hide all the rest.

        Raises AnswerError for what is no object at all, since nobody can say which one is missing then.
        """
        index = 0
        async for item in _each(items):
            index += 1
            try:
                yield self._encoded(item, namespace)
            except _UNSERVABLE as error:
                text = str(error)
                try:
                    key = self._key_of_bad(item, namespace)
                except AnswerError as unknown:
                    raise unknown from None
                self._skip(text)
                yield _Unservable(key)
            if not index % _TURN:
                await asyncio.sleep(0)

    def _key_of_bad(self, value: Any, namespace: str) -> str:
        """The key of an object that can't be encoded; '' if its name can't be one. Raises AnswerError if it has no metadata."""
        metadata = value.get("metadata") if isinstance(value, Mapping) else getattr(value, "metadata", None)
        if isinstance(metadata, Metadata):
            metadata = metadata.to_json()
        if not isinstance(metadata, Mapping):
            raise AnswerError(f"the source of {self.info.resource} has {type(value).__name__}, which is no object of it")
        name, where = str(metadata.get("name") or ""), str(metadata.get("namespace") or namespace)
        if object_meta.dns1123_subdomain(name) or (self.info.namespaced and object_meta.dns1123_label(where)):
            return ""
        return self.key_of(where if self.info.namespaced else "", name)

    def _skip(self, text: str) -> None:
        if text not in self._skipped and len(self._skipped) < _MOST_NAMED:
            self._skipped.add(text)
            log.error("what the source of %s tells can't be served: %s", self.info.resource, text)
            if len(self._skipped) == _MOST_NAMED:
                log.error("more of %s that can't be served will not be named", self.info.resource)

    def _encoded(self, value: Any, namespace: str, *, is_there: bool = True) -> tuple[str, bytes, str]:
        """(key, encoded object, its own resourceVersion). Raises ValueError for what can't be an object of this resource.

        is_there: whether the source has the object, and so a revision of it.
        """
        obj = self._codec.encode(value)
        metadata: JSONObject = dict(obj.get("metadata") or {})
        name, where = metadata.get("name", ""), metadata.get("namespace", "")
        if not name:
            raise ValueError(f"an object that {name_of(type(value))} stands for has no name")
        if problems := object_meta.dns1123_subdomain(name):
            raise ValueError(f"{name!r} can't be a name: {'; '.join(problems)}")
        if self.info.namespaced:
            where = metadata["namespace"] = where or namespace
            if not where:
                raise ValueError(f"{name}: its namespace is not given")
            if problems := object_meta.dns1123_label(where):
                raise ValueError(f"{where!r} can't be a namespace: {'; '.join(problems)}")
        else:
            where = ""
            metadata.pop("namespace", None)
        key = self.key_of(where, name)
        if not metadata.get("uid"):
            metadata["uid"] = str(uuid.uuid5(_UIDS, f"{key}\0{metadata.get('creationTimestamp', '')}"))
        version = str(metadata.pop("resourceVersion", ""))
        if version and not VERSION.fullmatch(version):
            raise ValueError(f"{key}: {version!r} can't be a revision: it is a number, or begins with a letter")
        if self._has_revisions and is_there and not version:
            raise ValueError(f"{key}: its revision is not given, as `revisions` promises")
        # In one order, since an object that is the same must have the same bytes, whichever function has returned it.
        metadata = dict(sorted(metadata.items()))
        encoded = stored.encode({**obj, "metadata": metadata}, self.info.api_version, self.info.kind)
        if len(encoded) > self._max_object_bytes:
            raise ValueError(f"{key} has {len(encoded)} bytes, and the most are {self._max_object_bytes}")
        return key, encoded, version

    # --- writing ---

    async def create(self, request: Request[Any], obj: JSONObject) -> Made:
        self._refuse_lost(obj, None)
        made = self._decoded(self._for_functions(obj, None))
        return await self._written(self._function("create"), request, obj, made)

    async def answer(self, request: Request[Any], obj: JSONObject) -> JSONObject:
        """What `create` answers to an object that is a question, without kind and apiVersion."""
        self._refuse_lost(obj, None)
        made, function = self._decoded(self._for_functions(obj, None)), self._function("create")
        with self._faults(request, function, _name(obj)):
            value = await self._write(function, self.request(request), made)
            if value is None:
                raise TypeError(f"{name_of(function)} returned no object, which is the answer")
            answer = self._codec.encode(value)
            if (size := len(codec.encode_json(answer))) > self._max_object_bytes:
                raise ValueError(f"{name_of(function)} returned {size} bytes, and the most are {self._max_object_bytes}")
            own = {name: given for name, given in answer.items() if name not in ("apiVersion", "kind", "metadata")}
            return {"metadata": answer.get("metadata") or {}, **own}

    async def update(self, request: Request[Any], obj: JSONObject, old: JSONObject) -> Made:
        self._refuse_lost(obj, old)
        new, before = (self._decoded(self._for_functions(each, old)) for each in (obj, old))
        return await self._written(self._function("update"), request, obj, new, before)

    async def delete(self, request: Request[Any], old: JSONObject) -> None:
        function, before = self._function("delete"), self._decoded(old)
        with self._faults(request, function, _name(old)):
            await self._write(function, self.request(request), before)

    def same(self, obj: JSONObject, old: JSONObject) -> bool:
        """Whether an update changes nothing that the source has."""
        return codec.same(self._for_functions(obj, old), self._for_functions(old, old))

    async def _written(self, function: Callable[..., Any], request: Request[Any], obj: JSONObject, *args: Any) -> Made:
        """The object after a write, as `get` shows it: a source may add to what it is given."""
        asked, name = self.request(request), _name(obj)
        with self._faults(request, function, name):
            value = await self._write(function, asked, *args)
            if value is None and self.functions.get is not None and not request.dry_run:
                value = await self._read(self.functions.get, asked, name)
                if value is None:  # somebody else has deleted it since
                    raise NotFound
            if value is None:
                raise AnswerError(f"{name_of(function)} returned no object, and there is no get function")
            made = self._encoded(value, request.namespace, is_there=not request.dry_run)
            self._check_key(made[0], request, name, function)
        return made

    async def _write(self, function: Callable[..., Any], request: Request[Any], *args: Any) -> Any:
        return await self._calls.write(function, request, *args, seconds=min(self._seconds, request.seconds_left))

    def _decoded(self, obj: JSONObject) -> Any:
        """The instance for a function. Raises 422 for what the class itself refuses."""
        try:
            return self._codec.decode(obj)
        except UndecodableError as error:
            raise errors.invalid(self.info.group, self.info.kind, _name(obj), error.errors) from None

    def refuse_dry_run(self, verb: str) -> None:
        """Raise 400 unless the function of a verb knows of dry runs: as kube-apiserver for webhooks with side effects."""
        if verb not in self.functions.dry_run:
            resource = errors.qualified(self.info.resource, self.info.group)
            raise errors.bad_request(f"dry run is not supported for {verb} of {resource}")

    def _function(self, verb: str) -> Callable[..., Any]:
        function: Callable[..., Any] | None = getattr(self.functions, verb)
        if function is None:
            raise errors.method_not_supported(self.info.group, self.info.resource, verb)
        return function

    def _refuse_lost(self, obj: JSONObject, old: JSONObject | None) -> None:
        """Raise 422 for metadata that a client sets and the source would lose."""
        if self.keeps == "metadata":
            return
        given, before = obj["metadata"], {} if old is None else old["metadata"]
        lost = []
        for member in _OF_CLIENTS:
            value, was = given.get(member) or {}, before.get(member) or {}
            if member == "annotations":
                value, was = ({key: text for key, text in each.items() if key != LAST_APPLIED} for each in (value, was))
            if value and value != was:
                lost.append(forbidden(Path("metadata").child(member), "is not kept by this resource"))
        if lost:
            raise errors.invalid(self.info.group, self.info.kind, given.get("name", ""), lost)

    def _for_functions(self, obj: JSONObject, old: JSONObject | None) -> JSONObject:
        """An object of the write loop without the system fields that the loop has made up."""
        before: Mapping[str, Any] = {} if old is None else old["metadata"]
        metadata = {name: value for name, value in obj["metadata"].items() if name not in _SYSTEM}
        metadata.update((name, before[name]) for name in _SYSTEM if name in before)
        if self.keeps != "metadata":
            metadata.pop("managedFields", None)
            if LAST_APPLIED in metadata.get("annotations", {}):
                kept = {key: text for key, text in metadata["annotations"].items() if key != LAST_APPLIED}
                metadata["annotations"] = kept
                if not kept:
                    del metadata["annotations"]
        return {**obj, "metadata": metadata}

    def is_visible(self, request: Request[None], obj: JSONObject) -> bool:
        """Whether a user may know of an object. Raises 500 if the function fails: that it is not visible would be a deletion."""
        function = self.functions.visible
        if function is None:
            return True
        with self._faults(request, function, _name(obj)):
            shown = function(self.request(request), self._codec.decode(obj))
            if inspect.iscoroutine(shown):  # true whatever it would say
                shown.close()
                raise AnswerError(f"{name_of(function)} must return True or False, not a coroutine")
            return bool(shown)


async def _each(items: Items) -> AsyncIterator[Any]:
    if isinstance(items, AsyncGenerator):
        async with contextlib.aclosing(items) as stream:
            async for item in stream:
                yield item
    else:
        for item in items:
            yield item


def _items(result: Any, function: Callable[..., Any]) -> Iterable[Any]:
    if result is None or isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise AnswerError(f"{name_of(function)} must return a Page or objects, not {type(result).__name__}")
    return result


def _name(obj: JSONObject) -> str:
    name: str = obj["metadata"].get("name") or ""
    return name
