"""A stored resource with a status that a task writes, hooks, another version, an action and a stream."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

from aggserver import App, Changed, FieldError, Forbidden, Request
from tests.resources.site_types import OldSite, Site, SiteStatus, down, up

# The environment variable that names the file to which each run of the task writes a line.
RUNS = "SITES_RUNS"


@dataclass
class Approval:
    comment: str


app = App()
sites = app.stored("paas.example.com/v1", Site, columns={"Ready": ".status.ready"})


@sites.default
def fill(request: Request[None], new: Site, old: Site | None) -> None:
    if old is None:
        new.metadata.labels.setdefault("owner", request.user.name)


@sites.validate
def check(request: Request[None], new: Site, old: Site | None) -> Iterable[FieldError]:
    if old and new.spec.replicas < old.spec.replicas:
        request.warn("scaling down ends sessions")
    if new.spec.image.endswith(":latest"):
        yield FieldError(".spec.image", "must have a fixed tag", new.spec.image)


@sites.authorize
def owners_only(request: Request[None], site: Site) -> None:
    if site.metadata.labels.get("owner") == "nobody":
        raise Forbidden("only its owner may do this")


def note_run() -> None:
    if RUNS in os.environ:
        with Path(os.environ[RUNS]).open("a") as runs:
            runs.write(f"{os.getpid()}\n")


@app.task
async def reconcile(state: None) -> None:
    note_run()
    async for event in sites.watch():
        if isinstance(event, Changed):
            event.object.status = SiteStatus(event.object.spec.replicas, event.object.metadata.generation)
            await sites.update_status(event.object)


@sites.action("approve", dry_run=True)
async def approve(request: Request[None], site: Site, body: Approval) -> Site:
    site.metadata.annotations["approved"] = f"{body.comment} by {request.user.name}"
    return site


@sites.stream("log")
async def log(request: Request[None], site: Site) -> AsyncIterator[bytes]:
    yield f"{site.metadata.name} begins\n".encode()
    while request.query.get("follow") == "true":
        await asyncio.sleep(0.05)
        yield b"."


sites.version("v1beta1", OldSite, up=up, down=down, deprecated="paas.example.com/v1beta1 Site is deprecated; use v1")
