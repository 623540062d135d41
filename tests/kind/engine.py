"""A Docker engine for the tests: the one that answers, or one of our own that ends with them.

Where nothing answers and this process is root, a dockerd is started with folders of its own: it does not disturb an engine that
the machine may have later. `install` brings what is missing from Debian's packages, or the error says what to install.
Source: dockerd(8), Debian's docker.io 20.10.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

__all__ = ["EngineError", "engine", "install", "run", "why_not"]

Say = Callable[[str], None]

# What is needed, and Debian's packages that have it: for an engine of our own, and for images that no registry gives, a root file
# system and one program in C.
OF_AN_ENGINE = {"dockerd": ("docker.io",), "docker": ("docker.io",), "runc": ("runc",), "iptables": ("iptables",)}
OF_IMAGES = {"mmdebstrap": ("mmdebstrap",), "gcc": ("gcc", "libc6-dev")}
PROGRAMS = {**OF_AN_ENGINE, **OF_IMAGES}
PACKAGES = tuple(dict.fromkeys(package for packages in PROGRAMS.values() for package in packages))
# Since Debian 13 docker.io only recommends the client, which is a package of its own.
CLIENT = "docker-cli"
# Of apt-get: nobody answers questions, also not about configuration files, and another apt may be at work.
QUIETLY = (
    *("-q", "-y", "--no-install-recommends"),
    *("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=300"),
)
LIMITED_RUNC = Path(__file__).with_name("node") / "runc"
START_SECONDS = 60.0
LOOK_SECONDS = 0.2
STOP_SECONDS = 60.0
ALL_CAPABILITIES = "/proc/sys/kernel/cap_last_cap"


class EngineError(RuntimeError):
    """There is no Docker engine and none can be started, or one of its commands failed; the text says why and what helps."""


def run(*command: str | Path, environment: dict[str, str] | None = None, stdin: bytes | None = None) -> str:
    """Run a command to its end and return what it printed. Raises EngineError, with the end of that, or if there is none."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=environment,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        package = f" (Debian: {' '.join(PROGRAMS[words[0]])})" if words[0] in PROGRAMS else ""
        raise EngineError(f"this needs {words[0]}, and PATH has none{package}") from None
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        said = (output + done.stderr.decode(errors="replace")).strip().splitlines()
        raise EngineError("\n".join([f"`{' '.join(words)}` failed with status {done.returncode}:", *said[-20:]]))
    return output


def install(say: Say) -> None:
    """Install what is missing of Debian's packages; of an engine nothing if one answers.

    Raises EngineError if this process may not, or there is no Debian. It does not where an engine answers: a registry may give
    all images, and whoever must make one says what PATH lacks.
    """
    packages = _missing()
    if not packages:
        return
    if os.geteuid() or shutil.which("apt-get") is None:
        if _answers():
            return
        raise EngineError(f"this needs a Docker engine; install and start one (Debian: apt-get install {' '.join(PACKAGES)})")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    say("reading Debian's lists of packages")
    run("apt-get", "update", "-q", "-o", "DPkg::Lock::Timeout=300", environment=environment)
    say(f"installing {' '.join(packages)}, a minute or two")
    run("apt-get", "install", *QUIETLY, *packages, environment=environment)
    if shutil.which("docker") is None:
        run("apt-get", "install", *QUIETLY, CLIENT, environment=environment)
    if lacking := _missing():
        raise EngineError(
            f"apt-get has installed {' '.join(packages)}, and PATH still lacks what {' '.join(lacking)} should have"
        )


def _missing() -> list[str]:
    """The packages of the programs that are needed and not on PATH."""
    needed = OF_IMAGES if _answers() else PROGRAMS
    lacking = [packages for program, packages in needed.items() if shutil.which(program) is None]
    return list(dict.fromkeys(package for packages in lacking for package in packages))


def why_not() -> str:
    """Why `engine` would have none; '' if one answers or can be started."""
    if _answers():
        return ""
    if os.geteuid():
        return "no Docker engine answers (see `docker info`), and only root can start one: start it, then try again"
    lacking = [program for program in ("docker", "dockerd", "runc", "iptables") if shutil.which(program) is None]
    return f"no Docker engine answers, and PATH has no {', '.join(lacking)} (Debian: package docker.io)" if lacking else ""


@contextlib.contextmanager
def engine(folder: Path, say: Say, *, keep: bool = False) -> Iterator[None]:
    """A Docker engine for as long as the block runs, named by DOCKER_HOST where it is our own.

    folder: where our own keeps its images, which stay there for the next time, and its log. keep: our own is not ended, and the
    next run uses it. Raises EngineError.
    """
    if _answers():
        yield
        return
    if reason := why_not():
        raise EngineError(reason)
    folder.mkdir(parents=True, exist_ok=True)
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = f"unix://{folder / 'socket'}"
    try:
        with _alone(folder, say):
            if _answers():  # it was kept
                yield
            else:
                with _started(folder, say, keep):
                    yield
    finally:
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before


@contextlib.contextmanager
def _alone(folder: Path, say: Say) -> Iterator[None]:
    """One run at a time uses an engine of ours, since it ends it."""
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run of these tests uses the Docker engine in {folder}: waiting until it has ended")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _started(folder: Path, say: Say, keep: bool) -> Iterator[None]:
    log = folder / "dockerd.log"
    say(f"starting dockerd in {folder}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(folder), stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace").strip().splitlines()[-5:]
                raise EngineError("\n".join(["dockerd did not start; the end of its log:", *said]))
        yield
    finally:
        if keep:
            say(f"kept: export DOCKER_HOST={os.environ['DOCKER_HOST']}; end it with: kill {process.pid}")
        else:
            say("ending dockerd")
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _command(folder: Path) -> Sequence[str]:
    places = ["--data-root", str(folder / "data"), "--exec-root", str(folder / "exec"), "--pidfile", str(folder / "pid")]
    command = ["dockerd", *places, "--host", f"unix://{folder / 'socket'}"]
    if not _may_all():
        command += ["--add-runtime", f"limited={LIMITED_RUNC}", "--default-runtime", "limited"]
    return command


def _may_all() -> bool:
    """Whether containers can be given every capability that the kernel knows, as --privileged asks for."""
    last = int(Path(ALL_CAPABILITIES).read_text())
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapBnd"))
    return int(line.split()[1], 16) == (1 << last + 1) - 1


def _answers() -> bool:
    if shutil.which("docker") is None:
        return False
    done = subprocess.run(["docker", "info"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0
