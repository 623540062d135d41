"""Values that grow: objects, patches, definitions, expressions and encodings with more and more of one part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from aggserver.apiextensions import validation
from aggserver.authentication import requestheader
from aggserver.cel.checker import check
from aggserver.cel.cost import estimate
from aggserver.cel.program import compile_program
from aggserver.endpoints.handlers import options
from aggserver.endpoints.request import Request
from aggserver.merge import fieldset, managed_fields, patch
from aggserver.merge.strategic import strategic_merge
from aggserver.meta import codec, json_text, jsonpath, selectors, yaml_text
from aggserver.meta.protobuf_wire import LENGTH, VARINT, tag, varint, with_length
from aggserver.meta.resource import ResourceInfo
from aggserver.publish import openapi_v2, openapi_v3
from aggserver.publish.discovery import APIResource
from aggserver.publish.models import Published
from aggserver.publish.table import Column, TableConvertor
from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.scheme import decoding, protobuf_codec, rewriting, strict
from aggserver.scheme import validation as scheme_validation
from aggserver.scheme.types import lookup
from tests.cel.environment import ENVIRONMENT, VALUES
from tests.growth.measure import Case

# Parts that a body has room for: of a few characters, and of some twenty.
_SMALL, _PARTS = 400_000, 100_000
# The levels of nesting that a body may have are limited; what is nested otherwise, in a text, is not.
_LEVELS = 20_000
# Characters of an expression: upstream's limit is 100,000.
_EXPRESSION = 100_000


def cases() -> Iterator[Case]:
    yield from _texts()
    yield from _json()
    yield from _yaml()
    yield from _protobuf()
    yield from _patches()
    yield from _field_sets()
    yield from _kinds()
    yield from _definitions()
    yield from _objects()
    yield from _expressions()
    yield from _columns()
    yield from _requests()


def _case(name: str, read: Callable[[Any], object], make: Callable[[int], Any], most: int = _PARTS) -> Case:
    return Case(name, make, read, most)


def _nested(count: int, opening: str, closing: str, inside: str = "") -> str:
    return opening * count + inside + closing * count


# --- texts of several parts ---


def _texts() -> Iterator[Case]:
    parse, of_object = selectors.LabelSelector.parse, selectors.LabelSelector.from_object
    numbered = (("a{}=b", "equal"), ("!a{}", "absent"), ("a{} in (b,c)", "set"), ("a{}>{}", "number"), ("a{}!=", "empty"))
    for form, name in numbered:
        yield _case(f"label selector: {name}", parse, lambda n, form=form: ",".join(form.format(at, at) for at in range(n)))
    yield _case("label selector: values", parse, lambda n: f"a in ({','.join(f'b{at}' for at in range(n))})")
    yield _case("label selector: the same key", parse, lambda n: ",".join(["a=b"] * n))
    wrong = {"key": "-" * 1000, "operator": "In"}
    yield _case("label selector: wrong values", of_object, lambda n: {"matchExpressions": [{**wrong, "values": ["@"] * n}]})
    yield _case("label selector: labels", of_object, lambda n: {"matchLabels": {f"a{at}": "b" for at in range(n)}})
    yield _case("field selector: terms", selectors.FieldSelector.parse, lambda n: ",".join(f"a{at}!=b" for at in range(n)))
    yield _case("field selector: escapes", selectors.FieldSelector.parse, lambda n: "a=" + "\\,b" * n, _SMALL)
    yield _case("JSONPath: filters", jsonpath.compile, lambda n: ".a" + _nested(n, "[?(@.b", ")]"), _LEVELS)
    yield _case("JSONPath: a union", jsonpath.compile, lambda n: f".a[{','.join(map(str, range(n)))}]")
    yield _case("JSONPath: steps", lambda text: jsonpath.compile(text).find({}), lambda n: ".a[0]['b']" * n)


# --- encodings ---


def _json() -> Iterator[Case]:
    decode, twice = codec.decode_checking_keys, json_text.duplicate_fields
    yield _case("JSON: items", decode, lambda n: b"[" + b"1," * n + b"1]", _SMALL)
    yield _case("JSON: floats", decode, lambda n: b"[" + b"1.0," * n + b"1]", _SMALL)
    yield _case("JSON: members", decode, lambda n: orjson.dumps({f"a{at}": at for at in range(n)}))
    yield _case("JSON: the same member", decode, lambda n: b"{" + b'"a":1,' * n + b'"a":1}', _SMALL)
    yield _case("JSON: large integers", decode, lambda n: b"[" + b"12345678901234567," * n + b"1]")
    yield _case("JSON: digits", decode, lambda n: b"1" * n, _SMALL)
    yield _case("JSON: digits of a fraction", decode, lambda n: b"[0." + b"1" * n + b"]", _SMALL)
    yield _case("JSON: half characters", decode, lambda n: b'["' + b"\\ud800" * n + b'"]', _SMALL)
    yield _case("JSON: broken characters", decode, lambda n: b'["' + b"\xff" * n + b'"]', _SMALL)
    pod = lookup("core/v1.Pod")
    for name, item in {"members": b"{}", "unknown members": b'{"a":1}', "repeated members": b'{"name":"","name":""}'}.items():
        yield _case(
            f"JSON of a Pod: {name}",
            lambda body: strict.complaints(body, pod),
            lambda n, item=item: b'{"spec":{"containers":[' + b",".join([item] * n) + b"]}}",
            _SMALL,
        )
    yield _case("JSON: open lists", decode, lambda n: b"[" * n, _SMALL)
    yield _case("JSON: open maps", decode, lambda n: b'{"a":' * n, _SMALL)
    yield _case("JSON: ends missing", decode, lambda n: b"[" + b"1," * n, _SMALL)
    yield _case("duplicates: members twice", twice, lambda n: _members(n, "{0}", "{0}"))
    yield _case("duplicates: the same member", twice, lambda n: b"{" + b'"a":1,' * n + b'"a":1}', _SMALL)
    yield _case(
        "duplicates: below a long key",
        twice,
        lambda n: b'{"%b":%b}' % (b"k" * 10 * n, _members(n, "{0}", "{0}")),
        20_000,
    )
    yield _case("duplicates: in items", twice, lambda n: b"[" + b'{"a":1,"a":1},' * n + b"1]")
    yield _case("duplicates: none", twice, lambda n: _members(n, "{0}"))


def _members(count: int, *names: str) -> bytes:
    return ("{" + ",".join(f'"a{name.format(at)}":1' for at in range(count) for name in names) + "}").encode()


def _yaml() -> Iterator[Case]:
    decode = yaml_text.decode
    lines: dict[str, str] = {
        "members": "a{}: b\n",
        "the same member": "a: b\n",
        "items": "- a{}\n",
        "maps": "- a: {}\n",
        "long members": "? a{}\n: b\n",
        "comments": "# a{}\n",
        "anchors": "- &a{} b\n",
        "the same anchor": "- &a b\n",
        "aliases": "- &a{} b\n- *a{}\n",
        "tags": "- !a{} b\n",
        "numbers": "- 0x{}\n",
        "dates": "- 2006-01-02T15:04:05.{}Z\n",
        "empty lines": "\n",
        "quoted": '- "a{}\\n"\n',
        "merges": "- <<: {{a: {}}}\n",
        "blocks": "- |\n  a{}\n",
    }
    for name, line in lines.items():
        yield _case(f"YAML: {name}", decode, lambda n, line=line: "".join(line.format(at, at) for at in range(n)).encode())
    yield _case("YAML: directives", decode, lambda n: b"".join(b"%%TAG !a%d! b\n" % at for at in range(n)) + b"---\na: b\n")
    yield _case("YAML: items in brackets", decode, lambda n: b"[" + b"a," * n + b"]", _SMALL)
    yield _case("YAML: members in brackets", decode, lambda n: b"{" + b"a: b," * n + b"}", _SMALL)
    yield _case("YAML: open brackets", decode, lambda n: b"[" * n, _SMALL)
    yield _case("YAML: open braces", decode, lambda n: b"{a: " * n, _SMALL)
    yield _case("YAML: brackets", decode, lambda n: _nested(n, "[", "]").encode(), _LEVELS)
    yield _case("YAML: levels", decode, lambda n: "".join(" " * at + "a:\n" for at in range(n)).encode(), 2_000)
    yield _case("YAML: levels of items", decode, lambda n: b"- " * n + b"a", _SMALL)
    yield _case("YAML: levels of keys", decode, lambda n: b"? " * n + b"a", _SMALL)
    yield _case("YAML: lines of a text", decode, lambda n: b"a: >\n" + b"  a\n\n" * n)
    yield _case("YAML: lines of a plain text", decode, lambda n: b"a: b\n" + b" c\n" * n)
    yield _case("YAML: words", decode, lambda n: b"a: " + b"b " * n, _SMALL)
    yield _case("YAML: a long key", decode, lambda n: b"a" * n + b": b\n", _SMALL)
    yield _case("YAML: aliases of a text", decode, lambda n: b"a: &a %b\nb: [%b]\n" % (b"x" * n, b"*a," * n), 4_000)
    yield _case("YAML: escapes", decode, lambda n: b'"' + b"\\x41" * n + b'"', _SMALL)
    yield _case("YAML: documents", yaml_text.decode_all, lambda n: b"--- a\n" * n)
    yield _case("YAML, written: members", codec.dump_yaml, lambda n: {f"a{at}": at for at in range(n)})
    yield _case(
        "YAML, written: keys of digits", codec.dump_yaml, lambda n: {"1" * (at % 100) + str(at): at for at in range(n)}, 20_000
    )
    yield _case("YAML, written: words", codec.dump_yaml, lambda n: ["a b " * n], _SMALL)
    yield _case("YAML, written: lines", codec.dump_yaml, lambda n: ["a\n" * n], _SMALL)
    yield _case("YAML, written: levels", codec.dump_yaml, lambda n: _levels(n), 200)


def _levels(count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = {"a": [value]}
    return value


def _protobuf() -> Iterator[Case]:
    kinds = {kind: protobuf_codec.reader(lookup(kind)) for kind in ("core/v1.Pod", "core/v1.ConfigMap", "meta/v1.DeleteOptions")}

    def read(kind: str) -> Callable[[bytes], object]:
        return lambda data: kinds[kind](data, 0, len(data))

    for kind in kinds:
        for number in range(1, 4):
            for part in (b"", b"\x0a\x01a", b"\x08\x01", b"\xff"):
                field = tag(number, LENGTH) + with_length(part)
                yield _case(f"protobuf {kind}: field {number} with {part!r}", read(kind), lambda n, field=field: field * n)
            inner = tag(number, VARINT) + varint(1)
            yield _case(f"protobuf {kind}: number {number}", read(kind), lambda n, inner=inner: inner * n, _SMALL)
        yield _case(f"protobuf {kind}: levels", read(kind), _nested_messages, 2_000)
        yield _case(f"protobuf {kind}: unknown", read(kind), lambda n: (tag(1000, LENGTH) + with_length(b"a")) * n)
    entry = [tag(2, LENGTH) + with_length(tag(1, LENGTH) + with_length(b"k%d" % at)) for at in range(_PARTS)]
    yield _case("protobuf ConfigMap: entries", read("core/v1.ConfigMap"), lambda n: b"".join(entry[:n]))


def _nested_messages(count: int) -> bytes:
    data = b""
    for _ in range(count):
        data = tag(1, LENGTH) + with_length(data)
    return data


# --- merging ---


def _patches() -> Iterator[Case]:
    def apply(given: tuple[Any, list[Any]]) -> object:
        return patch.apply_json_patch(given[0], patch.parse_json_patch(given[1]))

    most = 10_000  # operations, upstream's limit
    objects: dict[str, Callable[[int], Any]] = {
        "small": lambda n: {"l": [1], "m": {"a": 1}, "t": "x"},
        "a list": lambda n: {"l": list(range(50 * n)), "m": {}},
        "a map": lambda n: {"l": [], "m": {f"a{at}": at for at in range(50 * n)}},
    }
    operations: dict[str, Callable[[int], dict[str, Any]]] = {
        "add in front": lambda at: {"op": "add", "path": "/l/0", "value": at},
        "add at the end": lambda at: {"op": "add", "path": "/l/-", "value": at},
        "remove in front": lambda at: {"op": "remove", "path": "/l/0"},
        "replace": lambda at: {"op": "replace", "path": "/l/0", "value": at},
        "add members": lambda at: {"op": "add", "path": f"/m/b{at}", "value": at},
        "remove members": lambda at: {"op": "remove", "path": f"/m/a{at}"},
        "move": lambda at: {"op": "move", "from": "/l/0", "path": "/l/-"},
        "copy": lambda at: {"op": "copy", "from": "/l", "path": f"/m/c{at}"},
        "copy into itself": lambda at: {"op": "copy", "from": "/m", "path": "/m/m"},
        "test": lambda at: {"op": "test", "path": "/l", "value": [1]},
        "unknown": lambda at: {"op": "test", "path": "/l", "value": [1], f"x{at}": 1},
    }
    for of, obj in objects.items():
        for name, operation in operations.items():
            yield _case(
                f"JSON patch of {of}: {name}",
                apply,
                lambda n, obj=obj, operation=operation: (obj(n), [operation(at) for at in range(n)]),
                most,
            )
    yield _case("JSON patch: a long path", apply, lambda n: ({}, [{"op": "add", "path": "/a" * n, "value": 1}]), _SMALL)
    yield _case("JSON patch: escapes", apply, lambda n: ({}, [{"op": "add", "path": "/" + "~1" * n, "value": 1}]), _SMALL)
    yield _case(
        "JSON patch: complaints",
        lambda body: patch.complaints(body, None, nothing_repeated=False),
        lambda n: b"[" + b'{"op":"add","path":"/a","value":{"a":1},"op":"add"},' * n + b"{}]",
        _SMALL,
    )
    yield _case(
        "JSON patch: the order of what was patched",
        lambda given: patch.as_written(*given),
        lambda n: ({f"a{at}": {} for at in range(n)}, [patch.PatchOperation("add", f"/a{at}/b") for at in range(n)]),
    )

    def merge(given: tuple[Any, Any]) -> object:
        return patch.merge_patch(*given)

    yield _case("merge patch: members", merge, lambda n: ({f"a{at}": 1 for at in range(n)}, {f"b{at}": 1 for at in range(n)}))
    yield _case("merge patch: removals", merge, lambda n: ({f"a{at}": 1 for at in range(n)}, {f"a{at}": None for at in range(n)}))
    yield _case("merge patch: names", patch.metadata_named, lambda n: {"metadata": {f"a{at}": 1 for at in range(n)}})

    def strategic(given: tuple[Any, Any]) -> object:
        return strategic_merge(*given, lookup("core/v1.Pod"))

    def volumes(n: int, **more: Any) -> dict[str, Any]:
        return {"spec": {"volumes": [{"name": f"v{at}", **more} for at in range(n)]}}

    tolerations = [{"key": "k", "operator": "Exists"}]
    strategics: dict[str, Callable[[int], tuple[Any, Any]]] = {
        "new items": lambda n: ({"spec": {}}, volumes(n)),
        "changed items": lambda n: (volumes(n), volumes(n, emptyDir={})),
        "deleted items": lambda n: (volumes(n), volumes(n, **{"$patch": "delete"})),
        "replaced items": lambda n: (volumes(n), {"spec": {"volumes": [{"$patch": "replace"}, *volumes(n)["spec"]["volumes"]]}}),
        "order": lambda n: (
            volumes(n),
            {"spec": {"$setElementOrder/volumes": [{"name": f"v{at}"} for at in reversed(range(n))]}},
        ),
        "order and items": lambda n: (
            volumes(n),
            {"spec": {"$setElementOrder/volumes": [{"name": f"v{at}"} for at in reversed(range(n))], **volumes(n)["spec"]}},
        ),
        "retained keys": lambda n: (
            {"spec": {f"a{at}": 1 for at in range(n)}},
            {"spec": {"$retainKeys": [f"a{at}" for at in range(n)], **{f"a{at}": 1 for at in range(n)}}},
        ),
        "deleted scalars": lambda n: (
            {"metadata": {"finalizers": [f"f{at}" for at in range(n)]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"f{at}" for at in range(n)]}},
        ),
        "scalars": lambda n: ({"metadata": {"finalizers": ["a"]}}, {"metadata": {"finalizers": [f"f{at}" for at in range(n)]}}),
        "order of scalars": lambda n: (
            {"metadata": {"finalizers": [f"f{at}" for at in range(n)]}},
            {"metadata": {"$setElementOrder/finalizers": [f"f{at}" for at in reversed(range(n))], "finalizers": ["f0"]}},
        ),
        "items with the same key": lambda n: (volumes(1), {"spec": {"volumes": [{"name": "v0"}] * n}}),
        "items with the same key in the object": lambda n: ({"spec": {"volumes": [{"name": "v0"}] * n}}, volumes(1)),
        "items without a strategy": lambda n: (
            {"spec": {"tolerations": tolerations * n}},
            {"spec": {"tolerations": tolerations * n}},
        ),
        "labels": lambda n: ({"metadata": {"labels": {}}}, {"metadata": {"labels": {f"a{at}": "b" for at in range(n)}}}),
    }
    for name, make in strategics.items():
        yield _case(f"strategic merge: {name}", strategic, make, 40_000)


def _field_sets() -> Iterator[Case]:
    names: dict[str, Callable[[int], str]] = {
        "names": lambda at: f"f:a{at}",
        "indices": lambda at: f"i:{at}",
        "keys": lambda at: f'k:{{"a":"b{at}"}}',
        "keys in another form": lambda at: f'k:{{ "b":{at}, "a":1.0 }}',
        "values": lambda at: f'v:"a{at}"',
    }
    made = {name: (lambda n, make=make: {make(at): {} for at in range(n)}) for name, make in names.items()}
    for name, make in made.items():
        yield _case(f"fieldsV1: {name}", fieldset.parse, make)
        yield _case(
            f"fieldsV1: sets of {name}",
            _set_operations,
            lambda n, make=make: (fieldset.parse(make(n)), fieldset.parse({**make(n // 2), "f:x": {}})),
        )
    yield _case("fieldsV1: levels", fieldset.parse, _nested_fields, 10_000)
    yield _case(
        "fieldsV1: a key with many members", fieldset.parse, lambda n: {"k:" + json.dumps({f"a{at}": 1 for at in range(n)}): {}}
    )
    yield _case("fieldsV1: a value with levels", fieldset.parse, lambda n: {"v:" + _nested(n, "[", "]"): {}}, _SMALL)
    yield _case("fieldsV1: a value with digits", fieldset.parse, lambda n: {"v:" + "1" * n: {}, "i:" + "1" * n: {}}, _SMALL)
    entry = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2020-01-01T00:00:00Z"}
    yield _case(
        "managedFields: entries",
        managed_fields.decode,
        lambda n: [{**entry, "manager": f"m{at}", "fieldsV1": {"f:a": {}}} for at in range(n)],
        30_000,
    )
    yield _case(
        "managedFields: the same entry",
        managed_fields.decode,
        lambda n: [{**entry, "manager": "m", "fieldsV1": {f"f:{at}": {}}} for at in range(n)],
        30_000,
    )


def _set_operations(sets: tuple[Any, Any]) -> object:
    left, right = sets
    union = fieldset.union(left, right)
    made = [fieldset.intersection(left, right), fieldset.difference(left, right), fieldset.recursive_difference(union, right)]
    return fieldset.difference(left, union, levels=3), fieldset.ordered(union), made, list(fieldset.paths(union))


def _nested_fields(count: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for _ in range(count):
        fields = {"f:a": fields}
    return fields


# --- built-in kinds ---


def _kinds() -> Iterator[Case]:
    pods: dict[str, Callable[[int], dict[str, Any]]] = {
        "containers": lambda n: {"spec": {"containers": [{"name": f"c{at}", "image": "a"} for at in range(n)]}},
        "the same container": lambda n: {"spec": {"containers": [{"name": "c", "image": "a"}] * n}},
        "mounts": lambda n: {
            "spec": {
                "volumes": [{"name": f"v{at}"} for at in range(n)],
                "containers": [{"name": "c", "volumeMounts": [{"name": f"v{at}", "mountPath": f"/{at}"} for at in range(n)]}],
            }
        },
        "variables": lambda n: {
            "spec": {"containers": [{"name": "c", "env": [{"name": f"e{at}", "value": "1"} for at in range(n)]}]}
        },
        "ports": lambda n: {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": at} for at in range(n)]}]}},
        "resources": lambda n: {
            "spec": {"containers": [{"name": "c", "resources": {"limits": {f"a{at}": "1" for at in range(n)}}}]}
        },
        "labels": lambda n: {"metadata": {"labels": {f"a{at}": "b" for at in range(n)}}, "spec": {}},
        "owners": lambda n: {"metadata": {"ownerReferences": [{"uid": f"u{at}", "name": "a"} for at in range(n)]}, "spec": {}},
        "finalizers": lambda n: {"metadata": {"finalizers": [f"a/b{at}" for at in range(n)]}, "spec": {}},
        "unknown members": lambda n: {"spec": {f"x{at}": 1 for at in range(n)}},
        "tolerations": lambda n: {"spec": {"tolerations": [{"key": f"k{at}"} for at in range(n)]}},
        "a long command": lambda n: {"spec": {"containers": [{"name": "c", "command": ["$(A)" * n]}]}},
    }
    of = lookup("core/v1.Pod")
    for name, make in pods.items():
        yield _case(f"Pod, decoded: {name}", lambda obj: decoding.decode_error(obj, of), make, 20_000)
        yield _case(f"Pod, rewritten: {name}", lambda obj: rewriting.rewrite(obj, of), make, 20_000)
        yield _case(f"Pod, validated: {name}", lambda obj: scheme_validation.validate(obj, of), make, 20_000)


# --- definitions ---


def _definition(schema: dict[str, Any], **spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    given = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version], **spec}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": given,
    }


def _object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def _schemas() -> Iterator[tuple[str, Callable[[int], dict[str, Any]], int]]:
    text = {"type": "string"}
    yield "properties", lambda n: _object_schema(**{f"a{at}": text for at in range(n)}), 20_000
    yield "patterns", lambda n: _object_schema(**{f"a{at}": {**text, "pattern": f"^a{at}$"} for at in range(n)}), 10_000
    yield "a long pattern", lambda n: _object_schema(a={**text, "pattern": "(a|b)*" * n}), 20_000
    yield "a nested pattern", lambda n: _object_schema(a={**text, "pattern": _nested(n, "(", ")", "a")}), 20_000
    yield "an enum", lambda n: _object_schema(a={**text, "enum": [f"a{at}" for at in range(n)]}), _PARTS
    yield "an enum of objects", lambda n: _object_schema(a={"type": "object", "enum": [{"b": at} for at in range(n)]}), 20_000
    yield "required", lambda n: {**_object_schema(a=text), "required": [f"a{at}" for at in range(n)]}, _PARTS
    yield "defaults", lambda n: _object_schema(**{f"a{at}": {**text, "default": "b"} for at in range(n)}), 10_000
    yield "a default with members", lambda n: _object_schema(a=_default({f"a{at}": at for at in range(n)})), 20_000
    yield (
        "a default with unknown members",
        lambda n: _object_schema(a={"type": "object", "default": {f"a{at}": 1 for at in range(n)}}),
        20_000,
    )
    yield "alternatives", lambda n: {**_object_schema(a=text), "anyOf": [{"required": [f"a{at}"]} for at in range(n)]}, 10_000
    yield "list keys", lambda n: _object_schema(a=_list_map(n)), 10_000
    yield (
        "rules",
        lambda n: _object_schema(a={**text, "x-kubernetes-validations": [{"rule": f"self != 'a{at}'"} for at in range(n)]}),
        1_000,
    )
    yield (
        "a long rule",
        lambda n: _object_schema(a={**text, "x-kubernetes-validations": [{"rule": " && ".join(["self != 'a'"] * n)}]}),
        2_000,
    )
    yield "descriptions", lambda n: {**_object_schema(a=text), "description": "a" * n}, _SMALL
    yield "levels", _deep_schema, 100


def _default(value: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": {"type": "integer"}, "default": value}


def _list_map(count: int) -> dict[str, Any]:
    keys = [f"k{at}" for at in range(count)]
    items = {"type": "object", "required": keys, "properties": {key: {"type": "string"} for key in keys}}
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}


def _deep_schema(count: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(count):
        schema = {"type": "object", "properties": {"a": schema}}
    return _object_schema(a=schema)


def _definitions() -> Iterator[Case]:
    for name, make, most in _schemas():
        yield _case(f"definition: {name}", lambda schema: validation.validate(_definition(schema)), make, most)
        yield _case(f"schema: {name}", _compiled, make, most)
        yield _case(f"OpenAPI: {name}", _published, make, most)

    def spec(**given: Any) -> dict[str, Any]:
        return _definition({"type": "object"}, **given)

    def version(at: int, **more: Any) -> dict[str, Any]:
        return {"name": f"v{at}", "served": True, "storage": not at, "schema": {"openAPIV3Schema": {"type": "object"}}, **more}

    def columns(n: int) -> list[dict[str, Any]]:
        return [{"name": f"c{at}", "type": "string", "jsonPath": f".spec.a{at}"} for at in range(n)]

    specs: dict[str, tuple[Callable[[int], dict[str, Any]], int]] = {
        "versions": (lambda n: spec(versions=[version(at) for at in range(n)]), 2_000),
        "the same version": (lambda n: spec(versions=[version(1)] * n), 2_000),
        "columns": (lambda n: spec(versions=[version(0, additionalPrinterColumns=columns(n))]), 10_000),
        "selectable fields": (
            lambda n: spec(versions=[version(0, selectableFields=[{"jsonPath": f".spec.a{at}"} for at in range(n)])]),
            10_000,
        ),
        "short names": (
            lambda n: spec(names={"plural": "things", "kind": "Thing", "shortNames": [f"t{at}" for at in range(n)]}),
            20_000,
        ),
        "categories": (lambda n: spec(names={"plural": "things", "kind": "Thing", "categories": ["a"] * n}), 20_000),
    }
    for name, (make, most) in specs.items():
        yield _case(f"definition: {name}", validation.validate, make, most)


def _compiled(schema: dict[str, Any]) -> object:
    found = structural.problems(schema, structural.Path())
    compiled = CompiledSchema(schema)
    compiled.prepare()
    obj: dict[str, Any] = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"a": "a"}}
    return found, compiled.conform(obj), compiled.on_create(obj)


def _published(schema: dict[str, Any]) -> object:
    info = ResourceInfo("example.com", "v1", "things", "Thing", "ThingList", namespaced=True)
    resources = [Published(APIResource(info, ("get", "list", "create")), schema)]
    return openapi_v2.build(resources, info_version="1"), openapi_v3.build("example.com", "v1", resources, info_version="1")


# --- custom objects ---


def _objects() -> Iterator[Case]:
    text, keyed = {"type": "string"}, {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    schema = _object_schema(
        list={"type": "array", "items": text},
        set={"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        sets={"type": "array", "items": keyed | {"x-kubernetes-map-type": "atomic"}, "x-kubernetes-list-type": "set"},
        map={"type": "array", "items": keyed, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        unique={"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        durations={"type": "array", "items": {"type": "string", "format": "duration"}},
        pattern={"type": "string", "pattern": "^(a+)+$"},
        free={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        texts={"type": "object", "additionalProperties": text},
        either={"anyOf": [{"type": "string"}, {"type": "integer"}], "x-kubernetes-int-or-string": True},
        rule={
            "type": "array",
            "items": text,
            "maxItems": 1000,
            "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, y == x))"}],
        },
    )
    compiled = CompiledSchema(schema)

    def handled(spec: dict[str, Any]) -> object:
        def made() -> dict[str, Any]:
            return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": dict(spec)}

        obj, old = made(), {**made(), "spec": {}}
        found = compiled.conform(obj), compiled.on_create(obj), compiled.on_update(obj, old), compiled.on_update(old, obj)
        return found, compiled.on_rules(obj, None, []), [str(problem) for part in found[1] for problem in part]

    specs: dict[str, Callable[[int], dict[str, Any]]] = {
        "items": lambda n: {"list": [f"a{at}" for at in range(n)]},
        "wrong items": lambda n: {"list": list(range(n))},
        "a set": lambda n: {"set": [f"a{at}" for at in range(n)]},
        "a set with the same": lambda n: {"set": ["a"] * n},
        "a set of objects": lambda n: {"sets": [{"k": f"a{at}"} for at in range(n)]},
        "a list map": lambda n: {"map": [{"k": f"a{at}"} for at in range(n)]},
        "a list map with the same": lambda n: {"map": [{"k": "a"}] * n},
        "a list map without keys": lambda n: {"map": [{}] * n},
        "durations": lambda n: {"durations": ["1h"] * n},
        "no durations": lambda n: {"durations": ["!"] * n},
        "a text for a pattern": lambda n: {"pattern": "a" * n + "!"},
        "unknown members": lambda n: {f"x{at}": 1 for at in range(n)},
        "free members": lambda n: {"free": {f"x{at}": {"y": [1]} for at in range(n)}},
        "texts": lambda n: {"texts": {f"x{at}": "a" for at in range(n)}},
        "wrong texts": lambda n: {"texts": {f"x{at}": 1 for at in range(n)}},
        "wrong texts below a long key": lambda n: {"texts": {"x" * 1000 + str(at): 1 for at in range(n)}},
        "alternatives": lambda n: {"either": [1] * n},
        "items of a rule": lambda n: {"rule": [f"a{at}" for at in range(n)]},
    }
    for name, make in specs.items():
        yield _case(f"object: {name}", handled, make, 20_000)
    yield _case("object: as text", codec.encode_json, lambda n: {"a": list(range(n))})


# --- expressions ---


def _expressions() -> Iterator[Case]:
    def compiled(source: str) -> object:
        checked = check(source, ENVIRONMENT)
        estimate(checked)
        return compile_program(checked)

    joined = {
        "ands": ("b", " && "),
        "ors": ("b", " || "),
        "sums": ("i", " + "),
        "texts": ("s", " + "),
        "comparisons": ("i == i", " && "),
        "conditions": ("b ? b : b", " && "),
        "ternaries": ("b ? i", " : "),
        "presence": ("has(o.b)", " && "),
        "macros": ("[1].all(x, x > 0)", " && "),
        "quotes": ("'a' == 'a'", " && "),
        "comments": ("b // a", "\n && "),
        "wrong operators": ("b", " &&& "),
        "wrong names": ("nothing", " && "),
        "wrong types": ("i + s", " + "),
        "lists": ("[1]", " + "),
    }
    for name, (part, between) in joined.items():
        yield _case(
            f"CEL: {name}",
            compiled,
            lambda n, part=part, between=between: between.join([part] * n),
            _EXPRESSION // (len(part) + len(between)),
        )
    nested = {
        "parentheses": ("(", ")", "b"),
        "negations": ("!", "", "b"),
        "minuses": ("-", "", "i"),
        "lists": ("[", "]", "1"),
        "maps": ("{'a': ", "}", "1"),
        "calls": ("size([", "])", "1"),
        "macros": ("[1].map(x, ", ")", "x"),
        "all": ("[1].all(x, ", ")", "b"),
        "indices": ("", "[0]", "l"),
        "members": ("", ".a", "d"),
        "calls of members": ("", ".trim()", "s"),
        "conversions": ("string(", ")", "s"),
        "ternaries": ("b ? (", ") : b", "b"),
        "open": ("(", "", "b"),
        "open lists": ("[", "", "b"),
        "open quotes": ("'", "", ""),
        "open triple quotes": ("'''\\q", "", ""),
        "backquotes": ("`", "", ""),
    }
    for name, (opening, closing, inside) in nested.items():
        most = _EXPRESSION // (len(opening) + len(closing))
        yield _case(
            f"CEL, nested: {name}",
            compiled,
            lambda n, opening=opening, closing=closing, inside=inside: _nested(n, opening, closing, inside),
            most,
        )
    lists = {"a list": "[{}].size() == 0", "a map": "{{{}}}.size() == 0", "arguments": "size({})"}
    for name, form in lists.items():
        part = "'a': 1," if "map" in name else "1,"
        yield _case(
            f"CEL: {name}",
            compiled,
            lambda n, form=form, part=part: form.format(part * n + part[:-1]),
            _EXPRESSION // len(part) - 10,
        )
    yield from _evaluations()


def _evaluations() -> Iterator[Case]:
    programs = (
        *(
            "s.matches('(a+)+$')",
            "s.split('a').join('b') == s",
            "s.replace('a', 'bb').size() > 0",
            "s.lowerAscii() == s",
            "s.contains('ab!')",
        ),
        *(
            "s.indexOf('ab!') < 0",
            "s.lastIndexOf('ab!') < 0",
            "s.find('a*!') == ''",
            "s.findAll('a').size() > 0",
            "s.trim() == ''",
        ),
        *(
            "double(s) > 0.0",
            "int(s) > 0",
            "uint(s) > 0u",
            "duration(s) > duration('1s')",
            "timestamp(s) > timestamp('2020-01-01T00:00:00Z')",
        ),
        *(
            "isQuantity(s)",
            "isURL(s)",
            "isIP(s)",
            "isCIDR(s)",
            "isSemver(s)",
            "bytes(s).size() > 0",
            "s + s == s",
            "s == s",
            "[s, s] == [s, s]",
        ),
        *(
            "format.dns1123Subdomain().validate(s).hasValue()",
            "'%s %s'.format([s, s]) == s",
            "s.charAt(0) == 'a'",
            "s.substring(1) == s",
        ),
        *("s.reverse() == s", "url('https://' + s).getHost() == s", "s.split('').size() > 0", "s in {s: 1}"),
    )
    of_lists = (
        *(
            "l.all(x, x != 'no')",
            "l.map(x, x + x).size() > 0",
            "l.filter(x, x in l).size() > 0",
        ),
        *(
            "l.isSorted()",
            "l.sum() == ''",
            "l.min() == ''",
            "l.indexOf('no') < 0",
            "sets.contains(l, l)",
            "sets.equivalent(l, l)",
        ),
        *(
            "sets.intersects(l, ['no'])",
            "l.join(',') == ''",
            "l + l == l",
            "l == l",
            "l.distinct().size() > 0",
            "l.sort().size() > 0",
        ),
        *(
            "l.flatten().size() > 0",
            "l.reverse() == l",
            "l.exists_one(x, x == 'a1')",
            "l.slice(0, 1) == l",
            "l.lastIndexOf('no') < 0",
        ),
    )
    texts = {
        "a": lambda n: "a" * n,
        "digits": lambda n: "1" * n,
        "parts": lambda n: "a1.-" * n,
        "no end": lambda n: "a" * n + "!",
    }
    for source in programs:
        run = _program(source)
        for name, make in texts.items():
            yield _case(f"CEL, run: {source} with {name}", run, lambda n, make=make: {**VALUES, "s": make(n)}, _SMALL)
    for source in of_lists:
        yield _case(f"CEL, run: {source}", _program(source), lambda n: {**VALUES, "l": [f"a{at}" for at in range(n)]})
        yield _case(f"CEL, run: {source} with the same", _program(source), lambda n: {**VALUES, "l": ["a"] * n})


def _program(source: str) -> Callable[[dict[str, Any]], object]:
    # A function that is not there, or does not fit, is no case.
    try:
        program = compile_program(check(source, ENVIRONMENT))
    except Exception:
        return lambda variables: None
    # The budget that a rule has, whatever it does: some hundred thousand units.
    return lambda variables: program(variables, 1_000_000)


# --- tables and requests ---


def _columns() -> Iterator[Case]:
    paths = (
        ".spec.l[*].a",
        "..a",
        "..a..a",
        ".spec..a..zz",
        ".spec.l[?(@.a==1)].a",
        ".spec.*.*",
        ".spec.l[0:].a",
        ".spec",
        ".spec.l[-1:].a",
    )
    objects: dict[str, tuple[Callable[[int], Any], int]] = {
        "items": (lambda n: {"l": [{"a": 1}] * n}, _PARTS),
        "levels": (_levels, 120),
        "members": (lambda n: {f"a{at}": {"a": 1} for at in range(n)}, _PARTS),
        "a text": (lambda n: {"a": "x" * n}, _SMALL),
    }
    for path in paths:
        table = TableConvertor([Column("A", "string", path)])
        for name, (make, most) in objects.items():
            yield _case(
                f"column {path}: {name}",
                lambda obj, table=table: table.row(obj, b""),
                lambda n, make=make: {"metadata": {"name": "a"}, "spec": make(n)},
                most,
            )


async def _receive() -> dict[str, Any]:
    raise AssertionError("a body is not asked for")


def _requests() -> Iterator[Case]:
    def request(query: bytes, headers: list[tuple[bytes, bytes]]) -> Request:
        return Request({"path": "/", "query_string": query, "headers": headers, "http_version": "1.1"}, _receive)

    def of_query(query: bytes) -> object:
        made = request(query, [])
        return made.query, options.given(made.query_all), options.write_options("PatchOptions", made.query_all, "a/b")

    def of_headers(headers: list[tuple[bytes, bytes]]) -> object:
        made = request(b"", headers)
        return made.header(b"accept"), requestheader.strip(headers, None), requestheader.names_somebody(headers)

    most = 16_000  # parts that 64 KB of a head have room for
    for part in (b"a=1", b"dryRun=All", b"fieldValidation=Strict", b"%41=%41", b"&", b"a", b"force=x", b"a=+"):
        yield _case(f"query: {part!r}", of_query, lambda n, part=part: b"&".join([part] * n), most)
    yield _case("query: parameters", of_query, lambda n: b"&".join(b"a%d=1" % at for at in range(n)), most)
    for name in (b"x-remote-user", b"x-remote-group", b"x-remote-extra-a", b"accept", b"a", b"impersonate-group"):
        yield _case(f"headers: {name!r}", of_headers, lambda n, name=name: [(name, b"a")] * n, most)
    yield _case("headers: extra", of_headers, lambda n: [(b"x-remote-extra-%d" % at, b"a") for at in range(n)], most)
