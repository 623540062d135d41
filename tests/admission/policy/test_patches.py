"""What mutations do to an object. The cases are those of upstream's json_patch_test.go, smd_test.go, compilation_test.go and
typeresolver_test.go, on an object of ours.
"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.policy.expressions import PolicyOutOfPatienceError
from aggserver.admission.policy.mutating import compile_policy, mutate
from aggserver.admission.policy.patches import MutationError
from aggserver.cel.library.authz import Check, Decision
from aggserver.merge.atom import of_resource
from aggserver.meta.json_types import JSONObject, json_copy
from aggserver.schema import structural
from tests.admission.policy.requests import inputs

OBJECT: JSONObject = {
    "apiVersion": "example.com/v1",
    "kind": "Ship",
    "metadata": {"name": "ada", "labels": {"x": "1", "y": "1"}},
    "spec": {"replicas": 1, "decks": [{"name": "a"}, {"name": "b"}, {"name": "c"}], "selector": {"l": "w"}},
}
STRING = {"type": "string"}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "masts": {"type": "array", "items": STRING},
                "tags": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
                "selector": {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
                "decks": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "properties": {"name": STRING, "size": {"type": "integer"}, "tags": {"type": "array", "items": STRING}},
                    },
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
ATOM = of_resource(structural.compile(SCHEMA))
MOST = 3 * 1024 * 1024


def mutated(expression: str, obj: JSONObject = OBJECT, *, is_patch: bool, old: JSONObject | None = None, **spec: Any) -> Any:
    kind, key = ("JSONPatch", "jsonPatch") if is_patch else ("ApplyConfiguration", "applyConfiguration")
    policy = compile_policy({"mutations": [{"patchType": kind, key: {"expression": expression}}], **spec})
    before = json_copy(obj)
    answers = {Check(None, "create", group="", resource="endpoints"): Decision(True)}
    result = mutate(policy, policy.mutations[0], inputs(obj, old, answers=answers), {"data": {"n": 7}}, ATOM, MOST)
    assert obj == before  # nothing is changed in place
    return result


def spec(**members: Any) -> JSONObject:
    return {**OBJECT, "spec": {**OBJECT["spec"], **members}}


def labels(**members: str) -> JSONObject:
    return {**OBJECT, "metadata": {"name": "ada", "labels": members}}


NAMES = OBJECT["spec"]["decks"]
BARE: JSONObject = {"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "ada"}, "spec": {}}

# An expression, and what becomes of OBJECT; or of another object, if there are three.
PATCHED: dict[str, tuple[str, JSONObject] | tuple[str, JSONObject, JSONObject]] = {
    "a test that fails leaves all as it is": (
        """[JSONPatch{op: "test", path: "/spec/replicas", value: 100},
            JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]""",
        OBJECT,
    ),
    "a test that holds": (
        """[JSONPatch{op: "test", path: "/spec/replicas", value: 1},
            JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]""",
        spec(replicas=3),
    ),
    "remove a label": ("[JSONPatch{op: 'remove', path: '/metadata/labels/y'}]", labels(x="1")),
    "remove an item": ("[JSONPatch{op: 'remove', path: '/spec/decks/1'}]", spec(decks=[NAMES[0], NAMES[2]])),
    "copy a label": (
        "[JSONPatch{op: 'copy', from: '/metadata/labels/x', path: '/metadata/labels/z'}]",
        labels(x="1", y="1", z="1"),
    ),
    "copy an item to the end": (
        "[JSONPatch{op: 'copy', from: '/spec/decks/0', path: '/spec/decks/-'}]",
        spec(decks=[*NAMES, NAMES[0]]),
    ),
    "move a label": ("[JSONPatch{op: 'move', from: '/metadata/labels/x', path: '/metadata/labels/z'}]", labels(y="1", z="1")),
    "move an item to the end": (
        "[JSONPatch{op: 'move', from: '/spec/decks/0', path: '/spec/decks/-'}]",
        spec(decks=[*NAMES[1:], NAMES[0]]),
    ),
    "add a label": ("[JSONPatch{op: 'add', path: '/metadata/labels/z', value: '2'}]", labels(x="1", y="1", z="2")),
    "adding a map replaces it": ("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'y': '2'}}]", labels(y="2")),
    "add to the start": (
        "[JSONPatch{op: 'add', path: '/spec/decks/0', value: {'name': 'z'}}]",
        spec(decks=[{"name": "z"}, *NAMES]),
    ),
    "add to the end": (
        "[JSONPatch{op: 'add', path: '/spec/decks/-', value: {'name': 'z'}}]",
        spec(decks=[*NAMES, {"name": "z"}]),
    ),
    "replacing a label that is not there adds it": (
        "[JSONPatch{op: 'replace', path: '/metadata/labels/z', value: '2'}]",
        labels(x="1", y="1", z="2"),
    ),
    "replacing the labels that are not there adds them": (
        "[JSONPatch{op: 'replace', path: '/metadata/labels', value: {'y': '2'}}]",
        BARE,
        {**BARE, "metadata": {"name": "ada", "labels": {"y": "2"}}},
    ),
    "replace an item": (
        "[JSONPatch{op: 'replace', path: '/spec/decks/0', value: {'name': 'z'}}]",
        spec(decks=[{"name": "z"}, *NAMES[1:]]),
    ),
    "an object as value": (
        "[JSONPatch{op: 'add', path: '/spec', value: Object.spec{selector: Object.spec.selector{}, replicas: 10}}]",
        {**OBJECT, "spec": {"selector": {}, "replicas": 10}},
    ),
    "objects in an object": (
        """[JSONPatch{op: "add", path: "/spec/decks/-", value: Object.spec.decks{
            name: "z", parts: [Object.spec.decks.parts{port: 8080}]}}]""",
        spec(decks=[*NAMES, {"name": "z", "parts": [{"port": 8080}]}]),
    ),
    "the type of a value's root is not checked": (
        "[JSONPatch{op: 'add', path: '/spec', value: Object.invalid{replicas: 1}}]",
        {**OBJECT, "spec": {"replicas": 1}},
    ),
    "fields of patches": (
        """[JSONPatch{op: "add", path: "/metadata/labels", value: {
            "op": JSONPatch{op: "a"}.op, "path": JSONPatch{path: "b"}.path,
            "from": JSONPatch{from: "c"}.from, "value": string(JSONPatch{value: "d"}.value)}}]""",
        labels(op="a", path="b", **{"from": "c"}, value="d"),
    ),
    "which fields patches have": (
        """[JSONPatch{op: "add", path: "/metadata/labels", value: {
            "op": string(has(JSONPatch{op: "a"}.op)), "value": string(has(JSONPatch{value: "d"}.value)),
            "op-unset": string(has(JSONPatch{}.op)), "value-unset": string(has(JSONPatch{}.value))}}]""",
        labels(op="true", value="true", **{"op-unset": "false", "value-unset": "false"}),
    ),
    "equality of patches": (
        """[JSONPatch{op: "add", path: "/metadata/labels", value: {
            "empty": string(JSONPatch{} == JSONPatch{}),
            "same": string(JSONPatch{op: "add", value: 1} == JSONPatch{op: "add", value: 1}),
            "op": string(JSONPatch{op: "add"} == JSONPatch{op: "remove"}),
            "value": string(JSONPatch{op: "add", value: "1"} == JSONPatch{op: "add", value: 1})}}]""",
        labels(empty="true", same="true", op="false", value="false"),
    ),
    "fields and equality of objects": (
        """[JSONPatch{op: "add", path: "/metadata/labels", value: {
            "field": string(Object{field: "x"}.field), "has": string(has(Object{field: "x"}.field)),
            "unset": string(has(Object{}.field)), "empty": string(Object{} == Object{}),
            "same": string(Object{a: 1} == Object{a: 0 + 1}), "different": string(Object{a: 1} == Object{a: 2}),
            "other type": string(dyn(Object.a{b: 1}) == dyn(Object.c{b: 1})), "sum": string(Object{l: [1, 2]}.l.sum())}}]""",
        labels(
            field="x", has="true", unset="false", empty="true", same="true", different="false", **{"other type": "false"}, sum="3"
        ),
    ),
    "an escaped key": (
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('k8s.io/x~y'), value: 'true'}]",
        labels(x="1", y="1", **{"k8s.io/x~y": "true"}),
    ),
    "values of all types": (
        """[JSONPatch{op: "add", path: "/spec", value: {
            "int": dyn(3), "double": dyn(2.0), "half": dyn(0.5), "large": dyn(9007199254740993), "bool": dyn(true),
            "null": dyn(null),
            "bytes": dyn(b"ab"), "time": dyn(timestamp("2026-01-02T03:04:05Z")), "length": dyn(duration("90s")),
            "uint": dyn(7u), "some": dyn(optional.of(1)), "lists": dyn([[1], [2]])}}]""",
        {
            **OBJECT,
            "spec": {
                "int": 3,
                "double": 2,
                "half": 0.5,
                "large": "9007199254740993",
                "bool": True,
                "null": None,
                "bytes": "YWI=",
                "time": "2026-01-02T03:04:05Z",
                "length": "90s",
                "uint": 7,
                "some": 1,
                "lists": [[1], [2]],
            },
        },
    ),
    "parts of the object": (
        "[JSONPatch{op: 'add', path: '/spec/copy', value: object.metadata.labels}]",
        spec(copy={"x": "1", "y": "1"}),
    ),
    "patches by a condition": (
        "object.spec.replicas > 5 ? [JSONPatch{op: 'x'}] : [JSONPatch{op: 'remove', path: '/metadata/labels/y'}]",
        labels(x="1"),
    ),
    "no patches of a macro": ("[1].filter(i, i > 1).map(i, JSONPatch{op: 'remove', path: '/metadata/labels/y'})", OBJECT),
    "the authorizer": (
        "[JSONPatch{op: 'add', path: '/spec/replicas', "
        "value: authorizer.group('').resource('endpoints').check('create').allowed() ? 1111 : 0}]",
        spec(replicas=1111),
    ),
    "the request and the namespace": (
        "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'user': request.userInfo.username, "
        "'env': namespaceObject.metadata.labels.env}}]",
        labels(user="alice", env="test"),
    ),
    # apply configurations
    "change a field": ("Object{spec: Object.spec{replicas: object.spec.replicas + 2}}", spec(replicas=3)),
    "nothing": ("Object{}", OBJECT),
    "add to a list map": (
        "Object{spec: Object.spec{decks: [Object.spec.decks{name: 'z', size: 3}]}}",
        spec(decks=[*NAMES, {"name": "z", "size": 3}]),
    ),
    "update an item of a list map": (
        "Object{spec: Object.spec{decks: [Object.spec.decks{name: 'b', size: 3}]}}",
        spec(decks=[NAMES[0], {"name": "b", "size": 3}, NAMES[2]]),
    ),
    "add to a set": ("Object{spec: Object.spec{tags: ['a', 'b']}}", spec(tags=["a", "b"])),
    "a map of strings": (
        "Object{metadata: Object.metadata{labels: {'y': '2', 'z': '3'}}}",
        labels(x="1", y="2", z="3"),
    ),
    "by a condition": (
        "Object{spec: Object.spec{replicas: object.spec.replicas % 2 == 0 ? object.spec.replicas + 1 : object.spec.replicas}}",
        OBJECT,
    ),
    "an optional field with a value": ("Object{spec: Object.spec{?replicas: optional.of(3)}}", spec(replicas=3)),
    "an optional field without one": ("Object{spec: Object.spec{?replicas: object.spec.?nope}}", OBJECT),
    "duplicates of a list map stay": (
        "Object{spec: Object.spec{replicas: 3}}",
        spec(decks=[{"name": "a"}, {"name": "a"}]),
        spec(decks=[{"name": "a"}, {"name": "a"}], replicas=3),
    ),
    "an item with duplicates is one": (
        "Object{spec: Object.spec{decks: [Object.spec.decks{name: 'a', size: 1}]}}",
        spec(decks=[{"name": "a"}, {"name": "a"}, {"name": "c"}]),
        spec(decks=[{"name": "a", "size": 1}, {"name": "c"}]),
    ),
    "atomic below unknown fields is not looked at": (
        "Object{spec: Object.spec{any: Object.spec.any{list: [1]}}}",
        spec(any={"list": [1]}),
    ),
}

# An expression, and the error.
REFUSED: dict[str, tuple[str, str]] = {
    "an atomic map": (
        "Object{spec: Object.spec{selector: Object.spec.selector{l: 'v'}}}",
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.selector",
    ),
    "atomic lists": (
        "Object{spec: Object.spec{masts: ['a'], decks: [Object.spec.decks{name: 'a', tags: ['x']}]}}",
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        ".spec.masts, .spec.decks[0].tags",
    ),
    "a wrong name of a type": (
        "Object{spec: Object.specx{replicas: 1}}",
        'type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name path from root '
        "Object type",
    ),
    "wrong names in a list and a map": (
        "Object{a: [Object.b{}], c: {'d': Object.e{}}}",
        'type mismatch: unexpected type name "Object.b", expected "Object.a", which matches field name path from root '
        "Object type\n"
        'unexpected type name "Object.e", expected "Object.c", which matches field name path from root Object type',
    ),
    "an unknown field": (
        "Object{spec: Object.spec{replicasx: 1}}",
        "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field not declared in schema",
    ),
    "a value of a wrong type": (
        "Object{spec: Object.spec{replicas: 'x'}}",
        "error applying patch: failed to convert patch object to typed object: .spec.replicas: expected numeric (int or float), "
        "got string",
    ),
    "no object": ('"I\'m a teapot!"', "must evaluate to Object but got string"),
    "an object of another type": ("Object.spec.metadata{}", "must evaluate to Object but got Object.spec.metadata"),
    "null, which upstream does not take for null": (
        "Object{spec: Object.spec{selector: Object.spec.selector{l: null}}}",
        "error applying patch: failed to convert patch object to typed object: .spec.selector.l: expected string, "
        "got &value.valueUnstructured{Value:0}",
    ),
    "no list of patches": ("[]", "must evaluate to list(JSONPatch) but got list(dyn)"),
    "patches of a wrong type": (
        """[JSONPatch{op: "add", path: "/spec/decks/-", value: Object.spec.decks{parts: [Object.spec.decks.partsZ{}]}}]""",
        'type mismatch: unexpected type name "Object.spec.decks.partsZ", expected "Object.spec.decks.parts", which matches field '
        "name path from root Object type",
    ),
    "replace beyond the end": (
        "[JSONPatch{op: 'replace', path: '/spec/decks/-', value: {'name': 'x'}}]",
        "JSON Patch: replace operation does not apply: doc is missing key: /spec/decks/-: missing value",
    ),
    "remove what is not there": (
        "[JSONPatch{op: 'remove', path: '/metadata/labels/z'}]",
        "JSON Patch: error in remove for path: '/metadata/labels/z': Unable to remove nonexistent key: z: missing value",
    ),
    "add to what is not there": (
        "[JSONPatch{op: 'add', path: '/metadata/annotations/z', value: ''}]",
        'JSON Patch: add operation does not apply: doc is missing path: "/metadata/annotations/z": missing value',
    ),
    "add at a wrong index": (
        "[JSONPatch{op: 'add', path: '/spec/decks/9', value: ''}]",
        "JSON Patch: error in add for path: '/spec/decks/9': Unable to access invalid index: 9: invalid index referenced",
    ),
    "add at no index": (
        "[JSONPatch{op: 'add', path: '/spec/decks/x', value: ''}]",
        "JSON Patch: error in add for path: '/spec/decks/x': value was not a proper array index: 'x': "
        'strconv.Atoi: parsing "x": invalid syntax',
    ),
    "move from nowhere": (
        "[JSONPatch{op: 'move', from: '/a/b', path: '/c'}]",
        "JSON Patch: move operation does not apply: doc is missing from path: /a/b: missing value",
    ),
    "copy to nowhere": (
        "[JSONPatch{op: 'copy', from: '/spec', path: '/a/b'}]",
        "JSON Patch: copy operation does not apply: doc is missing destination path: /a/b: missing value",
    ),
    "an unknown operation": ("[JSONPatch{op: 'invalid', path: '/spec'}]", "JSON Patch: Unexpected kind: invalid"),
    "a value without JSON": (
        "[JSONPatch{op: 'add', path: '/spec', value: quantity('1')}]",
        "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "
        "type conversion error from 'Quantity' to '*structpb.Value'",
    ),
    "a value that fails": (
        "[JSONPatch{op: 'add', path: '/spec', value: object.nope}]",
        "expression '[JSONPatch{op: 'add', path: '/spec', value: object.nope}]' resulted in error: no such key: nope",
    ),
}
# An expression, and a part of the error of its compilation.
NOT_COMPILED = {
    "an unknown type": ("Invalid{}", "undeclared reference to 'Invalid'"),
    "an unknown type as value": ("[JSONPatch{op: 'add', value: Invalid{}}]", "undeclared reference to 'Invalid'"),
    "an operation that is no text": ("[JSONPatch{op: 1}]", "expected type of field 'op' is 'string' but provided type is 'int'"),
    "a path that is no text": ("[JSONPatch{path: 1}]", "expected type of field 'path' is 'string' but provided type is 'int'"),
    "a source that is no text": ("[JSONPatch{from: 1}]", "expected type of field 'from' is 'string' but provided type is 'int'"),
}


@pytest.mark.parametrize("case", PATCHED.values(), ids=PATCHED)
def test_patched(case: tuple[Any, ...]) -> None:
    expression, obj, wanted = case if len(case) == 3 else (case[0], OBJECT, case[1])
    is_patch = "JSONPatch" in expression
    assert mutated(expression, obj, is_patch=is_patch) == wanted


@pytest.mark.parametrize(("expression", "wanted"), REFUSED.values(), ids=REFUSED)
def test_refused(expression: str, wanted: str) -> None:
    with pytest.raises(MutationError) as caught:
        mutated(expression, is_patch=expression.startswith("["))
    assert str(caught.value) == wanted


@pytest.mark.parametrize(("expression", "wanted"), NOT_COMPILED.values(), ids=NOT_COMPILED)
def test_not_compiled(expression: str, wanted: str) -> None:
    with pytest.raises(MutationError, match=r"^compilation failed: ERROR: <input>:1:") as caught:
        mutated(expression, is_patch=expression.startswith("["))
    assert wanted in str(caught.value)


def test_old_object_params_and_variables() -> None:
    expression = "Object{spec: Object.spec{replicas: oldObject.spec.replicas + params.data.n + variables.two}}"
    given = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "variables": [{"name": "two", "expression": "1 + 1"}]}
    assert mutated(expression, old=spec(replicas=100), is_patch=False, **given)["spec"]["replicas"] == 109


@pytest.mark.parametrize(
    "expression",
    [
        "[JSONPatch{op: 'add', path: '/spec/replicas', value: variables.x.all(a, variables.x.all(b, variables.x.all(c, true)))}]",
        "Object{spec: Object.spec{replicas: variables.x.all(a, variables.x.all(b, variables.x.all(c, true))) ? 1 : 0}}",
    ],
    ids=["a patch", "an apply configuration"],
)
def test_excessive_cost(expression: str) -> None:
    given = {"variables": [{"name": "x", "expression": f"[{', '.join('1' * 100)}]"}]}
    with pytest.raises(MutationError, match="operation cancelled: actual cost limit exceeded"):
        mutated(expression, is_patch=expression.startswith("["), **given)


def test_a_test_that_fails_gives_the_same_object() -> None:
    policy = compile_policy(
        {
            "mutations": [
                {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'test', path: '/spec', value: 1}]"}}
            ]
        }
    )
    assert mutate(policy, policy.mutations[0], inputs(OBJECT), None, ATOM, MOST) is OBJECT


# --- how much a mutation may make ---

LARGE: JSONObject = {**BARE, "spec": {"masts": [str(number) for number in range(2000)]}}
TOO_LARGE = {
    "a list of the square": "[JSONPatch{op: 'add', path: '/spec/any', value: object.spec.masts.map(x, object.spec.masts)}]",
    "the same list many times": "[JSONPatch{op: 'add', path: '/spec/any', value: [1, 2, 3].map(x, dyn(variables.l4))}]",
    "many operations": "object.spec.masts.map(x, JSONPatch{op: 'add', path: '/spec/' + x, value: object.spec.masts})",
}
VARIABLES = [
    {"name": "l1", "expression": "object.spec.masts.map(x, object.spec.masts)"},
    *({"name": f"l{n}", "expression": f"object.spec.masts.map(x, variables.l{n - 1})"} for n in (2, 3, 4)),
]


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_would_be_too_large_is_not_made(name: str) -> None:
    with pytest.raises(MutationError, match=f"^the mutation would be larger than {MOST} bytes$|cost"):
        mutated(TOO_LARGE[name], LARGE, is_patch=True, variables=VARIABLES)


def test_an_object_that_would_be_too_large_is_refused() -> None:
    source = "[JSONPatch{op: 'copy', from: '/spec/masts', path: '/spec/tags'}]"
    assert len(mutated(source, LARGE, is_patch=True)["spec"]["tags"]) == 2000
    policy = compile_policy({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": source}}]})
    with pytest.raises(MutationError, match=r"^the object would be larger than 20000 bytes$"):
        mutate(policy, policy.mutations[0], inputs(LARGE), None, ATOM, 20_000)


def test_writing_out_costs_patience() -> None:
    """So that what is large is made in a thread."""
    policy = compile_policy(
        {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": TOO_LARGE["a list of the square"]}}]}
    )
    small: JSONObject = {**BARE, "spec": {"masts": [str(number) for number in range(200)]}}
    given = inputs(small)
    given.patience = 10_000
    with pytest.raises(PolicyOutOfPatienceError):
        mutate(policy, policy.mutations[0], given, None, ATOM, MOST)
    assert len(mutate(policy, policy.mutations[0], inputs(small), None, ATOM, MOST)["spec"]["any"]) == 200
