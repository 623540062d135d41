"""What quotas say of one more object. Texts as of kube-apiserver: tests/integration/test_quota.py compares them with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from aggserver.admission.quota import Charge, Counted, Measure, QuotaRefusal, add, charge, count_name, is_within

COUNT = "count/crontabs.stable.example.com"
WRITE = Charge(Counted("stable.example.com", "crontabs"), {"metadata": {"name": "a"}})


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
    assert bool(charge([given], WRITE).amounts) is expected


USED = {"0": "1", "1": "2", "999": "1k", "1k": "1001", "1500m": "2500m"}


@pytest.mark.parametrize("used", USED)
def test_one_more_is_counted(used: str) -> None:
    before = quota(hard="5k", used=used)
    (after,) = charge([before], WRITE).quotas
    assert after == quota(hard="5k", used=USED[used])
    assert before == quota(hard="5k", used=used), "the known quota is not changed"


def test_those_that_do_not_apply_stay_the_same() -> None:
    given = [quota(hard=None, name="a"), quota(name="b"), quota(scopes=["BestEffort"], name="c")]
    after = charge(given, WRITE).quotas
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
        charge(quotas, WRITE)
    assert str(refusal.value) == text


class Sized:
    """An evaluator of objects that say what they use."""

    def handles(self, *arguments: object) -> bool:
        return True

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in ("a", "b")]

    def constraints(self, names: Sequence[str], obj: Any) -> str:
        return f"must have {','.join(names)}" if obj.get("lacks") else ""

    def measure(self, obj: Any) -> Measure:
        return Measure(tuple(obj["uses"].items()), obj.get("scopes", ()))


def sized(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}}


# The limits, the usage, the object, the one before it (None for a new one), and the usage after it or the refusal.
SIZES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "a new one": ({"a": "2"}, {"a": "500m"}, {"a": "1", "b": "7"}, None, {"a": "1500m"}),
    "suffix of the first": ({"a": "2Gi"}, {"a": "0"}, {"a": "1Gi"}, None, {"a": "1Gi"}),
    "more of one": ({"a": "9", "b": "9"}, {"a": "3", "b": "3"}, {"a": "2", "b": "1"}, {"a": "1", "b": "2"}, {"a": "4", "b": "3"}),
    "less": ({"a": "1"}, {"a": "5"}, {"a": "1"}, {"a": "2"}, {"a": "5"}),
    "the same beyond the limit": ({"a": "1"}, {"a": "5"}, {"a": "2"}, {"a": "2"}, {"a": "5"}),
    "new in what is counted": ({"a": "9"}, {"a": "0"}, {"a": "2"}, {"b": "2"}, {"a": "2"}),
    "nothing": ({"a": "0"}, {"a": "0"}, {"a": "0"}, None, {"a": "0"}),
    "too much of two": (
        {"a": "1", "b": "1Gi"},
        {"a": "1", "b": "0"},
        {"a": "1", "b": "2Gi"},
        None,
        "exceeded quota: q, requested: a=1,b=2Gi, used: a=1,b=0, limited: a=1,b=1Gi",
    ),
    "too much of one": (
        {"a": "1", "b": "1"},
        {"a": "1", "b": "0"},
        {"a": "1", "b": "1"},
        None,
        "exceeded quota: q, requested: a=1, used: a=1, limited: a=1",
    ),
    "too much more": (
        {"a": "2"},
        {"a": "1"},
        {"a": "4"},
        {"a": "1"},
        "exceeded quota: q, requested: a=3, used: a=1, limited: a=2",
    ),
    "negative": ({"a": "2"}, {"a": "1"}, {"a": "-1"}, None, "quota usage is negative for resource(s): a"),
    "not counted yet": ({"b": "1", "a": "1"}, {"a": "1"}, {"a": "1"}, None, "status unknown for quota: q, resources: a,b"),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes(case: str) -> None:
    hard, used, uses, before, expected = SIZES[case]
    write = Charge(Sized(), {"uses": uses}, None if before is None else {"uses": before})
    if isinstance(expected, str):
        with pytest.raises(QuotaRefusal) as refusal:
            charge([sized(hard, used)], write)
        assert str(refusal.value) == expected
        return
    given = sized(hard, used)
    (after,) = charge([given], write).quotas
    assert after["status"]["used"] == expected
    assert (after is given) is (expected == used)


def test_what_a_quota_asks_for() -> None:
    with pytest.raises(QuotaRefusal) as refusal:
        charge([sized({"a": "1", "pods": "1"}, {})], Charge(Sized(), {"uses": {}, "lacks": True}))
    assert str(refusal.value) == "failed quota: q: must have a"


def test_a_status_is_counted_and_never_refused() -> None:
    (after,) = charge([sized({"a": "1"}, {"a": "1"})], Charge(Sized(), {"uses": {"a": "2"}}, {"uses": {}}, "status")).quotas
    assert after["status"]["used"] == {"a": "3"}


def test_an_object_that_comes_into_a_scope_counts_whole() -> None:
    quota = sized({"a": "9"}, {"a": "0"}, scopes=["Terminating"])
    now, before = {"uses": {"a": "2"}, "scopes": (("Terminating", ()),)}, {"uses": {"a": "2"}}
    assert charge([quota], Charge(Sized(), now, before)).amounts == {"q": {"a": "2"}}
    assert charge([quota], Charge(Sized(), now, now)).amounts == {}
    assert charge([quota], Charge(Sized(), before, now)).amounts == {}


def _priority(operator: str, *values: str) -> dict[str, Any]:
    return {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}


# The values of the object, and the requirement: whether it is met.
SCOPES: dict[str, tuple[tuple[str, ...] | None, dict[str, Any], bool]] = {
    "another kind": (None, _priority("DoesNotExist"), False),
    "exists": (("a",), _priority("Exists"), True),
    "exists not": ((), _priority("Exists"), False),
    "in": (("a",), _priority("In", "b", "a"), True),
    "in others": (("a",), _priority("In", "b"), False),
    "in without one": ((), _priority("In", "b"), False),
    "not in": (("a",), _priority("NotIn", "b"), True),
    "not in it": (("a",), _priority("NotIn", "a"), False),
    "not in without one": ((), _priority("NotIn", "a"), True),
    "one of two not in": (("a", "b"), _priority("NotIn", "a"), True),
    "does not exist": ((), _priority("DoesNotExist"), True),
    "does exist": (("a",), _priority("DoesNotExist"), False),
}


@pytest.mark.parametrize("case", SCOPES)
def test_scopes_with_values(case: str) -> None:
    values, requirement, expected = SCOPES[case]
    measure = Measure((), () if values is None else (("PriorityClass", values),))
    assert is_within(measure, [requirement]) is expected


def test_scopes_without_values() -> None:
    measure = Measure((), (("Terminating", ()), ("BestEffort", ())))
    both = [{"scopeName": name, "operator": "Exists"} for name in ("Terminating", "BestEffort")]
    assert is_within(measure, both)
    assert not is_within(measure, [*both, {"scopeName": "NotBestEffort", "operator": "Exists"}])


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [("0", "1Gi", "1Gi"), ("1Gi", "1G", "2073741824"), ("1", "1Gi", "1073741825"), ("1Ki", "-1Ki", "0")],
)
def test_sums(left: str, right: str, total: str) -> None:
    assert add(left, right) == total
