from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import WriteOptions, WriteRequest
from aggserver.registry.store import Store
from tests.registry.world import (
    DRY,
    GROUP,
    NOW_TEXT,
    SCALE,
    WRITE,
    Validating,
    World,
    change,
    context,
    create,
    crontab,
    delete,
    refused,
    replace,
    watching,
)

RESOURCE = f"crontabs.{GROUP}"
KIND = f"CronTab.{GROUP}"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
Edit = Callable[[JSONObject], Any]


def metadata(**members: Any) -> Edit:
    """Set these fields; None removes one."""

    def edit(obj: JSONObject) -> None:
        for key, value in members.items():
            obj["metadata"].pop(key, None)
            if value is not None:
                obj["metadata"][key] = value

    return edit


def spec(**members: Any) -> Edit:
    return lambda obj: obj["spec"].update(members)


def status(value: Any) -> Edit:
    return lambda obj: obj.update(status=value)


# --- preconditions ---

REFUSED: dict[str, tuple[Edit, int, str]] = {
    "no resourceVersion": (
        metadata(resourceVersion=None),
        422,
        f'{RESOURCE} "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    ),
    "resourceVersion 0": (
        metadata(resourceVersion="0"),
        422,
        f'{RESOURCE} "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update',
    ),
    "an old resourceVersion": (
        metadata(resourceVersion="1"),
        409,
        f'Operation cannot be fulfilled on {RESOURCE} "a": {MODIFIED}',
    ),
    "a malformed resourceVersion": (
        metadata(resourceVersion="abc"),
        500,
        'strconv.ParseUint: parsing "abc": invalid syntax',
    ),
    "another namespace": (
        metadata(namespace="other"),
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "another name": (
        metadata(name="b"),
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    ),
    "another uid": (
        metadata(uid="other"),
        422,
        f'{KIND} "a" is invalid: metadata.uid: Invalid value: "other": field is immutable',
    ),
    "a deletionTimestamp": (
        metadata(deletionTimestamp="2026-01-02T03:04:05Z"),
        422,
        f'{KIND} "a" is invalid: metadata.deletionTimestamp: Invalid value: "2026-01-02T03:04:05Z": field is immutable',
    ),
    "a kind": (
        lambda obj: obj.update(kind="Other"),
        422,
        f'Other.{GROUP} "a" is invalid: kind: Invalid value: "Other": must be CronTab',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(world: World, store: Store, case: str) -> None:
    edit, code, message = REFUSED[case]
    await create(store)
    error = await refused(change(store, "a", edit))
    assert (error.code, error.message) == (code, message)
    assert await world.storage.revision() == 2


@pytest.mark.parametrize("uid", ["old", "uid-0", "uid-2"])
async def test_another_uid_is_a_conflict_that_comes_first(store: Store, uid: str) -> None:
    """An object that was deleted and created again has another revision too, but the uid explains what happened."""
    await create(store)
    options = WriteOptions(field_manager="test", uid=uid)
    error = await refused(change(store, "a", metadata(resourceVersion="1"), options))
    assert (error.code, error.message) == (
        409,
        f'Operation cannot be fulfilled on {RESOURCE} "a": StorageError: invalid object, Code: 4, '
        f"Key: /{GROUP}/crontabs/default/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {uid}, UID in object meta: uid-1",
    )


async def test_the_same_uid_is_none(store: Store) -> None:
    await create(store)
    await change(store, "a", lambda obj: obj["spec"].update(replicas=2), WriteOptions(field_manager="test", uid="uid-1"))
    assert (await store.get(context(), "a")).decoded()["spec"] == {"replicas": 2}


async def test_not_found(store: Store) -> None:
    error = await refused(change(store, "a", spec(replicas=2)))
    assert error.status()["details"] == {"name": "a", "group": GROUP, "kind": "crontabs"}
    assert (error.code, error.message) == (404, f'{RESOURCE} "a" not found')


async def test_resource_version_may_be_spelt_otherwise(store: Store) -> None:
    await create(store)
    written = await change(store, "a", metadata(resourceVersion="002"))
    assert written.revision == 2


async def test_the_causes_have_what_every_rule_found(store: Store) -> None:
    await create(store)
    error = await refused(change(store, "a", metadata(labels={"a b": "c"})))
    # The rules for all objects, those for updates and those of the strategy each find the error; the message has it once.
    assert len(error.causes) == 3
    assert error.message.count("name part must consist") == 1


# --- what can't be changed ---

KEPT: dict[str, tuple[Edit, str, Any]] = {
    "no uid": (metadata(uid=None), "uid", "uid-1"),
    "another creationTimestamp": (metadata(creationTimestamp="2000-01-01T00:00:00Z"), "creationTimestamp", NOW_TEXT),
    "no creationTimestamp": (metadata(creationTimestamp=None), "creationTimestamp", NOW_TEXT),
    "generation": (metadata(generation=9), "generation", 1),
    "no generation": (metadata(generation=None), "generation", 1),
    "no namespace": (metadata(namespace=None), "namespace", "default"),
    "selfLink": (metadata(selfLink="/x"), "selfLink", None),
}


@pytest.mark.parametrize("case", KEPT)
async def test_kept(world: World, store: Store, case: str) -> None:
    edit, key, value = KEPT[case]
    await create(store)
    written = await change(store, "a", edit)
    assert written.decoded()["metadata"].get(key) == value
    assert written.revision == 2, "nothing was changed, and so nothing written"


# --- nothing to do ---

NOTHING: dict[str, Edit] = {
    "the same": lambda obj: None,
    "in another order": lambda obj: obj.update({key: obj.pop(key) for key in sorted(obj, reverse=True)}),
    "status": status({"x": 1}),
}

SOMETHING: dict[str, Edit] = {
    "1 to true": spec(anything=True),
    "1 to 1.0": spec(anything=1.0),
    "an empty list": spec(color=[]),
}


@pytest.mark.parametrize("case", NOTHING)
async def test_no_change_is_no_write(world: World, store: Store, case: str) -> None:
    await create(store, spec={"anything": 1})
    seen = await watching(store, resource_version="2")
    written = await change(store, "a", NOTHING[case])
    assert written.decoded()["metadata"]["resourceVersion"] == "2"
    assert await seen.nothing_more()


async def test_other_times_of_managers_are_no_write(store: Store) -> None:
    await create(store)
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}
    revisions = []
    for time in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"):
        written = await change(store, "a", metadata(managedFields=[{**entry, "time": time}]))
        revisions.append(written.revision)
    assert revisions == [3, 3]


@pytest.mark.parametrize("case", SOMETHING)
async def test_a_change_of_type_is_a_write(store: Store, case: str) -> None:
    await create(store, spec={"anything": 1})
    seen = await watching(store, resource_version="2")
    written = await change(store, "a", SOMETHING[case])
    assert (written.revision, written.decoded()["metadata"]["generation"]) == (3, 2)
    assert await seen.next(1) == [("MODIFIED", "a", 3)]


# --- generation ---

GENERATIONS: dict[str, tuple[bool, Edit, int]] = {
    "spec": (True, spec(replicas=2), 2),
    "labels": (True, metadata(labels={"a": "b"}), 1),
    "another member": (True, lambda obj: obj.update(data=1), 2),
    "status, which is not written here": (True, status({"x": 1}), 1),
    "status without its subresource": (False, status({"x": 1}), 2),
}


@pytest.mark.parametrize("case", GENERATIONS)
async def test_generation(world: World, case: str) -> None:
    has_status, edit, generation = GENERATIONS[case]
    store = world.store(has_status=has_status)
    await create(store)
    assert (await change(store, "a", edit)).decoded()["metadata"]["generation"] == generation


# --- /status ---


async def test_status_takes_status_and_nothing_else(world: World, store: Store) -> None:
    await create(store, metadata={"labels": {"a": "b"}, "finalizers": ["x/y"]})

    def edit(obj: JSONObject) -> None:
        metadata(labels={"c": "d"}, annotations={"e": "f"}, finalizers=None, generation=5, ownerReferences=[])(obj)
        obj["metadata"]["managedFields"] = [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}]
        spec(replicas=5)(obj)
        status({"ready": True})(obj)

    obj = (await change(world.status(store), "a", edit)).decoded()
    assert obj["status"] == {"ready": True}
    assert obj["spec"] == {"replicas": 1}
    assert obj["metadata"]["labels"] == {"a": "b"}
    assert obj["metadata"]["finalizers"] == ["x/y"]
    assert obj["metadata"]["generation"] == 1
    assert "annotations" not in obj["metadata"]
    assert obj["metadata"]["managedFields"][0]["manager"] == "m"
    assert obj["metadata"]["resourceVersion"] == "3"


async def test_status_is_kept_by_the_object_and_removed_by_status(world: World, store: Store) -> None:
    await create(store)
    await change(world.status(store), "a", status({"ready": True}))
    kept = await change(store, "a", lambda obj: (obj.pop("status"), spec(replicas=2)(obj)))
    assert kept.decoded()["status"] == {"ready": True}
    assert kept.decoded()["metadata"]["generation"] == 2
    gone = await change(world.status(store), "a", lambda obj: obj.pop("status"))
    assert "status" not in gone.decoded()


async def test_status_without_a_change_is_no_write(world: World, store: Store) -> None:
    await create(store)
    assert (await change(world.status(store), "a", spec(replicas=5))).revision == 2


async def test_status_of_an_old_version_is_a_conflict(world: World, store: Store) -> None:
    old = await create(store)
    await change(store, "a", spec(replicas=2))
    assert (await refused(replace(world.status(store), {**old, "status": {"x": 1}}))).code == 409


SCALED: dict[str, tuple[bool, Edit, str]] = {
    "spec": (False, spec(replicas=-1), ".spec.replicas: Invalid value: -1: should be a non-negative integer"),
    "spec, too large": (
        False,
        spec(replicas=1 << 31),
        ".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
    ),
    "spec, a string": (
        False,
        spec(replicas="x"),
        ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64",
    ),
    "status": (True, status({"replicas": -1}), ".status.replicas: Invalid value: -1: should be a non-negative integer"),
    "status, a list": (
        True,
        status({"replicas": [1]}),
        ".status.replicas: Invalid value: 0: .status.replicas accessor error: [1] is of the type []interface {}, expected int64",
    ),
    "selector": (
        True,
        status({"selector": {"a": "b"}}),
        '.status.selector: Invalid value: "": .status.selector accessor error: map[a:b] is of the type map[string]interface {}, '
        "expected string",
    ),
}


@pytest.mark.parametrize("case", SCALED)
async def test_numbers_of_scale(world: World, case: str) -> None:
    at_status, edit, message = SCALED[case]
    store = world.store(scale=SCALE)
    await create(store)
    error = await refused(change(world.status(store, scale=SCALE) if at_status else store, "a", edit))
    assert error.message == f'{KIND} "a" is invalid: {message}'


# --- races ---


async def test_a_lost_race_runs_the_transform_again(world: World, store: Store) -> None:
    await create(store)
    tries: list[int] = []

    async def transform(obj: JSONObject) -> JSONObject:
        tries.append(obj["spec"]["replicas"])
        if len(tries) < 3:
            await change(store, "a", spec(replicas=10 * len(tries)))
        obj["metadata"]["labels"] = {"a": "b"}
        return obj

    written = (await store.update(WriteRequest(context(), WRITE), "a", transform)).object.decoded()
    assert tries == [1, 10, 20]
    assert (written["spec"]["replicas"], written["metadata"]["labels"]) == (20, {"a": "b"})


async def test_an_attempt_that_lost_the_race_warns_of_nothing(store: Store) -> None:
    await create(store)
    asked = context()
    asked.warnings.append("of the body")
    tries: list[int] = []

    async def transform(obj: JSONObject) -> JSONObject:
        tries.append(obj["spec"]["replicas"])
        asked.warnings.append(f"of {tries[-1]}")
        if len(tries) < 3:
            await change(store, "a", spec(replicas=10 * len(tries)))
        obj["metadata"]["labels"] = {"a": "b"}
        return obj

    await store.update(WriteRequest(asked, WRITE), "a", transform)
    assert list(asked.warnings) == ["of the body", "of 20"]


async def test_a_lost_race_with_a_precondition_is_a_conflict(world: World, store: Store) -> None:
    await create(store)

    async def transform(obj: JSONObject) -> JSONObject:
        if await world.storage.revision() == 2:
            await change(store, "a", spec(replicas=2))
        obj["metadata"]["resourceVersion"] = "2"
        obj["spec"]["replicas"] = 3
        return obj

    error = await refused(store.update(WriteRequest(context(), WRITE), "a", transform))
    assert (error.code, error.reason) == (409, "Conflict")


async def test_deleted_in_between(store: Store) -> None:
    await create(store)

    async def transform(obj: JSONObject) -> JSONObject:
        await delete(store)
        obj["spec"]["replicas"] = 3
        return obj

    assert (await refused(store.update(WriteRequest(context(), WRITE), "a", transform))).code == 404


# --- the end of a deletion ---


async def test_the_last_finalizer_deletes_with_one_event(world: World, store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y", "x/z"]})
    await delete(store)
    await change(store, "a", metadata(finalizers=["x/z"]))
    seen = await watching(store, resource_version="4")
    last = (await change(store, "a", metadata(finalizers=None))).decoded()
    # The client gets its own object, with the resourceVersion that it sent.
    assert last["metadata"]["resourceVersion"] == "4"
    assert "finalizers" not in last["metadata"]
    assert await seen.next(1) == [("DELETED", "a", 5)]
    # Watchers get the object as it was last stored.
    assert seen.objects[0].decoded()["metadata"]["finalizers"] == ["x/z"]
    assert await seen.nothing_more()
    assert (await refused(store.get(context(), "a"))).code == 404


async def test_the_last_finalizer_in_a_dry_run(world: World, store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    await delete(store)
    last = (await change(store, "a", metadata(finalizers=None), DRY)).decoded()
    assert "finalizers" not in last["metadata"]
    assert (await store.get(context(), "a")).revision == 3


async def test_the_last_finalizer_removed_by_two(store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    await delete(store)

    async def transform(obj: JSONObject) -> JSONObject:
        current = await store.get(context(), "a")
        if current.decoded()["metadata"].get("finalizers"):
            await change(store, "a", metadata(finalizers=None))
        obj["metadata"].pop("finalizers")
        return obj

    # Both requests succeed.
    assert "finalizers" not in (await store.update(WriteRequest(context(), WRITE), "a", transform)).object.decoded()["metadata"]


async def test_no_finalizer_of_an_object_that_stays(store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    assert (await change(store, "a", metadata(finalizers=[]))).revision == 3
    await store.get(context(), "a")


async def test_no_new_finalizers_once_deleting(store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    await delete(store)
    error = await refused(change(store, "a", metadata(finalizers=["x/y", "x/z"])))
    assert error.message == (
        f'{KIND} "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, '
        'found new finalizers []string{"x/z"}'
    )


async def test_deletion_marks_stay(store: Store) -> None:
    await create(store, metadata={"finalizers": ["x/y"]})
    await delete(store)
    written = await change(store, "a", metadata(deletionTimestamp=None, deletionGracePeriodSeconds=None))
    assert written.revision == 3
    assert written.decoded()["metadata"]["deletionTimestamp"] == NOW_TEXT


# --- the rest ---


async def test_dry_run(world: World, store: Store) -> None:
    await create(store)
    obj = (await change(store, "a", spec(replicas=2), DRY)).decoded()
    assert (obj["spec"], obj["metadata"]["generation"], obj["metadata"]["resourceVersion"]) == ({"replicas": 2}, 2, "2")
    assert (await store.get(context(), "a")).decoded()["spec"] == {"replicas": 1}


async def test_admission_sees_both(store: Store) -> None:
    before = await create(store)
    seen: list[Any] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        seen.append((copy.deepcopy(obj), copy.deepcopy(old)))
        raise errors.forbidden(GROUP, "crontabs", "a", "no")

    async def transform(obj: JSONObject) -> JSONObject:
        obj["spec"] = {"replicas": 2}
        return obj

    admission = Validating(admit)
    assert (await refused(store.update(WriteRequest(context(), WRITE, admission), "a", transform))).code == 403
    assert admission.failures == 1
    ((obj, old),) = seen
    assert old == before
    assert (obj["spec"], obj["metadata"]["generation"]) == ({"replicas": 2}, 2)


async def test_only_new_finalizers_are_warned_of(store: Store) -> None:
    await create(store, metadata={"finalizers": ["one"]})
    asked = context()

    async def transform(obj: JSONObject) -> JSONObject:
        obj["metadata"]["finalizers"] = ["one", "two"]
        return obj

    await store.update(WriteRequest(asked, WRITE), "a", transform)
    assert [text.split(": ")[1] for text in asked.warnings] == ['"two"']


async def test_as_many_finalizers_are_warned_of_as_have_room(store: Store) -> None:
    """The first by name, whatever the order on the object; those that are well-formed do not count."""
    named = [f"n{number:04}" for number in range(500)]
    asked = context()
    finalizers = [*(f"a.example/{name}" for name in named), *reversed(named)]
    await store.create(WriteRequest(asked, WRITE), crontab(finalizers=finalizers))
    assert [text.split(": ")[1] for text in asked.warnings] == [f'"{name}"' for name in named[:100]]


NAMES: dict[str, tuple[str, str, str]] = {
    "a slash": ("default", "a/b", """Name parameter invalid: "a/b": may not contain '/'"""),
    "a dot": ("default", "..", """Name parameter invalid: "..": may not be '..'"""),
    "two faults": ("default", "%/", """Name parameter invalid: "%/": may not contain '/';may not contain '%'"""),
    "none": ("default", "", "Name parameter required."),
    "no namespace": ("", "a", "Namespace parameter required."),
}


@pytest.mark.parametrize("case", NAMES)
async def test_names_that_are_no_key(store: Store, case: str) -> None:
    namespace, name, message = NAMES[case]
    error = await refused(store.get(context(namespace), name))
    assert (error.code, error.message) == (400, message)
