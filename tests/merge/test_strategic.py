"""Strategic merge patches. `tests/integration/cases_strategic.py` has the same and more, with upstream's answers."""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

from aggserver.merge import strategic
from aggserver.merge.strategic import BadDirectiveError, StrategicPatchError, TooCostlyError, go_text, strategic_merge
from aggserver.scheme.types import lookup

KIND = "admissionregistration/v1.ValidatingWebhookConfiguration"
A, B, C = ({"name": name, "timeoutSeconds": 1} for name in "abc")
OBJECT = {"metadata": {"labels": {"x": "y"}, "finalizers": ["f", "g"]}, "webhooks": [A, B, C]}


def patched(patch: Any) -> Any:
    before, sent = copy.deepcopy(OBJECT), copy.deepcopy(patch)
    result = strategic_merge(OBJECT, patch, lookup(KIND))
    assert (OBJECT, patch) == (before, sent), "nothing is changed in place"
    return result


def key(name: str, **members: Any) -> dict[str, Any]:
    return {"name": name, **members}


LISTS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    # name: (patch, webhooks)
    "merge": ({"webhooks": [key("b", timeoutSeconds=2)]}, [A, key("b", timeoutSeconds=2), C]),
    "new items come first": ({"webhooks": [key("d")]}, [key("d"), A, B, C]),
    "delete": ({"webhooks": [key("b", **{"$patch": "delete"})]}, [A, C]),
    "replace": ({"webhooks": [{"$patch": "replace"}, key("d")]}, [key("d")]),
    "order": ({"$setElementOrder/webhooks": [key("c"), key("a")]}, [B, C, A]),
    "order and add": ({"$setElementOrder/webhooks": [key("d"), key("a")], "webhooks": [key("d")]}, [key("d"), A, B, C]),
    "null in an item": ({"webhooks": [key("a", timeoutSeconds=None)]}, [key("a"), B, C]),
    "nothing": ({}, [A, B, C]),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_with_keys(name: str) -> None:
    patch, webhooks = LISTS[name]
    assert patched(patch) == {**OBJECT, "webhooks": webhooks}


METADATA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # name: (patch of metadata, what changes)
    "set": ({"finalizers": ["h", "f"]}, {"finalizers": ["h", "f", "g"]}),
    "delete from a set": ({"$deleteFromPrimitiveList/finalizers": ["f"]}, {"finalizers": ["g"]}),
    "map": ({"labels": {"z": "1", "x": None}}, {"labels": {"z": "1"}}),
    "replaced map": ({"labels": {"z": "1", "$patch": "replace"}}, {"labels": {"z": "1"}}),
    "emptied map": ({"labels": {"$patch": "delete"}}, {"labels": {}}),
    "retained keys": ({"labels": {"z": "1", "$retainKeys": ["z"]}}, {"labels": {"z": "1"}}),
    "new map": ({"annotations": {"a": "b", "c": None, "d": {"$patch": "delete"}}}, {"annotations": {"a": "b"}}),
    "another type": ({"labels": "x"}, {"labels": "x"}),
    "order of a new list": (
        {"$setElementOrder/ownerReferences": [{"uid": "b"}, {"uid": "a"}], "ownerReferences": [{"uid": "b"}, {"uid": "a"}]},
        {"ownerReferences": [{"uid": "b"}, {"uid": "a"}]},
    ),
    "new list": (
        {"ownerReferences": [{"uid": "a", "name": None}, {"uid": "b", "$patch": "delete"}]},
        {"ownerReferences": [{"uid": "a"}]},
    ),
    "order of nothing": ({"$setElementOrder/ownerReferences": []}, {}),
}


@pytest.mark.parametrize("name", METADATA)
def test_maps_and_sets(name: str) -> None:
    patch, changed = METADATA[name]
    assert patched({"metadata": patch}) == {**OBJECT, "metadata": {**OBJECT["metadata"], **changed}}  # type: ignore[dict-item]


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no key": ({"webhooks": [{"a": 1}]}, StrategicPatchError, "map: map[a:1] does not contain declared merge key: name"),
    "directive": (
        {"webhooks": [key("a", **{"$patch": "x"})]},
        StrategicPatchError,
        "unknown patch type: x in map: map[$patch:x name:a]",
    ),
    "mixed": ({"webhooks": ["a"]}, StrategicPatchError, "list element types are not identical: "),
    "order": (
        {"$setElementOrder/webhooks": [key("a")], "webhooks": [key("b")]},
        StrategicPatchError,
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ),
    "retained keys": ({"metadata": {"labels": {"$retainKeys": "x"}}}, BadDirectiveError, "invalid patch format of retainKeys"),
    "order of an empty list": (
        {"metadata": {"$setElementOrder/ownerReferences": [], "ownerReferences": []}},
        StrategicPatchError,
        "no elements in any of the given slices",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_merged(name: str) -> None:
    patch, kind, text = BAD[name]
    with pytest.raises(kind) as raised:
        patched(patch)
    assert str(raised.value).startswith(text)


def test_a_list_whose_items_retain_keys() -> None:
    """The volumes of Pods have the strategy `merge,retainKeys`."""
    pod = {"spec": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]}}
    volume = {"name": "a", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}
    assert strategic_merge(pod, {"spec": {"volumes": [volume]}}, lookup("core/v1.Pod")) == {
        "spec": {"volumes": [{"name": "a", "secret": {"secretName": "s"}}, {"name": "b", "emptyDir": {}}]}
    }


def test_a_list_whose_keys_are_numbers() -> None:
    def pod(*ports: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "a", "ports": [*ports]}]}}

    before = pod({"containerPort": 80}, {"containerPort": 443})
    patch = pod({"containerPort": 443, "name": "tls"}, {"containerPort": 80, "$patch": "delete"})
    after = pod({"containerPort": 443, "name": "tls"})
    assert strategic_merge(before, patch, lookup("core/v1.Pod")) == after


def test_lists_in_a_map_are_not_merged() -> None:
    review = {"spec": {"extra": {"a": ["b"]}}}
    with pytest.raises(StrategicPatchError, match="data type is not struct, instead is: map"):
        strategic_merge(review, review, lookup("authorization/v1.SubjectAccessReview"))


class Compared(str):
    """A text that counts how often it is compared. A look-up of a hash compares only what is found."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


MANY = [Compared(f"k{number}") for number in range(2000)]


def texts() -> list[str]:
    return [str(text) for text in MANY]


# name: (members of spec or data, the patch of them)
LONG: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "retained keys": (
        "core/v1.ConfigMap",
        {"data": dict.fromkeys(MANY, "a")},
        {"data": {"$retainKeys": texts()[::-1], **dict.fromkeys(texts(), "b")}},
    ),
    "deleted items": (
        "core/v1.Pod",
        {"spec": {"containers": [{"name": name} for name in MANY]}},
        {"spec": {"containers": [{"name": name, "$patch": "delete"} for name in texts()[::-1]]}},
    ),
    "merged items": (
        "core/v1.Pod",
        {"spec": {"containers": [{"name": name} for name in MANY]}},
        {"spec": {"containers": [{"name": name, "image": "a"} for name in texts()[::-1]]}},
    ),
    "order of items": (
        "core/v1.Pod",
        {"spec": {"containers": [{"name": name} for name in MANY]}},
        {"spec": {"$setElementOrder/containers": [{"name": name} for name in texts()[::-1]]}},
    ),
    "deleted scalars": (
        "core/v1.Pod",
        {"metadata": {"finalizers": MANY}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": texts()[::-1]}},
    ),
    "added scalars": (
        "core/v1.Pod",
        {"metadata": {"finalizers": MANY}},
        {"metadata": {"finalizers": [f"x{name}" for name in MANY]}},
    ),
    "merged scalars": ("core/v1.Pod", {"metadata": {"finalizers": MANY}}, {"metadata": {"finalizers": texts()[::-1]}}),
}


@pytest.mark.parametrize("name", LONG)
def test_names_are_looked_up(name: str) -> None:
    """The comparisons grow with the lists, not with their product."""
    kind, obj, patch = LONG[name]
    Compared.count = 0
    strategic_merge(obj, patch, lookup(kind))
    assert Compared.count < 20 * len(MANY)


@pytest.mark.parametrize("name", LONG)
def test_no_item_is_taken_out_of_a_list(name: str) -> None:
    """That moves all behind it, and so for each item."""
    kind, obj, patch = LONG[name]
    of, moving = lookup(kind), []

    def seen(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and isinstance(called.__self__, list) and called.__name__ in ("insert", "pop", "remove"):
            moving.append(called.__name__)

    sys.setprofile(seen)
    try:
        strategic_merge(obj, patch, of)
    finally:
        sys.setprofile(None)
    assert moving == []


def test_a_patch_that_merges_the_same_item_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = {"spec": {"containers": [{"name": "a", "env": [{"name": f"k{number}"} for number in range(100)]}]}}
    patch = {"spec": {"containers": [{"name": "a", "env": [{"name": "k1"}]}] * 100}}
    assert strategic_merge(pod, patch, lookup("core/v1.Pod")) != {}
    monkeypatch.setattr(strategic, "MAX_STEPS", 10_000)
    with pytest.raises(TooCostlyError, match=r"^the patch visits more than 10000 members and items$"):
        strategic_merge(pod, patch, lookup("core/v1.Pod"))


def test_the_largest_lists_stay_below_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each member and item of both is visited at most three times: once to be copied, once merged, once put in order."""
    names = [f"k{number}" for number in range(1000)]
    pod = {"metadata": {"finalizers": names}}
    patch = {"metadata": {"$setElementOrder/finalizers": names[::-1], "finalizers": names[::-1]}}
    monkeypatch.setattr(strategic, "MAX_STEPS", 5 * len(names) + 10)
    assert strategic_merge(pod, patch, lookup("core/v1.Pod")) == {"metadata": {"finalizers": names[::-1]}}


def test_texts_of_deep_patches() -> None:
    value: Any = "x"
    for _ in range(120):
        value = {"b": [value, True, None], "a": {}}
    assert go_text(value) == "map[a:map[] b:[" * 120 + "x" + " true <nil>]]" * 120
