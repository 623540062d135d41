import re
from typing import Any

import pytest

from aggserver.meta import selectors
from aggserver.meta.selectors import FieldSelector, LabelSelector, Requirement, SelectorError
from tests.meta.texts import NAME, SUBDOMAIN, VALUE

# Selector -> its canonical form, labels that match, labels that don't.
LABELS: dict[str, tuple[str, str, list[dict[str, str]], list[dict[str, str]]]] = {
    "everything": ("", "", [{}, {"a": "b"}], []),
    "equal": ("a=b", "a=b", [{"a": "b"}], [{}, {"a": "c"}, {"b": "a"}]),
    "equal twice": ("a==b", "a==b", [{"a": "b"}], [{}]),
    "equal nothing": ("a=", "a=", [{"a": ""}], [{}, {"a": "b"}]),
    "not equal": ("a != b", "a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
    "in": ("a in (c,b)", "a in (b,c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": ""}]),
    "in one": ("a in (b)", "a in (b)", [{"a": "b"}], [{"a": "c"}]),
    "in nothing": ("a in ()", "a in ()", [{"a": ""}], [{}, {"a": "b"}]),
    "in with a gap": ("a in (b,,c)", "a in (,b,c)", [{"a": ""}, {"a": "c"}], [{}, {"a": "d"}]),
    "in with a gap in front": ("a in (,b)", "a in (,b)", [{"a": ""}], [{}]),
    "in with a gap behind": ("a in (b,)", "a in (,b)", [{"a": ""}], [{}]),
    "not in": ("a notin (b,c)", "a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}]),
    "exists": ("a", "a", [{"a": ""}], [{}]),
    "absent": ("!a", "!a", [{}], [{"a": ""}]),
    "greater": ("a>1", "a>1", [{"a": "2"}, {"a": "+5"}], [{}, {"a": "1"}, {"a": "x"}, {"a": "-2"}, {"a": "9223372036854775808"}]),
    "less": ("a<5", "a<5", [{"a": "4"}, {"a": "-9"}], [{}, {"a": "5"}, {"a": ""}]),
    "all": ("b=1, a in ( x , y ) ,!c", "a in (x,y),b=1,!c", [{"b": "1", "a": "x"}], [{"b": "1"}, {"b": "1", "a": "x", "c": ""}]),
    "words of the language": ("in in (in,notin),notin=in", "in in (in,notin),notin=in", [{"in": "notin", "notin": "in"}], [{}]),
    "qualified": ("example.com/a=b", "example.com/a=b", [{"example.com/a": "b"}], [{"a": "b"}]),
    "white space": ("a=\tb\r\n", "a=b", [{"a": "b"}], [{}]),
}


@pytest.mark.parametrize(("text", "canonical", "matching", "others"), LABELS.values(), ids=LABELS)
def test_labels(text: str, canonical: str, matching: list[dict[str, str]], others: list[dict[str, str]]) -> None:
    selector = LabelSelector.parse(text)
    assert str(selector) == canonical
    assert selector.empty is (not text)
    assert [selector.matches(labels) for labels in matching] == [True] * len(matching)
    assert [selector.matches(labels) for labels in others] == [False] * len(others)
    assert LabelSelector.parse(canonical) == selector


REQUIREMENT = "unable to parse requirement: "
BAD_LABELS = {
    "comma": (",", "found ',', expected: !, identifier, or 'end of string'"),
    "operator": ("=b", "found '=', expected: !, identifier, or 'end of string'"),
    "parenthesis": ("(a)", "found '(', expected: !, identifier, or 'end of string'"),
    "comma at the end": ("a,", "found '', expected: identifier after ','"),
    "two commas": ("a,,b", "found ',', expected: identifier after ','"),
    "two values": ("a=b c", "found 'c', expected: ',' or 'end of string'"),
    "one parenthesis too many": ("a in (b))", "found ')', expected: ',' or 'end of string'"),
    "absent and equal": ("!a=b", "found '=', expected: ',' or 'end of string'"),
    "no operator": ("a b", f"{REQUIREMENT}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    "exclamation mark": ("a!b", f"{REQUIREMENT}found '!', expected: in, notin, =, ==, !=, gt, lt"),
    "no set": ("a in b", f"{REQUIREMENT}found 'b' expected: '('"),
    "nothing after in": ("a in", f"{REQUIREMENT}found '' expected: '('"),
    "open set": ("a in (b", f"{REQUIREMENT}found '', expected: ',' or ')'"),
    "no comma in a set": ("a in (b c)", f"{REQUIREMENT}found 'c', expected: ',' or ')'"),
    "operator in a set": ("a in (!)", f"{REQUIREMENT}found '!', expected: ',', ')' or identifier"),
    "operator in a set after a comma": ("a in (b,!)", f"{REQUIREMENT}found '!', expected: ',', or identifier"),
    "not of nothing": ("!", f"{REQUIREMENT}found '', expected: identifier"),
    "not not": ("!!a", f"{REQUIREMENT}found '!', expected: identifier"),
    "three equal signs": ("a===b", f"{REQUIREMENT}found '=', expected: identifier"),
    "key": ("-a", f'{REQUIREMENT}<nil>: Invalid value: "-a": name part {NAME}'),
    "prefix and key": ("A/-", f'{REQUIREMENT}<nil>: Invalid value: "A/-": prefix part {SUBDOMAIN}; name part {NAME}'),
    "value": ("a=b@", f'{REQUIREMENT}values[0][a]: Invalid value: "b@": {VALUE}'),
    "second value": ("a in (b,c@)", f'{REQUIREMENT}values[1][a]: Invalid value: "c@": {VALUE}'),
    "long value": ("a=" + "x" * 64, f'{REQUIREMENT}values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes'),
    "no number": (
        "a>x",
        f"{REQUIREMENT}values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    "two errors": (
        "a>x@",
        f"{REQUIREMENT}[values[0]: Invalid value: \"x@\": for 'Gt', 'Lt' operators, the value must be an integer, "
        f'values[0][a]: Invalid value: "x@": {VALUE}]',
    ),
}


@pytest.mark.parametrize(("text", "error"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_refused(text: str, error: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        LabelSelector.parse(text)
    assert str(refusal.value) == error


def test_label_requirements() -> None:
    assert LabelSelector.parse("a=1,b!=2,c in (4,3),d notin (5),e,!f,g>6,h<7").requirements() == [
        Requirement("a", "In", ("1",)),
        Requirement("b", "NotIn", ("2",)),
        Requirement("c", "In", ("3", "4")),
        Requirement("d", "NotIn", ("5",)),
        Requirement("e", "Exists", ()),
        Requirement("f", "DoesNotExist", ()),
        Requirement("g", "Gt", ("6",)),
        Requirement("h", "Lt", ("7",)),
    ]


OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "everything": ({}, ""),
    "nulls": ({"matchLabels": None, "matchExpressions": None}, ""),
    "labels": ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
    "expressions": (
        {
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["2", "1"]},
                {"key": "b", "operator": "NotIn", "values": [""]},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "DoesNotExist", "values": []},
            ]
        },
        "a in (1,2),b notin (),c,!d",
    ),
}


@pytest.mark.parametrize(("given", "canonical"), OBJECTS.values(), ids=OBJECTS)
def test_selector_objects(given: dict[str, Any], canonical: str) -> None:
    assert str(LabelSelector.from_object(given)) == canonical


WRITTEN: dict[str, dict[str, Any]] = {
    "": {},
    "b=2,a==1": {"matchLabels": {"a": "1", "b": "2"}},
    "a in (2,1),a=3": {"matchLabels": {"a": "3"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]},
    "!a,b,c!=d": {
        "matchExpressions": [
            {"key": "a", "operator": "DoesNotExist"},
            {"key": "b", "operator": "Exists"},
            {"key": "c", "operator": "NotIn", "values": ["d"]},
        ]
    },
}


@pytest.mark.parametrize("text", WRITTEN)
def test_selectors_as_objects(text: str) -> None:
    assert LabelSelector.parse(text).to_object() == WRITTEN[text]


def test_a_comparison_is_no_object() -> None:
    with pytest.raises(SelectorError, match=r'">" isn.t supported in label selectors'):
        LabelSelector.parse("a>1").to_object()


def test_long_selectors() -> None:
    """As long as a body allows: what is read again for each symbol takes minutes."""
    keys = [f"a{number:06}" for number in range(8_000)]
    assert str(LabelSelector.parse(" , ".join(keys))) == ",".join(keys)
    assert str(LabelSelector.parse(f"a in ({' , '.join(keys)})")) == f"a in ({','.join(keys)})"
    assert str(LabelSelector.parse(f"a in ({',' * 100_000})")) == "a in ()"
    assert str(FieldSelector.parse(",".join(f"{key}=b" for key in keys))) == ",".join(f"{key}=b" for key in keys)
    for text, found in (("(" * 100_000, "("), ("=" * 100_000, "=="), ("!" * 100_000, "!"), ("," * 100_000, ",")):
        with pytest.raises(SelectorError, match=re.escape(f"found '{found}'")):
            LabelSelector.parse(text)


def test_errors_that_repeat_a_long_key_are_cut() -> None:
    values = [f"{number}@" for number in range(1000)]
    with pytest.raises(SelectorError) as refusal:
        LabelSelector.from_object({"matchExpressions": [{"operator": "In", "key": "k" * 100_000, "values": values}]})
    assert 500_000 < len(str(refusal.value)) < 1_000_000


BAD_OBJECTS: dict[str, tuple[dict[str, Any], str]] = {
    "operator": ({"operator": "Gt", "key": "a"}, '"Gt" is not a valid label selector operator'),
    "no values": (
        {"operator": "In", "key": "a"},
        "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
    ),
    "values": (
        {"operator": "Exists", "key": "a", "values": ["b"]},
        'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
    ),
    "key": ({"operator": "Exists", "key": "-"}, f'key: Invalid value: "-": name part {NAME}'),
}


@pytest.mark.parametrize(("expression", "error"), BAD_OBJECTS.values(), ids=BAD_OBJECTS)
def test_selector_objects_refused(expression: dict[str, Any], error: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        LabelSelector.from_object({"matchExpressions": [expression]})
    assert str(refusal.value) == error


FIELDS: dict[str, tuple[str, str, list[dict[str, str]], list[dict[str, str]]]] = {
    "everything": ("", "", [{}], []),
    "commas alone": (",,", "", [{}], []),
    "nothing equals nothing": ("=", "", [{}], []),
    "equal": ("a=b", "a=b", [{"a": "b"}], [{}, {"a": "c"}]),
    "equal twice": ("a==b", "a=b", [{"a": "b"}], [{}]),
    "not equal": ("a!=b", "a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
    "absent is empty": ("a=", "a=", [{}, {"a": ""}], [{"a": "b"}]),
    "present": ("a!=", "a!=", [{"a": "b"}], [{}]),
    "sorted": ("c=1,a=2,", "a=2,c=1", [{"c": "1", "a": "2"}], [{"c": "1"}]),
    "escapes": (r"a=b\,c\=d\\", r"a=b\,c\=d\\", [{"a": "b,c=d\\"}], [{}]),
    "exclamation mark in a value": ("a=!b", "a=!b", [{"a": "!b"}], [{}]),
    "spaces count": ("a= b", "a= b", [{"a": " b"}], [{"a": "b"}]),
}


@pytest.mark.parametrize(("text", "canonical", "matching", "others"), FIELDS.values(), ids=FIELDS)
def test_fields(text: str, canonical: str, matching: list[dict[str, str]], others: list[dict[str, str]]) -> None:
    selector = FieldSelector.parse(text)
    assert str(selector) == canonical
    assert selector.empty is (not canonical)
    assert [selector.matches(fields) for fields in matching] == [True] * len(matching)
    assert [selector.matches(fields) for fields in others] == [False] * len(others)
    assert FieldSelector.parse(canonical) == selector


BAD_FIELDS = {
    "no operator": ("a", "invalid selector: 'a'; can't understand 'a'"),
    "one of two": ("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'"),
    "unescaped": ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    "escape": (r"a=b\x", r"invalid field selector: invalid escape sequence: \x"),
    "escape at the end": ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    "no escapes in a name": (r"a\=b=c", "invalid field selector: unescaped character in value: 61"),
}


@pytest.mark.parametrize(("text", "error"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_fields_refused(text: str, error: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        FieldSelector.parse(text)
    assert str(refusal.value) == error


def test_field_requirements() -> None:
    selector = FieldSelector.parse("spec.a!=x,metadata.name=y")
    assert selector.fields() == ["metadata.name", "spec.a"]
    assert selector.requirements() == [Requirement("metadata.name", "In", ("y",)), Requirement("spec.a", "NotIn", ("x",))]
    assert selectors.exact_value(selector, "metadata.name") == "y"
    assert selectors.exact_value(selector, "spec.a") == ""


NAMES = {
    "none": ("", ""),
    "name": ("metadata.name=a", "a"),
    "name among others": ("spec.x=y,metadata.name=a", "a"),
    "not the name": ("metadata.name!=a", ""),
    "other fields": ("spec.x=y", ""),
    "malformed": ("metadata.name", ""),
    "no path segment": ("metadata.name=a/b", ""),
}


@pytest.mark.parametrize(("text", "name"), NAMES.values(), ids=NAMES)
def test_single_name(text: str, name: str) -> None:
    assert selectors.single_name(text) == name


def test_selectors_are_values() -> None:
    assert len({LabelSelector.parse("a=b,c"), LabelSelector.parse("c,a=b"), LabelSelector.parse("a=b")}) == 2
    assert len({FieldSelector.parse("a=b,c=d"), FieldSelector.parse("c=d,a=b"), FieldSelector.parse("a=b")}) == 2
    for kind in (LabelSelector, FieldSelector):
        assert kind.parse("a=b") == kind.parse("a=b")
        assert kind.parse("a=b") not in (kind.parse("a=c"), "a=b")
    assert repr(LabelSelector.parse("a")) == "LabelSelector('a')"
    assert repr(FieldSelector.parse("a=b")) == "FieldSelector('a=b')"
