"""The same request, the same answer: kube-apiserver and aggserver side by side.

Both have the same definitions, namespaces and objects; every case of the `cases_*` modules is asked of both by an administrator,
and the answers are equal but for what no two servers have alike (`comparison.py`). Where they differ on purpose, or do not agree
yet, `different.yaml` has the case with the reason and our answer (`pins.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.cases.judged import JUDGED_SPEC, JUDGED_STATUS
from tests.controlplane.cluster import Cluster
from tests.integration import (
    cases_apply,
    cases_bodies,
    cases_definition_schemas,
    cases_definitions,
    cases_limits,
    cases_metadata,
    cases_owners,
    cases_paths,
    cases_reads,
    cases_registered_expressions,
    cases_registered_reads,
    cases_registrations,
    cases_rules,
    cases_strategic,
    cases_validation,
    cases_websockets,
    cases_writes,
)
from tests.integration.comparison import GROUP, MERGE_PATCH, Cases, path, thing
from tests.integration.pins import DIFFERENT, check, digest
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.sides import Side, both, played

CASES: Cases = {}
for _module in (
    cases_apply,
    cases_owners,
    cases_bodies,
    cases_definition_schemas,
    cases_definitions,
    cases_registrations,
    cases_registered_reads,
    cases_registered_expressions,
    cases_strategic,
    cases_metadata,
    cases_writes,
    cases_validation,
    cases_reads,
    cases_limits,
    cases_paths,
):
    assert not CASES.keys() & _module.CASES.keys()
    CASES |= _module.CASES

_STRING = {"type": "string"}
_INTEGER = {"type": "integer"}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_THING_SPEC = _object(
    size={"type": "integer", "minimum": 0, "maximum": 100},
    color=_STRING,
    mode={"type": "string", "enum": ["a", "b"]},
    code={"type": "string", "pattern": "^[a-z]*$", "maxLength": 10},
    tone={"type": "string", "default": "plain"},
    parts={"type": "array", "items": {**_object(label=_STRING, weight=_INTEGER), "required": ["label"]}},
    pairs={"type": "object", "additionalProperties": _object(value=_STRING)},
    anything=_ANYTHING,
    template={**_ANYTHING, "x-kubernetes-embedded-resource": True},
    port={"x-kubernetes-int-or-string": True},
)
_RULED_SPEC = {
    **_object(size=_INTEGER),
    "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size != 13", "message": "13 is no size"}],
}
_SHIRT_SPEC = _object(color=_STRING, size=_STRING, price=_INTEGER)
_SCALER_PARTS = {
    "spec": _object(replicas=_INTEGER, selector=_STRING),
    "status": _object(replicas=_INTEGER, phase=_STRING),
}


def _items(of: dict[str, Any], kind: str, *keys: str) -> dict[str, Any]:
    """A list of one of the types that decide who can own what."""
    named = {"x-kubernetes-list-map-keys": list(keys)} if keys else {}
    return {"type": "array", "items": of, "x-kubernetes-list-type": kind, **named}


_DECK_SPEC = _object(
    image={"type": "string", "default": "none"},
    replicas={"type": "integer", "minimum": 0},
    note={"type": "string", "nullable": True},
    cards=_items(
        {**_object(port=_INTEGER, protocol={"type": "string", "default": "TCP"}, name=_STRING), "required": ["port"]},
        "map",
        "port",
        "protocol",
    ),
    loose=_items({**_object(name=_STRING, value=_STRING), "required": ["name"]}, "map", "name"),
    tags=_items(_STRING, "set"),
    numbers=_items({"type": "number"}, "set"),
    row=_items(_STRING, "atomic"),
    plain={"type": "array", "items": _object(a=_INTEGER)},
    whole={"type": "object", "additionalProperties": _STRING, "x-kubernetes-map-type": "atomic"},
    pairs={"type": "object", "additionalProperties": _STRING},
    any=_ANYTHING,
    template={**_ANYTHING, "x-kubernetes-embedded-resource": True},
    port={"x-kubernetes-int-or-string": True},
)
_DECK_STATUS = _object(
    phase=_STRING,
    replicas=_INTEGER,
    conditions=_items({**_object(type=_STRING, status=_STRING), "required": ["type"]}, "map", "type"),
)
_DECK_SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}


def _version(name: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": _object(**properties)}} | more


def _definition(kind: str, *versions: dict[str, Any], scope: str = "Namespaced", **names: Any) -> dict[str, Any]:
    singular = kind.lower()
    every = {"plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List", **names}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}"},
        "spec": {"group": GROUP, "scope": scope, "names": every, "versions": list(versions)},
    }


_SUBRESOURCES = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".spec.selector",
    },
}
_COLUMNS = [
    {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
    {"name": "Price", "type": "integer", "jsonPath": ".spec.price", "priority": 1, "description": "What it costs."},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
DEFINITIONS = (
    _definition("Thing", _version("v1", {"spec": _THING_SPEC}), shortNames=["th"], categories=["all"]),
    _definition("Ruled", _version("v1", {"spec": _RULED_SPEC})),
    _definition("Beacon", _version("v1", {"spec": _ANYTHING}), scope="Cluster"),
    _definition("Scaler", _version("v1", _SCALER_PARTS, subresources=_SUBRESOURCES)),
    _definition(
        "Shirt",
        _version(
            "v1",
            {"spec": _SHIRT_SPEC},
            additionalPrinterColumns=_COLUMNS,
            selectableFields=[{"jsonPath": f".spec.{name}"} for name in ("color", "size", "price")],
        ),
    ),
    _definition(
        "Judged",
        _version(
            "v1",
            {"spec": JUDGED_SPEC, "status": JUDGED_STATUS},
            storage=False,
            subresources={"status": {}},
        ),
        _version("v2", {"spec": _ANYTHING, "status": _ANYTHING}, storage=True, subresources={"status": {}}),
    ),
    _definition(
        "Gadget",
        _version("v1", {"spec": _object(size=_INTEGER, color=_STRING)}),
        _version("v1beta1", {"spec": _object(size=_INTEGER, old=_STRING)}, deprecated=True),
        _version("v1alpha2", {"spec": _ANYTHING}, deprecated=True, deprecationWarning='v1alpha2 goes; "use" v1'),
        _version("v1alpha1", {"spec": _ANYTHING}, served=False),
    ),
    _definition(
        "Deck",
        _version("v1", {"spec": _DECK_SPEC, "status": _DECK_STATUS}, subresources=_DECK_SUBRESOURCES),
        _version("v2", {"spec": _ANYTHING, "status": _ANYTHING}, subresources=_DECK_SUBRESOURCES),
    ),
)


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """kube-apiserver and aggserver, with the same in both."""
    with both(control_plane, tmp_path_factory.mktemp("same"), DEFINITIONS, ("same", "listed")) as pair:
        for side in pair:
            _fill(side.client)
        yield pair
        _release(pair[0].client)


def _fill(client: Client) -> None:
    for shirt in cases_reads.LISTED:
        body = json.dumps(shirt).encode()
        answer = client.request("POST", path("shirts", namespace="listed"), {"content-type": "application/json"}, body)
        assert answer.status == 201, answer


def _release(client: Client) -> None:
    """Takes the finalizers off, without which namespace and definition would never go from a cluster that outlives the tests."""
    # kube-apiserver answers 429 to the first who asks for a kind: then there are none.
    for held in json.loads(client.request("GET", path("things")).body).get("items", ()):
        if "finalizers" in held["metadata"]:
            merge = {"content-type": MERGE_PATCH}
            client.request("PATCH", path("things", held["metadata"]["name"]), merge, b'{"metadata":{"finalizers":null}}')


# managedFields are sorted by the second of their last write, and the oldest ones merged in that order: if a second begins while a
# case of these is played, the two servers may see it begin between other requests. Then it is played again.
BY_THE_SECOND = {"owners-twelve-in-two-versions"}
ATTEMPTS = 10


@pytest.mark.parametrize("name", CASES)
def test_same_answer(sides: tuple[Side, Side], name: str) -> None:
    upstream, ours = played(sides, name, CASES[name])
    for number in range(ATTEMPTS if name in BY_THE_SECOND else 0):
        if upstream == ours:
            break
        upstream, ours = played(sides, f"{name}-{number}", CASES[name])
    check(name, upstream, ours)


def test_objects_from_before_their_definition_changed(sides: tuple[Side, Side]) -> None:
    """What reads show, what a write that changes nothing does, and which errors an update is told."""
    upstream, ours = (_changed_definition(side.client) for side in sides)
    assert upstream == ours


_OLD_SPEC = _object(kept=_STRING, gone=_STRING, turned=_INTEGER, template={**_ANYTHING, "properties": {"gone": _STRING}})
_NEW_SPEC = _object(kept=_STRING, turned=_STRING, tone={"type": "string", "default": "plain"}, template=_object(new=_STRING))


def _changed_definition(client: Client) -> list[Any]:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    old, new = (_definition("Turner", _version("v1", {"spec": spec})) for spec in (_OLD_SPEC, _NEW_SPEC))
    where, json_type, merge_type = path("turners"), {"content-type": "application/json"}, {"content-type": MERGE_PATCH}
    obj = thing("Turner", metadata={"name": "a"}, spec={"kept": "x", "gone": "x", "turned": 1, "template": {"gone": "x", "a": 1}})

    def send(method: str, target: str, body: Any, headers: dict[str, str]) -> Any:
        answer = client.request(method, target, headers, None if body is None else json.dumps(body).encode())
        return json.loads(answer.body) if answer.body.startswith(b"{") else {}

    def fields(answer: Any) -> tuple[Any, ...]:
        return answer.get("spec"), answer.get("message"), (answer.get("metadata") or {}).get("generation")

    try:
        send("POST", definitions, old, json_type)
        eventually(lambda: send("POST", where, obj, json_type).get("kind") == "Turner", "the definition is served")
        before = send("GET", f"{where}/a", None, {})
        send("PATCH", f"{definitions}/turners.{GROUP}", {"spec": new["spec"]}, merge_type)
        eventually(lambda: "tone" in send("GET", f"{where}/a", None, {})["spec"], "the changed definition is served")
        read = send("GET", f"{where}/a", None, {})
        same = send("PUT", f"{where}/a", read, json_type)
        again = send("PUT", f"{where}/a", same, json_type)
        revisions = [each["metadata"]["resourceVersion"] for each in (before, read, same, again)]
        changed = [send("PATCH", f"{where}/a", {"spec": spec}, merge_type) for spec in ({"kept": "y"}, {"turned": 2})]
        return [*map(fields, (read, same, again, *changed)), [left == right for left, right in pairwise(revisions)]]
    finally:
        client.request("DELETE", f"{definitions}/turners.{GROUP}", {}, None)


# All that decides how text is written: words and numbers, signs, breaks, widths, order.
_AWKWARD = {
    "words": ["yes", "y", "On", "null", "~", "", "true", "1", "0x1f", "1_000", "1e3", ".5", "1:30", "2026-01-02T03:04:05Z", "<<"],
    "signs": [
        "- x",
        "a: b",
        "a:b",
        "#x",
        "x #y",
        "x#y",
        "it's",
        '"',
        "\\",
        "{",
        "*",
        "&a",
        "!b",
        "%",
        "@",
        "`",
        " lead",
        "trail ",
        ":",
        "?",
    ],
    "breaks": ["x\ny", "x\ny\n", "x\n\n", "\n", " x\ny", "x \ny", "x\n ", "\t", "\r"],
    "wide": ["word " * 30 + "end", "it's: " + "word " * 30 + "end", "\t" + "word  " * 30 + "end", "x" * 200, "é " * 60 + "."],
    "scripts": ["é", "€", "\u00a0", "\U0001f600"],
    "numbers": [0, -1, 2.5, 1e21, 1234567.5, 1e-7, 2**53],
    "order": {
        "a10": 1,
        "a2": {"x": [], "y": {}},
        "_": None,
        "B": True,
        "a": [[1, [2]], [{}]],
        "k" * 129: "long",
        "a\nb": "two lines",
    },
}


def test_the_same_yaml(sides: tuple[Side, Side]) -> None:
    """To the byte, and not only in what it means."""
    texts = []
    for side in sides:
        obj = thing(metadata={"name": "awkward"}, spec={"anything": _AWKWARD})
        side.client.request("POST", path("things"), {"content-type": "application/json"}, json.dumps(obj).encode())
        answer = side.client.request("GET", path("things", "awkward"), {"accept": "application/yaml"})
        assert answer.status == 200
        texts.append(answer.body.partition(b"\nspec:\n")[2])
    upstream, ours = texts
    assert b"anything" in ours
    assert ours == upstream


def test_every_difference_is_of_a_case() -> None:
    websockets = {f"websocket-{name}" for name in cases_websockets.CASES}
    assert not DIFFERENT.keys() - CASES.keys() - cases_rules.CASES.keys() - websockets


@pytest.mark.parametrize("name", cases_websockets.CASES)
def test_same_websocket(sides: tuple[Side, Side], name: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(lambda side: side.upgrade(cases_websockets.CASES[name]), sides)
    pinned = DIFFERENT.get(f"websocket-{name}")
    if pinned is None:
        assert ours == upstream
    else:
        # Upstream refuses these without a word.
        assert (ours[:2], upstream[2]) == (upstream[:2], "")
        assert [digest(ours[0], ours[2])] == pinned[1]
