"""What a strict decoder says of some hundred objects in which fields are unknown or repeated by chance: as kube-apiserver does.

`cases_kind_strict.py` has the cases by name. The chance is the same in each run.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.cases_kind_strict import CRDS
from tests.integration.comparison import ask
from tests.integration.kinds import MINIMAL, in_namespace, minimal, url
from tests.integration.sides import Side, both, played

_OBJECTS = 300
_UNKNOWN = ("zzz", "aaa", "Name", "x.y/z", "a b", "é", 'q"q', "")
_INSIDE = ("1", "null", "[]", '{"a": 1, "a": 2}', '[{"q": {"z": 1, "z": 1}}]')
_STRING = {"type": "string"}
_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "array", "items": {"type": "object", "properties": {"b": _STRING}}},
        "b": {"type": "object", "additionalProperties": _STRING},
        "c": {"type": "object", "properties": {"d": {"type": "object", "default": {"a": 1}}}},
    },
}
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.$name.example.com"},
    "spec": {
        "group": "$name.example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("strict"), (), ("same-strict",)) as pair:
        yield pair


@pytest.mark.parametrize("seed", range(4))
def test_same_complaints(sides: tuple[Side, Side], seed: int) -> None:
    chance = random.Random(seed)
    asked = in_namespace("same-strict", (_Writer(chance).request() for _ in range(_OBJECTS // 4)))
    upstream, ours = played(sides, f"strict-{seed}", asked)
    # Not of wrong types, which are told first, and of a field that is repeated only in the last.
    strict = [
        (seen.body, told.body) for seen, told in zip(ours, upstream, strict=True) if "strict decoding error" in str(told.body)
    ]
    assert [ours for ours, _ in strict] == [upstream for _, upstream in strict]
    assert len(strict) > len(asked) / 2


class _Writer:
    """Writes an object as JSON and spoils it here and there."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def request(self) -> Any:
        if self._chance.random() < 0.2:
            where, obj = CRDS, _DEFINITION
        else:
            which = self._chance.choice(list(MINIMAL))
            where, obj = url(which), minimal(which)
        return ask("POST", f"{where}?dryRun=All&fieldValidation=Strict", self._text(obj), pick=_message)

    def _text(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(self._text, value))}]"
        if not isinstance(value, dict):
            return json.dumps(value)
        members = [(name, self._text(inner)) for name, inner in value.items()]
        while self._chance.random() < 0.2:
            members.append((self._chance.choice(_UNKNOWN), self._chance.choice(_INSIDE)))
        while members and self._chance.random() < 0.1:
            members.append(self._chance.choice(members))
        self._chance.shuffle(members)
        return f"{{{','.join(f'{json.dumps(name)}: {text}' for name, text in members)}}}"


def _message(body: Any) -> Any:
    """Of an object nothing but its kind."""
    return body.get("message") or body["kind"]
