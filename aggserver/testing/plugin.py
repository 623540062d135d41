"""Fixtures for pytest: a server for a run, a namespace for each test, definitions, and clients.

pytest loads this module in every run of an environment that has aggserver. Runs that use none of the fixtures must not become
slower, so whatever the fixtures need is imported in them.

Each worker of pytest-xdist has a session of its own, and so its own server. All fixtures are plain functions, so pytest-asyncio
runs them outside of a test's event loop.
"""

from __future__ import annotations

import contextlib
import glob
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from kubernetes import client, dynamic

    from aggserver.testing.server import Server
    from aggserver.testing.sync_client import AppClients

__all__ = ["server_fixture"]

_MARKER = "aggserver_definitions"
_MARKED = "_aggserver_marked_definitions"
_SERVERS = pytest.StashKey[list["Server"]]()
# The size in bytes of each server's log when the test began.
_OFFSETS = pytest.StashKey[dict["Server", int]]()
# Modules of clients that read KUBECONFIG when they are imported, maybe before a test, and the name under which they keep it.
_READ_AT_IMPORT = tuple(f"{each}.config{below}" for each in ("kubernetes", "kubernetes.aio") for below in ("", ".kube_config"))
_LOCATION = "KUBE_CONFIG_DEFAULT_LOCATION"
# Namespaces have 63 characters at most; the server adds a hyphen and five of its own.
_PREFIX_LENGTH = 50


def pytest_addoption(parser: pytest.Parser) -> None:
    group = "aggserver, a Kubernetes API server for tests"
    parser.addini(
        _MARKER, f"{group}: manifests for each server: files, folders, patterns (below the root folder) and URLs", "linelist", []
    )
    parser.addini("aggserver_arguments", f"{group}: arguments for `aggserver dev`", "args", [])
    parser.addini("aggserver_start_seconds", f"{group}: limit of the time until it is ready", default="120")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(*sources): manifests that the server has before the test: files, folders, patterns (below the root folder), "
        "URLs, or objects as dicts",
    )
    config.stash[_SERVERS] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the fixture that reads the marker to tests that have it. An `autouse` fixture would be set up by every test."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker(_MARKER) is None:
            continue
        if _MARKED not in item.fixturenames:
            item.fixturenames.insert(0, _MARKED)


# --- what a failure shows ---


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_OFFSETS] = {server: server.log_bytes for server in item.config.stash[_SERVERS]}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show under a failed test what its server has logged during the test."""
    report = yield
    if report.failed:
        used = {id(value) for value in getattr(item, "funcargs", {}).values()}
        offsets = item.stash.get(_OFFSETS, {})
        for server in item.config.stash[_SERVERS]:
            if id(server) in used and (log := server.log_since(offsets.get(server, 0))):
                report.sections.append((f"log of aggserver during {report.when}", log))
    return report


# --- the server ---


def server_fixture(
    *,
    scope: Literal["session", "package", "module", "class", "function"] = "session",
    definitions: Sequence[str | Path | Mapping[str, Any]] = (),
    arguments: Sequence[str] = (),
) -> Any:
    """Make a fixture that is a running `Server`, started with the settings of the ini file and these in addition.

    Assigned to `aggserver` in a module or in the conftest.py of a folder, it is the server of the tests there: the other fixtures
    use whatever `aggserver` is.
    """

    @pytest.fixture(scope=scope)
    def aggserver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        """A running `aggserver.testing.Server`, by default one for all tests."""
        from aggserver.testing.server import Server

        config = request.config
        servers = config.stash[_SERVERS]
        with Server(
            _sources([*config.getini(_MARKER), *definitions], config.rootpath),
            arguments=[*config.getini("aggserver_arguments"), *arguments],
            folder=tmp_path_factory.mktemp("aggserver"),
            start_seconds=float(config.getini("aggserver_start_seconds")),
        ) as server:
            servers.append(server)
            yield server
            servers.remove(server)

    return aggserver


aggserver = server_fixture()


@pytest.fixture
def _aggserver_marked_definitions(request: pytest.FixtureRequest) -> None:
    """Applies the definitions that the markers of a test name, those of its module first."""
    sources = [source for marker in reversed(list(request.node.iter_markers(_MARKER))) for source in marker.args]
    if sources:
        request.getfixturevalue("aggserver").apply(*_sources(sources, request.config.rootpath))


def _sources(sources: Iterable[str | Path | Mapping[str, Any]], root: Path) -> Iterator[str | Path | Mapping[str, Any]]:
    for source in sources:
        if isinstance(source, Mapping) or str(source).startswith(("http://", "https://")):
            yield source
            continue
        path = root / source
        found = (
            [path] if path.exists() else [root / name for name in sorted(glob.glob(str(source), root_dir=root, recursive=True))]
        )
        if not found:
            pytest.fail(f"{_MARKER}: there is no {path}", pytrace=False)
        yield from found


@pytest.fixture
def aggserver_namespace(aggserver: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace for this test. Its deletion begins after the test, which does not wait for the end of it."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    with aggserver.namespace(words[:_PREFIX_LENGTH].strip("-") or "test") as name:
        yield name


@pytest.fixture
def aggserver_kubeconfig(aggserver: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an administrator's kubeconfig, to which KUBECONFIG is set during the test, for all clients that read it."""
    monkeypatch.setenv("KUBECONFIG", str(aggserver.kubeconfig))
    for name in _READ_AT_IMPORT:
        if hasattr(sys.modules.get(name), _LOCATION):
            monkeypatch.setattr(sys.modules[name], _LOCATION, str(aggserver.kubeconfig))
    return aggserver.kubeconfig


@pytest.fixture
def aggserver_app() -> Iterator[AppClients]:
    """Serves Apps in this process until the test ends. Called with an App, and perhaps a user, it returns a client.

    For tests that are plain functions; an async one needs no fixture: `async with app.client(user="ann") as ann`.
    """
    from aggserver.testing.sync_client import AppClients

    with AppClients() as clients:
        yield clients


# --- clients of the package kubernetes ---


@pytest.fixture
def aggserver_client(aggserver: Server) -> Iterator[client.ApiClient]:
    """An administrator's `kubernetes.client.ApiClient`, for any of its APIs: `AppsV1Api(aggserver_client)`."""
    with _client(aggserver.kubeconfig) as made:
        yield made


@pytest.fixture
def aggserver_core(aggserver_client: client.ApiClient) -> client.CoreV1Api:
    """A `kubernetes.client.CoreV1Api`."""
    from kubernetes import client

    return client.CoreV1Api(aggserver_client)


@pytest.fixture
def aggserver_custom_objects(aggserver_client: client.ApiClient) -> client.CustomObjectsApi:
    """A `kubernetes.client.CustomObjectsApi`."""
    from kubernetes import client

    return client.CustomObjectsApi(aggserver_client)


@pytest.fixture
def aggserver_dynamic(aggserver_client: client.ApiClient, tmp_path: Path) -> dynamic.DynamicClient:
    """A `kubernetes.dynamic.DynamicClient`, for all that the server serves."""
    from kubernetes import dynamic

    # By default, the client would use its cached discovery for the next server with the same port.
    return dynamic.DynamicClient(aggserver_client, cache_file=str(tmp_path / "discovery.json"))


@pytest.fixture
def aggserver_client_as(aggserver: Server) -> Iterator[Callable[..., client.ApiClient]]:
    """Makes the `kubernetes.client.ApiClient` of another user: `aggserver_client_as("jane", "team-a", "team-b")`, with groups."""
    with contextlib.ExitStack() as clients:

        def client_as(name: str, *groups: str) -> client.ApiClient:
            return clients.enter_context(_client(aggserver.user(name, groups)))

        yield client_as


def _client(kubeconfig: Path) -> client.ApiClient:
    from kubernetes import config

    return config.new_client_from_config(str(kubeconfig))
