"""Objects of every kind as Go itself reads, writes and patches them: random ones go through upstream's types and through ours."""

from __future__ import annotations

import base64
import copy
import json
import os
import subprocess
import sys
from random import Random
from typing import Any

import pytest

from aggserver.merge.strategic import StrategicPatchError, strategic_merge
from aggserver.scheme.decoding import decode_error
from aggserver.scheme.kinds import KINDS
from aggserver.scheme.protobuf_codec import reader, writer
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup
from tests.controlplane.binaries import obtain_program
from tests.scheme.random_objects import random_object
from tests.scheme.random_patches import random_patch, with_keys

pytestmark = pytest.mark.integration

# Of each kind, one with all members and some with a few.
COUNT = 4


@pytest.fixture(scope="module")
def objects() -> list[tuple[str, dict[str, Any]]]:
    random = Random(16)
    return [(kind, random_object(lookup(kind), random, full=not index)) for kind in KINDS for index in range(COUNT)]


def test_strategic_merge_patches() -> None:
    random = Random(17)
    cases = []
    for kind in KINDS:
        for _ in range(COUNT):
            obj = with_keys(random_object(lookup(kind), random), lookup(kind))
            cases.append((kind, obj, random_patch(obj, lookup(kind), random)))
    merged = 0
    for (kind, obj, patch), go in zip(cases, _through_go([{"type": k, "json": o, "patch": p} for k, o, p in cases]), strict=True):
        try:
            ours = strategic_merge(obj, patch, lookup(kind))
        except StrategicPatchError:
            # Of several errors, Go finds any first.
            assert "error" in go, (kind, obj, patch)
        else:
            assert ours == go.get("json"), (kind, obj, patch)
            merged += 1
    assert merged > len(cases) * 0.9


def _through_go(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What Go writes: the JSON without kind and apiVersion, and the protobuf."""
    program = obtain_program("types", os.environ, lambda line: print(line, file=sys.stderr))
    given = "\n".join(map(json.dumps, lines))
    written = subprocess.run([program, "-"], input=given, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in written.splitlines()]


@pytest.fixture(scope="module")
def of_go(objects: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return _through_go([{"type": kind, "json": obj} for kind, obj in objects])


def test_json(objects: list[tuple[str, dict[str, Any]]], of_go: list[dict[str, Any]]) -> None:
    for (kind, obj), go in zip(objects, of_go, strict=True):
        assert decode_error(obj, lookup(kind)) == ""
        ours = copy.deepcopy(obj)
        assert rewrite(ours, lookup(kind)) == []
        # As text, since the order is Go's, too.
        assert json.dumps(ours) == json.dumps(go["json"]), kind


def test_protobuf_is_read(objects: list[tuple[str, dict[str, Any]]], of_go: list[dict[str, Any]]) -> None:
    for (kind, _), go in zip(objects, of_go, strict=True):
        message = base64.b64decode(go.get("protobuf", ""))
        ours = reader(lookup(kind))(message, 0, len(message))
        assert decode_error(ours, lookup(kind)) == ""
        rewrite(ours, lookup(kind))
        assert ours == go["json"], kind


def test_protobuf_is_written(objects: list[tuple[str, dict[str, Any]]], of_go: list[dict[str, Any]]) -> None:
    written = [
        {"type": kind, "protobuf": base64.b64encode(writer(lookup(kind))(go["json"])).decode()}
        for (kind, _), go in zip(objects, of_go, strict=True)
    ]
    assert [each["json"] for each in _through_go(written)] == [each["json"] for each in of_go]
