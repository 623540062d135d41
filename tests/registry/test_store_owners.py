"""managedFields in the write loop: applies, creates or replaces, admission that changes objects, objects that are too large."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.merge.atom import of_resource
from aggserver.merge.managed_fields import FieldManager
from aggserver.merge.managers import no_other_version
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.custom_resource import CustomResourceStrategy
from aggserver.registry.rest import ApplyConfiguration, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.write import APPLIED_TO_PART
from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.storage.interface import Precondition, TooLarge
from tests.registry.world import DRY, GROUP, NOW_TEXT, WRITE, World, change, context, create, crontab, refused

V1 = f"{GROUP}/v1"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer"},
                "color": {"type": "string"},
                "tone": {"type": "string", "default": "plain"},
                "anything": {"type": "string"},
            },
        }
    },
}
ATOM = of_resource(structural.compile(SCHEMA))
LIMIT = 2000


def owning(world: World) -> Store:
    """The resource with a schema, and with owners of its fields."""
    fields = FieldManager(V1, "CronTab", lambda _: ATOM, no_other_version)
    strategy = CustomResourceStrategy(
        world.info(),
        CompiledSchema(SCHEMA),
        has_status=True,
        scale=None,
        check_context=world._check_context,
        field_manager=fields,
    )
    return world.store().with_strategy(strategy)


@pytest.fixture
def store(world: World) -> Store:
    return owning(world)


def entry(manager: str, fields: JSONObject, operation: str = "Update") -> JSONObject:
    made = {"apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": fields, "manager": manager}
    return {**made, "operation": operation, "time": NOW_TEXT}


def spec(*names: str) -> JSONObject:
    return {"f:spec": {f"f:{name}": {} for name in names}}


def config(metadata: JSONObject | None = None, **members: Any) -> ApplyConfiguration:
    """members: of the spec."""
    obj = {"apiVersion": V1, "kind": "CronTab", "metadata": {"name": "a", **(metadata or {})}, "spec": members}
    return ApplyConfiguration(codec.encode_json(obj))


async def applied(store: Store, given: ApplyConfiguration, manager: str = "one", **options: Any) -> JSONObject:
    made = await store.apply(WriteRequest(context(), WriteOptions(field_manager=manager, **options)), "a", given)
    return made.object.decoded()


class Changing:
    """Mutating admission that changes each object by a function."""

    def __init__(self, edit: Callable[[JSONObject], Any]) -> None:
        self._edit = edit

    looks_at_objects = True

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        assert obj is not None
        self._edit(obj)
        return True

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        pass

    def failed(self) -> None:
        pass


# --- apply, create and replace ---


async def test_an_apply_creates_and_then_updates(world: World, store: Store) -> None:
    made = await store.apply(WriteRequest(context(), WriteOptions(field_manager="one")), "a", config(replicas=1))
    assert made.created
    obj = made.object.decoded()
    assert obj["spec"] == {"replicas": 1, "tone": "plain"}
    assert obj["metadata"]["managedFields"] == [entry("one", spec("replicas"), "Apply")]
    again = await store.apply(WriteRequest(context(), WriteOptions(field_manager="one")), "a", config(replicas=1))
    assert (again.created, again.object.raw) == (False, made.object.raw)
    assert (await applied(store, config(color="x")))["spec"] == {"color": "x", "tone": "plain"}


async def test_a_dry_run_leaves_nothing(world: World, store: Store) -> None:
    made = await store.apply(WriteRequest(context(), DRY._replace(field_manager="one")), "a", config(replicas=1))
    assert made.object.decoded()["metadata"]["managedFields"] == [entry("one", spec("replicas"), "Apply")]
    assert (await refused(store.get(context(), "a"))).code == 404


async def test_a_refusal_is_told_after_all_others(store: Store) -> None:
    await applied(store, config(replicas=1))
    twice = dataclasses.replace(config(replicas=2), refusal=StatusError(400, "BadRequest", "twice"))
    assert (await refused(applied(store, twice, "two"))).code == 409
    assert (await refused(applied(store, twice))).message == "twice"


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        ({"uid": "u"}, 409, "uid mismatch: the provided object specified uid u, and no existing object was found"),
        ({"resourceVersion": "x"}, 500, 'strconv.ParseUint: parsing "x": invalid syntax'),
        ({"name": "b"}, 400, "the name of the object (b) does not match the name on the URL (a)"),
        ({"namespace": "other"}, 400, "the namespace of the provided object does not match the namespace sent on the request"),
    ],
)
async def test_what_an_apply_to_nothing_can_not_say(store: Store, metadata: JSONObject, code: int, text: str) -> None:
    error = await refused(applied(store, config(metadata)))
    assert error.code == code
    assert error.message.endswith(text)


async def test_a_subresource_creates_nothing(store: Store) -> None:
    error = await refused(
        store.apply(WriteRequest(context(), WriteOptions(field_manager="one")), "a", config(), making=APPLIED_TO_PART)
    )
    assert error.code == 404


async def test_replacing_creates_what_is_not_there(store: Store) -> None:
    first = await store.replace(WriteRequest(context(), WRITE), crontab())
    assert first.created
    second = await store.replace(
        WriteRequest(context(), WriteOptions(field_manager="other")), crontab() | {"spec": {"replicas": 2}}
    )
    assert not second.created
    before, after = first.object.decoded(), second.object.decoded()
    assert before["metadata"]["uid"] == after["metadata"]["uid"]
    assert (before["metadata"]["generation"], after["metadata"]["generation"]) == (1, 2)
    assert [each["manager"] for each in after["metadata"]["managedFields"]] == ["other", "test"]


async def test_an_object_without_owners_has_none_until_somebody_applies(world: World, store: Store) -> None:
    await create(world.store())  # by a server that kept none
    changed = await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    assert "managedFields" not in changed.decoded()["metadata"]
    made = await applied(store, config(color="x"))
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["one", "before-first-apply"]


# --- admission ---


async def test_what_admission_changes_is_of_nobody_new(store: Store) -> None:
    """The writer owns what it sent; what admission adds to it is conformed, and owned by none."""
    admission = Changing(lambda obj: obj["spec"].update(color="x", nothing=1))
    made = (await store.create(WriteRequest(context(), WRITE, admission), crontab())).decoded()
    assert made["spec"]["color"] == "x"
    assert "nothing" not in made["spec"]
    (owner,) = made["metadata"]["managedFields"]
    assert owner["fieldsV1"]["f:spec"] == {".": {}, "f:replicas": {}}


BROKEN: list[Any] = [
    [{"operation": "Remove", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": {}}],
    [entry("one", {"f": {}})],
    [entry("one", {"f:a": 1})],
]


@pytest.mark.parametrize("given", BROKEN, ids=["no operation", "no field", "no set"])
async def test_admission_can_not_make_owners_unreadable(store: Store, given: Any) -> None:
    asked = context()
    admission = Changing(lambda obj: obj["metadata"].update(managedFields=copy.deepcopy(given)))
    made = (await store.create(WriteRequest(asked, WRITE, admission), crontab())).decoded()
    assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["test"]
    (warning,) = asked.warnings
    assert warning.startswith(
        ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission "
        "controller; please fix your requests: "
    )


async def test_admission_may_say_who_owns_what(store: Store) -> None:
    asked = context()
    given = entry("hook", spec("replicas"))
    admission = Changing(lambda obj: obj["metadata"].update(managedFields=[given]))
    made = (await store.create(WriteRequest(asked, WRITE, admission), crontab())).decoded()
    assert (made["metadata"]["managedFields"], list(asked.warnings)) == ([given], [])


async def test_admission_may_take_all_owners_away(store: Store) -> None:
    admission = Changing(lambda obj: obj["metadata"].pop("managedFields"))
    made = (await store.create(WriteRequest(context(), WRITE, admission), crontab())).decoded()
    assert "managedFields" not in made["metadata"]


async def test_owner_references_that_admission_repeats(store: Store) -> None:
    asked = context()
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
    admission = Changing(lambda obj: obj["metadata"].update(ownerReferences=[owner, dict(owner)]))
    made = (await store.create(WriteRequest(asked, WRITE, admission), crontab())).decoded()
    assert made["metadata"]["ownerReferences"] == [owner]
    (warning,) = asked.warnings
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries after mutating admission happens; ")


# --- objects that are too large ---


@pytest.fixture
def small(world: World) -> Store:
    world.environment = dataclasses.replace(world.environment, max_object_bytes=LIMIT)
    return owning(world)


def room_for(obj: JSONObject) -> JSONObject:
    """The object, filled so that it fits without managedFields and not with them."""
    obj["spec"]["anything"] = "x" * (LIMIT - 400)
    return obj


async def test_owners_make_room(small: Store) -> None:
    made = (await small.create(WriteRequest(context(), WRITE), room_for(crontab()))).decoded()
    assert "managedFields" not in made["metadata"]
    await create(small, "b")
    changed = (await change(small, "b", room_for)).decoded()
    assert "managedFields" not in changed["metadata"]
    assert len(changed["spec"]["anything"]) == LIMIT - 400


async def test_owners_make_room_where_the_storage_says_so(world: World, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = world.storage.create

    async def create_small(key: str, value: bytes, guard: Precondition | None = None) -> int:
        if b"managedFields" in value:
            raise TooLarge("etcdserver: request is too large")
        return await real(key, value)

    monkeypatch.setattr(world.storage, "create", create_small)
    assert "managedFields" not in (await create(store))["metadata"]


async def test_an_apply_keeps_its_owners_and_is_refused(small: Store) -> None:
    error = await refused(applied(small, config(anything="x" * (LIMIT - 300), color="y" * 20)))
    assert (error.code, error.reason) == (413, "RequestEntityTooLarge")


# --- what another server stored ---


async def adopted(world: World, entries: str) -> None:
    """entries: JSON, as kube-apiserver may have written it."""
    text = codec.encode_json(crontab(uid="u", creationTimestamp=NOW_TEXT, generation=1, namespace="default")).decode()
    text = text.replace('"metadata":{', '"metadata":{"managedFields":' + entries + ",", 1)
    await world.storage.create(f"/{GROUP}/crontabs/default/a", text.encode())


@pytest.mark.parametrize("levels", [100, 240])
async def test_deep_sets_that_another_server_stored(world: World, levels: int) -> None:
    deep = '{"f:spec":{"f:replicas":{},"f:color":' + '{"f:a":' * levels + "{}" + "}" * (levels + 2)
    one = codec.encode_json(entry("one", {})).decode().replace('"fieldsV1":{}', f'"fieldsV1":{deep}')
    await adopted(world, f"[{one}]")
    store = owning(world)
    changed = await change(store, "a", lambda obj: obj["spec"].update(replicas=2))
    owners = {each["manager"]: each["fieldsV1"]["f:spec"] for each in changed.decoded()["metadata"]["managedFields"]}
    assert owners == {"one": {"f:color": codec.decode_json(deep.encode())["f:spec"]["f:color"]}, "test": {"f:replicas": {}}}
    assert (await applied(store, config(tone="x"), "two"))["spec"]["tone"] == "x"


@pytest.mark.parametrize("entries", ["[{}]", '[{"manager":"x"}]', "[]", '[{"operation":"Apply","apiVersion":"v9"}]'])
async def test_owners_that_can_not_be_read_count_as_none_in_an_update(world: World, entries: str) -> None:
    await adopted(world, entries)
    store = owning(world)
    changed = (await change(store, "a", lambda obj: obj["spec"].update(replicas=2))).decoded()
    assert "managedFields" not in changed["metadata"]
