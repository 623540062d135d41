"""`aggserver dev --app MODULE:NAME --reload`: a new process for each change of the App's files.

This process has the listening socket and the files in view, and never imports the App. It forks a worker, which imports the App,
says which files that took, and waits. Only when the App could be imported is the worker before it stopped; then the new one opens
the data and serves on the same socket, where connections wait meanwhile. So an error in a file keeps the old worker running.

Not `importlib.reload`: objects of old classes would live on in threads, caches and other modules. Not a server of its own for a
moment beside the old one: two servers can't have one database open.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType

from aggserver import disk
from aggserver.app.engine import listen
from aggserver.app.in_process import installed
from aggserver.app.processes import BY_SIGNAL, is_in_foreground
from aggserver.app.python_apps import LoadedApps, load
from aggserver.app.storage import IN_MEMORY
from aggserver.errors import AggserverError
from aggserver.options import Options

__all__ = ["Serve", "changed_files", "run", "stamps"]

# Serves in this process until it is told to stop, and returns the exit status. The third argument prints the first line.
Serve = Callable[[Options, LoadedApps, Callable[[str], None], socket.socket], int]

# Seconds between two looks at the files. Editors write files in several steps: a change counts when two looks are alike.
_LOOK_SECONDS = 0.1
# Seconds that a worker has to end, beside --shutdown-grace-period, before it is killed.
_END_SECONDS = 10.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_GO = b"g"

# file -> what tells whether it has changed; None if it isn't there
Stamps = Mapping[str, disk.Signature | None]


def run(options: Options, serve: Serve, say: Callable[[str], None]) -> int:
    """Serves until it is told to stop, or a worker ends by itself. Returns the exit status. Raises StartError.

    Returns once more in each worker, with the exit status of that.
    """
    own = os.getpid()
    listener = listen(options)
    folder = ""
    parent = os.getppid() if options.exit_with_parent else 0
    # Of this process, so that no worker outlives it, whatever ends it.
    options = replace(options, exit_with_parent=True)
    if options.data == IN_MEMORY:
        with disk.file_errors():
            folder = tempfile.mkdtemp(prefix="aggserver-")
        options = replace(options, data=folder, sqlite_synchronous="off")
    supervisor = _Supervisor(options, listener, say, parent)
    try:
        work = supervisor.run()
        return work if isinstance(work, int) else work(serve)
    finally:
        if folder and os.getpid() == own:
            shutil.rmtree(folder, ignore_errors=True)


# --- files ---


def stamps(files: Iterable[str]) -> Stamps:
    return {file: disk.signature(Path(file)) for file in files}


def changed_files(before: Stamps, now: Stamps) -> list[str]:
    """The names of the files that differ, in order."""
    return sorted(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))


def _imported(apps: Iterable[str], before: frozenset[str], error: BaseException | None) -> list[str]:
    """The files of ours that were imported since `before`, and those in which an import has failed."""
    tops = {name.partition(":")[0].partition(".")[0] for name in apps}
    files = set(_files_of_error(error))
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None)
        if name not in before and file and (name.partition(".")[0] in tops or _is_below_here(file)):
            files.add(file)
    for name in tops:
        with contextlib.suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin:
                files.add(spec.origin)
    return sorted(os.path.abspath(file) for file in files if file.endswith(".py"))


def _is_below_here(file: str) -> bool:
    path = Path(os.path.abspath(file))
    return path.is_relative_to(os.getcwd()) and _INSTALLED.isdisjoint(path.parts)


def _files_of_error(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield from (frame.filename for frame in traceback.extract_tb(error.__traceback__) if _is_below_here(frame.filename))
        if isinstance(error, SyntaxError) and error.filename:
            yield error.filename
        error = error.__cause__


def _beside(files: Iterable[str]) -> set[str]:
    """The Python files in this folder and in those of other files: one that is missing may be why an import failed."""
    folders = {os.getcwd(), *map(os.path.dirname, files)}
    return {str(path) for folder in folders for path in Path(folder).glob("*.py")}


# --- processes ---


@dataclass
class _Worker:
    """report: to read what it says of its import. go: to write that it may serve. began: nanoseconds since the epoch."""

    pid: int
    report: int
    go: int
    began: int
    reason: str
    said: bytes = b""
    status: int | None = None

    def is_running(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else BY_SIGNAL - code
        return self.status is None

    def send(self, number: int) -> None:
        if self.is_running():
            os.kill(self.pid, number)

    def close(self) -> None:
        for descriptor in (self.report, self.go):
            with contextlib.suppress(OSError):
                os.close(descriptor)


class _Supervisor:
    """parent: the process that it must not outlive; 0 if it may."""

    def __init__(self, options: Options, listener: socket.socket, say: Callable[[str], None], parent: int) -> None:
        self._options = options
        self._listener = listener
        self._say = say
        self._parent = parent
        self._serving: _Worker | None = None
        self._next: _Worker | None = None
        self._has_failed = False
        self._files: Stamps = {}
        self._last_look: Stamps = {}
        self._received: list[int] = []

    def run(self) -> int | Callable[[Serve], int]:
        """The exit status or, in a worker, the work."""
        for number in _SIGNALS:
            signal.signal(number, self._receive)
        if (work := self._fork("")) is not None:
            return work
        while True:
            self._wait()
            if self._parent and os.getppid() != self._parent:
                self._received.append(signal.SIGTERM)
            if self._received:
                return self._stop()
            if self._serving is not None and not self._serving.is_running():
                return self._stop()
            if self._next is not None and self._next.said.endswith(b"\n"):
                self._loaded(self._next)
            if (reason := self._change()) and (work := self._fork(reason)) is not None:
                return work

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)

    def _wait(self) -> None:
        """Some time, less if the new worker says something."""
        worker = self._next
        select.select([worker.report] if worker is not None else [], [], [], _LOOK_SECONDS)
        if worker is not None and select.select([worker.report], [], [], 0)[0]:
            said = os.read(worker.report, 1 << 16)
            worker.said += said or b"\n"  # it ended without a word

    # --- starting ---

    def _fork(self, reason: str) -> Callable[[Serve], int] | None:
        """Start a worker in place of one that is not serving yet. Returns the work in it, None in this process."""
        self._drop_next()
        report, says = os.pipe()
        waits, go = os.pipe()
        began = time.time_ns()
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        pid = os.fork()
        if pid == 0:
            for number in _SIGNALS:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.close(report)
            os.close(go)
            if self._serving is not None:
                self._serving.close()
            return lambda serve: self._work(serve, says, waits, reason)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(says)
        os.close(waits)
        self._next = _Worker(pid, report, go, began, reason)
        return None

    def _drop_next(self) -> None:
        worker, self._next = self._next, None
        if worker is not None:
            worker.send(signal.SIGKILL)  # it has not opened anything yet
            self._ended(worker, 0)

    def _loaded(self, worker: _Worker) -> None:
        """A worker has said how its import went."""
        try:
            told = json.loads(worker.said)
        except ValueError:  # killed, or ended by the module itself: nothing is known
            told = {"files": [], "error": "the process has ended before the App was imported"}
        self._has_failed = bool(told["error"])
        if self._has_failed:
            self._next = None
            self._ended(worker, _END_SECONDS)
            goes_on = "the server from before that goes on" if self._serving is not None else "waiting for a change"
            print(f"aggserver: {told['error']}\naggserver: {goes_on}", file=sys.stderr, flush=True)
            files = {*told["files"], *self._files}
            self._follow(files | _beside(files), worker)
            return
        if self._serving is not None:
            self._serving.send(signal.SIGTERM)
            self._ended(self._serving, self._options.shutdown_grace_seconds + _END_SECONDS)
        self._serving, self._next = worker, None
        self._follow(told["files"], worker)
        with contextlib.suppress(BrokenPipeError):  # then its end is noticed
            os.write(worker.go, _GO)

    # --- files ---

    def _follow(self, files: Iterable[str], worker: _Worker) -> None:
        now = stamps(files)
        # What was written since the import began may not be what was imported.
        late = {name for name, stamp in now.items() if stamp is not None and worker.began < stamp[0] <= time.time_ns()}
        self._files = {name: None if name in late else stamp for name, stamp in now.items()}
        self._last_look = {}

    def _change(self) -> str:
        """What has changed, for people, if two looks are alike; '' if nothing has."""
        now = stamps({*self._files, *(_beside(self._files) if self._has_failed else ())})
        changed = changed_files(self._files, now)
        last, self._last_look = self._last_look, now
        if not self._files or not changed or now != last:
            return ""
        self._files = now
        return ", ".join(os.path.relpath(file) for file in changed)

    # --- ending ---

    def _stop(self) -> int:
        """Passes signals on until the worker that serves has ended. Returns its exit status."""
        self._drop_next()
        worker = self._serving
        if worker is None:
            return 0
        began = time.monotonic()
        while worker.is_running():
            while self._received:
                number = self._received.pop(0)
                # A terminal sends it to the worker as well, for which a second one means to hurry.
                if number != signal.SIGINT or not is_in_foreground():
                    worker.send(number)
            if time.monotonic() - began > self._options.shutdown_grace_seconds + _END_SECONDS:
                worker.send(signal.SIGKILL)
            time.sleep(_LOOK_SECONDS / 5)
        worker.close()
        return worker.status or 0

    def _ended(self, worker: _Worker, seconds: float) -> None:
        """Wait for a worker that was told to end, and kill it after these seconds."""
        deadline = time.monotonic() + seconds
        while worker.is_running():
            if time.monotonic() > deadline:
                worker.send(signal.SIGKILL)
            time.sleep(_LOOK_SECONDS / 20)
        worker.close()

    # --- in a worker ---

    def _work(self, serve: Serve, says: int, waits: int, reason: str) -> int:
        # What the import system keeps of a file is told apart by its size and the second of its change: not enough here.
        sys.dont_write_bytecode = True
        before = frozenset(sys.modules)
        apps: LoadedApps = ()
        error: AggserverError | None = None
        try:
            apps = load(self._options.apps)
            _check(apps)
        except AggserverError as caught:
            error = caught
        told = {"files": _imported(self._options.apps, before, error), "error": str(error or "")}
        os.write(says, json.dumps(told).encode() + b"\n")
        os.close(says)
        if error is not None:
            return error.exit_status
        if os.read(waits, 1) != _GO:
            return 1
        os.close(waits)
        return serve(self._options, apps, partial(self._again, reason) if reason else self._say, self._listener)

    def _again(self, reason: str, line: str) -> None:
        self._say(f"aggserver serves {', '.join(self._options.apps)} again: {reason} changed")


def _check(apps: LoadedApps) -> None:
    """Raises DeclarationError and StartError, as the start of a server with these Apps. Warnings are left to that."""
    logging.disable(logging.WARNING)
    try:
        installed(apps)
    finally:
        logging.disable(logging.NOTSET)
