"""Drafts: what a function has changed is written back, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import pytest

from aggserver.typed import schema
from aggserver.typed.codec import merged
from aggserver.typed.markers import MapKey
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import Quantity


@dataclass
class Port:
    name: str
    number: int = 80


@dataclass
class Limits:
    cpu: Quantity
    wait: timedelta = timedelta(minutes=90)


@dataclass
class Spec:
    image: str = "web"
    keyed: Annotated[list[Port], MapKey("name")] = field(default_factory=list)
    plain: list[Port] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    limits: Limits | None = None
    own: Limits | None = field(default_factory=lambda: Limits(Quantity("1")))
    more: dict[str, Any] = field(default_factory=dict)
    free: Any = None
    by_name: dict[str, Port] = field(default_factory=dict)


@dataclass
class Site:
    metadata: Metadata
    spec: Spec = field(default_factory=Spec)


SITE = schema.of(Site)
FULL: dict[str, Any] = {
    "apiVersion": "v1",
    "metadata": {"name": "a", "labels": {"a": "b"}, "managedFields": [{"x": 1}], "ownerReferences": [{"uid": "u"}]},
    "spec": {
        "image": "web",
        "unknown": 1,
        "keyed": [{"name": "a", "number": 1, "u": 1}, {"name": "b", "u": 2}],
        "plain": [{"name": "a", "u": 1}, {"name": "b", "u": 2}, {"name": "c", "u": 3}],
        "words": ["z", "a"],
        "limits": {"cpu": 1, "wait": "90m", "u": 1},
        "more": {"x": {"y": 1}},
        "free": [{"y": 1}],
        "byName": {"a": {"name": "a", "u": 1}},
    },
}
Change = Callable[[Site], object]


def changed(obj: dict[str, Any], change: Change) -> dict[str, Any]:
    before = copy.deepcopy(obj)
    draft = SITE.codec.draft(obj)
    change(draft.value)
    found = draft.merged()
    assert obj == before, "the object was changed"
    assert draft.is_changed() == (found != obj)
    return found


def with_spec(**members: Any) -> dict[str, Any]:
    return {**FULL, "spec": {**FULL["spec"], **members}}


def with_metadata(**members: Any) -> dict[str, Any]:
    return {**FULL, "metadata": {**FULL["metadata"], **members}}


def limited(site: Site) -> Limits:
    assert site.spec.limits is not None
    return site.spec.limits


KEYED, PLAIN = FULL["spec"]["keyed"], FULL["spec"]["plain"]
WITHOUT_LIMITS = {**FULL, "spec": {name: value for name, value in FULL["spec"].items() if name != "limits"}}
CHANGES: list[tuple[str, Change, dict[str, Any]]] = [
    ("nothing", lambda site: None, FULL),
    ("nothing, but looked at", lambda site: (site.metadata.labels, site.metadata.annotations, site.metadata.finalizers), FULL),
    ("a text", lambda site: setattr(site.spec, "image", "x"), with_spec(image="x")),
    ("a label", lambda site: site.metadata.labels.update(c="d"), with_metadata(labels={"a": "b", "c": "d"})),
    ("a label less", lambda site: site.metadata.labels.clear(), with_metadata(labels={})),
    ("an annotation", lambda site: site.metadata.annotations.update(c="d"), with_metadata(annotations={"c": "d"})),
    ("labels anew", lambda site: setattr(site.metadata, "labels", {"e": "f"}), with_metadata(labels={"e": "f"})),
    ("a finalizer", lambda site: site.metadata.finalizers.append("x/y"), with_metadata(finalizers=["x/y"])),
    ("an owner", lambda site: site.metadata.owner_references.clear(), with_metadata(ownerReferences=[])),
    (
        "an item by its key",
        lambda site: (site.spec.keyed.reverse(), setattr(site.spec.keyed[0], "number", 5)),
        with_spec(keyed=[{**KEYED[1], "number": 5}, KEYED[0]]),
    ),
    ("a new item", lambda site: site.spec.keyed.insert(0, Port("c")), with_spec(keyed=[{"name": "c", "number": 80}, *KEYED])),
    ("an item less", lambda site: site.spec.keyed.pop(0), with_spec(keyed=KEYED[1:])),
    (
        "an item in place",
        lambda site: setattr(site.spec.plain[1], "number", 5),
        with_spec(plain=[PLAIN[0], {**PLAIN[1], "number": 5}, PLAIN[2]]),
    ),
    ("an item in the middle less", lambda site: site.spec.plain.pop(1), with_spec(plain=[PLAIN[0], PLAIN[2]])),
    (
        "an item more in the middle",
        lambda site: site.spec.plain.insert(1, Port("n")),
        with_spec(plain=[PLAIN[0], {"name": "n", "number": 80}, *PLAIN[1:]]),
    ),
    ("all items less", lambda site: site.spec.plain.clear(), with_spec(plain=[])),
    ("a set", lambda site: site.spec.words.add("m"), with_spec(words=["a", "m", "z"])),
    (
        "a nested object",
        lambda site: setattr(limited(site), "wait", timedelta(1)),
        with_spec(limits={"cpu": 1, "wait": "24h0m0s", "u": 1}),
    ),
    (
        "an object to None",
        lambda site: setattr(site.spec, "limits", None),
        WITHOUT_LIMITS,
    ),
    (
        "what only the class had",
        lambda site: setattr(site.spec.own, "wait", timedelta(seconds=1)),
        with_spec(own={"cpu": "1", "wait": "1s"}),
    ),
    ("anything", lambda site: site.spec.more.update(z=1), with_spec(more={"x": {"y": 1}, "z": 1})),
    ("anything, deep", lambda site: site.spec.more["x"].update(y=2), with_spec(more={"x": {"y": 2}})),
    ("what is unchecked", lambda site: site.spec.free[0].update(y=2), with_spec(free=[{"y": 2}])),
    (
        "a value of a map",
        lambda site: setattr(site.spec.by_name["a"], "number", 5),
        with_spec(byName={"a": {"name": "a", "u": 1, "number": 5}}),
    ),
    ("a value of a map less", lambda site: site.spec.by_name.clear(), with_spec(byName={})),
]


@pytest.mark.parametrize(("change", "expected"), [pytest.param(*each, id=name) for name, *each in CHANGES])
def test_changes(change: Change, expected: dict[str, Any]) -> None:
    assert changed(FULL, change) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda site: None, {}, id="nothing"),
        pytest.param(lambda site: setattr(site.spec, "image", "x"), {"image": "x"}, id="one of the defaults"),
        pytest.param(lambda site: site.spec.keyed.append(Port("a")), {"keyed": [{"name": "a", "number": 80}]}, id="a list"),
        pytest.param(lambda site: site.spec.words.add("a"), {"words": ["a"]}, id="a set"),
    ],
)
def test_defaults_are_not_written(change: Change, expected: dict[str, Any]) -> None:
    assert changed({"metadata": {}, "spec": {}}, change) == {"metadata": {}, "spec": expected}


def test_an_object_without_the_default_object() -> None:
    found = changed({"metadata": {}}, lambda site: setattr(site.spec, "image", "x"))
    assert found["spec"]["image"] == "x"
    assert SITE.codec.decode(found) == Site(Metadata(), Spec("x"))


def test_equal_items_are_as_many_as_they_are() -> None:
    items = [{"name": "a", "number": 1, "u": 1}, {"name": "a", "number": 1, "u": 2}]
    found = changed({"metadata": {}, "spec": {"plain": items}}, lambda site: site.spec.plain.pop())
    assert found["spec"]["plain"] == items[:1]
    found = changed({"metadata": {}, "spec": {"plain": items}}, lambda site: site.spec.plain.append(Port("a", 1)))
    assert found["spec"]["plain"] == [*items, {"name": "a", "number": 1}]


def test_null_in_place_of_a_missing_field() -> None:
    assert changed({"metadata": {}, "spec": {"limits": None}}, lambda site: None) == {"metadata": {}, "spec": {"limits": None}}


def test_long_lists_are_merged_in_one_pass() -> None:
    before = [{"name": str(number)} for number in range(20_000)]
    after = [{"name": "new"}, *before]
    objects = [{**item, "u": 1} for item in before]
    keyed = {"items": {}, "x-kubernetes-list-map-keys": ["name"]}
    assert merged(objects, before, after, keyed) == [{"name": "new"}, *objects]
    assert merged(objects, before, after, {}) == [{"name": "new"}, *objects]
