"""Cases for `test_same_answers.py`: values under a schema with every keyword, and updates of objects that were invalid before.

`Judged` has two versions: v1 judges everything, v2, in which objects are stored, takes all. An object that is made in v2 and
changed in v1 is one from before its schema became strict.
"""

from __future__ import annotations

from typing import Any

from tests.integration.comparison import JSON_PATCH, MERGE_PATCH, Ask, Cases, ask, path, thing

__all__ = ["CASES", "JUDGED_SPEC", "JUDGED_STATUS"]

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_FORMATS = (
    *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
    *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration"),
    *("date-time", "k8s-short-name", "k8s-long-name"),
)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def _list_of(kind: str, items: Any, *keys: str) -> dict[str, Any]:
    more = {"x-kubernetes-list-map-keys": list(keys)} if keys else {}
    return _list(items, **{"x-kubernetes-list-type": kind}, **more)


_PAIR = {**_object(name=_STRING, port=_INTEGER, value={**_STRING, "maxLength": 3}), "required": ["name"]}
_EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}

JUDGED_SPEC = _object(
    text=_STRING,
    whole=_INTEGER,
    number={"type": "number"},
    flag={"type": "boolean"},
    nullable={**_STRING, "nullable": True},
    nullableEnum={**_STRING, "nullable": True, "enum": ["a"]},
    enum={**_STRING, "enum": ["a", "b c", ""]},
    numbers={"type": "number", "enum": [1, 2.5]},
    mixed={"x-kubernetes-preserve-unknown-fields": True, "enum": ["A", 1, True, {"a": [1]}, None]},
    short={**_STRING, "minLength": 2, "maxLength": 3},
    one={**_STRING, "maxLength": 1},
    pattern={**_STRING, "pattern": "^[a-z]+\\.\\d{1,2}$"},
    patterns={**_STRING, "minLength": 2, "pattern": "a"},
    range={**_INTEGER, "minimum": 1, "maximum": 10},
    open={"type": "number", "minimum": 1, "maximum": 10, "exclusiveMinimum": True, "exclusiveMaximum": True},
    fraction={"type": "number", "minimum": 0.5, "maximum": 1.5},
    wholeFraction={**_INTEGER, "minimum": 0.5, "maximum": 2.5},
    multiple={**_INTEGER, "multipleOf": 3},
    half={"type": "number", "multipleOf": 0.5},
    tenth={"type": "number", "multipleOf": 0.1},
    int32={**_INTEGER, "format": "int32"},
    int64={**_INTEGER, "format": "int64"},
    float={"type": "number", "format": "float"},
    double={"type": "number", "format": "double"},
    unknownFormat={**_STRING, "format": "colour"},
    items=_list(_STRING, minItems=1, maxItems=2),
    nested=_list(_list(_INTEGER)),
    pairs={"type": "object", "additionalProperties": {**_INTEGER, "maximum": 5}, "minProperties": 1, "maxProperties": 2},
    inner={**_object(a=_STRING, b=_object(c=_INTEGER)), "required": ["a", "z.z"]},
    intOrString={"x-kubernetes-int-or-string": True},
    intOrStringTwice={"x-kubernetes-int-or-string": True, "anyOf": [_INTEGER, _STRING], "pattern": "^[0-9]+%$", "maximum": 9},
    anyOf={**_object(a=_STRING, b=_INTEGER), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    oneOf={**_object(a=_STRING, b=_INTEGER), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    allOf={**_STRING, "allOf": [{"minLength": 2}, {"pattern": "^a"}]},
    notOne={**_STRING, "not": {"pattern": "^bad"}},
    deepAny={
        **_object(a=_STRING, b=_object(c=_INTEGER, d=_STRING)),
        "anyOf": [
            {"properties": {"a": {"enum": ["x"]}}},
            {"properties": {"a": {"minLength": 9}, "b": {"properties": {"c": {"maximum": 1}}, "required": ["d"]}}},
        ],
    },
    set=_list_of("set", _STRING),
    numberSet=_list_of("set", {"type": "number"}),
    map=_list_of("map", _PAIR, "name"),
    ports=_list_of("map", {**_PAIR, "required": ["name", "port"]}, "name", "port"),
    template=_EMBEDDED,
    templates=_list(_EMBEDDED),
    templatesByName={"type": "object", "additionalProperties": _EMBEDDED},
    anything={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": _INTEGER}},
    formats=_object(**{name.replace("-", ""): {**_STRING, "format": name} for name in _FORMATS}),
    untyped={"x-kubernetes-preserve-unknown-fields": True, "minimum": 2.5, "maxLength": 2, "minItems": 1, "required": ["a"]},
)
JUDGED_STATUS = {
    **_object(
        phase={**_STRING, "enum": ["Ready"]},
        replicas=_INTEGER,
        conditions=_list_of("map", {**_object(type=_STRING, status=_STRING), "required": ["type", "status"]}, "type"),
    ),
    "required": ["phase"],
}

# Value for spec -> by name, one request each.
_VALUES: dict[str, Any] = {
    "all-good": {"text": "", "whole": 1, "number": 1.5, "flag": True, "nullable": None, "set": ["a"], "map": [{"name": "a"}]},
    "text-number": {"text": 5},
    "text-float": {"text": 1.5},
    "text-bool": {"text": True},
    "text-list": {"text": ["a"]},
    "text-object": {"text": {}},
    "text-null": {"text": None},
    "text-quotes": {"whole": 'a"\\\n\x07é☃'},
    "whole-float": {"whole": 1.5},
    "whole-integral": {"whole": 2.0},
    "whole-nearly": {"whole": 1000000000.5},
    "whole-huge": {"whole": 1e20},
    "whole-past-int64": {"whole": 9223372036854775808},
    "whole-least": {"whole": -9223372036854775808},
    "number-string": {"number": "1"},
    "number-integer": {"number": 5},
    "flag-string": {"flag": "true"},
    "nullable-number": {"nullable": 1},
    "nullable-enum": {"nullableEnum": None},
    "enum-other": {"enum": "c"},
    "enum-empty": {"enum": ""},
    "enum-number": {"enum": 97},
    "enum-list": {"enum": ["a"]},
    "numbers-float": {"numbers": 1.5},
    "numbers-other": {"numbers": 3},
    "numbers-bool": {"numbers": True},
    "mixed-code": {"mixed": 65},
    "mixed-truncated": {"mixed": 1.25},
    "mixed-object": {"mixed": {"a": [1]}},
    "mixed-other-object": {"mixed": {"a": [1.5]}},
    "mixed-false": {"mixed": False},
    "mixed-null": {"mixed": None},
    "short-too": {"short": "a"},
    "short-two": {"short": "é☃"},
    "short-long": {"short": "abcd"},
    "short-characters": {"short": "☃☃☃"},
    "one-long": {"one": "ab"},
    "pattern-good": {"pattern": "a.1"},
    "pattern-bad": {"pattern": "a.123"},
    "pattern-newline": {"pattern": "a.1\n"},
    "pattern-after-length": {"patterns": "b"},
    "range-low": {"range": 0},
    "range-high": {"range": 11},
    "range-edge": {"range": 10},
    "range-float": {"range": 10.5},
    "range-string": {"range": "11"},
    "open-low": {"open": 1},
    "open-high": {"open": 10.0},
    "open-float": {"open": 10.5},
    "fraction-zero": {"fraction": 0},
    "fraction-low": {"fraction": 0.25},
    "fraction-two": {"fraction": 2},
    "whole-fraction": {"wholeFraction": 1},
    "whole-fraction-high": {"wholeFraction": 3},
    "multiple-good": {"multiple": -9},
    "multiple-bad": {"multiple": 10},
    "half-integer": {"half": 1},
    "half-good": {"half": 1.5},
    "half-bad": {"half": 1.25},
    "tenth-good": {"tenth": 0.3},
    "tenth-bad": {"tenth": 0.35},
    "int32-high": {"int32": 2147483648},
    "int32-low": {"int32": -2147483649},
    "int32-edge": {"int32": -2147483648},
    "int32-float": {"int32": 1.5},
    "int32-string": {"int32": "1"},
    "int32-bool": {"int32": True},
    "int64-high": {"int64": 9223372036854775808},
    "int64-edge": {"int64": 9223372036854775807},
    "float-high": {"float": 3.5e38},
    "float-edge": {"float": 3.4e38},
    "float-string": {"float": "1"},
    "double-high": {"double": 1.7e308},
    "unknown-format": {"unknownFormat": "anything"},
    "unknown-format-type": {"unknownFormat": 1},
    "items-few": {"items": []},
    "items-many": {"items": ["a", "b", "c"]},
    "items-type": {"items": ["a", 1]},
    "items-null": {"items": [None]},
    "items-object": {"items": {}},
    "nested-type": {"nested": [[1], ["a"], [1, "b"], 5]},
    "pairs-few": {"pairs": {}},
    "pairs-many": {"pairs": {"a": 1, "b": 2, "c": 3}},
    "pairs-value": {"pairs": {"a": 6, "b.c/d": "x"}},
    "pairs-list": {"pairs": []},
    "inner-required": {"inner": {}},
    "inner-deep": {"inner": {"a": "", "z.z": 1, "b": {"c": "x"}}},
    "int-or-string-number": {"intOrString": 5},
    "int-or-string-text": {"intOrString": "a"},
    "int-or-string-float": {"intOrString": 1.5},
    "int-or-string-bool": {"intOrString": True},
    "int-or-string-null": {"intOrString": None},
    "percent": {"intOrStringTwice": "10%"},
    "percent-not": {"intOrStringTwice": "10"},
    "percent-number": {"intOrStringTwice": 10},
    "percent-list": {"intOrStringTwice": []},
    "any-none": {"anyOf": {}},
    "any-both": {"anyOf": {"a": "", "b": 1}},
    "any-wrong-type": {"anyOf": "x"},
    "one-none": {"oneOf": {}},
    "one-both": {"oneOf": {"a": "", "b": 1}},
    "one-only": {"oneOf": {"a": ""}},
    "all-none": {"allOf": "b"},
    "all-some": {"allOf": "bcd"},
    "all-good-text": {"allOf": "ab"},
    "not-bad": {"notOne": "badly"},
    "not-good": {"notOne": "good"},
    "deep-any": {"deepAny": {"a": "y", "b": {"c": 5}}},
    "deep-any-first": {"deepAny": {"a": "x"}},
    "deep-any-types": {"deepAny": {"a": 1, "b": {"c": "x"}}},
    "set-twice": {"set": ["a", "b", "a", "a"]},
    "set-several": {"set": ["a", "b", "b", "a"]},
    "set-of-numbers": {"numberSet": [1, 1.5, 1]},
    "set-not-a-list": {"set": "a"},
    "map-twice": {"map": [{"name": "a"}, {"name": "b"}, {"name": "a"}]},
    "map-without-key": {"map": [{"port": 1}, {"port": 2}]},
    "map-of-texts": {"map": ["a", {"name": "a"}]},
    "map-of-nulls": {"map": [None, None]},
    "map-two-keys": {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}, {"name": "a", "port": 1}]},
    "embedded-good": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}},
    "embedded-empty": {"template": {}},
    "embedded-null-metadata": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": None}},
    "embedded-kind-empty": {"template": {"apiVersion": "", "kind": ""}},
    "embedded-kind-number": {"template": {"apiVersion": "v1", "kind": 5}},
    "embedded-version": {"template": {"apiVersion": "a/b/c", "kind": "a b"}},
    "embedded-metadata": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "labels": {"a b": "c"}}}},
    "embedded-namespace": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "A"}}},
    "embedded-metadata-text": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": "x"}},
    "embedded-labels": {"templates": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}}}]},
    "embedded-in-list": {"templates": [{"apiVersion": "v1", "kind": "Pod"}, {"kind": "Pod"}]},
    "embedded-in-map": {"templatesByName": {"a": {"apiVersion": "v1", "kind": "Pod"}, "b": {"metadata": {"name": "."}}}},
    "anything-known": {"anything": {"other": [1], "known": "x"}},
    "untyped-number": {"untyped": 2},
    "untyped-low": {"untyped": 1},
    "untyped-float": {"untyped": 2.25},
    "untyped-text": {"untyped": "abc"},
    "untyped-list": {"untyped": []},
    "untyped-object": {"untyped": {}},
    "several": {"text": 1, "range": 11, "short": "a", "pairs": {"a": 9}, "set": ["a", "a"], "inner": {}},
}
_GOOD_FORMATS = {
    "bsonobjectid": "507f1f77bcf86cd799439011",
    "uri": "http://a.b/c?d",
    "email": "Bob <a@b.c>",
    "hostname": "a-b.com",
    "ipv4": "01.2.3.4",
    "ipv6": "::1",
    "cidr": "10.0.0.0/8",
    "mac": "01-23-45-67-89-ab",
    "uuid": "6F1D5E4C-0000-1000-8000-000000000001",
    "uuid3": "6f1d5e4c-0000-3000-8000-000000000001",
    "uuid4": "6f1d5e4c00004000a000000000000001",
    "uuid5": "6f1d5e4c-0000-5000-8000-000000000001",
    "isbn": "978-3-8362-2119-1",
    "isbn10": "3 401 01319 X",
    "isbn13": "9784873113685",
    "creditcard": "4220-8554-2622-2389",
    "ssn": "191-60-2869",
    "hexcolor": "#f00",
    "rgbcolor": "rgb(0, 31,255)",
    "byte": "TQ==",
    "password": "",
    "date": "2024-02-29",
    "duration": "3 weeks",
    "datetime": "2014-12-15T19:30:20.000Z",
    "k8sshortname": "a-b",
    "k8slongname": "a-b.c",
}
_VALUES["formats-good"] = {"formats": _GOOD_FORMATS}
_VALUES["formats-bad"] = {"formats": dict.fromkeys(_GOOD_FORMATS, "(?)")}
_VALUES["formats-numbers"] = {"formats": dict.fromkeys(_GOOD_FORMATS, 5)}
_VALUES["formats-lists"] = {"formats": {name: [] for name in _GOOD_FORMATS}}


def _judged(version: str = "v1", **members: Any) -> dict[str, Any]:
    return thing("Judged", version, **members)


def _create(version: str = "v1", *, compared: bool = True, **members: Any) -> Ask:
    return ask("POST", path("judgeds", version=version), _judged(version, **members), compared=compared)


def _before(spec: Any, status: Any = None) -> list[Ask]:
    """An object from before the schema was strict."""
    steps = [_create("v2", spec=spec, compared=False)]
    if status is not None:
        where = path("judgeds", "$name/status", version="v2")
        steps.append(ask("PATCH", where, {"status": status}, kind=MERGE_PATCH, compared=False))
    return steps


def _merge(body: Any, subresource: str = "", **more: Any) -> Ask:
    return ask("PATCH", path("judgeds", f"$name{subresource}"), body, kind=MERGE_PATCH, **more)


def _json(*operations: Any) -> Ask:
    return ask("PATCH", path("judgeds", "$name"), list(operations), kind=JSON_PATCH)


def _get() -> Ask:
    return ask("GET", path("judgeds", "$name"))


# What was there, and the change that is made to it.
_RATCHETED: dict[str, tuple[Any, Any]] = {
    "other-field": ({"range": 99}, {"text": "new"}),
    "same-field": ({"range": 99}, {"range": 98}),
    "the-same-again": ({"range": 99}, {"range": 99}),
    "metadata": ({"range": 99, "short": "a", "enum": "c"}, {}),
    "mended": ({"range": 99}, {"range": 9}),
    "removed": ({"range": 99, "text": "x"}, {"range": None}),
    "required-in-same": ({"inner": {}}, {"text": "x"}),
    "required-in-changed": ({"inner": {}}, {"inner": {"b": {}}}),
    "in-changed-object": ({"inner": {"a": 5, "z.z": 1}}, {"inner": {"b": {"c": 1}}}),
    "new-beside-old": ({"range": 99}, {"short": "a"}),
    "map-value": ({"pairs": {"a": 9}}, {"pairs": {"b": 1}}),
    "map-new-value": ({"pairs": {"a": 9}}, {"pairs": {"b": 9}}),
    "items-same": ({"items": [1, 2, 3]}, {"text": "x"}),
    "items-more": ({"items": ["a", 1]}, {"items": ["a", 1, 1]}),
    "list-map-item": ({"map": [{"name": "a", "value": "long"}]}, {"map": [{"name": "a", "value": "long"}, {"name": "b"}]}),
    "list-map-order": (
        {"map": [{"name": "a", "value": "long"}, {"name": "b"}]},
        {"map": [{"name": "b"}, {"name": "a", "value": "long"}]},
    ),
    "list-map-other-key": ({"map": [{"name": "a", "value": "long"}]}, {"map": [{"name": "b", "value": "long"}]}),
    "list-map-two-keys": (
        {"ports": [{"name": "a", "port": 1, "value": "long"}]},
        {"ports": [{"name": "b", "port": 1}, {"name": "a", "port": 1, "value": "long"}]},
    ),
    "any-same": ({"anyOf": {}}, {"text": "x"}),
    "one-changed": ({"oneOf": {}}, {"oneOf": {"a": "", "b": 1}}),
    "not-same": ({"notOne": "bad"}, {"text": "x"}),
    "unplaced-same": ({"int32": 3000000000}, {"text": "x"}),
    "set-same": ({"set": ["a", "a"]}, {"text": "x"}),
    "set-more": ({"set": ["a", "a"]}, {"set": ["b", "b"]}),
    "set-elsewhere": ({"set": ["a", "a"]}, {"map": [{"name": "a"}, {"name": "a"}]}),
    "set-new": ({"text": "x"}, {"set": ["a", "a"]}),
    "embedded-same": ({"template": {"kind": "Pod"}}, {"text": "x"}),
    "embedded-changed": ({"template": {"apiVersion": "v1", "kind": "a b"}}, {"template": {"x": 1}}),
    "preserved": ({"anything": {"known": "x", "other": 1}}, {"text": "x"}),
    "preserved-unknown-only": ({"anything": {"known": "x"}}, {"anything": {"other": 1}}),
    "untyped": ({"untyped": "abc"}, {"text": "x"}),
    "type": ({"text": {"a": 1}}, {"whole": 1}),
    "null": ({"items": [None, "a"]}, {"text": "x"}),
    "formats": ({"formats": {"ipv4": "x", "date": "y"}}, {"formats": {"date": "2020-01-01"}}),
}
_BAD_STATUS = {"phase": "Gone", "replicas": "many"}
_CONDITION = {"type": "a", "status": "True"}

_UPDATES: Cases = {
    "put-invalid": [
        _create(spec={"range": 5}, compared=False),
        ask("PUT", path("judgeds", "$name"), _judged(metadata={"resourceVersion": "$rv1"}, spec={"range": 50, "short": "a"})),
    ],
    "put-invalid-labels": [
        _create(spec={"range": 5}, compared=False),
        ask(
            "PUT",
            path("judgeds", "$name"),
            _judged(metadata={"resourceVersion": "$rv1", "labels": {"a b": "c"}}, spec={"range": 50, "set": ["a", "a"]}),
        ),
    ],
    "put-ratcheted": [
        *_before({"range": 99}),
        ask("PUT", path("judgeds", "$name"), _judged(metadata={"resourceVersion": "$rv1"}, spec={"range": 99, "text": "x"})),
    ],
    "put-embedded-labels": [
        _create(spec={}, compared=False),
        ask(
            "PUT",
            path("judgeds", "$name"),
            _judged(
                metadata={"resourceVersion": "$rv1"},
                spec={"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": []}}},
            ),
        ),
    ],
    "merge-embedded-labels": [
        _create(spec={"template": {"apiVersion": "v1", "kind": "Pod"}}, compared=False),
        _merge({"spec": {"template": {"metadata": {"labels": []}}}}),
    ],
    "json-patch-invalid": [
        _create(spec={"range": 5}, compared=False),
        _json({"op": "replace", "path": "/spec/range", "value": "x"}),
    ],
    "merge-invalid": [_create(spec={"range": 5}, compared=False), _merge({"spec": {"range": 50}})],
    "loose-takes-all": [_create("v2", spec={"range": "x", "set": ["a", "a"]}), _get()],
    "read-in-strict": [_create("v2", spec={"range": "x", "unheard": 1, "text": None}), _get()],
    "nothing-new-in-strict": [
        _create("v2", spec={"unheard": 1, "text": "a"}, compared=False),
        _merge({}),
        ask("GET", path("judgeds", "$name", version="v2")),
    ],
    "create-with-bad-status": [_create(spec={}, status=_BAD_STATUS)],
    "status-good": [_create(spec={}, compared=False), _merge({"status": {"phase": "Ready"}}, "/status")],
    "status-bad": [_create(spec={}, compared=False), _merge({"status": _BAD_STATUS}, "/status")],
    "status-required": [_create(spec={}, compared=False), _merge({"status": {"replicas": 1}}, "/status")],
    "status-text": [_create(spec={}, compared=False), _merge({"status": "x"}, "/status")],
    "status-removed": [*_before({}, {"phase": "Ready"}), _merge({"status": None}, "/status")],
    "status-conditions-twice": [
        _create(spec={}, compared=False),
        _merge({"status": {"phase": "Ready", "conditions": [_CONDITION, _CONDITION]}}, "/status"),
    ],
    "status-of-invalid-spec": [*_before({"range": 99, "set": ["a", "a"]}), _merge({"status": {"phase": "Ready"}}, "/status")],
    "status-twice-with-set-twice": [
        *_before({"set": ["a", "a"]}),
        _merge({"status": {"phase": "Ready", "conditions": [_CONDITION, _CONDITION]}}, "/status"),
    ],
    "status-ratcheted": [*_before({}, _BAD_STATUS), _merge({"status": {"conditions": [_CONDITION]}}, "/status")],
    "status-still-missing": [*_before({}, {"replicas": 1}), _merge({"status": {"replicas": 2}}, "/status")],
    "spec-of-invalid-status": [*_before({}, _BAD_STATUS), _merge({"spec": {"text": "x"}})],
    "label-of-invalid-status": [*_before({"range": 99}, _BAD_STATUS), _merge({"metadata": {"labels": {"a": "b"}}})],
}

CASES: Cases = {
    **{f"value-{name}": [_create(spec=spec)] for name, spec in _VALUES.items()},
    "value-spec-missing": [_create()],
    "value-spec-null": [_create(spec=None)],
    "value-spec-list": [_create(spec=[])],
    "value-metadata-and-spec": [_create(metadata={"labels": {"a b": "c"}, "name": "A_b"}, spec={"range": 50})],
    "value-other-kind": [ask("POST", path("judgeds"), thing("Other", spec={"range": 50, "set": ["a", "a"]}))],
    **{
        f"ratchet-{name}": [*_before(spec), _merge({"spec": change, "metadata": {"labels": {"new": "er"}}})]
        for name, (spec, change) in _RATCHETED.items()
    },
    **{f"update-{name}": case for name, case in _UPDATES.items()},
}
