from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import WriteRequest
from aggserver.registry.store import Store
from tests.registry.world import DRY, GROUP, NOW_TEXT, WRITE, Validating, World, context, create, crontab, delete, refused

RESOURCE = f"crontabs.{GROUP}"
KIND = f"CronTab.{GROUP}"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
    "an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


async def test_system_fields_are_wiped_and_filled(world: World, store: Store) -> None:
    given = {
        "uid": "mine",
        "creationTimestamp": "2000-01-01T00:00:00Z",
        "deletionTimestamp": "2000-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
        "generation": 7,
        "labels": {"a": "b"},
    }
    obj = await create(store, metadata=given, status={"x": 1})
    assert obj == {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronTab",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": "uid-1",
            "creationTimestamp": NOW_TEXT,
            "generation": 1,
            "labels": {"a": "b"},
            "resourceVersion": "2",
        },
        "spec": {"replicas": 1},
    }
    assert "resourceVersion" not in (await world.stored("a"))["metadata"]


async def test_status_is_taken_without_its_subresource(world: World) -> None:
    obj = await create(world.store(has_status=False), status={"x": 1})
    assert obj["status"] == {"x": 1}


async def test_what_is_prepared_for_one_try_is_not_there_for_the_next(store: Store) -> None:
    given = crontab("", generateName="a-")
    given["status"] = {"x": 1}
    await store.create(WriteRequest(context(), WRITE), given)
    assert given["metadata"] == {"generateName": "a-", "namespace": "default"}
    assert given["status"] == {"x": 1}


async def test_cluster_scoped_has_no_namespace(world: World) -> None:
    store = world.store(namespaced=False)
    obj = await store.create(WriteRequest(context(""), WRITE), crontab(namespace="default"))
    assert "namespace" not in obj.decoded()["metadata"]
    assert obj.key == f"/{GROUP}/clocks/a"
    assert (await store.get(context(""), "a")).raw == obj.raw


# --- names ---


async def test_generated_name_collides_and_is_tried_again(world: World, store: Store) -> None:
    world.numbers = [0] * 5 + [0] * 5 + [1] * 5
    names = [(await create(store, "", metadata={"generateName": "a-"}))["metadata"]["name"] for _ in range(2)]
    assert names == ["a-bbbbb", "a-ccccc"]


async def test_generated_name_is_tried_eight_times(world: World, store: Store) -> None:
    await create(store, "a-bbbbb")
    world.numbers = [0] * 5 * 8 + [1] * 5
    error = await refused(create(store, "", metadata={"generateName": "a-"}))
    assert error.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{RESOURCE} "a-bbbbb" already exists, the server was not able to generate a unique name for the object',
        "reason": "AlreadyExists",
        "details": {"name": "a-bbbbb", "group": GROUP, "kind": "crontabs", "retryAfterSeconds": 1},
        "code": 409,
    }
    assert world.numbers == [1] * 5


async def test_every_try_is_admitted_under_its_name(world: World, store: Store) -> None:
    await create(store, "a-bbbbb")
    world.numbers = [0] * 5 + [1] * 5
    seen: list[str] = []

    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        assert obj is not None
        assert old is None
        seen.append(obj["metadata"]["name"])

    admission = Validating(admit)
    await store.create(WriteRequest(context(), WRITE, admission), crontab("", generateName="a-"))
    assert seen == ["a-bbbbb", "a-ccccc"]
    assert admission.failures == 1, "of the first try"


TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "there": ({}, {}, f'{RESOURCE} "a" already exists'),
    "being deleted": ({"finalizers": ["x/y"]}, {}, f'object is being deleted: {RESOURCE} "a" already exists'),
    "a name and generateName": (
        {},
        {"generateName": "b-"},
        f'{RESOURCE} "a" already exists, the server was not able to generate a unique name for the object',
    ),
}


@pytest.mark.parametrize("dry_run", [False, True], ids=["for good", "dry run"])
@pytest.mark.parametrize("case", TAKEN)
async def test_name_taken(store: Store, case: str, dry_run: bool) -> None:
    there, given, message = TAKEN[case]
    await create(store, metadata=there)
    if there:
        await delete(store)
    error = await refused(store.create(WriteRequest(context(), DRY if dry_run else WRITE), crontab(**given)))
    assert (error.code, error.reason, error.message) == (409, "AlreadyExists", message)


async def test_same_name_in_another_namespace(store: Store) -> None:
    await create(store, namespace="one")
    assert (await create(store, namespace="two"))["metadata"]["namespace"] == "two"


# --- refusals ---

REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "another namespace": (
        {"namespace": "other"},
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    ),
    "resourceVersion": ({"resourceVersion": "5"}, 500, "resourceVersion should not be set on objects to be created"),
    "no name": (
        {"name": ""},
        422,
        f'{KIND} "" is invalid: metadata.name: Required value: name or generateName is required',
    ),
    "upper case": ({"name": "A"}, 422, f'{KIND} "A" is invalid: metadata.name: Invalid value: "A": {SUBDOMAIN}'),
    "a slash": ({"name": "a/b"}, 422, f'{KIND} "a/b" is invalid: metadata.name: Invalid value: "a/b": {SUBDOMAIN}'),
    "too long": (
        {"name": "a" * 254},
        422,
        f'{KIND} "{"a" * 254}" is invalid: metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters',
    ),
    "a label": (
        {"labels": {"a b": "c"}},
        422,
        f'{KIND} "a" is invalid: metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, '
        "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', "
        "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_refused(world: World, store: Store, case: str) -> None:
    metadata, code, message = REFUSED[case]
    obj = crontab()
    obj["metadata"].update(metadata)
    error = await refused(store.create(WriteRequest(context(), WRITE), obj))
    assert (error.code, error.message) == (code, message)
    assert await world.storage.revision() == 1


@pytest.mark.parametrize("version", ["0", "abc", ""])
async def test_resource_versions_that_say_nothing_pass(store: Store, version: str) -> None:
    assert (await create(store, metadata={"resourceVersion": version}))["metadata"]["resourceVersion"] == "2"


TYPES: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"kind": "Other"}, 'kind: Invalid value: "Other": must be CronTab'),
    "apiVersion": ({"apiVersion": "v1"}, f'apiVersion: Invalid value: "v1": must be {GROUP}/v1'),
    # Nothing else is validated then.
    "both": (
        {"kind": "Other", "apiVersion": "v1", "metadata": {"labels": {"a b": ""}}},
        f'[kind: Invalid value: "Other": must be CronTab, apiVersion: Invalid value: "v1": must be {GROUP}/v1]',
    ),
}


@pytest.mark.parametrize("case", TYPES)
async def test_wrong_type(store: Store, case: str) -> None:
    changes, message = TYPES[case]
    error = await refused(create(store, **changes))
    # The error names the kind in the object.
    assert error.message == f'{changes.get("kind", "CronTab")}.{GROUP} "a" is invalid: {message}'


async def test_terminating_definition(world: World, store: Store) -> None:
    world.terminating = True
    assert (await refused(create(store))).code == 405


async def test_admission_has_the_last_word(world: World, store: Store) -> None:
    async def admit(obj: JSONObject | None, old: JSONObject | None) -> None:
        assert obj is not None
        assert (obj["metadata"]["uid"], obj["metadata"]["generation"]) == ("uid-1", 1)
        raise errors.forbidden(GROUP, "crontabs", "a", "no")

    assert (await refused(store.create(WriteRequest(context(), WRITE, Validating(admit)), crontab()))).code == 403
    assert await world.storage.revision() == 1


# --- dry run ---


async def test_dry_run(world: World, store: Store) -> None:
    obj = (await store.create(WriteRequest(context(), DRY), crontab())).decoded()
    assert obj["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "uid-1",
        "creationTimestamp": NOW_TEXT,
        "generation": 1,
    }
    assert await world.storage.revision() == 1


# --- warnings ---

WARNED: dict[str, tuple[str, list[str]]] = {
    "a domain and a path": ("example.com/x", []),
    "of Kubernetes": ("foregroundDeletion", []),
    "no domain": (
        "mine",
        [
            'metadata.finalizers: "mine": prefer a domain-qualified finalizer name to avoid accidental conflicts '
            "with other finalizer writers"
        ],
    ),
    "no path": (
        "example.com",
        [
            'metadata.finalizers: "example.com": prefer a domain-qualified finalizer name including a path (/) to avoid '
            "accidental conflicts with other finalizer writers"
        ],
    ),
}


@pytest.mark.parametrize("case", WARNED)
async def test_warnings(store: Store, case: str) -> None:
    finalizer, warnings = WARNED[case]
    asked = context()
    await store.create(WriteRequest(asked, WRITE), crontab(finalizers=[finalizer]))
    assert list(asked.warnings) == warnings
