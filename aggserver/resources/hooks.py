"""Hooks: users' functions that default, check and allow writes, as admission plugins of one resource.

The order is kube-apiserver's: after authorization by RBAC, `authorize` for the object that is there, `default` before all
mutating webhooks and policies, as Go's defaulting, and `validate` behind all validating ones, with exactly what would be stored.
They see creates, PUTs, patches and applies alike, dry runs included, and always the version that is stored: objects of other
versions are converted before and back afterwards.

A new object is shown to `authorize` before `validate`, as it would be stored: before that, a webhook could still change whose it
is. An object that the schema refuses is not shown to `default`: the class of the user could not hold it.
Source: k8s.io/apiserver pkg/endpoints/handlers/create.go for the order, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from aggserver.admission.chain import Attributes
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.resources.calls import Calls, name_of
from aggserver.resources.errors import AnswerError, FieldError, Invalid, named
from aggserver.resources.requests import Request, asked
from aggserver.typed.codec import Codec, UndecodableError

__all__ = ["HookFunctions", "ObjectHooks", "Versions"]

# Seconds that a hook may take, as a webhook has by default.
HOOK_SECONDS = 10.0


@dataclass
class HookFunctions:
    """The functions of each kind, in the order of their declaration."""

    default: list[Callable[..., Any]] = field(default_factory=list)
    validate: list[Callable[..., Any]] = field(default_factory=list)
    authorize: list[Callable[..., Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.default or self.validate or self.authorize)


class Versions(Protocol):
    """What hooks need of the resource: whether an object passes the schema of its version, and conversions."""

    @property
    def info(self) -> ResourceInfo:
        """For the texts of errors."""

    def passes(self, obj: JSONObject) -> bool: ...

    async def hub(self, obj: JSONObject) -> JSONObject:
        """The object in the version that is stored: the same one if it is in that. Raises StatusError."""

    async def back(self, obj: JSONObject, api_version: str) -> JSONObject:
        """An object of the hub in another version. Raises StatusError."""


class ObjectHooks:
    """`Mutating` and `Validating` for one resource. state: of the App; raises 503 while there is none."""

    def __init__(
        self,
        functions: HookFunctions,
        codec: Codec[Any],
        calls: Calls,
        state: Callable[[], Any],
        versions: Callable[[], Versions],
    ) -> None:
        self._functions = functions
        self._codec = codec
        self._calls = calls
        self._state = state
        self._versions = versions

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if attributes.subresource not in ("", "status") or (obj is None and old is None):
            return False
        if old is not None:
            await self._authorize(attributes, old)
        if obj is None or attributes.subresource:
            return False
        return await self._default(attributes, obj, old)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if obj is None or attributes.subresource:
            return
        if old is None:
            await self._authorize(attributes, obj)
        if not self._functions.validate:
            return
        versions = self._versions()
        request = self._request(attributes, obj)
        new = self._decoded(await versions.hub(obj))
        before = None if old is None else self._stored(await versions.hub(old))
        problems: list[FieldError] = []
        for function in self._functions.validate:
            problems += await self._problems(function, request, new, before, name=_name(obj))
        if problems:
            problems.sort(key=lambda each: each.path)
            info = versions.info
            raise errors.invalid(info.group, info.kind, _name(obj), [each.as_core() for each in problems])

    async def authorize(self, request: Request[Any], obj: JSONObject) -> None:
        """Before an action or a stream of an object, in any version. Raises StatusError."""
        if not self._functions.authorize:
            return
        value = self._stored(await self._versions().hub(obj))
        for function in self._functions.authorize:
            await self._call(function, request, value, name=_name(obj))

    async def _authorize(self, attributes: Attributes, obj: JSONObject) -> None:
        if self._functions.authorize and attributes.user is not CONTROLLER:
            await self.authorize(self._request(attributes, obj), obj)

    async def _default(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> bool:
        versions = self._versions()
        if not self._functions.default or not versions.passes(obj):
            return False
        request = self._request(attributes, obj)
        hub = await versions.hub(obj)
        draft = self._draft(hub)
        before = None if old is None else self._stored(await versions.hub(old))
        for function in self._functions.default:
            await self._call(function, request, draft.value, before, name=_name(obj))
        if (merged := draft.merged()) is hub:
            return False
        made = await versions.back(merged, obj["apiVersion"])
        obj.clear()
        obj.update(made)
        attributes.objects.accept(obj)
        return True

    async def _problems(
        self, function: Callable[..., Any], request: Request[Any], new: Any, old: Any, *, name: str
    ) -> list[FieldError]:
        try:
            found = await self._call(function, request, new, old, name=name)
        except Invalid as error:
            if error.kind:
                raise  # of another object, which the function could not write
            return list(error.problems)
        if found is None:
            return []
        if isinstance(found, FieldError):
            return [found]
        given = list(found) if isinstance(found, Iterable) else [found]
        for each in given:
            if not isinstance(each, FieldError):
                raise AnswerError(f"{name_of(function)} must yield FieldErrors, not {type(each).__name__}")
        return given

    async def _call(self, function: Callable[..., Any], *args: Any, name: str) -> Any:
        request: Request[Any] = args[0]
        try:
            return await self._calls.read(function, *args, seconds=min(HOOK_SECONDS, request.seconds_left))
        except Invalid as error:
            if function in self._functions.validate:
                raise
            raise named(error, self._versions().info, name) from None
        except StatusError as error:
            raise named(error, self._versions().info, name) from None

    def _draft(self, obj: JSONObject) -> Any:
        try:
            return self._codec.draft(obj)
        except UndecodableError as error:
            raise self._refused(obj, error) from None

    def _decoded(self, obj: JSONObject) -> Any:
        try:
            return self._codec.decode(obj)
        except UndecodableError as error:
            raise self._refused(obj, error) from None

    def _refused(self, obj: JSONObject, error: UndecodableError) -> StatusError:
        info = self._versions().info
        return errors.invalid(info.group, info.kind, _name(obj), error.errors)

    def _stored(self, obj: JSONObject) -> Any:
        """An object that is stored, or that has passed the schema. One that the class refuses is not the client's fault."""
        try:
            return self._codec.decode(obj)
        except UndecodableError as error:
            raise errors.internal_error(
                f"{self._versions().info.kind} {_name(obj)} can't be read as its class: {error}"
            ) from None

    def _request(self, attributes: Attributes, obj: JSONObject) -> Request[Any]:
        """One for all hooks of an object, which takes longer to make than most of them."""
        name, verb = _name(obj), attributes.operation.lower()
        known = attributes.reinvocation.state.get(self)
        # Between two hooks, a name may be generated, or an apply may find that somebody else has created the object.
        if known is not None and known[0] == (name, verb):
            made: Request[Any] = known[1]
            return made
        made = asked(
            attributes.user,
            attributes.namespace,
            attributes.origin,
            attributes.warnings,
            state=self._state(),
            dry_run=attributes.dry_run,
            verb=verb,
            name=name,
            subresource=attributes.subresource,
        )
        attributes.reinvocation.state[self] = (name, verb), made
        return made


def _name(obj: JSONObject) -> str:
    name: str = obj["metadata"].get("name") or ""
    return name
