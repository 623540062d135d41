"""What a stored resource gives its clients, and what its handle does within the server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from aggserver.app.errors import StartError
from aggserver.meta.errors import StatusError
from aggserver.resources.app import App
from aggserver.resources.errors import AlreadyExists, Conflict, DeclarationError, Invalid, NotFound, Unavailable
from aggserver.resources.events import Changed, Gone
from aggserver.resources.handle import Scale
from aggserver.typed.metadata import Metadata
from tests.fakes.clock import settled
from tests.resources.site_types import Site, SiteSpec, SiteStatus
from tests.resources.stored_apps import SITES, serving, site, stored

APPLY = "application/apply-patch+yaml"


# --- what clients get ---


async def test_create_get_and_list() -> None:
    app: App[None] = App()
    stored(app)
    async with serving(app) as running:
        made = await running.admin.post(SITES, site(replicas=3))
        assert made.status == 201, made.body
        obj = (await running.admin.get(f"{SITES}/web")).json()
        assert obj == made.json()
        assert obj["spec"] == {"image": "web:1", "replicas": 3}
        assert obj["metadata"]["generation"] == 1
        listed = (await running.admin.get("/apis/paas.example.com/v1/sites")).json()
        assert [each["metadata"]["name"] for each in listed["items"]] == ["web"]
        assert listed["kind"] == "SiteList"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "required": ({"spec": {}}, "spec.image: Required value"),
    "type": (
        {"spec": {"image": 5}},
        'spec.image: Invalid value: "integer": spec.image in body must be of type string: "integer"',
    ),
    "no spec": ({"spec": None}, "spec: Required value"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_the_schema_refuses(name: str) -> None:
    app: App[None] = App()
    stored(app)
    given, text = REFUSED[name]
    async with serving(app) as running:
        answer = await running.admin.post(SITES, {**site(), **given})
        assert answer.status == 422
        assert text in answer.message


async def test_defaults_and_pruning() -> None:
    app: App[None] = App()
    stored(app)
    async with serving(app) as running:
        made = (await running.admin.post(SITES, site(unknown=1))).json()
        assert made["spec"] == {"image": "web:1", "replicas": 1}
        strict = await running.admin.post(f"{SITES}?fieldValidation=Strict", site("other", unknown=1))
        assert strict.status == 400
        assert 'unknown field "spec.unknown"' in strict.message


async def test_a_field_status_is_a_subresource() -> None:
    app: App[None] = App()
    stored(app)
    async with serving(app) as running:
        given = site() | {"status": {"ready": 7}}
        made = (await running.admin.post(SITES, given)).json()
        assert made.get("status", {}).get("ready", 0) == 0
        told = await running.admin.merge(f"{SITES}/web/status", {"spec": {"replicas": 9}, "status": {"ready": 2}})
        assert told.json()["status"]["ready"] == 2
        assert told.json()["spec"]["replicas"] == 1
        assert told.json()["metadata"]["generation"] == 1


async def test_without_a_status_there_is_no_subresource() -> None:
    @dataclass
    class Note:
        metadata: Metadata
        text: str = ""

    app: App[None] = App()
    notes = app.stored("paas.example.com/v1", Note)
    async with serving(app) as running:
        path = "/apis/paas.example.com/v1/namespaces/default/notes"
        assert (
            await running.admin.post(path, {"metadata": {"name": "a"}, "kind": "Note", "apiVersion": "paas.example.com/v1"})
        ).status == 201
        assert (await running.admin.get(f"{path}/a/status")).status == 404
        found = await notes.get("a", "default")
        with pytest.raises(DeclarationError, match="Note has no field `status`"):
            await notes.update_status(found)


async def test_columns_and_selectable_fields() -> None:
    app: App[None] = App()
    stored(app, columns={"Image": ".spec.image", "Ready": ".status.ready"}, selectable=[".spec.image"])
    async with serving(app) as running:
        for name, image in (("a", "x:1"), ("b", "y:1")):
            await running.admin.post(SITES, site(name, image))
        headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        table = (await running.admin.get(SITES, headers=headers)).json()
        assert [(each["name"], each["type"]) for each in table["columnDefinitions"]] == [
            ("Name", "string"), ("Image", "string"), ("Ready", "integer"), ("Age", "date"),
        ]  # fmt: skip
        assert [row["cells"][:2] for row in table["rows"]] == [["a", "x:1"], ["b", "y:1"]]
        chosen = (await running.admin.get(f"{SITES}?fieldSelector=spec.image%3Dy:1")).json()
        assert [each["metadata"]["name"] for each in chosen["items"]] == ["b"]
        assert (await running.admin.get(f"{SITES}?fieldSelector=spec.replicas%3D1")).status == 400


async def test_it_is_in_discovery_and_openapi() -> None:
    app: App[None] = App()
    stored(app, short_names=["st"], categories=["all"])
    async with serving(app) as running:
        names = {each["name"]: each for each in (await running.admin.get("/apis/paas.example.com/v1")).json()["resources"]}
        assert set(names) == {"sites", "sites/status"}
        assert names["sites"]["shortNames"] == ["st"]
        assert names["sites"]["categories"] == ["all"]
        document = (await running.admin.get("/openapi/v3/apis/paas.example.com/v1")).json()
        schema = document["components"]["schemas"]["com.example.paas.v1.Site"]
        assert schema["description"] == "A site of a customer."
        assert schema["properties"]["spec"]["required"] == ["image"]


async def test_apply_and_watch() -> None:
    app: App[None] = App()
    stored(app)
    async with serving(app) as running, running.admin.watch(f"{SITES}?watch=true") as watch:
        target = f"{SITES}/web?fieldManager=me"
        made = await running.admin.request("PATCH", target, site(), content_type=APPLY)
        assert made.status == 201, made.body
        again = await running.admin.request("PATCH", target, site(replicas=4), content_type=APPLY)
        assert again.status == 200
        await running.admin.delete(f"{SITES}/web")
        events = await watch.events(3)
        assert [each["type"] for each in events] == ["ADDED", "MODIFIED", "DELETED"]
        assert events[1]["object"]["spec"]["replicas"] == 4


# --- scale ---


@dataclass
class PoolSpec:
    replicas: int = 1


@dataclass
class PoolStatus:
    replicas: int = 0
    selector: str | None = None


@dataclass
class Pool:
    metadata: Metadata
    spec: PoolSpec = field(default_factory=PoolSpec)
    status: PoolStatus = field(default_factory=PoolStatus)


async def test_scale() -> None:
    app: App[None] = App()
    pools = app.stored("paas.example.com/v1", Pool, scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"))
    where = "/apis/paas.example.com/v1/namespaces/default/pools"
    async with serving(app) as running:
        made = await pools.create(Pool(Metadata("web", "default")))
        made.status = PoolStatus(1, "app=web")
        await pools.update_status(made)
        found = (await running.admin.get(f"{where}/web/scale")).json()
        assert (found["kind"], found["spec"], found["status"]) == (
            "Scale",
            {"replicas": 1},
            {"replicas": 1, "selector": "app=web"},
        )
        assert (await running.admin.merge(f"{where}/web/scale", {"spec": {"replicas": 3}})).status == 200
        scaled = await pools.get("web", "default")
        assert (scaled.spec.replicas, scaled.metadata.generation) == (3, 2)


def test_a_scale_of_fields_that_are_not_there() -> None:
    app: App[None] = App()
    with pytest.raises(DeclarationError, match=r"scale has \.status\.ready, and there is no \.status\.ready"):
        app.stored("paas.example.com/v1", Pool, scale=Scale(".spec.replicas", ".status.ready"))


# --- the handle ---


def made(name: str = "web", **spec: Any) -> Site:
    return Site(Metadata(name, "default"), SiteSpec("web:1", **spec))


async def test_reading_and_writing_by_the_handle() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app):
        first = await sites.create(made())
        assert first.spec.replicas == 1
        assert first.metadata.uid
        first.spec.replicas = 5
        assert (await sites.update(first)).spec.replicas == 5
        assert [each.metadata.name for each in await sites.list()] == ["web"]
        assert await sites.list("elsewhere") == []
        await sites.delete("web", "default")
        with pytest.raises(NotFound, match=r'sites\.paas\.example\.com "web" not found'):
            await sites.get("web", "default")


async def _create_twice(sites: Any) -> None:
    await sites.create(made())
    await sites.create(made())


async def _update_an_old_one(sites: Any) -> None:
    read = await sites.create(made())
    newer = await sites.get("web", "default")
    newer.spec.replicas = 2
    await sites.update(newer)
    read.spec.replicas = 3
    await sites.update(read)


async def _update_nothing(sites: Any) -> None:
    await sites.update(made())


async def _delete_nothing(sites: Any) -> None:
    await sites.delete("web", "default")


async def _create_without_a_namespace(sites: Any) -> None:
    await sites.create(Site(Metadata("web"), SiteSpec("web:1")))


async def _create_in_no_namespace(sites: Any) -> None:
    await sites.create(Site(Metadata("web", "nowhere"), SiteSpec("web:1")))


async def _create_a_bad_name(sites: Any) -> None:
    await sites.create(made("Web!"))


FAILING: dict[str, tuple[Any, type[StatusError]]] = {
    "create what is there": (_create_twice, AlreadyExists),
    "update what has changed": (_update_an_old_one, Conflict),
    "update what is not there": (_update_nothing, NotFound),
    "delete what is not there": (_delete_nothing, NotFound),
    "create without a namespace": (_create_without_a_namespace, Invalid),
    "create in a namespace that is not there": (_create_in_no_namespace, NotFound),
    "create a bad name": (_create_a_bad_name, Invalid),
}


@pytest.mark.parametrize("name", FAILING)
async def test_errors_of_the_handle(name: str) -> None:
    app: App[None] = App()
    sites = stored(app)
    work, class_ = FAILING[name]
    async with serving(app):
        with pytest.raises(class_, match=r"web|default|nowhere|Web!") as caught:
            await work(sites)
        assert caught.value.status()["details"]["kind"], "as for a client"


async def test_updates_of_the_status_never_conflict() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app) as running:
        read = await sites.create(made())
        await running.admin.merge(f"{SITES}/web", {"spec": {"replicas": 8}, "metadata": {"labels": {"a": "b"}}})
        read.status = SiteStatus(4, 1)
        written = await sites.update_status(read)
        assert written.status.ready == 4
        assert written.spec.replicas == 8
        assert written.metadata.labels == {"a": "b"}


async def test_an_update_keeps_the_status() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app):
        read = await sites.create(made())
        read.status = SiteStatus(4, 1)
        read = await sites.update_status(read)
        read.status = SiteStatus(9, 9)
        read.spec.replicas = 2
        written = await sites.update(read)
        assert (written.status.ready, written.spec.replicas) == (4, 2)


async def test_an_update_takes_away_what_an_object_that_was_read_has_no_more() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app):
        read = await sites.create(
            Site(Metadata("web", "default", labels={"a": "b"}, finalizers=["paas.example.com/dns"]), SiteSpec("web:1"))
        )
        written = await sites.update(made(replicas=2))
        assert (written.metadata.labels, written.metadata.finalizers) == ({"a": "b"}, ["paas.example.com/dns"])
        await sites.delete("web", "default")
        read = await sites.get("web", "default")
        assert read.metadata.deletion_timestamp
        read.metadata.labels = {}
        read.metadata.finalizers.clear()
        written = await sites.update(read)
        assert (written.metadata.labels, written.metadata.finalizers) == ({}, [])
        with pytest.raises(NotFound):
            await sites.get("web", "default")


async def test_before_and_after_it_is_served() -> None:
    app: App[None] = App()
    sites = stored(app)
    with pytest.raises(Unavailable, match=r"sites\.paas\.example\.com is not served yet"):
        await sites.get("web")
    async with serving(app):
        assert await sites.list() == []
    with pytest.raises(Unavailable):
        await sites.list()


async def test_the_watch_tells_what_is_there_and_every_change() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app) as running:
        await running.admin.post(SITES, site())
        changes = sites.watch()
        first = await anext(changes)
        assert isinstance(first, Changed)
        assert first.object.spec.image == "web:1"
        await running.admin.merge(f"{SITES}/web", {"spec": {"replicas": 2}})
        second = await anext(changes)
        assert isinstance(second, Changed)
        assert second.object.spec.replicas == 2
        await running.admin.delete(f"{SITES}/web")
        assert await anext(changes) == Gone("web", "default")
        await changes.aclose()  # type: ignore[attr-defined]


async def test_the_watch_tells_what_is_gone_after_a_gap() -> None:
    app: App[None] = App()
    sites = stored(app)
    async with serving(app) as running:
        for name in ("a", "b"):
            await running.admin.post(SITES, site(name))
        changes = sites.watch()
        assert {(await anext(changes)).object.metadata.name for _ in range(2)} == {"a", "b"}  # type: ignore[union-attr]
        waiting = asyncio.ensure_future(anext(changes))
        await settled()
        # The watch is interrupted, and the change comes before it begins again.
        served = running.server.engine.installer.find("paas.example.com", "v1", "sites")
        assert served is not None
        served.scope("").rest.cacher.expire_watches()  # type: ignore[union-attr]
        await running.admin.delete(f"{SITES}/a")
        told = [await waiting]
        while Gone("a", "default") not in told:
            told.append(await anext(changes))
        assert all(each.object.metadata.name == "b" for each in told if isinstance(each, Changed))
        await running.admin.merge(f"{SITES}/b", {"spec": {"replicas": 7}})
        while not (isinstance(told[-1], Changed) and told[-1].object.spec.replicas == 7):
            told.append(await anext(changes))
        assert Gone("b", "default") not in told
        await changes.aclose()  # type: ignore[attr-defined]


# --- declarations ---


def _twice(app: App[None]) -> None:
    stored(app)
    stored(app)


def _two_versions(app: App[None]) -> None:
    sites = stored(app)
    sites.version("v1", Site, up=lambda each: each, down=lambda each: each)


def _no_group(app: App[None]) -> None:
    app.stored("v1", Site)


def _bad_column(app: App[None]) -> None:
    stored(app, columns={"X": ".spec["})


def _hooks_twice(app: App[None]) -> None:
    app.hooks("crontabs.stable.example.com")
    app.hooks("crontabs.stable.example.com")


def _no_task(app: App[None]) -> None:
    app.task(lambda state: None)  # type: ignore[arg-type, return-value]


def _named_status(app: App[None]) -> None:
    stored(app).action("status")(lambda request, obj: None)


def _hooks_on_its_own(app: App[None]) -> None:
    stored(app)
    app.hooks("sites.paas.example.com")


HERE = r"test_stored\.py:\d+"
DECLARATIONS: dict[str, tuple[Any, str]] = {
    "a resource twice": (_twice, r"stored_apps\.py:\d+: sites\.paas\.example\.com is declared already, at stored_apps\.py:\d+"),
    "a version twice": (_two_versions, "two versions v1"),
    "no group": (_no_group, "is no `group/version`"),
    "a column that is no path": (_bad_column, r"stored_apps\.py:\d+: sites\.paas\.example\.com: column X: \.spec\[: "),
    "hooks twice": (_hooks_twice, rf"{HERE}: hooks on crontabs\.stable\.example\.com are declared already, at {HERE}"),
    "a task that is not async": (_no_task, rf"{HERE}: a task is an async function"),
    "an action called status": (_named_status, "'status' can't be the name of a subresource"),
    "hooks on a resource of its own": (_hooks_on_its_own, r"sites\.paas\.example\.com is a resource of an App.*its handle"),
}


async def _start(declare: Any) -> None:
    app: App[None] = App()
    declare(app)
    async with serving(app):
        pass


@pytest.mark.parametrize("name", DECLARATIONS)
async def test_declarations_that_are_errors(name: str) -> None:
    declare, text = DECLARATIONS[name]
    with pytest.raises(DeclarationError, match=text):
        await _start(declare)


@pytest.mark.parametrize("group", ["apps", "apiextensions.k8s.io", "x.k8s.io", "a.kubernetes.io"])
async def test_groups_of_kubernetes_own(group: str) -> None:
    with pytest.raises((StartError, DeclarationError), match="Kubernetes' own"):
        await _start(lambda app: app.stored(f"{group}/v1", Site))


async def test_two_apps_with_the_same_resource() -> None:
    first: App[None] = App()
    second: App[None] = App()
    stored(first)
    stored(second)
    with pytest.raises(DeclarationError, match=r"sites.paas.example.com is declared already, at"):
        async with serving(first, second):
            pass


async def test_a_dict_status_stays_small() -> None:
    """Conditions and free maps of a status are kept whole."""

    @dataclass
    class Box:
        metadata: Metadata
        status: dict[str, Any] = field(default_factory=dict)

    app: App[None] = App()
    boxes = app.stored("paas.example.com/v1", Box, plural="boxes")
    async with serving(app):
        box = await boxes.create(Box(Metadata("a", "default")))
        box.status = {"nested": {"x": [1, {"y": 2}]}}
        assert (await boxes.update_status(box)).status == json.loads('{"nested": {"x": [1, {"y": 2}]}}')
