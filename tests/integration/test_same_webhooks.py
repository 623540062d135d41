"""The same webhooks, the same requests, the same answers: of kube-apiserver with built-in definitions, and of aggserver.

Compared are verdict, code, text and warnings, the stored objects with their managedFields, and what each webhook was sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration import cases_builtin_webhooks, cases_webhooks
from tests.integration.cases_webhooks import DEFINITIONS
from tests.integration.webhook_sides import WebhookSides, webhook_sides

CASES = {**cases_webhooks.CASES, **cases_builtin_webhooks.CASES}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookSides]:
    with webhook_sides(control_plane, tmp_path_factory.mktemp("webhooks"), CASES, DEFINITIONS) as made:
        yield made


@pytest.mark.parametrize("case", CASES)
def test_the_same(sides: WebhookSides, case: str) -> None:
    upstream, ours = sides.play(case)
    assert ours == upstream
