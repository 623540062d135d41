"""Defaulting: put the defaults of a structural schema where a value has no field, or has a null that it may not have.

Runs after pruning: on request bodies, on objects read from storage, and again after mutating admission. Mutates the object.
`compile_defaulter` generates the walk for one schema, which goes only where there are defaults; `default` is the plain form of
the rules, for single values and for the tests to hold against it.

Defaults within items and additionalProperties are put in once for every item, so that a body of 20 KB can ask for hundreds of
megabytes. Both forms count the bytes that these take as JSON, and stop where there are more than an object may have. Other
defaults are put in once at most, and are bounded by the definition's own size. Upstream counts nothing, and leaves it to etcd.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aggserver.meta import codec
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.json_types import JSONObject
from aggserver.schema.generation import Module
from aggserver.schema.structural import Structural

__all__ = ["MAX_OBJECT_BYTES", "Defaulter", "compile_defaulter", "default"]

# Bytes of an object as JSON where nobody says otherwise: the limit of a request's body. Upstream has no limit of its own; etcd
# takes 1.5 MiB.
MAX_OBJECT_BYTES = 3 * 1024 * 1024

Defaulter = Callable[[JSONObject], None]


class _Budget:
    """Bytes that may still be put in."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left = limit

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ObjectTooLarge(self._limit)


def default(value: Any, node: Structural | None, limit: int = MAX_OBJECT_BYTES) -> None:
    """Fills in `value`, in place. Defaults are copied, so that the schema's stay as they are.

    limit: of what is put in within items and additionalProperties, in bytes of JSON. Raises ObjectTooLarge beyond it.
    """
    _default(value, node, _Budget(limit), repeated=False)


def _default(value: Any, node: Structural | None, budget: _Budget, *, repeated: bool) -> None:
    if node is None:
        return
    if isinstance(value, dict):
        for name, child in node.properties.items():
            if child.default is not None and (name not in value or _is_bad_null(value[name], child)):
                if repeated:
                    budget.spend(_size_of_member(name, child.default))
                value[name] = _copy(child.default)
        for key in value:
            child_of_key = node.properties.get(key)
            if child_of_key is None:
                _default_entry(value, key, node.values, budget)
            else:
                _default(value[key], child_of_key, budget, repeated=repeated)
    elif isinstance(value, list):
        for index in range(len(value)):
            _default_entry(value, index, node.items, budget)


def _default_entry(container: Any, key: Any, node: Structural | None, budget: _Budget) -> None:
    """An item of a list, or a value of a map."""
    if node is not None and node.default is not None and _is_bad_null(container[key], node):
        budget.spend(_size(node.default))
        container[key] = _copy(node.default)
    _default(container[key], node, budget, repeated=True)


def compile_defaulter(structural: Structural, limit: int = MAX_OBJECT_BYTES) -> Defaulter:
    """`default` of a whole object for one schema; one that has no defaults costs nothing."""
    module = Module(copy=_copy)
    generator = _Generator(module)
    walk = generator.walks(structural, repeated=False)[0]
    if walk is None:
        return _no_defaults
    fill: Callable[..., None] = module.build()[walk]

    def defaulter(obj: JSONObject) -> None:
        fill(obj, _Budget(limit))

    return defaulter if generator.counts else fill


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


def _size(value: Any) -> int:
    """Bytes as JSON."""
    return len(codec.encode_json(value))


def _size_of_member(name: str, value: Any) -> int:
    """With its name, a colon, and the comma that all but one member have."""
    return _size(name) + _size(value) + 2


# Names of the functions for an object and for a list in the generated source; None where there is nothing to do.
_Walks = tuple[str | None, str | None]
_NO_WALKS: _Walks = (None, None)


class _Generator:
    """One function for each sort of object and of list that has defaults in it; equal ones are made once.

    In the source `x` is the value and `b` the budget, which is only looked at where the source `counts`. repeated: the value is,
    or is in, an item of a list or a value of a map.
    """

    def __init__(self, module: Module) -> None:
        self.counts = False
        self._module = module
        self._made: dict[tuple[str, ...], str | None] = {}

    def walks(self, node: Structural | None, *, repeated: bool) -> _Walks:
        if node is None:
            return _NO_WALKS
        return self._share(self._object(node, repeated=repeated)), self._share(self._list(node.items))

    def _share(self, body: list[str]) -> str | None:
        key = tuple(body)
        if key not in self._made:
            self._made[key] = self._module.function("fill", body, arguments="x, b=None") if body else None
        return self._made[key]

    def _object(self, node: Structural, *, repeated: bool) -> list[str]:
        body: list[str] = []
        counted = False
        for name, child in node.properties.items():
            key = self._module.constant(name)
            if child.default is not None:
                missing = f"{key} not in x" if child.nullable else f"x.get({key}) is None"
                # Taken from the budget once for all of them, without a call: this is done for every item.
                count = f"; n += {_size_of_member(name, child.default)}" if repeated else ""
                counted = counted or repeated
                body.append(f"if {missing}: x[{key}] = {self._value(child.default)}{count}")
            walks = self.walks(child, repeated=repeated)
            if walks != _NO_WALKS:
                body += [f"v = x.get({key})", *self._descend(walks)]
        if counted:
            self.counts = True
            body = ["n = 0", *body, "if n:", "  b.left -= n", "  if b.left < 0: b.spend(0)"]
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
            self.counts = True
            value = self._value(node.default)
            body.append(f"if v is None: b.spend({_size(node.default)}); {target} = v = {value}")
        return body + self._descend(self.walks(node, repeated=True))

    def _descend(self, walks: _Walks) -> list[str]:
        of_object, of_list = walks
        body = [f"if v.__class__ is dict: {of_object}(v, b)"] if of_object else []
        return body + ([f"if v.__class__ is list: {of_list}(v, b)"] if of_list else [])

    def _value(self, value: Any) -> str:
        if value in ({}, []):
            return repr(value)
        name = self._module.constant(value)
        return f"copy({name})" if isinstance(value, dict | list) else name
