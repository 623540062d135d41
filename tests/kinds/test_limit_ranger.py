"""What a LimitRange adds and refuses; `tests/integration/cases_kind_limits.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import CREATE, UPDATE, Attributes
from aggserver.admission.sources import Collection
from aggserver.authentication.user import UserInfo
from aggserver.kinds.limit_range_rules import limit_range_problems
from aggserver.kinds.limit_ranger import ANNOTATION, LimitRanger, set_defaults, violations
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo


def pod(*resources: Any, first: Any = None) -> Any:
    def made(name: str, given: Any) -> Any:
        return {"name": name, **({} if given is None else {"resources": given})}

    spec: Any = {"containers": [made(f"c{index}", each) for index, each in enumerate(resources)]}
    if first is not None:
        spec["initContainers"] = [made("first", first)]
    return {"metadata": {"name": "p"}, "spec": spec}


def amounts(request: str | None = None, limit: str | None = None, name: str = "cpu") -> Any:
    given = {"requests": request, "limits": limit}
    return {member: {name: amount} for member, amount in given.items() if amount is not None}


def test_defaults_are_added_and_told() -> None:
    made = pod(None, {"requests": {"cpu": "1"}}, first={"limits": {"cpu": "2"}})
    limits = [
        {"type": "Pod", "default": {"cpu": "9"}},
        {"type": "Container", "default": {"cpu": "3", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}},
    ]
    assert set_defaults(made, limits)
    whole = {"requests": {"cpu": "500m"}, "limits": {"cpu": "3", "memory": "1Gi"}}
    assert made["spec"]["containers"][0]["resources"] == whole
    assert made["spec"]["containers"][1]["resources"] == {**whole, "requests": {"cpu": "1"}}
    assert made["spec"]["initContainers"][0]["resources"] == {**whole, "limits": {"cpu": "2", "memory": "1Gi"}}
    said = [
        "cpu request for container c0",
        "cpu, memory limit for container c0",
        "cpu, memory limit for container c1",
        "cpu request for init container first",
        "memory limit for init container first",
    ]
    assert made["metadata"]["annotations"] == {ANNOTATION: f"LimitRanger plugin set: {'; '.join(said)}"}


def test_nothing_is_added_where_nothing_is_missing() -> None:
    made = pod(amounts("1", "1"))
    assert not set_defaults(made, [{"type": "Container", "default": {"cpu": "3"}, "defaultRequest": {"cpu": "3"}}])
    assert made == pod(amounts("1", "1"))


_LOW, _HIGH, _RATIO = {"min": {"cpu": "100m"}}, {"max": {"cpu": "1"}}, {"maxLimitRequestRatio": {"cpu": "1.5"}}
_AT_LEAST, _AT_MOST = "minimum cpu usage per Container is 100m", "maximum cpu usage per Container is 1"
_TIMES = "cpu max limit to request ratio per Container is 1.5"

# The members of the limit, the Pod, and what is said.
CONTAINERS: dict[str, tuple[Any, Any, list[str]]] = {
    "no request": (_LOW, pod({}), [f"{_AT_LEAST}.  No request is specified"]),
    "low request": (_LOW, pod(amounts("99m", "1")), [f"{_AT_LEAST}, but request is 99m"]),
    "low limit": (_LOW, pod(amounts("0.1", "0.09")), [f"{_AT_LEAST}, but limit is 0.09"]),
    "least": (_LOW, pod(amounts("0.1", "100m")), []),
    "below a thousandth": (_LOW, pod(amounts("99999u")), []),
    "no limit": (_HIGH, pod(amounts("2")), [f"{_AT_MOST}.  No limit is specified"]),
    "high limit": (_HIGH, pod(amounts("2", "1001m")), [f"{_AT_MOST}, but limit is 1001m"]),
    "high request": (_HIGH, pod(amounts("2", "1")), [f"{_AT_MOST}, but request is 2"]),
    "most": (_HIGH, pod(amounts("1", "1")), []),
    "ratio without a request": (_RATIO, pod(amounts(None, "1")), [f"{_TIMES}, but no request is specified or request is 0"]),
    "ratio of nothing": (_RATIO, pod(amounts("0", "1")), [f"{_TIMES}, but no request is specified or request is 0"]),
    "ratio without a limit": (_RATIO, pod(amounts("1")), [f"{_TIMES}, but no limit is specified or limit is 0"]),
    "high ratio": (_RATIO, pod(amounts("3", "5")), [f"{_TIMES}, but provided ratio is 1.666667"]),
    "highest ratio": (_RATIO, pod(amounts("2", "3")), []),
    "too large for thousandths": (
        {"max": {"memory": "1Ei"}},
        pod(amounts(None, "2Ei", "memory")),
        ["maximum memory usage per Container is 1Ei, but limit is 2Ei"],
    ),
    "each": (
        _HIGH,
        pod(amounts("1", "2"), amounts("1", "1"), first=amounts("1", "3")),
        [f"{_AT_MOST}, but limit is {n}" for n in "23"],
    ),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name: str) -> None:
    limit, made, said = CONTAINERS[name]
    assert list(violations("pods", made, [{"type": "Container", **limit}])) == said


def test_pods_are_judged_by_their_sums() -> None:
    limits = [{"type": "Pod", **_LOW, **_HIGH}]
    assert list(violations("pods", pod(amounts("50m", "500m"), amounts("50m", "500m")), limits)) == []
    said = list(violations("pods", pod(amounts("40m", "500m"), amounts("50m", "600m")), limits))
    assert said == ["minimum cpu usage per Pod is 100m, but request is 90m", "maximum cpu usage per Pod is 1, but limit is 1100m"]
    whole = pod({})
    whole["spec"]["resources"] = amounts("200m", "2")
    assert list(violations("pods", whole, limits)) == ["maximum cpu usage per Pod is 1, but limit is 2"]


def test_claims() -> None:
    limits = [{"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}]

    def said(storage: str) -> list[str]:
        spec = {"resources": {"requests": {"storage": storage}}}
        return list(violations("persistentvolumeclaims", {"spec": spec}, limits))

    assert said("1Gi") == said("2Gi") == []
    assert said("1Mi") == ["minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"]
    assert said("3Gi") == ["maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"]


def _attributes(operation: str = CREATE, subresource: str = "", resource: str = "pods", namespace: str = "n") -> Attributes:
    info = ResourceInfo("", "v1", resource, "Pod", "PodList", namespaced=True)
    return Attributes(operation, UserInfo("u"), info, subresource, "Pod", "v1", namespace, "", dry_run=False)


def _ranger(*ranges: Any) -> LimitRanger:
    known = Collection()
    for index, limits in enumerate(ranges):
        known.put({"metadata": {"namespace": "n", "name": f"l{index}", "resourceVersion": "1"}, "spec": {"limits": limits}})
    return LimitRanger(known)


@pytest.mark.parametrize(
    ("attributes", "concerned"),
    [
        (_attributes(), True),
        (_attributes(UPDATE), False),
        (_attributes(UPDATE, "resize"), True),
        (_attributes(UPDATE, "status"), False),
        (_attributes(UPDATE, resource="persistentvolumeclaims"), True),
        (_attributes(UPDATE, "status", "persistentvolumeclaims"), False),
        (_attributes(resource="services"), False),
        (_attributes(namespace="other"), False),
    ],
)
def test_which_requests_are_concerned(attributes: Attributes, concerned: bool) -> None:
    assert _ranger([]).concerns(attributes) is concerned


async def test_all_that_is_wrong_by_one_range_is_told() -> None:
    ranger = _ranger([{"type": "Container", **_HIGH}], [{"type": "Container", **_LOW, **_RATIO}])
    made = pod(amounts("10m", "20m"), amounts("1m", "1m"))
    with pytest.raises(StatusError) as refused:
        await ranger.validate(_attributes(), made, None)
    said = f"[{_AT_LEAST}, but request is 10m, {_TIMES}, but provided ratio is 2.000000, {_AT_LEAST}, but request is 1m]"
    assert refused.value.message == f'pods "p" is forbidden: {said}'
    assert refused.value.code == 403


async def test_what_is_being_deleted_is_left_alone() -> None:
    ranger, made = _ranger([{"type": "Container", **_HIGH, "default": {"cpu": "1"}}]), pod({})
    old = {"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    attributes = _attributes(UPDATE, "resize")
    assert not await ranger.mutate(attributes, made, old)
    await ranger.validate(attributes, made, old)
    assert await ranger.mutate(attributes, made, {"metadata": {"name": "p"}})


# The limits, and the fields that have errors.
RULES: dict[str, tuple[list[Any], list[str]]] = {
    "fine": ([{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}}], []),
    "type": ([{"type": "Other"}], ["[0].type"]),
    "another's type": ([{"type": "example.com/Other"}], []),
    "twice": ([{"type": "Pod"}, {"type": "Pod"}], ["[1].type"]),
    "name": ([{"type": "Pod", "max": {"pods": "1"}}], ["[0].max[pods]"]),
    "name twice": ([{"type": "Pod", "max": {"a": "1"}}], ["[0].max[a]", "[0].max[a]"]),
    "extended": ([{"type": "Container", "max": {"example.com/gpu": "1"}}], []),
    "request of extended": (
        [{"type": "Container", "max": {"requests.example.com/gpu": "1"}}],
        ["[0].max[requests.example.com/gpu]"],
    ),
    "Pod": ([{"type": "Pod", "default": {"a": "1"}, "defaultRequest": {"a": "1"}}], ["[0].default", "[0].defaultRequest"]),
    "claim": ([{"type": "PersistentVolumeClaim"}], ["[0].limits"]),
    "order": ([{"type": "Pod", "min": {"cpu": "2"}, "max": {"cpu": "1"}}], ["[0].min[cpu]"]),
    "ratio": ([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "0.9"}}], ["[0].maxLimitRequestRatio[cpu]"]),
    "ratio of nothing": (
        [{"type": "Pod", "min": {"cpu": "0"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}],
        [],
    ),
    "large ratio": (
        [{"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2001m"}}],
        ["[0].maxLimitRequestRatio[cpu]"],
    ),
    "no overcommitment": (
        [{"type": "Container", "default": {"example.com/g": "2"}, "defaultRequest": {"example.com/g": "1"}}],
        ["[0].defaultRequest[example.com/g]"],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    limits, fields = RULES[name]
    found = [problem.field for problem in limit_range_problems({"spec": {"limits": limits}})]
    assert found == [f"spec.limits{field}" for field in fields]
