"""Which failures of kubectl are ones: with a program in its place that fails the first time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster

NULL = "error: .status.conditions accessor error: <nil> is of the type <nil>, expected []interface{}"


class Fake(Cluster):
    def _write_user(self, path: Path, name: str, groups: Sequence[str]) -> None:
        raise NotImplementedError


def cluster(folder: Path, said: str) -> Fake:
    """kubectl fails once, and says this."""
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\n[ -e {folder}/again ] && exit\ntouch {folder}/again\necho "{said}" >&2\nexit 1\n')
    program.chmod(0o755)
    return Fake(folder, program)


def test_wait_before_the_first_conditions(tmp_path: Path) -> None:
    assert cluster(tmp_path, NULL).kubectl("wait", "--for=condition=Established", "crd/a").returncode == 0


OTHERS = {
    "another command": (("get", "crd/a"), NULL),
    "another error": (("wait", "crd/a"), "error: timed out waiting for the condition on customresourcedefinitions/a"),
}


@pytest.mark.parametrize(("arguments", "said"), OTHERS.values(), ids=OTHERS)
def test_others_fail_at_once(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="exit code 1"):
        cluster(tmp_path, said).kubectl(*arguments)
