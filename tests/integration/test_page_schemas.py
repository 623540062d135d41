"""The page "Extend the Kubernetes API with CustomResourceDefinitions" on schemas, at kube-apiserver and at `aggserver dev`.

By kubectl, and by the same assertions at both. Its validation rules are in tests/cases/rules/pages.yaml.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.integration import pages
from tests.integration.server import eventually
from tests.integration.versions import Place, crontab, in_group

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
LONG = {"minLength": 1}
INT_OR_STRING = {"x-kubernetes-int-or-string": True}
EITHER = {"anyOf": [INTEGER, STRING]}
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def definition(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The first of the page, with this schema; more: of its version."""
    made: dict[str, Any] = yaml.safe_load(pages.RESOURCE_DEFINITION)
    made["spec"]["versions"][0] |= {"schema": {"openAPIV3Schema": schema}, **more}
    return made


def stream(*documents: dict[str, Any]) -> str:
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def problems(place: Place, *documents: dict[str, Any]) -> dict[str, list[str]]:
    """What kubectl says of each that is refused, by its name, sorted. Nothing is created."""
    done = place.kubectl("create", "--dry-run=server", "-f", "-", input=stream(*documents), check=False)
    told: dict[str, list[str]] = {document["metadata"]["name"]: [] for document in documents}
    for name in re.findall(r"/(\S+) created \(server dry run\)", done.stdout):
        del told[name]
    errors = re.split(r"^(?=The |Error )", done.stderr, flags=re.MULTILINE)
    for error, name in zip((error for error in errors if error.strip()), told, strict=True):
        # A document that can't be decoded is told without its name.
        assert name in error or "strict decoding error" in error, done.stderr
        text = error.partition(" is invalid: ")[2].strip() or error.strip()
        if text.startswith("* "):  # of one document, each error has a line; of several documents, the errors of each are a list
            told[name] = sorted(line.removeprefix("* ") for line in text.splitlines())
        else:
            inner = text.removeprefix("[").removesuffix("]") if text.startswith("[spec.") else text
            told[name] = sorted(re.split(r", (?=spec\.)", inner))
    return told


# --- "Specifying a structural schema", "IntOrString", the restrictions of "Validation"

_THIRD = """\
properties:
  foo:
    pattern: "abc"
  metadata:
    type: object
    properties:
      name:
        type: string
        pattern: "^a"
      finalizers:
        type: array
        items:
          type: string
          pattern: "my-finalizer"
anyOf:
- properties:
    bar:
      type: integer
      minimum: 42
  required: ["bar"]
  description: "foo bar object"
"""
_THIRD_CORRECTED = """\
type: object
description: "foo bar object"
properties:
  foo:
    type: string
    pattern: "abc"
  bar:
    type: integer
  metadata:
    type: object
    properties:
      name:
        type: string
        pattern: "^a"
anyOf:
- properties:
    bar:
      minimum: 42
  required: ["bar"]
"""
_IN_ITEMS = [{"items": {"properties": {"foo": LONG}}}]

# Schemas by the plural of the definition; what is told of each, under `spec.validation.openAPIV3Schema`.
STRUCTURAL: dict[str, dict[str, Any]] = {
    "firsts": {**of(foo=STRING), "allOf": [{"properties": {"foo": LONG}}]},
    "seconds": of(list={"type": "array", "items": of(foo=STRING), "allOf": _IN_ITEMS}),
    "thirds": yaml.safe_load(_THIRD_CORRECTED),
    "ports": of(foo=INT_OR_STRING),
    "ports-of-any": of(foo={**INT_OR_STRING, **EITHER}),
    "ports-of-all": of(foo={**INT_OR_STRING, "allOf": [EITHER, {"not": {"enum": [0]}}]}),
    "anythings": of(json=ANYTHING),
}
NOT_STRUCTURAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "bad-firsts": (
        {**of(), "allOf": [{"properties": {"foo": LONG}}]},
        [".properties[foo]: Required value: because it is defined in spec.validation.openAPIV3Schema.allOf[0].properties[foo]"],
    ),
    "bad-seconds": (
        of(list={"type": "array", "allOf": _IN_ITEMS}),
        [".properties[list].items: Required value: must be specified"],
    ),
    "bad-thirds": (
        yaml.safe_load(_THIRD),
        [
            ".anyOf[0].description: Forbidden: must be empty to be structural",
            ".anyOf[0].properties[bar].type: Forbidden: must be empty to be structural",
            ".properties[bar]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[bar]",
            ".properties[foo].type: Required value: must not be empty for specified object fields",
            ".properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is"
            " implicitly specified",
            ".type: Required value: must not be empty at the root",
        ],
    ),
    "other-ports": (
        of(foo={**INT_OR_STRING, "anyOf": [STRING, INTEGER]}),
        [
            ".properties[foo].anyOf[0].type: Forbidden: must be empty to be structural",
            ".properties[foo].anyOf[1].type: Forbidden: must be empty to be structural",
        ],
    ),
    "definitions": (of() | {"definitions": {"a": STRING}}, [".definitions: Forbidden: definitions is not supported"]),
    "dependencies": (of() | {"dependencies": {"a": ["b"]}}, [".dependencies: Forbidden: dependencies is not supported"]),
    "id": (of() | {"id": "a"}, [".id: Forbidden: id is not supported"]),
    "pattern-properties": (
        of() | {"patternProperties": {"a": STRING}},
        [".patternProperties: Forbidden: patternProperties is not supported"],
    ),
    "ref": (of() | {"$ref": "#/a"}, [".$ref: Forbidden: $ref is not supported"]),
    "unique-items": (
        of(list={"type": "array", "items": STRING, "uniqueItems": True}),
        [
            ".properties[list].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes"
            " quadratic"
        ],
    ),
    "both": (
        of(map={**of(a=STRING), "additionalProperties": STRING}),
        [".properties[map].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
}
# Of these the API has no fields at all.
NO_FIELDS: dict[str, Any] = {
    "deprecated": True,
    "discriminator": {"propertyName": "a"},
    "readOnly": True,
    "writeOnly": True,
    "xml": {"name": "a"},
}


def named(place: Place, plural: str, schema: dict[str, Any]) -> dict[str, Any]:
    made = definition(schema)
    made["spec"]["names"] = {"plural": plural, "kind": plural.title().replace("-", "")}
    return in_group(made, place.group)


def test_structural_schemas(either: Place) -> None:
    wanted = {f"{plural}.{either.group}": told for plural, (_, told) in NOT_STRUCTURAL.items()}
    refused = [named(either, plural, schema) for plural, (schema, _) in NOT_STRUCTURAL.items()]
    taken = [named(either, plural, schema) for plural, schema in STRUCTURAL.items()]
    told = problems(either, *taken, *refused)
    assert {
        name: [line.removeprefix("spec.validation.openAPIV3Schema") for line in lines] for name, lines in told.items()
    } == wanted


def test_fields_that_schemas_do_not_have(either: Place) -> None:
    schemas = {keyword.lower(): of(foo={**STRING, keyword: value}) for keyword, value in NO_FIELDS.items()}
    told = problems(either, *(named(either, plural, schema) for plural, schema in schemas.items()))
    where = "spec.versions[0].schema.openAPIV3Schema.properties.foo"
    assert [line.rpartition(": ")[2] for lines in told.values() for line in lines] == [
        f'unknown field "{where}.{keyword}"' for keyword in NO_FIELDS
    ]


# --- "Field pruning", "Controlling pruning", "IntOrString", "RawExtension", "Defaulting and Nullable"

_SPECIFIED = {**ANYTHING, **of(spec=of(foo=STRING, bar=STRING))}
_EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
SCHEMA = of(
    spec=of(
        any=ANYTHING,
        object={**ANYTHING, "type": "object", "description": "this is arbitrary JSON"},
        json=_SPECIFIED,
        port=INT_OR_STRING,
        anyPort={**INT_OR_STRING, **EITHER},
        allPort={**INT_OR_STRING, "allOf": [EITHER]},
        whole={**_EMBEDDED, **ANYTHING},
        pruned={**_EMBEDDED, **of(spec=of(a=STRING))},
        foo={**STRING, "nullable": False, "default": "default"},
        bar={**STRING, "nullable": True},
        baz=STRING,
    )
)
_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}], "a": "b"}}
_DEFAULT = {"foo": "default"}
# What is written, and what has become of it; `foo` is in all.
KEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unspecified": ({"someRandomField": 42}, {}),
    "any-json": ({"any": {"a": [1, "b", {"c": None}]}}, {"any": {"a": [1, "b", {"c": None}]}}),
    "any-text": ({"any": "a"}, {"any": "a"}),
    "any-object": ({"object": {"a": {"b": 1}}}, {"object": {"a": {"b": 1}}}),
    "specified": (
        {"json": {"spec": {"foo": "abc", "bar": "def", "something": "x"}, "status": {"something": "x"}}},
        {"json": {"spec": {"foo": "abc", "bar": "def"}, "status": {"something": "x"}}},
    ),
    "integers": ({"port": 1, "anyPort": 1, "allPort": 1}, {"port": 1, "anyPort": 1, "allPort": 1}),
    "strings": ({"port": "a", "anyPort": "a", "allPort": "a"}, {"port": "a", "anyPort": "a", "allPort": "a"}),
    "whole-pod": ({"whole": _POD}, {"whole": _POD}),
    "pruned-pod": ({"pruned": {**_POD, "status": {}}}, {"pruned": {**_POD, "spec": {"a": "b"}}}),
    "nulls": ({"foo": None, "bar": None, "baz": None}, {"bar": None}),
}
WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no-object": (
        {"object": "a"},
        ['spec.object: Invalid value: "string": spec.object in body must be of type object: "string"'],
    ),
    "bool": (
        {"port": True},
        ['spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"'],
    ),
    "no-kind": ({"whole": {"apiVersion": "v1"}}, ["spec.whole.kind: Required value"]),
    "no-version": ({"pruned": {"kind": "Pod"}}, ["spec.pruned.apiVersion: Required value"]),
    "bad-label": (
        {"whole": {**_POD, "metadata": {"labels": {"a b": "c"}}}},
        [
            "spec.whole.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or"
            " '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex"
            " used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    ),
}


def test_what_is_kept_of_an_object(either: Place) -> None:
    either.define(definition(SCHEMA))
    written = [crontab(either.group, "v1", name, spec=spec) for name, (spec, _) in KEPT.items()]
    either.kubectl("create", "--validate=false", "-f", "-", input=stream(*written))
    found = {item["metadata"]["name"]: item["spec"] for item in either.get(f"crontabs.{either.group}")["items"]}
    assert found == {name: _DEFAULT | spec for name, (_, spec) in KEPT.items()}
    told = problems(either, *(crontab(either.group, "v1", name, spec=spec) for name, (spec, _) in WRONG.items()))
    assert told == {name: lines for name, (_, lines) in WRONG.items()}
    # What was pruned has not been stored either.
    either.define(definition(of(spec={**ANYTHING, "type": "object"})))

    def made() -> Any:
        probe = json.dumps(crontab(either.group, "v1", "probe", spec={"new": 1}))
        return json.loads(
            either.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", input=probe, check=False).stdout or "{}"
        )

    eventually(lambda: made().get("spec") == {"new": 1}, "the definition takes all")
    assert either.get(f"crontabs.{either.group}", "unspecified")["spec"] == _DEFAULT


def test_int_or_string_is_published_as_both(either: Place) -> None:
    either.define(definition(SCHEMA))
    (published,) = _schemas(either, f"/openapi/v3/apis/{either.group}/v1", "components", "schemas")
    spec = published["properties"]["spec"]["properties"]
    ports = {name: {key: spec[name][key] for key in ("anyOf", "allOf") if key in spec[name]} for name in spec if "ort" in name}
    assert ports == {"port": EITHER, "anyPort": EITHER, "allPort": {"allOf": [EITHER]}}


def _schemas(place: Place, path: str, *members: str) -> list[dict[str, Any]]:
    """Of CronTab, in a document of OpenAPI."""
    document = json.loads(place.kubectl("get", "--raw", path).stdout)
    for member in members:
        document = document[member]
    kind = {"group": place.group, "version": "v1", "kind": "CronTab"}
    return [schema for schema in document.values() if schema.get("x-kubernetes-group-version-kind") == [kind]]


# --- "Validation"


def test_validation(either: Place) -> None:
    cron = {**STRING, "pattern": r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$"}
    either.define(definition(of(spec=of(cronSpec=cron, image=STRING, replicas={**INTEGER, "minimum": 1, "maximum": 10}))))
    manifest = pages.MY_CRONTAB.replace("stable.example.com", either.group)
    wrong = manifest.replace("* * * * */5", "* * * *") + "  replicas: 15\n"
    first, *causes = either.refused("apply", "-f", "-", input=wrong).splitlines()
    assert first == 'The CronTab "my-new-cron-object" is invalid: '
    assert sorted(causes) == [  # kube-apiserver's order is random
        f"* spec.cronSpec: Invalid value: \"* * * *\": spec.cronSpec in body should match '{cron['pattern']}'",
        "* spec.replicas: Invalid value: 15: spec.replicas in body should be less than or equal to 10",
    ]
    right = either.kubectl("apply", "-f", "-", input=f"{manifest}  replicas: 5\n").stdout
    assert right == f"crontab.{either.group}/my-new-cron-object created\n"


# --- "Validation ratcheting"

_ITEMS = {"type": "array", "items": {**of(name=STRING), "required": ["name"]}}
_LOOSE = of(
    size=INTEGER,
    color=STRING,
    list={"type": "array", "items": STRING},
    named=_ITEMS,
    one=INTEGER,
    counter=INTEGER,
    note=STRING,
)


def test_ratcheting(either: Place) -> None:
    """The definition becomes strict; each field of the object is wrong since then."""
    either.define(definition(of(spec=_LOOSE)))
    twice = [{"name": "a"}, {"name": "a"}]
    spec = {"size": 50, "color": "blue", "list": ["a", "a"], "named": twice, "one": 5, "counter": 9}
    either.create(
        *(crontab(either.group, "v1", name, spec={name: value}) for name, value in spec.items()),
        crontab(either.group, "v1", "needed", spec={}),
        crontab(either.group, "v1", "good", spec={"size": 5}),
    )
    fields = dict(_LOOSE["properties"])
    fields["size"] = {**INTEGER, "maximum": 10}
    fields["color"] = {**STRING, "x-kubernetes-validations": [{"rule": "self == 'red'"}], "maxLength": 10}
    fields["list"] = {**fields["list"], "x-kubernetes-list-type": "set"}
    fields["named"] = {**_ITEMS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    fields["counter"] = {**INTEGER, "x-kubernetes-validations": [{"rule": "self > oldSelf"}]}
    strict = {"type": "object", "properties": fields, "not": {"required": ["one"], "properties": {"one": {"minimum": 3}}}}
    either.define(definition(of(spec=strict)))
    eventually(lambda: problems(either, crontab(either.group, "v1", "new", spec={"size": 50})), "the schema is strict")

    def change(name: str, patch: str) -> str:
        resource = f"crontabs.{either.group}"
        done = either.kubectl("patch", resource, name, "--type=merge", "-p", patch, "--dry-run=server", check=False)
        return "" if done.returncode == 0 else done.stderr.strip().partition(" is invalid: ")[2]

    elsewhere = '{"spec":{"note":"a"}}'
    # What is wrong already may stay so, and nothing that is right may become wrong.
    assert change("size", elsewhere) == change("color", elsewhere) == ""
    assert change("size", '{"spec":{"size":60}}') == (
        "spec.size: Invalid value: 60: spec.size in body should be less than or equal to 10"
    )
    assert change("good", '{"spec":{"size":60}}') == change("size", '{"spec":{"size":60}}')
    assert change("color", '{"spec":{"color":"green"}}') == ("spec.color: Invalid value: \"green\": failed rule: self == 'red'")
    # The exceptions of the page, less two: by now kube-apiserver lets a list alone that has had items or keys twice before.
    assert change("list", elsewhere) == change("named", elsewhere) == ""
    assert change("good", '{"spec":{"list":["b","b"]}}') == 'spec.list[1]: Duplicate value: "b"'
    assert '"spec" must not validate the schema (not)' in change("one", elsewhere)
    assert change("counter", elsewhere) == "spec.counter: Invalid value: 9: failed rule: self > oldSelf"
    either.define(definition(of(spec={**strict, "required": ["needed"], "properties": {**fields, "needed": STRING}})))
    eventually(lambda: change("needed", elsewhere), "a field is required")
    assert "spec.needed: Required value" in change("needed", elsewhere)


# --- "Validation rules", where the place of a rule matters


def test_rules_at_the_root(either: Place) -> None:
    rules = [
        "self.status.availableReplicas >= self.spec.minReplicas",
        "self.status.actual <= self.spec.maxDesired",
        "self.metadata.name.startsWith(self.spec.prefix)",
        "self.spec.template.metadata.name == self.spec.template.kind.lowerAscii()",
        "self.apiVersion.endsWith('/v1') && self.kind == 'CronTab'",
    ]
    spec = of(minReplicas=INTEGER, maxDesired=INTEGER, prefix=STRING, template={**_EMBEDDED, **ANYTHING})
    schema = of(spec=spec, status=of(availableReplicas=INTEGER, actual=INTEGER))
    either.define(definition({**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}}

    def made(name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
        right = {"minReplicas": 1, "maxDesired": 3, "prefix": "a", "template": pod}
        return crontab(either.group, "v1", name, spec=right | spec, status={"availableReplicas": 1, "actual": 3} | status)

    wrong = {
        "a-replicas": made("a-replicas", {}, {"availableReplicas": 0}),
        "a-desired": made("a-desired", {"maxDesired": 2}, {}),
        "another-prefix": made("another-prefix", {"prefix": "b"}, {}),
        "a-template": made("a-template", {"template": {**pod, "kind": "Job"}}, {}),
    }
    told = problems(either, made("a-good-one", {}, {}), *wrong.values())
    assert told == {name: [f"<nil>: Invalid value: failed rule: {rule}"] for name, rule in zip(wrong, rules, strict=False)}


def test_a_rule_as_kubectl_tells_it(either: Place) -> None:
    schema = of(minReplicas=INTEGER, replicas=INTEGER, maxReplicas=INTEGER)
    schema["required"] = ["minReplicas", "replicas", "maxReplicas"]
    schema["x-kubernetes-validations"] = [
        {"rule": "self.minReplicas <= self.replicas", "message": "replicas should be greater than or equal to minReplicas."},
        {"rule": "self.replicas <= self.maxReplicas", "message": "replicas should be smaller than or equal to maxReplicas."},
    ]
    either.define(definition(of(spec=schema)))
    wrong = crontab(either.group, "v1", "one", spec={"minReplicas": 0, "replicas": 20, "maxReplicas": 10})
    assert either.refused("apply", "-f", "-", input=json.dumps(wrong)) == (
        'The CronTab "one" is invalid: spec: Invalid value: replicas should be smaller than or equal to maxReplicas.\n'
    )


# --- "Defaulting"


def test_defaults_of_what_is_written(either: Place) -> None:
    cron, replicas = {**STRING, "default": "5 0 * * *"}, {**INTEGER, "minimum": 1, "maximum": 10, "default": 1}
    either.define(definition(of(spec=of(cronSpec=cron, image=STRING, replicas=replicas))))
    either.kubectl("apply", "-f", "-", input=json.dumps(crontab(either.group, "v1", "one", spec={"image": "an-image"})))
    found = either.get(f"crontabs.{either.group}", "one")["spec"]
    assert found == {"cronSpec": "5 0 * * *", "image": "an-image", "replicas": 1}


def test_defaults_of_what_is_read(either: Place) -> None:
    """They are those of the storage version, and stay unwritten until an update."""
    resource = f"crontabs.{either.group}"
    other_default = {**STRING, "default": "of-the-other-version"}

    def define(**default: str) -> None:
        made = definition(of(spec=of(image={**STRING, **default}, note=STRING)))
        other = {
            "name": "v2beta1",
            "storage": False,
            "schema": {"openAPIV3Schema": of(spec=of(note=STRING, image=other_default))},
        }
        made["spec"]["versions"].append({**made["spec"]["versions"][0], **other})
        either.define(made)

    def image(name: str, version: str = "v1") -> Any:
        return either.get(f"crontabs.{version}.{either.group}", name)["spec"].get("image")

    define()
    either.create(crontab(either.group, "v1", "read", spec={}), crontab(either.group, "v1", "updated", spec={}))
    before = either.get(resource, "read")
    define(default="of-the-storage-version")
    eventually(lambda: image("read") == "of-the-storage-version", "the default is read")
    assert image("read", "v2beta1") == "of-the-storage-version"
    assert either.get(resource, "read")["metadata"] == before["metadata"]
    either.create(crontab(either.group, "v2beta1", "written", spec={}))
    either.kubectl("patch", resource, "updated", "--type=merge", "-p", '{"spec":{"note":"a"}}')
    define()
    eventually(lambda: image("read") is None, "the default is gone")
    assert image("updated") == "of-the-storage-version"
    assert image("written") == "of-the-other-version"


# --- "Publish Validation Schema in OpenAPI"


def test_publication(either: Place) -> None:
    schema = of(
        spec={
            **of(size=INTEGER, note={**STRING, "nullable": True}, parts={"type": "array", "nullable": True, "items": STRING}),
            "allOf": [{"properties": {"size": {"minimum": 1}}}],
            "anyOf": [{"required": ["size"]}, {"required": ["note"]}],
            "oneOf": [{"required": ["size"]}, {"required": ["parts"]}],
            "not": {"required": ["parts"]},
        }
    )
    either.define(definition(schema))
    (whole,) = _schemas(either, f"/openapi/v3/apis/{either.group}/v1", "components", "schemas")
    assert whole["properties"]["spec"] == schema["properties"]["spec"]

    found = eventually(lambda: _schemas(either, "/openapi/v2", "definitions"), "OpenAPI v2 has it")
    lossy = found[0]["properties"]["spec"]
    assert lossy == {"type": "object", "properties": {"size": INTEGER, "note": {}, "parts": {}}}
    # What is left out there is judged nevertheless.
    told = problems(either, crontab(either.group, "v1", "small", spec={"size": 0}))
    assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in told["small"]
    explained = either.kubectl("explain", "crontab.spec", f"--api-version={either.group}/v1").stdout
    assert re.search(r"size\s+<integer>", explained), explained
