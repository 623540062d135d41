"""aggserver in the tests of operators and clients: a server to start and stop, clients of an App, and fixtures for pytest.

`Server` is for any framework, and so is `App.client`, which gives an `AppClient`; a `SyncClient` is one for plain functions.
`check_source` is for the functions of a virtual resource. `plugin.py` has the fixtures; pytest loads it by itself, in every run
of the environment that has aggserver, so nothing is imported here before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggserver.testing.client import AppClient, AppEvent
    from aggserver.testing.plugin import server_fixture
    from aggserver.testing.server import Server, ServerError
    from aggserver.testing.source_contract.check import check_source
    from aggserver.testing.sync_client import AppClients, SyncClient

__all__ = ["AppClient", "AppClients", "AppEvent", "Server", "ServerError", "SyncClient", "check_source", "server_fixture"]

# Public name -> its module.
_MODULES = {
    "AppClient": "aggserver.testing.client",
    "AppClients": "aggserver.testing.sync_client",
    "AppEvent": "aggserver.testing.client",
    "Server": "aggserver.testing.server",
    "ServerError": "aggserver.testing.server",
    "SyncClient": "aggserver.testing.sync_client",
    "check_source": "aggserver.testing.source_contract.check",
    "server_fixture": "aggserver.testing.plugin",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
