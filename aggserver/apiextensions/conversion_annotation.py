"""The annotation aggserver.io/conversion of a definition: conversion rules in place of a webhook.

It is an annotation so that kube-apiserver accepts the same manifest. If a definition has both the annotation and a webhook, this
server uses the rules, and kube-apiserver the webhook. In the files of a folder, which only aggserver reads, the rules may also be
in the spec, with a strategy of their own; `with_annotation` turns that into the annotation.

CEL is imported only for definitions that have rules, as in `schema/lazy_rules.py`. Pure.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aggserver.apiextensions.manifest import member
from aggserver.conversion.converter import ComputedConverter, ConversionError
from aggserver.meta import codec
from aggserver.meta.field import FieldError, Path, forbidden, invalid, required
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.defaulting import MAX_OBJECT_BYTES
from aggserver.schema.rules import UPSTREAM, RuleOptions
from aggserver.schema.structural import Structural

if TYPE_CHECKING:
    from aggserver.conversion.rule_compilation import Compiled

__all__ = [
    "ANNOTATION",
    "STRATEGY",
    "advice",
    "changed",
    "compile_rules",
    "converter",
    "problems",
    "rules_text",
    "with_annotation",
]

ANNOTATION = "aggserver.io/conversion"
STRATEGY = "Rules"
"""The strategy in files that replaces the annotation; the member `rules` beside it has the annotation's content, decoded."""

_PATH = Path("metadata.annotations").key(ANNOTATION)
_IN_SPEC = Path("spec").child("conversion", "rules")
# Definitions whose compiled rules are remembered.
_REMEMBERED = 64
# Warnings for one definition; clients accept only some kilobytes of headers.
_MOST_WARNINGS = 10


def rules_text(crd: JSONMapping) -> str:
    """The rules of a manifest that fits its type, as written; '' if it has none."""
    return str(member(member(member(crd, "metadata", {}), "annotations", {}), ANNOTATION, ""))


def changed(crd: JSONMapping, old: JSONMapping | None) -> bool:
    """Whether there are rules to check: the definition is new, or its rules or schemas changed."""
    text = rules_text(crd)
    if not text or old is None:
        return bool(text)
    return text != rules_text(old) or _schemas(crd) != _schemas(old)


def problems(crd: JSONMapping, old: JSONMapping | None, options: RuleOptions) -> list[FieldError]:
    """The errors of the rules of a definition that is valid otherwise. old: the definition before an update.

    As with validation rules, errors that the same rules had before are not reported.
    """
    if not changed(crd, old):
        return []
    found = _problems(crd, options)
    if not found or old is None or rules_text(crd) != rules_text(old):
        return found
    known = set(map(str, _problems(old, options)))
    return [error for error in found if str(error) not in known]


def _problems(crd: JSONMapping, options: RuleOptions) -> list[FieldError]:
    from aggserver.conversion.rules import RulesError

    if member(member(crd, "spec", {}), "preserveUnknownFields", False):
        return [invalid(_PATH, rules_text(crd), "must not be set if spec.preserveUnknownFields is true")]
    try:
        compile_rules(rules_text(crd), _compiled_schemas(crd, options), options)
    except RulesError as error:
        return list(error.errors)
    return []


def advice(crd: JSONMapping, old: JSONMapping | None, options: RuleOptions) -> list[str]:
    """Texts for Warning headers: what the rules of a valid definition lose in a round trip. May take a second."""
    if not changed(crd, old):
        return []
    from aggserver.conversion.round_trips import round_trips

    spec, schemas = member(crd, "spec", {}), _compiled_schemas(crd, options)
    compiled = compile_rules(rules_text(crd), schemas, options)
    kind = member(spec, "group", ""), member(member(spec, "names", {}), "kind", "")
    found = [str(each) for each in round_trips(kind, compiled, schemas, options.budget).findings]
    more = [f"and {len(found) - _MOST_WARNINGS} more; aggserver convert --check shows all"] if len(found) > _MOST_WARNINGS else []
    return [f"{ANNOTATION}: {text}" for text in (*found[:_MOST_WARNINGS], *more)]


def compile_rules(text: str, schemas: Mapping[str, CompiledSchema], options: RuleOptions) -> Compiled:
    """Compile rules. schemas: of all versions, by name. Raises RulesError.

    The result is cached: a definition is validated, in a thread, just before it is served, and a thousand expressions take
    seconds to compile.
    """
    structurals = {name: schema.structural for name, schema in schemas.items()}
    written = codec.encode_json({name: structural.schema for name, structural in structurals.items()})
    return _compiled(_Source(text, options.budget, hashlib.sha256(written).digest(), structurals))


@dataclass(frozen=True, slots=True)
class _Source:
    """What rules are compiled from, as the key of the cache. digest: of the schemas, which are not compared."""

    text: str
    budget: int
    digest: bytes
    schemas: Mapping[str, Structural] = field(compare=False)


@functools.lru_cache(maxsize=_REMEMBERED)
def _compiled(source: _Source) -> Compiled:
    from aggserver.conversion import rule_compilation, rules

    given = rules.read(rules.decode(source.text, _PATH), _PATH, list(source.schemas))
    return rule_compilation.compile_rules(given, source.schemas, source.budget)


def converter(
    what: str,
    text: str,
    schemas: Mapping[str, CompiledSchema],
    options: RuleOptions = UPSTREAM,
    max_object_bytes: int = MAX_OBJECT_BYTES,
) -> ComputedConverter:
    """The converter of a definition with rules. what: the definition's name. max_object_bytes: see `RulesConverter`.

    If the rules do not fit the schemas, as in a definition that another server stored, every conversion fails.
    """
    from aggserver.conversion.rules import RulesError
    from aggserver.conversion.rules_converter import RulesConverter

    try:
        compiled = compile_rules(text, schemas, options)
    except RulesError as error:
        return _RefusingConverter(f"conversion of {what} failed: {error.errors[0]}")
    return RulesConverter(what, compiled, schemas, options.budget, max_object_bytes=max_object_bytes)


class _RefusingConverter(ComputedConverter):
    def __init__(self, why: str) -> None:
        self._why = why

    def at_once(self, obj: JSONObject, api_version: str) -> JSONObject:
        if obj.get("apiVersion") == api_version:
            return obj
        raise ConversionError(self._why)


def _schemas(crd: JSONMapping) -> dict[str, Any]:
    versions = member(member(crd, "spec", {}), "versions", [])
    return {version.get("name"): member(version, "schema", {}).get("openAPIV3Schema") or {} for version in versions}


def _compiled_schemas(crd: JSONMapping, options: RuleOptions) -> dict[str, CompiledSchema]:
    return {name: CompiledSchema(schema, options) for name, schema in _schemas(crd).items()}


# --- files ---


def with_annotation(crd: JSONObject) -> tuple[JSONObject, Callable[[Sequence[FieldError]], list[FieldError]]]:
    """A manifest of any shape with its rules moved to the annotation, and a function that corrects the paths of errors."""
    spec = crd.get("spec")
    conversion = spec.get("conversion") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(conversion, dict) or conversion.get("strategy") != STRATEGY:
        return crd, list
    metadata = crd.get("metadata")
    annotations = member(metadata, "annotations", {}) if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict):
        return crd, list
    rules, found = conversion.get("rules"), []
    if rules is None:
        found.append(required(_IN_SPEC))
    if ANNOTATION in annotations:
        found.append(invalid(_IN_SPEC, STRATEGY, f"must not be set together with the annotation {ANNOTATION}"))
    if any(name not in ("strategy", "rules") and value is not None for name, value in conversion.items()):
        found.append(forbidden(Path("spec").child("conversion"), f"must have only rules if the strategy is {STRATEGY}"))
    lowered = {
        **crd,
        "metadata": {**metadata, "annotations": {**annotations, ANNOTATION: to_json(rules)}},
        "spec": {**spec, "conversion": {"strategy": "None"}},
    }
    return lowered, lambda errors: found or [_in_spec(error) for error in errors]


def _in_spec(error: FieldError) -> FieldError:
    where = error.field
    if not where.startswith(str(_PATH)):
        return error
    return FieldError(error.reason, Path(f"{_IN_SPEC}{where.removeprefix(str(_PATH))}"), error.value, error.detail)
