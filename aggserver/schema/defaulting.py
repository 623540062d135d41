"""Defaulting: put the defaults of a structural schema where a value has no field, or has a null that it may not have.

Runs after pruning: on request bodies, on objects read from storage, and again after mutating admission. Mutates the object.
`compile_defaulter` generates the walk for one schema, which goes only where there are defaults; `default` is the plain form of
the rules, for single values and for the tests to hold against it.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aggserver.schema.generation import Module
from aggserver.schema.structural import Structural

__all__ = ["Defaulter", "compile_defaulter", "default"]

JSONObject = dict[str, Any]

Defaulter = Callable[[JSONObject], None]


def default(value: Any, node: Structural | None) -> None:
    """Fills in `value`, in place. Defaults are copied, so that the schema's stay as they are."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, child in node.properties.items():
            if child.default is not None and (name not in value or _is_bad_null(value[name], child)):
                value[name] = _copy(child.default)
        for key in value:
            child_of_key = node.properties.get(key)
            if child_of_key is None:
                child_of_key = node.values
                if _is_bad_null(value[key], child_of_key):
                    value[key] = _copy(child_of_key.default) if child_of_key else None
            default(value[key], child_of_key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if _is_bad_null(item, node.items):
                value[index] = _copy(node.items.default) if node.items else None
            default(value[index], node.items)


def compile_defaulter(structural: Structural) -> Defaulter:
    """`default` of a whole object for one schema; one that has no defaults costs nothing."""
    module = Module(copy=_copy)
    walk = _Generator(module).walks(structural)[0]
    if walk is None:
        return _no_defaults
    defaulter: Defaulter = module.build()[walk]
    return defaulter


def _no_defaults(obj: JSONObject) -> None:
    pass


def _is_bad_null(value: Any, node: Structural | None) -> bool:
    return value is None and node is not None and not node.nullable


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


# Names of the functions for an object and for a list in the generated source; None where there is nothing to do.
_Walks = tuple[str | None, str | None]
_NO_WALKS: _Walks = (None, None)


class _Generator:
    """One function for each sort of object and of list that has defaults in it; equal ones are made once."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._made: dict[tuple[str, ...], str | None] = {}

    def walks(self, node: Structural | None) -> _Walks:
        if node is None:
            return _NO_WALKS
        return self._share(self._object(node)), self._share(self._list(node.items))

    def _share(self, body: list[str]) -> str | None:
        key = tuple(body)
        if key not in self._made:
            self._made[key] = self._module.function("fill", body) if body else None
        return self._made[key]

    def _object(self, node: Structural) -> list[str]:
        body: list[str] = []
        for name, child in node.properties.items():
            key = self._module.constant(name)
            if child.default is not None:
                missing = f"{key} not in x" if child.nullable else f"x.get({key}) is None"
                body.append(f"if {missing}: x[{key}] = {self._value(child.default)}")
            walks = self.walks(child)
            if walks != _NO_WALKS:
                body += [f"v = x.get({key})", *self._descend(walks)]
        return body + self._others(node)

    def _others(self, node: Structural) -> list[str]:
        """What additionalProperties says of the fields that properties don't name."""
        if node.values is None:
            return []
        inner = self._filled(node.values, "x[k]")
        if not inner:
            return []
        known = f"  if k in {self._module.constant(frozenset(node.properties))}: continue"
        return ["for k, v in x.items():", *([known] if node.properties else []), *("  " + line for line in inner)]

    def _list(self, items: Structural | None) -> list[str]:
        inner = self._filled(items, "x[i]") if items else []
        return ["for i, v in enumerate(x):", *("  " + line for line in inner)] if inner else []

    def _filled(self, node: Structural, target: str) -> list[str]:
        """Lines for a value `v` that is there, and stands at `target`."""
        body = []
        if node.default is not None and not node.nullable:
            body.append(f"if v is None: {target} = v = {self._value(node.default)}")
        return body + self._descend(self.walks(node))

    def _descend(self, walks: _Walks) -> list[str]:
        of_object, of_list = walks
        body = [f"if v.__class__ is dict: {of_object}(v)"] if of_object else []
        return body + ([f"if v.__class__ is list: {of_list}(v)"] if of_list else [])

    def _value(self, value: Any) -> str:
        if value in ({}, []):
            return repr(value)
        name = self._module.constant(value)
        return f"copy({name})" if isinstance(value, dict | list) else name
