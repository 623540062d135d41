"""Constraints: what stands beside a type in `Annotated[...]`, as keywords of its schema.

Recognized by attributes, whatever library an object is from; what has none of them is no constraint. Bounds of a schema are int64
and patterns are RE2, so others are refused rather than rounded or dropped. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aggserver.meta.golang import INT64_MAX, INT64_MIN
from aggserver.meta.regexp import PatternError, matcher
from aggserver.schema.structural import VALIDATIONS
from aggserver.typed.markers import Extra, Format, Rule
from aggserver.typed.shape import Shape

__all__ = ["constrain", "described", "number_problem", "pattern_problem"]

# In bytes. A description is sent with every OpenAPI document.
_MAX_DESCRIPTION = 4096

# Attribute of a constraint -> keyword of a schema, by what it limits.
_BOUNDS = {"gt": "minimum", "ge": "minimum", "lt": "maximum", "le": "maximum", "multiple_of": "multipleOf"}
_LENGTHS = {
    "string": {"min_length": "minLength", "max_length": "maxLength"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
# Members of an Extra that the schema of a resource can't have, and that say nothing about values.
_DROPPED = frozenset({"title", "examples", "example", "readOnly", "contentMediaType", "$comment"})


def constrain(shape: Shape, extra: Any) -> Iterator[str]:
    """Add a constraint to the schema of a shape. Yields what is wrong with it, and what to write instead."""
    schema = shape.schema
    if isinstance(extra, Extra):
        if extra.schema.get("writeOnly"):
            yield "whoever may read an object sees all of it: keep secrets in a Secret, and refer to it"
        schema.update({name: value for name, value in extra.schema.items() if name not in _DROPPED and name != "writeOnly"})
    elif isinstance(extra, Rule):
        rule = {"rule": extra.rule} | ({"message": extra.message} if extra.message else {})
        schema[VALIDATIONS] = [*schema.get(VALIDATIONS, ()), rule]
    elif isinstance(extra, Format):
        schema["format"] = extra.format
    else:
        for name in _BOUNDS:
            if (value := _given(extra, name)) is not None:
                yield from _bound(shape, name, value)
        for name in ("min_length", "max_length"):
            if (value := _given(extra, name)) not in (None, 0):
                yield from _length(shape, name, value)
        if (pattern := _given(extra, "pattern")) is not None:
            yield from _text_pattern(shape, getattr(pattern, "pattern", pattern))
        nested = _given(extra, "extra_json_schema")
        if isinstance(nested, Mapping):
            yield from constrain(shape, Extra(nested))
        if callable(_given(extra, "func")) and type(extra).__name__ in ("Predicate", "Not"):
            yield "a Python function can't be a part of a schema: use a Rule, or a validate hook"


def _given(extra: Any, name: str) -> Any:
    return getattr(extra, name, None) if not isinstance(extra, type) else None


def _bound(shape: Shape, name: str, value: Any) -> Iterator[str]:
    schema = shape.schema
    if shape.type not in ("integer", "number"):
        yield f"a schema can't compare such values ({name}): use a Rule, or a validate hook"
        return
    if problem := number_problem(value):
        yield problem
        return
    keyword = _BOUNDS[name]
    schema[keyword] = value
    if name in ("gt", "lt"):
        schema["exclusiveMinimum" if name == "gt" else "exclusiveMaximum"] = True


def number_problem(value: Any) -> str:
    """Why a number can't be a bound in a schema; '' if it can."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"a bound must be an int or a float, not {type(value).__name__}"
    if value != value or not INT64_MIN <= value <= INT64_MAX:
        return f"the bound {value} is outside of 64 bits: leave it out"
    return ""


def _length(shape: Shape, name: str, value: int) -> Iterator[str]:
    keyword = _LENGTHS.get(shape.type, {}).get(name)
    if shape.schema.get("format") == "byte":
        yield f"a schema would count the characters of base64, not bytes ({name}): use a validate hook"
    elif keyword is None or shape.of_class is not None:
        yield f"such values have no length in a schema ({name}): use a Rule, or a validate hook"
    elif value > INT64_MAX:
        yield f"the length {value} is outside of 64 bits: leave it out"
    else:
        shape.schema[keyword] = value


def _text_pattern(shape: Shape, pattern: Any) -> Iterator[str]:
    if shape.type != "string" or not isinstance(pattern, str):
        yield "a pattern is for str: use a Rule, or a validate hook"
    elif problem := pattern_problem(pattern):
        yield problem
    else:
        shape.schema["pattern"] = pattern


def pattern_problem(pattern: str) -> str:
    """Why a pattern can't be in a schema; '' if it can."""
    try:
        matcher(pattern)
    except PatternError as why:
        return f"the pattern must be in Go's syntax (RE2): {why}; use a validate hook for what it lacks"
    return ""


def described(text: str) -> str:
    """A description, of which only the first part is kept if it is long."""
    return text.strip().encode()[:_MAX_DESCRIPTION].decode(errors="ignore")
