"""Operators with the clients of Rust, Java and JavaScript: each prints with `aggserver dev` what it prints with kube-apiserver.

kube-rs with its controller, the Java Operator SDK on fabric8's client, and the informers of @kubernetes/client-node.
Not in `make integration`, since they need other compilers, and minutes to build: `make operators` runs this file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.controlplane.binaries import cache_folder
from tests.controlplane.cluster import Cluster
from tests.integration.server import Standalone, running

SOURCES = Path(__file__).parent
_BUILD_SECONDS, _RUN_SECONDS = 1200, 240
# What one of them has waited for at its end, after its last object was deleted.
LAST = "the definition is gone"


def _rust(folder: Path) -> list[str]:
    _build(["cargo", "build", "--release", "--quiet"], folder)
    return [str(folder / "target" / "release" / "shops")]


def _java(folder: Path) -> list[str]:
    _build(["mvn", "-q", "-B", "compile", "dependency:build-classpath", "-Dmdep.outputFile=target/classpath"], folder)
    classes = f"{folder}/target/classes{os.pathsep}{(folder / 'target' / 'classpath').read_text().strip()}"
    return ["java", "-cp", classes, "shops.Main", str(_definition(folder, "java.example.com"))]


def _node(folder: Path) -> list[str]:
    _build(["npm", "ci", "--silent", "--no-audit", "--no-fund"], folder)
    return ["node", str(folder / "main.mjs"), str(_definition(folder, "node.example.com"))]


LANGUAGES: dict[str, Callable[[Path], list[str]]] = {"kube_rs": _rust, "java": _java, "node": _node}


def _definition(folder: Path, group: str) -> Path:
    manifest = folder / "shops.yaml"
    manifest.write_text((SOURCES / "shops.yaml").read_text().replace("GROUP", group))
    return manifest


def _build(command: Sequence[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise AssertionError(f"{command[0]} is needed on PATH to build {folder.name}")
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_BUILD_SECONDS, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}"


def built(language: str) -> list[str]:
    """The command of an operator. Compilers write beside the sources, so each content is built once in the cache."""
    sources = SOURCES / language
    total = hashlib.sha256((SOURCES / "shops.yaml").read_bytes())
    for file in sorted(each for each in sources.rglob("*") if each.is_file()):
        total.update(f"{file.relative_to(sources)}\0".encode() + file.read_bytes())
    folder = cache_folder(os.environ).with_name(f"{language}-{total.hexdigest()[:16]}")
    shutil.copytree(sources, folder, dirs_exist_ok=True)
    return LANGUAGES[language](folder)


def said(command: Sequence[str], kubeconfig: Path) -> list[str]:
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_RUN_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


@pytest.mark.integration
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_with_both(language: str, control_plane: Cluster, tmp_path: Path) -> None:
    command = built(language)
    with running(server := Standalone(tmp_path / "data")):
        ours = said(command, server.kubeconfig)
    assert ours == said(command, control_plane.kubeconfig)
    assert ours[-1] == LAST
