"""Table and PartialObjectMetadata: the two forms of a response with less than the whole objects.

kubectl prints the Table; the garbage collector and the namespace controller need only metadata. kubectl often requests tables of
500 rows, so the parts of an object that its row needs are cached as a `Row`; ages are computed for each request.
Pure. Source: k8s.io/apiextensions-apiserver
pkg/registry/customresource/tableconvertor/tableconvertor.go, pkg/apiserver/helpers.go, k8s.io/apiserver
pkg/endpoints/handlers/response.go, v0.36.3.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import starmap
from typing import Any, NamedTuple, Protocol

import orjson

from aggserver.meta import golang, jsonpath, times
from aggserver.meta.json_types import JSONObject
from aggserver.publish import builtin

__all__ = [
    "Column",
    "ColumnSpec",
    "ComputedColumn",
    "Row",
    "TableConvertor",
    "Timed",
    "age_column",
    "encode_table",
    "partial_object_metadata",
    "row_encoder",
    "scale_convertor",
    "since",
    "table_head",
]

_METADATA = b'"metadata":'
_MAX_INT64 = 2**63
# The work for a row, for one of its cells, and for a cell whose path may exhaust the budget, measured in the bytes of an object
# whose encoding takes as long.
_ROW_BYTES = 512
_CELL_BYTES = 128
_REVISITING_BYTES = 4 * 1024 * 1024
# Ages that an encoder keeps: objects that were created in one second show the same.
_MOST_AGES = 1000
# Go's zero time: a timestamp that was never set.
_ZERO_TIME = -62135596800.0


class ColumnSpec(Protocol):
    """The declaration of a column; those of a definition (additionalPrinterColumns) have this form too."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def json_path(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def priority(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the server's built-in kinds. type: integer, number, string, boolean or date."""

    name: str
    type: str
    json_path: str
    description: str = ""
    format: str = ""
    priority: int = 0


_Cell = Callable[[Mapping[str, Any], jsonpath.Budget], Any]
_Read = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column whose cell is not at a path of the object. read: returns the cell of an object."""

    name: str
    type: str
    read: _Read
    description: str
    format: str = ""
    priority: int = 0


_MISSING: Any = object()


class _Moment(float):
    """A time in seconds since 1970, from which a cell's age is computed for each request."""


class Timed(NamedTuple):
    """A cell with an age in its text. at: seconds since 1970. render: returns the cell's text for an age such as `5m`."""

    at: float
    render: Callable[[str], str]


class WideRow(NamedTuple):
    """A row with more than `Row` has room for.

    cells: ready to encode, except for a `_Moment` or a `Timed`. metadata: start and end of the object's metadata in its JSON, or
    its own bytes if they are there in another form. conditions: the member of a row that has them, with a comma; mostly empty.
    """

    table: TableConvertor
    cells: list[Any]
    metadata: tuple[int, int] | bytes
    conditions: bytes


# The parts of one object that a table needs, to be kept with it. Nearly always bytes, which take a fifth of the memory: the
# number of the table, start and end of the object's metadata in its JSON, the moment of the only age and its place; then the JSON
# of the cells without that age.
Row = bytes | WideRow
_ROW_HEAD = struct.Struct("<QIIdI")
_ROW_TABLE = struct.Struct("<Q")
_numbers = itertools.count(1)


class TableConvertor:
    """The compiled columns of a resource. definitions: the Table's columnDefinitions.

    Name is first, unless it is among the columns that are given (named=False). Age is added only if no columns are declared. A
    path that does not parse ends the columns: only those before it are shown. The paths of a row share a budget; a cell whose
    path exhausts it is null, like a cell whose evaluation fails in upstream.
    conditions: returns the conditions of an object's row, or None.
    """

    def __init__(
        self,
        columns: Sequence[ColumnSpec | ComputedColumn],
        *,
        named: bool = True,
        conditions: Callable[[Mapping[str, Any]], list[JSONObject] | None] | None = None,
    ) -> None:
        self.definitions: list[JSONObject] = []
        # The work for a row in addition to encoding its object, in the bytes of an object whose encoding takes as long.
        self.row_bytes = _ROW_BYTES
        self._cells: list[_Cell] = []
        self._conditions = conditions
        self._number = next(_numbers)
        self._mark = _ROW_TABLE.pack(self._number)
        if named:
            self.definitions.append(_definition("Name", "string", _described("name"), "name"))
            self._cells.append(_computed(_name))
        for column in columns or (_AGE,):
            text = column.description
            if isinstance(column, ComputedColumn):
                cell = _computed(column.read)
            else:
                try:
                    path = jsonpath.compile(column.json_path)
                except ValueError:
                    break
                cell = _cell(column.type, _finder(path))
                self.row_bytes += _REVISITING_BYTES if path.may_revisit else 0
                text = text or f"Custom resource definition column (in JSONPath format): {column.json_path}"
            self.definitions.append(_definition(column.name, column.type, text, column.format, column.priority))
            self._cells.append(cell)
            self.row_bytes += _CELL_BYTES

    def row(self, obj: JSONObject, raw: bytes) -> Row:
        """The row of an object. obj: the decoded `raw`. The row may be cached until the object changes."""
        budget = jsonpath.Budget()
        cells = [cell(obj, budget) for cell in self._cells]
        metadata = orjson.dumps(obj["metadata"])
        start = raw.find(_METADATA) + len(_METADATA)
        end = start + len(metadata)
        conditions = self._conditions(obj) if self._conditions is not None else None
        encoded = b'"conditions":%b,' % orjson.dumps(conditions) if conditions else b""
        found = (start, end) if raw[start:end] == metadata else metadata
        ages = [place for place, cell in enumerate(cells) if type(cell) in _AGING]
        if encoded or isinstance(found, bytes) or len(ages) > 1 or any(type(cells[place]) is Timed for place in ages):
            return WideRow(self, cells, found, encoded)
        if not ages:
            return _ROW_HEAD.pack(self._number, start, end, 0.0, 0) + orjson.dumps(cells)
        (place,) = ages
        before, after = orjson.dumps(cells[:place])[:-1], orjson.dumps(cells[place + 1 :])[1:]
        before += b"," if place else b""
        after = b"," + after if len(after) > 1 else after
        return _ROW_HEAD.pack(self._number, start, end, cells[place], _ROW_HEAD.size + len(before)) + before + after

    def made(self, row: Row) -> bool:
        """Whether a row is one of this table."""
        return row.startswith(self._mark) if isinstance(row, bytes) else row.table is self


def _name(obj: Mapping[str, Any]) -> Any:
    return obj["metadata"].get("name", "")


def _aged(cells: list[Any], now: float) -> list[Any]:
    return [_aged_cell(cell, now) if type(cell) in _AGING else cell for cell in cells]


def _aged_cell(cell: _Moment | Timed, now: float) -> str:
    if isinstance(cell, Timed):
        return cell.render(times.human_duration(now - cell.at))
    return times.human_duration(now - cell)


_AGING = frozenset({_Moment, Timed})


def _described(name: str) -> str:
    text: str = builtin.schemas()[builtin.OBJECT_META]["properties"][name]["description"]
    return text


def _definition(name: str, kind: str, description: str, form: str = "", priority: int = 0) -> JSONObject:
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def _computed(read: _Read) -> _Cell:
    return lambda obj, _: read(obj)


def _finder(path: jsonpath.JSONPath) -> _Cell:
    """A function that returns the first result of a JSONPath, or _MISSING."""
    find_all = path.find

    def find(obj: Mapping[str, Any], budget: jsonpath.Budget) -> Any:
        results = find_all(obj, budget)
        return results[0] if results else _MISSING

    return find


def _cell(kind: str, find: _Cell) -> _Cell:
    """A function that returns the value of a cell, None if it is missing or of another type. A column of type string prints any
    value.
    """
    if kind == "date":

        def date_cell(obj: Mapping[str, Any], budget: jsonpath.Budget) -> Any:
            value = find(obj, budget)
            return since(value) if isinstance(value, str) else None

        return date_cell
    convert: Callable[[Any], Any] = _CONVERSIONS.get(kind, _nothing)

    def cell(obj: Mapping[str, Any], budget: jsonpath.Budget) -> Any:
        value = find(obj, budget)
        return None if value is _MISSING or not budget.covers(value) else convert(value)

    return cell


def _nothing(value: Any) -> None:
    """None, as the value of a cell whose column has a type that definitions can't have."""


def _printed(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return golang.format_float(value)
    return str(value) if isinstance(value, int) else golang.to_json(value)


def _integer(value: Any) -> int | None:
    if isinstance(value, float):
        # Out of range, the result is that of Go's conversion on amd64.
        return int(value) if -_MAX_INT64 <= value < _MAX_INT64 else -_MAX_INT64
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "string": _printed,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}


def since(text: str) -> float | str:
    """A cell with the age of a timestamp at the time of each request. `<unknown>` if it is empty, `<invalid>` if malformed."""
    if text in ("", "null"):
        return "<unknown>"
    try:
        moment = _seconds(text)
    except ValueError:
        return "<invalid>"
    return "<unknown>" if moment == _ZERO_TIME else _Moment(moment)


def _seconds(text: str) -> float:
    # A fast path for the form of every timestamp that a server writes; the parser for all of RFC 3339 is ten times slower.
    if len(text) == 20 and text[4] == text[7] == "-" and text[10] == "T" and text[19] == "Z":
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            pass
    return times.parse_time(text)


_AGE = Column("Age", "date", ".metadata.creationTimestamp", _described("creationTimestamp"))


def age_column() -> ComputedColumn:
    """The column with an object's age as upstream's built-in kinds have it: of type string; a definition's has type date."""
    return ComputedColumn("Age", "string", lambda obj: since(obj["metadata"].get("creationTimestamp", "")), _AGE.description)


@cache
def scale_convertor() -> TableConvertor:
    """The columns of every /scale."""
    return TableConvertor(
        (
            Column("Desired", "integer", ".spec.replicas", "Number of desired replicas"),
            Column("Available", "integer", ".status.replicas", "Number of actual replicas"),
            _AGE,
        )
    )


def encode_table(
    convertor: TableConvertor,
    rows: Iterable[tuple[Row, bytes]],
    include: str,
    list_meta: Mapping[str, Any],
    now: float,
    *,
    api_version: str = "meta.k8s.io/v1",
    with_definitions: bool = True,
) -> bytes:
    """A Table as JSON, for a few rows, each with its object's JSON.

    The rows of a list are encoded one by one instead (`table_head`, `row_encoder`).
    """
    head = table_head(convertor, list_meta, api_version, with_definitions=with_definitions)
    encoded = starmap(row_encoder(include, now, api_version), rows)
    return b'%b,"rows":[%b]}' % (orjson.dumps(head)[:-1], b",".join(encoded))


def table_head(
    convertor: TableConvertor, list_meta: Mapping[str, Any], api_version: str = "meta.k8s.io/v1", *, with_definitions: bool = True
) -> JSONObject:
    """A Table without its rows, which are its last member.

    list_meta: the list's metadata (resourceVersion, continue, remainingItemCount), or the resourceVersion of a single object.
    with_definitions: False for all events of a watch but the first.
    """
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": list_meta,
        "columnDefinitions": convertor.definitions if with_definitions else None,
    }


def row_encoder(include: str, now: float, api_version: str = "meta.k8s.io/v1") -> Callable[[Row, bytes], bytes]:
    """A function that encodes a row, of an object with this JSON.

    include: Metadata, Object or None, as a row's `object`. now: seconds since 1970.
    """
    carried = _CARRIED[include]
    partial = orjson.dumps({"kind": "PartialObjectMetadata", "apiVersion": api_version})[:-1] + b',"metadata":%b}'
    ages: dict[float, bytes] = {}

    def encode_wide(row: WideRow, raw: bytes) -> bytes:
        found = row.metadata
        metadata = found if isinstance(found, bytes) else raw[found[0] : found[1]]
        return b'{"cells":%b,%b"object":%b}' % (
            orjson.dumps(_aged(row.cells, now)),
            row.conditions,
            carried(metadata, raw, partial),
        )

    def encode(row: Row, raw: bytes) -> bytes:
        if not isinstance(row, bytes):
            return encode_wide(row, raw)
        _, start, end, moment, place = _ROW_HEAD.unpack_from(row)
        shown = carried(raw[start:end], raw, partial)
        if not place:
            return b'{"cells":%b,"object":%b}' % (row[_ROW_HEAD.size :], shown)
        age = ages.get(moment)
        if age is None:
            if len(ages) == _MOST_AGES:
                ages.clear()
            age = ages[moment] = times.human_duration(now - moment).encode()
        return b'{"cells":%b"%b"%b,"object":%b}' % (row[_ROW_HEAD.size : place], age, row[place:], shown)

    return encode


_CARRIED: Mapping[str, Callable[[bytes, bytes, bytes], bytes]] = {
    "Metadata": lambda metadata, _, partial: partial % metadata,
    "Object": lambda _, raw, __: raw,
    "None": lambda *_: b"null",
}


def partial_object_metadata(obj: JSONObject, api_version: str = "meta.k8s.io/v1") -> JSONObject:
    """The object's metadata (shared, not copied) as an object of its own."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj["metadata"]}
