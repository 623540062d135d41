"""Laws of types: random classes of random types, with random values. Hypothesis draws the same ones each time."""

from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.apiextensions import validation
from aggserver.cel.parser import parse
from aggserver.schema.compiled import CompiledSchema
from aggserver.typed import schema
from aggserver.typed.codec import UnencodableError
from aggserver.typed.markers import Ge, IntOrString, MapKey, MaxLen
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import Quantity
from tests.fakes.definitions import definition, version
from tests.typed.rows import Color, Command, Http, Port

# The first expression raises Python's limit of frames, which Hypothesis does not expect within a test.
parse("true")

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
# Go writes a float without a fraction as an integer, which is the same number.
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: abs(value) < 2**62)
JSON = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
# A type with the strategy of its values.
Typed = tuple[Any, st.SearchStrategy[Any]]
SCALARS: list[Typed] = [
    (str, TEXT),
    (int, st.integers(-(2**63), 2**63 - 1)),
    (float, NUMBERS),
    (bool, st.booleans()),
    (datetime, st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))),  # noqa: DTZ001
    (date, st.dates()),
    (timedelta, st.timedeltas(timedelta(days=-1000), timedelta(days=1000))),
    (bytes, st.binary(min_size=1, max_size=5)),
    (UUID, st.uuids()),
    (IPv4Address, st.ip_addresses(v=4)),
    (Quantity, st.builds(Quantity, st.sampled_from(["1", "100m", "1.5Gi", "2e3"]))),
    (IntOrString, st.integers(0, 100) | TEXT),
    (Literal["a", "b"], st.sampled_from(["a", "b"])),
    (Color, st.sampled_from(Color)),
    (Annotated[int, Ge(0)], st.integers(0, 5)),
    (Annotated[str, MaxLen(3)], st.text("abc", max_size=3)),
]
PORTS = st.builds(Port, TEXT, st.integers(0, 100))
OBJECTS: list[Typed] = [
    (Any, JSON),
    (dict[str, Any], st.dictionaries(TEXT, JSON, max_size=3)),
    (Port, PORTS),
    (
        Http | Command,
        st.builds(Http, st.just("http"), st.integers(0, 9), TEXT)
        | st.builds(Command, st.just("command"), st.lists(TEXT, max_size=2)),
    ),
    (Annotated[list[Port], MapKey("name")], st.lists(PORTS, max_size=3, unique_by=lambda port: port.name)),
    (set[str], st.sets(TEXT, max_size=3)),
]


def wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return (
        inner.map(lambda of: (list[of[0]], st.lists(of[1], max_size=3)))  # type: ignore[name-defined]
        | inner.map(lambda of: (tuple[of[0], ...], st.lists(of[1], max_size=3).map(tuple)))  # type: ignore[name-defined]
        | inner.map(lambda of: (dict[str, of[0]], st.dictionaries(TEXT, of[1], max_size=3)))  # type: ignore[name-defined]
        | st.lists(inner, min_size=1, max_size=3).map(lambda each: a_class("Inner", each))
    )


def a_class(name: str, types: list[Typed]) -> Typed:
    """A class with a field of each type, every second one of them optional."""
    fields: list[Any] = []
    values = {}
    for number, (type_, strategy) in enumerate(types):
        optional = number % 2 == 1
        fields.append(
            (f"field_{number}", type_ | None if optional else type_, *([dataclasses.field(default=None)] if optional else []))
        )
        values[f"field_{number}"] = st.none() | strategy if optional else strategy
    # Fields without a default come first.
    cls = dataclasses.make_dataclass(name, sorted(fields, key=len))
    return cls, st.builds(cls, **values)


TYPES = st.recursive(st.sampled_from([*SCALARS, *OBJECTS]), wider, max_leaves=6)


@dataclass
class Drawn:
    """A class of objects, and two of its instances."""

    cls: Any
    one: Any
    two: Any


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    value_type, values = a_class("Spec", draw(st.lists(TYPES, min_size=1, max_size=4)))
    cls = dataclasses.make_dataclass("Site", [("metadata", Metadata), ("spec", value_type)])
    return Drawn(cls, cls(Metadata("a"), draw(values)), cls(Metadata("a", labels={"b": "c"}), draw(values)))


@given(drawn())
def test_a_schema_is_accepted_and_so_are_values(of: Drawn) -> None:
    found = schema.of(of.cls)
    crd = definition("sites", "Site", {**version("v1", {}), "storage": True})
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = found.schema
    assert validation.validate(crd) == []
    compiled = CompiledSchema(found.schema)
    obj = found.codec.encode(of.one)
    assert compiled.conform(copy.deepcopy(obj)) == []
    assert compiled.on_create(obj) == ([], [])
    assert compiled.on_rules(obj, None, []).errors == []
    assert found.codec.decode(obj) == of.one


@given(drawn())
def test_changes_are_written_back_and_nothing_else(of: Drawn) -> None:
    codec: Any = schema.of(of.cls).codec
    one, two = codec.encode(of.one), codec.encode(of.two)
    obj = with_unknown(one)
    before = copy.deepcopy(obj)
    draft = codec.draft(obj)
    assert draft.merged() == obj
    draft.value = of.two
    merged = draft.merged()
    assert obj == before
    assert codec.decode(merged) == of.two
    assert codec.encode(codec.decode(merged)) == two
    assert merged["unknown"] == {"metadata": 1}


def with_unknown(obj: dict[str, Any]) -> dict[str, Any]:
    """The object with fields that its class does not have, in it and in its spec."""
    return {**obj, "unknown": {"metadata": 1}, "spec": {**obj["spec"], "unknownField": [1]}}


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_json_does_not_have_is_not_encoded(value: float) -> None:
    cls: Any = dataclasses.make_dataclass("Site", [("metadata", Metadata), ("value", float)])
    with pytest.raises(UnencodableError, match=rf"^Site\.value: must be a finite number, not {value}$"):
        schema.of(cls).codec.encode(cls(Metadata("a"), value))
