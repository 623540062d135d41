"""Conversion rules: what is refused when they are read and compiled."""

from __future__ import annotations

import json

import pytest

from aggserver.conversion import field_path
from aggserver.conversion.rules import RuleKind
from tests.conversion.rules import CRON_TAB, CRON_TAB_RULES, compiled, errors

TWO = {"v1": "{a: {type: string}, o: {type: object, properties: {n: {type: integer}}}}", "v2": "{b: {type: string}}"}
THREE = {**TWO, "v3": "{c: {type: string}}"}


def changes(*lines: str) -> str:
    """Rules with these changes from v1 to v2, and a way back without any."""
    text = "\n".join(f"  - {line}" for line in lines)
    return f"conversions:\n- from: v1\n  to: v2\n  changes:\n{text}\n- {{from: v2, to: v1}}\n"


FORMS = {
    "not YAML": ("a: [", 'rules: Invalid value: "a: [": must be YAML or JSON'),
    "a repeated key": ("hub: v1\nhub: v2\n", 'key "hub" already set'),
    "a repeated key in JSON": ('{"hub": "v1", "hub": "v2"}', 'duplicate field "hub"'),
    "no object": ("[]", "rules: Invalid value: []: must be an object"),
    "nothing": ("{}", "rules.conversions: Required value: must be a list of conversions"),
    "an unknown member": ("{conversion: []}", "rules.conversion: Invalid value: []: unknown member; there are: hub, conversions"),
    "an unknown version": ("conversions: [{from: v1, to: v9}]", 'rules.conversions[0].to: Unsupported value: "v9": supported'),
    "no version": ("conversions: [{to: v2}]", "rules.conversions[0].from: Required value"),
    "a hub that is no version": ("{hub: v9, conversions: [{from: v1, to: v2}]}", 'rules.hub: Unsupported value: "v9"'),
    "a loop to itself": ("conversions: [{from: v1, to: v1}]", "must be between two versions, not a loop from one to itself"),
    "a pair twice": (
        "conversions: [{from: v1, to: v2}, {from: v1, to: v2}]",
        'rules.conversions[1]: Invalid value: "v1 to v2": v1 is converted to v2 by rules.conversions[0] already',
    ),
    "two kinds": (changes("{set: .b, move: .a}"), "changes[0]: Invalid value: "),
    "no kind": (changes("{to: .b}"), "must have exactly one of move, set, remove, save, restore, each"),
    "no value": (changes("{set: .b}"), "changes[0].value: Required value"),
    "an empty condition": (changes("{set: .b, value: self.a, when: ''}"), "changes[0].when: Required value"),
    "a value of another type": (changes("{set: .b, value: 3}"), "changes[0].value: Invalid value: 3: must be a string"),
    "a member of another kind": (changes("{remove: .a, to: .b}"), "changes[0].to: Invalid value"),
    "changes that are no list": ("conversions: [{from: v1, to: v2, changes: {}}]", "changes: Invalid value: {}: must be a list"),
    "an annotation that can't be": (changes("{save: .a, annotation: a/b/c}"), "changes[0].annotation: Invalid value"),
    "a save within each": (changes("{each: .a, changes: [{save: .a, annotation: a/b}]}"), "items of a list have no annotations"),
    "a move to itself": (changes("{move: .a, to: .a}"), 'changes[0].to: Invalid value: ".a": must be another field'),
    "a field taken twice": (
        changes("{move: .a, to: .b}", "{remove: .a}"),
        "the field is taken from by rules.conversions[0]",
    ),
    "a field written twice": (
        changes("{move: .a, to: .b}", "{set: .b, value: '\"x\"'}"),
        "the field is written by rules.conversions[0].changes[0] already",
    ),
    "too many changes": (changes(*["{remove: .a, when: 'true'}"] * 1001), "Too many: 1001: must have at most 1000 items"),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_are_refused(name: str) -> None:
    text, why = FORMS[name]
    assert any(why in error for error in errors(text, TWO)), errors(text, TWO)


def test_escapes_of_json() -> None:
    """Python writes characters beyond 16 bits as two escapes, which YAML does not know."""
    rules = {
        "conversions": [
            {"from": "v1", "to": "v2", "changes": [{"set": ".b", "value": "'😀' + self.a"}]},
            {"from": "v2", "to": "v1"},
        ]
    }
    compiled(json.dumps(rules), TWO)


WAYS = {
    "three versions without a way": (
        "conversions: [{from: v1, to: v2}, {from: v2, to: v3}]",
        "no conversion from v1 to v3; with a hub, each version only needs a way to it",
    ),
    "beside the hub": (
        "{hub: v1, conversions: [{from: v1, to: v2}, {from: v1, to: v3}, {from: v2, to: v3}]}",
        "must be from or to the hub, v1: there is a way through it already, so this closes a loop",
    ),
    "a version that the hub does not reach": ("{hub: v1, conversions: [{from: v1, to: v2}]}", "no conversion from v1 to v3"),
    "a way back that can't be derived": (
        "{hub: v1, conversions: [{from: v1, to: v2, changes: [{set: .b, value: self.a}]}, {from: v1, to: v3}]}",
        "no conversion from v2 to v1, and that from v1 to v2 can't be turned around: only move, save, restore and each without"
        " conditions can, not `set .b`",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_versions_without_one_way(name: str) -> None:
    text, why = WAYS[name]
    assert any(why in error for error in errors(text, THREE)), errors(text, THREE)


TYPES = {
    "no such field": (changes("{move: .x, to: .b}"), 'changes[0].move: Invalid value: ".x": in v1, .x is not in the schema'),
    "no such target": (changes("{move: .a, to: .o.n}"), 'changes[0].to: Invalid value: ".o.n": in v2, .o is not in the schema'),
    "other types": (changes("{move: .o.n, to: .b}"), ".o.n is an integer in v1 and a string in v2; use set"),
    "metadata": (
        changes("{set: .metadata.name, value: self.a}"),
        "in v2, of apiVersion, kind and metadata, only single labels and annotations may change",
    ),
    "all annotations": (changes("{remove: .metadata.annotations}"), "only single labels and annotations may change"),
    "kind": (changes("{remove: .kind}"), "only single labels and annotations may change"),
    "into a list": (changes("{remove: '.a[0]'}"), "must not go into a list: change its items by `each`"),
    "no point": (changes("{remove: a}"), "must start with a point"),
    "an expression that is none": (
        changes("{set: .b, value: 'self.'}"),
        'changes[0].value: Invalid value: "self.": compilation',
    ),
    "a field that the expression has not": (changes("{set: .b, value: self.x}"), "undefined field 'x'"),
    "a result of another type": (changes("{set: .b, value: self.o.n}"), "evaluates to int, and the field is a string in v2"),
    "a list for a string": (
        changes("{set: .b, value: '[self.a]'}"),
        "evaluates to list(string), and the field is a string",
    ),
    "a condition that is none": (
        changes("{remove: .a, when: self.a}"),
        'changes[0].when: Invalid value: "self.a": must evaluate',
    ),
    "each of a string": (changes("{each: .a, to: .b, changes: []}"), "must be a list or map with a schema in v1"),
    "an expression beyond its cost": (
        changes('{set: .b, value: \'self.a.matches(self.a) && self.a.matches(self.a + self.a) ? "x" : "y"\'}'),
        "changes[0].value: Forbidden: estimated cost exceeds budget by factor of more than 100x",
    ),
}


@pytest.mark.parametrize("name", TYPES)
def test_changes_that_do_not_fit_the_schemas(name: str) -> None:
    text, why = TYPES[name]
    assert any(why in error for error in errors(text, TWO)), errors(text, TWO)


def test_a_field_with_another_type_in_each_version() -> None:
    versions = {"v1": "{p: {type: string}}", "v2": "{p: {type: integer}}"}
    same = "conversions: [{from: v1, to: v2}]"
    assert errors(same, versions) == [
        "rules.conversions[0]: Forbidden: .p is a string in v1 and an integer in v2: move, set or remove it",
    ]
    there, back = "{set: .p, value: int(self.p)}", "{set: .p, value: string(self.p)}"
    compiled(f"conversions: [{{from: v1, to: v2, changes: [{there}]}}, {{from: v2, to: v1, changes: [{back}]}}]", versions)


def test_a_field_with_another_type_in_the_items_of_a_list() -> None:
    versions = {
        "v1": "{l: {type: array, items: {type: object, properties: {p: {type: string}}}}}",
        "v2": "{l: {type: array, items: {type: object, properties: {p: {type: integer}}}}}",
    }
    error = errors("conversions: [{from: v1, to: v2}]", versions)[0]
    assert error.endswith(".l[].p is a string in v1 and an integer in v2: use `each` for its items"), error
    each = "{each: .l, changes: [{set: .p, value: int(self.p)}]}"
    back = "{each: .l, changes: [{set: .p, value: string(self.p)}]}"
    compiled(f"conversions: [{{from: v1, to: v2, changes: [{each}]}}, {{from: v2, to: v1, changes: [{back}]}}]", versions)


def test_a_conversion_whose_inverse_does_not_fit() -> None:
    versions = {"v1": "{a: {type: integer}}", "v2": "{b: {type: number}}"}
    assert errors("conversions: [{from: v1, to: v2, changes: [{move: .a, to: .b}]}]", versions) == [
        'rules.conversions[0].changes[0].to: Invalid value: ".a": (turned around, from v2 to v1) '
        ".b is a number in v2 and an integer in v1; use set"
    ]


def test_the_budget_is_a_factor() -> None:
    text = changes('{set: .b, value: \'self.a.matches(self.a) ? "x" : "y"\'}')
    assert any("exceeds budget" in error for error in errors(text, TWO))
    compiled(text, TWO, budget=10**9)


def test_the_way_back_is_derived() -> None:
    text = "conversions: [{from: v1, to: v2, changes: [{move: .a, to: .b}, {save: .o, annotation: example.com/o}]}]"
    back = compiled(text, TWO).plans["v2", "v1"].conversion
    assert back.derived
    assert [(change.kind, str(change.field)) for change in back.changes] == [(RuleKind.MOVE, ".b"), (RuleKind.RESTORE, ".o")]


def test_the_page_compiles_with_its_costs() -> None:
    plans = compiled(CRON_TAB_RULES, CRON_TAB).plans
    assert [(plan.conversion.from_, len(plan.costs), plan.conversion.derived) for plan in plans.values()] == [
        ("v1beta1", 2, False),
        ("v1", 1, False),
    ]
    assert all(0 < cost.total < 10_000_000 for plan in plans.values() for cost in plan.costs)


PATHS = {
    ".spec.replicas": ("spec", "replicas"),
    '.spec["a.b"]': ("spec", "a.b"),
    ".spec['a/b'].c": ("spec", "a/b", "c"),
    r'.a["say \"x\""]': ("a", 'say "x"'),
    ".a-b.c_d": ("a-b", "c_d"),
}


@pytest.mark.parametrize("text", PATHS)
def test_paths(text: str) -> None:
    path = field_path.parse(text)
    assert path.parts == PATHS[text]
    assert field_path.parse(str(path)) == path


@pytest.mark.parametrize("text", ["", "a", ".", ".a.", "..a", ".a[0]", ".a[]", ".a[*].b", ".a[b]", '.a["b', ".a b", ".x" * 65])
def test_texts_that_are_no_paths(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        field_path.parse(text)
