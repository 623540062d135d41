"""Strategy: what one kind of resource wants done around a write, hook by hook.

The store's one read-modify-write loop calls these at fixed points, for every resource alike. Hooks change only the object they
are given, do no I/O, and get the time and randomness they need from the store.
Implemented by `registry/custom_resource.py`, `apiextensions/strategy.py`, `standalone/namespaces.py`.
Source: k8s.io/apiserver pkg/registry/rest/{create,update,delete}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from aggserver.merge.managed_fields import FieldManager
from aggserver.meta.field import FieldError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.rest import Context

__all__ = ["Strategy", "Verdict"]


class Verdict(NamedTuple):
    """warnings: texts for Warning headers, of what would be wrong if it were new; they are told with the errors too.

    later: gives the verdict that counts instead of this one, and may take seconds: not for the event loop, but for any thread.
    It is given what says whether nobody waits any more: then it may end with any verdict.
    """

    errors: list[FieldError]
    warnings: Sequence[str] = ()
    later: Callable[[Callable[[], bool]], Verdict] | None = None


class Strategy(Protocol):
    """The hooks, in the order of a write. `old` is never changed."""

    @property
    def info(self) -> ResourceInfo: ...

    @property
    def field_manager(self) -> FieldManager | None:
        """Keeps managedFields in writes through this endpoint; None where they are kept elsewhere, or not at all."""

    def conform(self, obj: JSONObject) -> list[str]:
        """Prunes what the type of the object doesn't know and fills in its defaults, in place; returns the paths that it dropped.

        For bodies, for what an apply has made, and for what mutating admission has changed. Raises `MalformedError` or
        `StatusError`.
        """

    def default(self, obj: JSONObject) -> None:
        """Fills in defaults alone, in place: for what an apply has made, which is validated before it is pruned."""

    def prune(self, obj: JSONObject) -> None:
        """Prunes what an apply has made, in place, after validation: what is stored is then as readers see it."""

    def prepare_for_create(self, obj: JSONObject) -> None:
        """Before validation: sets generation, drops what a client may not set. System metadata is filled by the store already."""

    def validate(self, obj: JSONObject) -> Verdict:
        """After prepare_for_create, the rules for new metadata included, whose form of a name differs by resource.

        Does not mutate.
        """

    def prepare_for_update(self, obj: JSONObject, old: JSONObject) -> None:
        """Before validation: keeps from `old` what this endpoint may not change, counts the generation."""

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        """After the common metadata rules, whose errors come first in the answer. Does not mutate."""

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        """Texts for Warning headers, after validation passed; `old` is None on create. Does not mutate."""

    def prepare_for_delete(self, obj: JSONObject, now: str) -> None:
        """Given the object about to be deleted: may change it so that it stays (finalizers of the server's own, a phase).

        One that sets deletionTimestamp itself has neither generation nor grace period touched. Called before the store looks at
        finalizers.
        """

    def may_be_removed(self, obj: JSONObject) -> bool:
        """Whether an object that is being deleted and has no metadata.finalizers left can go (a namespace has others)."""

    @property
    def unconditional_updates(self) -> bool:
        """Whether an update without a resourceVersion is for whatever is there; it is refused otherwise."""

    def check_context(self, context: Context) -> None:
        """Before create: a last word of the resource itself (a definition that is terminating takes no new objects)."""
