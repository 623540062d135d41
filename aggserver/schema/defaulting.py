"""Defaulting: set missing fields, and nulls that are not allowed, to the defaults of a structural schema.

Runs after pruning: on request bodies, on objects read from storage, and again after mutating admission. Mutates the object.
`compile_defaulter` generates code for one schema, which visits only nodes with defaults.

Defaults within items and additionalProperties are set once for every item, so that a body of 20 KB can expand to hundreds of
megabytes. The bytes of JSON that these add are counted, and an object that grows beyond its maximum size is refused. Other
defaults are set at most once, so the definition's own size bounds them. Upstream does not count; etcd refuses what is too large.
Pure. Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aggserver.meta import codec
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.schema.generation import Module
from aggserver.schema.structural import Structural

__all__ = ["MAX_OBJECT_BYTES", "Defaulter", "compile_defaulter"]

# Default maximum of an object in bytes of JSON, the same as that of a request body. Upstream has no limit of its own; etcd's is
# 1.5 MiB.
MAX_OBJECT_BYTES = 3 * 1024 * 1024

Defaulter = Callable[[JSONObject], None]


class _Budget:
    """The bytes that defaults may still add to an object."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left = limit

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ObjectTooLarge(self._limit)


def compile_defaulter(structural: Structural, limit: int = MAX_OBJECT_BYTES) -> Defaulter:
    """The function that defaults whole objects of one schema, in place. It does nothing if the schema has no defaults.

    limit: for the defaults added within items and additionalProperties, in bytes of JSON; the function raises ObjectTooLarge
    beyond it. Defaults are copied, so that those of the schema can't be changed.
    """
    module = Module(copy=json_copy)
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


def _size(value: Any) -> int:
    """The size of a value in bytes of JSON."""
    return len(codec.encode_json(value))


def _size_of_member(name: str, value: Any) -> int:
    """The size of a member in bytes of JSON: name, value, a colon, and a comma (which all but one member have)."""
    return _size(name) + _size(value) + 2


# Names in the generated source: the function for an object, and that for a list; None if there is nothing to do.
_Walks = tuple[str | None, str | None]
_NO_WALKS: _Walks = (None, None)


class _Generator:
    """Generates one function for each kind of object and list that has defaults in it; equal ones are shared.

    In the source `x` is the value and `b` the budget, which is used only if the source `counts`. repeated: the value is, or is
    within, an item of a list or a value of a map.
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
                # Summed up inline and taken from the budget once, since this runs for every item.
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
        """Lines for the fields under additionalProperties."""
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
        """Lines for a value `v` that exists and is stored at `target`."""
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
