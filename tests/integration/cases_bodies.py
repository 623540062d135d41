"""Cases for `test_same_answers.py`: what bodies of create and update may be, and what is said of those that may not."""

from __future__ import annotations

from tests.integration.comparison import GROUP, Cases, ask, delete, get, make, path, post, put, thing

__all__ = ["CASES"]

VERSION = f"{GROUP}/v1"
_YAML = f"apiVersion: {VERSION}\nkind: Thing\nmetadata:\n  name: $name\nspec:\n  size: 1\n"
_YAML_TWICE = _YAML + "  color: red\n  color: blue\n"
_JSON_TWICE = '{"apiVersion":"VERSION","kind":"Thing","metadata":{"name":"$name"},"spec":{"size":1,"size":2}}'.replace(
    "VERSION", VERSION
)
_UNKNOWN = thing(spec={"size": 1, "shape": "round"}, extra=1)
_UNKNOWN_META = thing(metadata={"colour": "x"}, spec={"size": 1})

_SHAPES: Cases = {
    "body-not-json": [post("this is no JSON")],
    "body-broken-json": [post('{"apiVersion": ')],
    "body-trailing-garbage": [
        post('{"kind":"Thing","apiVersion":"VERSION","metadata":{"name":"$name"}} x'.replace("VERSION", VERSION))
    ],
    "body-empty": [post(b"")],
    "body-array": [post([])],
    "body-string": [post('"text"')],
    "body-number": [post("1")],
    "body-null": [post("null")],
    "body-empty-object": [post({})],
    "body-binary": [post(b"\x00\x01\x02")],
    "wrong-kind": [post({**thing(), "kind": "Other"})],
    "wrong-version": [post({**thing(), "apiVersion": f"{GROUP}/v2"})],
    "wrong-group": [post({**thing(), "apiVersion": "other.example.com/v1"})],
    "malformed-api-version": [post({**thing(), "apiVersion": "a/b/c"})],
    "core-api-version": [post({**thing(), "apiVersion": "v1"})],
    "kind-a-number": [post({**thing(), "kind": 1})],
    "api-version-a-list": [post({**thing(), "apiVersion": []})],
    "no-kind": [post({"apiVersion": VERSION, "metadata": {"name": "$name"}})],
    "no-api-version": [post({"kind": "Thing", "metadata": {"name": "$name"}})],
    "no-kind-and-api-version": [post({"metadata": {"name": "$name"}})],
    "no-metadata": [post({"apiVersion": VERSION, "kind": "Thing"})],
    "null-metadata": [post({"apiVersion": VERSION, "kind": "Thing", "metadata": None})],
    "list-kind": [post({"apiVersion": VERSION, "kind": "ThingList", "items": []})],
    "upper-case-keys": [post({"APIVersion": VERSION, "Kind": "Thing", "Metadata": {"name": "$name"}})],
    "body-too-large": [post(thing(spec={"color": "x" * (4 * 1024 * 1024)}))],
    "body-2-mib": [post(thing(spec={"color": "x" * (2 * 1024 * 1024)}))],
    "put-not-json": [make(), put("this is no JSON")],
    "put-empty": [make(), put(b"")],
    "put-array": [make(), put("[]")],
    "put-wrong-kind": [make(), put({**thing(metadata={"resourceVersion": "$rv1"}), "kind": "Other"})],
    "put-no-kind": [make(), put({"metadata": {"name": "$name", "resourceVersion": "$rv1"}})],
    "put-wrong-version": [make(), put({**thing(metadata={"resourceVersion": "$rv1"}), "apiVersion": f"{GROUP}/v9"})],
    "put-too-large": [make(), put(thing(spec={"color": "x" * (4 * 1024 * 1024)}))],
}

_MEDIA_TYPES: Cases = {
    "yaml-body": [post(_YAML, kind="application/yaml")],
    "yaml-body-sent-as-json": [post(_YAML)],
    "json-body-sent-as-yaml": [post(thing(spec={"size": 1}), kind="application/yaml")],
    "yaml-broken": [post("a: [", kind="application/yaml")],
    "yaml-a-list": [post("- a\n", kind="application/yaml")],
    "yaml-tab": [post("a:\n\tb: c\n", kind="application/yaml")],
    "yaml-two-documents": [post(_YAML + "---\na: b\n", kind="application/yaml")],
    "yaml-empty": [post("---\n", kind="application/yaml")],
    "yaml-tag-directives": [post("%TAG !e! tag:example.com,2026:\n%TAG ! !x\n---\n" + _YAML, kind="application/yaml")],
    "yaml-aliases": [post(_YAML + "  color: &c red\nextra: *c\nmore: [*c , {<<: {a: *c }}]\n", kind="application/yaml")],
    "yaml-unknown-anchor-after-what-is-unfit": [post("a: !!int x\nb: *c\n", kind="application/yaml")],
    "yaml-spaces-and-words": [post(_YAML + f"  color: a{' ' * 300}{'b ' * 300}\n", kind="application/yaml")],
    "type-none": [ask("POST", path("things"), thing(), kind="")],
    "type-with-charset": [post(thing(), kind="application/json; charset=utf-8")],
    "type-text": [post(thing(), kind="text/plain")],
    "type-xml": [post(thing(), kind="application/xml")],
    "type-cbor": [post(thing(), kind="application/cbor")],
    "type-nonsense": [post(thing(), kind="nonsense")],
    "type-upper-case": [post(thing(), kind="Application/JSON")],
    "type-put-text": [make(), put(thing(metadata={"resourceVersion": "$rv1"}), kind="text/plain")],
    "type-form": [post("a=b", kind="application/x-www-form-urlencoded")],
}


def _validations(name: str, body: object, kind: str = "application/json") -> Cases:
    """A create in each of the modes of fieldValidation, and in one that is none."""
    modes = {"default": "", "strict": "Strict", "warn": "Warn", "ignore": "Ignore"}
    queries = {mode: f"fieldValidation={value}" if value else "" for mode, value in modes.items()}
    return {f"{name}-{mode}": [post(body, kind=kind, query=query)] for mode, query in queries.items()}


_STRICTNESS: Cases = {
    **_validations("unknown-fields", _UNKNOWN),
    **_validations("unknown-metadata", _UNKNOWN_META),
    **_validations("json-twice", _JSON_TWICE),
    **_validations("yaml-twice", _YAML_TWICE, "application/yaml"),
    "field-validation-unknown": [post(thing(), query="fieldValidation=strict")],
    "both-strict": [
        post(_JSON_TWICE.replace('"size":2}', '"size":2,"shape":1},"extra":{}'), query="fieldValidation=Strict"),
    ],
    "embedded-twice": [
        post(_JSON_TWICE.replace('"size":2', '"parts":[{"label":"a","label":"b"}]'), query="fieldValidation=Strict"),
    ],
    "unknown-in-list": [post(thing(spec={"parts": [{"label": "a"}, {"label": "b", "weight": 1}]}))],
    "unknown-in-map": [post(thing(spec={"pairs": {"a": {"value": "x", "other": 1}}}))],
    "metadata-twice": [post(_JSON_TWICE.replace('"name":"$name"', '"name":"a","name":"$name"'))],
    "labels-twice": [post(_JSON_TWICE.replace('"name":"$name"', '"name":"$name","labels":{"a":"b","a":"c"}'))],
    "kind-twice": [post(_JSON_TWICE.replace('"kind":"Thing"', '"kind":"Thing","kind":"Thing"'))],
    "case-of-metadata": [post(thing(metadata={"Labels": {"a": "b"}}))],
    "case-of-spec": [post(thing(Spec={"size": 1}))],
    "put-unknown-warn": [make(), put({**_UNKNOWN, "metadata": {"name": "$name", "resourceVersion": "$rv1"}})],
    "put-unknown-strict": [
        make(),
        put({**_UNKNOWN, "metadata": {"name": "$name", "resourceVersion": "$rv1"}}, query="fieldValidation=Strict"),
    ],
    "put-unknown-ignore": [
        make(),
        put({**_UNKNOWN, "metadata": {"name": "$name", "resourceVersion": "$rv1"}}, query="fieldValidation=Ignore"),
    ],
    "put-twice-strict": [
        make(),
        put(_JSON_TWICE.replace('"name":"$name"', '"name":"$name","resourceVersion":"$rv1"'), query="fieldValidation=Strict"),
    ],
    "embedded-resource-unknown": [
        post(thing(spec={"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "x": 1}, "spec": {"b": 1}}})),
    ],
}

_VALUES: Cases = {
    "preserved-fields": [post(thing(spec={"anything": {"a": [1, 2.5, None, {"b": True}]}})), get()],
    "null-fields": [post(thing(spec={"size": None, "color": None}))],
    "large-integer": [post(thing(spec={"anything": {"n": 9007199254740993, "m": 9223372036854775807}}))],
    "floats": [post(thing(spec={"anything": {"a": 1.0, "b": 1e3, "c": 1.5e300, "d": -0.0}}))],
    "unicode": [post(thing(spec={"color": "größer ☃ 𝄞 <>&"})), get()],
    "escapes": [
        post(
            '{"apiVersion":"VERSION","kind":"Thing","metadata":{"name":"$name"},"spec":{"color":"\\ud800\\u0000"}}'.replace(
                "VERSION", VERSION
            )
        )
    ],
    "defaults": [post(thing(spec={})), get()],
    "no-spec": [post(thing()), get()],
    "embedded-resource": [
        post(thing(spec={"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"b": 1}}})),
    ],
    "embedded-labels-a-list": [
        post(thing(spec={"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": []}}})),
    ],
    "int-or-string": [post(thing(spec={"port": 80})), delete(), post(thing(spec={"port": "http"}))],
    "wrong-type-in-spec": [post(thing(spec={"size": "big"}))],
    "spec-a-string": [post(thing(spec="text"))],
    "required-missing": [post(thing(spec={"parts": [{"weight": 1}]}))],
    "enum": [post(thing(spec={"mode": "c"}))],
    "range": [post(thing(spec={"size": 1000}))],
    "pattern": [post(thing(spec={"code": "UPPER"}))],
    "max-length": [post(thing(spec={"code": "abcdefghijkl"}))],
    "several-wrong": [post(thing(spec={"size": 1000, "mode": "c", "code": "UPPER"}))],
    "cel-rule": [post(thing("Ruled", spec={"size": 13}), resource="ruleds")],
    "cel-rule-unchecked": [post(thing("Ruled", metadata={"name": ""}, spec={"size": 1}), resource="ruleds")],
    "put-wrong-type": [make(), put(thing(metadata={"resourceVersion": "$rv1"}, spec={"size": "big"}))],
}

CASES: Cases = {**_SHAPES, **_MEDIA_TYPES, **_STRICTNESS, **_VALUES}
