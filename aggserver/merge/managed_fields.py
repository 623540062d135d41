"""Managed fields: keeps `metadata.managedFields` in every write, and does server-side apply.

Upstream has ten managers that wrap each other; here the same steps follow one another: choose the entries (the request's, the
live ones, or none), name the writer, compare (`managers.py`), drop fields that nobody owns, set the time, and limit the entries
of operation Update to ten. Entries that a write does not change remain the same Python objects.
Pure: the time is an argument.
Source: k8s.io/apimachinery pkg/util/managedfields/internal, v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom
from aggserver.merge.comparing import compare
from aggserver.merge.fieldset import FieldSet, FieldSetError
from aggserver.merge.managers import (
    ConflictsError,
    FieldUpdater,
    Manager,
    ManagerConflict,
    Managers,
    MissingVersionError,
    Owned,
    Typed,
)
from aggserver.merge.typed import TypedError, field_set, validate
from aggserver.meta import errors, times
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.field import first_that_fit
from aggserver.meta.golang import quote, to_json
from aggserver.meta.json_types import JSONObject
from aggserver.scheme import object_meta

__all__ = ["APPLY", "UPDATE", "FieldManager", "ManagedFieldsError", "decode", "in_order", "set_entries", "without_entries"]

APPLY, UPDATE = "Apply", "Update"

# The most entries of operation Update; beyond it, the oldest are united (upstream's DefaultMaxUpdateManagers).
MAX_UPDATE_MANAGERS = 10
_OLD_UPDATES = "ancient-changes"
_BEFORE_APPLY = "before-first-apply"

# kubectl's client-side apply keeps what it last applied in an annotation; its server-side apply takes that over.
_KUBECTL = "kubectl"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Metadata that nobody owns, since the server sets it or it names the object.
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

# Stands for the writer during the comparison, to distinguish the fields that it changes now from those that it owned before.
_SELF = Manager("current-operation", UPDATE)


class ManagedFieldsError(ValueError):
    """Invalid entries of managedFields. The text is upstream's."""


@dataclass(slots=True)
class _Managed:
    """Decoded managedFields, by manager. fields: its fields. times: of its last write, RFC 3339. entries: as stored, to be reused
    where nothing changes.
    """

    fields: Managers = field(default_factory=dict)
    times: dict[Manager, str | None] = field(default_factory=dict)
    entries: dict[Manager, JSONObject] = field(default_factory=dict)

    def encoded(self) -> list[JSONObject]:
        entries = [self._entry(manager, owned) for manager, owned in self.fields.items()]
        if len(entries) > 1:
            entries.sort(key=_entry_order)
        return entries

    def _entry(self, manager: Manager, owned: Owned) -> JSONObject:
        time, given = self.times.get(manager), self.entries.get(manager)
        is_as_stored = given is not None and given.get("fieldsV1") is owned.fields
        if is_as_stored and given is not None and (given.get("time"), given["apiVersion"]) == (time, owned.api_version):
            return given
        entry: JSONObject = {
            "apiVersion": owned.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": owned.fields if is_as_stored or owned.in_order else fieldset.ordered(owned.fields),
        }
        if manager.name:
            entry["manager"] = manager.name
        entry["operation"] = manager.operation
        if manager.subresource:
            entry["subresource"] = manager.subresource
        if time:
            entry["time"] = time
        return entry


def in_order(entries: Iterable[JSONObject]) -> list[JSONObject]:
    """Entries in the order of managedFields."""
    return sorted(entries, key=_entry_order)


def _entry_order(entry: JSONObject) -> tuple[Any, ...]:
    """Sort key: operation Apply first, then by time in whole seconds."""
    texts = (entry.get("manager", ""), entry["apiVersion"], entry.get("subresource", ""))
    return (entry["operation"], _seconds(entry.get("time")), *texts)


def _seconds(time: str | None) -> int:
    """Seconds since 1970, 0 without a time. The form that this server writes is parsed by C code."""
    if not time:
        return 0
    if _is_canonical(time):
        try:
            return int(datetime.fromisoformat(time).timestamp())
        except ValueError:
            pass
    return int(times.parse_time(time))


def _as_written(time: str | None) -> str | None:
    """The time as the server writes times: in UTC, and without fractions of a second."""
    return time if not time or _is_canonical(time) else times.format_time(_seconds(time))


_is_canonical = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").fullmatch


def decode(entries: Any, *, trusted: bool = False) -> Managers:
    """Decode a list of entries. Raises ManagedFieldsError.

    trusted: the entries were stored, so their sets are valid and in order.
    """
    return _decode(entries, trusted=trusted).fields


def _decode(entries: Any, *, trusted: bool) -> _Managed:
    managed = _Managed()
    for index, given in enumerate(entries or ()):
        entry = given or {}
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE):
            raise ManagedFieldsError("operation must be `Apply` or `Update`")
        if not version:
            raise ManagedFieldsError("apiVersion must not be empty")
        if not (kind := entry.get("fieldsType")):
            raise ManagedFieldsError(f"missing fieldsType in managed fields entry {index}")
        if kind != "FieldsV1":
            raise ManagedFieldsError(f"invalid fieldsType {quote(kind)} in managed fields entry {index}")
        name, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        manager = Manager(name, operation, version if operation == UPDATE else "", subresource)
        fields: Any = entry.get("fieldsV1")
        try:
            is_set = trusted and fields is not None
            owned = fields if is_set else fieldset.parse(fields)
        except FieldSetError as error:
            raise ManagedFieldsError(f"error decoding set: {error}") from None
        managed.fields[manager] = Owned(owned, version, operation == APPLY, in_order=is_set)
        managed.times[manager] = _as_written(entry.get("time"))
        managed.entries[manager] = entry
    return managed


def _decode_or_none(entries: Any, *, trusted: bool) -> _Managed:
    try:
        return _decode(entries, trusted=trusted)
    except ManagedFieldsError:
        return _Managed()


def _is_reset(entries: Any) -> bool:
    """Whether a client asks to drop all entries: by an empty list, or one empty entry."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not any((entries[0] or {}).values())))


def _entries(obj: JSONObject) -> Any:
    return obj["metadata"].get("managedFields")


@dataclass(frozen=True, slots=True)
class FieldManager:
    """Keeps the managedFields of objects that are written at one endpoint: a resource in one version, or a subresource of it.

    api_version, kind: of the objects at the endpoint. atom_of: returns the type of the objects of a version. convert: returns an
    object in another version. Both raise MissingVersionError for a version that is not served. ignored: by version, the fields
    that the endpoint resets. zero: returns the members, without metadata, of a new empty object of a built-in kind in upstream.
    """

    api_version: str
    kind: str
    atom_of: Callable[[str], Atom]
    convert: Callable[[JSONObject, str], JSONObject]
    subresource: str = ""
    ignored: Mapping[str, FieldSet] = field(default_factory=dict)
    zero: Callable[[], JSONObject] = dict

    # Updates

    def update(self, live: JSONObject | None, new: JSONObject, manager: str, now: str) -> None:
        """Set `managedFields` of an object that is about to be written; `live` is None for a create. Changes `new`'s metadata.

        Never fails because of the objects' content: if the owners can't be determined, the object has no managedFields
        afterwards, as in upstream.
        """
        try:
            managed = self._live_or_new(live, new)
            set_entries(new, None)
            if not managed.fields and live is not None:
                return  # the object has had no managedFields so far; only a create or an apply adds the first
            if new.get("kind") != self.kind:
                return  # there is no type for this kind; a write of `/status` may have any kind, which is ignored later
            managed = self._updated(None if live is None else without_entries(live), new, managed, manager, now)
            entries = _capped(managed).encoded()
        except (TypedError, MissingVersionError, StatusError, RecursionError):
            # RecursionError: another server may have stored sets that are too deep.
            entries = None
        set_entries(new, entries)

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
        """The managers after an update; neither object has managedFields. Raises TypedError, and what `convert` raises."""
        before, after = self._typed({**self._nothing(), **self.zero()} if live is None else live), self._typed(new)
        validate(new, after.atom, allow_duplicates=True)
        fields = self._updater().update(before, after, managed.fields, _SELF)
        mine = fields.pop(_SELF, None)
        owned = fieldset.EMPTY if mine is None else fieldset.difference(mine.fields, _STRIPPED)
        if not owned:
            return _Managed(fields, managed.times, managed.entries)
        manager = Manager(name or "unknown", UPDATE, self.api_version, self.subresource)
        if manager in fields:
            owned = fieldset.union(fields[manager].fields, owned)
        fields[manager] = Owned(_as_before(owned, managed.fields.get(manager)), self.api_version, applied=False)
        return _Managed(fields, managed.times | {manager: now}, managed.entries)

    # Applies

    def apply(
        self,
        live: JSONObject | None,
        config: JSONObject,
        manager: str,
        *,
        force: bool,
        now: str,
        default: Callable[[JSONObject], object] | None = None,
    ) -> JSONObject:
        """The object after an apply of `config`, with its managedFields; `live` is None if there is no object yet.

        default: adds the defaults in place to an object that the apply has changed; without it, none are added. An object that
        the apply does not change gets no defaults, even if it lacks some, as an object converted to this version may.
        The result shares parts with both arguments. Raises StatusError: 400 for a configuration of another kind or with
        managedFields, 409 for conflicts, 500 for a configuration that does not fit the type.
        """
        there = self._nothing() if live is None else live
        try:
            managed = _decode(_entries(there), trusted=True)
        except ManagedFieldsError as error:
            raise StatusError(500, "", f"failed to decode managed fields: {error}") from None
        self._check(config)
        try:
            obj, managed, is_changed = self._apply_over_kubectl(there, config, managed, manager, force=force, now=now)
            entries = managed.encoded()
        except ConflictsError as error:
            raise _conflict_error(error.conflicts) from None
        except RecursionError:
            raise StatusError(500, "", "failed to decode managed fields: error decoding set: exceeded max depth") from None
        if is_changed and default is not None:
            default(obj)
        if manager == _KUBECTL and (obj["metadata"].get("annotations") or {}).get(_LAST_APPLIED):
            obj = _with_last_applied(obj, config)
        set_entries(obj, entries)
        return obj

    def _check(self, config: JSONObject) -> None:
        version, kind = _text(config, "apiVersion"), _text(config, "kind")
        if (version, kind) != (self.api_version, self.kind):
            if version.count("/") > 1:
                version, kind = "", ""  # then upstream knows neither
            raise errors.bad_request(f"invalid object type: {_group_version(version)}, Kind={kind}")

    def _apply_over_kubectl(
        self, live: JSONObject, config: JSONObject, managed: _Managed, name: str, *, force: bool, now: str
    ) -> tuple[JSONObject, _Managed, bool]:
        """As `_apply`, but kubectl's server-side apply may change fields of its client-side apply that are unchanged since."""
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
        """The fields of the last-applied annotation that are unchanged in the object; None if there is no readable annotation."""
        text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
        try:
            applied = orjson.loads(text or "")
            if not isinstance(applied, dict) or applied.get("apiVersion") != self.api_version:
                return None
            atom = self.atom_of(self.api_version)
            validate(live, atom)
            validate(applied, atom)
            changed = compare(applied, live, atom)
            owned = field_set(applied, atom)
        except (ValueError, MissingVersionError):
            return None
        for gone in (changed.modified, changed.added, changed.removed):
            owned = fieldset.difference(owned, gone)
        return owned

    def _apply(
        self, live: JSONObject, config: JSONObject, managed: _Managed, name: str, *, force: bool, now: str
    ) -> tuple[JSONObject, _Managed, bool]:
        """(the object after the apply, its managed fields, whether the object has changed)."""
        there = self._typed(without_entries(live))
        if not managed.fields:
            # It is not known who wrote the present fields, only that it was not this applier.
            try:
                managed = _capped(self._updated(None, there.value, managed, _BEFORE_APPLY, now))
            except TypedError as error:
                text = f"failed to convert new object ({self._named(live)}) to smd typed: {error}"
                raise StatusError(500, "", f"failed to create manager for existing fields: {text}") from None
        if _names_managers(config):
            raise errors.bad_request("metadata.managedFields must be nil")
        applied = self._typed(config)
        try:
            validate(config, applied.atom)
        except TypedError as error:
            raise StatusError(500, "", f"failed to create typed patch object ({self._named(config)}): {error}") from None
        manager = Manager(name or "unknown", APPLY, "", self.subresource)
        try:
            new, fields = self._updater().apply(there, applied, managed.fields, manager, force=force)
        except TypedError as error:
            raise self._failed_apply(there, error) from None
        owned = fieldset.difference(fields[manager].fields, _STRIPPED) if manager in fields else fieldset.EMPTY
        if owned:
            fields[manager] = fields[manager]._replace(fields=_as_before(owned, managed.fields.get(manager)))
        else:
            fields.pop(manager, None)
        if new is None:
            return dict(live, metadata=dict(live["metadata"])), _Managed(fields, managed.times, managed.entries), False
        obj = dict(new.value, metadata=dict(new.value["metadata"] or {}))
        return obj, _Managed(fields, managed.times | {manager: now}, managed.entries), True

    def _failed_apply(self, live: Typed, error: TypedError) -> StatusError:
        """The error of an apply. It names the live object if that does not fit its type."""
        try:
            validate(live.value, live.atom, allow_duplicates=True)
        except TypedError as cause:
            return StatusError(500, "", f"failed to create typed live object ({self._named(live.value)}): {cause}")
        return StatusError(500, "", str(error))

    # What the comparison needs

    def _updater(self) -> FieldUpdater:
        return FieldUpdater(self._converted, self.ignored)

    def _converted(self, typed: Typed, api_version: str) -> Typed:
        """The object in another version. Raises MissingVersionError, and TypedError if it can't be converted, or does not fit the
        type of that version.
        """
        try:
            converted = Typed(self.convert(typed.value, api_version), self.atom_of(api_version), api_version)
        except StatusError as error:
            raise TypedError(error.message) from None
        validate(converted.value, converted.atom)
        return converted

    def _nothing(self) -> JSONObject:
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {}}

    def _typed(self, obj: JSONObject) -> Typed:
        """An object of this version, whether it fits the type or not."""
        return Typed(obj, self.atom_of(self.api_version), self.api_version)

    def _named(self, obj: JSONObject) -> str:
        """An object as errors name it."""
        metadata = _metadata(obj)
        name = f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}"
        return f"{name}; {_group_version(self.api_version)}, Kind={self.kind}"


def _group_version(api_version: str) -> str:
    """The apiVersion as Go prints it: with a slash even if there is no group."""
    return api_version if "/" in api_version else f"/{api_version}"


def _text(tree: JSONObject, name: str) -> str:
    """A member that is a string, '' if it is missing or anything else."""
    found = tree.get(name)
    return found if isinstance(found, str) else ""


def _metadata(obj: JSONObject) -> JSONObject:
    """The metadata of an object, {} if it is missing or not an object."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def _names_managers(config: JSONObject) -> bool:
    """Whether a configuration has managedFields. Malformed ones don't count here, as in upstream."""
    given = _metadata(config).get("managedFields")
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        return False
    return not object_meta.type_error({"managedFields": given})


def set_entries(obj: JSONObject, entries: list[JSONObject] | None) -> None:
    """Set `managedFields` in the object's metadata, or remove them if `entries` is None or empty."""
    metadata = obj["metadata"]
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def without_entries(obj: JSONObject) -> JSONObject:
    """The object without `managedFields`; it shares all else with `obj`."""
    metadata = obj["metadata"]
    if "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def _as_before(owned: FieldSet, before: Owned | None) -> FieldSet:
    """`owned`, or the equal set of `before` itself, so that the stored entry is kept."""
    return before.fields if before is not None and before.fields == owned else owned


def _capped(managed: _Managed) -> _Managed:
    """Limit the entries of operation Update: the oldest ones of each version are united, until there are few enough."""
    if len(managed.fields) <= MAX_UPDATE_MANAGERS:
        return managed
    updaters = [manager for manager, owned in managed.fields.items() if not owned.applied]
    if len(updaters) <= MAX_UPDATE_MANAGERS:
        return managed
    fields, when = dict(managed.fields), dict(managed.times)
    updaters.sort(key=lambda manager: (_seconds(when.get(manager)), _identifier(manager)))
    first: dict[str, Manager] = {}
    # The manager into which others are united -> their sets. The sets are united at the end, since there may be thousands.
    together: dict[Manager, list[FieldSet]] = {}
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
        together.setdefault(bucket, [fields[bucket].fields]).append(owned.fields)
        del fields[manager]
        if manager == bucket:
            del together[bucket]  # upstream loses the fields that it had
        # The later of the two times.
        when[bucket] = when.get(manager)
        left -= 1
    for bucket, sets in together.items():
        fields[bucket] = Owned(fieldset.union_of(sets), bucket.api_version, applied=False)
    return _Managed(fields, when, managed.entries)


def _identifier(manager: Manager) -> str:
    """Upstream's identifier of a manager, which orders managers of the same second."""
    members = {"manager": manager.name, "operation": manager.operation, "apiVersion": manager.api_version}
    if manager.subresource:
        members["subresource"] = manager.subresource
    return orjson.dumps({name: value for name, value in members.items() if value}).decode()


def _with_last_applied(obj: JSONObject, config: JSONObject) -> JSONObject:
    """The object with an updated last-applied annotation, or without it if it would be too large."""
    applied = dict(config, metadata=dict(config["metadata"]))
    given = applied["metadata"].get("annotations")
    if given is not None:
        applied["metadata"]["annotations"] = {name: text for name, text in given.items() if name != _LAST_APPLIED}
    text = to_json(applied) + "\n"
    annotations = {**obj["metadata"]["annotations"], _LAST_APPLIED: text}
    if object_meta.are_too_long(annotations):
        del annotations[_LAST_APPLIED]
    return dict(obj, metadata=dict(obj["metadata"], annotations=annotations))


def _conflict_error(conflicts: list[ManagerConflict]) -> StatusError:
    """The number of conflicts, and as many of them as fit into a response."""
    by: dict[Manager, list[str]] = {}
    texts = first_that_fit(fieldset.path_text(conflict.path) for conflict in conflicts)
    for conflict, text in zip(conflicts, texts, strict=False):
        by.setdefault(conflict.manager, []).append(text)
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
