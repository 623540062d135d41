"""Versions of a stored resource by functions, and the check at start that they lose nothing."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import pytest

from aggserver.resources.app import App
from aggserver.resources.errors import DeclarationError
from aggserver.storage.keys import resource_prefix
from aggserver.typed.metadata import Metadata
from tests.resources.site_types import OldSite, Site, SiteSpec, SiteStatus, down, up
from tests.resources.stored_apps import OLD_SITES, SITES, old_site, serving, site, stored

APPLY = "application/apply-patch+yaml"


def both(**more: Any) -> tuple[App[None], Any]:
    app: App[None] = App()
    sites = stored(app)
    sites.version("v1beta1", OldSite, up=up, down=down, **more)
    return app, sites


async def test_each_version_shows_what_the_other_wrote() -> None:
    app, _ = both(deprecated="use v1")
    async with serving(app) as running:
        made = await running.admin.post(OLD_SITES, old_site(size=3))
        assert made.status == 201, made.body
        assert made.warnings == ['299 - "use v1"']
        assert (await running.admin.get(f"{SITES}/web")).json()["spec"] == {"image": "web:1", "replicas": 3}
        await running.admin.merge(f"{SITES}/web", {"spec": {"replicas": 4}})
        shown = (await running.admin.get(f"{OLD_SITES}/web")).json()
        assert (shown["apiVersion"], shown["image"], shown["size"]) == ("paas.example.com/v1beta1", "web:1", 4)
        assert "spec" not in shown
        await running.admin.post(SITES, site("other"))
        items = (await running.admin.get(OLD_SITES)).json()["items"]
        assert [(each["metadata"]["name"], each["size"]) for each in items] == [("other", 1), ("web", 4)]
        kept = [item async for item in _stored(running.server.storage)]
        assert all(b'"paas.example.com/v1"' in value for value in kept)
        assert len(kept) == 2


async def _stored(storage: Any) -> Any:
    page = await storage.list(resource_prefix("paas.example.com", "sites"))
    for item in page.items:
        yield item.value


async def test_metadata_and_status_are_the_same_in_both() -> None:
    app, sites = both()
    async with serving(app) as running:
        await running.admin.post(SITES, site(labels={"a": "b"}))
        read = await sites.get("web", "default")
        read.status = SiteStatus(5, 1)
        await sites.update_status(read)
        new = (await running.admin.get(f"{SITES}/web")).json()
        old = (await running.admin.get(f"{OLD_SITES}/web")).json()
        assert {**old["metadata"], "managedFields": 0} == {**new["metadata"], "managedFields": 0}
        assert old["status"] == new["status"] == {"ready": 5, "observedGeneration": 1}
        # A write by the version whose class has no status keeps it.
        await running.admin.merge(f"{OLD_SITES}/web", {"size": 9})
        assert (await running.admin.get(f"{SITES}/web")).json()["status"]["ready"] == 5
        told = await running.admin.merge(f"{OLD_SITES}/web/status", {"status": {"ready": 6}})
        assert told.status == 200
        assert (await sites.get("web", "default")).status.ready == 6


async def test_watches_of_both_versions_see_every_change() -> None:
    app, _ = both()
    async with serving(app) as running:
        async with running.admin.watch(f"{SITES}?watch=true") as new, running.admin.watch(f"{OLD_SITES}?watch=true") as old:
            await running.admin.post(SITES, site())
            await running.admin.merge(f"{OLD_SITES}/web", {"size": 2})
            await running.admin.delete(f"{SITES}/web")
            events = await new.events(3), await old.events(3)
        assert [[each["type"] for each in told] for told in events] == [["ADDED", "MODIFIED", "DELETED"]] * 2
        assert events[0][1]["object"]["spec"]["replicas"] == events[1][1]["object"]["size"] == 2


async def test_apply_by_either_version() -> None:
    app, _ = both()
    async with serving(app) as running:
        target = "web?fieldManager=me"
        made = await running.admin.request("PATCH", f"{OLD_SITES}/{target}", old_site(size=3), content_type=APPLY)
        assert made.status == 201, made.body
        again = await running.admin.request("PATCH", f"{SITES}/{target}", site(replicas=4), content_type=APPLY)
        assert again.status == 200, again.body
        assert (await running.admin.get(f"{OLD_SITES}/web")).json()["size"] == 4
        # What the applier gave up in one version is gone in the other.
        less = await running.admin.request("PATCH", f"{OLD_SITES}/{target}", old_site(), content_type=APPLY)
        assert less.json()["size"] == 1
        clash = await running.admin.request(
            "PATCH", f"{OLD_SITES}/web?fieldManager=other", old_site(image="x"), content_type=APPLY
        )
        assert clash.status == 409
        assert ".image" in clash.message


async def test_an_error_of_a_function_refuses_that_object_alone(caplog: pytest.LogCaptureFixture) -> None:
    broken = [False]

    def sometimes(new: Site) -> OldSite:
        if broken[0] and new.metadata.name == "bad":
            raise ZeroDivisionError("secret 5")
        return down(new)

    app: App[None] = App()
    stored(app).version("v1beta1", OldSite, up=up, down=sometimes)
    async with serving(app) as running:
        broken[0] = True
        for name in ("good", "bad"):
            await running.admin.post(SITES, site(name))
        assert (await running.admin.get(f"{OLD_SITES}/good")).status == 200
        answer = await running.admin.get(f"{OLD_SITES}/bad")
        assert answer.status == 500
        assert "sometimes can't convert bad, see the log" in answer.message
        assert b"secret" not in answer.body
        assert (await running.admin.get(f"{SITES}/bad")).status == 200
    assert "ZeroDivisionError: secret 5" in caplog.text


# --- the check at start ---


@dataclass
class Port:
    name: str
    number: int = 80
    protocol: Literal["TCP", "UDP"] = "TCP"


@dataclass
class Rich:
    metadata: Metadata
    image: str
    ports: list[Port] = field(default_factory=list)
    wait: timedelta | None = None
    extra: dict[str, Any] | None = None


@dataclass
class Flat:
    metadata: Metadata
    image: str
    ports: list[str] = field(default_factory=list)
    wait: timedelta | None = None
    extra: dict[str, Any] | None = None


@dataclass
class Poor:
    metadata: Metadata
    image: str
    wait: timedelta | None = None


def _rich(old: Rich) -> Rich:
    return old


def _forgets_labels(old: Rich) -> Rich:
    return Rich(Metadata(old.metadata.name), old.image, old.ports, old.wait, old.extra)


def _forgets_protocol(old: Rich) -> Rich:
    return Rich(old.metadata, old.image, [Port(each.name, each.number) for each in old.ports], old.wait, old.extra)


def _no_extra(old: Rich) -> Rich:
    return Rich(old.metadata, old.image, old.ports, old.wait)


def _shouts(old: Rich) -> Rich:
    return Rich(old.metadata, old.image.upper(), old.ports, old.wait, old.extra)


def _to_poor(new: Rich) -> Poor:
    return Poor(new.metadata, new.image, new.wait)


def _from_poor(old: Poor) -> Rich:
    return Rich(old.metadata, old.image, wait=old.wait)


LOSSES: dict[str, tuple[type, Callable[..., Any], Callable[..., Any], list[str]]] = {
    "nothing": (Rich, _rich, _rich, []),
    "a label": (Rich, _forgets_labels, _rich, [".metadata.labels.a", ".metadata.annotations.an"]),
    "a field of an item": (Rich, _rich, _forgets_protocol, [".ports[].protocol"]),
    "an optional field": (Rich, _no_extra, _rich, [".extra"]),
    "a changed value": (Rich, _shouts, _rich, [".image"]),
    "fields that the type does not have": (Poor, _from_poor, _to_poor, [".ports", ".extra"]),
}


@pytest.mark.parametrize("name", LOSSES)
async def test_what_is_lost_is_an_error_at_start(name: str) -> None:
    type_, up_, down_, fields = LOSSES[name]
    app: App[None] = App()
    riches = app.stored("paas.example.com/v1", Rich, plural="riches")
    riches.version("v1beta1", type_, up=up_, down=down_)
    if not fields:
        async with serving(app):
            return
    with pytest.raises(DeclarationError) as caught:
        async with serving(app):
            pass
    text = str(caught.value)
    found = set(re.findall(r"version v1beta1: (\S+) of v1(?:beta1)? (?:is lost|is changed|is added)", text))
    assert found == set(fields), text
    assert re.search(r"^test_versions\.py:\d+: riches\.paas\.example\.com: version v1beta1: ", text)
    assert f"test_versions.{up_.__name__}" in text
    assert f"test_versions.{down_.__name__}" in text


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name][3]])
async def test_what_may_be_lost_is_no_error(name: str) -> None:
    type_, up_, down_, fields = LOSSES[name]
    for missing in (None, *fields):
        app: App[None] = App()
        riches = app.stored("paas.example.com/v1", Rich, plural="riches")
        loses = [field.removesuffix("[].protocol") for field in fields if field != missing]
        riches.version("v1beta1", type_, up=up_, down=down_, loses=[*loses, ".port", ".im"])
        if missing is None:
            async with serving(app):
                continue
        with pytest.raises(DeclarationError, match=re.escape(f"version v1beta1: {missing} of v1")):
            async with serving(app):
                pass


def _picky(old: OldSite) -> Site:
    image, _, tag = old.image.partition(":")
    if not tag:
        raise ValueError("no tag")
    return Site(old.metadata, SiteSpec(f"{image}:{tag}", old.size))


def _broken(old: OldSite) -> Site:
    return old.spec  # type: ignore[attr-defined, no-any-return]


async def test_a_function_that_fails_for_some_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    stored(app).version("v1beta1", OldSite, up=_picky, down=down)
    with caplog.at_level(logging.WARNING):
        async with serving(app):
            pass
    assert "_picky" in caplog.text
    assert "ValueError('no tag')" in caplog.text


async def test_a_function_that_fails_for_all_is_an_error() -> None:
    app: App[None] = App()
    stored(app).version("v1beta1", OldSite, up=_broken, down=down)
    with pytest.raises(
        DeclarationError, match=r"_broken or .*down has failed for an object that the schema allows: AttributeError"
    ):
        async with serving(app):
            pass
