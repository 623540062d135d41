"""Rules: conversion as data, in place of a webhook. This module reads the text; docs/conversion.md describes the language.

For each pair of versions, or from each version to one hub version and back, there is a list of changes: what to move, set, remove
or save in an annotation, and how to convert the items of a list. Fields that no change names are copied. All changes read the
object as it was, so their order has no meaning. A conversion that only moves, saves and restores can be inverted, so its inverse
need not be written. Whether the fields and expressions fit the schemas is checked by `rule_compilation.py`. Pure.
Source: kubernetes/enhancements#3945 has the stories; the loops that are refused are those of kubernetes/community#2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from aggserver.conversion import field_path
from aggserver.conversion.field_path import FieldPath
from aggserver.meta import codec, field
from aggserver.meta.field import FieldError, Path
from aggserver.meta.names import qualified_name

__all__ = ["FieldChange", "RuleKind", "Rules", "RulesError", "VersionPair", "decode", "read", "taken", "written"]

# Changes of one definition. They run for every object of a list, and are checked when the definition is written.
_MAX_CHANGES = 1000
# How deep `each` may be nested.
_MAX_EACH = 8

_CONVERSION_MEMBERS = ("from", "to", "changes")
_MEMBERS = ("hub", "conversions")


class RuleKind(Enum):
    """What a change does. The value is the member of the change that names the field."""

    MOVE = "move"
    SET = "set"
    REMOVE = "remove"
    SAVE = "save"
    RESTORE = "restore"
    EACH = "each"


# Further members: (required, optional). All but `each` can have a condition.
_FURTHER: Mapping[RuleKind, tuple[tuple[str, ...], tuple[str, ...]]] = {
    RuleKind.MOVE: (("to",), ("when",)),
    RuleKind.SET: (("value",), ("when",)),
    RuleKind.REMOVE: ((), ("when",)),
    RuleKind.SAVE: (("annotation",), ()),
    RuleKind.RESTORE: (("annotation",), ()),
    RuleKind.EACH: (("changes",), ("to",)),
}
_INVERSE = {
    RuleKind.MOVE: RuleKind.MOVE,
    RuleKind.SAVE: RuleKind.RESTORE,
    RuleKind.RESTORE: RuleKind.SAVE,
    RuleKind.EACH: RuleKind.EACH,
}


class RulesError(Exception):
    """Rules that can't be used. `errors` has all errors, at least one."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


@dataclass(frozen=True, slots=True)
class FieldChange:
    """path: its place in the text. field: the one it changes, of the old version for MOVE, REMOVE, SAVE and EACH, of the new one
    for SET and RESTORE. to: the new field for MOVE and EACH; None for EACH if the list has the same field in both versions.
    value, when: CEL expressions; when is '' for a change without a condition.
    """

    path: Path
    kind: RuleKind
    field: FieldPath
    to: FieldPath | None = None
    value: str = ""
    when: str = ""
    annotation: str = ""
    changes: tuple[FieldChange, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value} {self.field}"

    @property
    def annotation_path(self) -> FieldPath:
        return FieldPath(("metadata", "annotations", self.annotation))

    @property
    def is_invertible(self) -> bool:
        return self.kind in _INVERSE and not self.when and all(change.is_invertible for change in self.changes)

    def inverse(self) -> FieldChange:
        """The change that undoes this one. Only if `is_invertible`."""
        there, back = (self.field, self.to) if self.to is None else (self.to, self.field)
        inner = tuple(change.inverse() for change in self.changes)
        return replace(self, kind=_INVERSE[self.kind], field=there, to=back, changes=inner)


@dataclass(frozen=True, slots=True)
class VersionPair:
    """The changes from one version to another. derived: whether it is the inverse of a written one, whose `path` it has."""

    path: Path
    from_: str
    to: str
    changes: tuple[FieldChange, ...]
    derived: bool = False

    @property
    def is_invertible(self) -> bool:
        return all(change.is_invertible for change in self.changes)

    def inverse(self) -> VersionPair:
        return VersionPair(self.path, self.to, self.from_, tuple(change.inverse() for change in self.changes), derived=True)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a definition. hub: '' if there is none. conversions: all that are needed, by (from, to)."""

    hub: str
    conversions: Mapping[tuple[str, str], VersionPair]

    def route(self, from_: str, to: str) -> tuple[VersionPair, ...]:
        """The conversions from one version to another, one after the other."""
        direct = self.conversions.get((from_, to))
        if direct is not None:
            return (direct,)
        return self.conversions[from_, self.hub], self.conversions[self.hub, to]


def decode(text: str, path: Path) -> Any:
    """The value of an annotation: YAML or JSON. Raises RulesError.

    JSON is not read as YAML, which does not know escapes of surrogate pairs, such as Python writes for characters above U+FFFF.
    """
    body = text.encode()
    value, repeated = None, []
    try:
        if text.lstrip()[:1] == "{":
            with suppress(codec.DecodeError):  # YAML may start so too
                value = codec.decode_json(body)
                repeated = codec.duplicate_fields(body)
        if value is None:
            value, repeated = codec.decode_yaml_checking_keys(body)
    except codec.DecodeError as error:
        raise RulesError([field.invalid(path, text, f"must be YAML or JSON: {error}")]) from None
    if repeated:
        raise RulesError([field.invalid(path, text, repeated[0])])
    return value


def read(value: Any, path: Path, versions: Sequence[str]) -> Rules:
    """The rules in a decoded text. path: its place. versions: the names of the definition's versions. Raises RulesError."""
    reader = _Reader(versions)
    rules = reader.rules(value, path)
    if reader.errors or rules is None:
        raise RulesError(reader.errors)
    return rules


class _Reader:
    """Reads rules, and collects the errors."""

    def __init__(self, versions: Sequence[str]) -> None:
        self.errors: list[FieldError] = []
        self._versions = versions
        self._changes = 0

    def rules(self, value: Any, path: Path) -> Rules | None:
        if not self._is_object(value, path, _MEMBERS):
            return None
        hub = self._version(value, "hub", path) if "hub" in value else ""
        items, at = value.get("conversions"), path.child("conversions")
        if not isinstance(items, list) or not items:
            self._add(field.required(at, "must be a list of conversions") if not items else _mistyped(at, items, "a list"))
            return None
        written = [self._conversion(item, at.index(index)) for index, item in enumerate(items)]
        if None in written or self.errors:
            return None
        conversions = [each for each in written if each is not None]
        found = self._graph(conversions, hub, at)
        return None if self.errors else Rules(hub, found)

    # --- which versions are converted to which ---

    def _graph(self, written: Sequence[VersionPair], hub: str, path: Path) -> dict[tuple[str, str], VersionPair]:
        found: dict[tuple[str, str], VersionPair] = {}
        for each in written:
            pair = each.from_, each.to
            if each.from_ == each.to:
                self._add(field.invalid(each.path, each.to, "must be between two versions, not a loop from one to itself"))
            elif pair in found:
                why = f"{each.from_} is converted to {each.to} by {found[pair].path} already"
                self._add(field.invalid(each.path, f"{each.from_} to {each.to}", why))
            elif hub and hub not in pair:
                why = f"must be from or to the hub, {hub}: there is a way through it already, so this closes a loop"
                self._add(field.invalid(each.path, f"{each.from_} to {each.to}", why))
            else:
                found[pair] = each
        if self.errors:
            return found
        for pair in self._needed(hub):
            if pair not in found:
                self._derive(pair, found, path, hub)
        return found

    def _needed(self, hub: str) -> Iterator[tuple[str, str]]:
        for one in self._versions:
            for other in self._versions:
                if one != other and (not hub or hub in (one, other)):
                    yield one, other

    def _derive(self, pair: tuple[str, str], found: dict[tuple[str, str], VersionPair], path: Path, hub: str) -> None:
        """Add the inverse of the opposite conversion, if only that was written."""
        there, back = pair, found.get((pair[1], pair[0]))
        if back is None:
            advice = "" if hub or len(self._versions) == 2 else "; with a hub, each version only needs a way to it"
            self._add(field.required(path, f"no conversion from {there[0]} to {there[1]}{advice}"))
        elif back.is_invertible:
            found[pair] = back.inverse()
        else:
            stuck = next(change for change in back.changes if not change.is_invertible)
            why = f"no conversion from {there[0]} to {there[1]}, and that from {there[1]} to {there[0]} can't be turned around"
            self._add(field.required(path, f"{why}: only move, save, restore and each without conditions can, not `{stuck}`"))

    # --- one conversion ---

    def _conversion(self, value: Any, path: Path) -> VersionPair | None:
        if not self._is_object(value, path, _CONVERSION_MEMBERS):
            return None
        from_, to = self._version(value, "from", path), self._version(value, "to", path)
        changes = self._list(value.get("changes", []), path.child("changes"), 0)
        return VersionPair(path, from_, to, changes)

    def _version(self, value: Mapping[str, Any], name: str, path: Path) -> str:
        given, at = value.get(name), path.child(name)
        if given is None:
            self._add(field.required(at))
        elif given not in self._versions:
            self._add(field.not_supported(at, str(given), self._versions))
        return str(given)

    def _list(self, value: Any, path: Path, depth: int) -> tuple[FieldChange, ...]:
        if not isinstance(value, list):
            self._add(_mistyped(path, value, "a list"))
            return ()
        self._changes += len(value)
        if self._changes > _MAX_CHANGES:
            self._add(field.too_many(path, self._changes, _MAX_CHANGES))
            return ()
        found = (self._change(item, path.index(index), depth) for index, item in enumerate(value))
        changes = tuple(change for change in found if change is not None)
        self._overlaps(changes)
        return changes

    def _change(self, value: Any, path: Path, depth: int) -> FieldChange | None:
        kinds = [kind for kind in RuleKind if isinstance(value, dict) and kind.value in value]
        if len(kinds) != 1:
            names = ", ".join(kind.value for kind in RuleKind)
            self._add(field.invalid(path, value, f"must have exactly one of {names}"))
            return None
        kind = kinds[0]
        needed, optional = _FURTHER[kind]
        if not self._is_object(value, path, (kind.value, *needed, *optional)):
            return None
        before = len(self.errors)
        texts: dict[str, str] = {}
        for name in (kind.value, *needed, *optional):
            given = value.get(name)
            if name == "changes":
                continue
            if given is None or given == "":
                if name not in optional or name in value:
                    self._add(field.required(path.child(name)))
            elif isinstance(given, str):
                texts[name] = given
            else:
                self._add(_mistyped(path.child(name), given, "a string"))
        paths = {name: self._field(texts[name], path.child(name)) for name in (kind.value, "to") if name in texts}
        annotation = texts.get("annotation", "")
        for why in qualified_name(annotation.lower()) if annotation else ():
            self._add(field.invalid(path.child("annotation"), annotation, why))
        if depth and kind in (RuleKind.SAVE, RuleKind.RESTORE):
            self._add(field.forbidden(path.child(kind.value), "items of a list have no annotations; save the list instead"))
        inner: tuple[FieldChange, ...] = ()
        if kind is RuleKind.EACH:
            at = path.child("changes")
            if depth == _MAX_EACH:
                self._add(field.forbidden(at, f"must not nest deeper than {_MAX_EACH}"))
            elif "changes" in value:
                inner = self._list(value["changes"], at, depth + 1)
            else:
                self._add(field.required(at))
        changed, to = paths.get(kind.value), paths.get("to")
        if changed is not None and changed == to:
            self._add(field.invalid(path.child("to"), str(to), "must be another field"))
        if changed is None or len(self.errors) > before:
            return None
        return FieldChange(path, kind, changed, to, texts.get("value", ""), texts.get("when", ""), annotation, inner)

    def _field(self, text: str, path: Path) -> FieldPath | None:
        try:
            return field_path.parse(text)
        except ValueError as error:
            self._add(field.invalid(path, text, str(error)))
            return None

    def _overlaps(self, changes: Sequence[FieldChange]) -> None:
        """Refuse two changes of one field, which would be ambiguous, unless both have conditions."""
        for what, targets in (("taken from", False), ("written", True)):
            seen: dict[FieldPath, FieldChange] = {}
            for change in changes:
                for path in written(change) if targets else taken(change):
                    other = seen.setdefault(path, change)
                    if other is not change and not (other.when and change.when):
                        why = f"the field is {what} by {other.path} already; only changes that all have a `when` may share one"
                        self._add(field.invalid(change.path, str(path), why))

    # --- forms ---

    def _is_object(self, value: Any, path: Path, members: Sequence[str]) -> bool:
        if not isinstance(value, dict):
            self._add(_mistyped(path, value, "an object"))
            return False
        unknown = [name for name in value if name not in members]
        for name in unknown:
            self._add(field.invalid(path.child(str(name)), value[name], f"unknown member; there are: {', '.join(members)}"))
        return not unknown

    def _add(self, error: FieldError) -> None:
        self.errors.append(error)


def taken(change: FieldChange) -> tuple[FieldPath, ...]:
    """The fields of the old version that a change removes."""
    match change.kind:
        case RuleKind.MOVE | RuleKind.REMOVE | RuleKind.SAVE:
            return (change.field,)
        case RuleKind.EACH:
            return (change.field,)
        case RuleKind.RESTORE:
            return (change.annotation_path,)
        case _:
            return ()


def written(change: FieldChange) -> tuple[FieldPath, ...]:
    """The fields of the new version that a change writes."""
    match change.kind:
        case RuleKind.SET | RuleKind.RESTORE:
            return (change.field,)
        case RuleKind.MOVE:
            return () if change.to is None else (change.to,)
        case RuleKind.EACH:
            return (change.to or change.field,)
        case RuleKind.SAVE:
            return (change.annotation_path,)
        case _:
            return ()


def _mistyped(path: Path, value: Any, wanted: str) -> FieldError:
    return field.type_invalid(path, value, f"must be {wanted}")
