"""What quotas say of one more object. Texts as of kube-apiserver: tests/integration/test_quota.py compares them with it."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.quota import QuotaRefusal, applies, charge, count_name

COUNT = "count/crontabs.stable.example.com"


def quota(hard: str | None = "3", used: str | None = "1", name: str = "q", **spec: Any) -> dict[str, Any]:
    """hard, used: of the count; there are others beside it."""
    return {
        "metadata": {"name": name},
        "spec": {"hard": {COUNT: "77"}, **spec},
        "status": {
            "hard": {"pods": "5", **({COUNT: hard} if hard else {})},
            "used": {"pods": "2", **({COUNT: used} if used else {})},
        },
    }


def test_names() -> None:
    assert count_name("stable.example.com", "crontabs") == COUNT
    assert count_name("", "secrets") == "count/secrets"


APPLIES: dict[str, tuple[dict[str, Any], bool]] = {
    "named in status.hard": (quota(), True),
    "not named": (quota(hard=None), False),
    "named in spec.hard alone": ({"metadata": {"name": "q"}, "spec": {"hard": {COUNT: "1"}}, "status": {}}, False),
    "without a status": ({"metadata": {"name": "q"}, "spec": {"hard": {COUNT: "1"}}}, False),
    "with a scope": (quota(scopes=["NotTerminating"]), False),
    "with no scopes": (quota(scopes=[]), True),
    "with a scope selector": (
        quota(scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}),
        False,
    ),
    "with an empty scope selector": (quota(scopeSelector={}), True),
}


@pytest.mark.parametrize("case", APPLIES)
def test_which_apply(case: str) -> None:
    given, expected = APPLIES[case]
    assert applies(given, COUNT) is expected


USED = {"0": "1", "1": "2", "999": "1k", "1k": "1001", "1500m": "2500m"}


@pytest.mark.parametrize("used", USED)
def test_one_more_is_counted(used: str) -> None:
    before = quota(hard="5k", used=used)
    (after,) = charge([before], COUNT)
    assert after == quota(hard="5k", used=USED[used])
    assert before == quota(hard="5k", used=used), "the known quota is not changed"


def test_those_that_do_not_apply_stay_the_same() -> None:
    given = [quota(hard=None, name="a"), quota(name="b"), quota(scopes=["BestEffort"], name="c")]
    after = charge(given, COUNT)
    assert [new is old for new, old in zip(after, given, strict=True)] == [True, False, True]


REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "used up": ([quota("1", "1")], f"exceeded quota: q, requested: {COUNT}=1, used: {COUNT}=1, limited: {COUNT}=1"),
    "none at all": ([quota("0", "0")], f"exceeded quota: q, requested: {COUNT}=1, used: {COUNT}=0, limited: {COUNT}=0"),
    "a fraction left": (
        [quota("1500m", "1")],
        f"exceeded quota: q, requested: {COUNT}=1, used: {COUNT}=1, limited: {COUNT}=1500m",
    ),
    "the second of two": (
        [quota(name="a"), quota("1k", "1k", name="b")],
        f"exceeded quota: b, requested: {COUNT}=1, used: {COUNT}=1k, limited: {COUNT}=1k",
    ),
    "not counted yet": ([quota(used=None)], f"status unknown for quota: q, resources: {COUNT}"),
    "not counted yet, after one that is used up": (
        [quota("1", "1", name="a"), quota(used=None, name="b")],
        f"status unknown for quota: b, resources: {COUNT}",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    quotas, text = REFUSED[case]
    with pytest.raises(QuotaRefusal) as refusal:
        charge(quotas, COUNT)
    assert str(refusal.value) == text
