"""The join of objects without a controller and the workloads that select them."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.workloads import selected as module
from aggserver.controllers.workloads.selected import Selected, Workload, selector_of
from aggserver.meta.selectors import LabelSelector

WEB = Workload("ReplicaSet", "default/web")
EXPRESSION = {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x"]}]}
MATCHING: dict[str, tuple[Any, str, dict[str, str], bool]] = {
    # name: (the selector, the object's key, its labels, whether the workload may adopt it)
    "the same label": ({"matchLabels": {"a": "b"}}, "default/one", {"a": "b", "c": "d"}, True),
    "another value": ({"matchLabels": {"a": "b"}}, "default/one", {"a": "c"}, False),
    "one of two labels": ({"matchLabels": {"a": "b", "c": "d"}}, "default/one", {"a": "b"}, False),
    "another namespace": ({"matchLabels": {"a": "b"}}, "other/one", {"a": "b"}, False),
    "no label is demanded": (EXPRESSION, "default/one", {}, True),
    "no label is demanded, but one refused": (EXPRESSION, "default/one", {"a": "x"}, False),
    "no label is demanded in another namespace": (EXPRESSION, "other/one", {}, False),
}


@pytest.mark.parametrize("first", ["object", "workload"])
@pytest.mark.parametrize("name", MATCHING)
async def test_who_may_adopt(name: str, first: str) -> None:
    given, key, labels, adopts = MATCHING[name]
    selected, selector = Selected(), LabelSelector.from_object(given)
    if first == "object":
        assert selected.put_object(key, labels) == []
        await selected.put_workload(WEB, selector)
    else:
        await selected.put_workload(WEB, selector)
        assert selected.put_object(key, labels) == ([WEB] if adopts else [])
    assert selected.of(WEB) == ([key] if adopts else [])
    selected.remove_object(key)
    assert selected.of(WEB) == []


async def test_what_changes() -> None:
    selected = Selected()
    await selected.put_workload(WEB, LabelSelector.parse("a=b"))
    selected.put_object("default/one", {"a": "b"})
    selected.put_object("default/one", {"a": "c"})
    assert selected.of(WEB) == []
    await selected.put_workload(WEB, LabelSelector.parse("a=c"))
    assert selected.of(WEB) == ["default/one"]
    await selected.put_workload(WEB, None)
    assert selected.of(WEB) == []
    assert selected.put_object("default/one", {"a": "b"}) == []
    # Nothing is kept of what is gone.
    selected.remove_object("default/one")
    assert all(not held for held in vars(selected).values() if isinstance(held, dict))


async def test_nothing_is_kept_of_what_no_workload_may_adopt() -> None:
    """StatefulSets that select Pods with other names would have a pair with each of them for ever."""
    selected, selector = Selected(lambda workload, key: key == f"{workload.key}-0"), LabelSelector.parse("a=b")
    for number in range(20):
        await selected.put_workload(Workload("StatefulSet", f"default/s{number}"), selector)
        selected.put_object(f"default/p{number}", {"a": "b"})
    assert selected.put_object("default/s7-0", {"a": "b"}) == [Workload("StatefulSet", "default/s7")]
    await selected.put_workload(WEB, selector)
    assert selected.of(WEB) == []
    assert sum(len(selected.of(Workload("StatefulSet", f"default/s{number}"))) for number in range(20)) == 1


async def test_many_objects_that_a_selector_does_not_match_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    selected, looked_at = Selected(), list[str]()
    for number in range(1000):
        selected.put_object(f"default/{number}", {"a": "other", "n": str(number)})
    monkeypatch.setattr(Selected, "_join", lambda self, workload, key: looked_at.append(key))
    await selected.put_workload(WEB, LabelSelector.parse("a=b"))
    assert looked_at == []
    await selected.put_workload(Workload("ReplicaSet", "default/7"), LabelSelector.parse("n=7,a!=b"))
    assert looked_at == ["default/7"]


async def test_many_workloads_that_do_not_select_an_object_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    selected, looked_at = Selected(), list[Workload]()
    for number in range(1000):
        await selected.put_workload(Workload("ReplicaSet", f"default/{number}"), LabelSelector.parse(f"n={number}"))
    monkeypatch.setattr(Selected, "_join", lambda self, workload, key: looked_at.append(workload))
    selected.put_object("default/one", {"n": "7"})
    assert looked_at == [Workload("ReplicaSet", "default/7")]


async def test_an_object_that_goes_while_many_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    selected = Selected()
    monkeypatch.setattr(module, "_AT_ONCE", 1)
    for name in ("one", "two", "three"):
        selected.put_object(f"default/{name}", {"a": "b"})
    step = selected.put_workload(WEB, LabelSelector.parse("a=b")).__await__()
    next(step)
    selected.remove_object("default/two")
    selected.put_object("default/four", {"a": "b"})
    for _ in step:
        pass
    assert sorted(selected.of(WEB)) == ["default/four", "default/one", "default/three"]


SELECTORS: dict[str, tuple[dict[str, Any], str | None]] = {
    # name: (the workload, its selector)
    "of a ReplicaSet": ({"kind": "ReplicaSet", "spec": {"selector": {"matchLabels": {"a": "b"}}}}, "a=b"),
    "of a ReplicationController": (
        {"kind": "ReplicationController", "spec": {"selector": {"matchLabels": "b"}}},
        "matchLabels=b",
    ),
    "none": ({"kind": "ReplicationController", "spec": {}}, None),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_selectors(name: str) -> None:
    given, wanted = SELECTORS[name]
    selector = selector_of(given)
    assert (None if selector is None else str(selector)) == wanted
