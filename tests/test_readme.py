"""README.md: its snippets for tests are run as they stand there. The one of Go is in tests/integration/test_readme_go.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

from tests.shell import Shell
from tests.waiting import HANG_SECONDS

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
PYTHON = dict(re.findall(r"```python\n# (test_\S+)\n(.*?)```", README, re.DOTALL))
[INI] = re.findall(r"```text\n# pytest.ini\n(.*?)```", README, re.DOTALL)
INSTALL = "pip install ."
COMMAND = "aggserver dev -f crd.yaml -- pytest"
RUNS = [INSTALL, COMMAND]
EXAMPLE = REPOSITORY / "manifests" / "examples" / "crontab.yaml"
# Of the environment that the tests run in, which is where a user has installed it.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project as README.md has it."""
    (tmp_path / "pytest.ini").write_text(INI)
    for name, text in PYTHON.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "crd.yaml").write_bytes(EXAMPLE.read_bytes())
    return tmp_path


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": PATH, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder)}
    environment["PYTEST_ADDOPTS"] = "-p no:asyncio -p no:cacheprovider"  # what our own tests have, and a project needn't have
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_fixture(project: Path) -> None:
    assert set(PYTHON) == {"test_crontab.py"}
    assert "1 passed" in run([sys.executable, "-m", "pytest", "-q", "-p", "aggserver.testing.plugin"], project).stdout


def test_a_server_for_one_command(project: Path) -> None:
    """The line of the shell, word for word; pytest has nothing to do but to see KUBECONFIG."""
    (project / "test_crontab.py").write_text(
        "import os, pathlib\ndef test(): assert pathlib.Path(os.environ['KUBECONFIG']).exists()"
    )
    done = run([sys.executable, "-m", *COMMAND.split()], project)
    assert "1 passed" in done.stdout
    assert done.stderr == ""
    assert {path.name for path in project.iterdir()} == {"crd.yaml", "pytest.ini", "test_crontab.py"}


def test_other_options_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    """What the text and the lines of the shell name."""
    from aggserver.cli import main

    with pytest.raises(SystemExit):
        main(["dev", "--help"])
    offered = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    section = README[README.index("## In your tests") : README.index("## Three modes")]
    named = set(re.findall(r"(?<=[` ])--[a-z][a-z-]+", section))
    assert named <= offered
    assert "--exit-with-parent" in named


def test_it_can_be_installed(tmp_path: Path) -> None:
    """`pip install .`, of which the dependencies are here already and the build backend too."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(tmp_path / "installed")]
    run([sys.executable, "-m", *INSTALL.split()[:-1], *options, str(REPOSITORY)], tmp_path)
    program = tmp_path / "installed" / "bin" / "aggserver"
    done = subprocess.run(
        [sys.executable, program, "--version"],
        env={"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        timeout=HANG_SECONDS,
    )
    assert done.stdout.startswith("aggserver ")


def test_the_first_command(tmp_path: Path) -> None:
    """`make dev`: one line with the address, and a kubeconfig by which the CronTabs of the page are found."""
    shell = Shell(tmp_path)
    dev = f"{shell.recipe('dev')} --secure-port 0"  # the port of the page may be taken
    with shell.running(dev, "aggserver serves https://127.0.0.1:") as line:
        kubeconfig = tmp_path / ".data" / "kubeconfig"
        assert line.endswith(f" (data: .data). Next: export KUBECONFIG={kubeconfig}; kubectl api-resources\n")
        assert "make dev " in README
        body = yaml.safe_load((REPOSITORY / "manifests" / "examples" / "my-crontab.yaml").read_text())
        with config.new_client_from_config(str(kubeconfig)) as api:
            objects = client.CustomObjectsApi(api)
            objects.create_namespaced_custom_object("stable.example.com", "v1", "default", "crontabs", body)
            found = objects.list_cluster_custom_object("stable.example.com", "v1", "crontabs")
        assert [each["metadata"]["name"] for each in found["items"]] == ["my-new-cron-object"]
