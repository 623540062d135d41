"""Deployments of the hosting cluster as another kind, by one watch of the server, however many clients watch.

All users see applications by the rights on this kind, and of these only those of their teams. Changes are made with the user's
own rights on Deployments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any

from aggserver import App, Changed, Gone, ListRequest, Metadata, Relist, Request

DEPLOYMENTS = ("apps/v1", "deployments")


@dataclass
class Application:
    """What a team runs."""

    metadata: Metadata
    team: str
    size: int
    ready: int = 0


app = App()
app.needs("deployments.apps", "patch", as_user=True)
deployments = app.informer(*DEPLOYMENTS, labels="team")
applications = app.virtual("apps.example.com/v1", Application, columns={"Team": ".team", "Ready": ".ready"})


def application(obj: dict[str, Any]) -> Application:
    metadata = obj["metadata"]
    ready = obj.get("status", {}).get("readyReplicas", 0)
    return Application(
        Metadata(metadata["name"], metadata["namespace"]), metadata["labels"]["team"], obj["spec"]["replicas"], ready
    )


@applications.list
async def list_applications(request: ListRequest[None]) -> Iterable[Application]:
    return map(application, deployments.objects())


@applications.feed
async def application_changes(state: None) -> AsyncIterator[Changed[Application] | Gone | Relist]:
    async for change in deployments.changes():
        yield change.map(application)


@applications.visible
def of_its_team(request: Request[None], each: Application) -> bool:
    return each.team in request.user.groups or "ops" in request.user.groups


@applications.update(dry_run=True)
async def update_application(request: Request[None], new: Application, old: Application) -> Application:
    change = {"spec": {"replicas": new.size}}
    return application(await request.host.patch(*DEPLOYMENTS, new.metadata.name, request.namespace, merge=change))
