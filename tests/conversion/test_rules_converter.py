"""RulesConverter: what rules make of objects, and how a conversion fails."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from aggserver.conversion.converter import ConversionError, TakesLong
from aggserver.conversion.patient import PatientConverter
from tests.conversion.rules import CRON_TAB, CRON_TAB_RULES, GROUP, converted, converter
from tests.fakes.work import instructions

V1 = """
spec:
  type: object
  properties:
    replicas: {type: integer}
    paused: {type: boolean}
    note: {type: string}
    when: {type: string, format: date-time}
    size: {x-kubernetes-int-or-string: true}
    limits: {type: object, additionalProperties: {type: string}}
    ports:
      type: array
      maxItems: 9
      items: {type: object, properties: {nr: {type: integer}, name: {type: string, maxLength: 9}}}
    free: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
V2 = """
spec:
  type: object
  required: [kept]
  properties:
    scaling: {type: object, properties: {size: {type: integer}, most: {type: integer}}}
    kept: {type: object, properties: {note: {type: string}}}
    note: {type: string}
    size: {x-kubernetes-int-or-string: true}
    names: {type: array, items: {type: string}}
    day: {type: string}
    ratio: {type: number}
    limits: {type: object, additionalProperties: {type: string}}
    endpoints: {type: array, items: {type: object, properties: {port: {type: integer}, name: {type: string}}}}
    free: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
BOTH = {"v1": V1, "v2": V2}


def there(*changes: dict[str, Any]) -> str:
    return json.dumps({"conversions": [{"from": "v1", "to": "v2", "changes": changes}, {"from": "v2", "to": "v1"}]})


def spec(obj: dict[str, Any], *changes: dict[str, Any]) -> Any:
    """The spec in v2 that changes make of a spec in v1."""
    return converted(there(*changes), BOTH, {"apiVersion": "v1", "spec": obj}, "v2").get("spec")


CASES: dict[str, tuple[dict[str, Any], list[dict[str, str]], Any]] = {
    "what no change names is carried over": ({"note": "n", "limits": {"a": "b"}}, [], {"note": "n", "limits": {"a": "b"}}),
    "a move makes parents": ({"replicas": 3}, [{"move": ".spec.replicas", "to": ".spec.scaling.size"}], {"scaling": {"size": 3}}),
    "a move of nothing": ({"note": "n"}, [{"move": ".spec.replicas", "to": ".spec.scaling.size"}], {"note": "n"}),
    "a move with a condition that holds": (
        {"replicas": 3},
        [{"move": ".spec.replicas", "to": ".spec.scaling.size", "when": "self.spec.replicas > 2"}],
        {"scaling": {"size": 3}},
    ),
    "a move with one that does not": (
        {"replicas": 2},
        [{"move": ".spec.replicas", "to": ".spec.scaling.size", "when": "self.spec.replicas > 2"}],
        {},
    ),
    "one of two moves to the same field": (
        {"replicas": 2},
        [
            {"move": ".spec.replicas", "to": ".spec.scaling.size", "when": "self.spec.replicas > 2"},
            {"move": ".spec.replicas", "to": ".spec.scaling.most", "when": "self.spec.replicas <= 2"},
        ],
        {"scaling": {"most": 2}},
    ),
    "an entry of a map": ({"limits": {"a.b/c": "1", "x": "2"}}, [{"remove": '.spec.limits["a.b/c"]'}], {"limits": {"x": "2"}}),
    "the last entry of a map": ({"note": "n", "limits": {"x": "2"}}, [{"remove": ".spec.limits.x"}], {"note": "n"}),
    "a set": ({"replicas": 3}, [{"set": ".spec.scaling.most", "value": "self.spec.replicas * 2"}], {"scaling": {"most": 6}}),
    "a set replaces": ({"note": "n"}, [{"set": ".spec.note", "value": "self.spec.note + '!'"}], {"note": "n!"}),
    "a set of optional.none() leaves the field out": (
        {"note": "n", "limits": {"a": "b"}},
        [{"set": ".spec.note", "value": "self.spec.?replicas.optMap(r, 'x')"}],
        {"limits": {"a": "b"}},
    ),
    "a set of an optional": ({"note": "n"}, [{"set": ".spec.day", "value": "self.spec.?note"}], {"note": "n", "day": "n"}),
    "a set whose condition does not hold": (
        {"note": "n"},
        [{"set": ".spec.note", "value": "'x'", "when": "has(self.spec.replicas)"}],
        {"note": "n"},
    ),
    "an expression that needs a field that is absent": (
        {"note": "n"},
        [{"set": ".spec.note", "value": "self.spec.replicas > 1 ? self.spec.note : 'x'"}],
        None,
    ),
    "a condition that does": ({"note": "n"}, [{"remove": ".spec.note", "when": "self.spec.replicas > 1"}], {"note": "n"}),
    "an integer for a number": ({"replicas": 3}, [{"set": ".spec.ratio", "value": "self.spec.replicas"}], {"ratio": 3}),
    "a double": ({"replicas": 3}, [{"set": ".spec.ratio", "value": "double(self.spec.replicas) / 2.0"}], {"ratio": 1.5}),
    "a list": (
        {"ports": [{"name": "a"}, {"nr": 1}]},
        [{"set": ".spec.names", "value": "self.spec.ports.map(p, p.?name.orValue('none'))"}],
        {"names": ["a", "none"]},
    ),
    "objects by an expression": (
        {"ports": [{"name": "a", "nr": 1}]},
        [{"set": ".spec.endpoints", "value": "self.spec.ports.map(p, {'name': dyn(p.name), 'port': dyn(p.nr)})"}],
        {"endpoints": [{"name": "a", "port": 1}]},
    ),
    "optional members": (
        {"ports": [{"nr": 1}]},
        [{"set": ".spec.endpoints", "value": "self.spec.ports.map(p, {?'port': p.?nr})"}],
        {"endpoints": [{"port": 1}]},
    ),
    "a map as it is": (
        {"limits": {"a": "b"}},
        [{"set": ".spec.free.limits", "value": "self.spec.limits"}],
        {"limits": {"a": "b"}, "free": {"limits": {"a": "b"}}},
    ),
    "a time as text": (
        {"when": "2026-01-02T03:04:05Z"},
        [{"set": ".spec.day", "value": "string(self.spec.when.getFullYear())"}],
        {"day": "2026"},
    ),
    "a time": (
        {"when": "2026-01-02T03:04:05+00:00"},
        [{"set": ".spec.day", "value": "self.spec.when"}],
        {"day": "2026-01-02T03:04:05Z"},
    ),
    "an integer or string": (
        {"size": "50%"},
        [{"set": ".spec.day", "value": "string(self.spec.size)"}],
        {"size": "50%", "day": "50%"},
    ),
    "the items of a list": (
        {"ports": [{"nr": 1, "name": "a"}, {"nr": 2}]},
        [{"each": ".spec.ports", "to": ".spec.endpoints", "changes": [{"move": ".nr", "to": ".port"}]}],
        {"endpoints": [{"name": "a", "port": 1}, {"port": 2}]},
    ),
    "self is the item": (
        {"ports": [{"nr": 1}, {"nr": 2}]},
        [
            {
                "each": ".spec.ports",
                "to": ".spec.endpoints",
                "changes": [{"set": ".port", "value": "self.nr + 8000"}, {"set": ".name", "value": "'p%d'.format([self.nr])"}],
            }
        ],
        {"endpoints": [{"port": 8001, "name": "p1"}, {"port": 8002, "name": "p2"}]},
    ),
    "a part moves out before the whole": (
        {"free": {"a": "x", "b": 1}},
        [{"move": ".spec.free.a", "to": ".spec.note"}, {"move": ".spec.free", "to": ".spec.free.rest"}],
        {"note": "x", "free": {"rest": {"b": 1}}},
    ),
    "labels are read": ({}, [{"set": ".spec.note", "value": "self.metadata.?labels[?'x'].orValue('none')"}], {"note": "none"}),
}


@pytest.mark.parametrize("name", CASES)
def test_changes(name: str) -> None:
    obj, changes, wanted = CASES[name]
    assert spec(obj, *changes) == wanted


def test_fields_are_swapped() -> None:
    versions = dict.fromkeys(("v1", "v2"), "{a: {type: string}, b: {type: string}}")
    swap = there({"move": ".a", "to": ".b"}, {"move": ".b", "to": ".a"})
    assert converted(swap, versions, {"apiVersion": "v1", "kind": "X", "a": "1", "b": "2"}, "v2") == {
        "kind": "X",
        "a": "2",
        "b": "1",
    }
    assert converted(swap, versions, {"apiVersion": "v1", "kind": "X", "a": "1"}, "v2") == {"kind": "X", "b": "1"}


def test_a_parent_that_the_other_version_requires_stays() -> None:
    versions = dict.fromkeys(("v1", "v2"), "{s: {type: object, properties: {a: {type: string}}}, b: {type: string}}")
    moved = there({"move": ".s.a", "to": ".b"})
    obj = {"apiVersion": "v1", "s": {"a": "x"}}
    assert converted(moved, versions, obj, "v2") == {"b": "x"}
    inner = "{type: object, required: [in], properties: {in: {type: object, properties: {a: {type: string}}}}}"
    versions = dict.fromkeys(versions, f"{{s: {inner}, b: {{type: string}}}}")
    moved = there({"move": ".s.in.a", "to": ".b"})
    assert converted(moved, versions, {"apiVersion": "v1", "s": {"in": {"a": "x"}}}, "v2") == {"b": "x", "s": {"in": {}}}


def test_the_pages_example() -> None:
    there, back = ("v1beta1", "v1"), ("v1", "v1beta1")
    old = {"kind": "CronTab", "hostPort": "localhost:1234"}
    new = {"kind": "CronTab", "host": "localhost", "port": "1234"}
    for way, one, other in ((there, old, new), (back, new, old)):
        assert converted(CRON_TAB_RULES, CRON_TAB, {**one, "apiVersion": way[0]}, way[1]) == other


SAVING = """
conversions:
- from: v1
  to: v2
  changes:
  - {save: .spec.paused, annotation: example.com/paused}
  - {save: .spec.ports, annotation: example.com/ports}
"""


def test_what_the_other_version_can_not_hold_is_saved() -> None:
    obj = {"spec": {"note": "n", "paused": False, "ports": [{"nr": 1}]}}
    saved = {"example.com/paused": "false", "example.com/ports": '[{"nr":1}]'}
    kept = {"metadata": {"annotations": saved}, "spec": {"note": "n"}}
    assert converted(SAVING, BOTH, {"apiVersion": "v1", **obj}, "v2") == kept
    assert converted(SAVING, BOTH, {"apiVersion": "v2", **kept}, "v1") == obj


@pytest.mark.parametrize("text", ["maybe", "3", "", "{", '"true"'])
def test_an_annotation_that_a_client_has_changed_stays(text: str) -> None:
    obj = {"metadata": {"annotations": {"example.com/paused": text}}, "spec": {"note": "n"}}
    assert converted(SAVING, BOTH, {"apiVersion": "v2", **obj}, "v1") == obj


def test_what_was_saved_before_is_dropped_with_the_field() -> None:
    obj = {"apiVersion": "v1", "metadata": {"annotations": {"example.com/paused": "true", "a": "b"}}, "spec": {"note": "n"}}
    assert converted(SAVING, BOTH, obj, "v2") == {"metadata": {"annotations": {"a": "b"}}, "spec": {"note": "n"}}


def test_an_annotation_moves_to_a_field() -> None:
    text = json.dumps({"conversions": [{"from": "v1", "to": "v2", "changes": [{"move": NOTE, "to": ".spec.note"}]}]})
    old = {"metadata": {"annotations": {"example.com/note": "x"}}, "spec": {}}
    assert converted(text, BOTH, {"apiVersion": "v1", "metadata": old["metadata"]}, "v2") == {"spec": {"note": "x"}}
    assert converted(text, BOTH, {"apiVersion": "v2", "spec": {"note": "x"}}, "v1") == {"metadata": old["metadata"]}


NOTE = '.metadata.annotations["example.com/note"]'

HUB = """
hub: v2
conversions:
- {from: v1, to: v2, changes: [{move: .a, to: .b}]}
- {from: v2, to: v3, changes: [{set: .c, value: self.b + self.extra}]}
- {from: v3, to: v2, changes: [{move: .c, to: .b}]}
"""
THREE = {
    "v1": "{a: {type: string}, gone: {type: string}}",
    "v2": "{b: {type: string}, extra: {type: string, default: '!'}}",
    "v3": "{c: {type: string}, gone: {type: string}}",
}


def test_conversions_through_the_hub() -> None:
    """The object between them has the defaults of the hub, and only its fields, as if it had been stored so."""
    assert converted(HUB, THREE, {"apiVersion": "v1", "a": "x", "gone": "y"}, "v3") == {"c": "x!"}
    assert converted(HUB, THREE, {"apiVersion": "v3", "c": "x", "gone": "y"}, "v1") == {"a": "x"}


FAILURES = {
    "an index beyond a list": (
        {"ports": []},
        {"set": ".spec.note", "value": "self.spec.ports[0].name"},
        "value (set .spec.note): index out of bounds: 0",
    ),
    "a field that one item does not have": (
        {"ports": [{"name": "a"}, {"nr": 1}]},
        {"set": ".spec.names", "value": "self.spec.ports.map(p, p.name)"},
        "value (set .spec.names): no such key: name",
    ),
    "a condition": (
        {"ports": []},
        {"remove": ".spec.note", "when": "self.spec.ports[1].nr == 2"},
        "when (remove .spec.note): index out of bounds: 1",
    ),
    "no number": (
        {"replicas": 0},
        {"set": ".spec.ratio", "value": "double(self.spec.replicas) / 0.0"},
        "value (set .spec.ratio): there is no JSON for NaN",
    ),
    "no value at all": (
        {},
        {"set": ".spec.free", "value": "dyn(type(1))"},
        "value (set .spec.free): there is no JSON for",
    ),
    "keys that are no strings": (
        {},
        {"set": ".spec.free", "value": "dyn({1: 2})"},
        "value (set .spec.free): the keys of an object must be strings",
    ),
    "a dyn that does not fit": (
        {"replicas": 1},
        {"set": ".spec.note", "value": "dyn(self.spec.replicas)"},
        "changes[0].value (set .spec.note): the field is a string, which the result does not fit",
    ),
    "a condition that is no bool": (
        {"replicas": 1},
        {"remove": ".spec.note", "when": "dyn(self.spec.replicas)"},
        "when (remove .spec.note): must evaluate to a bool",
    ),
    "in an item": (
        {"ports": [{"name": "x"}]},
        {"each": ".spec.ports", "to": ".spec.endpoints", "changes": [{"set": ".name", "value": "self.name.split(',')[1]"}]},
        "changes[0].changes[0].value (set .name): index out of bounds: 1",
    ),
    "a label that is not valid": (
        {"note": "a b"},
        {"set": ".metadata.labels.note", "value": "self.spec.note"},
        'rules.conversions[0]: metadata.labels: Invalid value: "a b"',
    ),
    "annotations that are too long": (
        {"note": "x" * 300_000},
        {"move": ".spec.note", "to": ".metadata.annotations.note"},
        "rules.conversions[0]: metadata.annotations would be too long",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_name_the_change(name: str) -> None:
    obj, change, why = FAILURES[name]
    with pytest.raises(ConversionError) as caught:
        spec(obj, change)
    assert caught.value.code == 500
    assert str(caught.value).startswith("conversion of CronTab from v1 to v2 failed: rules.conversions[0]"), caught.value
    assert why in str(caught.value), caught.value


def test_the_cost_of_one_object_is_limited() -> None:
    """Each expression is within its limit, but a thousand long items are beyond that of the object."""
    names = "{l: {type: array, maxItems: 8000, items: {type: object, properties: {n: {type: string, maxLength: 500}}}}}"
    text = there({"each": ".l", "changes": [{"set": ".n", "value": "self.n.matches('^(a|b)*c.*x$') ? 'x' : 'y'"}]})
    versions = dict.fromkeys(("v1", "v2"), names)
    items = [{"n": "ab" * 250} for _ in range(8000)]
    few = converted(text, versions, {"apiVersion": "v1", "l": items[:20]}, "v2")
    assert few["l"] == [{"n": "y"}] * 20
    with pytest.raises(ConversionError, match="the expressions of one object exceed the cost limit"):
        converted(text, versions, {"apiVersion": "v1", "l": items}, "v2")


SQUARES = """
l: {type: array, maxItems: 9000, items: {type: integer}}
s: {type: string, maxLength: 5000}
any: {type: array, items: {x-kubernetes-preserve-unknown-fields: true}}
"""
MAKES = {
    # name: (a value of .any that is too much, why)
    "too many bytes": ("self.l.map(x, self.s)", 3000, "what the expressions make of one object is larger than 3145728 bytes"),
    "too many elements": ("self.l.map(x, self.l)", 1010, "the expressions of one object exceed the cost limit"),
    "the same in a text": ("['%s'.format([self.l.map(x, self.l)])]", 9000, "the expressions of one object exceed the cost limit"),
}


@pytest.mark.parametrize("name", MAKES)
def test_what_rules_make_is_counted_before_it_is_written(name: str) -> None:
    source, size, why = MAKES[name]
    text = there({"set": ".any", "value": f"dyn({source})"})
    versions = dict.fromkeys(("v1", "v2"), SQUARES)
    given = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "a"}, "l": list(range(size)), "s": "x" * 2000}
    convert = converter(text, versions).at_once
    with pytest.raises(ConversionError) as caught:
        convert(given, f"{GROUP}/v2")
    assert str(caught.value).endswith(f"rules.conversions[0].changes[0].value (set .any): {why}")
    # A few steps for each element of the list, none for those that it would have made.
    again = converter(text, versions).at_once
    assert instructions(lambda: _refused(again, given)) < 2_000_000


def _refused(convert: Any, obj: Any) -> None:
    with pytest.raises(ConversionError):
        convert(copy.deepcopy(obj), f"{GROUP}/v2")


def test_what_takes_long_is_given_up_and_made_in_a_thread() -> None:
    versions = dict.fromkeys(("v1", "v2"), SQUARES)
    rules = converter(there({"set": ".any", "value": "dyn(self.l.map(x, self.l))"}), versions)
    patient = PatientConverter(rules)

    def obj(size: int) -> dict[str, Any]:
        return {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "a"}, "l": list(range(size))}

    assert len(patient.at_once(obj(20), f"{GROUP}/v2")["any"]) == 20
    with pytest.raises(TakesLong):
        patient.at_once(obj(200), f"{GROUP}/v2")
    # What it costs until then does not depend on the object.
    assert instructions(lambda: _given_up(patient, obj(900))) < 100_000
    made = asyncio.run(patient.convert([obj(20), obj(200)], f"{GROUP}/v2"))
    assert [len(each["any"]) for each in made] == [20, 200]
    with pytest.raises(ConversionError) as caught:
        asyncio.run(patient.convert([obj(20), obj(9000)], f"{GROUP}/v2"))
    assert caught.value.index == 1


def _given_up(patient: PatientConverter, obj: dict[str, Any]) -> None:
    with pytest.raises(TakesLong):
        patient.at_once(obj, f"{GROUP}/v2")


def test_batches_and_objects_that_are_in_the_version_already() -> None:
    convert = converter(CRON_TAB_RULES, CRON_TAB).convert
    one = {"apiVersion": f"{GROUP}/v1", "metadata": {}, "host": "a", "port": "1"}
    other = {"apiVersion": f"{GROUP}/v1beta1", "metadata": {}, "hostPort": "b:2"}
    made = asyncio.run(convert([one, other], f"{GROUP}/v1beta1"))
    assert [obj["hostPort"] for obj in made] == ["a:1", "b:2"]
