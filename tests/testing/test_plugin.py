"""The fixtures for pytest: runs of pytest within a test, with the plugin named twice where it is installed, too."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes.dynamic  # noqa: F401 - once here: a run of pytest within a test forgets what it has imported
import pytest
import yaml

from tests.command import REPOSITORY
from tests.fakes.definitions import CRONTABS, WIDGETS, crontab
from tests.waiting import HANG_SECONDS

pytest_plugins = ["pytester"]

NAME = "aggserver.testing.plugin"
# With the default of this ini option, pytest-asyncio warns of another one to come.
OPTIONS = ["-W", "error", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project of somebody who has installed aggserver, with definitions in `crds`."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    crds = pytester.mkdir("crds")
    (crds / "crontabs.yaml").write_text(yaml.safe_dump(CRONTABS))
    (crds / "widgets.yaml").write_text(yaml.safe_dump(WIDGETS))
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Here and not in a process of its own, which would import everything again."""
    return project.runpytest_inprocess(*arguments, "-p", NAME, *OPTIONS)


INI = """
[pytest]
asyncio_mode = auto
addopts = --strict-markers --strict-config
aggserver_definitions =
    crds/cron*.yaml
aggserver_arguments = --max-object-bytes 2000
"""

FIXTURES = """
import asyncio
import os
import pytest
from kubernetes import client, config, dynamic

CRONTABS = {"group": "stable.example.com", "version": "v1", "plural": "crontabs"}
CRONTAB = THE_CRONTAB
seen = []


def test_clients(aggserver_namespace, aggserver_core, aggserver_custom_objects, aggserver_client, aggserver_dynamic):
    seen.append(aggserver_namespace)
    assert aggserver_namespace.startswith("test-clients-")
    assert aggserver_namespace in [each.metadata.name for each in aggserver_core.list_namespace().items]
    made = aggserver_custom_objects.create_namespaced_custom_object(namespace=aggserver_namespace, body=CRONTAB, **CRONTABS)
    assert made["metadata"]["namespace"] == aggserver_namespace
    groups = client.ApisApi(aggserver_client).get_api_versions().groups
    assert "stable.example.com" in [group.name for group in groups]
    kind = aggserver_dynamic.resources.get(api_version="stable.example.com/v1", kind="CronTab")
    assert kind.get(name="one", namespace=aggserver_namespace).spec.cronSpec == "* * * * *"


@pytest.mark.parametrize("value", ["With [Brackets] / and a long text that has no place in a namespace"])
async def test_asyncio(aggserver, aggserver_namespace, value):
    seen.append(aggserver_namespace)
    assert aggserver.is_running
    assert aggserver_namespace.startswith("test-asyncio-with-brackets-and-a-long-text-that-h")
    await asyncio.sleep(0)


def test_each_has_a_namespace_of_its_own(aggserver_namespace, aggserver_core):
    seen.append(aggserver_namespace)
    assert len(set(seen)) == 3
    phases = {each.metadata.name: each.status.phase for each in aggserver_core.list_namespace().items}
    assert all(phases.get(name, "Terminating") == "Terminating" for name in seen[:2])


def test_kubeconfig(aggserver, aggserver_kubeconfig):
    assert os.environ["KUBECONFIG"] == str(aggserver_kubeconfig) == str(aggserver.kubeconfig)
    for load in (config.load_config, config.load_kube_config):
        configuration = client.Configuration()
        load(client_configuration=configuration)
        assert configuration.host == aggserver.url


def test_the_variable_is_as_before():
    assert os.environ["KUBECONFIG"] == "mine"
    assert config.KUBE_CONFIG_DEFAULT_LOCATION == config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION != "server.kubeconfig"
    assert not os.path.isabs(config.KUBE_CONFIG_DEFAULT_LOCATION)


def test_other_users(aggserver_client_as):
    api = client.AuthenticationV1Api(aggserver_client_as("jane", "team-a", "team-b"))
    me = api.create_self_subject_review(client.V1SelfSubjectReview()).status.user_info
    assert (me.username, sorted(me.groups)) == ("jane", ["system:authenticated", "team-a", "team-b"])


def test_arguments(aggserver_custom_objects):
    body = {**CRONTAB, "spec": {"cronSpec": "*" * 2000}}
    with pytest.raises(client.ApiException) as refused:
        aggserver_custom_objects.create_namespaced_custom_object(namespace="default", body=body, **CRONTABS)
    assert refused.value.status == 413
""".replace("THE_CRONTAB", json.dumps(crontab()))


def test_fixtures(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "mine")
    project.makefile(".ini", pytest=INI)
    project.makepyfile(FIXTURES)
    run(project).assert_outcomes(passed=7)


def test_definitions_by_marker(project: pytest.Pytester) -> None:
    """Those of the module come before those of the test, which has them before all its other fixtures."""
    project.makepyfile(f"""
        import pathlib
        import pytest

        pytestmark = pytest.mark.aggserver_definitions("crds/w*.yaml")
        NAMESPACE = {{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "team"}}}}
        CRONTAB = {json.dumps({**crontab(), "metadata": {"name": "one", "namespace": "team"}})}
        HERE = pathlib.Path(__file__).parent

        def kinds(api):
            return [each["name"] for each in api.get_api_resources("stable.example.com", "v1").to_dict()["resources"]]

        def test_of_the_module(aggserver_custom_objects):
            assert kinds(aggserver_custom_objects) == ["widgets"]

        @pytest.fixture
        def the_crontab(aggserver_custom_objects):
            return aggserver_custom_objects.get_namespaced_custom_object("stable.example.com", "v1", "team", "crontabs", "one")

        @pytest.mark.aggserver_definitions(HERE / "crds", NAMESPACE, CRONTAB)
        @pytest.mark.parametrize("number", [1, 2])
        def test_of_the_test(the_crontab, number):
            assert the_crontab["spec"] == CRONTAB["spec"]
    """)
    run(project, "--strict-markers").assert_outcomes(passed=3)


IN_EACH_MODULE = """
from conftest import seen

def test_first(aggserver, aggserver_custom_objects):
    seen.append(aggserver)
    resources = aggserver_custom_objects.get_api_resources("stable.example.com", "v1").resources
    assert sorted(each.name for each in resources if "/" not in each.name) == KINDS

def test_second(aggserver):
    assert seen[-1] is aggserver
"""
OWN = """
from aggserver.testing import server_fixture

aggserver = server_fixture(scope="module", definitions=["crds/cron*.yaml"], arguments=["--log-level=debug"])
KINDS = ["crontabs", "widgets"]
"""
AFTERWARDS = """
def test_which():
    first, own, again = seen
    assert first is again is not own
    assert first.is_running and not own.is_running
"""


def test_a_server_for_a_module(project: pytest.Pytester) -> None:
    """Which the other fixtures use, too; other modules go on with that of the session."""
    project.makefile(".ini", pytest="[pytest]\naggserver_definitions = crds/w*.yaml\n")
    of_the_session = "KINDS = ['widgets']" + IN_EACH_MODULE
    project.makepyfile(
        conftest="seen = []", test_a=of_the_session, test_b=OWN + IN_EACH_MODULE, test_c=of_the_session + AFTERWARDS
    )
    run(project).assert_outcomes(passed=7)


# --- failures ---


def test_a_failure_shows_the_log_of_its_server(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import os, signal

        def test_before(aggserver):
            pass

        def test_that_fails(aggserver):
            os.kill(aggserver.pid, signal.SIGTERM)
            os.waitid(os.P_PID, aggserver.pid, os.WEXITED | os.WNOWAIT)
            assert not "fine"

        def test_of_something_else():
            assert not "fine"
    """)
    done = run(project)
    done.assert_outcomes(passed=1, failed=2)
    text = done.stdout.str()
    assert text.count("log of aggserver during call") == text.count("stopped accepting connections") == 1
    assert "serving HTTPS" not in text  # that was before the test began


# name: (what is in pytest.ini, what the error says)
BROKEN = {
    "arguments": ("aggserver_arguments = --no-such-flag", "*ServerError: aggserver ended with status 2*"),
    "time": ("aggserver_start_seconds = 0", "*ServerError: aggserver was not ready within 0 s; it has logged nothing"),
    "a pattern": ("aggserver_definitions = crds/none*.yaml", "*aggserver_definitions: there is no */crds/none[*].yaml"),
}


@pytest.mark.parametrize(("ini", "told"), BROKEN.values(), ids=BROKEN)
def test_a_server_that_can_not_start(project: pytest.Pytester, ini: str, told: str) -> None:
    project.makefile(".ini", pytest=f"[pytest]\n{ini}\n")
    project.makepyfile("def test(aggserver): pass")
    done = run(project)
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([told])


# --- what others have of it ---


def test_the_entry_point() -> None:
    """Its name is that of the module, so that pytest does not take it for another plugin when somebody names the module."""
    points = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
    assert points == {"pytest11": {NAME: NAME}}


def test_named_twice(project: pytest.Pytester) -> None:
    """By the entry point and by `-p`, also where it is installed in neither or both."""
    installed = project.mkdir("installed") / "somebody-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{NAME} = {NAME}\n")
    project.syspathinsert(installed.parent)
    project.makepyfile("def test(pytestconfig): assert pytestconfig.pluginmanager.has_plugin(NAME)".replace("NAME", repr(NAME)))
    run(project).assert_outcomes(passed=1)
    project.runpytest_inprocess(*OPTIONS).assert_outcomes(passed=1)


def test_a_run_without_it_pays_nothing(project: pytest.Pytester) -> None:
    """Nothing of the package but the plugin is imported, and no test gets a fixture."""
    project.makepyfile("""
        import sys

        def test(request):
            assert request.fixturenames == ["request"]
            assert [name for name in sys.modules if name.startswith(("aggserver", "kubernetes", "yaml"))] == [
                "aggserver", "aggserver.testing", "aggserver.testing.plugin"
            ]
    """)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", NAME, "-p", "no:cacheprovider", "-p", "no:asyncio", "-q"],
        cwd=project.path,
        env={"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_help(project: pytest.Pytester) -> None:
    done = run(project, "--markers", "--fixtures", "-v")
    shown = done.stdout.str()
    assert "@pytest.mark.aggserver_definitions(*sources): " in shown
    assert done.ret == 0


def test_workers_have_a_server_each(project: pytest.Pytester) -> None:
    """pytest-xdist: no worker waits for another, and none deletes what another has."""
    project.makepyfile("""
        import pathlib
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test(aggserver, aggserver_namespace, worker_id, number):
            pathlib.Path(f"{worker_id}-{number}.txt").write_text(aggserver.url)
    """)
    done = project.runpytest_subprocess("-p", NAME, "-n", "2", *OPTIONS)
    done.assert_outcomes(passed=4)
    found = {(file.name.split("-")[0], file.read_text()) for file in Path(project.path).glob("gw*.txt")}
    assert len(found) == len({worker for worker, _ in found}) == 2
