"""DaemonSets that surge, and the nodes that their templates require: by tables of what there is."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.workloads.daemon_sets import daemon_set
from aggserver.controllers.workloads.node_affinity import is_required
from aggserver.controllers.workloads.plan import REVISION_LABEL, Plan
from tests.controllers.workloads.test_plans import SECONDS, names, owner, pod

GOING: Any = {"deletionTimestamp": "2026-01-02T03:04:00Z"}


def node(name: str, *effects: str, **labels: str) -> dict[str, Any]:
    taints = [{"key": "example.com/taint", "effect": effect} for effect in effects]
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints} if taints else {}}


def on(where: str, name: str, *, ready: bool = True, **metadata: Any) -> dict[str, Any]:
    found = pod(name, ready=ready, creationTimestamp=f"2026-01-02T03:00:0{len(name)}Z", **metadata)
    return found | {"spec": {"nodeName": where}}


def planned(spec: dict[str, Any], pods: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> Plan:
    """The plan for a DaemonSet. Pods whose names begin with `new` have its present revision."""
    agent = owner("DaemonSet", **spec)
    (revision,) = daemon_set(agent, [], [], [], SECONDS).create
    for each in pods:
        if each["metadata"]["name"].startswith("new"):
            each["metadata"]["labels"][REVISION_LABEL] = revision["metadata"]["labels"][REVISION_LABEL]
    return daemon_set(agent, pods, [revision], nodes, SECONDS)


def steps(plan: Plan) -> tuple[list[str], list[str]]:
    """The nodes that get a Pod, and the Pods that go."""
    found = []
    for each in plan.create:
        (term,) = each["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        found += term["matchFields"][0]["values"]
    return found, names(plan.delete)


SURGE = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}
ALL = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}}}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
TWO = [node("a"), node("b")]
UPDATES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], tuple[list[str], list[str]]]] = {
    # name: (spec, Pods, nodes, (the nodes that get a Pod, the Pods that go))
    "one after the other": (SURGE, [on("a", "old-a"), on("b", "old-b")], TWO, (["a"], [])),
    "all at once": (ALL, [on("a", "old-a"), on("b", "old-b")], TWO, (["a", "b"], [])),
    "the new one is not ready": (SURGE, [on("a", "old-a"), on("a", "new-a1", ready=False), on("b", "old-b")], TWO, ([], [])),
    "the new one is ready": (SURGE, [on("a", "old-a"), on("a", "new-a1"), on("b", "old-b")], TWO, ([], ["old-a"])),
    "the next one": (SURGE, [on("a", "new-a"), on("b", "old-b")], TWO, (["b"], [])),
    "old ones that are not ready": (
        SURGE,
        [on("a", "old-a", ready=False), on("b", "old-b", ready=False)],
        TWO,
        (["a", "b"], []),
    ),
    "neither is ready": (SURGE, [on("a", "old-a", ready=False), on("a", "new-a1", ready=False)], TWO[:1], ([], ["old-a"])),
    "one that is going": (SURGE, [on("a", "new-a", **GOING)], TWO[:1], (["a"], [])),
    "one that is going, without surge": ({}, [on("a", "new-a", **GOING)], TWO[:1], ([], [])),
    "three": (SURGE, [on("a", "old-a"), on("a", "new-a1", ready=False), on("a", "new-a22")], TWO[:1], ([], ["new-a22"])),
    "on a node that has to wait for another": (
        SURGE,
        [on("a", "old-a"), on("b", "new-b", ready=False)],
        [node("a", "NoSchedule"), node("b")],
        ([], []),
    ),
    "on a node that another replaces": (
        SURGE,
        [on("a", "old-a"), on("b", "new-b")],
        [node("a", "NoSchedule"), node("b")],
        ([], ["old-a"]),
    ),
    "deleted by others only": (ON_DELETE, [on("a", "old-a")], TWO[:1], ([], [])),
    "one that may stay": (ON_DELETE, [on("a", "new-a")], [node("a", "NoSchedule")], ([], [])),
    "one that may not begin": ({}, [], [node("a", "NoSchedule")], ([], [])),
    "one that may not stay": ({}, [on("a", "new-a")], [node("a", "NoExecute")], ([], ["new-a"])),
    "a preference": ({}, [], [node("a", "PreferNoSchedule")], (["a"], [])),
}


@pytest.mark.parametrize("name", UPDATES)
def test_an_update(name: str) -> None:
    spec, pods, nodes, wanted = UPDATES[name]
    assert steps(planned(spec, pods, nodes)) == wanted


def test_pods_that_are_not_wanted_are_counted() -> None:
    status = planned({}, [on("a", "new-a"), on("b", "new-b")], [node("a", "NoSchedule"), node("b")]).status
    assert (status["desiredNumberScheduled"], status["currentNumberScheduled"], status["numberMisscheduled"]) == (1, 1, 1)


def term(*expressions: Any, fields: Any = ()) -> dict[str, Any]:
    found = [{"key": key, "operator": operator, "values": values} for key, operator, *values in expressions]
    return {
        "matchExpressions": found,
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]} for each in fields],
    }


TERMS: dict[str, tuple[list[dict[str, Any]], bool]] = {
    # name: (terms, whether one matches the node `n` with the labels zone=a and size=5)
    "none": ([], False),
    "an empty one": ([term()], False),
    "In": ([term(("zone", "In", "b", "a"))], True),
    "In others": ([term(("zone", "In", "b"))], False),
    "In without the label": ([term(("disk", "In", ""))], False),
    "NotIn": ([term(("zone", "NotIn", "a"))], False),
    "NotIn without the label": ([term(("disk", "NotIn", "a"))], True),
    "Exists": ([term(("zone", "Exists"))], True),
    "DoesNotExist": ([term(("zone", "DoesNotExist"))], False),
    "Gt": ([term(("size", "Gt", "4"))], True),
    "Gt the same": ([term(("size", "Gt", "5"))], False),
    "Lt": ([term(("size", "Lt", "10"))], True),
    "Lt of a text": ([term(("zone", "Lt", "10"))], False),
    "all of a term": ([term(("zone", "Exists"), ("disk", "Exists"))], False),
    "one of the terms": ([term(("disk", "Exists")), term(("zone", "Exists"))], True),
    "the name": ([term(fields=["n"])], True),
    "another name": ([term(("zone", "Exists"), fields=["m"])], False),
}


@pytest.mark.parametrize("name", TERMS)
def test_node_affinity(name: str) -> None:
    terms, matches = TERMS[name]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    given = node("n", zone="a", size="5")
    assert is_required({"affinity": affinity}, given) == matches
    assert not is_required({"affinity": affinity, "nodeSelector": {"zone": "b"}}, given)
    assert is_required({"nodeSelector": {"zone": "a"}, "affinity": {"nodeAffinity": {}}}, given)
