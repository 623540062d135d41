"""The same admission policies and requests, the same answers: of kube-apiserver, which serves the definitions too, and aggserver.

Compared are verdict, code, reason, text and warnings, and the stored objects with their managedFields.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration import cases_builtin_policies, cases_policies
from tests.integration.cases_policies import DEFINITIONS
from tests.integration.policy_sides import PolicySides, policy_sides

CASES = {**cases_policies.CASES, **cases_builtin_policies.CASES}
# Name of a case -> why it differs, and the codes of both.
DIFFERENT = {
    "mutating a double for an integer": (
        "upstream keeps that a policy has made a double of 2.0, and refuses it where the schema has an integer",
        (422, 201),
    ),
}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicySides]:
    with policy_sides(control_plane, tmp_path_factory.mktemp("policies"), CASES, DEFINITIONS) as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_the_same(sides: PolicySides, name: str) -> None:
    upstream, ours = sides.play(name)
    if name in DIFFERENT:
        reason, codes = DIFFERENT[name]
        assert (upstream[0].status, ours[0].status) == codes, reason
    else:
        assert ours == upstream
