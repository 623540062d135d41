"""The image by itself, where a Docker engine can be had: it builds, starts, serves, keeps its data and stops, without privileges.

Read-only and without capabilities, as deployment.yaml runs it. In a cluster: `make kind`.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import aggserver
from tests.integration.server import eventually
from tests.kind.engine import EngineError, engine, run
from tests.kind.images import Images, cache

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).parents[2]
IMAGE = "aggserver:test"
CRONTAB = REPOSITORY / "manifests" / "examples" / "crontab.yaml"
PORT = 6443
# As the Deployment's securityContext, and its volumes.
CONFINED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp", "--volume=/var/lib/aggserver")


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    with engine(cache(os.environ) / "docker", print):
        base = Images(os.environ, print).python("3.14")
        run("docker", "build", "--tag", IMAGE, "--build-arg", f"PYTHON={base}", REPOSITORY)
        yield IMAGE


class Container:
    """A standalone server. `url`: from this machine."""

    def __init__(self, image: str) -> None:
        # Its own definitions come by standard input, so that no file of this machine must be readable for its user.
        serve = ("dev", "--bind-address=0.0.0.0", f"--secure-port={PORT}", "--data=/var/lib/aggserver")
        self.id = run("docker", "run", "--detach", *CONFINED, image, *serve).strip()
        self.wait_until_ready()

    @property
    def url(self) -> str:
        (state,) = json.loads(run("docker", "inspect", self.id))
        return f"https://{state['NetworkSettings']['IPAddress']}:{PORT}"

    def wait_until_ready(self) -> None:
        eventually(lambda: self.get("/readyz") == "ok", "/readyz of the container")

    def get(self, path: str) -> str:
        """The answer's text; '' where none came."""
        context = ssl._create_unverified_context()  # only whether it answers: its CA is in its volume
        try:
            with urllib.request.urlopen(self.url + path, context=context, timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def python(self, code: str) -> str:
        return run("docker", "exec", self.id, "python", "-c", code)

    def log(self) -> str:
        done = subprocess.run(["docker", "logs", self.id], capture_output=True, text=True, check=True)
        return done.stdout + done.stderr


@pytest.fixture
def container(image: str) -> Iterator[Container]:
    made = Container(image)
    try:
        yield made
    finally:
        run("docker", "rm", "--force", "--volumes", made.id)


def test_what_it_says_of_itself(image: str) -> None:
    (described,) = json.loads(run("docker", "image", "inspect", image))
    config = described["Config"]
    assert config["User"] == "65532:65532"
    assert (config["Entrypoint"], config["Cmd"], config["StopSignal"]) == (["aggserver"], ["serve"], "SIGTERM")
    assert run("docker", "run", "--rm", *CONFINED, image, "version").startswith("aggserver ")


def test_licences_are_in_it(image: str) -> None:
    find = "import importlib.metadata as m; print(*sorted(f.name for f in m.files('aggserver') if 'licenses' in f.parts))"
    assert run("docker", "run", "--rm", *CONFINED, "--entrypoint=python", image, "-c", find).split() == ["LICENSE", "NOTICE"]


def test_without_a_cluster_it_says_what_to_do(image: str) -> None:
    with pytest.raises(EngineError, match="kubeconfig"):
        run("docker", "run", "--rm", *CONFINED, image)


def test_it_serves_without_privileges(container: Container) -> None:
    assert '"gitVersion"' in container.get("/version")
    status = container.python("print(open('/proc/1/status').read())")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split()[0] == "65532"
    assert (fields["CapEff"], fields["CapBnd"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1")
    assert "Read-only file system" in container.python(
        "try:\n open('/opt/aggserver/x', 'w')\nexcept OSError as error:\n print(error)"
    )


def test_it_stops_by_itself_and_starts_over_its_data(container: Container) -> None:
    keys = "import glob; print(sorted(open(f).read() for f in glob.glob('/var/lib/aggserver/**/*.crt', recursive=True)))"
    before = container.python(keys)
    run("docker", "stop", "--time=30", container.id)
    (state,) = json.loads(run("docker", "inspect", container.id))
    assert (state["State"]["ExitCode"], state["State"]["OOMKilled"]) == (0, False)
    run("docker", "start", container.id)
    container.wait_until_ready()
    assert container.python(keys) == before
    assert "Traceback" not in container.log()


# --- the image of a project ---

# With the server's kubeconfig, in the environment of the image: what the project's App serves, and whether httpx can be imported.
ASK = """
import importlib.util
from kubernetes import client, config
config.load_kube_config()
notes = client.CustomObjectsApi()
body = {"apiVersion": "desk.example.com/v1", "kind": "Note", "metadata": {"name": "first"}, "text": "Hello"}
notes.create_namespaced_custom_object("desk.example.com", "v1", "default", "notes", body)
found = notes.list_namespaced_custom_object("desk.example.com", "v1", "default", "notes")
print([item["text"] for item in found["items"]], importlib.util.find_spec("httpx") is not None)
"""


@pytest.fixture(scope="module")
def project(image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `aggserver new` makes, over the image under the name that its Dockerfile has."""
    run("docker", "tag", image, f"aggserver:{aggserver.__version__}")
    folder = tmp_path_factory.mktemp("project")
    subprocess.run([sys.executable, "-m", "aggserver", "new", "desk"], cwd=folder, check=True)
    return folder / "desk"


def built(folder: Path, tag: str) -> str:
    run("docker", "build", "--tag", tag, folder)
    return tag


def asked(tag: str) -> str:
    # Its certificates are in a temporary folder, as all data of a server for one command.
    return run("docker", "run", "--rm", *CONFINED, tag, "dev", "--app=desk:app", "--", "python", "-c", ASK)


def test_a_new_project(project: Path) -> None:
    tag = built(project, "desk:test")
    assert asked(tag).splitlines()[-1] == "['Hello'] False"
    # As it is deployed: it wants a cluster, and has found its App before that.
    with pytest.raises(EngineError, match="kubeconfig"):
        run("docker", "run", "--rm", *CONFINED, tag)


def test_a_project_with_another_package(project: Path) -> None:
    page = (REPOSITORY / "docs" / "python-running.md").read_text()
    lines = re.search(r"```text\n(USER root\n.*?)```", page, re.DOTALL)
    assert lines is not None
    dockerfile = (project / "Dockerfile").read_text()
    (project / "Dockerfile").write_text(dockerfile.replace("CMD", lines.group(1) + "CMD"))
    tag = built(project, "desk:httpx")
    assert asked(tag).splitlines()[-1] == "['Hello'] True"
    (described,) = json.loads(run("docker", "image", "inspect", tag))
    assert described["Config"]["User"] == "65532:65532"
