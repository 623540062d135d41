"""Virtual: one resource whose objects are kept elsewhere, by the functions that its user declares with decorators.

The verbs of the resource follow from its functions, once the server starts; what has none is not in discovery, and is answered
with 405. With `poll`, a `feed` or a `watch` it can be watched.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from aggserver.meta import versions
from aggserver.resources.errors import DeclarationError
from aggserver.resources.events import Bookmark, Changed, Event, Gone, Relist
from aggserver.resources.handle import Declaration, Handle
from aggserver.resources.pages import Page
from aggserver.resources.requests import ListRequest, Request, WatchRequest
from aggserver.resources.signatures import check_call
from aggserver.resources.source import Functions

__all__ = ["Virtual", "group_version", "plural_of"]

S = TypeVar("S")
T = TypeVar("T")

# What `list` may return: objects, a page of them, or either of these later.
Listed = Iterable[T] | Page[T] | Awaitable[Iterable[T]] | Awaitable[Page[T]] | AsyncIterator[T]
ListFunction = Callable[[ListRequest[S]], Listed[T]]
GetFunction = Callable[[Request[S], str], T | None] | Callable[[Request[S], str], Awaitable[T | None]]
CreateFunction = Callable[[Request[S], T], T | None] | Callable[[Request[S], T], Awaitable[T | None]]
UpdateFunction = Callable[[Request[S], T, T], T | None] | Callable[[Request[S], T, T], Awaitable[T | None]]
DeleteFunction = Callable[[Request[S], T], None] | Callable[[Request[S], T], Awaitable[None]]
FeedFunction = Callable[[S], AsyncIterator[Changed[T] | Gone | Relist]] | Callable[[S], Iterator[Changed[T] | Gone | Relist]]
WatchFunction = (
    Callable[[WatchRequest[S]], AsyncIterator[Event[T] | Bookmark]] | Callable[[WatchRequest[S]], Iterator[Event[T] | Bookmark]]
)
VisibleFunction = Callable[[Request[S], T], bool]


# Verb -> what its function is called with.
_PARAMETERS = {
    "list": ("request",),
    "get": ("request", "name"),
    "create": ("request", "new"),
    "update": ("request", "new", "old"),
    "delete": ("request", "old"),
    "feed": ("state",),
    "watch": ("request",),
    "visible": ("request", "object"),
}


class Virtual(Handle[S, T]):
    """A handle on a resource: its methods are decorators for the functions that make it up. Made by `App.virtual`."""

    def __init__(self, declaration: Declaration) -> None:
        super().__init__(declaration)
        self.functions = Functions()

    def list(self, function: ListFunction[S, T], /) -> ListFunction[S, T]:
        """All objects, or one page of them. Selectors are applied afterwards once more, so that a function may ignore them."""
        self._set("list", function)
        return function

    def get(self, function: GetFunction[S, T], /) -> GetFunction[S, T]:
        """One object by name. None is 404; an exception never is."""
        self._set("get", function)
        return function

    @overload
    def create(self, function: CreateFunction[S, T], /) -> CreateFunction[S, T]: ...
    @overload
    def create(self, /, *, dry_run: bool) -> Callable[[CreateFunction[S, T]], CreateFunction[S, T]]: ...
    def create(self, function: Any = None, /, *, dry_run: bool = False) -> Any:
        """Makes an object; returns it as it is then, or None to let `get` tell. Raises AlreadyExists.

        dry_run: whether the function changes nothing where `request.dry_run` is set; without it a dry run is refused with 400.
        """
        return self._writer("create", function, dry_run=dry_run)

    @overload
    def update(self, function: UpdateFunction[S, T], /) -> UpdateFunction[S, T]: ...
    @overload
    def update(self, /, *, dry_run: bool) -> Callable[[UpdateFunction[S, T]], UpdateFunction[S, T]]: ...
    def update(self, function: Any = None, /, *, dry_run: bool = False) -> Any:
        """Changes an object from `old` to `new`, for PUT and PATCH; returns it as it is then, or None to let `get` tell.

        Raises Conflict if it is not as `old` any more: then the write is made anew. dry_run: see `create`.
        """
        return self._writer("update", function, dry_run=dry_run)

    @overload
    def delete(self, function: DeleteFunction[S, T], /) -> DeleteFunction[S, T]: ...
    @overload
    def delete(self, /, *, dry_run: bool) -> Callable[[DeleteFunction[S, T]], DeleteFunction[S, T]]: ...
    def delete(self, function: Any = None, /, *, dry_run: bool = False) -> Any:
        """Removes an object. Raises NotFound, Conflict. dry_run: see `create`."""
        return self._writer("delete", function, dry_run=dry_run)

    def feed(self, function: FeedFunction[S, T], /) -> FeedFunction[S, T]:
        """Tells of changes as long as the server runs, once per process: first subscribe, then `yield Relist()`.

        If it raises or ends, it is called again after a pause, and the objects keep their last state meanwhile.
        """
        self._set("feed", function)
        return function

    @overload
    def watch(self, function: WatchFunction[S, T], /) -> WatchFunction[S, T]: ...
    @overload
    def watch(self, /, *, filtered: bool) -> Callable[[WatchFunction[S, T]], WatchFunction[S, T]]: ...
    def watch(self, function: Any = None, /, *, filtered: bool = False) -> Any:
        """Tells one client what has changed since `request.revision`, until the client goes; for `revisions="source"`.

        Once it is sure that nothing will be missed, it yields `Bookmark(request.revision)`, then an Event for each change. Raises
        Expired if the source does not go back that far. filtered: whether it applies the selectors, so that the events are those
        of the objects that match.
        """

        def declare(given: Any) -> Any:
            self._set("watch", given)
            self.functions.filtered_watch = filtered
            return given

        return declare if function is None else declare(function)

    def visible(self, function: VisibleFunction[S, T], /) -> VisibleFunction[S, T]:
        """Whether a user may know of an object: asked for each object in all verbs and watches, beside RBAC. Plain and quick."""
        if inspect.iscoroutinefunction(function):
            raise DeclarationError(f"{self.declaration.place}: visible of {self.declaration.name} can't be an async function")
        self._set("visible", function)
        return function

    def _writer(self, verb: str, function: Any, *, dry_run: bool) -> Any:
        def declare(given: Any) -> Any:
            self._set(verb, given)
            if dry_run:
                self.functions.dry_run.add(verb)
            return given

        return declare if function is None else declare(function)

    def _set(self, verb: str, function: Any) -> None:
        if getattr(self.functions, verb) is not None:
            raise DeclarationError(f"{self.declaration.place}: {self.declaration.name} has two functions for {verb}")
        what = f"the {verb} function of {self.declaration.name}"
        check_call(function, what, *_PARAMETERS[verb], where=self.declaration.place, awaited=verb not in ("feed", "watch"))
        setattr(self.functions, verb, function)


def plural_of(kind: str) -> str:
    """As kubectl guesses it. Source: k8s.io/apimachinery pkg/api/meta/restmapper.go (UnsafeGuessKindToResource)."""
    name = kind.lower()
    if name.endswith("s"):
        return name + "es"
    return name.removesuffix("y") + "ies" if name.endswith("y") else name + "s"


def group_version(api_version: str, place: str) -> tuple[str, str]:
    """Raises DeclarationError for what is not `group/version`."""
    try:
        group, version = versions.parse_group_version(api_version)
    except ValueError:
        group = version = ""
    if not group or not version:
        raise DeclarationError(f"{place}: {api_version!r} is no `group/version`, such as example.com/v1")
    return group, version
