"""Stored by aggserver, with hooks, a status that a task of the same process writes, an action, a stream and a second version.

kubectl create -f site.yaml; kubectl get sites; kubectl create --raw .../sites/web/approve -f approval.json
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aggserver import App, Changed, FieldError, Forbidden, Metadata, Request


class Tracker:
    """Stands for the system that knows of approvals and has logs."""

    def __init__(self) -> None:
        self.approvals: list[tuple[str, str, str]] = []

    async def approve(self, uid: str, user: str, comment: str) -> None:
        self.approvals.append((uid, user, comment))

    async def tail(self, name: str, *, follow: bool) -> AsyncIterator[bytes]:
        yield f"{name} started\n".encode()
        if follow:
            yield b"and goes on\n"


@asynccontextmanager
async def tracker() -> AsyncGenerator[Tracker, None]:
    yield Tracker()


@dataclass
class SiteSpec:
    image: str
    replicas: int = 1


@dataclass
class SiteStatus:
    ready: int = 0
    observed_generation: int = 0


@dataclass
class Site:
    """A web site."""

    metadata: Metadata
    spec: SiteSpec
    status: SiteStatus = field(default_factory=SiteStatus)


@dataclass
class OldSite:
    """A web site, as it was described before there was a spec."""

    metadata: Metadata
    image: str
    size: int = 1
    status: SiteStatus = field(default_factory=SiteStatus)


@dataclass
class Approval:
    comment: str


app = App(tracker)
sites = app.stored("paas.example.com/v1", Site, columns={"Ready": ".status.ready"})


@sites.default
def fill(request: Request[Tracker], new: Site, old: Site | None) -> None:
    if old is None:
        new.metadata.labels["owner"] = request.user.name


@sites.validate
def check(request: Request[Tracker], new: Site, old: Site | None) -> Iterable[FieldError]:
    if old and new.spec.replicas < old.spec.replicas:
        request.warn("scaling down ends sessions")
    if new.spec.image.endswith(":latest"):
        yield FieldError(".spec.image", "must have a fixed tag", new.spec.image)


@sites.authorize
def owners_only(request: Request[Tracker], site: Site) -> None:
    if site.metadata.labels.get("owner") != request.user.name and "ops" not in request.user.groups:
        raise Forbidden("only its owner and ops may do this")


@app.task
async def reconcile(state: Tracker) -> None:
    async for event in sites.watch():
        if isinstance(event, Changed):
            event.object.status = SiteStatus(event.object.spec.replicas, event.object.metadata.generation)
            await sites.update_status(event.object)


@sites.action("approve", dry_run=True)
async def approve(request: Request[Tracker], site: Site, body: Approval) -> Site:
    if not request.dry_run:
        await request.state.approve(site.metadata.uid, request.user.name, body.comment)
    return site


@sites.stream("log")
async def log(request: Request[Tracker], site: Site) -> AsyncIterator[bytes]:
    async for line in request.state.tail(site.metadata.name, follow=request.query.get("follow") == "true"):
        yield line


def up(old: OldSite) -> Site:
    return Site(old.metadata, SiteSpec(old.image, old.size), old.status)


def down(new: Site) -> OldSite:
    return OldSite(new.metadata, new.spec.image, new.spec.replicas, new.status)


sites.version("v1beta1", OldSite, up=up, down=down, deprecated="use v1")
