"""Database: a PostgreSQL of one test, in a folder of its own, which can be killed and started again.

Debian's packages put the programs below /usr/lib/postgresql; root installs them where they are missing. PostgreSQL refuses to run
as root, so it runs as the user that its package has made.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.waiting import HANG_SECONDS, POLL_SECONDS

__all__ = ["Database", "DatabaseError", "install"]

EXAMPLE = Path(__file__).parents[2] / "manifests" / "examples" / "python" / "postgres"
PACKAGES = ("postgresql", "postgresql-client")
USER = "postgres"


class DatabaseError(RuntimeError):
    """There is no PostgreSQL and none can be installed, or it does not start; the text says why and what helps."""


def programs() -> Path | None:
    """The folder with initdb and postgres, of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def install(say: Callable[[str], None]) -> None:
    """Debian's packages where they are missing. Raises DatabaseError."""
    if programs() is not None:
        return
    if os.geteuid() or shutil.which("apt-get") is None:
        raise DatabaseError(f"this needs PostgreSQL: install it (Debian: apt-get install {' '.join(PACKAGES)})")
    say(f"installing {' '.join(PACKAGES)} by apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update", "-q"), ("install", "-q", "-y", "--no-install-recommends", *PACKAGES)):
        done = subprocess.run(["apt-get", *words], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DatabaseError(f"apt-get {' '.join(words)} failed:\n{(done.stdout + done.stderr)[-2000:]}")


class Database:
    """In a new folder, which `stop` removes. fsync is off: what a power failure would do to it is not what is tested."""

    def __init__(self) -> None:
        found = programs()
        if found is None:
            raise DatabaseError("PostgreSQL is not installed")
        self._programs = found
        # Not one of pytest's, which only root may enter.
        folder = Path(tempfile.mkdtemp(prefix="aggserver-postgres-"))
        self._data = folder / "data"
        self._log = folder / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        self._run("initdb", "-D", self._data, "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            user=self._user(),
            capture_output=True,
            text=True,
            check=False,
            cwd=self._data.parent,
        )
        if done.returncode:
            raise DatabaseError(f"{program} failed:\n{done.stdout}{done.stderr}")

    @staticmethod
    def _user() -> str | None:
        return USER if os.geteuid() == 0 else None

    def start(self) -> None:
        """Return when it answers."""
        settings = ("fsync=off", "listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self._data}")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *(word for each in settings for word in ("-c", each))],
                user=self._user(),
                cwd=self._data.parent,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + HANG_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                self.sql("select 1")
            except DatabaseError:
                time.sleep(POLL_SECONDS)
            else:
                return
        raise DatabaseError(f"PostgreSQL did not start:\n{self._log.read_text()[-2000:]}")

    def sql(self, statement: str) -> str:
        """Run statements as any other program does. Returns what they have printed. Raises DatabaseError."""
        psql = [str(self._programs / "psql"), self.address, "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
        done: subprocess.CompletedProcess[str] = subprocess.run(psql, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DatabaseError(done.stderr)
        return done.stdout.strip()

    def make_table(self) -> None:
        self.sql((EXAMPLE / "schema.sql").read_text())

    def kill(self) -> None:
        """With SIGKILL, all of its processes."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Its children have groups of their own, and end when they see that it is gone; until then it does not start again.
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline and self._is_used():
            time.sleep(POLL_SECONDS)

    def _is_used(self) -> bool:
        marker = os.fsencode(str(self._data))
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if marker in os.fsencode(os.readlink(process / "cwd")):
                    return True
            except OSError:
                continue
        return False

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(HANG_SECONDS)
        shutil.rmtree(self._data.parent, ignore_errors=True)
