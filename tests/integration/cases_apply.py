"""Cases for `test_same_answers.py`: server-side apply of the definition `Deck`, which has a list of each type, two versions,
/status and /scale. Who owns which field after each kind of write is in `cases_owners.py`.
"""

from __future__ import annotations

import json
from typing import Any

from tests.integration.comparison import (
    APPLY_PATCH,
    GROUP,
    JSON_PATCH,
    Ask,
    Cases,
    ask,
    delete,
    get,
    make,
    patch,
    path,
    post,
    put,
    thing,
)

__all__ = ["CARDS", "CASES", "LAST_APPLIED", "apply", "created", "deck", "force", "merge", "prepare"]

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_OTHER_UID = "6f1d5e4c-0000-4000-8000-000000000001"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def deck(spec: Any = None, version: str = "v1", metadata: Any = None, **members: Any) -> dict[str, Any]:
    """An object named `$name`; without a spec where None is given."""
    return thing("Deck", version, metadata, **({} if spec is None else {"spec": spec}), **members)


def apply(body: Any, manager: str = "one", *, subresource: str = "", version: str = "v1", **more: Any) -> Ask:
    """body: text as it is, anything else as JSON. manager: '' for none in the query. query: more of it."""
    where = path(more.pop("resource", "decks"), more.pop("name", "$name"), version=version) + subresource
    parts = [f"fieldManager={manager}"] if manager else []
    parts += [query] if (query := more.pop("query", "")) else []
    return ask("PATCH", where + ("?" + "&".join(parts) if parts else ""), body, kind=APPLY_PATCH, **more)


def force(body: Any, manager: str = "one", **more: Any) -> Ask:
    return apply(body, manager, query="force=true", **more)


def prepare(spec: Any, manager: str = "one", **more: Any) -> Ask:
    """An apply that is compared elsewhere."""
    return apply(deck(spec), manager, compared=False, **more)


def merge(body: Any, manager: str = "two", *, subresource: str = "", version: str = "v1", **more: Any) -> Ask:
    where = path("decks", "$name", version=version) + f"{subresource}?fieldManager={manager}"
    return ask("PATCH", where, body, kind="application/merge-patch+json", **more)


def created(spec: Any, manager: str = "two", **metadata: Any) -> Ask:
    return post(deck(spec, metadata=metadata), resource="decks", query=f"fieldManager={manager}", compared=False)


_APPLY: Cases = {
    "apply-create": [apply(deck({"image": "a", "replicas": 1}))],
    "apply-create-nothing": [apply(deck())],
    "apply-create-metadata": [
        apply(deck({}, metadata={"labels": {"a": "b"}, "annotations": {"c/d": "e"}, "finalizers": [], "generateName": "x"}))
    ],
    "apply-create-system-fields": [
        apply(deck({}, metadata={"generation": 7, "creationTimestamp": "2001-01-01T00:00:00Z", "selfLink": "/x"}))
    ],
    "apply-create-deletion-time": [apply(deck({}, metadata={"deletionTimestamp": "2001-01-01T00:00:00Z"}))],
    "apply-create-status": [apply(deck({"image": "a"}, status={"phase": "x"}))],
    "apply-update": [prepare({"image": "a", "replicas": 1}), apply(deck({"image": "b"}))],
    "apply-update-adds": [prepare({"image": "a"}), apply(deck({"image": "a", "replicas": 2}))],
    "apply-shared": [prepare({"image": "a"}), apply(deck({"image": "a"}), "two")],
    "apply-shared-then-left": [
        prepare({"image": "a", "replicas": 1}),
        prepare({"image": "a", "replicas": 1}, "two"),
        apply(deck({"replicas": 1})),
        apply(deck({"replicas": 1}), "two"),
    ],
    "apply-left-altogether": [prepare({"image": "a", "tags": ["x"]}), apply(deck())],
    "apply-nothing-new": [
        prepare({"image": "a"}),
        apply(deck({"image": "a"})),
        merge({"metadata": {"resourceVersion": "$rv1"}, "spec": {"replicas": 1}}),
    ],
    "apply-generation": [
        prepare({"image": "a"}),
        apply(deck({"image": "b"})),
        apply(deck({"image": "b"}, metadata={"labels": {"a": "b"}})),
    ],
    "apply-conflict": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two")],
    "apply-conflict-forced": [prepare({"image": "a"}), force(deck({"image": "b"}), "two")],
    "apply-conflict-several-fields": [
        prepare({"image": "a", "replicas": 1, "tags": ["x"], "cards": [{"port": 1, "name": "n"}]}),
        apply(deck({"image": "b", "replicas": 2, "tags": ["x", "y"], "cards": [{"port": 1, "name": "m"}]}), "two"),
    ],
    "apply-conflict-several-managers": [
        prepare({"image": "a"}),
        prepare({"replicas": 1}, "zero"),
        merge({"spec": {"note": "x"}}, compared=False),
        apply(deck({"image": "b", "replicas": 2, "note": "y"}), "three"),
        force(deck({"image": "b", "replicas": 2, "note": "y"}), "three"),
    ],
    "apply-conflict-with-update": [created({"image": "a"}), apply(deck({"image": "b"}))],
    "apply-conflict-with-update-in-another-version": [
        prepare({"image": "a"}),
        merge({"spec": {"image": "c"}}, version="v2", compared=False),
        apply(deck({"image": "b"}), "three"),
    ],
    "apply-conflict-with-status": [
        prepare({"image": "a"}),
        merge({"status": {"phase": "x"}}, "st", subresource="/status", compared=False),
        apply(deck(status={"phase": "y"}), "other", subresource="/status"),
        force(deck(status={"phase": "y"}), "other", subresource="/status"),
    ],
    "apply-conflict-quoted-manager": [prepare({"image": "a"}, "a%22b"), apply(deck({"image": "b"}), "two")],
    "apply-conflict-unicode-manager": [prepare({"image": "a"}, "%C3%A9"), apply(deck({"image": "b"}), "two")],
    "apply-as-yaml": [apply(deck({"image": "a"}), accept="application/yaml")],
    "apply-as-metadata": [apply(deck({"image": "a"}), accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")],
    "apply-as-table": [apply(deck({"image": "a"}), accept="application/json;as=Table;g=meta.k8s.io;v=v1")],
    "apply-pretty": [apply(deck({"image": "a"}), query="pretty=true")],
    "apply-held": [
        apply(deck({}, metadata={"finalizers": ["a.example.com/f"]}), compared=False),
        delete(resource="decks"),
        apply(deck({"image": "b"}, metadata={"finalizers": ["a.example.com/f"]})),
        apply(deck({"image": "b"})),
        get(resource="decks"),
    ],
    "apply-collection": [ask("PATCH", path("decks"), deck(), kind=APPLY_PATCH)],
}

_OPTIONS: Cases = {
    "apply-manager-missing": [apply(deck(), "")],
    "apply-manager-empty": [apply(deck(), "", query="fieldManager=")],
    "apply-manager-128": [apply(deck({"image": "a"}), "x" * 128)],
    "apply-manager-129": [apply(deck(), "x" * 129)],
    "apply-manager-control": [apply(deck(), "a%01b")],
    "apply-manager-several-control": [apply(deck(), "a%01b%7f%c2%85")],
    "apply-manager-space": [apply(deck({"image": "a"}), "a%20b")],
    "apply-force-false": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two", query="force=false")],
    "apply-force-0": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two", query="force=0")],
    "apply-force-empty": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two", query="force=")],
    "apply-force-nonsense": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two", query="force=perhaps")],
    "apply-validation-unknown": [apply(deck(), query="fieldValidation=x")],
    "apply-dry-run": [apply(deck({"image": "a"}), query="dryRun=All"), get(resource="decks")],
    "apply-dry-run-update": [
        prepare({"image": "a"}),
        apply(deck({"image": "b"}), query="dryRun=All"),
        get(resource="decks"),
    ],
    "apply-dry-run-conflict": [prepare({"image": "a"}), apply(deck({"image": "b"}), "two", query="dryRun=All")],
    "apply-dry-run-unknown": [apply(deck(), query="dryRun=x")],
    "apply-all-wrong": [apply(deck(), "", query="dryRun=x&fieldValidation=y")],
    "merge-force-apply": [make(), patch({}, query="force=true&fieldManager=x")],
    "json-patch-force-false": [make(), patch([], JSON_PATCH, query="force=false")],
    "merge-manager-129": [make(), patch({}, query=f"fieldManager={'x' * 129}")],
    "merge-manager-control": [make(), patch({}, query="fieldManager=a%0ab")],
    "post-manager-129": [post(thing(), query=f"fieldManager={'x' * 129}")],
    "put-manager-control": [make(), put(thing(), query="fieldManager=%00")],
}

_YAML = f"apiVersion: {GROUP}/v1\nkind: Deck\nmetadata:\n  name: $name\nspec:\n  replicas: 1\n"
_YAML_TWICE = _YAML + "  image: x\n  image: y\n  note: a\n  note: b\n"
_JSON_TWICE = json.dumps(deck({"image": "x"})).replace('"image": "x"', '"image": "x", "image": "y"')

_BODIES: Cases = {
    "apply-body-yaml": [apply(_YAML)],
    "apply-body-yaml-comment": [apply("# a deck\n---\n" + _YAML)],
    "apply-body-yaml-two-documents": [apply(_YAML + "---\na: b\n")],
    "apply-body-yaml-anchors": [apply(_YAML + "  any: {a: &x {b: 1}, c: *x}\n")],
    "apply-body-broken-yaml": [apply("a: b: c")],
    "apply-body-broken-yaml-tab": [apply("a:\n\tb: c\n")],
    "apply-body-broken-yaml-quote": [apply('a: "b\n')],
    "apply-body-broken-json": [apply('{"a":1,')],
    "apply-body-empty": [apply("")],
    "apply-body-null": [apply("null")],
    "apply-body-list": [apply("[1]")],
    "apply-body-string": [apply('"x"')],
    "apply-body-number": [apply("1")],
    "apply-body-binary": [apply(b"\x00\x01")],
    "apply-body-not-utf-8": [apply(b"a: \xff\n")],
    "apply-body-empty-object": [apply({})],
    "apply-body-twice-json-large": [apply(_JSON_TWICE.replace('"y"', '"' + "y" * 9000 + '"'), query="fieldValidation=Strict")],
    "apply-body-twice-refused": [apply(_YAML_TWICE.replace("replicas: 1", "replicas: x"), query="fieldValidation=Strict")],
    "apply-body-twice-conflict": [prepare({"image": "a"}), apply(_YAML_TWICE, "two", query="fieldValidation=Strict")],
    "apply-body-too-large": [apply(deck({"image": "x" * (4 * 1024 * 1024)}))],
    "apply-body-keys-no-text": [apply(_YAML + "  any: {1: a, true: b, 2.5: c}\n")],
    "apply-body-null-key": [apply(_YAML + "  any: {null: a}\n")],
    "apply-body-merge-key": [apply(_YAML + "  any: {<<: {a: b}, c: d}\n")],
    "apply-body-octal": [apply(_YAML + "  any: {a: 010, b: 0o10, c: 1_000, d: 1e3, e: .inf}\n")],
    "apply-type-charset": [
        ask("PATCH", path("decks", "$name") + "?fieldManager=one", deck({"image": "a"}), kind=f"{APPLY_PATCH}; charset=utf-8")
    ],
    "apply-type-cbor": [
        ask("PATCH", path("decks", "$name") + "?fieldManager=one", deck({"image": "a"}), kind="application/apply-patch+cbor")
    ],
    "apply-type-json": [
        ask("PATCH", path("decks", "$name") + "?fieldManager=one", deck({"image": "a"}), kind="application/apply-patch+json")
    ],
}
for _mode in ("", "Strict", "Warn", "Ignore"):
    _query = f"fieldValidation={_mode}" if _mode else ""
    _suffix = _mode.lower() or "default"
    _BODIES |= {
        f"apply-body-yaml-twice-{_suffix}": [apply(_YAML_TWICE, query=_query)],
        f"apply-body-json-twice-{_suffix}": [apply(_JSON_TWICE, query=_query)],
        f"apply-unknown-field-{_suffix}": [apply(deck({"shape": 1}), query=_query)],
        f"apply-unknown-top-{_suffix}": [apply({**deck(), "extra": 1}, query=_query)],
        f"apply-unknown-metadata-{_suffix}": [apply(deck(metadata={"colour": 1}), query=_query)],
        f"apply-unknown-version-2-{_suffix}": [apply(deck({"a": {"b": 1}}, "v2"), version="v2", query=_query)],
    }

_IDENTITY: Cases = {
    "apply-other-version": [apply(deck({"image": "a"}, "v2"))],
    "apply-other-group": [apply({**deck(), "apiVersion": "other.example.com/v1"})],
    "apply-core-group": [apply({**deck(), "apiVersion": "v1"})],
    "apply-malformed-version": [apply({**deck(), "apiVersion": "a/b/c"})],
    "apply-other-kind": [apply({**deck(), "kind": "Other"})],
    "apply-no-kind": [apply({key: value for key, value in deck().items() if key != "kind"})],
    "apply-no-version": [apply({key: value for key, value in deck().items() if key != "apiVersion"})],
    "apply-no-kind-and-version": [apply({"metadata": {"name": "$name"}})],
    "apply-kind-a-number": [apply({**deck(), "kind": 1})],
    "apply-version-a-list": [apply({**deck(), "apiVersion": []})],
    "apply-no-metadata": [apply({"apiVersion": f"{GROUP}/v1", "kind": "Deck"})],
    "apply-null-metadata": [apply({"apiVersion": f"{GROUP}/v1", "kind": "Deck", "metadata": None})],
    "apply-metadata-a-list": [apply({"apiVersion": f"{GROUP}/v1", "kind": "Deck", "metadata": []})],
    "apply-metadata-a-string-update": [prepare({}), apply({"apiVersion": f"{GROUP}/v1", "kind": "Deck", "metadata": "x"})],
    "apply-no-name": [apply(deck(metadata={"name": ""}))],
    "apply-no-name-update": [
        prepare({}),
        apply({"apiVersion": f"{GROUP}/v1", "kind": "Deck", "metadata": {"labels": {"a": "b"}}}),
    ],
    "apply-name-other": [apply(deck(metadata={"name": "other"}))],
    "apply-name-other-update": [prepare({}), apply(deck(metadata={"name": "other"}))],
    "apply-name-a-number": [apply(deck(metadata={"name": 1}))],
    "apply-name-bad": [apply(deck(metadata={"name": "A_B"}), name="A_B")],
    "apply-namespace": [apply(deck(metadata={"namespace": "same"}))],
    "apply-namespace-other": [apply(deck(metadata={"namespace": "default"}))],
    "apply-namespace-other-update": [prepare({}), apply(deck(metadata={"namespace": "default"}))],
    "apply-namespace-missing": [
        ask("PATCH", path("decks", "$name", namespace="nowhere") + "?fieldManager=one", deck({"image": "a"}), kind=APPLY_PATCH)
    ],
    "apply-uid-nothing-there": [apply(deck(metadata={"uid": _OTHER_UID}))],
    "apply-uid-wrong": [prepare({}), apply(deck({"image": "a"}, metadata={"uid": _OTHER_UID}))],
    "apply-uid-right": [prepare({}), apply(deck({"image": "a"}, metadata={"uid": "$uid1"}))],
    "apply-revision-nothing-there": [apply(deck(metadata={"resourceVersion": "1"}))],
    "apply-revision-zero-nothing-there": [apply(deck(metadata={"resourceVersion": "0"}))],
    "apply-revision-nonsense-nothing-there": [apply(deck(metadata={"resourceVersion": "x"}))],
    "apply-revision-right": [prepare({}), apply(deck({"image": "a"}, metadata={"resourceVersion": "$rv1"}))],
    "apply-revision-stale": [
        prepare({}),
        merge({"spec": {"replicas": 1}}, compared=False),
        apply(deck({"image": "a"}, metadata={"resourceVersion": "$rv1"})),
    ],
    "apply-revision-zero": [prepare({}), apply(deck({"image": "a"}, metadata={"resourceVersion": "0"}))],
    "apply-revision-nonsense": [prepare({}), apply(deck({"image": "a"}, metadata={"resourceVersion": "abc"}))],
    "apply-revision-empty": [prepare({}), apply(deck({"image": "a"}, metadata={"resourceVersion": ""}))],
    "apply-managed-fields-null": [apply(deck({"image": "a"}, metadata={"managedFields": None}))],
    "apply-managed-fields-empty": [apply(deck(metadata={"managedFields": []}))],
    "apply-managed-fields": [apply(deck(metadata={"managedFields": [{"manager": "x"}]}))],
    "apply-managed-fields-update": [prepare({}), apply(deck(metadata={"managedFields": [{"manager": "x"}]}))],
    "apply-managed-fields-a-string": [apply(deck(metadata={"managedFields": "x"}))],
    "apply-managed-fields-no-entries": [apply(deck(metadata={"managedFields": [1, None]}))],
    "apply-managed-fields-bad-time": [apply(deck(metadata={"managedFields": [{"time": "x"}]}))],
}

CARDS = [{"port": 1, "name": "a"}, {"port": 1, "protocol": "UDP", "name": "b"}]

_VALUES: Cases = {
    "apply-map-list": [
        prepare({"cards": CARDS}),
        apply(deck({"cards": [{"port": 2, "name": "c"}]}), "two"),
        apply(deck({"cards": CARDS[:1]})),
    ],
    "apply-map-list-order": [
        prepare({"cards": CARDS}),
        apply(deck({"cards": [{"port": 3}, *reversed(CARDS), {"port": 2}]}), "two"),
    ],
    "apply-map-list-duplicates": [apply(deck({"cards": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}))],
    "apply-map-list-duplicates-there": [
        prepare({"loose": [{"name": "a"}]}),
        merge({"spec": {"loose": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}}),
    ],
    "apply-map-list-no-key": [apply(deck({"cards": [{"name": "x"}]}))],
    "apply-map-list-null-key": [apply(deck({"cards": [{"port": None}]}))],
    "apply-map-list-no-keys-at-all": [apply(deck({"loose": [{"value": "x"}]}))],
    "apply-map-list-key-a-list": [apply(deck({"cards": [{"port": [1]}]}))],
    "apply-map-list-key-a-string": [apply(deck({"cards": [{"port": "1"}]}))],
    "apply-map-list-item-a-string": [apply(deck({"cards": ["x"]}))],
    "apply-map-list-item-null": [apply(deck({"cards": [None]}))],
    "apply-map-list-key-default-said": [
        prepare({"cards": [{"port": 1}]}),
        apply(deck({"cards": [{"port": 1, "protocol": "TCP", "name": "x"}]}), "two"),
    ],
    "apply-map-list-key-changed": [
        prepare({"cards": [{"port": 1, "name": "x"}]}),
        apply(deck({"cards": [{"port": 2, "name": "x"}]})),
    ],
    "apply-map-list-empty": [prepare({"cards": CARDS}), apply(deck({"cards": []})), apply(deck({}))],
    "apply-map-list-null": [prepare({"cards": CARDS}), apply(deck({"cards": None}))],
    "apply-set": [prepare({"tags": ["a", "b"]}), apply(deck({"tags": ["b", "c"]}), "two"), apply(deck({"tags": ["b"]}))],
    "apply-set-order": [prepare({"tags": ["a", "b", "c"]}), apply(deck({"tags": ["c", "a", "d"]}), "two")],
    "apply-set-duplicates": [apply(deck({"tags": ["a", "a"]}))],
    "apply-set-item-a-number": [apply(deck({"tags": [1]}))],
    "apply-set-item-null": [apply(deck({"tags": [None]}))],
    "apply-set-of-numbers": [prepare({"numbers": [1, 2.5, 3]}), apply(deck({"numbers": [1.0, 4]}), "two")],
    "apply-set-awkward": [apply(deck({"tags": ['"', "\\", "é", "<>&", "\u2028", "a\nb", "", "k:x"]}))],
    "apply-atomic-list": [prepare({"row": ["a", "b"]}), apply(deck({"row": ["a", "b", "c"]}), "two")],
    "apply-atomic-list-forced": [prepare({"row": ["a", "b"]}), force(deck({"row": ["c"]}), "two")],
    "apply-atomic-list-same": [prepare({"row": ["a", "b"]}), apply(deck({"row": ["a", "b"]}), "two")],
    "apply-default-list": [prepare({"plain": [{"a": 1}]}), apply(deck({"plain": [{"a": 2}]}), "two")],
    "apply-atomic-map": [prepare({"whole": {"a": "x"}}), apply(deck({"whole": {"b": "y"}}), "two")],
    "apply-atomic-map-forced": [prepare({"whole": {"a": "x"}}), force(deck({"whole": {"b": "y"}}), "two")],
    "apply-granular-map": [prepare({"pairs": {"a": "x"}}), apply(deck({"pairs": {"b": "y"}}), "two"), apply(deck({}))],
    "apply-map-awkward-keys": [apply(deck({"pairs": {"": "a", ".": "b", "f:x": "c", 'a"b': "d", "a.b/c": "e"}}))],
    "apply-anything": [
        prepare({"any": {"x": {"y": [1, {"a": 2}]}}}),
        apply(deck({"any": {"x": {"z": 1}, "w": []}}), "two"),
        apply(deck({"any": {"x": {"y": [2]}}}), "two"),
    ],
    "apply-template": [
        apply(deck({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "x": 1}}))
    ],
    "apply-template-unknown": [
        apply(deck({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "colour": "b"}}}))
    ],
    "apply-int-or-string": [prepare({"port": 1}), apply(deck({"port": "x"})), apply(deck({"port": 2.5}))],
    "apply-int-or-string-object": [apply(deck({"port": {}}))],
    "apply-nullable": [apply(deck({"note": None})), apply(deck({"note": "x"})), apply(deck({"note": None}))],
    "apply-null": [apply(deck({"image": None, "replicas": None}))],
    "apply-null-to-object": [prepare({"pairs": {"a": "x"}}), apply(deck({"pairs": None}), "two")],
    "apply-null-over-object-forced": [prepare({"pairs": {"a": "x"}}), force(deck({"pairs": None}), "two")],
    "apply-null-to-anything": [prepare({"any": {"a": {"b": 1}}}), apply(deck({"any": {"a": None}}), "two")],
    "apply-null-spec": [apply({**deck(), "spec": None})],
    "apply-empty-objects": [apply(deck({"pairs": {}, "whole": {}, "any": {"a": {}}, "cards": [], "tags": []}))],
    "apply-default": [apply(deck({})), apply(deck({"image": "b"})), apply(deck({}))],
    "apply-float-for-integer": [apply(deck({"replicas": 1.5}))],
    "apply-whole-float": [apply(deck({"replicas": 2.0})), apply(deck({"replicas": 2}), "two")],
    "apply-large-number": [apply(deck({"replicas": 9223372036854775808}))],
    "apply-wrong-string": [apply(deck({"image": 1}))],
    "apply-wrong-boolean": [apply(deck({"image": True}))],
    "apply-wrong-number": [apply(deck({"replicas": "x"}))],
    "apply-wrong-list": [apply(deck({"tags": "x"}))],
    "apply-wrong-list-an-object": [apply(deck({"cards": {}}))],
    "apply-wrong-object": [apply(deck({"pairs": "x"}))],
    "apply-wrong-object-a-list": [apply(deck({"pairs": []}))],
    "apply-wrong-spec": [apply(deck("x"))],
    "apply-wrong-several": [apply(deck({"image": 1, "replicas": "x", "tags": [1], "pairs": {"a": 1}}))],
    "apply-wrong-labels": [apply(deck({}, metadata={"labels": {"a": 1}}))],
    "apply-wrong-labels-a-list": [apply(deck({}, metadata={"labels": ["a"]}))],
    "apply-bad-labels": [apply(deck({}, metadata={"labels": {"a b": "c d"}}))],
    "apply-bad-value": [apply(deck({"replicas": -1}))],
    "apply-owner-references": [
        apply(
            deck(
                {},
                metadata={
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": _OTHER_UID},
                    ]
                },
            )
        ),
        apply(
            deck(
                {},
                metadata={
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": _OTHER_UID[:-1] + "2"},
                    ]
                },
            ),
            "two",
        ),
    ],
    "apply-owner-references-twice": [
        apply(
            deck(
                {},
                metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": _OTHER_UID}] * 2},
            )
        )
    ],
    "apply-owner-references-null": [apply(deck({}, metadata={"ownerReferences": [None]}))],
    "apply-finalizers-null": [apply(deck({}, metadata={"finalizers": [None]}))],
    "apply-labels-null": [apply(deck({}, metadata={"labels": {"a": None}, "annotations": None}))],
    "merge-finalizers-null": [prepare({}), merge({"metadata": {"finalizers": [None]}})],
    "apply-owner-references-no-uid": [
        apply(deck({}, metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]}))
    ],
    "apply-finalizers": [
        apply(deck({}, metadata={"finalizers": ["a.example.com/x"]})),
        apply(deck({}, metadata={"finalizers": ["b.example.com/x"]}), "two"),
        apply(deck({}, metadata={"finalizers": []})),
        apply(deck({}), "two"),
    ],
    "apply-finalizers-twice": [apply(deck({}, metadata={"finalizers": ["a.example.com/x", "a.example.com/x"]}))],
}

_VERSIONS: Cases = {
    "apply-two-versions": [
        prepare({"image": "a", "replicas": 1}),
        apply(deck({"image": "b", "replicas": 1}, "v2"), version="v2"),
        apply(deck({"image": "b"}, "v2"), version="v2"),
        apply(deck({"image": "b"})),
    ],
    "apply-two-versions-conflict": [prepare({"image": "a"}), apply(deck({"image": "b"}, "v2"), "two", version="v2")],
    "apply-two-versions-update": [
        prepare({"image": "a"}),
        merge({"spec": {"image": "b", "replicas": 1}}, version="v2"),
        merge({"spec": {"image": "c"}}),
    ],
    "apply-two-versions-list": [
        prepare({"cards": CARDS}),
        apply(deck({"cards": [{"port": 1, "protocol": "TCP", "name": "z"}]}, "v2"), "two", version="v2"),
        force(deck({"cards": [{"port": 1, "protocol": "TCP", "name": "z"}]}, "v2"), "two", version="v2"),
    ],
}

_SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name"}, "spec": {"replicas": 2}}

_SUBRESOURCES: Cases = {
    "apply-status": [
        prepare({"image": "a"}),
        apply(deck({"image": "z"}, status={"phase": "x", "replicas": 1}), "st", subresource="/status"),
        apply(deck(status={"replicas": 1}), "st", subresource="/status"),
        apply(deck({"image": "b"}, status={"phase": "z"})),
    ],
    "apply-status-metadata": [
        prepare({"image": "a"}),
        apply(deck(status={"phase": "x"}, metadata={"labels": {"a": "b"}}), "st", subresource="/status"),
    ],
    "apply-status-missing": [apply(deck(status={"phase": "x"}), subresource="/status")],
    "apply-status-no-status": [prepare({}), apply(deck({}), "st", subresource="/status")],
    "apply-status-conditions": [
        prepare({}),
        apply(deck(status={"conditions": [{"type": "A", "status": "True"}]}), "st", subresource="/status"),
        apply(deck(status={"conditions": [{"type": "B", "status": "True"}]}), "su", subresource="/status"),
        apply(deck(status={}), "st", subresource="/status"),
    ],
    "apply-status-other-kind": [prepare({}), apply({**deck(), "kind": "Other"}, subresource="/status")],
    "apply-status-wrong-type": [prepare({}), apply(deck(status={"phase": 1}), subresource="/status")],
    "apply-status-unknown": [prepare({}), apply(deck(status={"nope": 1}), subresource="/status")],
    "apply-status-uid-wrong": [prepare({}), apply(deck(status={}, metadata={"uid": _OTHER_UID}), subresource="/status")],
    "apply-status-dry-run": [
        prepare({}),
        apply(deck(status={"phase": "x"}), subresource="/status", query="dryRun=All"),
        get(resource="decks"),
    ],
    "merge-status-owned": [
        prepare({"image": "a"}),
        merge({"status": {"phase": "x"}, "spec": {"image": "q"}, "metadata": {"labels": {"a": "b"}}}, subresource="/status"),
        merge({"status": {"phase": "y"}}, "three", subresource="/status"),
        merge({"status": None}, "three", subresource="/status"),
    ],
    "merge-status-version-a-number": [prepare({}), merge({"apiVersion": -1}, subresource="/status")],
    "merge-status-version-malformed": [prepare({}), merge({"apiVersion": "a/b/c"}, subresource="/status")],
    "put-status-owned": [
        prepare({"image": "a"}),
        ask(
            "PUT",
            path("decks", "$name") + "/status?fieldManager=st",
            deck({"image": "b"}, metadata={"resourceVersion": "$rv1"}, status={"phase": "x"}),
        ),
    ],
    "put-status-managed-fields": [
        prepare({"image": "a"}),
        ask(
            "PUT",
            path("decks", "$name") + "/status?fieldManager=st",
            deck({"image": "b"}, metadata={"resourceVersion": "$rv1", "managedFields": [{}]}, status={"phase": "x"}),
        ),
    ],
    "scale-merge-owned": [
        prepare({"image": "a", "replicas": 1}),
        merge({"spec": {"replicas": 2}}, "sc", subresource="/scale"),
        get(resource="decks"),
        merge({"spec": {"replicas": 3}}, "sd", subresource="/scale"),
        get(resource="decks"),
        apply(deck({"image": "a", "replicas": 1})),
    ],
    "scale-put-owned": [
        prepare({"image": "a", "replicas": 1}),
        ask(
            "PUT",
            path("decks", "$name") + "/scale?fieldManager=sc",
            {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "$name"}, "spec": {"replicas": 4}},
        ),
        get(resource="decks"),
    ],
    "scale-nothing-owned": [
        created({"image": "a"}),
        merge({"spec": {"replicas": 2}}, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-same-owned": [
        prepare({"replicas": 1}),
        merge({"spec": {"replicas": 1}}, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-same-owned-by-update": [
        created({"replicas": 1, "image": "a"}),
        merge({"spec": {"replicas": 1}}, "sc", subresource="/scale"),
        get(resource="decks"),
        merge({"metadata": {"labels": {"a": "b"}}}, "sc", subresource="/scale"),
        get(resource="decks"),
        merge({"spec": {"replicas": 1}}, subresource="/scale"),
        merge({"spec": {"replicas": 2}}, subresource="/scale"),
        get(resource="decks"),
        merge({"spec": {"replicas": 3}}, subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-several-owners": [
        prepare({"replicas": 1}),
        prepare({"replicas": 1, "image": "a"}, "three"),
        merge({"spec": {"replicas": 2}}, "sc", subresource="/scale"),
        get(resource="decks"),
        prepare({"replicas": 2}),
        merge({"spec": {"replicas": 2}}, "sd", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-unset-owned": [
        prepare({"replicas": 1}),
        merge({"spec": {"replicas": None}}, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-zero-owned": [
        prepare({"replicas": 0}),
        merge({"spec": {"replicas": 0}}, "sc", subresource="/scale"),
        merge({"spec": {"replicas": 1}}, "sc", subresource="/scale"),
        merge({"spec": {"replicas": 0}}, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-owned-in-two-versions": [
        prepare({"replicas": 1}),
        merge({"spec": {"replicas": 2}}, version="v2", compared=False),
        merge({"spec": {"replicas": 3}}, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-apply": [
        prepare({"replicas": 1}),
        apply(_SCALE, "sc", subresource="/scale"),
        force(_SCALE, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-apply-same": [
        prepare({"replicas": 2}),
        apply(_SCALE, "sc", subresource="/scale"),
        get(resource="decks"),
    ],
    "scale-apply-missing": [apply(_SCALE, "sc", subresource="/scale")],
    "scale-apply-parent": [prepare({"replicas": 2}), apply(deck({"replicas": 3}), "sc", subresource="/scale")],
    "scale-apply-conflict": [prepare({"replicas": 1}), apply(_SCALE, "sc", subresource="/scale")],
    "scale-apply-wrong-type": [
        prepare({"replicas": 1}),
        force({**_SCALE, "spec": {"replicas": "x"}}, "sc", subresource="/scale"),
    ],
    "scale-apply-unknown": [prepare({"replicas": 1}), force({**_SCALE, "spec": {"nope": 1}}, "sc", subresource="/scale")],
}


CASES: Cases = {
    **_APPLY,
    **_OPTIONS,
    **_BODIES,
    **_IDENTITY,
    **_VALUES,
    **_VERSIONS,
    **_SUBRESOURCES,
}
