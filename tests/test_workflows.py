""".github/workflows: that they do what .ci/run does, with no more rights than they need; tests/integration has actionlint."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kind.images import PYTHON_SUITES

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
# Whoever else's code runs in a workflow can do what its job may.
TRUSTED = re.compile(
    r"(actions/[\w-]+|docker/setup-(qemu|buildx)-action|pypa/gh-action-pypi-publish)@[\w./]+|\./\.github/workflows/\w+\.yml"
)
# What a job may beyond reading the repository, and what for.
RIGHTS: dict[str, dict[str, set[str]]] = {
    "ci": {},
    "kind": {},
    "release": {
        "packages": {"id-token", "attestations"},
        "publish": {"id-token"},
        "image": {"packages", "id-token", "attestations"},
        "release": {"contents"},
    },
}


def steps(workflow: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in WORKFLOWS[workflow]["jobs"].items():
        for step in job.get("steps", [job]):
            yield name, step


def test_every_workflow_is_known() -> None:
    assert set(WORKFLOWS) == set(RIGHTS)


@pytest.mark.parametrize("workflow", RIGHTS)
def test_jobs_may_only_what_they_need(workflow: str) -> None:
    assert WORKFLOWS[workflow]["permissions"] == {"contents": "read"}
    found = {}
    for name, job in WORKFLOWS[workflow]["jobs"].items():
        if writes := {right for right, level in job.get("permissions", {}).items() if level != "read"}:
            found[name] = writes
    assert found == RIGHTS[workflow]


@pytest.mark.parametrize("workflow", RIGHTS)
def test_no_strangers_code_and_no_lasting_credentials(workflow: str) -> None:
    used = [(step["uses"], step.get("with", {})) for _, step in steps(workflow) if "uses" in step]
    assert used
    for action, given in used:
        assert TRUSTED.fullmatch(action), action
        if action.startswith("actions/checkout"):
            assert given["persist-credentials"] is False


@pytest.mark.parametrize("workflow", RIGHTS)
def test_commands_are_those_of_the_makefile_and_of_scripts(workflow: str) -> None:
    """Expressions in a script would run whatever a branch or a tag is called; and each `make` has its target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for _, step in steps(workflow):
        assert "${{" not in step.get("run", "")
        assert set(re.findall(r"\bmake (\w+)", step.get("run", ""))) <= targets


def test_ci_is_what_ci_run_does() -> None:
    assert [step["run"] for name, step in steps("ci") if name == "everything" and "run" in step] == [".ci/run"]
    assert set(WORKFLOWS["ci"]["jobs"]["pythons"]["strategy"]["matrix"]["python"]) >= set(PYTHON_SUITES)


def test_nothing_is_released_untested() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    tests = {
        name for name, job in jobs.items() if job.get("uses") in ("./.github/workflows/ci.yml", "./.github/workflows/kind.yml")
    }
    assert len(tests) == 2
    for name, job in jobs.items():
        if name not in tests:
            assert set(job["needs"]) >= tests or set(job["needs"]) & {"packages", "publish"}
