"""Random schemas, values and histories: what is here and structured-merge-diff itself come to the same."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.controlplane.binaries import obtain_program
from tests.merge.worlds import Upstream, answer, comparable, questions

SEEDS = 400


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    told = Upstream(obtain_program("merger", os.environ, print))
    yield told
    told.close()


@pytest.mark.integration
def test_the_same_as_upstream(upstream: Upstream) -> None:
    asked = 0
    for seed in range(SEEDS):
        for question, told in questions(seed, upstream):
            ours = answer(question)
            assert comparable(question, ours) == comparable(question, told), (seed, question, ours, told)
            asked += 1
    assert asked > 10 * SEEDS
