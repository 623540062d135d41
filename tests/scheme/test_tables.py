"""The tables and the OpenAPI made of them are upstream's."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from aggserver.kinds.defaults import set_defaults
from aggserver.scheme import openapi
from aggserver.scheme.kinds import KINDS
from aggserver.scheme.rewriting import rewrite
from aggserver.scheme.types import lookup
from aggserver.scheme.validation import validate
from tests.controlplane.cluster import Cluster
from tests.scheme import tables
from tests.scheme.checks import Answered, answered, asking, checks

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def models(control_plane: Cluster) -> dict[str, Any]:
    """The models that kube-apiserver publishes."""
    return tables.served_models(control_plane)


@pytest.fixture(scope="module")
def answers(control_plane: Cluster) -> list[Answered]:
    """What it says of objects in which something is wrong."""
    with asking(control_plane) as ask:
        return list(answered(ask))


def test_the_tables_are_upstreams(models: dict[str, Any], answers: list[Answered], capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    # `python -m tests.scheme.tables` writes them.
    made = tables.made_anew(models, checks(answers), say)
    assert {each.name: each.read_text() for each in tables.FOLDER.glob("*.txt")} == made


def test_the_models_are_upstreams(models: dict[str, Any]) -> None:
    ours = openapi.models(KINDS)
    # In each document, it is a kind of that document's group.
    del models[openapi.model_name("meta/v1.DeleteOptions")]["x-kubernetes-group-version-kind"]
    assert ours == {name: models[name] for name in ours}


def test_the_models_of_lists_are_upstreams(models: dict[str, Any]) -> None:
    published = [name for name in KINDS if f"{openapi.model_name(name)}List" in models]
    assert len(published) > len(KINDS) / 2
    assert {name: openapi.list_model(name) for name in published} == {
        name: models[f"{openapi.model_name(name)}List"] for name in published
    }


def test_what_is_refused_here_is_refused_there(answers: list[Answered]) -> None:
    refused = 0
    for each in answers:
        obj, of = each.obj, lookup(each.type_name)
        rewrite(obj, of)
        set_defaults(obj, each.type_name)
        errors = validate(obj, of)
        refused += bool(errors)
        for error in errors:
            assert (str(error.path), str(error).removeprefix(f"{error.path}: ")) in each.causes, (each, error)
    assert refused > len(answers) / 10
