"""What stands in the way of `make kind`: one line that says what to do, before anything is made."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from tests.kind import engine
from tests.kind.__main__ import look_at_the_machine
from tests.kind.cluster import KindCluster

_Usage = namedtuple("_Usage", "total used free")


def _program(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("user", "programs", "expected"),
    [
        pytest.param(
            1000, ["docker", "dockerd", "runc", "iptables"], "only root can start one", id="no engine answers, not root"
        ),
        pytest.param(0, ["docker"], "PATH has no dockerd, runc, iptables (Debian: package docker.io)", id="only the client"),
        pytest.param(0, [], "PATH has no docker, dockerd, runc, iptables", id="nothing"),
        pytest.param(0, ["docker", "dockerd", "runc", "iptables"], "", id="one can be started"),
    ],
)
def test_no_engine(user: int, programs: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in programs:
        _program(tmp_path / "bin", name, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    reason = engine.why_not()
    assert expected in reason
    assert bool(reason) == bool(expected)
    assert "\n" not in reason


def test_an_engine_that_answers_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "bin", "docker", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert engine.why_not() == ""
    with engine.engine(tmp_path / "own", print):
        assert "DOCKER_HOST" not in os.environ
    assert not (tmp_path / "own").exists()


def test_an_engine_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docker", "runc", "iptables"):
        _program(tmp_path / "bin", name, "exit 1")
    _program(tmp_path / "bin", "dockerd", "echo failed to start daemon: no space >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(engine.EngineError, match="failed to start daemon: no space"), engine.engine(tmp_path / "own", print):
        pytest.fail("there is none")
    assert "DOCKER_HOST" not in os.environ


def test_nobody_who_may_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(engine.EngineError, match=r"apt-get install docker\.io"):
        engine.install(print)


def _apt(folder: Path, *, with_client: bool) -> Path:
    """apt-get, which notes how it was called, and installs programs that do nothing. with_client: in docker.io, as once."""
    calls, programs = folder / "calls", folder / "bin"
    of_docker = "dockerd docker" if with_client else "dockerd"
    text = f"""
[ "$DEBIAN_FRONTEND" = noninteractive ] || exit 1
! read -r answer || exit 1
echo "$*" >> {calls}
[ "$1" = install ] || exit 0
case " $* " in *" -y "*) ;; *) exit 1 ;; esac
for word; do
  made=$word
  case "$word" in docker.io) made="{of_docker}" ;; docker-cli) made=docker ;; -*|*=*|install|libc6-dev) made= ;; esac
  for each in $made; do printf "#!/bin/sh\\n" > {programs}/$each; chmod +x {programs}/$each; done
done"""
    _program(programs, "apt-get", text)
    for needed in ("chmod", "sh"):
        (programs / needed).symlink_to(f"/bin/{needed}")
    return calls


@pytest.mark.parametrize("with_client", [True, False], ids=["Debian 12", "Debian 13"])
def test_all_is_installed_from_nothing(with_client: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked anything, and the client comes from wherever Debian has it."""
    calls = _apt(tmp_path, with_client=with_client)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said: list[str] = []
    engine.install(said.append)
    assert [shutil.which(program) is not None for program in engine.PROGRAMS] == [True] * len(engine.PROGRAMS)
    words = [line.split() for line in calls.read_text().splitlines()]
    assert [each[0] for each in words] == ["update", "install"] + ["install"] * (not with_client)
    assert words[1][-len(engine.PACKAGES) :] == [*engine.PACKAGES]
    assert len(said) == 2
    # The second time there is nothing to do.
    engine.install(said.append)
    assert len(said) == 2


def test_only_what_is_missing_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = _apt(tmp_path, with_client=True)
    for program in ("docker", "dockerd", "runc", "iptables", "gcc"):
        _program(tmp_path / "bin", program, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    engine.install(print)
    assert calls.read_text().split()[-1] == "mmdebstrap"
    assert "docker.io" not in calls.read_text()


@pytest.mark.parametrize("user", [0, 1000])
def test_an_engine_that_answers_needs_no_other(user: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may install gets what makes images; for others that is missing only once an image must be made."""
    calls = _apt(tmp_path, with_client=True)
    _program(tmp_path / "bin", "docker", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    engine.install(print)
    assert calls.exists() == (user == 0)
    assert shutil.which("dockerd") is None
    if user:
        with pytest.raises(engine.EngineError, match=r"needs mmdebstrap, and PATH has none \(Debian: mmdebstrap\)"):
            engine.run("mmdebstrap", "--version")


def test_what_apt_says_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path / "bin", "apt-get", "echo 'E: Could not resolve deb.debian.org' >&2; exit 100")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(engine.EngineError, match=r"(?s)apt-get update.*status 100.*Could not resolve"):
        engine.install(print)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: _Usage(1 << 40, 1 << 40, 3 << 30))
    with pytest.raises(engine.EngineError, match=r"12 GiB of disk .* 3 GiB are free"):
        look_at_the_machine(tmp_path, tmp_path.parent)


def test_no_cgroups(tmp_path: Path) -> None:
    for place in (tmp_path / "missing", tmp_path):
        with pytest.raises(engine.EngineError, match="needs cgroups"):
            look_at_the_machine(tmp_path, place)


def test_a_cluster_of_that_name(tmp_path: Path) -> None:
    """It is somebody's, and stays."""
    asked = tmp_path / "asked"
    kind = _program(tmp_path / "bin", "kind", f'echo "$1 $2" >> {asked}; echo others; echo aggserver-test')
    cluster = KindCluster(kind, kind, tmp_path, print)
    with (
        pytest.raises(engine.EngineError, match="kind delete cluster --name aggserver-test"),
        cluster.running("node", tmp_path / "kind.yaml", keep=False),
    ):
        pytest.fail("it is not ours")
    assert asked.read_text() == "get clusters\n"


def test_a_cluster_that_can_not_be_created(tmp_path: Path) -> None:
    """What is left of it goes."""
    asked = tmp_path / "asked"
    kind = _program(tmp_path / "bin", "kind", f'echo "$1 $2" >> {asked}; [ "$1" != create ] || {{ echo no node >&2; exit 1; }}')
    cluster = KindCluster(kind, kind, tmp_path, print)
    with (
        pytest.raises(engine.EngineError, match="no node"),
        cluster.running("node", tmp_path / "kind.yaml", keep=False),
    ):
        pytest.fail("there is none")
    assert asked.read_text().splitlines()[-1] == "delete cluster"
