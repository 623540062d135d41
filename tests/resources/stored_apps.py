"""Sites: a stored resource as users write it, and a LocalServer that serves an App."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from aggserver.app.python_apps import serve_apps
from aggserver.meta.json_types import JSONObject
from aggserver.resources.app import App
from aggserver.resources.serving import Elected
from aggserver.resources.stored import Stored
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.server import ALICE, LocalServer
from tests.resources.site_types import Site

SITES = "/apis/paas.example.com/v1/namespaces/default/sites"
OLD_SITES = "/apis/paas.example.com/v1beta1/namespaces/default/sites"


def site(name: str = "web", image: str = "web:1", **more: Any) -> JSONObject:
    """more: members of the spec, and `labels`."""
    metadata: JSONObject = {"name": name}
    if "labels" in more:
        metadata["labels"] = more.pop("labels")
    return {"apiVersion": "paas.example.com/v1", "kind": "Site", "metadata": metadata, "spec": {"image": image, **more}}


def old_site(name: str = "web", image: str = "web:1", **more: Any) -> JSONObject:
    return {"apiVersion": "paas.example.com/v1beta1", "kind": "Site", "metadata": {"name": name}, "image": image, **more}


def stored(app: App[Any], **more: Any) -> Stored[Any, Site]:
    return app.stored("paas.example.com/v1", Site, **more)


@dataclass
class Running:
    """slept: seconds of each pause of the App's tasks; they end at once."""

    server: LocalServer
    slept: list[float]

    @property
    def admin(self) -> Client:
        return self.server.client()

    @property
    def alice(self) -> Client:
        return self.server.client(ALICE)

    def allow(self, *verbs_and_resources: tuple[str, str]) -> None:
        """Let Alice do that."""
        self.server.rules.allowed |= {("alice", verb, resource) for verb, resource in verbs_and_resources}


@contextlib.asynccontextmanager
async def serving(
    *apps: App[Any],
    server: LocalServer | None = None,
    elected: Elected | None = None,
    sleep: Callable[[list[float], float], Any] | None = None,
    **more: Any,
) -> AsyncIterator[Running]:
    """sleep: instead of a pause that ends at once. more: of the LocalServer."""
    its_own = server is None
    server = server or LocalServer(**more)
    if its_own:
        await server.start()
    slept: list[float] = []

    async def pause(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0) if sleep is None else await sleep(slept, seconds)

    named = [(f"test{number or ''}:app", app) for number, app in enumerate(apps)]
    served = serve_apps(named, server.engine, server.environment, elected, sleep=pause)
    tasks = [asyncio.create_task(run()) for _, run in served]
    await settled()
    try:
        yield Running(server, slept)
    finally:
        server.end_watches()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if its_own:
            await server.stop()
