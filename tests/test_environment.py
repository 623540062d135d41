"""What `make` says where the environment can't be made, in one line each, and that it leaves nothing half made."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import environment

REASONS = {
    "no network": (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError'\n"
        "ERROR: Could not find a version that satisfies the requirement jh2<5.1,>=5.0.13 (from versions: none)\n"
        "ERROR: No matching distribution found for jh2<5.1,>=5.0.13\n",
        "jh2<5.1,>=5.0.13 could not be had from the package index: is there a network?",
    ),
    "an older pip": (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError': /hatchling/\n"
        "ERROR: Cannot install hatchling because these package versions have conflicting dependencies.\n"
        "ERROR: ResolutionImpossible: for help visit https://pip.pypa.io\n",
        "hatchling could not be had from the package index: is there a network?",
    ),
    "the connection breaks off": (
        "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(): Max retries exceeded with url: /y\n",
        "a package could not be had from the package index: is there a network?",
    ),
    "no space": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
        "no space is left on the device",
    ),
    "anything else": ("something\nERROR: it is broken\n", "python -m pip failed: ERROR: it is broken"),
    "silence": ("", "python -m pip failed: nothing was printed"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "environment"


def made(folder: Path) -> int:
    return environment.main([str(folder), "ready-1"])


def install_nothing(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """A venv that is an empty folder, and what would be installed into it."""
    installed: list[tuple[str, ...]] = []

    def run(module: str, *arguments: str, with_python: str) -> None:
        installed.append(arguments)
        if module == "venv":
            Path(arguments[0]).mkdir()

    monkeypatch.setattr(environment, "_run", run)
    return installed


@pytest.mark.parametrize(("output", "expected"), REASONS.values(), ids=REASONS)
def test_the_reason_is_one_line(output: str, expected: str) -> None:
    assert environment._reason("pip", output) == expected


def test_an_index_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    with pytest.raises(environment.EnvironmentFailed, match=r"^no-such-package could not be had from the package index"):
        environment._install(sys.executable, "no-such-package")


def test_a_python_that_is_too_old(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 2))
    assert made(folder) == 1
    assert capsys.readouterr().err == f"Python 3.11 or newer is needed, and {sys.executable} is 3.10\n"


def test_no_space(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5_000_000))
    assert made(folder) == 1
    assert capsys.readouterr().err == f"no space: {folder} needs 700 MB, and 5 MB are free here\n"
    assert not folder.exists()


def test_a_failure_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(python: str, *what: str) -> None:
        assert folder.exists()
        raise environment.EnvironmentFailed("jh2 could not be had")

    install_nothing(monkeypatch)
    monkeypatch.setattr(environment, "_install", fail)
    assert made(folder) == 1
    assert capsys.readouterr().err == "jh2 could not be had\n"
    assert not folder.exists()


def test_it_is_made_once_and_anew_after_a_run_that_was_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = install_nothing(monkeypatch)
    folder.mkdir()
    (folder / "of the run that was killed").touch()
    assert made(folder) == 0
    assert [path.name for path in folder.iterdir()] == ["ready-1"]
    count = len(installed)
    assert made(folder) == 0
    assert len(installed) == count


def test_a_second_one_waits(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def flock(file: int, how: int) -> None:
        asked.append(how)
        if how & environment.fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(environment.fcntl, "flock", flock)
    install_nothing(monkeypatch)
    assert made(folder) == 0
    assert asked == [environment.fcntl.LOCK_EX | environment.fcntl.LOCK_NB, environment.fcntl.LOCK_EX]
    assert capsys.readouterr().out.startswith(f"another make in this folder is making {folder}: waiting for it\n")
