"""`aggserver cel`: checks and runs an expression, or checks a definition's rules and validates an object by them.

The findings are first put into a report of JSON types, which is the output of `-o json`; `report.py` makes text of it.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggserver.apiextensions import schema_rules
from aggserver.apiextensions.definition import Definition, DefinitionError, Version, parse
from aggserver.apiextensions.schema_rules import SchemaOptions
from aggserver.cel.checker import Environment, check
from aggserver.cel.conversions import to_string
from aggserver.cel.cost import estimate
from aggserver.cel.errors import CompileError
from aggserver.cel.program import Program, ProgramError, compile_program
from aggserver.cel.ranges import LARGEST
from aggserver.cel.types import DYN
from aggserver.cel.values import CELError, Duration, Timestamp, show
from aggserver.commands.cel import report as text_report
from aggserver.commands.cel.places import SchemaPlace, Value, find, places, values
from aggserver.input_files import InputError, documents, find_definition, group_version
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.field import FieldError, RawJSON
from aggserver.meta.field import Path as FieldPath
from aggserver.meta.json_types import JSONObject
from aggserver.options import Options
from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.compiled_rules import compile_rules
from aggserver.schema.decl_type import Declarations
from aggserver.schema.pruning import MalformedError
from aggserver.schema.rule_costs import MAX_EXPRESSION, MAX_TOTAL
from aggserver.schema.rule_validation import CALL_LIMIT
from aggserver.schema.rules import RuleOptions
from aggserver.schema.structural import VALIDATIONS
from aggserver.scheme import object_meta

__all__ = ["InputError", "run"]


@dataclass(frozen=True, slots=True)
class _Input:
    """The command's input. spec: the definition's, as it is written in the file."""

    options: Options
    rule_options: RuleOptions
    definition: Definition | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)
    obj: Any = None
    old: Any = None


def run(options: Options, say: Callable[[str], None]) -> bool:
    """Prints a report. Returns whether everything compiles, is within the cost limits, and does not evaluate to false.

    Raises InputError.
    """
    given = _read(options)
    definition = given.definition
    report = _expression_report(given) if options.expression or definition is None else _definition_report(given, definition)
    say(json.dumps(report, indent=2, ensure_ascii=False) if options.output == "json" else text_report.text(report))
    return bool(report["ok"])


# --- input ---


def _read(options: Options) -> _Input:
    rule_options = RuleOptions(options.rules_see_labels, options.rules_budget)
    definition, spec = None, {}
    if options.definition_file is not None:
        crd = find_definition(options.definition_file)
        try:
            definition, spec = parse(crd), crd["spec"]
        except DefinitionError as error:
            raise InputError(f"{options.definition_file}: {error}") from None
    obj = None if options.object_file is None else _find_object(options.object_file, definition)
    old = None if options.old_object_file is None else _find_object(options.old_object_file, definition)
    return _Input(options, rule_options, definition, spec, obj, old)


def _find_object(file: Path, definition: Definition | None) -> Any:
    """The first document, or the first of the definition's kind."""
    for document in documents(file):
        if definition is None or (isinstance(document, dict) and _is_of(document, definition)):
            return document
    wanted = "document" if definition is None else f"{definition.names.kind} of {definition.group}"
    raise InputError(f"{file}: has no {wanted}")


def _is_of(document: JSONObject, definition: Definition) -> bool:
    return (document.get("kind"), group_version(document)[0]) == (definition.names.kind, definition.group)


def _version(given: _Input, definition: Definition) -> Version:
    """The version that the options name, or the object's, or the storage version."""
    name = given.options.definition_version
    if not name:
        name = definition.storage_version.name if given.obj is None else group_version(given.obj)[1]
    for version in definition.versions:
        if version.name == name:
            return version
    raise InputError(f"{definition.name} has no version {name}")


def _conform(obj: JSONObject, schema: CompiledSchema, file: Path | None) -> list[str]:
    """Prunes and defaults the object, as the server does. Returns the paths of pruned fields."""
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    problem = object_meta.type_error(obj["metadata"])
    if problem:
        raise InputError(f"{file}: {problem}")
    try:
        return schema.conform(obj)
    except (MalformedError, ObjectTooLarge) as error:
        raise InputError(f"{file}: {error}") from None


# --- an expression ---


def _expression_report(given: _Input) -> JSONObject:
    if given.definition is None:
        return _checked_report(given, None, [Value("", given.obj, given.old)])
    version = _version(given, given.definition)
    schema = CompiledSchema(version.schema)
    for obj, file in ((given.obj, given.options.object_file), (given.old, given.options.old_object_file)):
        if obj is None:
            continue
        _conform(obj, schema, file)
        problems = schema.on_create(obj)
        if any(problems):
            # A compiled expression relies on values of the declared types.
            return {"ok": False, "object": _judged(file, [*problems.values, *problems.structure], ())}
    root = structural.compile(version.schema)
    try:
        place = find(root, given.options.at, sees_labels=given.rule_options.sees_labels)
    except ValueError as error:
        raise InputError(f"--at {given.options.at}: {error}") from None
    if place is None:
        raise InputError(f"--at {given.options.at}: {given.definition.name} {version.name} declares nothing there")
    return _checked_report(given, place, list(values(root, place, given.obj, given.old)))


def _checked_report(given: _Input, place: SchemaPlace | None, found: list[Value]) -> JSONObject:
    """The report on an expression. place: where `self` is in a definition, None without one. found: the values there."""
    declarations = None if place is None else Declarations(place.declared)
    try:
        checked = check(given.options.expression, _environment(declarations))
        program = compile_program(checked, declarations)
    except (CompileError, ProgramError) as error:
        return {"ok": False, "error": str(error)}
    cost = estimate(checked, declarations).max
    report: JSONObject = {"ok": True, "type": str(checked.type), "estimatedCost": cost}
    if place is not None:
        report |= _estimates(cost, place.cardinality, given.rule_options)
        report["ok"] = report["estimatedTotal"] <= report["limit"]
    names = {"self", "oldSelf"} & set(map(str, checked.references.values()))
    if not names:
        found = [Value("", None, None)]
    elif "oldSelf" in names and given.old is None:
        return report | {"needs": "--old-object"}
    elif given.obj is None:
        return report | {"needs": "--object"}
    if "oldSelf" in names:
        found = [each for each in found if each.old is not None]
    limit = CALL_LIMIT * given.rule_options.budget
    report["results"] = [_result(program, each, limit) for each in found]
    report["ok"] &= all(result.get("value", False) is not False for result in report["results"])
    return report


def _environment(declarations: Declarations | None) -> Environment:
    if declarations is None:
        return Environment({"self": DYN, "oldSelf": DYN})
    return Environment({"self": declarations.type, "oldSelf": declarations.type}, declarations)


def _result(program: Program, found: Value, limit: int) -> JSONObject:
    where = {"place": found.place} if found.place else {}
    try:
        result, cost = program({"self": found.value, "oldSelf": found.old}, limit)
    except CELError as error:
        return {**where, "error": str(error), "cost": error.cost}
    return {**where, "value": _plain(result), "cost": cost}


def _estimates(cost: int, cardinality: int, options: RuleOptions) -> JSONObject:
    total = min(cost * cardinality, LARGEST)
    return {
        "estimatedCost": cost,
        "cardinality": cardinality,
        "estimatedTotal": total,
        "limit": MAX_EXPRESSION * options.budget,
    }


def _plain(value: Any) -> Any:
    """A CEL value as JSON; types that JSON lacks become strings."""
    match value:
        case None | bool() | str():
            return value
        case float():
            return value if math.isfinite(value) else show(value)
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list():
            return [_plain(item) for item in value]
        case dict():
            return {key if isinstance(key, str) else show(key): _plain(item) for key, item in value.items()}
        case Timestamp() | Duration():
            return to_string(value)
        case _:
            return show(value)


# --- a definition ---


def _definition_report(given: _Input, definition: Definition) -> JSONObject:
    """Reports on all versions, or on the one that the options name. An object is only validated by a valid definition."""
    chosen, all_of_them = _version(given, definition), not given.options.definition_version
    found = [
        _version_report(given, version, index)
        for index, version in enumerate(definition.versions)
        if all_of_them or version is chosen
    ]
    report: JSONObject = {"ok": not any(version["errors"] for version in found), "definition": definition.name, "versions": found}
    if report["ok"] and given.obj is not None:
        report["object"] = _object_report(given, chosen)
        report["ok"] = not report["object"]["errors"]
    return report


def _version_report(given: _Input, version: Version, index: int) -> JSONObject:
    path = FieldPath("spec.versions").index(index).child("schema", "openAPIV3Schema")
    options = SchemaOptions.of(given.spec, None, given.rule_options)
    errors = schema_rules.validate(version.schema, path, status=version.status_subresource, unchanged=False, options=options)
    rules = list(_rules(version, given.rule_options))
    return {
        "version": version.name,
        "file": str(given.options.definition_file),
        "rules": rules,
        "estimatedTotal": min(sum(rule["estimatedTotal"] for rule in rules), LARGEST),
        "limit": MAX_TOTAL * given.rule_options.budget,
        "errors": _errors(errors),
    }


def _rules(version: Version, options: RuleOptions) -> Iterator[JSONObject]:
    """Rules and messageExpressions, with their estimated costs."""
    for place in places(structural.compile(version.schema), sees_labels=options.sees_labels):
        for rule in compile_rules(place.declared.node.schema.get(VALIDATIONS) or [], place.declared):
            text = rule.rule.get("rule") or ""
            estimates = _estimates(rule.expression.max_cost(), place.cardinality, options)
            yield {"place": str(place), "rule": text, **estimates}
            text = rule.rule.get("messageExpression") or ""
            if text:
                # Upstream counts a messageExpression once, whatever its cardinality.
                yield {"place": str(place), "messageExpression": text, **_estimates(rule.message.max_cost(), 1, options)}


def _object_report(given: _Input, version: Version) -> JSONObject:
    schema = CompiledSchema(version.schema, given.rule_options)
    unknown = [f'unknown field "{path}"' for path in _conform(given.obj, schema, given.options.object_file)]
    if given.old is None:
        found = schema.on_create(given.obj)
    else:
        _conform(given.old, schema, given.options.old_object_file)
        found = schema.on_update(given.obj, given.old)
    problems = [*found.values, *found.structure]
    rules = schema.on_rules(given.obj, given.old, problems)
    return _judged(given.options.object_file, [*problems, *rules.errors], [*unknown, *rules.warnings])


def _judged(file: Path | None, errors: Iterable[FieldError], warnings: Iterable[str]) -> JSONObject:
    return {"file": str(file), "errors": _errors(errors), "warnings": list(warnings)}


def _errors(errors: Iterable[FieldError]) -> list[JSONObject]:
    return [{"field": error.field, "reason": error.reason, "message": _message(error)} for error in errors]


def _message(error: FieldError) -> str:
    """The server's text. For an error in a rule, without the rule's JSON, which would come before the error."""
    return error.detail if isinstance(error.value, RawJSON) else error.body()
