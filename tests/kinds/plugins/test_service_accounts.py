"""The account of a Pod, beyond what `tests/integration/cases_kind_admission.py` compares with kube-apiserver."""

from __future__ import annotations

from typing import Any

from aggserver.kinds.plugins.service_accounts import needed_account


async def test_waits_for_the_account_that_a_controller_makes() -> None:
    pauses: list[float] = []

    async def find(namespace: str, name: str) -> Any:
        return {"metadata": {"name": name}} if len(pauses) == 3 else None

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    assert await needed_account(find, "n", "default", sleep) == {"metadata": {"name": "default"}}
    assert len(pauses) == 3


async def test_waits_for_no_other_account_and_not_for_long() -> None:
    pauses: list[float] = []

    async def find(namespace: str, name: str) -> Any:
        return None

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    why = 'error looking up service account n/{0}: serviceaccount "{0}" not found'
    assert await needed_account(find, "n", "other", sleep) == why.format("other")
    assert not pauses
    assert await needed_account(find, "n", "default", sleep) == why.format("default")
    assert 1 < sum(pauses) < 2.5
