"""Validation of a value by the schema as written, with upstream's errors in upstream's order.

It walks the value with its schema and collects all errors. This is the slow form, used only for values that `validity.py`,
compiled from the same schema, has found invalid; tests check that the two agree. On an update, errors of unchanged values are
dropped (`ratcheting.py`).

The size of the errors is limited, and thereby the work: one value may have an error for each of its items under each of several
alternatives, each with a long text. A walk that has collected enough stops.

Where upstream's order is that of a Go map, names are sorted here. Repeated texts are reported once. An error of allOf, anyOf,
oneOf or not, or of a number out of its type's range, has no field path, and is shown at `<nil>`.
Pure. Source: k8s.io/kube-openapi pkg/validation/{validate,errors}; k8s.io/apiextensions-apiserver
pkg/apiserver/validation/{validation,ratcheting}.go, v0.36.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aggserver.meta import codec, field, regexp
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import quote, to_json
from aggserver.schema import formats, numbers
from aggserver.schema.ratcheting import Correlation
from aggserver.schema.structural import INT_OR_STRING

__all__ = ["is_in", "mismatch", "types_and_format", "validate"]

Schema = Mapping[str, Any]
Passes = Callable[[Any, Schema], bool]

# Bytes of the errors that a walk collects: more than a response contains (`meta/errors.py`).
_MAX_ERROR_BYTES = 1024 * 1024
_NO_BOUND = 1 << 62
_ROOT = Path()
_JUNCTORS = frozenset({"anyOf", "oneOf", "allOf", "not"})
# Python class -> JSON type, and Go's format of such a value.
_TYPES: Mapping[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
    type(None): ("null", ""),
}


def validate(
    value: Any,
    schema: Schema,
    prefix: Path | None = None,
    correlation: Correlation | None = None,
    passes: Passes | None = None,
) -> list[FieldError]:
    """All errors of `value`. prefix: the path of `value` if it is not the whole object; error texts don't contain it.

    correlation: the old value; if given, errors of unchanged values are dropped. passes: a fast check that a value has no errors,
    used for the parts of large values.
    """
    for enough in (_MAX_ERROR_BYTES, _NO_BOUND):
        walk = _Walk(prefix or Path(), passes, enough)
        result = walk.node(value, schema, _ROOT, correlation)
        if result.errors or not walk.is_cut_short:
            break
        # If all collected errors were dropped, being those of unchanged values, the rest of the value must still be validated.
    rest = [field.invalid(prefix or Path(), "", "further errors are omitted")] if result.errors and result.is_cut_short else []
    return [*result.errors.values(), *rest]


def types_and_format(schema: Schema) -> tuple[tuple[str, ...], str]:
    """The allowed types (none means all), and the format if it is checked."""
    given = schema.get("type")
    types = ("integer", "string") if schema.get(INT_OR_STRING) else (given,) if given else ()
    return types, formats.effective(schema.get("format") or "", types)


def mismatch(value: Any, types: tuple[str, ...], format_: str, *, nullable: bool) -> tuple[str, str] | None:
    """(expected type, actual type) if the value has a wrong type; None otherwise."""
    actual, actual_format = _TYPES[value.__class__]
    if value is None:
        return (",".join(types), actual) if types and not nullable else None
    if not types and not format_:
        return None
    fits = (
        actual in types
        or (actual == "number" and "integer" in types and numbers.is_integral(value))
        or (actual == "integer" and "number" in types)
    )
    if actual not in ("string", "array"):
        if format_ and not fits and actual_format != format_:
            return format_, actual_format
    elif format_ and not {"number", "integer"} & set(types):
        # With a format, strings pass here, since the format is checked later; lists pass too, as in upstream.
        return None
    return None if fits else (",".join(types), actual)


def is_in(value: Any, enum: Sequence[Any]) -> bool:
    """Whether the value, converted to the type of an enum's member as by Go, equals that member. Null is in no enum."""
    return value is not None and any(_equals(value, each) for each in enum)


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool) or value.__class__ is wanted.__class__:
        return codec.same(value, wanted)
    if isinstance(value, int):
        if isinstance(wanted, float):
            return float(value) == wanted
        # Go converts an integer to the character with that code point.
        return isinstance(wanted, str) and 0 <= value <= 0x10FFFF and chr(value) == wanted
    return isinstance(value, float) and isinstance(wanted, int) and numbers.as_int64(value) == wanted


class _Result:
    """The result of checks. matches: how many passed, by which upstream chooses the alternative whose errors it reports.

    errors: keyed by text, since each text is reported once. is_cut_short: there may be more errors.
    """

    __slots__ = ("errors", "is_cut_short", "matches")

    def __init__(self) -> None:
        self.errors: dict[str, FieldError] = {}
        self.matches = 0
        self.is_cut_short = False

    def merge(self, other: _Result) -> None:
        for text, error in other.errors.items():
            self.errors.setdefault(text, error)
        self.matches += other.matches
        self.is_cut_short |= other.is_cut_short


class _Walk:
    """A walk over a value and its schema. enough: bytes of errors after which it stops."""

    def __init__(self, prefix: Path, passes: Passes | None, enough: int) -> None:
        self._prefix = prefix
        self._passes = passes
        self._left = enough
        self.is_cut_short = False

    def node(self, value: Any, schema: Schema, path: Path, correlation: Correlation | None) -> _Result:
        result = _Result()
        if self._left < 0:
            self.is_cut_short = result.is_cut_short = True
            return result
        if self._passes is not None and self._passes(value, schema):
            return result
        self._check(result, value, schema, path, correlation)
        if result.errors and correlation is not None and correlation.is_unchanged():
            self._left += sum(itertools.starmap(_weight, result.errors.items()))
            result.errors.clear()
            result.is_cut_short = False
        return result

    def _add(self, result: _Result, text: str, error: FieldError) -> None:
        if text not in result.errors:
            result.errors[text] = error
            self._left -= _weight(text, error)

    def _adopt(self, result: _Result, other: _Result) -> None:
        """Merge the result of another walk over the same value."""
        for text, error in other.errors.items():
            self._add(result, text, error)
        result.matches += other.matches
        result.is_cut_short |= other.is_cut_short

    def _check(self, result: _Result, value: Any, schema: Schema, path: Path, correlation: Correlation | None) -> None:
        types, format_ = types_and_format(schema)
        wrong = mismatch(value, types, format_, nullable=bool(schema.get("nullable")))
        if wrong:
            wanted, actual = wrong
            self._type_error(result, path, wanted, actual)
        if value is None:
            result.matches += not wrong
            self._enum(result, value, schema, path)
            return
        if types or format_:
            result.matches += 1 if wrong else 2
        self._junctors(result, value, schema, path)
        if isinstance(value, str):
            self._string(result, value, schema, path)
            if format_ and (is_valid := formats.FORMATS.get(format_.replace("-", ""))):
                if not is_valid(value):
                    self._type_error(result, path, format_, value)
                result.matches += 1
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._number(result, value, schema, path, types[0] if len(types) == 1 else "", format_)
        elif isinstance(value, list):
            self._list(result, value, schema, path, correlation)
        self._enum(result, value, schema, path)
        result.matches += 1
        if isinstance(value, dict):
            self._object(result, value, schema, path, correlation)
            result.matches += 1
        result.matches += 1

    def _junctors(self, result: _Result, value: Any, schema: Schema, path: Path) -> None:
        result.matches += 2
        if _JUNCTORS.isdisjoint(schema):
            return
        # Alternatives that pass count as matches too.
        any_of, one_of, all_of = (schema.get(key) or () for key in ("anyOf", "oneOf", "allOf"))

        def judged(schemas: Sequence[Schema]) -> Iterator[_Result]:
            # Each alternative has its own limit. A walk that is cut short has an error, so the alternative has not passed.
            enough = max(min(self._left, _MAX_ERROR_BYTES), 0) // len(schemas)
            return (_Walk(self._prefix, None, enough).node(value, each, path, None) for each in schemas)

        if any_of:
            self._any_of(result, judged(any_of), path)
        if one_of:
            self._one_of(result, list(judged(one_of)), path)
        if all_of:
            outcomes = list(judged(all_of))
            for outcome in outcomes:
                self._adopt(result, outcome)
            valid = sum(not outcome.errors for outcome in outcomes)
            if valid < len(outcomes):
                more = "" if valid else ". None validated"
                self._unplaced(result, f"{quote(path.text)} must validate all the schemas (allOf){more}")
        if schema.get("not") is not None and not next(judged([schema["not"]])).errors:
            self._unplaced(result, f"{quote(path.text)} must not validate the schema (not)")

    def _any_of(self, result: _Result, outcomes: Iterator[_Result], path: Path) -> None:
        failures = []
        for outcome in outcomes:
            if not outcome.errors:
                self._adopt(result, outcome)
                return
            failures.append(outcome)
        self._unplaced(result, f"{quote(path.text)} must validate at least one schema (anyOf)")
        self._adopt(result, max(failures, key=_matches))

    def _one_of(self, result: _Result, outcomes: Sequence[_Result], path: Path) -> None:
        valid = [outcome for outcome in outcomes if not outcome.errors]
        if len(valid) == 1:
            self._adopt(result, valid[0])
            return
        found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        self._unplaced(result, f"{quote(path.text)} must validate one and only one schema (oneOf). {found}")
        if not valid:
            self._adopt(result, max(outcomes, key=_matches))

    def _string(self, result: _Result, value: str, schema: Schema, path: Path) -> None:
        """Check a string. Only the first error is reported."""
        result.matches += 1
        longest, shortest, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
        if longest is not None and len(value) > longest:
            text = f"{path.text} in body should be at most {longest} chars long"
            self._add(result, text, field.too_long(self._place(path), longest))
        elif shortest is not None and len(value) < shortest:
            self._invalid(result, path, value, f"should be at least {shortest} chars long")
        elif pattern:
            try:
                if not regexp.matcher(pattern)(value):
                    self._invalid(result, path, value, f"should match '{pattern}'")
            except regexp.PatternError as error:
                self._invalid(result, path, value, f"should match '{pattern}, but pattern is invalid: {error}'")

    def _number(self, result: _Result, value: int | float, schema: Schema, path: Path, type_: str, format_: str) -> None:
        for text, shown in numbers.problems(value, schema, type_, format_, path):
            if shown is numbers.UNPLACED:
                self._unplaced(result, text)
            else:
                self._add(result, text, field.invalid(self._place(path), shown, text))
        result.matches += 2

    def _list(self, result: _Result, value: list[Any], schema: Schema, path: Path, correlation: Correlation | None) -> None:
        if (items := schema.get("items")) is not None:
            for index, item in enumerate(value):
                if self._left < 0:
                    self.is_cut_short = result.is_cut_short = True
                    break
                before = correlation.index(index) if correlation else None
                result.merge(self.node(item, items, path.index(index), before))
        fewest, most = schema.get("minItems"), schema.get("maxItems")
        if fewest is not None and len(value) < fewest:
            self._invalid(result, path, len(value), f"should have at least {fewest} items")
        if most is not None and len(value) > most:
            text = f"{path.text} in body should have at most {most} items"
            self._add(result, text, field.too_many(self._place(path), len(value), most))
        if schema.get("uniqueItems") and len(set(map(to_json, value))) < len(value):
            self._invalid(result, path, "", "shouldn't contain duplicates")
        result.matches += 2

    def _object(
        self, result: _Result, value: dict[str, Any], schema: Schema, path: Path, correlation: Correlation | None
    ) -> None:
        fewest, most = schema.get("minProperties"), schema.get("maxProperties")
        if fewest is not None and len(value) < fewest:
            self._invalid(result, path, len(value), f"should have at least {fewest} properties")
        if most is not None and len(value) > most:
            text = f"{path.text} in body should have at most {most} properties"
            self._add(result, text, field.too_many(self._place(path), len(value), most))
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
        known = {name: child for name, child in properties.items() if child is not None}
        for name in sorted(value.keys() - known.keys()):
            if extra is False:
                text = f"{path.text}.{name} in body is a forbidden property"
                self._add(result, text, field.invalid(self._place(path), name, text))
            elif isinstance(extra, Mapping):
                self._member(result, value, name, extra, _below(path, name), correlation, at_root=path is _ROOT)
        for name in sorted(value.keys() & known.keys()):
            at = Path(name, path) if path is _ROOT else _below(path, name)
            self._member(result, value, name, known[name], at, correlation, at_root=path is _ROOT)
        for name in schema.get("required") or ():
            if name not in value:
                text = f"{path.text}.{name} in body is required"
                self._add(result, text, field.required(self._place(_below(path, name))))

    def _member(
        self,
        result: _Result,
        value: dict[str, Any],
        name: str,
        schema: Schema,
        path: Path,
        correlation: Correlation | None,
        *,
        at_root: bool,
    ) -> None:
        # The root's kind and apiVersion have been converted to this version, so they can't show a change.
        kept = correlation is not None and not (at_root and name in ("kind", "apiVersion"))
        result.merge(self.node(value[name], schema, path, correlation.key(name) if correlation and kept else None))

    def _enum(self, result: _Result, value: Any, schema: Schema, path: Path) -> None:
        enum = schema.get("enum")
        if enum and not is_in(value, enum):
            supported = [each if isinstance(each, str) else to_json(each) for each in enum]
            text = f"{path.text} in body should be one of {supported}"
            self._add(result, text, field.not_supported(self._place(path), value, supported))

    def _type_error(self, result: _Result, path: Path, wanted: str, shown: str) -> None:
        text = f"{path.text} in body must be of type {wanted}: {quote(shown)}"
        self._add(result, text, field.type_invalid(self._place(path), shown, text))

    def _invalid(self, result: _Result, path: Path, shown: Any, what: str) -> None:
        text = f"{path.text} in body {what}"
        self._add(result, text, field.invalid(self._place(path), shown, text))

    def _unplaced(self, result: _Result, text: str) -> None:
        self._add(result, text, field.invalid(self._prefix, "", text))

    def _place(self, path: Path) -> Path:
        text = path.text.removeprefix(".")
        return self._prefix.child(text) if text else self._prefix


def _below(path: Path, name: str) -> Path:
    """The path of a member, which begins with a dot even at the root, unlike `Path.child`."""
    return Path(f".{name}", path)


def _weight(text: str, error: FieldError) -> int:
    """The approximate size of an error in a response, in bytes."""
    value = error.value
    size = len(value) if isinstance(value, str) else len(codec.encode_json(value)) if isinstance(value, dict | list) else 8
    return len(text) + len(error.detail) + size


def _matches(result: _Result) -> int:
    return result.matches
