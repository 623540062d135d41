"""Hooks: their order, which writes they see, what they may do, and what clients are told."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.meta.json_types import JSONObject
from aggserver.resources import hooks
from aggserver.resources.app import App
from aggserver.resources.errors import FieldError, Forbidden, Invalid, NotFound, Unavailable
from aggserver.resources.requests import Request
from aggserver.resources.stored import Stored
from aggserver.typed.metadata import Metadata
from tests.fakes.asgi import Answer
from tests.fakes.definitions import CRONTABS
from tests.fakes.server import LocalServer
from tests.resources.site_types import OldSite, Site, SiteSpec, SiteStatus, down, up
from tests.resources.stored_apps import OLD_SITES, SITES, Running, old_site, serving, site, stored

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


class Plugin:
    """A webhook or policy: writes down that it was called, and may change the object."""

    def __init__(self, seen: list[str], change: Callable[[JSONObject], None] | None = None) -> None:
        self.seen = seen
        self.change = change

    async def mutate(self, attributes: Any, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if attributes.resource.resource != "sites" or obj is None:
            return False
        self.seen.append(f"webhook sees {obj['spec'].get('replicas')}")
        if self.change is None:
            return False
        self.change(obj)
        return True

    async def validate(self, attributes: Any, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.resource.resource == "sites" and obj is not None:
            self.seen.append(f"policy sees {obj['spec'].get('replicas')}")


def recording(app: App[None], seen: list[str]) -> Stored[None, Site]:
    """Hooks that write down what they see; the default adds 10 replicas to a single one."""
    sites = stored(app)
    sites.version("v1beta1", OldSite, up=up, down=down)

    @sites.default
    async def fill(request: Request[None], new: Site, old: Site | None) -> None:
        seen.append(f"default {new.spec.replicas} {old and old.spec.replicas}")
        if new.spec.replicas == 1:
            new.spec.replicas = 11

    @sites.validate
    async def check(request: Request[None], new: Site, old: Site | None) -> None:
        seen.append(f"validate {new.spec.replicas} {old and old.spec.replicas}")

    return sites


# --- order ---


async def test_the_order() -> None:
    seen: list[str] = []

    def change(obj: JSONObject) -> None:
        obj["spec"]["replicas"] += 100

    app: App[None] = App()
    recording(app, seen)
    plugin = Plugin(seen, change)
    async with serving(app, mutating_plugins=[plugin], validating_plugins=[plugin]) as running:
        made = await running.admin.post(SITES, site())
        assert made.json()["spec"]["replicas"] == 111
    assert seen == ["default 1 None", "webhook sees 11", "policy sees 111", "validate 111 None"]


async def test_the_schema_comes_before_validate() -> None:
    seen: list[str] = []

    def spoil(obj: JSONObject) -> None:
        obj["spec"]["replicas"] = "many"

    app: App[None] = App()
    recording(app, seen)
    plugin = Plugin(seen, spoil)
    async with serving(app, mutating_plugins=[plugin], validating_plugins=[plugin]) as running:
        assert (await running.admin.post(SITES, site())).status == 422
    assert seen == ["default 1 None", "webhook sees 11"]


async def test_default_does_not_see_what_the_schema_refuses() -> None:
    seen: list[str] = []
    app: App[None] = App()
    recording(app, seen)
    async with serving(app) as running:
        answer = await running.admin.post(SITES, site(replicas="many"))
        assert answer.status == 422
    assert seen == []


# --- which writes ---


async def _put(running: Running) -> Answer:
    current = (await running.admin.get(f"{SITES}/web")).json()
    current["spec"]["replicas"] = 1
    return await running.admin.put(f"{SITES}/web", current)


async def _merge(running: Running) -> Answer:
    return await running.admin.merge(f"{SITES}/web", {"spec": {"replicas": 1}})


async def _json_patch(running: Running) -> Answer:
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 1}]
    return await running.admin.request("PATCH", f"{SITES}/web", patch, content_type=JSON_PATCH)


async def _apply(running: Running) -> Answer:
    target = f"{SITES}/web?fieldManager=me&force=true"
    return await running.admin.request("PATCH", target, site(replicas=1), content_type=APPLY)


async def _other_version(running: Running) -> Answer:
    return await running.admin.merge(f"{OLD_SITES}/web", {"size": 1})


async def _dry_run(running: Running) -> Answer:
    return await running.admin.merge(f"{SITES}/web?dryRun=All", {"spec": {"replicas": 1}})


UPDATES = {
    "PUT": _put, "merge patch": _merge, "JSON patch": _json_patch, "apply": _apply, "other version": _other_version,
    "dry run": _dry_run,
}  # fmt: skip


@pytest.mark.parametrize("name", UPDATES)
async def test_updates(name: str) -> None:
    seen: list[str] = []
    app: App[None] = App()
    recording(app, seen)
    async with serving(app) as running:
        await running.admin.post(SITES, site(replicas=5))
        seen.clear()
        answer = await UPDATES[name](running)
        assert answer.status == 200, answer.body
        obj = answer.json()
        assert obj.get("size") == 11 if name == "other version" else obj["spec"]["replicas"] == 11
        assert seen == ["default 1 5", "validate 11 5"]
        kept = (await running.admin.get(f"{SITES}/web")).json()
        assert kept["spec"]["replicas"] == (5 if name == "dry run" else 11)


CREATES: dict[str, Callable[[Running], Awaitable[Answer]]] = {
    "POST": lambda running: running.admin.post(SITES, site()),
    "apply": lambda running: running.admin.request("PATCH", f"{SITES}/web?fieldManager=me", site(), content_type=APPLY),
    "other version": lambda running: running.admin.post(OLD_SITES, old_site()),
    "dry run": lambda running: running.admin.post(f"{SITES}?dryRun=All", site()),
}


@pytest.mark.parametrize("name", CREATES)
async def test_creates(name: str) -> None:
    seen: list[str] = []
    app: App[None] = App()
    recording(app, seen)
    async with serving(app) as running:
        answer = await CREATES[name](running)
        assert answer.status == 201, answer.body
        assert seen == ["default 1 None", "validate 11 None"]
        kept = await running.admin.get(f"{SITES}/web")
        assert (kept.status == 404) if name == "dry run" else kept.json()["spec"]["replicas"] == 11


async def test_writes_by_the_handle_and_of_the_status() -> None:
    seen: list[str] = []
    app: App[None] = App()
    sites = recording(app, seen)
    async with serving(app):
        made = await sites.create(Site(Metadata("web", "default"), SiteSpec("web:1")))
        assert made.spec.replicas == 11
        assert seen == ["default 1 None", "validate 11 None"]
        seen.clear()
        made.status = SiteStatus(3)
        await sites.update_status(made)
        assert seen == []


# --- default ---


async def test_default_twice_is_default_once() -> None:
    """An update that changes nothing writes nothing."""
    app: App[None] = App()
    recording(app, [])
    async with serving(app) as running:
        made = (await running.admin.post(SITES, site())).json()
        # The first update writes the default of the status, which creates drop.
        first = (await running.admin.put(f"{SITES}/web", made)).json()
        again = (await running.admin.put(f"{SITES}/web", first)).json()
        assert again == first


async def test_default_again_after_a_webhook_asked_for_a_second_round() -> None:
    seen: list[str] = []

    class Asking(Plugin):
        async def mutate(self, attributes: Any, obj: JSONObject | None, old: JSONObject | None) -> bool:
            attributes.reinvocation.wanted = True
            return await super().mutate(attributes, obj, old)

    app: App[None] = App()
    recording(app, seen)
    async with serving(app, mutating_plugins=[Asking(seen)]) as running:
        made = (await running.admin.post(SITES, site())).json()
        assert made["spec"]["replicas"] == 11
    assert seen == ["default 1 None", "webhook sees 11", "default 11 None", "webhook sees 11", "validate 11 None"]


async def test_default_writes_only_what_it_changed() -> None:
    """Fields that the class does not know survive, and its own defaults do not become fields of the object."""
    crd = {**CRONTABS, "spec": {**CRONTABS["spec"], "versions": [dict(each) for each in CRONTABS["spec"]["versions"]]}}
    for version in crd["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version.pop("additionalPrinterColumns", None)
        version.pop("subresources", None)
        version.pop("selectableFields", None)

    from dataclasses import dataclass

    @dataclass
    class Tab:
        metadata: Metadata
        known: int = 0
        other: str = "x"

    app: App[None] = App()
    tabs = app.hooks(crd["metadata"]["name"], Tab)

    @tabs.default
    def fill(request: Request[None], new: Tab, old: Tab | None) -> None:
        new.known += 0 if new.known else 1
        new.metadata.labels["by"] = request.user.name

    async with serving(app) as running:
        running.server.serve(crd)
        storage = next(each for each in crd["spec"]["versions"] if each["storage"])["name"]
        path = f"/apis/stable.example.com/{storage}/namespaces/default/crontabs"
        given = {
            "apiVersion": f"stable.example.com/{storage}",
            "kind": "CronTab",
            "metadata": {"name": "a", "annotations": {"n": "m"}},
            "unknown": {"deep": [1, {"x": None}]},
        }
        made = (await running.admin.post(path, given)).json()
        assert made["unknown"] == {"deep": [1, {"x": None}]}
        assert made["known"] == 1
        assert "other" not in made
        assert made["metadata"]["labels"] == {"by": "admin"}
        assert made["metadata"]["annotations"] == {"n": "m"}
        # As after a mutating webhook, the writer owns what it sent, and not what was filled in.
        (entry,) = made["metadata"]["managedFields"]
        assert "f:unknown" in entry["fieldsV1"]
        assert "f:known" not in entry["fieldsV1"]


# --- validate ---


async def test_all_validators_are_asked_and_errors_are_sorted() -> None:
    app: App[None] = App()
    sites = stored(app)

    @sites.validate
    def last(request: Request[None], new: Site, old: Site | None) -> Iterable[FieldError]:
        yield FieldError(".spec.replicas", "too many", new.spec.replicas)

    @sites.validate
    async def raising(request: Request[None], new: Site, old: Site | None) -> None:
        raise Invalid(FieldError(".spec.image", "no such image", new.spec.image), FieldError(".metadata.name", "is taken"))

    @sites.validate
    async def generating(request: Request[None], new: Site, old: Site | None) -> AsyncIterator[FieldError]:
        yield FieldError(".spec.image", "must be signed", new.spec.image)

    @sites.validate
    def warning(request: Request[None], new: Site, old: Site | None) -> list[FieldError]:
        request.warn("think twice")
        return []

    async with serving(app) as running:
        answer = await running.admin.post(SITES, site(replicas=3))
    assert answer.status == 422
    assert answer.warnings == ['299 - "think twice"']
    status = answer.json()
    assert status["reason"] == "Invalid"
    assert status["details"]["name"] == "web"
    assert status["details"]["kind"] == "Site"
    assert [(each["field"], each["reason"]) for each in status["details"]["causes"]] == [
        ("metadata.name", "FieldValueForbidden"),
        ("spec.image", "FieldValueInvalid"),
        ("spec.image", "FieldValueInvalid"),
        ("spec.replicas", "FieldValueInvalid"),
    ]
    assert status["message"].startswith(
        'Site.paas.example.com "web" is invalid: [metadata.name: Forbidden: is taken, spec.image: '
    )


# --- functions of all kinds, and their errors ---


def failing(error: BaseException) -> Callable[..., Any]:
    def check(request: Any, new: Any, old: Any) -> None:
        raise error

    return check


def failing_later(error: BaseException) -> Callable[..., Any]:
    async def check(request: Any, new: Any, old: Any) -> None:
        raise error

    return check


def failing_between(error: BaseException) -> Callable[..., Any]:
    def check(request: Any, new: Any, old: Any) -> Iterable[FieldError]:
        yield FieldError(".spec", "x")
        raise error

    return check


ERRORS: dict[str, tuple[Callable[..., Any], int, str]] = {
    "ValueError": (failing(ValueError("secret 5")), 500, "Internal error occurred"),
    "async ValueError": (failing_later(ValueError("secret 5")), 500, "Internal error occurred"),
    "ValueError of a generator": (failing_between(ValueError("secret 5")), 500, "Internal error occurred"),
    "what is no FieldError": (lambda request, new, old: ["secret 5"], 500, "Internal error occurred"),
    "what is no list": (lambda request, new, old: 5, 500, "Internal error occurred"),
    "Forbidden": (failing(Forbidden("not you")), 403, 'sites.paas.example.com "web" is forbidden: not you'),
    "Unavailable": (failing_later(Unavailable("later", 7)), 503, "later"),
    "NotFound": (failing(NotFound()), 404, 'sites.paas.example.com "web" not found'),
}


@pytest.mark.parametrize("kind", ["default", "validate"])
@pytest.mark.parametrize("name", ERRORS)
async def test_errors(name: str, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    function, code, text = ERRORS[name]
    if kind == "default" and name.startswith(("what", "ValueError of")):
        return
    app: App[None] = App()
    sites = stored(app)
    getattr(sites, kind)(function)
    async with serving(app) as running:
        with caplog.at_level(logging.ERROR):
            answer = await running.admin.post(SITES, site())
        assert answer.status == code, answer.body
        assert text in answer.message
        assert b"secret" not in answer.body
        assert (await running.admin.get(f"{SITES}/web")).status == 404
    logged = [record for record in caplog.records if record.exc_info]
    assert bool(logged) == (code == 500)
    if code == 500:
        assert "audit-1" in logged[0].getMessage()


@pytest.mark.parametrize("kind", ["default", "validate"])
async def test_a_hook_that_hangs(kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    assert hooks.HOOK_SECONDS == 10.0
    monkeypatch.setattr(hooks, "HOOK_SECONDS", 0.0)
    app: App[None] = App()
    sites = stored(app)

    async def hang(request: Request[None], new: Site, old: Site | None) -> None:
        await asyncio.Event().wait()

    getattr(sites, kind)(hang)
    async with serving(app) as running:
        answer = await running.admin.post(SITES, site())
        assert answer.status == 504
    assert "hang did not end in time" in caplog.text


async def test_a_plain_hook_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "HOOK_SECONDS", 0.05)
    app: App[None] = App(threads=2)
    sites = stored(app)
    go = threading.Event()

    @sites.validate
    def hang(request: Request[None], new: Site, old: Site | None) -> None:
        if new.metadata.name == "slow":
            go.wait()

    try:
        async with serving(app) as running:
            assert (await running.admin.post(SITES, site("slow"))).status == 504
            monkeypatch.setattr(hooks, "HOOK_SECONDS", 60.0)
            assert (await running.admin.post(SITES, site("quick"))).status == 201
    finally:
        go.set()


async def test_state_and_request_are_passed() -> None:
    seen: list[Any] = []

    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        yield "the state"

    app = App(lifespan)
    sites = app.stored("paas.example.com/v1", Site)

    @sites.validate
    def check(request: Request[str], new: Site, old: Site | None) -> None:
        seen.append((request.state, request.user.name, request.namespace, request.dry_run))

    async with serving(app) as running:
        await running.admin.post(f"{SITES}?dryRun=All", site())
    assert seen == [("the state", "admin", "default", True)]


# --- authorize ---


def owned(app: App[None]) -> Stored[None, Site]:
    sites = stored(app)

    @sites.authorize
    def owners_only(request: Request[None], obj: Site) -> None:
        if obj.metadata.labels.get("owner") != request.user.name:
            raise Forbidden("only its owner may do this")

    @sites.action("approve")
    async def approve(request: Request[None], obj: Site) -> None:
        return None

    @sites.stream("log")
    async def log(request: Request[None], obj: Site) -> AsyncIterator[bytes]:
        yield b"x"

    return sites


BOBS = UserInfo("bob", groups=("system:masters", "system:authenticated"))

WRITES: dict[str, Callable[[Any], Awaitable[Answer]]] = {
    "PUT": lambda client: client.put(f"{SITES}/web", site(labels={"owner": "bob"})),
    "patch": lambda client: client.merge(f"{SITES}/web", {"metadata": {"labels": {"owner": "bob"}}}),
    "apply": lambda client: client.request(
        "PATCH", f"{SITES}/web?fieldManager=m&force=true", site(labels={"owner": "bob"}), content_type=APPLY
    ),
    "status": lambda client: client.merge(f"{SITES}/web/status", {"status": {"ready": 1}}),
    "delete": lambda client: client.delete(f"{SITES}/web"),
    "deletecollection": lambda client: client.delete(SITES),
    "dry run of a delete": lambda client: client.delete(f"{SITES}/web?dryRun=All"),
    "create": lambda client: client.post(SITES, site("new", labels={"owner": "ann"})),
    "create by apply": lambda client: client.request(
        "PATCH", f"{SITES}/new?fieldManager=m", site("new", labels={"owner": "ann"}), content_type=APPLY
    ),
    "action": lambda client: client.post(f"{SITES}/web/approve", {}),
    "stream": lambda client: client.get(f"{SITES}/web/log"),
}


@pytest.mark.parametrize("name", WRITES)
async def test_authorize(name: str) -> None:
    app: App[None] = App()
    owned(app)
    ann = UserInfo("ann", groups=BOBS.groups)
    async with serving(app) as running:
        made = await running.server.client(ann).post(SITES, site(labels={"owner": "ann"}))
        assert made.status == 201, made.body
        answer = await WRITES[name](running.server.client(BOBS))
        assert answer.status == 403, answer.body
        assert "only its owner may do this" in answer.message
        assert (await running.admin.get(f"{SITES}/web")).json() == made.json()
        assert (await running.admin.get(f"{SITES}/new")).status == 404
        if not name.startswith("PUT"):
            allowed = await WRITES[name](running.server.client(ann))
            assert allowed.status in (200, 201), allowed.body


async def test_authorize_does_not_concern_reads_and_the_server_itself() -> None:
    app: App[None] = App()
    sites = owned(app)
    async with serving(app) as running:
        made = await sites.create(Site(Metadata("web", "default"), SiteSpec("web:1")))
        made.status = SiteStatus(1)
        await sites.update_status(made)
        assert (await running.admin.get(f"{SITES}/web")).status == 200
        assert len((await running.admin.get(SITES)).json()["items"]) == 1
        await sites.delete("web", "default")


async def test_authorize_sees_a_new_object_as_it_is_stored() -> None:
    """A webhook may still change whose it is."""

    def take(obj: JSONObject) -> None:
        obj["metadata"] = {**obj["metadata"], "labels": {"owner": "somebody"}}

    app: App[None] = App()
    owned(app)
    async with serving(app, mutating_plugins=[Plugin([], take)]) as running:
        answer = await running.admin.post(SITES, site(labels={"owner": "admin"}))
        assert answer.status == 403


# --- hooks on definitions ---


async def test_hooks_on_a_definition_with_dicts(server: LocalServer) -> None:
    app: App[None] = App()
    other: App[None] = App()
    tabs = app.hooks("crontabs.stable.example.com")

    @tabs.default
    def fill(request: Request[None], new: dict[str, Any], old: dict[str, Any] | None) -> None:
        new["spec"].setdefault("image", "cron:1")

    @tabs.validate
    def check(request: Request[None], new: dict[str, Any], old: dict[str, Any] | None) -> Iterable[FieldError]:
        yield FieldError(".spec.image", "is old", new["spec"]["image"])

    @other.hooks("crontabs.stable.example.com").validate
    def never(request: Request[None], new: dict[str, Any], old: dict[str, Any] | None) -> None:
        request.warn("also asked")

    async with serving(app, other, server=server) as running:
        assert [name for name, _ in server.engine.definitions.waiting_hooks()] == ["crontabs.stable.example.com"] * 2
        server.serve(CRONTABS)
        assert server.engine.definitions.waiting_hooks() == []
        given = {"metadata": {"name": "a"}, "spec": {}, "apiVersion": "stable.example.com/v1", "kind": "CronTab"}
        answer = await running.admin.post("/apis/stable.example.com/v1/namespaces/default/crontabs", given)
        assert answer.status == 422
        assert 'CronTab.stable.example.com "a" is invalid: spec.image: Invalid value: "cron:1": is old' in answer.message
