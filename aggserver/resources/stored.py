"""Stored: one resource whose objects this server keeps, with all that a CustomResourceDefinition gives, made from a user's type.

The handle declares hooks, versions and subresources before the server starts, and reads and writes objects while it runs. What
the handle writes passes the same admission, hooks and checks as what clients write, as the user system:apiserver; `authorize` is
for clients only.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from aggserver.resources.conversion import OtherVersion
from aggserver.resources.errors import DeclarationError, FieldError, Unavailable
from aggserver.resources.events import Changed, Gone
from aggserver.resources.handle import Declaration, Handle
from aggserver.resources.hooks import HookFunctions
from aggserver.resources.requests import Request
from aggserver.resources.signatures import check_call, check_texts
from aggserver.typed import schema as schemas

__all__ = ["Hooked", "ObjectAccess", "Stored"]

S = TypeVar("S")
T = TypeVar("T")
Other = TypeVar("Other")

DefaultFunction = Callable[[Request[S], T, T | None], None] | Callable[[Request[S], T, T | None], Awaitable[None]]
ValidateFunction = (
    Callable[[Request[S], T, T | None], Iterable[FieldError] | None]
    | Callable[[Request[S], T, T | None], Awaitable[Iterable[FieldError] | None]]
    | Callable[[Request[S], T, T | None], AsyncIterator[FieldError]]
)
AuthorizeFunction = Callable[[Request[S], T], None] | Callable[[Request[S], T], Awaitable[None]]


class ObjectAccess(Protocol):
    """Reads and writes the objects of a resource of a running server. Objects are JSON; errors are StatusErrors."""

    async def get(self, name: str, namespace: str) -> Any: ...
    async def list(self, namespace: str) -> Sequence[Any]: ...
    async def create(self, value: Any) -> Any: ...
    async def update(self, value: Any) -> Any: ...
    async def update_status(self, value: Any) -> Any: ...
    async def delete(self, name: str, namespace: str) -> None: ...
    def watch(self, namespace: str) -> AsyncIterator[Any]: ...


class Hooked(Generic[S, T]):
    """Hooks on a resource: decorators of functions that default, check and allow writes. Made by `App.hooks` and `App.stored`."""

    def __init__(self) -> None:
        self.hook_functions = HookFunctions()

    def default(self, function: DefaultFunction[S, T], /) -> DefaultFunction[S, T]:
        """Fills in what is missing: called with the new object, which it changes, and the old one or None.

        Called in dry runs, after each apply and perhaps twice for one write: the same object must come out.
        """
        check_call(function, "a default hook", "request", "new", "old")
        self.hook_functions.default.append(function)
        return function

    def validate(self, function: ValidateFunction[S, T], /) -> ValidateFunction[S, T]:
        """Yields a FieldError for each thing that is wrong with the new object; `old` is None when it is created.

        All validators run, and the client gets all errors, sorted by path. `request.warn` tells what is only unwise.
        """
        check_call(function, "a validate hook", "request", "new", "old")
        self.hook_functions.validate.append(function)
        return function

    def authorize(self, function: AuthorizeFunction[S, T], /) -> AuthorizeFunction[S, T]:
        """Raises Forbidden for a user who may not write this object, after RBAC: for every write, action and stream.

        Called with the object as it is before the write; with the new one when it is created.
        """
        check_call(function, "an authorize hook", "request", "object")
        self.hook_functions.authorize.append(function)
        return function


class Stored(Handle[S, T], Hooked[S, T]):
    """A handle on a stored resource. Made by `App.stored`."""

    def __init__(self, declaration: Declaration, *, has_status: bool) -> None:
        Handle.__init__(self, declaration)
        Hooked.__init__(self)
        self.has_status = has_status
        self.versions: list[OtherVersion] = []
        self._access: ObjectAccess | None = None

    def version(
        self,
        name: str,
        type_: type[Other],
        *,
        up: Callable[[Other], T],
        down: Callable[[T], Other],
        deprecated: str = "",
        loses: Sequence[str] = (),
    ) -> None:
        """Serve the objects in another version too. up: to the type that is stored; down: from it. Both plain and quick.

        At start, objects made up from both schemas go through both, and a field that is lost is an error: what one of the types
        has no field for can be kept in an annotation. If `type_` has no field `status`, clients of the version see the status as
        it is stored. deprecated: the text of a warning for who uses this version. loses: paths of fields of either version that
        may be lost, with all below them: `.spec.owner` where that is known and wanted.
        """
        declaration = self.declaration
        if name == declaration.version or any(each.name == name for each in self.versions):
            raise DeclarationError(f"{declaration.place}: {declaration.name} has two versions {name}")
        check_call(up, f"`up` of version {name}", "old", where=declaration.place)
        check_call(down, f"`down` of version {name}", "new", where=declaration.place)
        if inspect.iscoroutinefunction(up) or inspect.iscoroutinefunction(down):
            raise DeclarationError(f"{declaration.place}: `up` and `down` of version {name} can't be async functions")
        check_texts(loses, "loses", declaration.place)
        made = schemas.of(type_)
        self.versions.append(OtherVersion(name, made.schema, made.codec, up, down, deprecated, made.has_status, tuple(loses)))

    def bind(self, access: ObjectAccess | None) -> None:
        """Called by the server that serves it, when it begins and when it ends."""
        self._access = access

    def _now(self) -> ObjectAccess:
        if self._access is None:
            raise Unavailable(f"{self.declaration.name} is not served yet")
        return self._access

    async def get(self, name: str, namespace: str = "") -> T:
        """Raises NotFound."""
        found: T = await self._now().get(name, namespace)
        return found

    async def list(self, namespace: str = "") -> Sequence[T]:
        """All objects, or those of one namespace."""
        return await self._now().list(namespace)

    async def create(self, value: T) -> T:
        """Raises AlreadyExists, Invalid. Returns the object as it is stored."""
        found: T = await self._now().create(value)
        return found

    async def update(self, value: T) -> T:
        """All but the status. Raises Conflict if the object has changed since `value` was read, NotFound, Invalid.

        A value that was not read, but made, overwrites whatever is there; what its metadata does not give stays.
        """
        found: T = await self._now().update(value)
        return found

    async def update_status(self, value: T) -> T:
        """The status alone, whatever else has changed meanwhile: never a Conflict. Raises NotFound, Invalid."""
        if not self.has_status:
            raise DeclarationError(f"{self.declaration.place}: {self.declaration.kind} has no field `status`")
        found: T = await self._now().update_status(value)
        return found

    async def delete(self, name: str, namespace: str = "") -> None:
        """Raises NotFound. Finalizers hold the object."""
        await self._now().delete(name, namespace)

    async def watch(self, namespace: str = "") -> AsyncIterator[Changed[T] | Gone]:
        """All objects there are, then every change, for ever. An object that did not change may come again after a gap."""
        async for event in self._now().watch(namespace):
            yield event
