"""aggserver in the tests of operators and clients: a server to start and stop, and fixtures for pytest.

`Server` is for any framework. `plugin.py` has the fixtures; pytest loads it by itself, in every run of the environment that has
aggserver, so nothing is imported here before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aggserver.testing.plugin import server_fixture
    from aggserver.testing.server import Server, ServerError

__all__ = ["Server", "ServerError", "server_fixture"]


def __getattr__(name: str) -> object:
    if name == "server_fixture":
        from aggserver.testing.plugin import server_fixture

        return server_fixture
    if name in __all__:
        from aggserver.testing import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
