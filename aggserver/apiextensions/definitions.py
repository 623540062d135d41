"""Definitions: the definitions that are served now, by name; keeps the installer up to date.

A changed definition takes over the watch cache of its predecessor, and watches continue unless the content (`content.py`) has
changed. Removing a definition ends its watches. Called by the controller (with a CRD API) or by the watch of a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from aggserver.admission.chain import Chain, Mutating, Validating
from aggserver.apiextensions.claims import NameClaims
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.marks import Marks
from aggserver.apiextensions.serving import DefinitionResource
from aggserver.endpoints.installer import Installer
from aggserver.endpoints.served import Served
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.registry.environment import Environment
from aggserver.registry.gate import Gate, WriteFence
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.registry.storage_version import Fence, SpecState, StorageVersions
from aggserver.registry.unreadable import STORE_READ_ERROR
from aggserver.schema.rules import UPSTREAM, RuleOptions

__all__ = ["DefinitionHook", "Definitions"]

_NAMED = 10  # the most unreadable objects named in an error


class DefinitionHook(Mutating, Validating, Protocol):
    """Both kinds of admission plugin in one."""


class Definitions:
    """claims: the names of resources that are served without a definition of theirs."""

    def __init__(
        self, environment: Environment, admission: Chain, installer: Installer, rule_options: RuleOptions = UPSTREAM
    ) -> None:
        self._environment = environment
        self._admission = admission
        self._installer = installer
        self._rule_options = rule_options
        self._marks = Marks(environment.storage, corrupt=environment.corrupt, behind=environment.behind)
        self.storage_versions = StorageVersions(environment.storage, environment.corrupt, environment.behind)
        self._resources: dict[str, DefinitionResource] = {}
        # While a request to a definition is under way, even if it is not served any more, its gate must not be replaced.
        self._gates: WeakValueDictionary[str, Gate] = WeakValueDictionary()
        self._frozen: dict[str, Gate] = {}
        self._fence_of: Callable[[str], WriteFence] | None = None
        self._hooks: dict[str, list[tuple[DefinitionHook, str]]] = {}
        self.claims = NameClaims()

    def fence_writes(self, fence_of: Callable[[str], WriteFence]) -> None:
        """Make every write of objects depend on a fence, created for each definition by name. Call it before any is served."""
        self._fence_of = fence_of

    def hook(self, name: str, plugin: DefinitionHook, place: str) -> None:
        """Run a plugin for the objects of a definition: before all mutating, and behind all validating ones. Call it before the
        definition is served. place: where the plugin was declared, as file and line.
        """
        self._hooks.setdefault(name, []).append((plugin, place))

    def waiting_hooks(self) -> Sequence[tuple[str, str]]:
        """(name, place) of the hooks on definitions that are not served now."""
        return [(name, place) for name, given in self._hooks.items() if name not in self._resources for _, place in given]

    def _admission_of(self, name: str) -> Chain:
        plugins = [plugin for plugin, _ in self._hooks.get(name, ())]
        return self._admission.after(*plugins).then(*plugins) if plugins else self._admission

    def get(self, name: str) -> DefinitionResource | None:
        return self._resources.get(name)

    def set(self, definition: Definition, *, terminating: bool = False, identity: SpecState | None = None) -> DefinitionResource:
        """Serve the definition in its current form; the same one again changes nothing. identity: of its state in the store."""
        name = definition.name
        old = self._resources.get(name)
        if old is not None and old.definition == definition and old.terminating == terminating:
            old.is_now(identity)
            return old
        resource = self._replace(name, definition, terminating=terminating, remember=False, identity=identity)
        self._installer.install([(name, resource.versions)])
        return resource

    def set_all(self, definitions: Mapping[str, Definition]) -> None:
        """Serve exactly these definitions, in one step; the installer is updated even if nothing changed.

        They are not from the store, so they may change while no server runs.
        """
        changes: list[tuple[str, tuple[Served, ...]]] = []
        for name in self._resources.keys() - definitions.keys():
            self._resources.pop(name).close()
            changes.append((name, ()))
        for name, definition in definitions.items():
            old = self._resources.get(name)
            if old is None or old.definition != definition:
                changes.append((name, self._replace(name, definition, terminating=False, remember=True).versions))
        self._installer.install(changes)

    def remove(self, name: str) -> None:
        resource = self._resources.pop(name, None)
        if resource is not None:
            self._installer.install([(name, ())])
            resource.close()

    async def freeze(self, name: str, *, reads: bool = False) -> None:
        """Answer every write of a definition's objects with 503 until `thaw`, and with `reads` every get, list and watch too.

        Returns when no write is under way any more, so that the store has every write that was or will be acknowledged. Open
        watches go on; with `reads` they end with 410. The definition need not be served yet, and remains frozen when it changes.
        A second call may add `reads`, but not remove it. Raises StorageError; the definition is frozen all the same.
        """
        gate = self._frozen.setdefault(name, self._gate(name))
        gate.frozen = True
        if reads and not gate.hidden:
            gate.hidden = True
            if (resource := self._resources.get(name)) is not None:
                resource.expire_watches()
        await self._environment.storage.settle()

    def thaw(self, name: str) -> None:
        """Undo `freeze`; does nothing if it is not frozen.

        If the definition is not served any more, requests that are still under way to it remain refused, since they would write
        objects without a definition. When it is served again, it is not frozen.
        """
        gate = self._frozen.pop(name, None)
        if gate is None:
            return
        if name in self._resources:
            gate.frozen = gate.hidden = False
        else:
            self._gates.pop(name, None)

    def _gate(self, name: str) -> Gate:
        gate = self._gates.get(name)
        if gate is None:
            gate = self._gates[name] = Gate(fence=self._fence_of(name) if self._fence_of is not None else None)
        return gate

    async def expire_before(self, name: str) -> int:
        """Expire all older revisions of a definition's objects, since the objects were moved here. Returns the new revision.

        From then on, watches that resume from an older revision, lists at one, and continued lists that another server began get
        410, so that clients list anew; also at other servers of the store, and after a restart. Open watches of this server end
        with 410 too, since they may have begun at a revision of another server. The store's revision must be greater than any
        that clients have seen (`Storage.advance`). The definition need not be served. Raises StorageError.
        """
        revision = await self._marks.imported(name)
        if (resource := self._resources.get(name)) is not None:
            resource.expire_watches()
        return revision

    async def count_objects(self, name: str) -> int:
        """How many objects a definition has; 0 if it is not served."""
        resource = self._resources.get(name)
        if resource is None:
            return 0
        return await resource.store(resource.definition.storage_version).count(Context(CONTROLLER))

    async def delete_objects(self, name: str) -> bool:
        """Delete all objects of a definition; returns whether none is left. Returns True if it is not served.

        Objects with finalizers remain until these are removed. Raises StatusError, with reason StorageReadError for objects that
        can't be read.
        """
        resource = self._resources.get(name)
        if resource is None:
            return True
        store = resource.store(resource.definition.storage_version)
        await store.delete_collection(Context(CONTROLLER), DeleteOptions(), ALL)
        if unreadable := store.unreadable():
            # Their finalizers are unknown. As upstream, wait until somebody deletes them by name.
            names = "; ".join(map(str, unreadable[:_NAMED])) + ("; and more" if len(unreadable) > _NAMED else "")
            raise StatusError(500, STORE_READ_ERROR, names)
        return await store.count(Context(CONTROLLER)) == 0

    def end_watches(self) -> None:
        """End all watches, since the server stops. Requests in progress are not affected."""
        for resource in self._resources.values():
            resource.end_watches()

    def _replace(
        self, name: str, definition: Definition, *, terminating: bool, remember: bool, identity: SpecState | None = None
    ) -> DefinitionResource:
        resource = DefinitionResource(
            self._environment,
            self._admission_of(name),
            definition,
            terminating=terminating,
            marks=self._marks,
            gate=self._gate(name),
            remember=remember,
            replacing=self._resources.get(name),
            rule_options=self._rule_options,
            fence=Fence(self.storage_versions, name, definition.storage_version.name, identity) if identity else None,
        )
        self._resources[name] = resource
        return resource
