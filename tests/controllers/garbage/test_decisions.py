"""What the garbage collector does with an object, and what its graph finds worth looking at: by tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from aggserver.controllers.garbage import decisions as garbage
from aggserver.controllers.garbage.decisions import Delete, Detach, Keep, Standing, Verdict, judge
from aggserver.controllers.garbage.graph_builder import GraphBuilder
from aggserver.controllers.garbage.owner_graph import (
    ABSENT,
    OwnerCheck,
    OwnerGraph,
    OwnerKind,
    OwnerResource,
    Reference,
    Steps,
    address,
    references,
)
from aggserver.meta import codec
from tests.fakes.work import instructions

SOLID, DANGLING, WAITING = Standing.SOLID, Standing.DANGLING, Standing.WAITING
UNKNOWN, MISPLACED = Standing.UNKNOWN, Standing.MISPLACED
TOY, BOX = OwnerKind("a/v1", "Toy"), OwnerKind("a/v1", "Box")
TOYS, BOXES = OwnerResource("a", "toys", True), OwnerResource("a", "boxes", False)


def reference(uid: str, kind: OwnerKind = TOY, *, blocks: bool = False) -> dict[str, Any]:
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
    "of the core group": (OwnerResource("", "pods", True), "team", "/core/pods/team/1"),
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


def graph(kinds: dict[OwnerKind, OwnerResource] | None = None) -> OwnerGraph:
    return OwnerGraph((kinds if kinds is not None else {TOY: TOYS, BOX: BOXES}).get)


def objects(*names: str) -> list[OwnerCheck]:
    return [OwnerCheck("object", name) for name in names]


def found(steps: Steps) -> list[OwnerCheck]:
    return [check for check in steps if check is not None]


def verified(known: OwnerGraph, key: str, uid: str, since: int | None = None) -> list[OwnerCheck]:
    """What is worth looking at once it is known what is at an owner's key."""
    since = known.unverified(key) if since is None else since
    return found(known.misfits(key)) if known.verified(key, uid, since or 0) else []


def test_an_owner_is_verified_once() -> None:
    known = graph()
    assert found(known.changed(TWO, metadata("2", reference("1")))) == [OwnerCheck("owner", ONE)]
    since = known.unverified(ONE)
    assert since is not None
    assert verified(known, ONE, "1", since) == []
    assert known.unverified(ONE) is None
    assert found(known.changed(THREE, metadata("3", reference("1")))) == []
    assert found(known.deleted(ONE)) == objects(TWO, THREE)
    assert known.is_absent(ONE)


def test_another_owner_than_expected() -> None:
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1"))))
    assert verified(known, ONE, "other") == objects(TWO)
    assert found(known.changed(THREE, metadata("3", reference("1")))) == objects(THREE)


def test_a_verification_that_an_event_has_overtaken() -> None:
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1"))))
    since = known.unverified(ONE)
    assert since is not None
    assert found(known.deleted(ONE)) == objects(TWO)
    assert verified(known, ONE, "1", since) == []
    assert known.is_absent(ONE)
    known.created(ONE)
    assert known.unverified(ONE) not in (None, since)


def test_what_waits_for_dependents() -> None:
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1", blocks=True))))
    found(known.changed(THREE, metadata("3", reference("1"))))
    verified(known, ONE, "1")
    waiting = metadata("1", finalizers=("foregroundDeletion",), deleted=True)
    assert found(known.changed(ONE, waiting)) == objects(TWO, THREE, ONE)
    assert found(known.changed(ONE, waiting)) == []
    assert (known.blocking("1"), known.is_deleting_dependents(ONE)) == ([TWO], True)
    assert found(known.changed(TWO, metadata("2", reference("1")))) == [*objects(TWO), *objects(ONE)]
    assert known.blocking("1") == []
    assert found(known.deleted(THREE)) == objects(ONE)


def test_kinds_that_come_later() -> None:
    kinds: dict[OwnerKind, OwnerResource] = {}
    known = graph(kinds)
    assert found(known.changed(TWO, metadata("2", reference("1")))) == objects(TWO)
    assert found(known.kinds_changed()) == []
    kinds[TOY] = TOYS
    assert found(known.kinds_changed()) == [OwnerCheck("owner", ONE), *objects(TWO)]
    assert found(known.kinds_changed()) == []
    # A kind that is not served any more stays what it was, for the objects that were deleted with it.
    del kinds[TOY]
    assert found(known.kinds_changed()) == []
    assert known.resource_of(TOY) == TOYS
    assert found(known.deleted(ONE)) == objects(TWO)
    kinds[TOY] = BOXES
    assert found(known.kinds_changed()) == [OwnerCheck("owner", "/a/boxes/1"), *objects(TWO)]
    assert found(known.deleted(ONE)) == []


def test_nothing_is_kept_of_what_is_gone() -> None:
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1"), reference("box", BOX))))
    found(known.changed(ONE, metadata("1", finalizers=("orphan",), deleted=True)))
    found(known.changed(THREE, metadata("3", finalizers=("a/b",), deleted=True)))
    assert known.objects() == [TWO, ONE]
    found(known.changed(TWO, metadata("2")))
    found(known.deleted(ONE))
    assert known.objects() == []
    assert (known.dependents("1"), known.resource_of(OwnerKind("b/v1", "Other")), known.is_absent(ONE)) == ([], None, False)
    assert not any((known._owners, known._kinds, known._dependents, known._blocking, known._waiting))


def test_an_object_that_was_made_again() -> None:
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1"))))
    assert found(known.changed(TWO, metadata("new", reference("1")))) == [OwnerCheck("owner", ONE)]
    assert found(known.changed(TWO, metadata("newer"))) == []
    assert known.objects() == []


def test_a_circle_with_itself() -> None:
    known = graph()
    found(known.changed(ONE, metadata("1", reference("1", blocks=True))))
    assert verified(known, ONE, ABSENT) == objects(ONE)
    assert found(known.deleted(ONE)) == []
    assert known.objects() == []


def test_a_dependent_that_is_written_again_is_never_unknown() -> None:
    """Else an owner would not wait for it."""
    known = graph()
    found(known.changed(TWO, metadata("2", reference("1", blocks=True))))
    for _ in known.changed(TWO, metadata("2", *(reference(str(number)) for number in range(5)), reference("1", blocks=True))):
        assert known.blocking("1") == [TWO]


# --- what users can make large ---

HEAD = b'{"apiVersion":"a/v1","kind":"Toy","metadata":%b}'


def encoded(uid: str, *owners: dict[str, Any], **given: Any) -> bytes:
    return HEAD % codec.encode_json(metadata(uid, *owners, **given))


def many_owners(size: int, **changes: Any) -> list[dict[str, Any]]:
    return [reference(str(number), blocks=True) | changes for number in range(size)]


def one_with_many(size: int) -> Iterator[tuple[str, bytes | None]]:
    yield TWO, encoded("two", *many_owners(size))


def one_that_loses_many(size: int) -> Iterator[tuple[str, bytes | None]]:
    yield from one_with_many(size)
    yield TWO, encoded("two", *many_owners(size)[::2])
    yield TWO, encoded("other", *many_owners(size))
    yield TWO, None


def many_uids_of_one_name(size: int) -> Iterator[tuple[str, bytes | None]]:
    yield TWO, encoded("two", *many_owners(size, name="1"))
    yield ONE, None


def many_names_of_one_uid(size: int) -> Iterator[tuple[str, bytes | None]]:
    yield TWO, encoded("two", *many_owners(size, uid="1"))
    yield ONE, encoded("1", finalizers=("foregroundDeletion",), deleted=True)
    yield TWO, encoded("two", *many_owners(size, uid="1", blockOwnerDeletion=False))


def many_kinds(size: int) -> Iterator[tuple[str, bytes | None]]:
    yield TWO, encoded("two", *({**reference("1"), "kind": f"Kind{number}"} for number in range(size)))
    yield TWO, None


def many_dependents(size: int) -> Iterator[tuple[str, bytes | None]]:
    for number in range(size):
        yield f"/a/toys/team/d{number}", encoded(f"d{number}", reference("1", blocks=True))
    yield ONE, encoded("1", finalizers=("foregroundDeletion",), deleted=True)
    for number in range(size):
        yield f"/a/toys/team/d{number}", None
    yield ONE, None


LARGE = {
    "an object with many owners": one_with_many,
    "one that loses many": one_that_loses_many,
    "many uids of one name": many_uids_of_one_name,
    "many names of one uid": many_names_of_one_uid,
    "many kinds": many_kinds,
    "an owner with many dependents": many_dependents,
}
# Instructions of one step, and steps of an owner reference.
MOST, STEPS = 900, 12


def worked(name: str, size: int) -> list[int]:
    """The instructions of each step: of what the store tells, and of the owners that are then found to be absent."""
    builder = GraphBuilder(graph())
    work: list[int] = []
    for key, value in LARGE[name](size):
        builder.written(key, value)
        checks: list[OwnerCheck] = []
        while not builder.is_done:
            work.append(instructions(lambda: checks.extend(builder.advance(1))))  # noqa: B023
        for check in checks:
            since = builder.graph.unverified(check.key) if check.what == "owner" else None
            if since is not None:
                steps: list[OwnerCheck | None] = [None]
                work.append(instructions(lambda: builder.graph.verified(check.key, ABSENT, since)))  # noqa: B023
                misfits = builder.graph.misfits(check.key)
                while steps:
                    work.append(instructions(lambda: steps.__setitem__(slice(None), islice(misfits, 1))))  # noqa: B023
    return work


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_done_in_small_steps(name: str) -> None:
    small, large = worked(name, 50), worked(name, 100)
    assert max(large) < MOST
    assert len(large) < STEPS * 100
    assert sum(large) < 2.2 * sum(small)
