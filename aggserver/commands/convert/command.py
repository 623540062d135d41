"""`aggserver convert`: converts objects as a server with this definition would, or checks the definition's rules.

Only conversions without a webhook are possible: by rules, and those of the strategy None.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aggserver.apiextensions import conversion_annotation, validation
from aggserver.apiextensions.definition import Definition, parse
from aggserver.commands.convert import report
from aggserver.conversion.converter import NONE, ConversionError, Converter
from aggserver.conversion.round_trips import round_trips
from aggserver.conversion.rule_compilation import ConversionPlan
from aggserver.errors import AggserverError
from aggserver.input_files import InputError, documents, find_definition, group_version
from aggserver.meta import yaml_output
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.field import FieldError
from aggserver.meta.json_types import JSONObject
from aggserver.options import Options
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.pruning import MalformedError
from aggserver.schema.rule_costs import MAX_EXPRESSION, MAX_TOTAL
from aggserver.schema.rules import RuleOptions
from aggserver.scheme import object_meta

__all__ = ["FailedError", "run"]


class FailedError(AggserverError):
    """An object can't be converted. The text names it and says why."""


@dataclass(frozen=True, slots=True)
class _Given:
    """The definition from the file. errors: why a server would refuse it; `definition` is None if there are any."""

    file: Path
    crd: JSONObject
    definition: Definition | None
    errors: list[FieldError]


def run(options: Options, say: Callable[[str], None]) -> bool:
    """Prints the converted objects, or the report of a check. Returns False if a check has found errors.

    Raises InputError and FailedError.
    """
    rule_options = RuleOptions(budget=options.rules_budget)
    given = _definition(options, rule_options)
    if options.check:
        found = _check(given, rule_options)
        say(json.dumps(found, indent=2, ensure_ascii=False) if options.output == "json" else report.text(found))
        return bool(found["ok"])
    if given.definition is None:
        raise FailedError(f"{given.file}: {given.errors[0]}")
    converted = list(_converted(given.definition, options, rule_options))
    if options.output == "json":
        shown = converted[0] if len(converted) == 1 else {"apiVersion": "v1", "kind": "List", "items": converted}
        say(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        say("---\n".join(yaml_output.encode(obj).decode() for obj in converted).removesuffix("\n"))
    return True


def _definition(options: Options, rule_options: RuleOptions) -> _Given:
    file = options.definition_file
    assert file is not None  # checked with the options
    crd, in_file = conversion_annotation.with_annotation(find_definition(file))
    errors = in_file(validation.validate(crd, rule_options))
    return _Given(file, crd, None if errors else parse(crd), errors)


def _schemas(definition: Definition, rule_options: RuleOptions) -> dict[str, CompiledSchema]:
    return {version.name: CompiledSchema(version.schema, rule_options) for version in definition.versions}


# --- converting ---


def _converted(definition: Definition, options: Options, rule_options: RuleOptions) -> Iterator[JSONObject]:
    file = options.objects_file
    assert file is not None  # checked with the options
    schemas = _schemas(definition, rule_options)
    if options.to not in schemas:
        raise InputError(f"--to {options.to}: {definition.name} has the versions {', '.join(schemas)}")
    converter = _converter(definition, schemas, rule_options)
    objects = list(_objects(file, definition))
    if not objects:
        raise InputError(f"{file}: has no {definition.names.kind} of {definition.group}")
    for obj in objects:
        name = f"{file}: {definition.names.kind} {_name(obj)}"
        version = group_version(obj)[1]
        if version not in schemas:
            raise FailedError(f"{name}: {definition.name} has no version {version}")
        _conform(obj, schemas[version], name)
        assert converter.at_once is not None
        try:
            made = converter.at_once(obj, f"{definition.group}/{options.to}")
        except ConversionError as error:
            raise FailedError(f"{name}: {error}") from None
        _conform(made, schemas[options.to], name)
        yield made


def _converter(definition: Definition, schemas: dict[str, CompiledSchema], rule_options: RuleOptions) -> Converter:
    conversion = definition.conversion
    if conversion.rules:
        return conversion_annotation.converter(definition.name, conversion.rules, schemas, rule_options)
    if conversion.webhook is not None:
        raise InputError(f"{definition.name} is converted by a webhook, which only a server calls")
    return NONE


def _objects(file: Path, definition: Definition) -> Iterator[JSONObject]:
    """The objects of the definition in a file, also those in lists."""
    for document in documents(file):
        items = document.get("items") if isinstance(document, dict) else None
        for obj in items if isinstance(items, list) else [document]:
            if isinstance(obj, dict) and (obj.get("kind"), group_version(obj)[0]) == (definition.names.kind, definition.group):
                yield obj


def _name(obj: JSONObject) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name")) if isinstance(metadata, dict) else "without a name"


def _conform(obj: JSONObject, schema: CompiledSchema, name: str) -> None:
    """Prune and default the object, as the server does."""
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    problem = object_meta.type_error(obj["metadata"])
    if problem:
        raise FailedError(f"{name}: {problem}")
    try:
        schema.conform(obj)
    except (MalformedError, ObjectTooLarge) as error:
        raise FailedError(f"{name}: {error}") from None


# --- checking ---


def _check(given: _Given, rule_options: RuleOptions) -> JSONObject:
    """The report of a check, in JSON types. A field that is lost by converting there and back is only a warning."""
    name = str((given.crd.get("metadata") or {}).get("name"))
    errors = [{"field": error.field, "reason": error.reason, "message": error.body()} for error in given.errors]
    found: JSONObject = {"ok": not errors, "definition": name, "file": str(given.file), "errors": errors}
    definition = given.definition
    if definition is None:
        return found
    if not definition.conversion.rules:
        raise InputError(f"{given.file}: {name} has no conversion rules")
    schemas = _schemas(definition, rule_options)
    compiled = conversion_annotation.compile_rules(definition.conversion.rules, schemas, rule_options)
    tried = round_trips((definition.group, definition.names.kind), compiled, schemas, rule_options.budget)
    conversions = [_conversion(plan, rule_options) for plan in compiled.plans.values()]
    return found | {"conversions": conversions, "tried": tried.tried, "warnings": list(map(str, tried.findings))}


def _conversion(plan: ConversionPlan, rule_options: RuleOptions) -> JSONObject:
    conversion = plan.conversion
    place = f"{conversion.path}."
    return {
        "from": conversion.from_,
        "to": conversion.to,
        "derived": conversion.derived,
        "changes": len(conversion.changes),
        "expressions": [
            {
                "place": str(cost.path).removeprefix(place),
                "expression": cost.expression,
                "estimatedCost": cost.estimate,
                "cardinality": cost.cardinality,
                "estimatedTotal": cost.total,
                "limit": MAX_EXPRESSION * rule_options.budget,
            }
            for cost in plan.costs
        ],
        "estimatedTotal": sum(cost.total for cost in plan.costs),
        "limit": MAX_TOTAL * rule_options.budget,
    }
