"""`App.client`: a server of one App in this process, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aggserver.app.in_process import serving
from aggserver.authentication.user import UserInfo
from aggserver.resources.app import App
from aggserver.testing.client import AppClient, Shared

__all__ = ["client_of"]


@asynccontextmanager
async def client_of(
    app: App[Any], user: str, groups: Sequence[str], rules: Sequence[Mapping[str, Any]] | None, *state: Any
) -> AsyncGenerator[AppClient, None]:
    """state: what replaces the lifespan's, if there is any."""
    async with serving(app, *state) as server:
        declarations = [handle.declaration for handle in app.resources.values()]
        anybody = AppClient(Shared(server.asgi, declarations, server.rights.give), UserInfo("system:anonymous"))
        yield anybody.as_user(user, groups, rules=rules)
