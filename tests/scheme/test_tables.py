"""The tables and the OpenAPI made of them are upstream's."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from aggserver.scheme import openapi
from aggserver.scheme.kinds import KINDS
from tests.controlplane.cluster import Cluster
from tests.scheme import tables

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def models(control_plane: Cluster) -> dict[str, Any]:
    """The models that kube-apiserver publishes."""
    return tables.served_models(control_plane)


def test_the_tables_are_upstreams(models: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    # `python -m tests.scheme.tables` writes them.
    assert {each.name: each.read_text() for each in tables.FOLDER.glob("*.txt")} == tables.made_anew(models, say)


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
