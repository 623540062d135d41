"""Tables; the cells wanted are those that kube-apiserver v1.36.3 showed for the same objects and columns."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from aggserver.publish.table import Column, TableConvertor, encode_table, partial_object_metadata, scale_convertor

NOW = 1_600_000_000.0  # 2020-09-13T12:26:40Z
CREATED = "2020-09-13T12:20:00Z"

OBJECT: dict[str, Any] = {
    "apiVersion": "stable.example.com/v1",
    "kind": "CronTab",
    "metadata": {"name": "one", "namespace": "default", "creationTimestamp": CREATED, "labels": {"z": "1", "a": "b"}},
    "spec": {
        "text": "* *",
        "number": 3,
        "ratio": 2.5,
        "large": 1e21,
        "million": 1234567.5,
        "yes": True,
        "null": None,
        "empty": "",
        "zero": "0001-01-01T00:00:00Z",
        "nullText": "null",
        "future": "2999-01-01T00:00:00+01:00",
        "fraction": "2020-09-13T12:26:10.123456Z",
        "dateOnly": "2020-01-01",
        "lowerZone": "2020-01-01T00:00:00z",
        "tags": ["a", "b", "<&>"],
        "none": [],
        "map": {"c": [1.5, None, 2.0], "a": "\u2028é"},
        "a.b": "dotted",
    },
    "status": {"conditions": [{"type": "Done", "status": "False"}, {"type": "Ready", "status": "True"}]},
}

CELLS: dict[str, tuple[str, str, Any]] = {
    # name: (type, path, cell)
    "text": ("string", ".spec.text", "* *"),
    "text of a number": ("string", ".spec.number", "3"),
    "text of a float": ("string", ".spec.ratio", "2.5"),
    "text of a large float": ("string", ".spec.large", "1e+21"),
    "text of a float past a million": ("string", ".spec.million", "1.2345675e+06"),
    "text of a boolean": ("string", ".spec.yes", "true"),
    "text of null": ("string", ".spec.null", "<no value>"),
    "text of a list": ("string", ".spec.tags", '["a","b","\\u003c\\u0026\\u003e"]'),
    "text of an empty list": ("string", ".spec.none", "[]"),
    "text of a map": ("string", ".spec.map", '{"a":"\\u2028é","c":[1.5,null,2]}'),
    "text of labels": ("string", ".metadata.labels", '{"a":"b","z":"1"}'),
    "text that is empty": ("string", ".spec.empty", ""),
    "first of several": ("string", ".spec.tags[*]", "a"),
    "none of several": ("string", ".spec.none[*]", None),
    "filter": ("string", '.status.conditions[?(@.type=="Ready")].status', "True"),
    "filter without a match": ("string", '.status.conditions[?(@.type=="Failed")].status', None),
    "escaped dot": ("string", r".spec.a\.b", "dotted"),
    "missing": ("string", ".spec.missing", None),
    "below a missing one": ("string", ".spec.missing.deeper", None),
    "below a text": ("string", ".spec.text.deeper", None),
    "below null": ("string", ".spec.null.deeper", None),
    "integer": ("integer", ".spec.number", 3),
    "integer of a float": ("integer", ".spec.ratio", 2),
    "integer of what doesn't fit": ("integer", ".spec.large", -(2**63)),
    "integer of a text": ("integer", ".spec.text", None),
    "integer of a boolean": ("integer", ".spec.yes", None),
    "integer of null": ("integer", ".spec.null", None),
    "number": ("number", ".spec.ratio", 2.5),
    "number of an integer": ("number", ".spec.number", 3),
    "number of a text": ("number", ".spec.text", None),
    "boolean": ("boolean", ".spec.yes", True),
    "boolean of a number": ("boolean", ".spec.number", None),
    "date": ("date", ".metadata.creationTimestamp", "6m40s"),
    "date with a fraction": ("date", ".spec.fraction", "29s"),
    "date to come": ("date", ".spec.future", "<invalid>"),
    "date that is none": ("date", ".spec.text", "<invalid>"),
    "date without a time": ("date", ".spec.dateOnly", "<invalid>"),
    "date with a small z": ("date", ".spec.lowerZone", "<invalid>"),
    "date never set": ("date", ".spec.zero", "<unknown>"),
    "date of an empty text": ("date", ".spec.empty", "<unknown>"),
    "date of the text null": ("date", ".spec.nullText", "<unknown>"),
    "date of null": ("date", ".spec.null", None),
    "date of a number": ("date", ".spec.number", None),
    "date missing": ("date", ".spec.missing", None),
}


def cells(convertor: TableConvertor, obj: dict[str, Any]) -> list[Any]:
    raw = orjson.dumps(obj)
    body = encode_table(convertor, [(convertor.row(obj, raw), raw)], "None", {}, NOW)
    found: list[Any] = json.loads(body)["rows"][0]["cells"]
    return found


@pytest.mark.parametrize(("kind", "path", "wanted"), CELLS.values(), ids=CELLS)
def test_cell(kind: str, path: str, wanted: Any) -> None:
    name, cell = cells(TableConvertor([Column("X", kind, path)]), OBJECT)
    assert name == "one"
    assert cell == wanted
    assert type(cell) is type(wanted)


def test_definitions() -> None:
    convertor = TableConvertor(
        [Column("Spec", "string", ".spec.text", "The text"), Column("N", "integer", ".spec.n", "", "int32", 1)]
    )
    name, *others = convertor.definitions
    assert (name["name"], name["type"], name["format"], name["priority"]) == ("Name", "string", "name", 0)
    assert name["description"].startswith("Name must be unique within a namespace.")
    assert others == [
        {"name": "Spec", "type": "string", "format": "", "description": "The text", "priority": 0},
        {
            "name": "N",
            "type": "integer",
            "format": "int32",
            "description": "Custom resource definition column (in JSONPath format): .spec.n",
            "priority": 1,
        },
    ]


def test_age_only_without_columns() -> None:
    convertor = TableConvertor([])
    assert [definition["name"] for definition in convertor.definitions] == ["Name", "Age"]
    assert convertor.definitions[1]["description"].startswith("CreationTimestamp is a timestamp")
    assert cells(convertor, OBJECT) == ["one", "6m40s"]


def test_a_path_that_does_not_parse_ends_the_columns() -> None:
    convertor = TableConvertor(
        [Column("A", "string", ".spec.text"), Column("B", "string", ".spec["), Column("C", "string", ".x")]
    )
    assert [definition["name"] for definition in convertor.definitions] == ["Name", "A"]
    assert cells(convertor, OBJECT) == ["one", "* *"]


def test_scale() -> None:
    convertor = scale_convertor()
    assert [(column["name"], column["type"]) for column in convertor.definitions] == [
        ("Name", "string"),
        ("Desired", "integer"),
        ("Available", "integer"),
        ("Age", "date"),
    ]
    scale = {"metadata": {"name": "one", "creationTimestamp": CREATED}, "spec": {"replicas": 3}, "status": {"replicas": 2}}
    assert cells(convertor, scale) == ["one", 3, 2, "6m40s"]


def test_a_kept_row_ages() -> None:
    convertor = TableConvertor([])
    row = convertor.row(OBJECT, orjson.dumps(OBJECT)), b""
    told = [json.loads(encode_table(convertor, [row], "None", {}, NOW + later))["rows"][0]["cells"] for later in (0, 60)]
    assert told == [["one", "6m40s"], ["one", "7m40s"]]


AGE = Column("Age", "date", ".metadata.creationTimestamp")
TEXT = Column("Text", "string", ".spec.text")


@pytest.mark.parametrize(
    ("columns", "wanted"),
    {
        "no age": ([TEXT], ["* *"]),
        "an age alone": ([AGE], ["6m40s"]),
        "an age first": ([AGE, TEXT], ["6m40s", "* *"]),
        "an age between": ([TEXT, AGE, TEXT], ["* *", "6m40s", "* *"]),
        "two ages": ([AGE, TEXT, AGE], ["6m40s", "* *", "6m40s"]),
        "no cells": ([], []),
    }.values(),
)
@pytest.mark.parametrize("named", [True, False])
def test_where_ages_are(columns: list[Column], wanted: list[str], named: bool) -> None:
    convertor = TableConvertor(columns or [Column("X", "string", ".not[valid")], named=named)
    assert cells(convertor, OBJECT) == ["one"] * named + wanted


def test_a_row_is_of_its_table() -> None:
    raw = orjson.dumps(OBJECT)
    for columns in ([AGE], [AGE, AGE]):
        one, other = TableConvertor(columns), TableConvertor(columns)
        row = one.row(OBJECT, raw)
        assert one.made(row)
        assert not other.made(row)


def encoded(include: str, obj: dict[str, Any] = OBJECT, raw: bytes = b"", **options: Any) -> dict[str, Any]:
    convertor = TableConvertor([])
    raw = raw or orjson.dumps(obj)
    rows = [(convertor.row(obj, raw), raw)]
    body = encode_table(convertor, rows, include, {"resourceVersion": "7"}, NOW, **options)
    tree: dict[str, Any] = json.loads(body)
    return tree


PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": OBJECT["metadata"]}


@pytest.mark.parametrize(("include", "wanted"), [("Metadata", PARTIAL), ("Object", OBJECT), ("None", None)])
def test_include(include: str, wanted: Any) -> None:
    tree = encoded(include)
    assert list(tree) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]
    assert tree["metadata"] == {"resourceVersion": "7"}
    assert tree["rows"] == [{"cells": ["one", "6m40s"], "object": wanted}]


def test_version_of_the_table_is_that_of_its_rows() -> None:
    tree = encoded("Metadata", api_version="meta.k8s.io/v1beta1")
    assert tree["apiVersion"] == tree["rows"][0]["object"]["apiVersion"] == "meta.k8s.io/v1beta1"


def test_later_events_have_no_definitions() -> None:
    assert encoded("None", with_definitions=False)["columnDefinitions"] is None


@pytest.mark.parametrize("raw", [json.dumps(OBJECT).encode(), b'{"note":{"metadata":1},' + orjson.dumps(OBJECT)[1:]])
def test_metadata_are_told_however_the_object_is_written(raw: bytes) -> None:
    assert encoded("Metadata", raw=raw)["rows"][0]["object"] == PARTIAL


def test_no_rows() -> None:
    body = encode_table(
        TableConvertor([]), [], "Metadata", {"resourceVersion": "7", "continue": "x", "remainingItemCount": 2}, NOW
    )
    assert json.loads(body)["rows"] == []
    assert json.loads(body)["metadata"] == {"resourceVersion": "7", "continue": "x", "remainingItemCount": 2}


def test_partial_object_metadata() -> None:
    assert partial_object_metadata(OBJECT) == PARTIAL


def nested(levels: int) -> dict[str, Any]:
    obj: dict[str, Any] = {}
    for _ in range(levels):
        obj = {"a": obj}
    return obj


def test_cells_that_would_visit_too_much_are_null() -> None:
    """kube-apiserver takes seconds for the second column, and shows null, since there is no such member."""
    columns = [
        Column("First", "string", "..last"),
        Column("Endless", "string", ".spec..a..a..a..a..zz"),
        Column("After", "string", "..last"),
        Column("Plain", "string", ".last"),
    ]
    obj = {**OBJECT, "last": "x", "spec": nested(100)}
    assert cells(TableConvertor(columns), obj) == ["one", "x", None, None, "x"]


def test_cells_with_too_large_a_text_are_null() -> None:
    columns = [
        Column(str(number), "string", path) for number, path in enumerate((".spec.text", ".spec.text", ".spec.items", ".spec.n"))
    ]
    obj = {**OBJECT, "spec": {"text": "x" * 2_000_000, "items": [1.5] * 40_000, "n": 7}}  # 7 costs nothing
    assert cells(TableConvertor(columns), obj) == ["one", "x" * 2_000_000, None, None, "7"]


def test_rows_with_many_or_expensive_cells_count_as_more_work() -> None:
    plain = TableConvertor([Column("A", "string", ".spec.a")]).row_bytes
    assert TableConvertor([Column("A", "string", ".spec.a")] * 100).row_bytes > 10 * plain
    assert TableConvertor([Column("A", "string", ".spec..a..a")]).row_bytes > 1000 * plain
