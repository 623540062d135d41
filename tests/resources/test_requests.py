"""What a request tells functions and hooks of the one who asks: verb, name, field manager, parameters, audit id, deadline."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from aggserver import App, FieldError, ListRequest, Metadata, Page, Request
from tests.fakes.asgi import Answer, Client
from tests.fakes.clock import until
from tests.resources.site_types import Site, SiteSpec
from tests.resources.stored_apps import SITES, serving, site, stored

HEADERS = {"audit-id": "audit-1", "user-agent": "kubectl/v1.36 (linux)"}
PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MERGE = {"content_type": "application/merge-patch+json"}
WEB = f"{SITES}/web"

# verb: (verb of the client, target, body, name, subresource, dry_run, field_manager, parameters)
WRITES: dict[str, tuple[str, str, Any, tuple[str, str, str, bool, str, dict[str, str]]]] = {
    "create": ("POST", f"{SITES}?pretty=0", site("new"), ("create", "new", "", False, "kubectl", {"pretty": "0"})),
    "create dry": (
        *("POST", f"{SITES}?dryRun=All&fieldManager=me", site("new")),
        ("create", "new", "", True, "me", {"dryRun": "All", "fieldManager": "me"}),
    ),
    "update": ("PUT", WEB, site(replicas=2), ("update", "web", "", False, "kubectl", {})),
    "patch": (
        *("PATCH", f"{WEB}?fieldManager=me", {"spec": {"replicas": 3}}),
        ("patch", "web", "", False, "me", {"fieldManager": "me"}),
    ),
    "status": ("PATCH", f"{WEB}/status", {"status": {"ready": 1}}, ("patch", "web", "status", False, "kubectl", {})),
    "delete": (
        *("DELETE", f"{WEB}?propagationPolicy=Background", None),
        ("delete", "web", "", False, "kubectl", {"propagationPolicy": "Background"}),
    ),
    "deletecollection": ("DELETE", SITES, None, ("deletecollection", "web", "", False, "kubectl", {})),
}


def told(request: Request[Any]) -> tuple[str, str, str, bool, str, dict[str, str]]:
    return (
        *(request.verb, request.name, request.subresource),
        *(request.dry_run, request.field_manager, dict(request.query)),
    )


async def send(client: Client, method: str, target: str, body: Any) -> Answer:
    more = MERGE if method == "PATCH" else {}
    return await client.request(method, target, body, headers=HEADERS, **more)


@pytest.mark.parametrize("name", WRITES)
async def test_hooks(name: str) -> None:
    method, target, body, wanted = WRITES[name]
    seen: list[Request[None]] = []
    app: App[None] = App()
    sites = stored(app)

    @sites.authorize
    def allow(request: Request[None], obj: Site) -> None:
        seen.append(request)

    @sites.default
    def fill(request: Request[None], new: Site, old: Site | None) -> None:
        seen.append(request)

    @sites.validate
    def check(request: Request[None], new: Site, old: Site | None) -> Iterable[FieldError]:
        seen.append(request)
        return ()

    async with serving(app) as running:
        if wanted[0] != "create":
            made = await running.admin.post(SITES, site())
            if method == "PUT":
                body = {**body, "metadata": made.json()["metadata"]}
            seen.clear()
        assert (await send(running.admin, method, target, body)).status in (200, 201)
        assert {request.audit_id for request in seen} == {"audit-1"}
        assert [told(request) for request in seen] == [wanted] * len(seen)
        # Of the three hooks, `authorize` alone is asked for a status and for deletions.
        assert len(seen) == (3 if name.split()[0] in ("create", "update", "patch") else 1)
        assert all(request.deadline < float("inf") for request in seen)


async def test_the_server_itself_asks() -> None:
    seen: list[Request[None]] = []
    app: App[None] = App()
    sites = stored(app)

    @sites.default
    def fill(request: Request[None], new: Site, old: Site | None) -> None:
        seen.append(request)

    @app.task
    async def make(state: None) -> None:
        await sites.create(Site(Metadata("own", "default"), SiteSpec("web:1")))
        await asyncio.Event().wait()

    async with serving(app):
        await until(lambda: bool(seen))
        (request,) = seen
        assert told(request) == ("create", "own", "", False, "", {})
        assert (request.user.name, request.audit_id, request.deadline) == ("system:apiserver", "", float("inf"))


async def test_functions_and_actions() -> None:
    seen: dict[str, Request[None]] = {}
    app: App[None] = App()
    sites = app.virtual("paas.example.com/v1", Site)
    held = {"web": Site(Metadata("web", "default"), SiteSpec("web:1"))}

    @sites.list
    def listed(request: ListRequest[None]) -> Page[Site]:
        seen["list"] = request
        return Page([*held.values()])

    @sites.get
    def got(request: Request[None], name: str) -> Site | None:
        seen["get"] = request
        return held.get(name)

    @sites.create(dry_run=True)
    def created(request: Request[None], new: Site) -> Site:
        seen["create"] = request
        return new

    @sites.update
    def updated(request: Request[None], new: Site, old: Site) -> Site:
        seen["update"] = request
        return new

    @sites.delete
    def deleted(request: Request[None], old: Site) -> None:
        seen["delete"] = request

    @sites.action("approve")
    def approved(request: Request[None], obj: Site) -> None:
        seen["action"] = request

    async with serving(app) as running:
        calls = [
            ("GET", SITES, None),
            ("GET", WEB, None),
            ("POST", f"{SITES}?dryRun=All", site("new")),
            ("PATCH", f"{WEB}?fieldManager=me", {"spec": {"replicas": 3}}),
            ("POST", f"{WEB}/approve?reason=x", {}),
        ]
        for call in calls:
            assert (await send(running.admin, *call)).status in (200, 201), call
        names = {name: told(request)[:3] for name, request in seen.items()}
        assert names == {
            "list": ("list", "", ""),
            "get": ("create", "web", "approve"),  # the action's, which reads the object first
            "create": ("create", "new", ""),
            "update": ("patch", "web", ""),
            "action": ("create", "web", "approve"),
        }
        assert told(seen["create"])[3:] == (True, "kubectl", {"dryRun": "All"})
        assert told(seen["update"])[3:] == (False, "me", {"fieldManager": "me"})
        assert seen["action"].query == {"reason": "x"}
        assert (await send(running.admin, "DELETE", SITES, None)).status == 200
        assert told(seen["delete"])[:3] == ("deletecollection", "web", "")
        assert {request.audit_id for request in seen.values()} == {"audit-1"}


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(Request) if each.name != "warnings"])
def test_every_attribute_is_described(name: str) -> None:
    """In the docstring, which editors show, and in the page."""
    assert f"{name}:" in (Request.__doc__ or "")
    assert re.search(rf"^\| [^|]*`{name}`[^|]* \|", PAGE.read_text(), re.M)
