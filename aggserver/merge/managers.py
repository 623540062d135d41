"""Managers: who owns which fields after an update or an apply, and the object that an apply makes.

An update takes the fields that it changed from their owners. An apply that would change fields of other managers is a conflict,
unless it is forced. The applier owns all fields of its configuration; a field that was in its last configuration and is no longer
in this one is removed from the object, unless another manager owns it.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 merge/{update,conflict}.go, v6.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aggserver.merge import fieldset, removing
from aggserver.merge.atom import Atom
from aggserver.merge.comparing import Comparison, compare
from aggserver.merge.fieldset import FieldSet, Path
from aggserver.merge.merging import merge
from aggserver.merge.typed import TypedError, field_set
from aggserver.merge.values import equal
from aggserver.merge.walker import Misfit

__all__ = [
    "ConflictsError",
    "FieldUpdater",
    "Manager",
    "ManagerConflict",
    "Managers",
    "MissingVersionError",
    "Owned",
    "Typed",
    "no_other_version",
]


class MissingVersionError(Exception):
    """The version is no longer served: managers that wrote in it lose their fields."""


class Manager(NamedTuple):
    """A writer. An applier is the same manager in all versions, so its `api_version` is ''."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""


class Owned(NamedTuple):
    """The fields that a manager owns, in the version in which it wrote.

    in_order: `fields` is in the order of `fieldset.ordered`, as stored sets are. Removing fields keeps the order.
    """

    fields: FieldSet
    api_version: str
    applied: bool
    in_order: bool = False


Managers = dict[Manager, Owned]


class Typed(NamedTuple):
    """A whole object in one version."""

    value: dict[str, Any]
    atom: Atom
    api_version: str


_PRUNE = "failed to prune fields"

# Returns an object in another version than its own. Raises MissingVersionError, and what converters raise.
Convert = Callable[[Typed, str], Typed]


def no_other_version(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """The conversion of kinds that have one version. Raises MissingVersionError."""
    raise MissingVersionError(api_version)


@dataclass(frozen=True, slots=True)
class ManagerConflict:
    manager: Manager
    path: Path


class ConflictsError(Exception):
    """An apply would change fields of other managers. `conflicts` is never empty, and grouped by manager."""

    def __init__(self, conflicts: list[ManagerConflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


@dataclass(slots=True)
class FieldUpdater:
    """Does one update or one apply. It converts each object to each version once, however many managers wrote in it.

    ignored: by version, the fields that the endpoint resets, so that no write there makes anybody their owner.
    """

    convert: Convert
    ignored: Mapping[str, FieldSet]
    # (id of an object, version) -> (the object, so that its id stays taken; the converted one, None if the version is missing).
    _converted: dict[tuple[int, str], tuple[Typed, Typed | None]] = field(default_factory=dict, init=False)

    def update(self, live: Typed, new: Typed, managers: Managers, manager: Manager) -> Managers:
        """The managers after a create, update or patch. live: the object before; for a create, an object that has only its type.

        `new` must fit its type. Raises TypedError, also if `live` does not fit, and what `convert` raises.
        """
        managers, changed = self._take(live, new, self._reconciled(live, managers), manager, force=True)
        before = managers.pop(manager, None)
        owned = fieldset.difference(before.fields, changed.removed) if before else fieldset.EMPTY
        owned = fieldset.union(fieldset.union(owned, changed.modified), changed.added)
        kept = self._kept(owned, new.api_version)
        if kept:
            managers[manager] = Owned(kept, new.api_version, applied=False)
        return managers

    def apply(
        self, live: Typed, config: Typed, managers: Managers, manager: Manager, *, force: bool
    ) -> tuple[Typed | None, Managers]:
        """(the new object, None if it is unchanged; the managers).

        `config` must fit its type. Raises ConflictsError, TypedError, also if `live` does not fit, and what `convert` raises.
        """
        merged = live._replace(value=merge(live.value, config.value, live.atom))
        managers = self._reconciled(live, managers)
        last = managers.get(manager)
        owned = self._kept(field_set(config.value, config.atom), config.api_version)
        managers[manager] = Owned(owned, config.api_version, applied=True)
        new = merged
        if last is not None and last.fields:
            try:
                new = _pruned_in_part(merged, managers, last, owned)
            except Misfit:
                new = self._prune(merged, managers, config.api_version, last)
        managers, _ = self._take(live, new, managers, manager, force=force)
        return (None if new.value is live.value or equal(live.value, new.value) else new), managers

    def _kept(self, fields: FieldSet, api_version: str) -> FieldSet:
        return fieldset.recursive_difference(fields, self.ignored.get(api_version, fieldset.EMPTY))

    def _take(self, old: Typed, new: Typed, managers: Managers, workflow: Manager, *, force: bool) -> tuple[Managers, Comparison]:
        """(the managers without the changed fields, and without managers of missing versions; what changed in this version)."""
        ours = _Change.of(compare(old.value, new.value, new.atom).without(self.ignored.get(new.api_version, fieldset.EMPTY)))
        changes = {new.api_version: ours}
        left: Managers = {}
        conflicts: list[ManagerConflict] = []
        for manager, owned in managers.items():
            if manager == workflow:
                left[manager] = owned
                continue
            changed = changes.get(owned.api_version)
            if changed is None:
                try:
                    changed = changes[owned.api_version] = self._compare_in(owned.api_version, old, new)
                except MissingVersionError:
                    continue
            taken = fieldset.intersection(owned.fields, changed.set) if changed.set else fieldset.EMPTY
            if taken and not force:
                conflicts += [ManagerConflict(manager, path) for path in fieldset.paths(taken)]
            gone = fieldset.union(taken, changed.removed)
            left[manager] = owned._replace(fields=fieldset.difference(owned.fields, gone)) if gone else owned
        if conflicts:
            raise ConflictsError(conflicts)
        return {manager: owned for manager, owned in left.items() if owned.fields}, ours.comparison

    def _compare_in(self, api_version: str, old: Typed, new: Typed) -> _Change:
        before = self._in(old, api_version, "failed to convert old object")
        after = self._in(new, api_version, "failed to convert new object")
        ignored = self.ignored.get(api_version, fieldset.EMPTY)
        return _Change.of(compare(before.value, after.value, after.atom).without(ignored))

    def _reconciled(self, live: Typed, managers: Managers) -> Managers:
        out: Managers = {}
        for manager, owned in managers.items():
            try:
                atom = self._in(live, owned.api_version).atom
            except MissingVersionError:
                continue
            fields = removing.reconcile(owned.fields, atom)
            out[manager] = owned if fields is owned.fields else owned._replace(fields=fields)
        return out

    def _in(self, typed: Typed, api_version: str, failed: str = "") -> Typed:
        """`convert` with a cache. Raises MissingVersionError, and TypedError with `failed` before its text."""
        if typed.api_version == api_version:
            return typed
        key = (id(typed.value), api_version)
        if key not in self._converted:
            try:
                self._converted[key] = typed, self.convert(typed, api_version)
            except MissingVersionError:
                self._converted[key] = typed, None
            except TypedError as error:
                raise TypedError(f"{failed}: {error}" if failed else str(error)) from None
        _, converted = self._converted[key]
        if converted is None:
            raise MissingVersionError
        return converted

    # Removing the fields of an applier's last configuration that are not in the new one

    def _prune(self, merged: Typed, managers: Managers, api_version: str, last: Owned) -> Typed:
        try:
            there = self._in(merged, last.api_version, f"{_PRUNE}: failed to convert merged object to last applied version")
        except MissingVersionError:
            return merged
        had = removing.with_named_fields(last.fields, there.atom)
        everything = _named_fields(there)
        pruned = self._with_owned(there, everything, _removed(there, had), managers)
        # Fields that the applier did not own come back as well.
        try:
            pruned = self._in(
                pruned,
                last.api_version,
                f"{_PRUNE}: failed add back dangling items: failed to convert pruned object to last applied version",
            )
        except MissingVersionError:
            pruned = there
        else:
            gone = fieldset.difference(everything, _named_fields(pruned))
            pruned = _removed(there, fieldset.intersection(gone, had))
        return self._in(pruned, api_version, _PRUNE)

    def _with_owned(self, merged: Typed, everything: FieldSet, pruned: Typed, managers: Managers) -> Typed:
        """Restore all pruned fields that have an owner, also by the new configuration. everything: the fields of `merged`."""
        owned: dict[str, list[FieldSet]] = {}
        for each in managers.values():
            owned.setdefault(each.api_version, []).append(each.fields)
        # The version of the pruned object comes first: a conversion to the others may need what is missing in it.
        for api_version in sorted(owned, key=lambda version: version != pruned.api_version):
            try:
                failed, at = f"{_PRUNE}: failed add back owned items: failed to convert", f"object at version {api_version}"
                merged, before = self._in(merged, api_version, f"{failed} merged {at}"), merged
                pruned = self._in(pruned, api_version, f"{failed} pruned {at}")
            except MissingVersionError:
                continue
            if merged is not before:
                everything = _named_fields(merged)
            kept = removing.with_named_fields(fieldset.union_of(owned[api_version]), merged.atom)
            # The fields that are neither owned nor left in the pruned object.
            gone = fieldset.difference(everything, kept)
            if gone:
                gone = fieldset.difference(gone, _named_fields(pruned))
            pruned = _removed(merged, gone)
        return pruned


def _named_fields(typed: Typed) -> FieldSet:
    """The fields of an object, with the declared fields on the way to them."""
    return removing.with_named_fields(field_set(typed.value, typed.atom), typed.atom)


class _Change(NamedTuple):
    """A change in one version. set: modified and added fields, which conflict with other owners. removed: fields that all owners
    lose.
    """

    comparison: Comparison
    set: FieldSet
    removed: FieldSet

    @classmethod
    def of(cls, comparison: Comparison) -> _Change:
        return cls(comparison, fieldset.union(comparison.modified, comparison.added), comparison.removed)


def _pruned_in_part(merged: Typed, managers: Managers, last: Owned, now: FieldSet) -> Typed:
    """What `_prune` makes if all managers wrote in one version; else raises Misfit. now: the fields of the new configuration.

    Pruning restores each field that it removed and that has an owner. So nothing is removed but what the applier has left out,
    and only that part of the object is looked at, which is mostly small.
    """
    if any(owned.api_version != last.api_version for owned in managers.values()):
        raise Misfit
    left = fieldset.difference(last.fields, now, levels=3)
    if not left:
        return merged
    atom = merged.atom
    part = merged._replace(value=removing.part(merged.value, left, atom))
    had = removing.with_named_fields(left, atom)
    everything = _named_fields(part)
    gone = everything
    for owned in managers.values():
        gone = fieldset.difference(gone, removing.named_within(owned.fields, atom, gone))
    if gone:
        gone = fieldset.difference(gone, _named_fields(_removed(part, had)))
    gone = fieldset.difference(everything, _named_fields(_removed(part, gone)))
    return _removed(merged, fieldset.intersection(gone, had))


def _removed(typed: Typed, items: FieldSet) -> Typed:
    return typed._replace(value=removing.remove(typed.value, items, typed.atom) or {})
