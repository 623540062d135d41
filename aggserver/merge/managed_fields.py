"""Managed fields: `metadata.managedFields` after each kind of write, and what an apply makes of an object.

What upstream builds as ten wrapped managers is one path here, in the same order: whose entries count (the request's, the live
ones, or none), who the writer is, the comparison (`managers.py`), what nobody owns, the time, at most ten writers by update.
Entries that a write does not change stay the objects that they were.
Pure: the time is an argument. Called by the registry.
Source: k8s.io/apimachinery pkg/util/managedfields/internal, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom
from aggserver.merge.comparing import compare
from aggserver.merge.fieldset import FieldSet, FieldSetError
from aggserver.merge.managers import (
    Conflict,
    ConflictsError,
    Manager,
    Managers,
    MissingVersionError,
    Owned,
    Typed,
    Updater,
)
from aggserver.merge.typed import TypedError, field_set, validate
from aggserver.meta import errors, times
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.scheme import object_meta

__all__ = ["APPLY", "UPDATE", "FieldManager", "ManagedFieldsError", "decode", "in_order"]

APPLY, UPDATE = "Apply", "Update"

# Writers by update that are kept apart; above, the oldest become one (upstream's DefaultMaxUpdateManagers).
MAX_UPDATE_MANAGERS = 10
_OLD_UPDATES = "ancient-changes"
_BEFORE_APPLY = "before-first-apply"

# kubectl's client-side apply keeps what it last applied in an annotation; its server-side apply takes that over.
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# What nobody owns: it is not for clients to set, or it names the object.
_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_STRIPPED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{fieldset.field(name): {} for name in _METADATA}},
}

# Stands for the writer while a write is compared, so that what it had before is told from what it changes now.
_SELF = Manager("current-operation", UPDATE)

_OPTIONAL = ("manager", "subresource")


class ManagedFieldsError(ValueError):
    """Entries that are no managedFields. The text is upstream's."""


@dataclass(slots=True)
class _Managed:
    """fields: who owns what. times: when each wrote last. entries: as they were written, for those that nothing changes."""

    fields: Managers = field(default_factory=dict)
    times: dict[Manager, str | None] = field(default_factory=dict)
    entries: dict[Manager, JSONObject] = field(default_factory=dict)

    def encoded(self) -> list[JSONObject]:
        return sorted((self._entry(manager, owned) for manager, owned in self.fields.items()), key=_entry_order)

    def _entry(self, manager: Manager, owned: Owned) -> JSONObject:
        time = self.times.get(manager)
        given = self.entries.get(manager)
        if (
            given is not None
            and given.get("fieldsV1") is owned.fields
            and (given.get("time"), given["apiVersion"])
            == (
                time,
                owned.api_version,
            )
        ):
            return given
        entry: JSONObject = {
            "apiVersion": owned.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldset.ordered(owned.fields),
        }
        entry["manager"], entry["operation"] = manager.name, manager.operation
        entry["subresource"], entry["time"] = manager.subresource, time
        return {name: value for name, value in entry.items() if value or name == "fieldsV1"}


def in_order(entries: Iterable[JSONObject]) -> list[JSONObject]:
    """Entries in the order in which managedFields have them."""
    return sorted(entries, key=_entry_order)


def _entry_order(entry: JSONObject) -> tuple[Any, ...]:
    """Applies first, then by time, to the second."""
    texts = (entry.get("manager", ""), entry["apiVersion"], entry.get("subresource", ""))
    return (entry["operation"], _seconds(entry.get("time")), *texts)


def _seconds(time: str | None) -> int:
    return int(times.parse_time(time)) if time else 0


def decode(entries: Any, *, trusted: bool = False) -> Managers:
    """Who owns what by a list of entries. Raises ManagedFieldsError.

    trusted: they were stored, so the sets are as `fieldset` writes them.
    """
    return _decode(entries, trusted=trusted).fields


def _decode(entries: Any, *, trusted: bool) -> _Managed:
    managed = _Managed()
    for index, entry in enumerate(entries or ()):
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not version:
            raise ManagedFieldsError("apiVersion must not be empty")
        if not (kind := entry.get("fieldsType")):
            raise ManagedFieldsError(f"missing fieldsType in managed fields entry {index}")
        if kind != "FieldsV1":
            raise ManagedFieldsError(f"invalid fieldsType {quote(kind)} in managed fields entry {index}")
        name, subresource = (entry.get(member) or "" for member in _OPTIONAL)
        manager = Manager(name, operation, version if operation == UPDATE else "", subresource)
        fields = entry.get("fieldsV1")
        try:
            owned = fields if trusted and fields is not None else fieldset.parse(fields)
        except FieldSetError as error:
            raise ManagedFieldsError(f"error decoding set: {error}") from None
        managed.fields[manager] = Owned(owned, version, operation == APPLY)
        managed.times[manager] = entry.get("time")
        managed.entries[manager] = entry
    return managed


def _decode_or_none(entries: Any, *, trusted: bool) -> _Managed:
    try:
        return _decode(entries, trusted=trusted)
    except ManagedFieldsError:
        return _Managed()


def _is_reset(entries: Any) -> bool:
    """An empty list, or one entry that says nothing: the client wants nobody to own anything."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not any(entries[0].values())))


def _entries(obj: JSONObject) -> Any:
    return obj["metadata"].get("managedFields")


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Of one endpoint: a resource in one version, or a subresource of it.

    api_version, kind: what the endpoint serves. atom_of: the type of the objects of a version. convert: an object in another
    version. Both raise MissingVersionError for one that is not served. ignored: by version, what the endpoint resets.
    """

    api_version: str
    kind: str
    atom_of: Callable[[str], Atom]
    convert: Callable[[JSONObject, str], JSONObject]
    subresource: str = ""
    ignored: Mapping[str, FieldSet] = field(default_factory=dict)

    # Updates

    def update(self, live: JSONObject | None, new: JSONObject, manager: str, now: str) -> None:
        """Sets `managedFields` of an object that is about to be written; `live` is None for a create. Changes `new`'s metadata.

        Raises nothing for what the objects hold: where owners can't be told, there are none afterwards, as upstream has it.
        """
        managed = self._live_or_new(live, new)
        _set_entries(new, None)
        if not managed.fields and live is not None:
            return  # nobody kept them so far, and it begins with a create or an apply
        try:
            managed = self._updated(live, new, managed, manager, now)
        except (TypedError, MissingVersionError, StatusError):
            return
        _set_entries(new, _capped(managed).encoded())

    def _live_or_new(self, live: JSONObject | None, new: JSONObject) -> _Managed:
        there, given = None if live is None else _entries(live), _entries(new)
        if self.subresource:
            return _decode_or_none(there, trusted=True)
        if _is_reset(given):
            return _Managed()
        if given is not None and given != there:
            managed = _decode_or_none(given, trusted=False)
            if managed.fields:
                return managed
        return _decode_or_none(there, trusted=True)

    def _updated(self, live: JSONObject | None, new: JSONObject, managed: _Managed, name: str, now: str) -> _Managed:
        before, after = self._typed(self._nothing() if live is None else live), self._typed(new)
        fields = _stripped(self._updater().update(before, after, managed.fields, _SELF), _SELF)
        owned = fields.pop(_SELF, None)
        if owned is None:
            return replace(managed, fields=fields)
        manager = Manager(name or "unknown", UPDATE, self.api_version, self.subresource)
        previous = fields.get(manager)
        fields[manager] = owned if previous is None else replace(owned, fields=_grown(previous.fields, owned.fields))
        return replace(managed, fields=fields, times=managed.times | {manager: now})

    # Applies

    def apply(self, live: JSONObject | None, config: JSONObject, manager: str, *, force: bool, now: str) -> JSONObject:
        """The object after an apply of `config`, with its managedFields; `live` is None where there is none. Not defaulted yet.

        Shares parts with both. Raises StatusError: 400 for a configuration of another kind or with managedFields, 409 for
        conflicts, 500 for one that does not fit the type.
        """
        there = self._nothing() if live is None else live
        try:
            managed = _decode(_entries(there), trusted=True)
        except ManagedFieldsError as error:
            raise StatusError(500, "", f"failed to decode managed fields: {error}") from None
        self._check(config)
        try:
            obj, managed = self._apply_over_kubectl(there, config, managed, manager, force=force, now=now)
        except ConflictsError as error:
            raise _conflict_error(error.conflicts) from None
        if manager == _KUBECTL and obj["metadata"].get("annotations", {}).get(_LAST_APPLIED):
            obj = _with_last_applied(obj, config)
        _set_entries(obj, managed.encoded() or None)
        return obj

    def _check(self, config: JSONObject) -> None:
        version, kind = config.get("apiVersion") or "", config.get("kind") or ""
        if (version, kind) != (self.api_version, self.kind):
            group_version = version if "/" in version else f"/{version}"
            raise errors.bad_request(f"invalid object type: {group_version}, Kind={kind}")

    def _apply_over_kubectl(
        self, live: JSONObject, config: JSONObject, managed: _Managed, name: str, *, force: bool, now: str
    ) -> tuple[JSONObject, _Managed]:
        """What kubectl's client-side apply had is no conflict for its server-side apply, as long as nobody changed it since."""
        try:
            return self._apply(live, config, managed, name, force=force, now=now)
        except ConflictsError as error:
            allowed = self._last_applied(live) if name == _KUBECTL else None
            if allowed is None:
                raise
            left = [conflict for conflict in error.conflicts if not fieldset.contains(allowed, conflict.path)]
            if left:
                raise ConflictsError(left) from None
        return self._apply(live, config, managed, name, force=True, now=now)

    def _last_applied(self, live: JSONObject) -> FieldSet | None:
        """What the annotation says and the object still has; None where there is no annotation that can be read."""
        text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
        try:
            applied = orjson.loads(text or "")
            if not isinstance(applied, dict) or applied.get("apiVersion") != self.api_version:
                return None
            there, before = self._typed(live, allow_duplicates=False), self._typed(applied, allow_duplicates=False)
            changed = compare(before.value, there.value, there.atom)
            owned = field_set(before.value, before.atom)
        except (ValueError, MissingVersionError):
            return None
        for gone in (changed.modified, changed.added, changed.removed):
            owned = fieldset.difference(owned, gone)
        return owned

    def _apply(
        self, live: JSONObject, config: JSONObject, managed: _Managed, name: str, *, force: bool, now: str
    ) -> tuple[JSONObject, _Managed]:
        if not managed.fields:
            # Whoever wrote what is there is not known, and yet it is not this one.
            managed = _capped(self._updated(None, live, managed, _BEFORE_APPLY, now))
        if config.get("metadata", {}).get("managedFields") is not None:
            raise errors.bad_request("metadata.managedFields must be nil")
        applied = self._typed(config, "patch", allow_duplicates=False)
        there = self._typed(live, "live")
        manager = Manager(name or "unknown", APPLY, "", self.subresource)
        new, fields = self._updater().apply(there, applied, dict(managed.fields), manager, force=force)
        managed = replace(managed, fields=_stripped(fields, manager))
        if new is None:
            return dict(live, metadata=dict(live["metadata"])), managed
        return dict(new.value, metadata=dict(new.value["metadata"])), replace(managed, times=managed.times | {manager: now})

    # What the comparison needs

    def _updater(self) -> Updater:
        return Updater(self._converted, self.ignored)

    def _converted(self, typed: Typed, api_version: str) -> Typed:
        if typed.api_version == api_version:
            return typed
        return Typed(self.convert(typed.value, api_version), self.atom_of(api_version), api_version)

    def _nothing(self) -> JSONObject:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {}}

    def _typed(self, obj: JSONObject, what: str = "", *, allow_duplicates: bool = True) -> Typed:
        """An object of this version. Raises TypedError, or for one that `what` names a StatusError."""
        atom = self.atom_of(self.api_version)
        try:
            validate(obj, atom, allow_duplicates=allow_duplicates)
        except TypedError as error:
            if not what:
                raise
            metadata = obj["metadata"]
            named = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {self.api_version}, Kind={self.kind}"
            raise StatusError(500, "", f"failed to create typed {what} object ({named}): {error}") from None
        return Typed(obj, atom, self.api_version)


def _set_entries(obj: JSONObject, entries: list[JSONObject] | None) -> None:
    metadata = obj["metadata"]
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def _stripped(fields: Managers, manager: Manager) -> Managers:
    owned = fields.get(manager)
    if owned is None:
        return fields
    kept = fieldset.difference(owned.fields, _STRIPPED)
    out = {each: others for each, others in fields.items() if each != manager}
    if kept:
        out[manager] = replace(owned, fields=kept)
    return out


def _grown(before: FieldSet, more: FieldSet) -> FieldSet:
    """`before` itself where there is nothing new, so that its entry stays as it is."""
    both = fieldset.union(before, more)
    return before if both == before else both


def _capped(managed: _Managed) -> _Managed:
    """With at most ten writers by update: of each version the oldest become one, until that is enough."""
    updaters = [manager for manager, owned in managed.fields.items() if not owned.applied]
    if len(updaters) <= MAX_UPDATE_MANAGERS:
        return managed
    fields, when = dict(managed.fields), dict(managed.times)
    updaters.sort(key=lambda manager: (_seconds(when.get(manager)), _identifier(manager)))
    first: dict[str, Manager] = {}
    left = len(updaters)
    for manager in updaters:
        if left <= MAX_UPDATE_MANAGERS:
            break
        owned = fields[manager]
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        bucket = Manager(_OLD_UPDATES, UPDATE, owned.api_version)
        if bucket not in fields:
            fields[bucket] = fields.pop(first[owned.api_version])
        together = fieldset.union(owned.fields, fields[bucket].fields)
        fields[bucket] = replace(owned, fields=together)
        del fields[manager]
        # The younger of the two times.
        when[bucket] = when.get(manager)
        left -= 1
    return replace(managed, fields=fields, times=when)


def _identifier(manager: Manager) -> str:
    """Upstream's key of a manager, by which those of the same second are ordered."""
    members = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if manager.subresource:
        members["subresource"] = manager.subresource
    return orjson.dumps({name: value for name, value in members.items() if value}).decode()


def _with_last_applied(obj: JSONObject, config: JSONObject) -> JSONObject:
    """The object with the annotation brought up to date, or without it where it would be too large."""
    applied = dict(config, metadata=dict(config["metadata"]))
    kept = {name: text for name, text in (applied["metadata"].get("annotations") or {}).items() if name != _LAST_APPLIED}
    if kept:
        applied["metadata"]["annotations"] = kept
    else:
        applied["metadata"].pop("annotations", None)
    text = orjson.dumps(applied, option=orjson.OPT_SORT_KEYS).decode() + "\n"
    annotations = {**obj["metadata"]["annotations"], _LAST_APPLIED: text}
    if object_meta.are_too_long(annotations):
        del annotations[_LAST_APPLIED]
    return dict(obj, metadata=dict(obj["metadata"], annotations=annotations))


def _conflict_error(conflicts: list[Conflict]) -> StatusError:
    by: dict[Manager, list[str]] = {}
    for conflict in conflicts:
        by.setdefault(conflict.manager, []).append(fieldset.path_text(conflict.path))
    causes = [Cause("FieldManagerConflict", f"conflict with {_printed(manager)}", path) for manager in by for path in by[manager]]
    if len(conflicts) == 1:
        return errors.apply_conflict(f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}", causes)
    lines: list[str] = []
    for manager in sorted(by, key=_identifier):
        lines += [f"conflicts with {_printed(manager)}:", *(f"- {path}" for path in by[manager])]
    return errors.apply_conflict(f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines), causes)


def _printed(manager: Manager) -> str:
    text = quote(manager.name)
    if manager.subresource:
        text += f" with subresource {quote(manager.subresource)}"
    return f"{text} using {manager.api_version}" if manager.operation == UPDATE else text
