"""Chain: the admission plugins for every write, in order.

Both kinds of plugins run inside the registry's write loop: mutating plugins before validation, where they may change the object,
validating plugins with exactly what will be stored. If one of the mutating plugins asks for it, all of them run a second time,
since what a later one changed may concern an earlier one. kube-apiserver runs no admission for requests that it proxies to an
aggregated server, so this server must run its own.
Source: k8s.io/apiserver pkg/admission/{chain,attributes,reinvocation,interfaces}.go, v0.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from aggserver.authentication.user import UserInfo
from aggserver.merge.atom import DEDUCED, Atom
from aggserver.merge.go_types import of_type
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.origin import RequestOrigin
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.warnings import Warnings
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.types import lookup

__all__ = [
    "CREATE",
    "DELETE",
    "UPDATE",
    "Attributes",
    "BoundChain",
    "Chain",
    "Mutating",
    "OfResources",
    "OneVersion",
    "Reinvocation",
    "ResourceObjects",
    "Selective",
    "Target",
    "Validating",
    "forbidden",
]

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"


class Target(NamedTuple):
    """A resource in one version, and the apiVersion and kind of the objects of the (sub)resource that is requested."""

    group: str
    version: str
    resource: str
    api_version: str
    kind: str

    @classmethod
    def requested(cls, attributes: Attributes) -> Target:
        """The resource in the version that the request names."""
        info = attributes.resource
        return cls(info.group, info.version, info.resource, attributes.object_version, attributes.kind)


class ResourceObjects(Protocol):
    """What plugins need to know of the objects of a resource: its versions, and the rules of each."""

    def equivalents(self, subresource: str) -> Sequence[Target]:
        """The resource in all its versions that have the subresource ('' for the resource itself), served or not."""

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        """The object in another version; `obj` is not changed. Raises StatusError."""

    def type_of(self, target: Target) -> Atom:
        """The type of the objects in a version, by which they are merged."""

    def accept(self, obj: JSONObject) -> None:
        """Default an object that a plugin has made, in place, and drop what its Go type does not have, if there is one.

        Raises ValueError, with the text of Go's decoder, for an object that is not of that type, and StatusError.
        """

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        """Like `accept`, for an object that a policy has made. api_version: of the request.

        Raises ValueError also for types that upstream's policies can't handle.
        """


class OneVersion:
    """Objects of a resource with one version.

    accept: see `ResourceObjects.accept`. type_name: in the tables of `scheme/`; '' if none.
    """

    def __init__(self, accept: Callable[[JSONObject], object] = lambda obj: None, type_name: str = "") -> None:
        self._accept = accept
        self._type_name = type_name

    def equivalents(self, subresource: str) -> Sequence[Target]:
        return ()

    async def convert(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj.get("apiVersion") == api_version:
            return obj
        raise StatusError(500, "", f"there is no conversion from {obj.get('apiVersion')} to {api_version}")

    def type_of(self, target: Target) -> Atom:
        return of_type(self._type_name) if self._type_name else DEDUCED

    def accept(self, obj: JSONObject) -> None:
        if self._type_name and (why := decode_error(obj, lookup(self._type_name))):
            raise ValueError(why)
        self._accept(obj)

    def accept_of_policy(self, obj: JSONObject, api_version: str) -> None:
        self.accept(obj)


_ONE_VERSION = OneVersion()


class Reinvocation:
    """What mutating plugins remember about one object, from the first round to the second.

    again: whether this is the second round. wanted: set by a plugin that asks for a second round. state: of each plugin.
    """

    __slots__ = ("again", "state", "wanted")

    def __init__(self) -> None:
        self.again = False
        self.wanted = False
        self.state: dict[object, Any] = {}


@dataclass(slots=True)
class Attributes:
    """The operation, the user and the resource. The objects are passed separately. Not frozen, since each write makes two.

    kind, object_version: kind and apiVersion of the objects, which differ from the resource's for a scale. name: '' where it is
    not known yet. options: the members of the CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, as JSON. warnings:
    texts for Warning headers; plugins append to them, and to audit_annotations. origin: None for what the server itself does.
    undo: plugins append what takes back what they have counted, for a write that fails after they have validated it.
    audits_objects: whether audit_annotations may tell of the object's content.
    """

    operation: str
    user: UserInfo
    resource: ResourceInfo
    subresource: str
    kind: str
    object_version: str
    namespace: str
    name: str
    dry_run: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    warnings: Warnings = field(default_factory=Warnings)
    audit_annotations: dict[str, str] = field(default_factory=dict)
    objects: ResourceObjects = _ONE_VERSION
    origin: RequestOrigin | None = None
    reinvocation: Reinvocation = field(default_factory=Reinvocation)
    undo: list[Callable[[], None]] = field(default_factory=list)
    audits_objects: bool = False

    @property
    def deadline(self) -> float:
        """The time of the event loop at which the request ends."""
        return math.inf if self.origin is None else self.origin.deadline

    def of(self, operation: str, name: str) -> Attributes:
        """A copy with another operation and name. Written out, since each create needs it and `replace` is slow."""
        namespace = self.namespace
        if not namespace and self.resource.resource == "namespaces" and not self.resource.group:
            namespace = name  # also for a create, as upstream; for an update, the path has set it
        return Attributes(
            operation,
            self.user,
            self.resource,
            self.subresource,
            self.kind,
            self.object_version,
            namespace,
            name,
            self.dry_run,
            self.options,
            self.warnings,
            self.audit_annotations,
            self.objects,
            self.origin,
            self.reinvocation,
            self.undo,
            self.audits_objects,
        )


def forbidden(attributes: Attributes, obj: JSONObject | None, why: str) -> StatusError:
    """403 of a plugin. obj: names the object if the request does not; it may have no name yet."""
    metadata = (obj or {}).get("metadata") or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return errors.forbidden(attributes.resource.group, attributes.resource.resource, name, why)


@runtime_checkable
class Mutating(Protocol):
    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """May change `obj` (None for a deletion), and returns whether it has. Raises StatusError to reject."""


@runtime_checkable
class Validating(Protocol):
    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        """Check a write. obj: to be stored, None for a deletion. old: the object it replaces. Raises StatusError to reject."""


@runtime_checkable
class Selective(Protocol):
    """A plugin that most requests do not concern. A plugin that is not selective is always asked."""

    def concerns(self, attributes: Attributes) -> bool:
        """Whether the plugin has to be asked. Called for each request, so it must not take more than a microsecond."""


@runtime_checkable
class OfResources(Protocol):
    """A plugin that concerns certain resources alone, whatever is configured: other resources have a chain without it."""

    @property
    def resources(self) -> frozenset[tuple[str, str]]:
        """(group, plural name)."""


class _Whole(Mutating, Validating, Protocol):
    """A plugin with both parts."""


class Chain:
    """The plugins in order. `bind` returns the chain that the registry calls for one request. observe: for metrics.

    leading: how many of the mutating plugins come before those of resources with plugins of their own.
    """

    def __init__(
        self,
        mutating: Sequence[Mutating] = (),
        validating: Sequence[Validating] = (),
        observe: ObserveStep | None = None,
        leading: int = 0,
    ) -> None:
        self._mutating = tuple((plugin, _concerns(plugin)) for plugin in mutating)
        self._validating = tuple((plugin, _concerns(plugin)) for plugin in validating)
        self._observe = observe
        self._leading = leading

    def then(self, *validating: Validating) -> Chain:
        """The same chain with further validating plugins at its end, for a resource with rules of its own."""
        before = (plugin for plugin, _ in self._validating)
        return Chain([plugin for plugin, _ in self._mutating], (*before, *validating), self._observe, self._leading)

    def after(self, *mutating: Mutating) -> Chain:
        """The same chain with further mutating plugins before all others, for resources with rules of their own."""
        behind = (plugin for plugin, _ in self._mutating)
        leading = self._leading + len(mutating)
        return Chain((*mutating, *behind), [plugin for plugin, _ in self._validating], self._observe, leading)

    def with_own(self, plugin: _Whole) -> Chain:
        """The same chain with a plugin of some resources, behind the leading mutating plugins and before all validating ones."""
        mutating = [each for each, _ in self._mutating]
        mutating.insert(self._leading, plugin)
        return Chain(mutating, [plugin, *(each for each, _ in self._validating)], self._observe, self._leading)

    def of(self, group: str, resource: str) -> Chain:
        """The same chain without the plugins that never concern this resource: each write asks those that are left."""

        def may_concern(plugin: Mutating | Validating) -> bool:
            return not isinstance(plugin, OfResources) or (group, resource) in plugin.resources

        mutating = [plugin for plugin, _ in self._mutating if may_concern(plugin)]
        validating = [plugin for plugin, _ in self._validating if may_concern(plugin)]
        return Chain(mutating, validating, self._observe)

    def bind(self, attributes: Attributes) -> BoundChain:
        """The chain for one request. attributes: the operation, and a name not known yet, are taken from the objects later."""
        return BoundChain(self._mutating, self._validating, attributes, self._observe)


# (`admit` or `validate`, operation) -> a function to call at the end of the step with whether the request was rejected.
ObserveStep = Callable[[str, str], Callable[[bool], None]]

# None for a plugin that is always asked.
_Concerns = Callable[[Attributes], bool] | None


def _concerns(plugin: Mutating | Validating) -> _Concerns:
    return plugin.concerns if isinstance(plugin, Selective) else None


class BoundChain:
    """The chain for one request: `registry.rest.Admission`."""

    __slots__ = ("_attributes", "_mutating", "_observe", "_used", "_validating")

    def __init__(
        self,
        mutating: Sequence[tuple[Mutating, _Concerns]],
        validating: Sequence[tuple[Validating, _Concerns]],
        attributes: Attributes,
        observe: ObserveStep | None = None,
    ) -> None:
        self._observe = observe
        self._mutating = mutating
        self._validating = validating
        self._attributes = attributes
        self._used = False

    @property
    def looks_at_objects(self) -> bool:
        """See `registry.rest.Admission`. Plugins that are always asked look at no more than metadata."""
        return any(concerns is not None and concerns(self._attributes) for _, concerns in (*self._mutating, *self._validating))

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        attributes = self._of(obj, old)
        if self._used:
            # Fresh for each object, and for each attempt to write it.
            attributes = replace(attributes, reinvocation=Reinvocation())
        self._used = True
        if attributes.operation == CREATE:
            self._attributes = attributes  # keep the name that the client gave, even if a plugin renames the object
        done = self._observe("admit", attributes.operation) if self._observe is not None else None
        rejected = True
        try:
            changed = await self._round(attributes, obj, old)
            if attributes.reinvocation.wanted:
                attributes.reinvocation.again = True
                changed = await self._round(attributes, obj, old) or changed
            rejected = False
        finally:
            if done is not None:
                done(rejected)
        return changed

    async def _round(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        changed = False
        for plugin, concerns in self._mutating:
            # Asked only now: an earlier plugin may have waited until the rules were known. Without an object, no rule applies.
            if concerns is None or ((obj or old) and concerns(attributes)):
                changed = await plugin.mutate(attributes, obj, old) or changed
        return changed

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        if not self._validating:
            return
        attributes = self._of(obj, old)
        done = self._observe("validate", attributes.operation) if self._observe is not None else None
        rejected = True
        try:
            for plugin, concerns in self._validating:
                if concerns is None or concerns(attributes):
                    await plugin.validate(attributes, obj, old)
            rejected = False
        finally:
            if done is not None:
                done(rejected)

    def failed(self) -> None:
        """See `registry.rest.Admission`."""
        undo = self._attributes.undo
        while undo:
            undo.pop()()

    def _of(self, obj: JSONObject | None, old: JSONObject | None) -> Attributes:
        given = self._attributes
        operation = DELETE if obj is None else CREATE if old is None else UPDATE
        # An object of a collection that is deleted has no name here, as upstream.
        name = given.name or ("" if obj is None else obj["metadata"].get("name") or "")
        if (operation, name) == (given.operation, given.name):
            return given
        return given.of(operation, name)
