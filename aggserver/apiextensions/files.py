"""Files: the definitions in a folder, followed as it changes.

All *.yaml, *.yml and *.json below the folder are read, except hidden names; so a mounted ConfigMap, whose files are links into a
hidden folder, is read once. A document that can't be served is reported as a `Problem`; the others are still served. If a changed
file is invalid, its previous definitions are kept: a typo in an editor must not remove an API.

Files are polled, since they are few and change seldom, and links and network file systems make notifications unreliable.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggserver import disk
from aggserver.apiextensions import conditions, conversion_annotation, manifest, v1beta1, validation
from aggserver.apiextensions.definition import Definition, parse
from aggserver.meta import codec
from aggserver.meta.field import FieldError, RawJSON, type_invalid
from aggserver.meta.field import Path as FieldPath
from aggserver.meta.json_types import JSONObject
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.scheme import object_meta

__all__ = ["POLL_SECONDS", "FolderSource", "Loaded", "Problem"]

# The kubelet updates a ConfigMap within about a minute, but a developer who saves a file does not want to wait.
POLL_SECONDS = 2.0

_SUFFIXES = (".yaml", ".yml", ".json")
_LISTS = {("v1", "List"), *((version, f"{manifest.KIND}List") for version in (manifest.API_VERSION, v1beta1.API_VERSION))}
# As in kubectl: a line that starts with this ends a document. The rest of that line belongs to the next one.
_SEPARATOR = re.compile(rb"^---(?=\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """A document that isn't served, with the reason. `str()` is a line for the log.

    file: relative to the folder. document: its number from 1, without empty ones; 0 for the whole file.
    name: of the definition, '' if unknown. field: the path of the wrong field, '' for the whole document.
    """

    file: str
    document: int
    name: str
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}, document {self.document}" if self.document else self.file
        what = ": ".join(part for part in (self.field, self.message) if part)
        return f"{where} ({self.name}): {what}" if self.name else f"{where}: {what}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The definitions of a folder, with unique names, sorted by file.

    problems: all current ones. new_problems: those that the previous poll did not have.
    """

    definitions: tuple[Definition, ...]
    problems: tuple[Problem, ...] = ()
    new_problems: tuple[Problem, ...] = ()


class FolderSource:
    """Follows a folder. on_change: called on the event loop with each new content, including the first."""

    def __init__(self, folder: Path, on_change: Callable[[Loaded], None], rule_options: RuleOptions = UPSTREAM) -> None:
        self._folder = folder
        self._on_change = on_change
        self._rule_options = rule_options
        self._seen: dict[str, disk.Signature | None] | None = None
        self._files: dict[str, _File] = {}
        self._loaded = Loaded(())
        # Name -> the file that it is served from.
        self._owners: dict[str, str] = {}

    async def run(self, sleep: Callable[[float], Awaitable[None]], interval: float = POLL_SECONDS) -> None:
        """Poll every `interval` seconds, for ever. Files are read in a thread, since a large CRD takes a second."""
        while True:
            loaded = await asyncio.to_thread(self.poll)
            if loaded is not None:
                self._on_change(loaded)
            await sleep(interval)

    def poll(self) -> Loaded | None:
        """The definitions of the folder now; None if nothing changed since the previous poll."""
        problems: list[Problem] = []
        try:
            paths = dict(_paths(self._folder))
        except OSError as error:
            # If the folder vanished, its definitions are kept, as are those of a file that became invalid.
            paths = {}
            problems.append(Problem(str(self._folder), 0, "", "", f"can't be read: {error.strerror}"))
        seen: dict[str, disk.Signature | None] = {name: disk.signature(path) for name, path in paths.items()}
        if problems:
            seen[""] = None
        if seen == self._seen:
            return None
        if not problems:
            self._files = {name: self._read(name, path, seen[name]) for name, path in sorted(paths.items())}
        self._seen = seen
        self._loaded = self._combine(problems)
        return self._loaded

    def _read(self, name: str, path: Path, signature: disk.Signature | None) -> _File:
        before = self._files.get(name)
        if before is not None and signature is not None and (self._seen or {}).get(name) == signature:
            return before
        found = _read(name, path, self._rule_options)
        return found if before is None else found.keeping(before)

    def _combine(self, problems: Iterable[Problem]) -> Loaded:
        """Combine all files: names must be unique in all of them, and also the accepted names within a group."""
        found = list(problems)
        entries = [(file, entry) for file in self._files.values() for entry in file.entries]
        taken = _Taken()
        chosen: dict[str, Definition] = {}
        # A definition that is already served keeps its name, even if another file comes first in the order.
        for file, entry in sorted(entries, key=lambda pair: self._owners.get(pair[1].definition.name) != pair[0].name):
            clash = taken.add(file.name, entry)
            if clash is None:
                chosen[entry.definition.name] = entry.definition
            else:
                found.append(clash)
        self._owners = taken.files
        for file in self._files.values():
            found.extend(file.problems)
        definitions = tuple(entry.definition for _, entry in entries if chosen.get(entry.definition.name) is entry.definition)
        known = set(self._loaded.problems)
        return Loaded(definitions, tuple(found), tuple(problem for problem in found if problem not in known))


# --- one file ---


@dataclass(frozen=True, slots=True)
class _Entry:
    document: int
    crd: Mapping[str, Any]
    definition: Definition


@dataclass(frozen=True, slots=True)
class _File:
    name: str
    entries: tuple[_Entry, ...] = ()
    problems: tuple[Problem, ...] = ()

    def keeping(self, before: _File) -> _File:
        """Add the previous definitions that are invalid now. An invalid document without a name may be any of them."""
        broken = {problem.name for problem in self.problems}
        defined = {entry.definition.name for entry in self.entries}
        kept = [
            entry
            for entry in before.entries
            if entry.definition.name not in defined and ("" in broken or entry.definition.name in broken)
        ]
        return _File(self.name, (*self.entries, *kept), self.problems)


def _read(name: str, path: Path, rule_options: RuleOptions) -> _File:
    try:
        body = path.read_bytes()
    except OSError as error:
        return _File(name, problems=(Problem(name, 0, "", "", f"can't be read: {error.strerror}"),))
    entries: list[_Entry] = []
    problems: list[Problem] = []
    for number, value in _objects(body, is_json=path.suffix == ".json"):
        if isinstance(value, codec.DecodeError):
            problems.append(Problem(name, number, "", "", str(value)))
            continue
        other = _other_kind(value)
        if other:
            problems.append(Problem(name, number, _name_of(value), "", other))
            continue
        errors, entry = _define(number, value, rule_options)
        problems += [Problem(name, number, _name_of(value), error.field, error.body()) for error in errors]
        if entry is not None:
            entries.append(entry)
    return _File(name, tuple(entries), tuple(problems))


def _objects(body: bytes, *, is_json: bool) -> Iterator[tuple[int, Any]]:
    """(number of the document, object), with lists split into items; a document that can't be decoded yields the error."""
    number = 0
    for text in [body] if is_json else _SEPARATOR.split(body):
        try:
            value = codec.decode_json(text) if is_json else codec.decode_yaml(text)
        except codec.DecodeError as error:
            number += 1
            yield number, error
            continue
        if value is None:
            continue
        number += 1
        items = value.get("items") if isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) in _LISTS else None
        for item in items if isinstance(items, list) else [value]:
            yield number, v1beta1.to_v1(item)


def _other_kind(value: Any) -> str:
    """The error for a document that is no definition; '' if it is one."""
    only = f"only {manifest.KIND}s of {manifest.API_VERSION} are read"
    if not isinstance(value, dict):
        return f"is no object: {only}"
    kind, version = value.get("kind"), value.get("apiVersion")
    if (kind, version) == (manifest.KIND, manifest.API_VERSION):
        return ""
    return f"is a {kind} of {version}: {only}" if kind and version else f"has no kind or no apiVersion: {only}"


def _define(number: int, value: JSONObject, rule_options: RuleOptions) -> tuple[list[FieldError], _Entry | None]:
    # A status in a file comes from the cluster it was exported from.
    value = {key: member for key, member in value.items() if key != "status"}
    value, in_file = conversion_annotation.with_annotation(value)
    errors = in_file(validation.validate(value, rule_options))
    if not errors:
        errors = _metadata_errors(value["metadata"])
    if errors:
        return errors, None
    manifest.prune(value)
    return [], _Entry(number, value, parse(value))


def _metadata_errors(metadata: JSONObject) -> list[FieldError]:
    path = FieldPath("metadata")
    mistyped = object_meta.type_error(metadata)
    if mistyped:
        return [type_invalid(path, RawJSON("{...}"), mistyped)]
    return object_meta.validate_object_meta(metadata, path, namespaced=False, name_rule=object_meta.dns1123_subdomain)


def _name_of(value: Any) -> str:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


# --- all files ---


@dataclass(slots=True)
class _Taken:
    """The names taken so far: definitions by name, and accepted names by group."""

    files: dict[str, str] = field(default_factory=dict)
    groups: dict[str, list[JSONObject]] = field(default_factory=dict)

    def add(self, file: str, entry: _Entry) -> Problem | None:
        definition = entry.definition
        if definition.name in self.files:
            why = f"is defined in {self.files[definition.name]} already"
            return Problem(file, entry.document, definition.name, "metadata.name", why)
        group = self.groups.setdefault(definition.group, [])
        names, conflict = conditions.accept_names(entry.crd, group)
        if conflict is not None:
            return Problem(file, entry.document, definition.name, "spec.names", conflict[1])
        self.files[definition.name] = file
        group.append({**entry.crd, "status": {"acceptedNames": names}})
        return None


def _paths(folder: Path) -> Iterator[tuple[str, Path]]:
    """(name relative to the folder, path) of all files to read. Raises OSError if the folder itself can't be listed."""
    os.listdir(folder)
    visited: set[str] = set()
    for root, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(root)
        if real in visited:
            # A link to an enclosing folder.
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                path = Path(root, name)
                yield str(path.relative_to(folder)), path
