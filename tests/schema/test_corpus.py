"""Schemas of real projects: all compile, and the objects that kube-apiserver takes lose nothing and are valid, in both forms."""

from __future__ import annotations

import copy
from typing import Any

from aggserver.meta.field import Path
from aggserver.schema import structural
from aggserver.schema.defaulting import compile_defaulter, default
from aggserver.schema.pruning import compile_pruner, prune
from aggserver.schema.structural import Structural
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity
from tests import corpus


def schemas() -> dict[tuple[str, str], Structural]:
    """(apiVersion, kind) -> schema."""
    found = {}
    for crd in corpus.definitions():
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            assert structural.problems(schema, Path("schema")) == []
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = structural.compile(schema)
    return found


def test_accepted_samples() -> None:
    compiled = schemas()
    for sample in corpus.accepted_samples():
        schema = compiled[sample["apiVersion"], sample["kind"]]
        obj: dict[str, Any] = copy.deepcopy(sample)
        assert compile_pruner(schema)(obj) == []
        assert prune(copy.deepcopy(sample), schema) == []
        assert obj == sample

        plain = copy.deepcopy(sample)
        compile_defaulter(schema)(obj)
        default(plain, schema)
        assert obj == plain

        assert validate(obj, schema.schema) == []
        assert Validity()(obj, schema.schema)


def test_every_schema_makes_a_pruner_and_a_defaulter() -> None:
    for schema in schemas().values():
        assert compile_pruner(schema)({"kind": "K", "unheard of": 1}) in ([], ["unheard of"])
        compile_defaulter(schema)({})
