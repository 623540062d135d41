"""Quantity: `100m`, `1.5Gi`, `2e3` as a type of fields. Pure; the numbers are those of `meta/quantity.py`."""

from __future__ import annotations

from decimal import Decimal
from functools import total_ordering
from typing import Any

from aggserver.meta import quantity
from aggserver.meta.json_types import JSONObject

__all__ = ["QUANTITY_SCHEMA", "Quantity"]

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
# As controller-gen writes it for resource.Quantity.
QUANTITY_SCHEMA: JSONObject = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
}


@total_ordering
class Quantity:
    """An amount of a resource. Immutable; `str()` is the text as it was written, and equal amounts are equal: `1000m` and `1`.

    Raises ValueError if the text is no quantity.
    """

    __slots__ = ("_number", "_text")

    def __init__(self, text: str | int) -> None:
        self._text = str(text)
        self._number = quantity.parse(self._text)

    @property
    def decimal(self) -> Decimal:
        """The exact amount."""
        return Decimal(self._number.value).scaleb(self._number.scale)

    def __float__(self) -> float:
        return self._number.as_float()

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(quantity.text(self._number.add(other._number), self._text))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(quantity.text(self._number.sub(other._number), self._text))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._number.compare(other._number) == 0

    def __lt__(self, other: Quantity) -> bool:
        return self._number.compare(other._number) < 0

    def __hash__(self) -> int:
        return hash(self.decimal)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({self._text!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> dict[str, Any]:
        """For pydantic: an instance, a text or a number; dumped as the text."""
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": lambda given: given if isinstance(given, cls) else cls(given)},
            "serialization": {"type": "function-plain", "function": str},
        }

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string"}
