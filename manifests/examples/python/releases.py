"""HelmReleases of the hosting cluster as another kind, both ways, with the rights of the user who asks.

Lists, watches and revisions are those of the cluster. The server's account may ask as its users, and has no rights on
HelmReleases itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from aggserver import App, Bookmark, Event, ListRequest, Metadata, Page, Request, WatchRequest

HELM = ("helm.toolkit.fluxcd.io/v2", "helmreleases")


@dataclass
class Release:
    """An application that is installed."""

    metadata: Metadata
    chart: str
    values: dict[str, Any] = field(default_factory=dict)
    ready: bool = False


app = App()
app.needs("helmreleases.helm.toolkit.fluxcd.io", "get", "list", "watch", "patch", as_user=True)
releases = app.virtual("apps.example.com/v1", Release, columns={"Chart": ".chart", "Ready": ".ready"}, revisions="source")


def release(obj: dict[str, Any]) -> Release:
    metadata, spec = obj["metadata"], obj["spec"]
    conditions = obj.get("status", {}).get("conditions", [])
    return Release(
        Metadata(
            metadata["name"],
            metadata["namespace"],
            labels=metadata.get("labels", {}),
            revision=metadata["resourceVersion"],
        ),
        spec["chart"]["spec"]["chart"],
        spec.get("values", {}),
        any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
    )


@releases.list
async def list_releases(request: ListRequest[None]) -> Page[Release]:
    selectors = {"labels": str(request.labels), "fields": str(request.fields)}
    page = await request.host.list(*HELM, request.namespace, limit=request.limit, cursor=request.cursor, **selectors)
    return Page(map(release, page.items), page.cursor, filtered=True, revision=page.revision)


@releases.get
async def get_release(request: Request[None], name: str) -> Release:
    return release(await request.host.get(*HELM, name, request.namespace))


@releases.watch(filtered=True)
async def watch_releases(request: WatchRequest[None]) -> AsyncIterator[Event[Release] | Bookmark]:
    selectors = {"labels": str(request.labels), "fields": str(request.fields)}
    async for event in request.host.watch(*HELM, request.namespace, revision=request.revision, **selectors):
        yield event.map(release)


@releases.update(dry_run=True)
async def update_release(request: Request[None], new: Release, old: Release) -> Release:
    change = {"metadata": {"resourceVersion": old.metadata.revision}, "spec": {"values": new.values}}
    return release(await request.host.patch(*HELM, new.metadata.name, request.namespace, merge=change))
