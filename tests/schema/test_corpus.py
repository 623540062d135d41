"""Schemas of real projects: all compile, and the objects that kube-apiserver takes lose nothing and are valid, in both forms.

Their rules cost what they cost there.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from pathlib import Path as File
from typing import Any

import pytest
import yaml

from aggserver.meta.field import Path
from aggserver.schema import structural
from aggserver.schema.compiled_rules import compile_rules
from aggserver.schema.decl_type import DeclType, declare
from aggserver.schema.defaulting import compile_defaulter
from aggserver.schema.pruning import Pruner, prune
from aggserver.schema.structural import VALIDATIONS, Structural
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity
from tests import corpus
from tests.schema.plain_defaulting import default


@functools.cache
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


@functools.cache
def pruner(kind: tuple[str, str]) -> Callable[[Any], list[str]]:
    return Pruner(schemas()[kind])


@functools.cache
def defaulter(kind: tuple[str, str]) -> Callable[[Any], None]:
    return compile_defaulter(schemas()[kind])


def test_accepted_samples() -> None:
    compiled = schemas()
    for sample in corpus.accepted_samples():
        kind = sample["apiVersion"], sample["kind"]
        schema = compiled[kind]
        obj: dict[str, Any] = copy.deepcopy(sample)
        assert pruner(kind)(obj) == []
        assert prune(copy.deepcopy(sample), schema) == []
        assert obj == sample

        plain = copy.deepcopy(sample)
        defaulter(kind)(obj)
        default(plain, schema)
        assert obj == plain

        assert validate(obj, schema.schema) == []
        assert Validity()(obj, schema.schema)


def test_every_schema_makes_a_pruner_and_a_defaulter() -> None:
    for kind in schemas():
        assert pruner(kind)({"kind": "K", "unheard of": 1}) in ([], ["unheard of"])
        defaulter(kind)({})


def costs(node: Structural, declared: DeclType | None) -> Iterator[int]:
    """Of every rule and messageExpression, times how many values fit into a request."""
    if declared is None:
        return
    for rule in compile_rules(node.schema.get(VALIDATIONS) or [], declared):
        assert rule.expression.error == rule.message.error == ""
        yield (rule.expression.max_cost() + rule.message.max_cost()) * (3 * 1024 * 1024 // (declared.min_size + 1))
    for child in (*node.properties.values(), node.items, node.values):
        if child is not None:
            yield from costs(child, declare(child, is_resource=child.x_embedded_resource))


@pytest.mark.long
def test_costs_of_rules() -> None:
    expected = yaml.safe_load((File(__file__).parents[1] / "cases" / "rules" / "corpus.yaml").read_text())
    found: dict[str, dict[str, int]] = {}
    for (api_version, kind), schema in schemas().items():
        if total := sum(costs(schema, declare(schema, is_resource=True))):
            found.setdefault(api_version, {})[kind] = total
    assert found == expected
