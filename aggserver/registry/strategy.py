"""Strategy: the hooks by which the kinds of resources differ in a write.

The store's write loop calls them at the same points for every resource. Hooks change only the object that they are given, and do
no I/O; the store passes the time to those that need it.
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

__all__ = ["Strategy", "StrategyDefaults", "Verdict"]


class Verdict(NamedTuple):
    """The result of validation.

    warnings: texts for Warning headers that validation finds, as about values that are invalid but were so before; sent even if
    there are errors.
    later: if set, a function that returns the actual verdict. It may take seconds, so it has to run in a thread. Its argument is
    a function that returns whether the request was cancelled; once it is, the verdict is not used and may be incomplete.
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
        """Tracks managedFields in writes through this endpoint; None if that is done elsewhere, or not at all."""

    def conform(self, obj: JSONObject) -> list[str]:
        """Prune and default an object in place. Returns the paths of pruned fields.

        Used for bodies, for patched objects, and for objects that mutating admission has changed. Raises `MalformedError` or
        `StatusError`.
        """

    def default(self, obj: JSONObject) -> None:
        """Default an object in place, without pruning: for the result of an apply, which is validated before it is pruned."""

    def prune(self, obj: JSONObject) -> None:
        """Prune the result of an apply in place, after validation, so that it is stored as readers see it."""

    def prepare_for_create(self, obj: JSONObject, context: Context, now: str) -> None:
        """Before validation: set the generation, and drop what clients can't set. The store has set the system fields already.

        now: as in metadata.
        """

    def validate(self, obj: JSONObject) -> Verdict:
        """Validate a new object, including its metadata, since the rule for names differs by resource. Does not mutate."""

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        """Before validation: restore from `old` what this endpoint can't change, and increment the generation if needed."""

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        """Validate an update, except for metadata: the store does that, and puts those errors first. Does not mutate."""

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        """Texts for Warning headers, after validation has succeeded. `old` is None for a create. Does not mutate."""

    def prepare_for_delete(self, obj: JSONObject, now: str) -> None:
        """Before the store looks at finalizers: may change the object so that it isn't removed yet (own finalizers, a phase).

        If the hook sets deletionTimestamp, the store leaves generation and grace period as they are.
        """

    def may_be_removed(self, obj: JSONObject) -> bool:
        """Whether an object being deleted can be removed once it has no metadata.finalizers (a namespace has spec.finalizers)."""

    @property
    def checks_changes_twice(self) -> bool:
        """Whether upstream's strategy validates changes of metadata a second time, so that a response has these causes twice."""

    @property
    def unconditional_updates(self) -> bool:
        """Whether updates without a resourceVersion are allowed; they overwrite the object, whatever its version."""

    @property
    def creates_on_update(self) -> bool:
        """Whether a PUT creates the object if there is none."""

    @property
    def returns_deleted(self) -> bool:
        """Whether a delete that removes the object answers with the object, and not with a Status."""

    @property
    def orphans_dependents(self) -> bool:
        """Whether a delete without a propagation policy leaves the dependents of the object."""

    @property
    def orphans_warning(self) -> str:
        """The text of a Warning header for a delete that orphans dependents for lack of a policy, '' for none."""

    def grace_period(self, obj: JSONObject, seconds: int | None) -> int | None:
        """The grace period in seconds, for kinds that are deleted gracefully; None for all other kinds.

        seconds: gracePeriodSeconds of the options, None if it is not set.
        """

    @property
    def keeps_conformed(self) -> bool:
        """Whether `default` and `prune` leave alone what is pruned and defaulted already, wherever it is in the object.

        Then the object that an apply makes may share parts with the current one.
        """

    def check_context(self, context: Context) -> None:
        """Before a create: raise StatusError if no objects can be created, as while the definition is terminating."""


class StrategyDefaults:
    """The base of strategies, with the hooks that are the same for most resources."""

    def prune(self, obj: JSONObject) -> None:
        return None

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> Sequence[str]:
        return ()

    def prepare_for_delete(self, obj: JSONObject, now: str) -> None:
        return None

    def may_be_removed(self, obj: JSONObject) -> bool:
        return True

    @property
    def checks_changes_twice(self) -> bool:
        return True

    @property
    def unconditional_updates(self) -> bool:
        return False

    @property
    def creates_on_update(self) -> bool:
        return False

    @property
    def returns_deleted(self) -> bool:
        return False

    @property
    def orphans_dependents(self) -> bool:
        return False

    @property
    def orphans_warning(self) -> str:
        return ""

    def grace_period(self, obj: JSONObject, seconds: int | None) -> int | None:
        return None

    @property
    def keeps_conformed(self) -> bool:
        return False

    def check_context(self, context: Context) -> None:
        return None
