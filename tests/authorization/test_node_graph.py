"""The graph by which kubelets are authorized."""

from __future__ import annotations

from aggserver.authorization.node_graph import GraphRef, NodeGraph, Placed, Volume


def secret(name: str) -> GraphRef:
    return GraphRef("secrets", "ns", name)


def pod(name: str) -> GraphRef:
    return GraphRef("pods", "ns", name)


CLAIM = GraphRef("persistentvolumeclaims", "ns", "data")
VOLUME = GraphRef("persistentvolumes", "", "v")


def test_what_a_pod_uses_concerns_its_node() -> None:
    graph = NodeGraph()
    graph.place(pod("a"), Placed("one", (secret("s"), CLAIM)))
    assert graph.leads_to(pod("a"), "one")
    assert graph.leads_to(secret("s"), "one")
    assert not any(graph.leads_to(ref, "two") for ref in (pod("a"), secret("s"), CLAIM))
    assert not graph.leads_to(secret("t"), "one")
    assert not graph.leads_to(GraphRef("configmaps", "ns", "s"), "one")
    assert not graph.leads_to(GraphRef("secrets", "other", "s"), "one")


def test_the_last_pod_of_a_node_takes_it_away() -> None:
    graph = NodeGraph()
    for name, node in (("a", "one"), ("b", "one"), ("c", "two")):
        graph.place(pod(name), Placed(node, (secret("s"),)))
    graph.place(pod("a"), None)
    assert graph.leads_to(secret("s"), "one")
    graph.place(pod("b"), None)
    assert not graph.leads_to(secret("s"), "one")
    assert graph.leads_to(secret("s"), "two")
    graph.place(pod("c"), Placed("one", ()))
    assert not graph.leads_to(secret("s"), "two")
    assert graph.leads_to(pod("c"), "one")
    graph.place(pod("c"), None)
    graph.place(pod("never there"), None)
    assert not graph.leads_to(pod("c"), "one")


def test_a_volume_concerns_the_nodes_of_its_claim() -> None:
    graph = NodeGraph()
    graph.put_volume(VOLUME, Volume(CLAIM, (secret("mount"),)))
    assert not graph.leads_to(VOLUME, "one")
    graph.place(pod("a"), Placed("one", (CLAIM,)))
    for ref in (CLAIM, VOLUME, secret("mount")):
        assert graph.leads_to(ref, "one")
        assert not graph.leads_to(ref, "two")
    graph.put_volume(VOLUME, Volume(GraphRef("persistentvolumeclaims", "ns", "other"), (secret("mount"),)))
    assert not graph.leads_to(VOLUME, "one")
    assert not graph.leads_to(secret("mount"), "one")
    graph.put_volume(VOLUME, None)
    graph.place(pod("a"), None)
    assert not graph.leads_to(CLAIM, "one")


def test_nothing_is_left_of_what_is_gone() -> None:
    graph = NodeGraph()
    for index in range(10):
        graph.place(pod(str(index)), Placed(f"node-{index % 3}", (secret("s"), CLAIM)))
        graph.put_volume(GraphRef("persistentvolumes", "", str(index)), Volume(CLAIM, (secret("mount"),)))
    for index in range(10):
        graph.place(pod(str(index)), None)
        graph.put_volume(GraphRef("persistentvolumes", "", str(index)), None)
    assert not any(vars(graph).values())
