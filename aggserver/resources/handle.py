"""Handle: what the handles on virtual and stored resources have in common: the declaration, actions and streams."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.resources.connecting import SubresourceFunction
from aggserver.resources.errors import DeclarationError
from aggserver.resources.signatures import check_call, check_name
from aggserver.resources.source import Keeps, RevisionsOf
from aggserver.typed import schema as schemas
from aggserver.typed.codec import Codec

__all__ = ["Column", "Declaration", "Handle", "Scale", "Scope"]

S = TypeVar("S")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

Scope = Literal["Namespaced", "Cluster"]

_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_TAKEN = ("status", "scale")
# What is JSON, and no object of it.
_NO_OBJECTS = (str, bytes, int, float, bool, list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. path: of the value, as `.spec.size`. type: integer, number, string, boolean or date; '' for that
    of the field. wide: whether only `kubectl get -o wide` shows it.
    """

    path: str
    type: str = ""
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """The subresource `scale`, for `kubectl scale` and autoscalers. Paths of fields: replicas: how many are wanted, as
    `.spec.replicas`. status: how many there are, as `.status.replicas`. selector: of the text of a label selector for the pods,
    as `.status.selector`, which autoscalers need; '' for none.
    """

    replicas: str
    status: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a resource is, apart from its functions. place: file and line where it was declared."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    scope: Scope
    schema: JSONObject
    codec: Codec[Any]
    place: str
    columns: Mapping[str, Column] = field(default_factory=dict)
    selectable: Sequence[str] = ()
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    poll: float | None = None
    keeps: Keeps = ""
    revisions: RevisionsOf = ""
    scale: Scale | None = None
    # The class of its objects; None for dicts.
    type: type[Any] | None = None

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def info(self) -> ResourceInfo:
        return ResourceInfo(
            group=self.group,
            version=self.version,
            resource=self.plural,
            kind=self.kind,
            list_kind=f"{self.kind}List",
            namespaced=self.scope == "Namespaced",
        )


class Handle(Generic[S, T]):
    """connections: the actions and streams by name."""

    def __init__(self, declaration: Declaration) -> None:
        self.declaration = declaration
        self.connections: dict[str, SubresourceFunction] = {}

    def action(self, name: str, *, dry_run: bool = False) -> Callable[[F], F]:
        """A subresource that is called by POST: `action(request, object)` or `action(request, object, body)`.

        The type of a third parameter is that of the body, which is checked against it. Returns the object, an instance of
        another class that the function is annotated with, a dict, or None for a plain success. Needs the right `create` on
        `RESOURCE/NAME`. dry_run: whether the function changes nothing where `request.dry_run` is set; without it a dry run is
        refused with 400.
        """
        check_name(name, '@handle.action("name")', self.declaration.place)

        def declare(function: F) -> F:
            where = f"{self.declaration.place}: {self.declaration.name}/{name}"
            what, given = f"the action {name} of {self.declaration.name}", ("request", "object")
            check_call(function, what, *given, *(["body"] if _count(function) > 2 else []), where=self.declaration.place)
            takes_body, body = _body(function, where)
            answer = _answer(function, self.declaration.type, where)
            self._add(SubresourceFunction(name, function, False, takes_body, body, answer, dry_run))
            return function

        return declare

    def stream(self, name: str) -> Callable[[F], F]:
        """A subresource that is read by GET: a generator of bytes or text, as `stream(request, object)`.

        Needs the right `get` on `RESOURCE/NAME`. Through kube-apiserver only `log`, `attach`, `exec`, `portforward` and `proxy`
        last for more than a minute.
        """
        check_name(name, '@handle.stream("log")', self.declaration.place)

        def declare(function: F) -> F:
            what = f"the stream {name} of {self.declaration.name}"
            check_call(function, what, "request", "object", where=self.declaration.place, awaited=False)
            self._add(SubresourceFunction(name, function, is_stream=True))
            return function

        return declare

    def _add(self, connection: SubresourceFunction) -> None:
        where = f"{self.declaration.place}: {self.declaration.name}"
        if not _NAME.fullmatch(connection.name) or connection.name in _TAKEN:
            raise DeclarationError(f"{where}: {connection.name!r} can't be the name of a subresource")
        if connection.name in self.connections:
            raise DeclarationError(f"{where} has two subresources {connection.name}")
        self.connections[connection.name] = connection


def _count(function: Any) -> int:
    """How many parameters it has; what is no function has none."""
    return len(inspect.signature(function).parameters) if callable(function) else 0


def _body(function: Callable[..., Any], where: str) -> tuple[bool, schemas.TypeSchema[Any] | None]:
    """Whether an action takes a body, and of what type; None for JSON as it comes."""
    if _count(function) < 3:
        return False, None
    parameters = list(inspect.signature(function).parameters)
    try:
        annotation = typing.get_type_hints(function).get(parameters[2], Any)
    except NameError as error:
        raise DeclarationError(f"{where}: the type of {parameters[2]} can't be found: {error}") from None
    return True, None if _is_json(annotation) else schemas.of_value(annotation)


def _answer(function: Callable[..., Any], type_: type[Any] | None, where: str) -> schemas.TypeSchema[Any] | None:
    """Of what class other than the resource's an action's answer is, by its annotation."""
    try:
        annotation = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return None  # of a module that only type checkers import, or of what is no function
    classes = [each for each in _members(annotation) if each is not type(None)]
    if not classes or any(_is_json(each) or each is type_ or each is object for each in classes):
        return None
    origin = typing.get_origin(classes[0]) or classes[0]
    if origin in (Awaitable, Coroutine):
        return None  # of a plain function that calls an async one
    if len(classes) > 1 or not inspect.isclass(origin) or origin in _NO_OBJECTS:
        shown = inspect.formatannotation(annotation)
        raise DeclarationError(f"{where} returns {shown}: an answer is the object, one other class, a dict, or None")
    return schemas.of_value(classes[0])


def _members(annotation: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    return typing.get_args(annotation) if is_union else (annotation,)


def _is_json(annotation: Any) -> bool:
    return annotation is Any or (typing.get_origin(annotation) or annotation) in (dict, Mapping, JSONObject)
