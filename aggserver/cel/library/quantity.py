"""Quantities in rules: `quantity('1Gi').isGreaterThan(quantity(self.size))`.

Source: k8s.io/apiserver pkg/cel/library/quantity.go and pkg/cel/quantity.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from aggserver.cel.values import EvaluationError, Opaque, no_such_overload
from aggserver.meta import quantity
from aggserver.meta.quantity import Quantity

__all__ = ["IMPLEMENTATIONS", "QuantityValue"]


@dataclass(frozen=True, slots=True)
class QuantityValue(Opaque):
    type_name: ClassVar[str] = "kubernetes.Quantity"
    amount: Quantity
    is_computed: bool = False
    """Whether it is the result of an addition or subtraction: upstream returns a pointer then, which `==` can't compare."""

    def equals(self, other: object) -> bool:
        if not isinstance(other, QuantityValue) or other.is_computed:
            raise no_such_overload()
        return self.amount.compare(other.amount) == 0


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.parse(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _as_integer(value: QuantityValue) -> int:
    number = value.amount.as_int64()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _add(left: QuantityValue, right: QuantityValue) -> QuantityValue:
    return QuantityValue(left.amount.add(right.amount), is_computed=True)


def _sub(left: QuantityValue, right: QuantityValue) -> QuantityValue:
    return QuantityValue(left.amount.sub(right.amount), is_computed=True)


def _of_int(number: int) -> QuantityValue:
    return QuantityValue(Quantity(number))


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": _is_quantity,
    "quantity_sign": lambda value: value.amount.sign(),
    "quantity_is_greater_than": lambda left, right: left.amount.compare(right.amount) > 0,
    "quantity_is_less_than": lambda left, right: left.amount.compare(right.amount) < 0,
    "quantity_compare_to": lambda left, right: left.amount.compare(right.amount),
    "quantity_get_float": lambda value: value.amount.as_float(),
    "quantity_get_int": _as_integer,
    "quantity_is_integer": lambda value: value.amount.as_int64() is not None,
    "quantity_add": _add,
    "quantity_add_int": lambda left, right: _add(left, _of_int(right)),
    "quantity_sub": _sub,
    "quantity_sub_int": lambda left, right: _sub(left, _of_int(right)),
}
