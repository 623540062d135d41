"""Type inference: whether a type is assignable to another, and which types the type parameters are bound to.

The checker asks `Inference` for each argument. A successful assignment may bind type parameters; a failed one binds nothing.
Source: cel-go checker/types.go and checker/mapping.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Sequence

from aggserver.cel.types import DYN, Kind, Type, type_param

__all__ = ["Inference", "most_general"]

# Null is assignable to these: protobuf messages, and the types that upstream treats as such.
_NULLABLE = (Kind.NULL, Kind.OBJECT, Kind.OPAQUE, Kind.DURATION, Kind.TIMESTAMP)
_ANYTHING = (Kind.DYN, Kind.ERROR)
# Types that are compared parameter by parameter.
_CONTAINERS = (Kind.OPAQUE, Kind.LIST, Kind.MAP)


class Inference:
    def __init__(self) -> None:
        # Keyed by the name of the type parameter.
        self._bound: dict[str, Type] = {}
        # The bindings that were replaced, so that a failed attempt can be undone.
        self._undo: list[tuple[str, Type | None]] = []
        self._params = 0

    def new_param(self) -> Type:
        """A fresh, unbound type parameter."""
        self._params += 1
        return type_param(f"_var{self._params - 1}")

    def instantiate(self, params: Sequence[Type], args: Sequence[Type], result: Type) -> tuple[tuple[Type, ...], Type]:
        """The types of a signature, with fresh type parameters in place of its own."""
        fresh = {param.name: self.new_param() for param in params}
        return tuple(_substitute(fresh, arg) for arg in args), _substitute(fresh, result)

    def substitute(self, type_: Type, params_to_dyn: bool = False) -> Type:
        """The type with its bound parameters replaced. params_to_dyn: unbound ones become dyn."""
        return _substitute(self._bound, type_, params_to_dyn)

    def is_assignable(self, given: Type, wanted: Type) -> bool:
        return self.are_assignable((given,), (wanted,))

    def are_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        start = len(self._undo)
        if self._all(given, wanted):
            return True
        while len(self._undo) > start:
            param, before = self._undo.pop()
            if before is None:
                del self._bound[param]
            else:
                self._bound[param] = before
        return False

    def _all(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        return len(given) == len(wanted) and all(map(self._one, given, wanted))

    def _one(self, given: Type, wanted: Type) -> bool:
        if given is wanted:
            return True
        if wanted.kind is Kind.PARAM:
            fits, is_bound = self._stands_for(wanted, given)
            if fits or is_bound:
                return fits
        if given.kind is Kind.PARAM:
            return self._stands_for(given, wanted)[0]
        if given.kind in _ANYTHING or wanted.kind in _ANYTHING:
            return True
        if given.kind is Kind.NULL:
            return wanted.kind in _NULLABLE
        if wanted.kind is Kind.NULL:
            return given.kind in _NULLABLE
        if given.kind is not wanted.kind:
            return False
        if given.kind is Kind.TYPE:
            return True
        if given.kind in _CONTAINERS:
            return given.name == wanted.name and self._all(given.parameters, wanted.parameters)
        return given == wanted

    def _stands_for(self, param: Type, type_: Type) -> tuple[bool, bool]:
        """Bind the parameter to the type if possible. Returns whether it fits, and whether the parameter was bound before."""
        if param == type_:
            return True, True
        before = self._bound.get(param.name)
        if before is None:
            fits = self._is_free_of(param, type_)
            if fits:
                self._bind(param, type_)
            return fits, False
        if before == type_:
            if before.origin is None and type_.origin is not None:
                self._bind(param, type_)
            return True, True
        if not self._one(type_, before):
            return False, True
        general = most_general(type_, before)
        meant = self.substitute(general)
        general = next((each for each in (before, type_) if each.origin is not None and each == meant), general)
        if self._is_free_of(param, general):
            self._bind(param, general)
        return True, True

    def _bind(self, param: Type, type_: Type) -> None:
        self._undo.append((param.name, self._bound.get(param.name)))
        self._bound[param.name] = type_

    def _is_free_of(self, param: Type, type_: Type) -> bool:
        """Whether the parameter does not occur in the type: otherwise the type would contain itself."""
        if param == type_:
            return False
        if type_.kind is Kind.PARAM:
            bound = self._bound.get(type_.name)
            return bound is None or self._is_free_of(param, bound)
        return all(self._is_free_of(param, parameter) for parameter in type_.parameters)


def most_general(first: Type, second: Type) -> Type:
    """The more general one of two types that are assignable."""
    return first if _is_as_general(first, second) else second


def _is_as_general(first: Type, second: Type) -> bool:
    if first.kind in (Kind.DYN, Kind.PARAM):
        return True
    if second.kind in (Kind.DYN, Kind.PARAM) or first.kind is not second.kind:
        return False
    if first.kind is Kind.TYPE:
        return True
    if first.kind in _CONTAINERS:
        return (
            first.name == second.name
            and len(first.parameters) == len(second.parameters)
            and all(map(_is_as_general, first.parameters, second.parameters))
        )
    return first == second


def _substitute(bound: dict[str, Type], type_: Type, params_to_dyn: bool = False) -> Type:
    if not type_.parameters:
        if type_.kind is not Kind.PARAM:
            return type_
        if (meant := bound.get(type_.name)) is not None:
            return _substitute(bound, meant, params_to_dyn)
        return DYN if params_to_dyn else type_
    parameters = tuple([_substitute(bound, parameter, params_to_dyn) for parameter in type_.parameters])
    return type_ if parameters == type_.parameters else Type(type_.kind, type_.name, parameters, type_.runtime_name)
