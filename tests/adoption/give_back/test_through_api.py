"""What is sent to the host, by tables, and whole releases to a fake one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.adoption.give_back.through_api import UID_BEFORE, GiveBackThroughAPI, as_sent, is_given
from aggserver.adoption.records.record import CantGiveBack, Copied, Given, Refused
from aggserver.cluster import ClusterError, Unreachable
from aggserver.registry import stored
from aggserver.storage.memory import MemoryStorage
from tests.fakes.cluster import FakeCluster, status

GROUP = "stable.example.com"
OBJECTS = f"/apis/{GROUP}/v1/shirts"
PREFIX = f"/{GROUP}/shirts/"
DEFINITION = {
    "metadata": {"name": f"shirts.{GROUP}", "uid": "uid-of-the-definition"},
    "spec": {
        "group": GROUP,
        "scope": "Cluster",
        "names": {"plural": "shirts"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {}},
            {"name": "v0", "served": False, "storage": False, "schema": {}},
        ],
    },
}


def shirt(name: str, uid: str = "", version: str = "v1", owner: str = "", **metadata: Any) -> dict[str, Any]:
    owners = {"ownerReferences": [{"apiVersion": f"{GROUP}/v1", "kind": "Shirt", "name": "o", "uid": owner}]} if owner else {}
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Shirt",
        "metadata": {"name": name, "uid": uid or f"uid-{name}", **owners, **metadata},
        "spec": {"size": 1},
    }


THEIRS = shirt("a", "uid-a", resourceVersion="9", creationTimestamp="2026-01-01T00:00:00Z", generation=3)
SENT: dict[str, tuple[Any, Any, dict[str, str], frozenset[str], dict[str, Any]]] = {
    "an update": (
        shirt("a", generation=7, labels={"x": "y"}),
        THEIRS,
        {},
        frozenset(),
        {**THEIRS["metadata"], "labels": {"x": "y"}},
    ),
    "a creation": (
        shirt("a", generation=7, creationTimestamp="2026-01-02T00:00:00Z", annotations={"x": "y"}, finalizers=["f"]),
        None,
        {},
        frozenset(),
        {"name": "a", "annotations": {"x": "y", UID_BEFORE: "uid-a"}, "finalizers": ["f"]},
    ),
    "one that was created already": (
        shirt("a", "before"),
        THEIRS,
        {},
        frozenset(),
        {**THEIRS["metadata"], "annotations": {UID_BEFORE: "before"}},
    ),
    "with a deletion here that the host has not": (
        shirt("a", deletionTimestamp="2026-01-02T00:00:00Z", deletionGracePeriodSeconds=0),
        THEIRS,
        {},
        frozenset(),
        THEIRS["metadata"],
    ),
    "owned by one with a new uid": (
        shirt("a", owner="old"),
        THEIRS,
        {"old": "new"},
        frozenset({"old"}),
        {**THEIRS["metadata"], "ownerReferences": shirt("a", owner="new")["metadata"]["ownerReferences"]},
    ),
    "owned by one without a new uid yet": (shirt("a", owner="old"), THEIRS, {}, frozenset({"old"}), THEIRS["metadata"]),
    "owned by one of the cluster": (
        shirt("a", owner="pod"),
        THEIRS,
        {},
        frozenset({"old"}),
        {**THEIRS["metadata"], "ownerReferences": shirt("a", owner="pod")["metadata"]["ownerReferences"]},
    ),
}


@pytest.mark.parametrize("name", SENT)
def test_what_is_sent(name: str) -> None:
    ours, theirs, uids, unknown, expected = SENT[name]
    sent = as_sent(ours, theirs, uids, unknown)
    assert sent["metadata"] == expected
    assert sent["spec"] == ours["spec"]


FIELDS = [{"manager": "a", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]
GIVEN: dict[str, tuple[Any, Any, bool, bool]] = {
    "the same": (THEIRS, shirt("a"), True, True),
    "with another label": (THEIRS, shirt("a", labels={"x": "y"}), True, False),
    "with empty labels": (THEIRS, shirt("a", labels={}), True, True),
    "with other managers": (shirt("a", managedFields=FIELDS), shirt("a"), True, False),
    "with other managers, which do not count": (shirt("a", managedFields=FIELDS), shirt("a"), False, True),
    "with managers of another time": (
        shirt("a", managedFields=FIELDS),
        shirt("a", managedFields=[{**FIELDS[0], "time": "2026-02-02T00:00:00Z"}]),
        True,
        True,
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given(name: str) -> None:
    theirs, sent, fields, expected = GIVEN[name]
    assert is_given(theirs, sent, fields=fields) == expected


# --- whole releases ---


class Moved:
    """A host and our store after a move of the objects `a`, `b`, `c`."""

    def __init__(self, own: MemoryStorage) -> None:
        self.own = own
        self.host = FakeCluster()
        self.uids: dict[str, str] = {}
        self.copied = Copied(0, 0, "", 0)
        self.pauses: list[float] = []

    async def fill(self) -> Moved:
        for name in "abc":
            made = await self.host.put(OBJECTS, shirt(name))
            await self.put(made)
        await self.host.put(OBJECTS.replace("shirts", "trousers"), shirt("a"))
        newest = max(int(each["metadata"]["resourceVersion"]) for each in self.host.objects[OBJECTS].values())
        self.copied = Copied(newest, 3, "", await self.own.revision())
        return self

    async def put(self, obj: dict[str, Any], version: str = "v1") -> None:
        """Write here, as a client."""
        key = PREFIX + obj["metadata"]["name"]
        value = stored.encode(obj, f"{GROUP}/{version}", "Shirt")
        found = await self.own.get(key)
        if found is None:
            await self.own.create(key, value)
        else:
            await self.own.update(key, value, found.revision)

    async def delete(self, name: str) -> None:
        found = await self.own.get(PREFIX + name)
        assert found is not None
        await self.own.delete(found.key, found.revision)

    def give_back(self) -> GiveBackThroughAPI:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        return GiveBackThroughAPI(self.own, self.host, DEFINITION, self.uids, sleep=sleep)

    async def release(self) -> Given:
        give_back = self.give_back()
        await give_back.check(self.copied)
        assert await give_back.first(self.copied, silent) == Given()
        return await give_back.rest(self.copied, silent)

    @property
    def writes(self) -> list[str]:
        calls = [call for place, call in enumerate(self.host.calls) if place not in self.host.dry_runs]
        return [f"{method} {path.rpartition('/')[2]}" for method, path in calls if method != "GET"]

    @property
    def sent(self) -> list[Any]:
        """The bodies of all writes."""
        return [body for place, body in enumerate(self.host.bodies) if body and place not in self.host.dry_runs]

    def theirs(self, name: str) -> Any:
        return self.host.objects[OBJECTS][name]


def silent(_done: int, _total: int, _size: int) -> None:
    """No progress is looked at here."""


@pytest.fixture
async def moved() -> AsyncIterator[Moved]:
    own = MemoryStorage()
    await own.start()
    yield await Moved(own).fill()
    await own.close()


async def test_nothing_written_is_nothing_to_do(moved: Moved) -> None:
    assert await moved.give_back().unchanged(moved.copied)
    assert await moved.release() == Given()
    assert moved.writes == []


async def test_an_update_keeps_the_uid(moved: Moved) -> None:
    await moved.put(shirt("a", labels={"x": "y"}, generation=9))
    assert not await moved.give_back().unchanged(moved.copied)
    given = await moved.release()
    assert (given.written, given.deleted, given.messages) == (1, 0, ())
    assert (moved.theirs("a")["metadata"]["uid"], moved.theirs("a")["metadata"]["labels"]) == ("uid-a", {"x": "y"})


async def test_a_creation_gets_a_new_uid_and_says_so(moved: Moved) -> None:
    await moved.put(shirt("d", "old"))
    given = await moved.release()
    new = moved.theirs("d")["metadata"]["uid"]
    assert given.messages == (f"{PREFIX}d has the uid {new}, and had old here", *given.messages[1:])
    assert "are deleted by the garbage collector" in given.messages[-1]
    assert moved.uids == {"old": new}
    assert moved.theirs("d")["metadata"]["annotations"] == {UID_BEFORE: "old"}


async def test_a_deletion_takes_finalizers_off_first(moved: Moved) -> None:
    await moved.delete("b")
    moved.theirs("b")["metadata"]["finalizers"] = ["f"]
    given = await moved.release()
    assert (given.written, given.deleted) == (0, 1)
    assert moved.writes == ["PATCH b", "DELETE b"]
    assert sorted(moved.host.objects[OBJECTS]) == ["a", "c"]


async def test_another_object_of_the_name_replaces_the_hosts(moved: Moved) -> None:
    await moved.delete("b")
    await moved.put(shirt("b", "other"))
    given = await moved.release()
    assert (given.written, given.deleted) == (1, 1)
    assert moved.writes[:2] == ["DELETE b", "POST shirts"]
    assert moved.theirs("b")["metadata"]["annotations"] == {UID_BEFORE: "other"}


async def test_a_deletion_in_progress_goes_on(moved: Moved) -> None:
    await moved.put(shirt("a", finalizers=["f"], deletionTimestamp="2026-01-02T00:00:00Z"))
    await moved.release()
    assert moved.writes == ["PUT a", "DELETE a"]


@pytest.mark.parametrize(("owner", "owned"), [("d", "z"), ("z", "d")], ids=["the owner first", "the owner last"])
async def test_a_reference_to_an_owner_follows_its_new_uid(moved: Moved, owner: str, owned: str) -> None:
    await moved.put(shirt(owner, "old"))
    await moved.put(shirt(owned, "uid-owned", owner="old"))
    await moved.release()
    sent = [body for body in moved.sent if body.get("metadata", {}).get("ownerReferences")]
    assert {body["metadata"]["ownerReferences"][0]["uid"] for body in sent} == {moved.uids["old"]}
    assert moved.theirs(owned)["metadata"]["ownerReferences"][0]["uid"] == moved.theirs(owner)["metadata"]["uid"]


async def test_a_release_that_was_interrupted_goes_on(moved: Moved) -> None:
    """By another instance, which finds by their annotations what was created already."""
    await moved.put(shirt("d", "old"))
    await moved.put(shirt("e", "older", owner="old"))
    await moved.put(shirt("a", labels={"x": "y"}))
    moved.host.fail("PUT", f"{OBJECTS}/a", Unreachable("no answer"), dry_runs=False)
    with pytest.raises(Unreachable):
        await moved.release()
    moved.uids.clear()
    uid = moved.theirs("d")["metadata"]["uid"]
    await moved.release()
    assert moved.theirs("d")["metadata"]["uid"] == uid
    assert moved.theirs("e")["metadata"]["ownerReferences"][0]["uid"] == uid
    moved.host.calls.clear()
    assert await moved.release() == Given()
    assert moved.writes == []


async def test_what_the_host_refuses_is_named_before_anything_is_written(moved: Moved) -> None:
    for name in "ab":
        await moved.put(shirt(name, labels={"x": "y"}))
    await moved.put(shirt("d", "old"))
    await moved.delete("c")
    moved.host.fail("PUT", f"{OBJECTS}/a", status(422, "Invalid", "spec.size: must be small"))
    moved.host.fail("POST", OBJECTS, status(403, "Forbidden", "quota"))
    moved.host.fail("DELETE", f"{OBJECTS}/c", status(403, "Forbidden", "not allowed"))
    with pytest.raises(Refused) as refused:
        await moved.release()
    assert str(refused.value) == (
        f"the host does not take all objects, so nothing was written: {PREFIX}a is refused: 422 Invalid: spec.size: must be small"
        f"; {PREFIX}c is refused: 403 Forbidden: not allowed; {PREFIX}d is refused: 403 Forbidden: quota. "
        "Change or delete them, and ask for the release again"
    )
    assert moved.writes == []
    await moved.release()
    assert moved.theirs("a")["metadata"]["labels"] == {"x": "y"}
    assert sorted(moved.host.objects[OBJECTS]) == ["a", "b", "d"]


async def test_what_only_a_write_shows_is_named_and_the_rest_goes_back(moved: Moved) -> None:
    for name in "ab":
        await moved.put(shirt(name, labels={"x": "y"}))
    moved.host.fail("PUT", f"{OBJECTS}/a", status(403, "Forbidden", "quota"), dry_runs=False)
    with pytest.raises(Refused, match=rf"they are still here: {PREFIX}a is refused: 403 Forbidden: quota"):
        await moved.release()
    assert moved.theirs("b")["metadata"]["labels"] == {"x": "y"}
    assert await moved.own.get(PREFIX + "a") is not None
    await moved.release()
    assert moved.theirs("a")["metadata"]["labels"] == {"x": "y"}


async def test_a_webhook_that_takes_no_dry_run_is_asked_by_the_write(moved: Moved) -> None:
    await moved.put(shirt("a", labels={"x": "y"}))
    unsupported = status(400, "BadRequest", 'admission webhook "w" does not support dry run')
    moved.host.fail("PUT", f"{OBJECTS}/a", unsupported)
    assert (await moved.release()).written == 1


@pytest.mark.parametrize(
    "failure",
    [status(500, "InternalError", "etcdserver: mvcc: database space exceeded"), status(409, "Conflict", "it has changed")],
)
async def test_a_failure_of_the_host_is_no_refusal(moved: Moved, failure: ClusterError) -> None:
    """It is tried again without being asked for."""
    await moved.put(shirt("a", labels={"x": "y"}))
    moved.host.fail("PUT", f"{OBJECTS}/a", failure, dry_runs=False)
    with pytest.raises(CantGiveBack, match=f"{PREFIX}a can't be written at the host: {failure}") as error:
        await moved.release()
    assert not isinstance(error.value, Refused)
    await moved.release()
    assert moved.theirs("a")["metadata"]["labels"] == {"x": "y"}


async def test_what_is_owned_by_a_refused_object_does_not_name_its_uid(moved: Moved) -> None:
    await moved.put(shirt("d", "old"))
    await moved.put(shirt("e", owner="old"))
    # Of d, which is the first that is created.
    moved.host.fail("POST", OBJECTS, status(403, "Forbidden", "quota"), dry_runs=False)
    with pytest.raises(Refused, match=f"{PREFIX}d is refused"):
        await moved.release()
    assert [body["metadata"]["name"] for body in moved.sent if "apiVersion" in body] == ["d", "e"]
    assert all("ownerReferences" not in body["metadata"] for body in moved.sent)


async def test_a_version_that_the_host_does_not_serve_is_told(moved: Moved) -> None:
    await moved.put(shirt("a", labels={"x": "y"}), version="v0")
    with pytest.raises(CantGiveBack, match=f"{PREFIX}a is stored in the version v0, which the host does not serve"):
        await moved.release()


async def test_a_busy_host_is_asked_again(moved: Moved) -> None:
    await moved.put(shirt("a", labels={"x": "y"}))
    moved.host.fail("PUT", f"{OBJECTS}/a", status(429, "TooManyRequests", retry_after=3), times=2)
    assert (await moved.release()).written == 1
    assert moved.pauses == [3.0, 3.0]


async def test_changes_behind_our_back_are_told(moved: Moved) -> None:
    await moved.host.put(OBJECTS, shirt("a", labels={"of": "another"}))
    await moved.host.remove(OBJECTS, "b")
    with pytest.raises(CantGiveBack, match=rf"{PREFIX}a was written at revision \d+.*; {PREFIX}b is missing"):
        await moved.release()
    assert moved.writes == []


async def test_a_damaged_object_here_is_told(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    await moved.put(shirt("a", labels={"x": "y"}))
    found = await moved.own.get(PREFIX + "a")
    assert found is not None

    async def damaged(key: str) -> Any:
        return type(found)(key, b"", found.create_revision, found.revision, "the checksum is wrong")

    monkeypatch.setattr(moved.own, "get", damaged)
    with pytest.raises(CantGiveBack, match="is damaged here: the checksum is wrong"):
        await moved.release()
