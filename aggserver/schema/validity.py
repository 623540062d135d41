"""Validity: whether a value has no errors at all, checked by generated code, one function for each node of a schema.

Nearly every value that is written is valid; `validation.py` collects the errors of the others. Tests check that the two modules
agree. In addition to the schema as written, this module checks what the structural schema adds: lists of type set and map, and
embedded resources. Rare cases (floats, enums of other values than strings, bounds with a fraction) are left to `validation.py`.

A node's function is generated when a value first gets there: the largest definitions have thousands of nodes, and objects use
few. But one value gets to all alternatives (`allOf` and the like). Compiling an alternative takes 100 us, so those with only
length limits are not compiled, and those beyond the first thousand are left to `validation.py`.

Pure. Source: that of `validation.py`; upstream has no such form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.meta import regexp
from aggserver.schema import formats, list_type, object_meta
from aggserver.schema.generation import Module
from aggserver.schema.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    TYPE_META,
    VALIDATIONS,
)
from aggserver.schema.validation import is_in, mismatch, types_and_format, validate

__all__ = ["Validity"]

Schema = Mapping[str, Any]
# Returns something true for an invalid value.
_Check = Callable[[Any], object]

_INT32_MAX = 2**31 - 1
# Integer bounds up to here are exact as a float64.
_EXACT = 2**53
# The most alternatives compiled for one schema. Real definitions have a few dozen.
_MOST_ALTERNATIVES = 1000
# Up to so many alternatives are called one by one in the source; more are called in a loop.
_MAX_INLINE = 8
# A value of each Python class that JSON values have.
_SAMPLES: Mapping[str, Any] = {"str": "", "dict": {}, "list": [], "int": 0, "float": 0.5, "bool": True}
_CLASSES: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list}
# Members of a schema that don't affect validity, once the type has been checked.
_NOT_VALIDATING = {"type", "title", "description", "default", "example", "externalDocs", "nullable", "format"}
_NOT_VALIDATING |= {PRESERVE, MAP_TYPE, VALIDATIONS}
# An explicit form of int-or-string that many authors add.
_EXPLICIT_INT_OR_STRING = ([{"type": "integer"}, {"type": "string"}], [{"type": "string"}, {"type": "integer"}])


class Validity:
    """Whether `validate` and the structural checks would find no error in a value. Keeps the functions it has compiled."""

    def __init__(self) -> None:
        # Keyed by the schema's id. The schema is kept with its check, so that the id can't be reused.
        self._checks: dict[int, tuple[_Check, Schema]] = {}
        self._compiler = _Compiler()

    def __call__(self, value: Any, schema: Schema) -> bool:
        """Whether the value is valid. schema: the value's schema, which must never be changed."""
        known = self._checks.get(id(schema))
        if known is None:
            known = self._checks[id(schema)] = self._compiler.check(schema, inside=False), schema
        return not known[0](value)


class _Children(dict[Any, _Check]):
    """Checks by name, compiled from `schemas` on first use. others: the check for any other name. inside: within a junctor."""

    def __init__(self, compiler: _Compiler, schemas: Mapping[Any, Schema], others: _Check, *, inside: bool) -> None:
        super().__init__()
        self._compiler = compiler
        self._schemas = schemas
        self._others = others
        self._inside = inside

    def __missing__(self, name: Any) -> _Check:
        schema = self._schemas.get(name)
        if schema is None:
            # Not stored in the dict, since the names that clients choose could fill the memory.
            return self._others
        check = self[name] = self._compiler.check(schema, inside=self._inside)
        return check


def _allowed(value: Any) -> bool:
    return False


def _forbidden(value: Any) -> bool:
    return True


class _Compiler:
    """Compiles the checks of one schema."""

    def __init__(self) -> None:
        self._alternatives = 0

    def check(self, schema: Schema, *, inside: bool) -> _Check:
        if inside:
            if schema and schema.keys() <= _LENGTHS:
                return _length_check(schema.get("minLength"), schema.get("maxLength"))
            self._alternatives += 1
            if self._alternatives > _MOST_ALTERNATIVES:
                return lambda value: bool(validate(value, schema))
        module = Module(is_in=is_in)
        name = module.function("bad", _Node(self, module, schema, inside=inside).lines())
        check: _Check = module.build()[name]
        return check


_LENGTHS = frozenset({"minLength", "maxLength"})


def _length_check(shortest: int | None, longest: int | None) -> _Check:
    least = shortest or 0
    if longest is None:
        return lambda value: value.__class__ is str and len(value) < least
    return lambda value: value.__class__ is str and not least <= len(value) <= longest


class _Node:
    """Writes the function for one node; `x` is the value, and true is returned if it is invalid.

    inside: the node is within a junctor, where structural extensions are ignored.
    """

    def __init__(self, compiler: _Compiler, module: Module, schema: Schema, *, inside: bool) -> None:
        self._compiler = compiler
        self._module = module
        self._schema = schema
        self._inside = inside
        self._types, self._format = types_and_format(schema)
        self._enum = schema.get("enum") or []
        # `validate` for this node, for cases that the generated code does not handle.
        self._plain = module.bind("plain", lambda value: bool(validate(value, schema)))

    def lines(self) -> list[str]:
        bodies = {"str": self._string, "dict": self._object, "list": self._list, "int": self._integer}
        lines = ["c = x.__class__"]
        word = "if"
        for name, sample in _SAMPLES.items():
            if name == "float":
                # A float may count as an integer.
                body = [f"return {self._plain}(x)"] if not self._types or {"integer", "number"} & set(self._types) else None
            elif mismatch(sample, self._types, self._format, nullable=False):
                body = None
            else:
                body = bodies.get(name, self._other)()
            if body is not None:
                lines += [f"{word} c is {name}:", *("  " + line for line in body or ["pass"])]
                word = "elif"
        null = mismatch(None, self._types, self._format, nullable=bool(self._schema.get("nullable")))
        lines += [f"{word} x is None: return {bool(null or self._enum)}", "else: return True"]
        return lines + self._junctors()

    def _string(self) -> list[str]:
        get = self._schema.get
        tests = []
        for keyword, sign in (("maxLength", ">"), ("minLength", "<")):
            if (limit := get(keyword)) is not None:
                tests.append(f"len(x) {sign} {int(limit)}")
        if self._enum:
            tests.append(f"x not in {self._module.constant(frozenset(each for each in self._enum if isinstance(each, str)))}")
        if self._format in ("", "password"):
            pass
        elif is_format := formats.FORMATS.get(self._format.replace("-", "")):
            tests.append(f"not {self._module.bind('is_format', is_format)}(x)")
        if get("pattern"):
            try:
                tests.append(f"not {self._module.bind('matches', regexp.matcher(get('pattern')))}(x)")
            except regexp.PatternError:
                tests.append("True")
        return [f"if {test}: return True" for test in tests]

    def _integer(self) -> list[str]:
        get = self._schema.get
        low, high = -_EXACT, _EXACT
        tests = []
        if self._format == "int32":
            low, high = -_INT32_MAX - 1, _INT32_MAX
            tests.append(f"not {low} <= x <= {high}")
        for keyword, exclusive, sign in (("minimum", "exclusiveMinimum", "<"), ("maximum", "exclusiveMaximum", ">")):
            bound = get(keyword)
            if bound is None:
                continue
            if not low <= bound <= high or int(bound) != bound:
                return [f"return {self._plain}(x)"]
            tests.append(f"x {sign}{'=' if get(exclusive) else ''} {int(bound)}")
        if get("multipleOf") is not None or self._enum:
            return [f"return {self._plain}(x)"]
        return [f"if {test}: return True" for test in tests]

    def _other(self) -> list[str]:
        return [f"if not is_in(x, {self._module.bind('enum', self._enum)}): return True"] if self._enum else []

    def _list(self) -> list[str]:
        get = self._schema.get
        lines = self._sizes("minItems", "maxItems") + self._other()
        if get("uniqueItems"):
            lines.append(f"if {self._plain}(x): return True")
        kind, keys = get(LIST_TYPE) or "", tuple(get(LIST_MAP_KEYS) or ())
        if not self._inside and kind in ("set", "map"):
            has = self._module.bind("has_duplicates", lambda items: list_type.has_duplicates(items, kind, keys))
            lines.append(f"if len(x) > 1 and {has}(x): return True" if kind == "set" else f"if x and {has}(x): return True")
        if (items := get("items")) is not None:
            lines += ["for v in x:", *("  " + line for line in self._each(items))]
        return lines

    def _object(self) -> list[str]:
        get = self._schema.get
        lines = self._sizes("minProperties", "maxProperties") + self._other()
        lines += [f"if {self._module.constant(name)} not in x: return True" for name in get("required") or ()]
        if not self._inside and get(EMBEDDED):
            lines.append(f"if {self._module.bind('validate_resource', object_meta.validate_resource)}(x): return True")
        properties = {name: child for name, child in (get("properties") or {}).items() if child is not None}
        extra = get("additionalProperties")
        if properties:
            return lines + self._members(properties, extra)
        if isinstance(extra, Mapping):
            lines += ["for v in x.values():", *("  " + line for line in self._each(extra))]
        elif extra is False:
            lines.append("if x: return True")
        return lines

    def _members(self, properties: Mapping[str, Schema], extra: Any) -> list[str]:
        others: _Check = _forbidden if extra is False else _allowed
        if isinstance(extra, Mapping):
            others = self._compiler.check(extra, inside=self._inside)
        children = _Children(self._compiler, properties, others, inside=self._inside)
        if extra is None:
            # Most objects have them, but few schemas specify them.
            children.update((name, _allowed) for name in TYPE_META if name not in properties)
        plain = {name: only for name, child in properties.items() if (only := _only_class(child))}
        lines = ["for k, v in x.items():"]
        if plain:
            lines.append(f"  if {self._module.bind('classes', plain)}.get(k) is v.__class__: continue")
        return [*lines, f"  if {self._module.bind('checks', children)}[k](v): return True"]

    def _each(self, schema: Schema) -> list[str]:
        """Lines that check one value `v` of many under the same schema."""
        check = self._module.bind("each", _Children(self._compiler, {0: schema}, _allowed, inside=self._inside))
        only = _only_class(schema)
        return [f"if {f'v.__class__ is not {only.__name__} and ' if only else ''}{check}[0](v): return True"]

    def _sizes(self, fewest: str, most: str) -> list[str]:
        least, greatest = self._schema.get(fewest), self._schema.get(most)
        lines = [] if least is None else [f"if len(x) < {int(least)}: return True"]
        return lines if greatest is None else [*lines, f"if len(x) > {int(greatest)}: return True"]

    def _junctors(self) -> list[str]:
        get = self._schema.get
        any_of, one_of, all_of, forbidden = get("anyOf"), get("oneOf"), get("allOf"), get("not")
        lines = []
        if any_of and not (get(INT_OR_STRING) and any_of in _EXPLICIT_INT_OR_STRING):
            lines.append(f"if {self._alternatives(any_of, 'all', ' and ')}: return True")
        if one_of:
            lines.append(f"if {self._alternatives(one_of, 'sum', ' + ', 'not ')} != 1: return True")
        if all_of:
            lines.append(f"if {self._alternatives(all_of, 'any', ' or ')}: return True")
        if forbidden is not None:
            lines.append(f"if not {self._alternatives([forbidden], 'any', ' or ')}: return True")
        return ["if x is None: return False", *lines] if lines else []

    def _alternatives(self, schemas: list[Schema], function: str, joined_by: str, before: str = "") -> str:
        """The code of `function` over the checks of all alternatives, with `before` in front of each."""
        checks = self._module.bind("alternatives", _Children(self._compiler, dict(enumerate(schemas)), _allowed, inside=True))
        if len(schemas) > _MAX_INLINE:
            return f"{function}({before}{checks}[i](x) for i in range({len(schemas)}))"
        return joined_by.join(f"({before}{checks}[{index}](x))" for index in range(len(schemas)))


def _only_class(schema: Schema) -> type | None:
    """The Python class all of whose values are valid under the schema; None if there is none."""
    keywords = {key for key, value in schema.items() if value is not None} - _NOT_VALIDATING
    _, format_ = types_and_format(schema)
    if keywords - {LIST_TYPE} or format_ not in ("", "int64", "password") or schema.get(LIST_TYPE) not in (None, "atomic"):
        return None
    return _CLASSES.get(schema.get("type") or "")
