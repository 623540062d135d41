"""The values that expressions compute with, their equality, order and size.

None, bool, int (64 bits), float, str (in code points), bytes, list and dict are Python's own; the types that Python lacks or
mixes up are here, and those of a library are an `Opaque`. A list or dict of a caller's class may define its own equality
(`equals`), a list also its own `in` (`holds`) and concatenation (`added`). Pure; values are never changed.
Source: cel-go common/types, v0.26.0, also for error texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

from aggserver.meta.golang import format_float

__all__ = [
    "MISSING",
    "NONE",
    "CELError",
    "CostExceeded",
    "Duration",
    "EvaluationError",
    "Invalid",
    "Message",
    "Opaque",
    "Optional",
    "Timestamp",
    "TypeValue",
    "Uint",
    "compare",
    "elements",
    "equal",
    "find",
    "go_type",
    "no_such_overload",
    "pairs",
    "show",
    "size",
    "type_name",
]


class CELError(Exception):
    """The evaluation failed. `str()` is cel-go's message; `cost` is the cost spent until then."""

    cost: int = 0


class EvaluationError(CELError):
    """A step failed; `&&`, `||`, `all` and `exists` ignore it if another operand decides the result."""


class CostExceeded(CELError):
    """The budget is spent; the evaluation ends."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload() -> EvaluationError:
    return EvaluationError("no such overload")


@dataclass(frozen=True, slots=True)
class Invalid:
    """A placeholder in a list or map of a caller's class for a value that can't be converted: using it is an error."""

    message: str

    def equals(self, other: object) -> NoReturn:
        raise EvaluationError(self.message)


class _Missing:
    """The result of a lookup that finds nothing; expressions never see it."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


class Uint(int):
    """An unsigned integer of 64 bits. As a map key it equals any number of the same value."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    nanoseconds: int
    """Since 1970, UTC."""
    offset: int = field(default=0, compare=False)
    """Seconds east of UTC with which it is printed."""


@dataclass(frozen=True, slots=True)
class Duration:
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The result of `type(x)`."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """An optional value: `optional.of(value)`, or `NONE`."""

    value: Any = MISSING

    @property
    def present(self) -> bool:
        return self.value is not MISSING


NONE = Optional()


class Opaque:
    """A value of a type that only functions can inspect."""

    __slots__ = ()
    type_name: ClassVar[str]

    def equals(self, other: object) -> bool:
        """Raises EvaluationError if other is of another type."""
        if type(other) is not type(self):
            raise no_such_overload()
        return self == other

    def size(self) -> int:
        """The size by which costs are computed; the CEL function `size()` does not accept opaque values."""
        return 1


class Message(dict[str, Any]):
    """An object that an expression has made, `Object.spec{replicas: 3}`: its values by field name."""

    __slots__ = ("type_name",)

    def __init__(self, type_name: str) -> None:
        super().__init__()
        self.type_name = type_name

    def equals(self, other: object) -> bool:
        return isinstance(other, Message) and self.type_name == other.type_name and _equal_maps(self, other)


_NAMES: dict[type, str] = {
    type(None): "null_type",
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
}


def type_name(value: object) -> str:
    """The name of `type(value)`."""
    name = _NAMES.get(type(value))
    if name is not None:
        return name
    if isinstance(value, Opaque | Message):
        return value.type_name
    return "list" if isinstance(value, list) else "map"


def show(value: object) -> str:
    """The value in an error text, as Go's %v prints it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return format_float(value)
        case list():
            return f"[{', '.join(map(show, value))}]"
        case dict():
            return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
        case TypeValue():
            return value.name
        case Optional():
            return f"optional({show(value.value)})" if value.present else "optional.none()"
        case _:
            return str(value)


def go_type(value: object) -> str:
    """The name of the value's Go type, which is part of three of cel-go's errors."""
    name = type_name(value)
    if name in ("list", "map"):
        return f"*types.base{name.capitalize()}"
    if isinstance(value, Opaque):
        return f"cel.{name.rpartition('.')[2]}"
    pointer = "*" if name in ("type", "optional_type") else ""
    return f"{pointer}types.{name.rpartition('.')[2].removesuffix('_type').capitalize()}"


_NUMBERS = frozenset({int, float, Uint})
# Types of map keys that are not numbers.
_OTHER_KEYS = frozenset({str, type(None), Timestamp, Duration, TypeValue})
# Python compares two values of one of these types as CEL does.
_PLAIN = frozenset({bool, int, float, Uint, str, bytes, Timestamp, Duration, TypeValue})


def equal(left: Any, right: Any) -> bool:
    """Values of different types are not equal, except numbers of the same value. Raises EvaluationError for opaque types."""
    kind = type(left)
    if kind is type(right) and kind in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if kind in _NUMBERS:
        # Compared with a double, the other number is rounded to a double, as in cel-go.
        return type(right) in _NUMBERS and (
            float(left) == float(right) if kind is float or type(right) is float else int(left) == int(right)
        )
    own = getattr(left, "equals", None)
    if own is not None:
        return bool(own(right))
    if isinstance(left, list):
        return _equal_lists(left, right)
    if isinstance(left, dict):
        return _equal_maps(left, right)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return equal(left.value, right.value) if left.present and right.present else left.present is right.present
    return False


def _equal_lists(left: list[Any], right: Any) -> bool:
    return (
        isinstance(right, list)
        and len(left) == len(right)
        and all(_not_unequal(mine, theirs) for mine, theirs in zip(left, right, strict=True))
    )


def _equal_maps(left: dict[Any, Any], right: Any) -> bool:
    if not isinstance(right, dict) or len(left) != len(right):
        return False
    for key, mine in left.items():
        theirs = find(right, key)
        if theirs is MISSING or not _not_unequal(mine, theirs):
            return False
    return True


def _not_unequal(left: Any, right: Any) -> bool:
    """Whether two elements are equal: within lists and maps, cel-go treats values that can't be compared as equal."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def compare(left: Any, right: Any, function: str) -> int:
    """-1, 0 or 1. function: the operator, for error texts. Raises EvaluationError for types without an order, or NaN."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS:
        if left != left or (other is float and right != right):
            raise EvaluationError("NaN values cannot be ordered")
        if other not in _NUMBERS:
            raise no_such_overload()
        if kind is float or other is float:
            left, right = float(left), float(right)
    elif kind is Timestamp or kind is Duration:
        if kind is not other:
            raise no_such_overload()
        left, right = left.nanoseconds, right.nanoseconds
    elif kind not in (str, bytes, bool):
        raise EvaluationError(f"no such overload: {function}")
    elif kind is not other:
        raise no_such_overload()
    return -1 if left < right else 1 if left > right else 0


def size(value: Any) -> int:
    """Characters, bytes, elements or entries. Raises EvaluationError."""
    if isinstance(value, str | list | dict | bytes):
        return len(value)
    raise EvaluationError("no such overload" if isinstance(value, Timestamp | Duration) else "no such overload: size")


def elements(value: Any) -> list[Any]:
    """The items a macro iterates over: a list's elements or a map's keys. Raises EvaluationError."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return list(value)
    raise EvaluationError(f"got '{go_type(value)}', expected iterable type")


def pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs a macro of two variables iterates over: indexes and elements, or keys and values. Raises EvaluationError."""
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return value.items()
    raise EvaluationError(f"unsupported comprehension range type: {go_type(value)}")


def find(container: dict[Any, Any], key: Any) -> Any:
    """The value for a key, or MISSING. A number finds any number key that it equals."""
    kind = type(key)
    if kind in _OTHER_KEYS:
        return container.get(key, MISSING)
    if kind not in (int, float, Uint, bool):
        return MISSING
    value = container.get(key, MISSING)
    if value is MISSING or key not in (0, 1):
        return value
    probe = _Probe(key)
    return value if probe in container and (probe.met is bool) is (kind is bool) else MISSING


class _Probe:
    """A key that records the type of the dict's own key it meets, since Python's True equals 1."""

    __slots__ = ("_key", "met")

    def __init__(self, key: int | float) -> None:
        self._key = key
        self.met: type | None = None

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        self.met = type(other)
        return other == self._key
