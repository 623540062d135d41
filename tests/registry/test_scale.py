from __future__ import annotations

from typing import Any

import pytest

from aggserver.merge.scale_owners import ScaleOwners
from aggserver.meta.json_types import JSONObject
from aggserver.registry.custom_resource import ScalePaths
from aggserver.registry.rest import WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.subresources import ScaleStore, StatusStore
from tests.registry.world import DRY, GROUP, NOW_TEXT, SCALE, WRITE, Validating, World, change, context, create, refused


@pytest.fixture
def store(world: World) -> Store:
    return world.store(scale=SCALE)


def scale_store(store: Store, paths: ScalePaths) -> ScaleStore:
    owners = ScaleOwners(f"{GROUP}/v1", {f"{GROUP}/v1": paths.spec_replicas})
    return ScaleStore(store, paths, owners)


@pytest.fixture
def scales(store: Store) -> ScaleStore:
    return scale_store(store, SCALE)


async def put(scales: ScaleStore, spec: Any, options: WriteOptions = WRITE, **metadata: Any) -> JSONObject:
    """As PUT: the new Scale does not depend on the current one."""

    async def transform(current: JSONObject) -> JSONObject:
        return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", **metadata}, "spec": spec}

    written = await scales.update(WriteRequest(context(), options), "a", transform)
    assert not written.created
    return written.object.decoded()


async def patch(scales: ScaleStore, **spec: Any) -> JSONObject:
    """As a merge patch: changes the current Scale."""

    async def transform(current: JSONObject) -> JSONObject:
        current["spec"].update(spec)
        return current

    return (await scales.update(WriteRequest(context(), WRITE), "a", transform)).object.decoded()


async def test_read(world: World, store: Store, scales: ScaleStore) -> None:
    await create(store, spec={"replicas": 3})
    status = {"replicas": 2, "selector": "a=b"}
    await change(world.status(store, scale=SCALE), "a", lambda obj: obj.update(status=status))
    assert (await scales.get(context(), "a")).decoded() == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "uid-1",
            "resourceVersion": "3",
            "creationTimestamp": NOW_TEXT,
        },
        "spec": {"replicas": 3},
        "status": status,
    }


# spec of the object -> spec of the Scale
READ: dict[str, tuple[JSONObject, JSONObject]] = {
    "zero is left out": ({"replicas": 0}, {}),
    "one": ({"replicas": 1}, {"replicas": 1}),
}


@pytest.mark.parametrize("case", READ)
async def test_read_spec(store: Store, scales: ScaleStore, case: str) -> None:
    spec, shown = READ[case]
    await create(store, spec=spec)
    found = (await scales.get(context(), "a")).decoded()
    assert (found["spec"], found["status"]) == (shown, {"replicas": 0})


async def test_nothing_to_scale(store: Store, scales: ScaleStore) -> None:
    await create(store, spec={})
    error = await refused(scales.get(context(), "a"))
    assert (error.code, error.message) == (
        500,
        'Internal error occurred: the spec replicas field ".spec.replicas" does not exist',
    )


async def test_paths_that_lead_elsewhere(world: World) -> None:
    """The schema has changed since the object was written."""
    store = world.store()
    await create(store, spec={"replicas": "x"})
    error = await refused(scale_store(store, SCALE).get(context(), "a"))
    message = ".spec.replicas accessor error: x is of the type string, expected int64"
    assert (error.code, error.reason, error.message) == (500, "", message)
    error = await refused(put(scale_store(store, SCALE), {"replicas": 1}))
    assert error.message == message
    error = await refused(put(scale_store(store, ScalePaths(".spec.replicas.count", ".status.replicas")), {"replicas": 1}))
    assert error.message.startswith(".spec.replicas.count accessor error: x is of the type string, expected map")


async def test_written(store: Store, scales: ScaleStore) -> None:
    await create(store, spec={"replicas": 1, "color": "red"})
    scale = await put(scales, {"replicas": 5})
    assert (scale["spec"], scale["metadata"]["resourceVersion"]) == ({"replicas": 5}, "3")
    parent = (await store.get(context(), "a")).decoded()
    assert (parent["spec"], parent["metadata"]["generation"]) == ({"replicas": 5, "color": "red"}, 2)


# Go's clients omit a zero.
ZEROS: dict[str, Any] = {"a zero": {"replicas": 0}, "nothing": {}, "no spec": None, "null": {"replicas": None}}


@pytest.mark.parametrize("case", ZEROS)
async def test_scaled_to_zero(store: Store, scales: ScaleStore, case: str) -> None:
    await create(store, spec={"replicas": 3})
    assert (await put(scales, ZEROS[case]))["spec"] == {}
    assert (await store.get(context(), "a")).decoded()["spec"] == {"replicas": 0}


async def test_patched(store: Store, scales: ScaleStore) -> None:
    await create(store, spec={"replicas": 3})
    assert (await patch(scales))["metadata"]["resourceVersion"] == "2"
    assert (await patch(scales, replicas=4))["spec"] == {"replicas": 4}


async def test_patched_where_nothing_was(store: Store, scales: ScaleStore) -> None:
    await create(store, spec={})
    error = await refused(patch(scales))
    assert (error.code, error.message) == (400, 'the spec replicas field ".spec.replicas" cannot be empty')
    assert (await patch(scales, replicas=2))["spec"] == {"replicas": 2}


async def test_the_way_is_made(store: Store) -> None:
    await create(store, spec={})
    scales = scale_store(store, ScalePaths(".other.count", ".status.replicas"))
    await patch(scales, replicas=2)
    assert (await store.get(context(), "a")).decoded()["other"] == {"count": 2}


WHERE = 'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal '

REFUSED: dict[str, tuple[Any, int, str]] = {
    "negative": (
        {"replicas": -1},
        422,
        f'CronTab.{GROUP} "a" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer',
    ),
    "a string": ({"replicas": "1"}, 400, f"{WHERE}string into Go struct field ScaleSpec.spec.replicas of type int32"),
    "a bool": ({"replicas": True}, 400, f"{WHERE}bool into Go struct field ScaleSpec.spec.replicas of type int32"),
    "a list": ({"replicas": []}, 400, f"{WHERE}array into Go struct field ScaleSpec.spec.replicas of type int32"),
    "a fraction": ({"replicas": 1.5}, 400, f"{WHERE}number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32"),
    "too large": (
        {"replicas": 1 << 31},
        400,
        f"{WHERE}number 2147483648 into Go struct field ScaleSpec.spec.replicas of type int32",
    ),
    "no object": ("x", 400, f"{WHERE}string into Go struct field Scale.spec of type v1.ScaleSpec"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(store: Store, scales: ScaleStore, case: str) -> None:
    spec, code, message = REFUSED[case]
    await create(store)
    error = await refused(put(scales, spec))
    assert (error.code, error.message) == (code, message)


class Unasked:
    """Admission that must not see anything."""

    looks_at_objects = True

    async def mutate(self, obj: JSONObject | None, old: JSONObject | None) -> bool:
        pytest.fail("it sees no Scale")

    async def validate(self, obj: JSONObject | None, old: JSONObject | None) -> None:
        pytest.fail("it sees no Scale")

    def failed(self) -> None:
        pass


async def test_admission_is_not_asked_of_what_can_not_be_decoded(store: Store, scales: ScaleStore) -> None:
    await create(store)

    async def transform(current: JSONObject) -> JSONObject:
        return {**current, "spec": {"replicas": "1"}}

    error = await refused(scales.update(WriteRequest(context(), WRITE, Unasked()), "a", transform))
    assert (error.code, error.message) == (400, REFUSED["a string"][2])


async def test_preconditions(store: Store, scales: ScaleStore) -> None:
    await create(store)
    assert (await refused(put(scales, {"replicas": 2}, resourceVersion="1"))).code == 409
    assert (await refused(put(scales, {"replicas": 2}, WriteOptions(uid="other", field_manager="test")))).code == 409
    assert (await put(scales, {"replicas": 2}, resourceVersion="2"))["spec"] == {"replicas": 2}


async def test_dry_run(store: Store, scales: ScaleStore) -> None:
    await create(store)
    assert (await put(scales, {"replicas": 2}, DRY))["spec"] == {"replicas": 2}
    assert (await scales.get(context(), "a")).decoded()["spec"] == {"replicas": 1}


async def test_admission_sees_scales(store: Store, scales: ScaleStore) -> None:
    await create(store, spec={})
    seen: list[Any] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        assert obj is not None
        assert old is not None
        seen.append((obj["kind"], obj["spec"], old["kind"], old["spec"]))

    async def transform(current: JSONObject) -> JSONObject:
        current["spec"] = {"replicas": 2}
        return current

    await scales.update(WriteRequest(context(), WRITE, Validating(admit)), "a", transform)
    assert seen == [("Scale", {"replicas": 2}, "Scale", {})]


async def test_status_store(world: World, store: Store) -> None:
    await create(store)
    status = StatusStore(world.status(store))

    async def transform(obj: JSONObject) -> JSONObject:
        return {**obj, "status": {"ready": True}, "spec": {}}

    written = await status.update(WriteRequest(context(), WRITE), "a", transform)
    assert (await status.get(context(), "a")).raw == written.object.raw
    assert (written.object.decoded()["status"], written.object.decoded()["spec"]) == ({"ready": True}, {"replicas": 1})
