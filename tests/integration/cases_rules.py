"""Cases for `test_same_rules.py`: rules in definitions, and values that rules take and refuse.

The tables are in tests/cases/rules. Each topic of `functions.yaml`, `types.yaml`, `outcomes.yaml` and `pages.yaml` becomes a
definition with two versions: v1 has the rules, v2, in which objects are stored, takes all, so that an object can be older than a
rule. Of `schemas.yaml` each entry is asked for by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import GROUP, MERGE_PATCH, Ask, Case, Cases, ask, path, thing

__all__ = ["CASES", "DEFINITIONS", "NAMESPACE", "SAYS", "VERDICTS"]

# Another than that of the other comparisons, which takes its time to go.
NAMESPACE = "rules"

_TABLES = Path(__file__).parents[1] / "cases" / "rules"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _read(name: str) -> JSONObject:
    tables: JSONObject = yaml.load((_TABLES / name).read_text(), _LOADER)
    del tables["types"]  # which others are made of
    return tables


def _object(**properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties}


def _rules(given: Any) -> list[Any]:
    """A rule may be its text, and one needs no list."""
    several = given if isinstance(given, list) else [given]
    return [{"rule": rule} if isinstance(rule, str) else rule for rule in several]


# Objects.


def _kind(topic: str) -> str:
    return "Rule" + "".join(part.capitalize() for part in topic.split("-"))


def _definition(topic: str, schema: JSONObject) -> JSONObject:
    kind, loose = _kind(topic), _object(spec=_ANYTHING, status=_ANYTHING)
    plural = kind.lower()
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {"openAPIV3Schema": each},
            "subresources": {"status": {}},
        }
        for name, each in (("v1", schema), ("v2", loose))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": versions},
    }


def _fields(table: JSONObject) -> JSONObject:
    """The schema of a topic's objects."""
    fields = {}
    for name, case in table.items():
        more = {"x-kubernetes-validations": _rules(case["rule"])} if "rule" in case else {}
        fields[name] = {**case["schema"], **more}
    return _object(spec=_object(**fields))


def _url(topic: str, name: str = "", version: str = "v1", **query: str) -> str:
    return path(_kind(topic).lower(), name, namespace=NAMESPACE, version=version, **query)


def _create(topic: str, version: str = "v1", **members: Any) -> Ask:
    return ask("POST", _url(topic, version=version, dryRun="All"), thing(_kind(topic), version, **members))


def _stored(topic: str, **members: Any) -> Ask:
    """An object from before there were rules."""
    return ask("POST", _url(topic, version="v2"), thing(_kind(topic), "v2", **members), compared=False)


def _replace(topic: str, **members: Any) -> Ask:
    """Of the object that the first step made."""
    body = thing(_kind(topic), metadata={"resourceVersion": "$rv1"}, **members)
    return ask("PUT", _url(topic, "$name", dryRun="All"), body)


def _merge(topic: str, body: Any, name: str = "$name") -> Ask:
    return ask("PATCH", _url(topic, name, dryRun="All"), body, kind=MERGE_PATCH)


def _value_case(topic: str, name: str, case: JSONObject) -> tuple[Case, list[bool]]:
    good, bad = case.get("good", []), case.get("bad", [])
    verdicts = [True] * len(good) + [False] * len(bad)
    if "before" not in case:
        return [_create(topic, spec={name: value}) for value in (*good, *bad)], verdicts
    steps = [_replace(topic, spec={name: value}) for value in (*good, *bad)]
    return [_stored(topic, spec={name: case["before"]}), *steps], verdicts


_PAGES = _read("pages.yaml")
_TOPICS = {**_read("functions.yaml"), **_read("types.yaml"), **_read("outcomes.yaml"), "page": _PAGES["page"]}

_STATUS_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            **_object(size={"type": "integer", "x-kubernetes-validations": _rules("self > 0")}, other={"type": "integer"}),
            "x-kubernetes-validations": _rules("!has(oldSelf.size) || has(self.size)"),
        },
        "status": _object(
            done={"type": "integer", "x-kubernetes-validations": _rules("self >= oldSelf")},
            size={"type": "integer", "x-kubernetes-validations": _rules({"rule": "self > 0", "message": "not negative"})},
        ),
    },
    "x-kubernetes-validations": _rules(
        [
            "!has(self.status) || !has(self.status.size) || self.status.size <= self.spec.size",
            "self.metadata.name.size() < 60",
            {"rule": "self.kind == 'RuleStatus'", "message": "kind"},
            {"rule": "self.apiVersion.endsWith('/v1')", "messageExpression": "'in ' + self.apiVersion"},
            {"rule": "oldSelf.hasValue() || !has(self.spec.other)", "optionalOldSelf": True, "fieldPath": ".spec.other"},
        ]
    ),
}
# A number of bytes makes a call so dear that some more of them end the whole object's budget.
_COSTLY = {
    "type": "array",
    "maxItems": 30,
    "items": {"type": "string", "maxLength": 60_000, "x-kubernetes-validations": _rules("!self.contains('bbbbbbbbbbbbbbb')")},
}
_BUDGET_SCHEMA = _object(spec=_object(list=_COSTLY, after={"type": "integer", "x-kubernetes-validations": _rules("self > 0")}))

DEFINITIONS = [_definition(topic, _fields(table)) for topic, table in _TOPICS.items()]
DEFINITIONS += [_definition("status", _STATUS_SCHEMA), _definition("budget", _BUDGET_SCHEMA)]


def _status(body: Any) -> Ask:
    return _merge("status", {"status": body}, "$name/status")


_STATUS: Cases = {
    "status-create": [
        _create("status", spec={"size": 1}),
        _create("status", spec={"size": 0}),
        _create("status", spec={"size": 1, "other": 1}),
        _create("status", spec={}),
        _create("status"),
        _create("status", metadata={"name": "a" * 60}, spec={"size": 0}),
        _create("status", spec={"size": 1}, status={"size": 5}),
        _create("status", "v2", spec={"size": -1}),
    ],
    "status-update": [
        _stored("status", spec={"size": 5}),
        _status({"size": 5, "done": 1}),
        _status({"size": 6}),
        _status({"size": -1, "done": 1}),
        _status({"size": "x"}),
        _merge("status", {"spec": {"size": None}}),
        _merge("status", {"spec": {"size": 3, "other": 1}}),
        _merge("status", {"spec": None}),
        _merge("status", {"metadata": {"labels": {"a": "b"}}}),
        _replace("status", spec={"size": 0}),
    ],
    "status-of-invalid-spec": [
        _stored("status", spec={"size": 0, "other": 1}),
        _status({"size": 0}),
        _status({"size": 1}),
        _status({"done": 1}),
        _merge("status", {"spec": {"other": 2}}),
        _merge("status", {"metadata": {"labels": {"a": "b"}}}),
    ],
    "status-json-patch": [
        _stored("status", spec={"size": 5}),
        ask(
            "PATCH",
            _url("status", "$name", dryRun="All"),
            [{"op": "replace", "path": "/spec/size", "value": 0}],
            kind="application/json-patch+json",
        ),
    ],
    "budget": [_create("budget", spec={"list": ["a" * 60_000] * count + ["b" * 60], "after": 0}) for count in (1, 5, 11, 12, 29)],
}


# Definitions.


def _version(schema: JSONObject, name: str = "v1", **more: Any) -> JSONObject:
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}, **more}


def _widget(*versions: JSONObject) -> JSONObject:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.$name.example.com"},
        "spec": {"group": "$name.example.com", "scope": "Namespaced", "names": names, "versions": list(versions)},
    }


def _outcome(body: Any) -> Any:
    """Of a definition: all but what the controllers write in their own time, the status and who owns it."""
    if body.get("kind") != "CustomResourceDefinition":
        return body
    entries = [entry for entry in body["metadata"]["managedFields"] if entry.get("subresource") != "status"]
    return {**body, "metadata": {**body["metadata"], "managedFields": entries}, "status": None}


def _try(*schemas: JSONObject) -> list[Ask]:
    versions = [_version(schema, f"v{index}") for index, schema in enumerate(schemas, 1)]
    return [ask("POST", f"{_DEFINITIONS}?dryRun=All", _widget(*versions), pick=_outcome)]


def _change(before: JSONObject, *after: JSONObject) -> list[Ask]:
    """Makes a definition, and asks whether it may become each of the others."""
    where = f"{_DEFINITIONS}/widgets.$name.example.com"
    return [
        ask("POST", _DEFINITIONS, _widget(_version(before)), compared=False),
        *(
            ask("PATCH", f"{where}?dryRun=All", {"spec": _widget(_version(each))["spec"]}, kind=MERGE_PATCH, pick=_outcome)
            for each in after
        ),
        ask("DELETE", where, compared=False),
    ]


def _with(rules: Any, node: Any = None, **more: Any) -> JSONObject:
    """A schema whose field has these rules."""
    return _object(f={**(node or {"type": "integer"}), "x-kubernetes-validations": _rules(rules)}, **more)


_STRINGS = {"type": "array", "items": {"type": "string"}}
_DEAR = "self.all(x, x.contains('a string'))"

_CHANGES: Cases = {
    "several-versions": _try(_with("self > 0"), _with("self > ''"), _with("self.x")),
    "several-versions-costly": _try(_with(_DEAR, _STRINGS), _with(_DEAR, _STRINGS)),
    "several-versions-one-schema": _try(_with("self > ''"), _with("self > ''")),
    "several-versions-defaults": _try(
        _with("self > 0", {"type": "integer", "default": 0}), _with("self > 1", {"type": "integer", "default": 1})
    ),
    "change": _change(
        _with("self > 0"),
        _with("self > 1"),
        _with("self > ''"),
        _with(["self > 0", "self.x"]),
        _with("self > oldSelf"),
        _with("self > 0", {"type": "string"}),
        _with("self > 0", {"type": "integer", "default": 0}),
        _with("self > 0", g={"type": "string", "x-kubernetes-validations": [{"rule": "self > 0"}]}),
        _with([{"rule": "self > 0", "messageExpression": "self"}]),
        _with([{"rule": "self > 0", "message": "a\nb"}]),
        _with(_DEAR, _STRINGS),
        _object(),
    ),
    "change-other-fields": _change(
        _object(a={"type": "integer"}), _with("self > 0"), _with("self.b", _object(a={"type": "integer"}))
    ),
}


def _definition_cases() -> Iterator[tuple[str, Case]]:
    tables = _read("schemas.yaml")
    every = tables["expressions-of"]
    for name, given in tables["expressions"].items():
        rules = given if name == "not-a-list" else _rules(given)
        yield f"expression-{name}", _try(_object(f={**every, "x-kubernetes-validations": rules}))
    for name, schema in tables["schemas"].items():
        yield f"schema-{name}", _try(_object(f=schema))
    for name, schema in tables["roots"].items():
        yield f"root-{name}", _try(schema)
    for name, page in _PAGES["definitions"].items():
        yield f"page-{name}", _try(_object(spec=page["schema"]))


_VALUES = {f"{topic}-{name}": _value_case(topic, name, case) for topic, table in _TOPICS.items() for name, case in table.items()}
VERDICTS = {name: verdicts for name, (_, verdicts) in _VALUES.items()}
"""Whether the objects of a case are taken."""

SAYS: dict[str, list[str]] = {
    **{f"definition-page-{name}": page["says"] for name, page in _PAGES["definitions"].items()},
    **{f"page-{name}": [case["says"]] for name, case in _PAGES["page"].items() if "says" in case},
}
"""What the documentation says that the last answer of a case has in it."""

CASES: Cases = {
    **{name: case for name, (case, _) in _VALUES.items()},
    **_STATUS,
    **{f"definition-{name}": case for name, case in _definition_cases()},
    **_CHANGES,
}
