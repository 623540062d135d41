"""Policies and indexes of Jobs: by tables of what there is."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.workloads.completion_indexes import CompletionIndexes
from aggserver.controllers.workloads.jobs import job
from aggserver.controllers.workloads.plan import INDEX, Plan
from tests.controllers.workloads.test_plans import SECONDS, owner, pod

COUNTED, IGNORED = "batch.kubernetes.io/job-index-failure-count", "batch.kubernetes.io/job-index-ignored-failure-count"
DISRUPTED = [{"type": "DisruptionTarget", "status": "True"}]


def failed(name: str, code: int = 1, *, index: str = "", conditions: Any = (), **annotations: str) -> dict[str, Any]:
    found = pod(name, phase="Failed", ready=False, annotations={**({INDEX: index} if index else {}), **annotations})
    found["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
    found["status"]["conditions"] += conditions
    return found


def done(name: str, index: str) -> dict[str, Any]:
    return pod(name, phase="Succeeded", ready=False, annotations={INDEX: index})


def exits(action: str, *values: int, operator: str = "In", **more: str) -> dict[str, Any]:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def ended(plan: Plan) -> list[tuple[str, str, str]]:
    return [(each["type"], each["reason"], each["message"]) for each in plan.status["conditions"] or ()]


ON_CONDITION = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
EXITED = "Container c for pod default/a failed with exit code"
FAILURES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], int | None, str]] = {
    # name: (rules, failed Pods, how many count, why the Job fails)
    "no rule": ([], [failed("a")], 1, ""),
    "one that ends it": ([exits("FailJob", 1, 2)], [failed("a", 2)], 2, f"{EXITED} 2 matching FailJob rule at index 0"),
    "another code": ([exits("FailJob", 1)], [failed("a", 2)], 1, ""),
    "all codes but some": (
        [exits("FailJob", 1, operator="NotIn")],
        [failed("a", 2)],
        2,
        f"{EXITED} 2 matching FailJob rule at index 0",
    ),
    "one of those": ([exits("FailJob", 1, operator="NotIn")], [failed("a", 1)], 1, ""),
    "a container that succeeded": ([exits("FailJob", 1, operator="NotIn")], [failed("a", 0)], 1, ""),
    "another container": ([exits("FailJob", 1, containerName="d")], [failed("a", 1)], 1, ""),
    "one that is ignored": ([exits("Ignore", 1)], [failed("a"), failed("b", 2)], 1, ""),
    "all are ignored": ([exits("Ignore", 1)], [failed("a")], None, ""),
    "the first rule counts": ([exits("Count", 1), exits("FailJob", 1)], [failed("a")], 1, ""),
    "a condition": (
        [exits("Ignore", 3), ON_CONDITION],
        [failed("a", conditions=DISRUPTED)],
        2,
        "Pod default/a has condition DisruptionTarget matching FailJob rule at index 1",
    ),
    "without the condition": ([ON_CONDITION], [failed("a")], 1, ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_policy_about_failures(name: str) -> None:
    rules, pods, count, message = FAILURES[name]
    plan = job(owner("Job", completions=2, parallelism=2, podFailurePolicy={"rules": rules}), [*pods, pod("z")], SECONDS)
    assert plan.status["failed"] == count
    assert len(plan.delete) == bool(message)  # the other Pod, which counts as failed
    reason = "PodFailurePolicy"
    assert ended(plan) == ([("FailureTarget", reason, message), ("Failed", reason, message)] if message else [])


SUCCESSES: dict[str, tuple[list[dict[str, Any]], tuple[str, ...], int | None]] = {
    # name: (rules, the indexes that have succeeded, which of 5 rule is met)
    "none has succeeded": ([{"succeededCount": 1}], (), None),
    "as many as it says": ([{"succeededCount": 2}], ("1", "4"), 0),
    "one fewer": ([{"succeededCount": 2}], ("1",), None),
    "the leader": ([{"succeededIndexes": "0"}], ("0",), 0),
    "not the leader": ([{"succeededIndexes": "0"}], ("1", "2"), None),
    "all of a range": ([{"succeededIndexes": "0,2-3"}], ("0", "1", "2", "3"), 0),
    "all but one": ([{"succeededIndexes": "0,2-3"}], ("0", "3"), None),
    "so many of a range": ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], ("0", "3"), 0),
    "others do not count": ([{"succeededIndexes": "0,2-3", "succeededCount": 2}], ("1", "3", "4"), None),
    "the second rule": ([{"succeededIndexes": "0"}, {"succeededCount": 2}], ("1", "2"), 1),
}


@pytest.mark.parametrize("name", SUCCESSES)
def test_a_policy_about_success(name: str) -> None:
    rules, indexes, met = SUCCESSES[name]
    spec = {"completionMode": "Indexed", "completions": 6, "parallelism": 1, "successPolicy": {"rules": rules}}
    plan = job(owner("Job", **spec), [*(done(each, each) for each in indexes), pod("z", annotations={INDEX: "5"})], SECONDS)
    text = f"Matched rules at index {met}"
    both = [("SuccessCriteriaMet", "SuccessPolicy", text), ("Complete", "SuccessPolicy", text)]
    assert ended(plan) == (both if met is not None else [])
    assert (len(plan.delete), "completionTime" in plan.status) == ((1, True) if met is not None else (0, False))


def test_indexes_that_have_succeeded_stay_so() -> None:
    spec = {"completionMode": "Indexed", "completions": 9, "parallelism": 9}
    given = owner("Job", **spec)
    given["status"] = {"completedIndexes": "1,3-4"}
    plan = job(given, [done("a", "2"), done("b", "7"), done("c", "9"), pod("d", annotations={INDEX: "0"})], SECONDS)
    assert (plan.status["completedIndexes"], plan.status["succeeded"]) == ("1-4,7", 5)
    assert [each["metadata"]["annotations"][INDEX] for each in plan.create] == ["5", "6", "8"]


PER_INDEX = {
    "completionMode": "Indexed",
    "completions": 3,
    "parallelism": 3,
    "backoffLimitPerIndex": 1,
    "backoffLimit": 2**31 - 1,
}
FAIL_INDEX = {"podFailurePolicy": {"rules": [exits("FailIndex", 9), exits("Ignore", 8)]}}
INDEXES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], tuple[str, list[tuple[str, str, Any]], str]]] = {
    # name: (of the spec, Pods, (the failed indexes, the new Pods with their failures, why the Job fails))
    "the first failure": (
        {},
        [failed("a", index="1", **{COUNTED: "0"})],
        ("", [("0", "0", None), ("1", "1", None), ("2", "0", None)], ""),
    ),
    "one too many": ({}, [failed("a", index="1", **{COUNTED: "1"})], ("1", [("0", "0", None), ("2", "0", None)], "")),
    "the policy fails it": (FAIL_INDEX, [failed("a", 9, index="1")], ("1", [("0", "0", None), ("2", "0", None)], "")),
    "the policy ignores it": (
        FAIL_INDEX,
        [failed("a", 8, index="1", **{COUNTED: "1", IGNORED: "2"})],
        ("", [("0", "0", None), ("1", "1", "3"), ("2", "0", None)], ""),
    ),
    "as many as may fail": (
        {"maxFailedIndexes": 1},
        [failed("a", index="1", **{COUNTED: "1"}), pod("b", annotations={INDEX: "0"})],
        ("1", [("2", "0", None)], ""),
    ),
    "more than may fail": (
        {"maxFailedIndexes": 0},
        [failed("a", index="1", **{COUNTED: "1"})],
        ("1", [], "MaxFailedIndexesExceeded"),
    ),
    "nothing is left": (
        {},
        [failed("a", index="1", **{COUNTED: "1"}), done("b", "0"), done("c", "2")],
        ("1", [], "FailedIndexes"),
    ),
}


@pytest.mark.parametrize("name", INDEXES)
def test_failures_of_single_indexes(name: str) -> None:
    spec, pods, (lost, made, reason) = INDEXES[name]
    plan = job(owner("Job", **PER_INDEX, **spec), pods, SECONDS)
    found = [each["metadata"]["annotations"] for each in plan.create]
    assert [(each[INDEX], each[COUNTED], each.get(IGNORED)) for each in found] == made
    assert plan.status["failedIndexes"] == lost
    assert [each for _, each, _ in ended(plan)] == [reason] * 2 * bool(reason)


def test_without_completions_the_others_may_end() -> None:
    plan = job(owner("Job", parallelism=3), [done("a", "0"), pod("b")], SECONDS)
    assert (plan.create, plan.delete, ended(plan)) == ([], [], [])
    plan = job(owner("Job", parallelism=3), [done("a", "0"), failed("b")], SECONDS)
    assert [kind for kind, _, _ in ended(plan)] == ["SuccessCriteriaMet", "Complete"]


def test_only_failed_pods_are_replaced() -> None:
    going = pod("a", deletionTimestamp="2026-01-02T03:04:00Z")
    assert len(job(owner("Job", completions=1), [going], SECONDS).create) == 1
    assert job(owner("Job", completions=1, podReplacementPolicy="Failed"), [going], SECONDS).create == []


TEXTS = ["", "0", "0,1", "0-2", "1,3-5,7,8", "0-1999999999"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_indexes(text: str) -> None:
    assert str(CompletionIndexes.parse(text, 2**31)) == text


@pytest.mark.parametrize(
    ("text", "read"), [("0-9", "0-4"), ("7", ""), ("3-1", ""), ("a", ""), ("1,-2", ""), ("2,1,0", "0-2"), ("0-3,2-4", "0-4")]
)
def test_other_texts_of_indexes(text: str, read: str) -> None:
    assert str(CompletionIndexes.parse(text, 5)) == read


def test_indexes_of_two_sets() -> None:
    left, right = CompletionIndexes.of([0, 1, 2, 5, 6, 9]), CompletionIndexes.parse("2-5,9-20", 100)
    assert (str(left | right), str(left & right), (left & right).total) == ("0-6,9-20", "2,5,9", 3)
    assert list(left.others(12)) == [3, 4, 7, 8, 10, 11]
    assert list(left.others(3)) == []
