"""Asked: the functions of a virtual resource, called as a server calls them.

What a function does wrong is an AssertionError that names the function and the object, in the words of who wrote it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aggserver.informers.informer import CONTROLLER
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.resources.calls import Calls
from aggserver.resources.events import Bookmark
from aggserver.resources.requests import Fields, Labels, ListRequest, Request, WatchRequest
from aggserver.resources.source import ObjectSource, ToldEvent
from aggserver.resources.virtual import Virtual
from aggserver.schema.compiled import CompiledSchema
from aggserver.storage import keys

__all__ = ["Asked", "Item", "difference", "naming", "raised_by", "shown", "told"]

# Calls of `list` for all objects: a source whose cursors never end is told of after these.
_CALLS = 100_000
# As a resourceVersion of a mirror, which is no revision of the source.
_OF_A_MIRROR = "1048576"


@dataclass(frozen=True, slots=True)
class Item:
    """One object as the server makes it of what a function has returned. version: its own revision, '' if it has none or a mirror
    gives it another one.
    """

    key: str
    encoded: bytes
    version: str

    def decoded(self) -> JSONObject:
        obj: JSONObject = codec.decode_stored(self.encoded)
        return obj

    @property
    def uid(self) -> str:
        uid: str = self.decoded()["metadata"]["uid"]
        return uid


class _StrictSource(ObjectSource):
    """A server leaves out objects that can't be served and logs them. Here they are errors."""

    def _skip(self, text: str) -> None:
        raise AssertionError(f"an object of {self.info.resource} would not be shown: {text}")


class Asked:
    """state: of the App. is_followed: whether a server would keep a mirror, by a feed or by polls. is_filtered: whether the last
    page said that all of its objects match the selectors. revision: of the last page, '' where the source has none.
    """

    def __init__(self, handle: Virtual[Any, Any], state: Any, calls: Calls) -> None:
        declaration = handle.declaration
        self.declaration = declaration
        self.functions = handle.functions
        self.info = declaration.info
        self.is_followed = declaration.poll is not None or handle.functions.feed is not None
        self.is_filtered = False
        self.revision = ""
        self.state = state
        self._calls = calls
        self._source = _StrictSource(
            self.info,
            handle.functions,
            declaration.codec,
            calls,
            lambda: state,
            keeps=declaration.keeps,
            revisions=declaration.revisions,
        )
        self._schema = CompiledSchema(declaration.schema)

    def function(self, verb: str) -> str:
        """As in messages: `list of machines.dc.example.com`."""
        return f"{verb} of {self.declaration.name}"

    def key(self, namespace: str, name: str) -> str:
        return self._source.key_of(namespace, name)

    # --- reading ---

    async def page(
        self, *, namespace: str = "", limit: int = 0, cursor: str = "", labels: str = "", fields: str = ""
    ) -> tuple[list[Item], str]:
        """One call of `list`, and the cursor it has returned."""
        request: ListRequest[Any] = ListRequest(
            CONTROLLER,
            None,
            namespace,
            limit=limit,
            cursor=cursor or None,
            labels=Labels(LabelSelector.parse(labels)),
            fields=Fields(FieldSelector.parse(fields)),
        )
        with naming(self.function("list")):
            page = await self._source.page(request)
        self.is_filtered, self.revision = page.filtered, page.revision
        return [self._item(*each) for each in page.objects], page.cursor

    async def pages(self, **asked: Any) -> AsyncIterator[list[Item]]:
        """Call `list` until there is no cursor any more."""
        cursor = ""
        for _ in range(_CALLS):
            made, after = await self.page(**asked, cursor=cursor)
            yield made
            if not after:
                return
            if after == cursor:
                raise AssertionError(f"{self.function('list')} returned the cursor {cursor!r} for the page that it was asked for")
            cursor = after
        raise AssertionError(f"{self.function('list')} still returned a cursor after {_CALLS:,} pages")

    async def all(self, **asked: Any) -> dict[str, Item]:
        """All objects by key. An object that comes twice is an error."""
        found: dict[str, Item] = {}
        if self.functions.list is None:
            return found
        async for made in self.pages(**asked):
            for item in made:
                if item.key in found:
                    raise AssertionError(f"{self.function('list')} returned {shown(item.key)} twice")
                found[item.key] = item
        return found

    async def get(self, namespace: str, name: str) -> Item | None:
        with naming(f"{self.function('get')}, asked for {shown(self.key(namespace, name))},"):
            found = await self._source.one(Request(CONTROLLER, None, namespace), name)
        return None if found is None else self._item(self.key(namespace, name), *found)

    def _item(self, key: str, encoded: bytes, version: str) -> Item:
        return Item(key, encoded, "" if self.is_followed else version)

    async def now(self, key: str) -> Item | None:
        """The object of a key as a server reads it before a write."""
        if self.functions.get is None:
            return (await self.all()).get(key)
        namespace, name = keys.split(key)[2:]
        return await self.get(namespace, name)

    def problems(self, obj: JSONObject) -> list[str]:
        """What the schema of the resource finds wrong with an object."""
        obj = json_copy(obj)
        dropped = self._schema.conform(obj)
        values, structure = self._schema.on_create(obj)
        return [f"{path}: is not in the schema" for path in dropped] + [str(each) for each in (*values, *structure)]

    # --- writing ---

    def current(self, item: Item) -> JSONObject:
        """An object as `update` and `delete` get it as the old one: with the revision of the source, or of a mirror of it."""
        obj = item.decoded()
        obj["metadata"]["resourceVersion"] = item.version or _OF_A_MIRROR
        return obj

    def made(self, value: Any, *, metadata: Mapping[str, Any] | None = None) -> JSONObject:
        """An instance of a user's class as an object."""
        obj: JSONObject = self.declaration.codec.encode(value)
        return {
            "apiVersion": self.info.api_version,
            "kind": self.info.kind,
            **obj,
            "metadata": {**obj.get("metadata", {}), **(metadata or {})},
        }

    def value(self, obj: JSONObject) -> Any:
        return self.declaration.codec.decode(obj)

    async def create(self, obj: JSONObject, *, dry_run: bool = False) -> Item:
        """Raises what the function raises."""
        return self._item(*await self._source.create(self._writing(obj, dry_run=dry_run), obj))

    async def update(self, obj: JSONObject, old: JSONObject, *, dry_run: bool = False) -> Item:
        """Raises what the function raises."""
        return self._item(*await self._source.update(self._writing(obj, dry_run=dry_run), obj, old))

    async def delete(self, old: JSONObject) -> None:
        """Raises what the function raises."""
        await self._source.delete(self._writing(old), old)

    def _writing(self, obj: JSONObject, *, dry_run: bool = False) -> Request[Any]:
        return Request(CONTROLLER, None, obj["metadata"].get("namespace", ""), dry_run)

    # --- following ---

    def changes(self) -> AsyncIterator[Any]:
        assert self.functions.feed is not None
        return self._calls.stream(self.functions.feed, self.state)

    def events(self, revision: str) -> AsyncGenerator[ToldEvent | Bookmark, None]:
        """What `watch` tells after a revision, of all objects."""
        everything = Labels(LabelSelector.parse("")), Fields(FieldSelector.parse(""))
        request: WatchRequest[Any] = WatchRequest(
            CONTROLLER, None, "", labels=everything[0], fields=everything[1], revision=revision
        )
        return self._source.events(request)

    def changed(self, value: Any) -> tuple[str, bytes]:
        made = self._source.changed(value)
        assert made is not None  # what can't be served has raised
        return made

    def gone(self, namespace: str, name: str) -> str:
        key = self._source.gone(namespace, name)
        assert key is not None  # as above
        return key


@contextmanager
def naming(what: str) -> Iterator[None]:
    """What a function raises, as an AssertionError that names it."""
    try:
        yield
    except Exception as error:
        raised = raised_by(error)
        if isinstance(raised, AssertionError):
            raise raised from None
        raise AssertionError(f"{what} raised {told(raised)}") from raised


def raised_by(error: Exception) -> Exception:
    """What a function has raised: what is no error of the API, clients get as one with the code 500."""
    is_hidden = isinstance(error, StatusError) and error.code == 500 and isinstance(error.__cause__, Exception)
    return error.__cause__ if is_hidden else error  # type: ignore[return-value]


def told(error: Exception) -> str:
    """`KeyError: 'rows'`."""
    return f"{type(error).__name__}: {error.message if isinstance(error, StatusError) else error}"


def shown(key: str) -> str:
    """The object of a key, for messages: `default/web`."""
    namespace, name = keys.split(key)[2:]
    return f"{namespace}/{name}" if namespace else name


def difference(before: Item, after: Item) -> str:
    """Where two states of one object differ first: `.spec.size was 1 and is 2`. '' if they don't."""
    if before.version != after.version:
        return f"its revision was {before.version!r} and is {after.version!r}"
    return "" if before.encoded == after.encoded else _first_difference(before.decoded(), after.decoded(), "")


def _first_difference(before: Any, after: Any, path: str) -> str:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in (*before, *(each for each in after if each not in before)):
            if before.get(name) != after.get(name):
                return _first_difference(before.get(name), after.get(name), f"{path}.{name}")
    return f"{path or 'the order of its fields'} was {before!r} and is {after!r}"
