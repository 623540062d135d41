"""What the garbage collector does with an object, and what its graph finds worth looking at: by tables."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.standalone import garbage
from aggserver.standalone.garbage import Delete, Detach, Keep, Standing, Verdict, judge
from aggserver.standalone.owner_graph import ABSENT, Check, Kind, OwnerGraph, Reference, Resource, address, references

SOLID, DANGLING, WAITING = Standing.SOLID, Standing.DANGLING, Standing.WAITING
UNKNOWN, MISPLACED = Standing.UNKNOWN, Standing.MISPLACED
TOY, BOX = Kind("a/v1", "Toy"), Kind("a/v1", "Box")
TOYS, BOXES = Resource("a", "toys", True), Resource("a", "boxes", False)


def reference(uid: str, kind: Kind = TOY, *, blocks: bool = False) -> dict[str, Any]:
    found = {"apiVersion": kind.api_version, "kind": kind.kind, "name": uid, "uid": uid}
    return {**found, "blockOwnerDeletion": True} if blocks else found


def metadata(uid: str, *owners: dict[str, Any], finalizers: tuple[str, ...] = (), deleted: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"name": uid, "uid": uid}
    if owners:
        found["ownerReferences"] = list(owners)
    if finalizers:
        found["finalizers"] = list(finalizers)
    return {**found, "deletionTimestamp": "2026-01-02T03:04:05Z"} if deleted else found


# --- decisions ---

VERDICTS: dict[str, tuple[list[Standing], dict[str, Any], Verdict]] = {
    # name: (what became of the owners 0, 1 ..., finalizers and dependents, the verdict)
    "without owners": ([], {}, Keep()),
    "a solid one": ([SOLID], {}, Keep()),
    "a dangling one": ([DANGLING], {}, Delete("Background")),
    "dangling ones": ([DANGLING, DANGLING], {}, Delete("Background")),
    "one of two": ([SOLID, DANGLING], {}, Detach(frozenset({"1"}))),
    "solid and waiting": ([WAITING, SOLID, DANGLING], {}, Detach(frozenset({"0", "2"}))),
    "a waiting one": ([WAITING], {}, Delete("Background")),
    "a waiting one, with dependents": ([WAITING, DANGLING], {"has_dependents": True}, Delete("Foreground")),
    "a waiting one, in a circle": (
        [WAITING],
        {"has_dependents": True, "dependents_wait": True},
        Delete("Foreground", unblock=True),
    ),
    "dangling, with dependents": ([DANGLING], {"has_dependents": True}, Delete("Background")),
    "a finalizer to orphan": ([DANGLING], {"finalizers": ("orphan",)}, Delete("Orphan")),
    "a finalizer for the foreground": ([DANGLING], {"finalizers": ("foregroundDeletion",)}, Delete("Foreground")),
    "an unknown kind": ([UNKNOWN], {}, Keep()),
    "an unknown kind beside others": ([UNKNOWN, DANGLING, SOLID], {}, Keep()),
    "a namespaced owner of a cluster-scoped object": ([MISPLACED, DANGLING], {}, Keep()),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict(name: str) -> None:
    standings, given, wanted = VERDICTS[name]
    given = {"has_dependents": False, "dependents_wait": False, **given}
    obj = metadata("x", finalizers=given.pop("finalizers", ()))
    owners = [(Reference(TOY, str(index), str(index), False), standing) for index, standing in enumerate(standings)]
    assert judge(obj, owners, **given) == wanted


def test_standing() -> None:
    (owner,) = references(metadata("x", reference("1")))
    waiting = metadata("1", finalizers=("foregroundDeletion",), deleted=True)
    assert garbage.standing(owner, None) is DANGLING
    assert garbage.standing(owner, metadata("2")) is DANGLING
    assert garbage.standing(owner, metadata("1")) is SOLID
    assert garbage.standing(owner, metadata("1", deleted=True)) is SOLID
    assert garbage.standing(owner, waiting) is WAITING


ADDRESSES = {
    # name: (the resource of the owner, the namespace of the dependent, the key)
    "both in a namespace": (TOYS, "team", "/a/toys/team/1"),
    "a cluster-scoped owner": (BOXES, "team", "/a/boxes/1"),
    "both cluster-scoped": (BOXES, "", "/a/boxes/1"),
    "a namespaced owner of a cluster-scoped object": (TOYS, "", None),
    "of the core group": (Resource("", "pods", True), "team", "/core/pods/team/1"),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_address(name: str) -> None:
    resource, namespace, wanted = ADDRESSES[name]
    assert address(Reference(TOY, "1", "1", False), namespace, resource) == wanted


# --- edits ---


def test_edits() -> None:
    def obj() -> dict[str, Any]:
        return {"metadata": metadata("x", reference("1", blocks=True), reference("2"), finalizers=("a/b", "orphan"))}

    assert garbage.without_owners(obj(), {"1"})["metadata"]["ownerReferences"] == [reference("2")]
    assert "ownerReferences" not in garbage.without_owners(obj(), {"1", "2"})["metadata"]
    assert garbage.without_finalizer(obj(), "orphan")["metadata"]["finalizers"] == ["a/b"]
    unblocked = garbage.unblock_owners(obj())["metadata"]["ownerReferences"]
    assert [entry.get("blockOwnerDeletion") for entry in unblocked] == [False, None]


# --- the graph ---

ONE, TWO, THREE = "/a/toys/team/1", "/a/toys/team/2", "/a/toys/team/3"


def graph(kinds: dict[Kind, Resource] | None = None) -> OwnerGraph:
    return OwnerGraph((kinds if kinds is not None else {TOY: TOYS, BOX: BOXES}).get)


def objects(*names: str) -> list[Check]:
    return [Check("object", name) for name in names]


def test_an_owner_is_verified_once() -> None:
    known = graph()
    assert known.changed(TWO, metadata("2", reference("1"))) == [Check("owner", ONE)]
    since = known.unverified(ONE)
    assert since is not None
    assert known.verified(ONE, "1", since) == []
    assert known.unverified(ONE) is None
    assert known.changed(THREE, metadata("3", reference("1"))) == []
    assert known.deleted(ONE) == objects(TWO, THREE)
    assert known.is_absent(ONE)


def test_another_owner_than_expected() -> None:
    known = graph()
    known.changed(TWO, metadata("2", reference("1")))
    assert known.verified(ONE, "other", known.unverified(ONE) or 0) == objects(TWO)
    assert known.changed(THREE, metadata("3", reference("1"))) == objects(THREE)


def test_a_verification_that_an_event_has_overtaken() -> None:
    known = graph()
    known.changed(TWO, metadata("2", reference("1")))
    since = known.unverified(ONE)
    assert since is not None
    assert known.deleted(ONE) == objects(TWO)
    assert known.verified(ONE, "1", since) == []
    assert known.is_absent(ONE)
    known.created(ONE)
    assert known.unverified(ONE) not in (None, since)


def test_what_waits_for_dependents() -> None:
    known = graph()
    known.changed(TWO, metadata("2", reference("1", blocks=True)))
    known.changed(THREE, metadata("3", reference("1")))
    known.verified(ONE, "1", known.unverified(ONE) or 0)
    waiting = metadata("1", finalizers=("foregroundDeletion",), deleted=True)
    assert known.changed(ONE, waiting) == objects(TWO, THREE, ONE)
    assert known.changed(ONE, waiting) == []
    assert (known.blocking("1"), known.is_deleting_dependents(ONE)) == ([TWO], True)
    assert known.changed(TWO, metadata("2", reference("1"))) == [*objects(TWO), *objects(ONE)]
    assert known.blocking("1") == []
    assert known.deleted(THREE) == objects(ONE)


def test_kinds_that_come_later() -> None:
    kinds: dict[Kind, Resource] = {}
    known = graph(kinds)
    assert known.changed(TWO, metadata("2", reference("1"))) == objects(TWO)
    assert known.kinds_changed() == []
    kinds[TOY] = TOYS
    assert known.kinds_changed() == [Check("owner", ONE), *objects(TWO)]
    assert known.kinds_changed() == []
    # A kind that is not served any more stays what it was, for the objects that were deleted with it.
    del kinds[TOY]
    assert known.kinds_changed() == []
    assert known.resource_of(TOY) == TOYS
    assert known.deleted(ONE) == objects(TWO)
    kinds[TOY] = BOXES
    assert known.kinds_changed() == [Check("owner", "/a/boxes/1"), *objects(TWO)]
    assert known.deleted(ONE) == []


def test_nothing_is_kept_of_what_is_gone() -> None:
    known = graph()
    known.changed(TWO, metadata("2", reference("1"), reference("box", BOX)))
    known.changed(ONE, metadata("1", finalizers=("orphan",), deleted=True))
    known.changed(THREE, metadata("3", finalizers=("a/b",), deleted=True))
    assert known.objects() == [TWO, ONE]
    known.changed(TWO, metadata("2"))
    known.deleted(ONE)
    assert known.objects() == []
    assert (known.dependents("1"), known.resource_of(Kind("b/v1", "Other")), known.is_absent(ONE)) == ([], None, False)
    assert not any((known._owners, known._kinds, known._dependents, known._waiting))


def test_an_object_that_was_made_again() -> None:
    known = graph()
    known.changed(TWO, metadata("2", reference("1")))
    assert known.changed(TWO, metadata("new", reference("1"))) == [Check("owner", ONE)]
    assert known.changed(TWO, metadata("newer")) == []
    assert known.objects() == []


def test_a_circle_with_itself() -> None:
    known = graph()
    known.changed(ONE, metadata("1", reference("1", blocks=True)))
    assert known.verified(ONE, ABSENT, known.unverified(ONE) or 0) == objects(ONE)
    assert known.deleted(ONE) == []
    assert known.objects() == []
