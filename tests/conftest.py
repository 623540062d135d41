"""Options, marks and the session fixtures of all tests.

Whatever is in tests/integration is marked `integration`, runs last, and may ask for `control_plane`; a test elsewhere that asks
for it without the mark is refused, so that `make test` never starts one. A control plane that can't be had is an error, never a
skip.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path

import pytest

from tests import records
from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import Cluster, ExistingCluster
from tests.controlplane.plane import ControlPlane
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer
from tests.progress import Progress
from tests.property import profile

INTEGRATION = Path(__file__).with_name("integration")
# The folder for the records of tests that fail: pytest keeps those of the last three runs.
FAILURES = pytest.StashKey[Path]()

_SHOWN_EXCHANGES = 3

# The modules beside a control plane that take longest. They begin first, so that in the end no process works alone: each takes a
# module as a whole.
FIRST = (
    "test_same_answers",
    "test_conformance",
    "test_adoption_interference",
    "test_history",
    "test_versions",
    "test_adoption_corpus",
    "test_adoption",
    "test_broken_webhook",
    "test_same_kubectl",
    "test_same_webhooks",
    "test_same_policies",
    "test_adoption_full",
    "test_same_rules",
    "test_etcd_store",
    "test_page_schemas",
    "test_aggregated",
)

profile.load(profile.TESTS)

# A shell without job control ignores interrupts in what it runs in the background, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run the integration tests that use the server of this cluster, and no others"
    parser.addoption("--kubeconfig", type=Path, metavar="FILE", help=text)
    parser.addoption("--counts", type=Path, metavar="FILE", help="write how many tests passed and failed to this file")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    # The processes of pytest-xdist show nothing themselves, and with -v somebody wants to see each test.
    if reporter is not None and not hasattr(config, "workerinput") and config.get_verbosity() < 0:
        config.pluginmanager.register(Progress(reporter, config.getoption("--counts")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if INTEGRATION in item.path.parents:
            item.add_marker("integration")
        elif "control_plane" in getattr(item, "fixturenames", ()) and not _is_integration(item):
            raise pytest.UsageError(
                f"{item.nodeid} needs the control plane: move it to tests/integration or mark it `integration`"
            )
    if config.getoption("--kubeconfig") is not None:
        others = [item for item in items if not _is_for_any_cluster(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_for_any_cluster(item)]
    items.sort(key=lambda item: (_is_integration(item), _place(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    records.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last requests of a test that failed, and where the servers' log lines of this test are."""
    report = yield
    if report.failed:
        if last := records.last_exchanges(_SHOWN_EXCHANGES):
            report.sections.append((f"the last {_SHOWN_EXCHANGES} requests and their answers", last))
        folder = item.config.stash[FAILURES]
        if path := records.write(folder, f"{item.nodeid}-{report.when}"):
            report.sections.append(("all requests, and what the servers logged during this test", str(path)))
    # What a test has logged may hold halves of surrogates, which pytest-xdist could not send to the process that reports.
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session", autouse=True)
def _folder_for_failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    request.config.stash[FAILURES] = tmp_path_factory.getbasetemp() / "failures"


@pytest.fixture(autouse=True)
def _logs_end_with_the_test() -> Iterator[None]:
    """Remove the handler of a command that a test has run: its stream is closed, of which logging tells at length, each time."""
    yield
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster of this run: one control plane for all tests, or the one that --kubeconfig names."""
    given = request.config.getoption("--kubeconfig")
    say = _announcer(request.config)
    if given is not None:
        kubectl = shutil.which("kubectl")
        binary = Path(kubectl) if kubectl else obtain(os.environ, say).kubectl
        yield ExistingCluster(given, tmp_path_factory.mktemp("cluster"), binary)
        return
    with ControlPlane(obtain(os.environ, say)) as plane:
        yield plane


def _place(item: pytest.Item) -> int:
    return FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST)


def _is_for_any_cluster(item: pytest.Item) -> bool:
    """Whether a test uses the server of the cluster that it is given, and none of what only a cluster of our own has.

    What compares two servers, or starts a control plane itself, would show nothing of another cluster.
    """
    fixtures = set(getattr(item, "fixturenames", ()))
    return "aggregated" in fixtures and not fixtures & {"aggregation", "own_control_plane"}


def _is_integration(item: pytest.Item) -> bool:
    return item.get_closest_marker("integration") is not None


def _announcer(config: pytest.Config) -> Callable[[str], None]:
    """A function that prints past pytest's capture: minutes of building must not look like a hang."""
    capture = config.pluginmanager.getplugin("capturemanager")

    def say(text: str) -> None:
        with capture.global_and_fixture_disabled():
            print(text, file=sys.stderr, flush=True)

    return say


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    """A whole server in memory, with the namespace `default`, and no definitions."""
    server = LocalServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def client(server: LocalServer) -> Client:
    """Talks to `server` in process, as an administrator; `client.as_user(...)` as somebody else."""
    return server.client()
