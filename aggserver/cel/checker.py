"""The type checker: resolves variables, fields and overloads, and gives every subexpression a type.

`check` turns source text into what the cost estimate and the code generator work on. Errors are cel-go's word by word and in
its order, since the API server shows them to authors of rules.
Source: cel-go checker/{checker,env,types}.go, v0.26.0; the environment: k8s.io/apiserver pkg/cel/environment/base.go,
v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, MapEntry, Select, Struct, StructField
from aggserver.cel.declarations import TYPE_NAMES, Overload, functions, patch_functions
from aggserver.cel.errors import Errors
from aggserver.cel.inference import Inference, most_general
from aggserver.cel.literals import check_literals
from aggserver.cel.parser import parse
from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Kind,
    NoTypes,
    Type,
    TypeProvider,
    list_of,
    map_of,
    object_type,
    optional_of,
    type_of,
)

__all__ = ["Checked", "Environment", "check"]

_LITERALS = {"null": NULL, "bool": BOOL, "int": INT, "uint": UINT, "double": DOUBLE, "string": STRING, "bytes": BYTES}


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables and types that an expression may name, in addition to the functions of the libraries.

    makes_patches: whether it may also call the functions for patches.
    """

    variables: Mapping[str, Type]
    provider: TypeProvider = field(default_factory=NoTypes)
    makes_patches: bool = False


@dataclass(frozen=True, slots=True)
class Checked:
    expr: Expr
    """With names resolved: a qualified name is one Ident, and a namespaced function has no target."""
    types: Mapping[int, Type]
    """Keyed by expression id."""
    overloads: Mapping[int, tuple[str, ...]]
    """Keyed by call id: the overloads that fit the argument types; several where a type is dyn."""
    references: Mapping[int, str | Type]
    """Keyed by identifier id: the name of the variable, or the type it denotes."""

    @property
    def type(self) -> Type:
        return self.types[self.expr.id]


def check(source: str, environment: Environment) -> Checked:
    """Parse and check an expression.

    Raises:
        CompileError: with all errors found.
    """
    expr = parse(source)
    errors = Errors(source)
    checker = _Checker(environment, errors)
    expr = checker.check(expr)
    errors.raise_any()
    inference = checker.inference
    types = {number: inference.substitute(type_, params_to_dyn=True) for number, type_ in checker.types.items()}
    checked = Checked(expr, types, checker.overloads, checker.references)
    check_literals(expr, types, errors)
    errors.raise_any()
    return checked


class _Checker:
    def __init__(self, environment: Environment, errors: Errors) -> None:
        self._environment = environment
        self._errors = errors
        self._functions = {**functions(), **patch_functions()} if environment.makes_patches else functions()
        # The variables of comprehensions, innermost last.
        self._scopes: list[dict[str, Type]] = []
        self.inference = Inference()
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.references: dict[int, str | Type] = {}

    def check(self, expr: Expr) -> Expr:
        """Record the types of the expression and its subexpressions; return it with names resolved."""
        match expr:
            case Literal():
                self.types[expr.id] = _LITERALS[expr.kind]
                return expr
            case Ident():
                return self._ident(expr)
            case Select():
                return self._select(expr)
            case Call():
                return self._optional_select(expr) if expr.function == "_?._" else self._call(expr)
            case List():
                return self._list(expr)
            case Map():
                return self._map(expr)
            case Struct():
                return self._struct(expr)
            case Comprehension():
                return self._comprehension(expr)

    def _type(self, expr: Expr) -> Type:
        return self.types[expr.id]

    # Names

    def _look_up(self, name: str) -> tuple[str, Type, str | Type] | None:
        """The full name of an identifier, its type, and what it refers to."""
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return name, scope[name], name
        if (variable := self._environment.variables.get(name)) is not None:
            return name, variable, name
        named = TYPE_NAMES.get(name)
        if named is None and self._environment.provider.fields(name) is not None:
            named = object_type(name)
        return None if named is None else (name, type_of(named), named)

    def _undeclared(self, expr: Expr, name: str) -> None:
        self._errors.add(expr.offset, f"undeclared reference to '{name}' (in container '')")
        self.types[expr.id] = ERROR

    def _resolved(self, expr: Expr, found: tuple[str, Type, str | Type]) -> Ident:
        name, type_, reference = found
        self.types[expr.id] = type_
        self.references[expr.id] = reference
        return Ident(expr.id, expr.offset, name)

    def _ident(self, expr: Ident) -> Expr:
        if found := self._look_up(expr.name):
            return self._resolved(expr, found)
        self._undeclared(expr, expr.name)
        return expr

    # Fields

    def _select(self, expr: Select) -> Expr:
        name = _qualified_name(expr)
        if name and (found := self._look_up(name)):
            return self._resolved(expr, found)
        operand, type_ = self._field(expr, expr.operand, expr.field)
        self.types[expr.id] = BOOL if expr.test_only else self.inference.substitute(type_)
        return Select(expr.id, expr.offset, operand, expr.field, expr.test_only)

    def _optional_select(self, expr: Call) -> Expr:
        operand, name = expr.args
        assert isinstance(name, Literal)
        operand, type_ = self._field(expr, operand, str(name.value), optional=True)
        self.types[expr.id] = self.inference.substitute(type_)
        self.overloads[expr.id] = ("select_optional_field",)
        return replace(expr, args=(operand, name))

    def _field(self, expr: Expr, operand: Expr, name: str, optional: bool = False) -> tuple[Expr, Type]:
        """Return the operand with names resolved, and the type of its field."""
        operand = self.check(operand)
        target = self.inference.substitute(self._type(operand))
        if target.is_optional:
            optional = True
            target = target.element
        match target.kind:
            case Kind.MAP:
                result = target.element
            case Kind.OBJECT:
                result = self._declared_field(expr, target.name, name)
            case Kind.PARAM:
                # The type parameter was unbound; a field selection binds it to dyn.
                self.inference.is_assignable(DYN, target)
                result = DYN
            case Kind.DYN | Kind.ERROR:
                result = DYN
            case _:
                self._errors.add(expr.offset, f"type '{target}' does not support field selection")
                result = DYN
        return operand, optional_of(result) if optional else result

    def _declared_field(self, at: Expr | StructField, type_name: str, name: str) -> Type:
        fields = self._environment.provider.fields(type_name)
        if fields is None:
            self._errors.add(at.offset, f"unexpected failed resolution of '{type_name}'")
            return ERROR
        if name not in fields:
            self._errors.add(at.offset, f"undefined field '{name}'")
            return ERROR
        return fields[name]

    # Calls

    def _call(self, expr: Call) -> Expr:
        args, target = tuple(map(self.check, expr.args)), expr.target
        if target is None:
            name = expr.function.removeprefix(".")
            if name not in self._functions:
                self._undeclared(expr, expr.function)
                return expr
            return self._resolve(Call(expr.id, expr.offset, name, None, args))
        # a.b.c() may be the function a.b.c, or the function c of the target a.b.
        prefix = _qualified_name(target)
        name = f"{prefix}.{expr.function}".removeprefix(".")
        if prefix and name in self._functions:
            return self._resolve(Call(expr.id, expr.offset, name, None, args))
        expr = Call(expr.id, expr.offset, expr.function, self.check(target), args)
        if expr.function in self._functions:
            return self._resolve(expr)
        self._undeclared(expr, expr.function)
        return expr

    def _resolve(self, call: Call) -> Call:
        """Record the overloads and the result type for a call of a known function; return the call."""
        given = [self._type(arg) for arg in call.args]
        if call.target is not None:
            given.insert(0, self._type(call.target))
        if call.function in ("_&&_", "_||_"):
            self._logical(call, given)
            return call
        chosen: list[str] = []
        result: Type | None = None
        for overload in self._functions[call.function]:
            if overload.is_member != (call.target is not None) or len(overload.args) != len(given):
                continue
            args, overload_result = self._instance(overload)
            if not self.inference.are_assignable(given, args):
                continue
            chosen.append(overload.id)
            own = self.inference.substitute(overload_result)
            if result is None:
                result = own
            elif not result.is_dyn and own != result:
                result = DYN
        if result is None:
            self._no_overload(call, given)
            return call
        self.types[call.id] = result
        self.overloads[call.id] = tuple(chosen)
        return call

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """The argument and result types of an overload, with fresh type parameters."""
        if not overload.params:
            return overload.args, overload.result
        return self.inference.instantiate(overload.params, overload.args, overload.result)

    def _logical(self, call: Call, given: list[Type]) -> None:
        self.types[call.id] = BOOL
        for arg, type_ in zip(call.args, given, strict=True):
            if not self.inference.is_assignable(type_, BOOL):
                self._mismatch(arg, BOOL, type_)
                self.types[call.id] = ERROR
        if not self.types[call.id].is_error:
            self.overloads[call.id] = tuple(overload.id for overload in self._functions[call.function])

    def _no_overload(self, call: Call, given: list[Type]) -> None:
        shown = [str(self.inference.substitute(type_, params_to_dyn=True)) for type_ in given]
        target = "" if call.target is None else f"{shown.pop(0)}."
        signature = f"{target}({', '.join(shown)})"
        self._errors.add(call.offset, f"found no matching overload for '{call.function}' applied to '{signature}'")
        self.types[call.id] = ERROR

    # Aggregates

    def _list(self, expr: List) -> Expr:
        element: Type | None = None
        elements: list[Expr] = []
        for index, item in enumerate(expr.elements):
            elements.append(self.check(item))
            element = self._join(element, self._value_type(item, index in expr.optional_indices))
        self.types[expr.id] = list_of(element or self.inference.new_param())
        return replace(expr, elements=tuple(elements))

    def _map(self, expr: Map) -> Expr:
        key: Type | None = None
        value: Type | None = None
        entries: list[MapEntry] = []
        for entry in expr.entries:
            entry = replace(entry, key=self.check(entry.key))
            key = self._join(key, self._type(entry.key))
            entry = replace(entry, value=self.check(entry.value))
            value = self._join(value, self._value_type(entry.value, entry.optional))
            entries.append(entry)
        self.types[expr.id] = map_of(key or self.inference.new_param(), value or self.inference.new_param())
        return replace(expr, entries=tuple(entries))

    def _struct(self, expr: Struct) -> Expr:
        found = self._look_up(expr.type_name)
        if found is None:
            self._undeclared(expr, expr.type_name)
            return expr
        name, type_, reference = found
        self.references[expr.id] = reference
        self.types[expr.id] = ERROR
        if type_.kind is not Kind.TYPE:
            self._errors.add(expr.offset, f"'{type_.runtime_name or type_.name}' is not a type")
        elif (made := type_.element).kind is Kind.OBJECT:
            self.types[expr.id] = made
        else:
            self._errors.add(expr.offset, f"'{made.runtime_name or made.name}' is not a message type")
        return replace(expr, type_name=name, fields=tuple(self._struct_field(name, item) for item in expr.fields))

    def _struct_field(self, type_name: str, item: StructField) -> StructField:
        item = replace(item, value=self.check(item.value))
        declared = self._declared_field(item, type_name, item.name)
        given = self._value_type(item.value, item.optional)
        if not self.inference.is_assignable(declared, given):
            self._errors.add(item.offset, f"expected type of field '{item.name}' is '{declared}' but provided type is '{given}'")
        return item

    def _value_type(self, expr: Expr, optional: bool) -> Type:
        """The type of an element or entry; for an optional one (`?`), the type within the optional."""
        type_ = self._type(expr)
        if not optional:
            return type_
        if type_.is_optional:
            return type_.element
        if not type_.is_dyn:
            self._mismatch(expr, optional_of(type_), type_)
        return type_

    def _join(self, previous: Type | None, current: Type) -> Type:
        """One type for both, dyn if they differ; `literals.py` rejects literals that mix types."""
        if previous is None:
            return current
        return most_general(previous, current) if self.inference.is_assignable(previous, current) else DYN

    # Comprehensions

    def _comprehension(self, expr: Comprehension) -> Expr:
        iter_range = self.check(expr.iter_range)
        accu_init = self.check(expr.accu_init)
        accu_type = self._type(accu_init)
        first, second = self._iteration_types(iter_range, two=bool(expr.iter_var2))
        self._scopes.append({expr.accu_var: accu_type})
        self._scopes.append({expr.iter_var: first})
        if expr.iter_var2:
            self._scopes[-1][expr.iter_var2] = second
        condition = self.check(expr.loop_condition)
        self._assert_type(condition, BOOL)
        step = self.check(expr.loop_step)
        self._assert_type(step, accu_type)
        self._scopes.pop()
        result = self.check(expr.result)
        self._scopes.pop()
        self.types[expr.id] = self.inference.substitute(self._type(result))
        return replace(expr, iter_range=iter_range, accu_init=accu_init, loop_condition=condition, loop_step=step, result=result)

    def _iteration_types(self, iter_range: Expr, two: bool) -> tuple[Type, Type]:
        """The types of both iteration variables; the second is unused if there is only one."""
        type_ = self.inference.substitute(self._type(iter_range))
        match type_.kind:
            case Kind.LIST:
                return (INT, type_.element) if two else (type_.element, type_.element)
            case Kind.MAP:
                return type_.parameters[0], type_.parameters[1]
            case Kind.DYN | Kind.ERROR | Kind.PARAM:
                self.inference.is_assignable(DYN, type_)
                return DYN, DYN
            case _:
                self._errors.add(
                    iter_range.offset,
                    f"expression of type '{type_}' cannot be range of a comprehension (must be list, map, or dynamic)",
                )
                return ERROR, ERROR

    def _assert_type(self, expr: Expr, type_: Type) -> None:
        if not self.inference.is_assignable(type_, self._type(expr)):
            self._mismatch(expr, type_, self._type(expr))

    def _mismatch(self, expr: Expr, expected: Type, found: Type) -> None:
        self._errors.add(expr.offset, f"expected type '{expected}' but found '{found}'")


def _qualified_name(expr: Expr) -> str:
    """The dotted name if the expression is only names and dots (a.b.c), otherwise ''."""
    fields: list[str] = []
    while isinstance(expr, Select) and not expr.test_only:
        fields.append(expr.field)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return ""
    return ".".join((expr.name, *reversed(fields)))
