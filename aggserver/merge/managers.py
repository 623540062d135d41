"""Managers: who owns which fields after an update and after an apply, and what an apply makes of the object.

An update takes what it changed from whoever had it. An apply that would change what somebody else has is a conflict, unless it is
forced. It owns all that it says; what it said last time and says no more goes away, unless somebody else owns it.
Pure. Called by `managed_fields.py`. Source: sigs.k8s.io/structured-merge-diff/v6 merge/{update,conflict}.go, v6.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggserver.merge import fieldset, removing
from aggserver.merge.atom import Atom
from aggserver.merge.comparing import Comparison, compare
from aggserver.merge.fieldset import FieldSet, Path
from aggserver.merge.merging import merge
from aggserver.merge.typed import equal, field_set

__all__ = [
    "Conflict",
    "ConflictsError",
    "Manager",
    "Managers",
    "MissingVersionError",
    "Owned",
    "Typed",
    "Updater",
    "no_other_version",
]


class MissingVersionError(Exception):
    """The version is not served any more: who owned fields in it owns nothing."""


@dataclass(frozen=True, slots=True)
class Manager:
    """Who writes. Appliers are one manager in all versions, so `api_version` is '' for them."""

    name: str
    operation: str
    api_version: str = ""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """What a manager owns, in the version in which it wrote."""

    fields: FieldSet
    api_version: str
    applied: bool


Managers = dict[Manager, Owned]


@dataclass(frozen=True, slots=True)
class Typed:
    """A whole object in one version."""

    value: dict[str, Any]
    atom: Atom
    api_version: str


# Gives an object in another version, the same one where it is in that already. Raises MissingVersionError, and what converters
# raise.
Convert = Callable[[Typed, str], Typed]


def no_other_version(obj: dict[str, Any], api_version: str) -> dict[str, Any]:
    """The conversion of kinds that have one version. Raises MissingVersionError."""
    raise MissingVersionError(api_version)


@dataclass(frozen=True, slots=True)
class Conflict:
    manager: Manager
    path: Path


class ConflictsError(Exception):
    """Others own what an apply would change. `conflicts` are by manager, and never none."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(f"{len(conflicts)} conflicts")
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class Updater:
    """ignored: by version what the endpoint resets, and so nobody comes to own by it."""

    convert: Convert
    ignored: Mapping[str, FieldSet]

    def update(self, live: Typed, new: Typed, managers: Managers, manager: Manager) -> Managers:
        """The managers after a create, update or patch. live: what was there, with nothing but its type for a create.

        Raises TypedError and what `convert` raises.
        """
        managers, changed = self._take(live, new, self._reconciled(live, managers), manager, force=True)
        before = managers.get(manager)
        owned = fieldset.difference(before.fields, changed.removed) if before else fieldset.EMPTY
        owned = fieldset.union(fieldset.union(owned, changed.modified), changed.added)
        return _with(managers, manager, Owned(self._kept(owned, new.api_version), new.api_version, applied=False))

    def apply(
        self, live: Typed, config: Typed, managers: Managers, manager: Manager, *, force: bool
    ) -> tuple[Typed | None, Managers]:
        """(the new object, None where it is as it was; the managers).

        Raises ConflictsError, TypedError, what `convert` raises.
        """
        managers = self._reconciled(live, managers)
        merged = replace(live, value=merge(live.value, config.value, live.atom))
        last = managers.get(manager)
        owned = self._kept(field_set(config.value, config.atom), config.api_version)
        managers[manager] = Owned(owned, config.api_version, applied=True)
        new = merged if last is None or not last.fields else self._prune(merged, managers, config.api_version, last)
        managers, _ = self._take(live, new, managers, manager, force=force)
        return (None if equal(live.value, new.value) else new), managers

    def _kept(self, fields: FieldSet, api_version: str) -> FieldSet:
        return fieldset.recursive_difference(fields, self.ignored.get(api_version, fieldset.EMPTY))

    def _take(self, old: Typed, new: Typed, managers: Managers, workflow: Manager, *, force: bool) -> tuple[Managers, Comparison]:
        """(the managers without what changed and without those of lost versions, what changed in this version)."""
        ours = compare(old.value, new.value, new.atom).without(self.ignored.get(new.api_version, fieldset.EMPTY))
        changes = {new.api_version: ours}
        left: Managers = {}
        conflicts: list[Conflict] = []
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
            taken = fieldset.intersection(owned.fields, fieldset.union(changed.modified, changed.added))
            conflicts += [Conflict(manager, path) for path in fieldset.paths(taken)]
            gone = fieldset.union(taken, changed.removed)
            left[manager] = replace(owned, fields=fieldset.difference(owned.fields, gone)) if gone else owned
        if conflicts and not force:
            raise ConflictsError(conflicts)
        return {manager: owned for manager, owned in left.items() if owned.fields}, ours

    def _compare_in(self, api_version: str, old: Typed, new: Typed) -> Comparison:
        before, after = self.convert(old, api_version), self.convert(new, api_version)
        return compare(before.value, after.value, after.atom).without(self.ignored.get(api_version, fieldset.EMPTY))

    def _reconciled(self, live: Typed, managers: Managers) -> Managers:
        out: Managers = {}
        for manager, owned in managers.items():
            try:
                atom = self.convert(live, owned.api_version).atom
            except MissingVersionError:
                continue
            out[manager] = replace(owned, fields=removing.reconcile(owned.fields, atom))
        return out

    # What an applier said last time and says no more

    def _prune(self, merged: Typed, managers: Managers, api_version: str, last: Owned) -> Typed:
        try:
            there = self.convert(merged, last.api_version)
        except MissingVersionError:
            return merged
        pruned = _removed(there, removing.with_named_fields(last.fields, there.atom))
        pruned = self._with_owned(there, pruned, managers)
        pruned = self._with_dangling(there, pruned, last)
        return self.convert(pruned, api_version)

    def _with_owned(self, merged: Typed, pruned: Typed, managers: Managers) -> Typed:
        """Gives back what anybody owns, the applier by its new configuration too."""
        owned: dict[str, FieldSet] = {}
        for each in managers.values():
            owned[each.api_version] = fieldset.union(owned.get(each.api_version, fieldset.EMPTY), each.fields)
        # The version of the pruned object comes first: what others miss in it may be needed for a conversion.
        for api_version in sorted(owned, key=lambda version: version != pruned.api_version):
            try:
                merged = self.convert(merged, api_version)
                pruned = self.convert(pruned, api_version)
            except MissingVersionError:
                continue
            atom = merged.atom
            everything = removing.with_named_fields(field_set(merged.value, atom), atom)
            left = removing.with_named_fields(field_set(pruned.value, atom), atom)
            kept = fieldset.union(left, removing.with_named_fields(owned[api_version], atom))
            pruned = _removed(merged, fieldset.difference(everything, kept))
        return pruned

    def _with_dangling(self, merged: Typed, pruned: Typed, last: Owned) -> Typed:
        """Gives back what the applier did not own either."""
        try:
            pruned = self.convert(pruned, last.api_version)
        except MissingVersionError:
            return merged
        atom = merged.atom
        left = removing.with_named_fields(field_set(pruned.value, atom), atom)
        everything = removing.with_named_fields(field_set(merged.value, atom), atom)
        gone = fieldset.intersection(fieldset.difference(everything, left), removing.with_named_fields(last.fields, atom))
        return _removed(merged, gone)


def _removed(typed: Typed, items: FieldSet) -> Typed:
    return replace(typed, value=removing.remove(typed.value, items, typed.atom) or {})


def _with(managers: Managers, manager: Manager, owned: Owned) -> Managers:
    out = {each: fields for each, fields in managers.items() if each != manager}
    if owned.fields:
        out[manager] = owned
    return out
