"""Wheel and sdist: built, installed in an environment of their own with what they need from the package index, and used.

And the bill of materials of what is installed then, which the image has too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

import aggserver
from tests.packages import installed

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "manifests" / "examples" / "crontab.yaml"
CYCLONEDX = ROOT / "tests" / "cyclonedx" / "requirements.txt"

VALIDATE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))
"""

# By the clients' own means, in the environment with the wheel and nothing of this checkout.
USE = """
import os, sys
from kubernetes import client, config
import aggserver.cel, aggserver.testing
assert sys.prefix in aggserver.cel.__file__, aggserver.cel.__file__
config.load_kube_config()
crontabs = client.CustomObjectsApi()
place = ("stable.example.com", "v1", "default", "crontabs")
crontabs.create_namespaced_custom_object(*place, {
    "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "mine"}, "spec": {"cronSpec": "* * * * *"}})
print([item["metadata"]["name"] for item in crontabs.list_namespaced_custom_object(*place)["items"]])
"""


def run(*command: str | Path, folder: Path = ROOT, **more: Any) -> str:
    """Without the paths to this checkout that tests may have."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of this checkout, and the wheel that is built of it, as `python -m build` does."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder, folder=unpacked)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new one with the wheel, in the versions of constraints.txt."""
    folder = tmp_path_factory.mktemp("installed") / "environment"
    venv.create(folder, with_pip=False)
    constraints = ("--constraint", ROOT / "constraints.txt")
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet")
    run(*pip, "--disable-pip-version-check", *constraints, f"{built[1]}[etcd,pytest]")
    return folder


def test_the_wheel_has_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
        metadata = message_from_string(wheel.read(f"aggserver-{aggserver.__version__}.dist-info/METADATA").decode())
    there = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "aggserver").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == there
    assert {Path(name).name for name in names - there} == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "LICENSE", "NOTICE"}
    assert (metadata["Version"], metadata["License-Expression"]) == (aggserver.__version__, "Apache-2.0")
    assert set(metadata.get_all("Provides-Extra") or ()) >= {"etcd", "pytest"}


def test_the_sdist_has_what_the_pages_and_the_makefile_name(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    for name in (
        "Makefile",
        "mkdocs.yml",
        "Dockerfile",
        "constraints.txt",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        ".ci/run",
    ):
        assert name in names
    for folder in ("docs", "manifests", "tests", "requirements", ".github"):
        missing = {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if _is_source(path)} - names
        assert missing == set()


_CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}


def _is_source(path: Path) -> bool:
    is_other_s = path.parent == ROOT / "tests" / "corpus" and path.suffix == ".xz"
    return path.is_file() and not _CACHES.intersection(path.parts) and not is_other_s


def test_what_is_installed_serves(environment: Path, tmp_path: Path) -> None:
    program, python = environment / "bin" / "aggserver", environment / "bin" / "python"
    assert aggserver.__version__ in run(program, "version", folder=tmp_path)
    options = ("dev", "-f", EXAMPLE, "--data", tmp_path / "data", "--secure-port", "0")
    assert "['mine']" in run(program, *options, "--", python, "-c", USE, folder=tmp_path)


def test_the_bill_of_materials_is_of_what_is_installed(environment: Path) -> None:
    """The image's is made by the same program of its environment (Dockerfile)."""
    text = run(sys.executable, ROOT / "requirements" / "sbom.py", environment)
    bill = json.loads(text)
    listed = json.loads(run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "list", "--format", "json"))
    ours = bill["metadata"]["component"]
    python = {each["name"]: each["version"] for each in (*bill["components"], ours) if each["purl"].startswith("pkg:pypi/")}
    assert python == {each["name"].lower().replace("_", "-").replace(".", "-"): each["version"] for each in listed}
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert any(reference.startswith("pkg:pypi/grpcio@") for reference in needs[ours["bom-ref"]])
    assert all("licenses" in each for each in bill["components"] if each["purl"].startswith("pkg:pypi/"))
    folder = installed("cyclonedx", CYCLONEDX, os.environ, print)
    command = [sys.executable, "-c", VALIDATE]
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    said = subprocess.run(command, input=text, env=environ, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "None", said.stdout
