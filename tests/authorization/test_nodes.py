"""What kubelets may do. tests/integration/test_same_nodes.py asks kube-apiserver the same, and more."""

from __future__ import annotations

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.node_graph import GraphRef, NodeGraph, Placed
from aggserver.authorization.standalone import StandaloneAuthorizer

NODE = UserInfo("system:node:a", groups=("system:nodes", "system:authenticated"))
NO_RELATION = "no relationship found between node 'a' and this object"


async def known() -> NodeGraph:
    graph = NodeGraph()
    graph.place(
        GraphRef("pods", "ns", "p"), Placed("a", (GraphRef("secrets", "ns", "s"), GraphRef("serviceaccounts", "ns", "robot")))
    )
    graph.place(GraphRef("pods", "ns", "q"), Placed("b", (GraphRef("secrets", "ns", "t"),)))
    return graph


# verb, resource (/subresource), namespace, name, field selector -> None if it is allowed, else the reason.
DECISIONS: list[tuple[str, str | None]] = [
    ("get secrets ns s", None),
    ("watch secrets ns s", None),
    ("get secrets ns t", NO_RELATION),
    ("list secrets ns -", "No Object name found"),
    ("update secrets ns s", "can only read resources of this type"),
    ("get pods ns p", None),
    ("get pods ns q", NO_RELATION),
    ("list pods - - spec.nodeName=a", None),
    ("list pods - - spec.nodeName=b", "can only list/watch pods with spec.nodeName field selector"),
    ("list pods - - spec.nodeName", "can only list/watch pods with spec.nodeName field selector"),
    ("update pods ns p", ""),
    ("update pods/status ns q", None),
    ("create pods/exec ns p", ""),
    ("create serviceaccounts/token ns robot", None),
    ("create serviceaccounts/token ns default", NO_RELATION),
    ("get nodes - a", None),
    ("get nodes - b", "node 'a' cannot read 'b', only its own Node object"),
    ("delete nodes - a", ""),
    ("list services ns -", None),
    ("create services ns -", ""),
]


@pytest.mark.parametrize(("asked", "reason"), DECISIONS)
async def test_decisions(asked: str, reason: str | None) -> None:
    verb, what, namespace, name, *selector = ("" if word == "-" else word for word in asked.split())
    resource, _, below = what.partition("/")
    attributes = Attributes(NODE, verb, "", "v1", resource, below, namespace, name, field_selector="".join(selector))
    decision = await StandaloneAuthorizer(graph=known, modes=["Node"]).authorize(attributes)
    assert decision == ((True, "") if reason is None else (False, reason))


@pytest.mark.parametrize(
    ("name", "groups"), [("system:node:a", ()), ("a", ("system:nodes",)), ("system:node:", ("system:nodes",))]
)
async def test_who_is_no_kubelet(name: str, groups: tuple[str, ...]) -> None:
    async def never() -> NodeGraph:
        raise AssertionError("the graph was asked for")

    authorizer = StandaloneAuthorizer(graph=never, modes=["Node"])
    decision = await authorizer.authorize(Attributes(UserInfo(name, groups=groups), "get", "", "v1", "secrets", "", "ns", "s"))
    assert decision == (False, 'unknown node for user "system:node:"' if groups and name != "a" else "")


async def test_other_modes_are_asked_too() -> None:
    authorizer = StandaloneAuthorizer(graph=known, modes=["Node", "AlwaysDeny"])
    denied = await authorizer.authorize(Attributes(NODE, "get", "", "v1", "secrets", "", "ns", "t"))
    assert denied == (False, f"{NO_RELATION}\nEverything is forbidden.")
