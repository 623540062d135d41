"""The same webhooks, the same requests, the same answers: of kube-apiserver with built-in definitions, and of aggserver.

Compared are verdict, code, text and warnings, the stored objects with their managedFields, and what each webhook was sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aggserver.admission.chain import Attributes
from aggserver.admission.policy.evaluating import WebhookConditions
from aggserver.cel.library.authz import Check, Decision
from tests.controlplane.cluster import Cluster
from tests.integration.cases_webhooks import CASES, DEFINITIONS
from tests.integration.webhook_sides import WebhookSides, webhook_sides


@pytest.fixture(scope="module")
def sides(control_plane: Cluster) -> Iterator[WebhookSides]:
    with webhook_sides(control_plane, CASES, DEFINITIONS, WebhookConditions(_allow).compile) as made:
        yield made


async def _allow(attributes: Attributes, check: Check) -> Decision:
    """All requests are of an administrator."""
    return Decision(True)


@pytest.mark.parametrize("case", CASES)
def test_the_same(sides: WebhookSides, case: str) -> None:
    upstream, ours = sides.play(case)
    assert ours == upstream
