"""Round trips: what conversion rules lose, found by converting samples of each version to the other one and back.

A sample is a valid object as it would be stored. Its conversion may fail, the result may be invalid, and the conversion back may
lose, change or add fields. All of that may be intended, since one version can have fewer fields than the other; so these are
findings, not errors. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aggserver.cel.values import MISSING
from aggserver.conversion.converter import ConversionError
from aggserver.conversion.field_path import FieldPath
from aggserver.conversion.rule_compilation import Compiled
from aggserver.conversion.rules import VersionPair, taken, written
from aggserver.conversion.rules_converter import RulesConverter
from aggserver.meta import codec
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.json_types import JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.pruning import MalformedError
from aggserver.schema.samples import samples

__all__ = ["Finding", "Report", "content", "differences", "round_trips"]

# Samples of one version, and of all versions together.
_MOST_EACH = 200
_MOST = 1000
# The cost limit of all expressions for all samples: upstream's limit for the validation rules of one object.
_MOST_COST = 10_000_000
# Findings that are kept.
_MOST_FINDINGS = 100
# Characters of a sample in a text.
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """from_, to: the versions. field: its path, '' for the whole object. what: the problem. is_back: found after the way back."""

    from_: str
    to: str
    field: str
    what: str
    is_back: bool = False

    def __str__(self) -> str:
        way = f"{self.from_} to {self.to}{' and back' if self.is_back else ''}"
        return f"{way}: {self.field}{' ' if self.field else ''}{self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result. tried: the number of samples. findings: in the order of the conversions, each once."""

    tried: int
    findings: tuple[Finding, ...]


def round_trips(kind: tuple[str, str], compiled: Compiled, schemas: Mapping[str, CompiledSchema], budget: int = 1) -> Report:
    """Try all conversions with samples. kind: group and kind of the objects. schemas: of all versions, by name."""
    trial = _Trial(*kind, compiled, schemas, budget)
    for conversion in compiled.rules.conversions.values():
        trial.conversion(conversion, min(_MOST_EACH, _MOST // len(compiled.rules.conversions)))
    return Report(trial.tried, tuple(trial.findings))


class _Trial:
    def __init__(self, group: str, kind: str, compiled: Compiled, schemas: Mapping[str, CompiledSchema], budget: int) -> None:
        self.tried = 0
        self.findings: dict[Finding, None] = {}
        self._group = group
        self._kind = kind
        self._schemas = schemas
        self._places = {pair: conversion.path for pair, conversion in compiled.rules.conversions.items()}
        self._left = _MOST_COST * budget
        self._converter = RulesConverter(kind, compiled, schemas, budget, self._spend)

    def conversion(self, conversion: VersionPair, most: int) -> None:
        schema = self._schemas[conversion.from_]
        changed = [path.parts for change in conversion.changes for path in (*taken(change), *written(change))]
        for sample in samples(schema.structural, most, changed):
            if self._left <= 0 or len(self.findings) >= _MOST_FINDINGS:
                return
            obj = self._object(sample, conversion)
            if obj is not None:
                self.tried += 1
                self._try(obj, conversion)

    def _object(self, sample: JSONObject, conversion: VersionPair) -> JSONObject | None:
        """The sample as a stored object; None if it would be refused."""
        metadata: JSONObject = {"name": "sample", "annotations": {}, "labels": {}}
        for change in conversion.changes:
            if change.field.parts[:-1] in (("metadata", "annotations"), ("metadata", "labels")):
                metadata[change.field.parts[1]][change.field.parts[2]] = "text"
        obj = {"apiVersion": f"{self._group}/{conversion.from_}", "kind": self._kind, "metadata": metadata, **sample}
        return obj if self._is_valid(conversion.from_, obj) else None

    def _is_valid(self, version: str, obj: JSONObject) -> bool:
        return not next(self._problems(version, obj), "")

    def _problems(self, version: str, obj: JSONObject) -> Iterator[str]:
        """Conform the object in place, and validate it."""
        schema = self._schemas[version]
        try:
            schema.conform(obj)
        except (MalformedError, ObjectTooLarge) as error:
            yield str(error)
            return
        found = schema.on_create(obj)
        problems = [*found.values, *found.structure]
        yield from map(str, problems or schema.on_rules(obj, None, []).errors)

    def _spend(self, cost: int) -> None:
        # Samples cost something even where expressions do not.
        self._left -= cost

    def _try(self, obj: JSONObject, conversion: VersionPair) -> None:
        from_, to = conversion.from_, conversion.to
        there = self._converted(copy.deepcopy(obj), from_, to, obj)
        if there is None:
            return
        problem = next(self._problems(to, there), "")
        if problem:
            self._find(Finding(from_, to, "", f"makes an invalid object: {problem}"))
        back = self._converted(there, to, from_, there)
        if back is None:
            return
        problem = next(self._problems(from_, back), "")
        if problem:
            self._find(Finding(from_, to, "", f"makes an invalid object: {problem}", is_back=True))
        for field, what in differences(content(obj), content(back), FieldPath(())):
            self._find(Finding(from_, to, field, what, is_back=True))

    def _converted(self, obj: JSONObject, from_: str, to: str, shown: JSONObject) -> JSONObject | None:
        given = content(shown)
        if not any(given["metadata"].values()):
            del given["metadata"]
        text = codec.encode_json(given).decode()
        try:
            return self._converter.at_once(obj, f"{self._group}/{to}")
        except ConversionError as error:
            # The finding names the versions already, so the path of the conversion is left out.
            why = str(error).partition(" failed: ")[2].removeprefix(f"{self._places[from_, to]}.")
            self._find(Finding(from_, to, "", f"fails: {why}"), f", for {text[:_SHOWN]}")
            return None

    def _find(self, finding: Finding, example: str = "") -> None:
        for known in self.findings:
            if (known.from_, known.to, known.is_back) != (finding.from_, finding.to, finding.is_back):
                continue
            if finding.field == known.field and (finding.field or known.what.startswith(finding.what)):
                return
            if known.field and finding.field.startswith((f"{known.field}.", f"{known.field}[")):
                return
        self.findings[Finding(finding.from_, finding.to, finding.field, finding.what + example, finding.is_back)] = None


def content(obj: JSONObject) -> JSONObject:
    """What a conversion may change: labels, annotations, and all but apiVersion, kind and the other metadata."""
    metadata = {name: obj["metadata"].get(name) or {} for name in ("labels", "annotations")}
    own = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
    return {**own, "metadata": metadata}


def differences(one: Any, other: Any, path: FieldPath) -> Iterator[tuple[str, str]]:
    """The fields that differ, and how. An empty object or list counts as a missing field."""
    if type(one) is dict and type(other) is dict:
        for name in {**one, **other}:
            here, there = one.get(name, MISSING), other.get(name, MISSING)
            if there is MISSING and here not in ({}, []):
                yield str(path / name), "is lost"
            elif here is MISSING and there not in ({}, []):
                yield str(path / name), "is added"
            elif here is not MISSING and there is not MISSING:
                yield from differences(here, there, path / name)
    elif type(one) is list and type(other) is list and len(one) == len(other):
        for here, there in zip(one, other, strict=True):
            for field, what in differences(here, there, FieldPath(())):
                yield f"{path}[]{field}", what
    elif not codec.same(one, other):
        yield str(path), f"is changed, from {_short(one)} to {_short(other)}"


def _short(value: Any) -> str:
    return codec.encode_json(value).decode()[:_SHOWN]
