"""Server: `aggserver dev` as a child process, for as long as a test needs it.

The server is a process of its own, so that its event loop and threads do not interfere with those of the tests, and a test may
kill it. It keeps no data on disk unless the arguments say so, listens on a free port of loopback, and ends when this process
ends, for whatever reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aggserver.errors import AggserverError
from aggserver.testing.api import Api, RequestError

__all__ = ["Server", "ServerError"]

Definition = str | Path | Mapping[str, Any]

# The root of the package that this process uses.
_ROOT = Path(__file__).parents[2]
# -P: modules in the folder of the tests must not shadow those of the server.
_DEV = (sys.executable, "-P", "-m", "aggserver", "dev")
_READY = re.compile(r"aggserver serves (https://\S+) \(data: .*\)\. Next: export KUBECONFIG=(.*); kubectl")
# Bytes at the end of the log that an error shows, and that are kept when the server has stopped.
_SHOWN_BYTES, _KEPT_BYTES = 8 * 1024, 1024 * 1024
_PIECE = 64 * 1024


class ServerError(AggserverError):
    """The server did not start, or refused what it was given. The text has the reason and the end of the log."""


class Server:
    """A server without a cluster. Use `start` and `stop`, or `with` or `async with`.

    definitions: objects that are created before the server is ready: files, folders of files and URLs, as `aggserver dev -f`
    takes them, and objects as dicts. They may be of any kind: namespaces, webhook configurations, custom resources as well.
    arguments: further arguments of `aggserver dev`, such as `--log-level=debug`.
    folder: where the log and the files of the server are; it must exist, and is not removed. By default a temporary one.
    start_seconds: limit of the time until the server is ready. stop_seconds: limit of the time to stop, then it is killed.
    """

    def __init__(
        self,
        definitions: Iterable[Definition] = (),
        *,
        arguments: Sequence[str] = (),
        folder: Path | None = None,
        start_seconds: float = 120.0,
        stop_seconds: float = 10.0,
    ) -> None:
        self._definitions = tuple(definitions)
        self._arguments = tuple(arguments)
        self._given_folder = folder
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._first_words: re.Match[str] | None = None
        self._api: Api | None = None
        self._users: dict[tuple[str, ...], Path] = {}
        self._last_log = b""

    # --- its life ---

    def start(self) -> Self:
        """Starts the server. Returns when it is ready and all definitions are established. Raises ServerError."""
        if self._process is not None:
            raise ServerError("the server is started already")
        self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="aggserver-testing-"))
        try:
            self._process = self._spawn(self._folder)
            self._first_words = self._wait_until_ready(self._process)
            self._api = Api(self.url, self.kubeconfig, self._folder)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the server with SIGTERM, and kills it if that takes too long. Its log can still be read."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(self._stop_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if self._folder is not None:
            self._last_log = self._read_log(_KEPT_BYTES)
            if self._given_folder is None:
                shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._first_words = self._api = None
        self._users.clear()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A thread can't be cancelled, and a process must not be left behind.
            with contextlib.suppress(ServerError):
                await starting
            await asyncio.to_thread(self.stop)
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.stop)

    # --- where it is ---

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._running()[0].pid

    @property
    def url(self) -> str:
        """The server's URL, such as https://127.0.0.1:41265."""
        return self._running()[1][1]

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of an administrator, whose current context is the server."""
        return Path(shlex.split(self._running()[1][2])[0])

    @property
    def ca_file(self) -> Path:
        """The CA of the serving certificate, in PEM."""
        return self._connected().ca_file

    @property
    def client_certificate_file(self) -> Path:
        """The administrator's certificate, in PEM."""
        return self._connected().certificate_file

    @property
    def client_key_file(self) -> Path:
        """The key of the administrator's certificate, in PEM."""
        return self._connected().key_file

    @property
    def log(self) -> str:
        """What the server has logged; the last MiB of it when it is stopped."""
        return (self._last_log if self._folder is None else self._read_log(sys.maxsize)).decode(errors="replace")

    @property
    def log_bytes(self) -> int:
        """The present size of the log in bytes, as an offset for `log_since`."""
        file = self._log_file
        return file.stat().st_size if file is not None and file.exists() else len(self._last_log)

    def log_since(self, offset: int) -> str:
        """The log after the first `offset` bytes; only the last 8 KiB if it is longer."""
        return self._read_log(min(_SHOWN_BYTES, max(self.log_bytes - offset, 0))).decode(errors="replace")

    # --- what is done with it ---

    def apply(self, *definitions: Definition) -> None:
        """Creates or changes objects, given as `definitions`. Returns when definitions are established. Raises ServerError."""
        api = self._connected()
        try:
            api.apply(_documents(definitions), self._start_seconds)
        except RequestError as error:
            raise ServerError(str(error)) from None
        except OSError as error:
            raise ServerError(f"{self.url} can't be reached: {error}{self._log_tail()}") from None

    def user(self, name: str, groups: Sequence[str] = ()) -> Path:
        """The kubeconfig of another user, who has a client certificate of the server's CA. Raises ServerError.

        The user is in `groups` and in system:authenticated, and may do what RBAC says.
        """
        known = (name, *groups)
        if known not in self._users:
            self._users[known] = self._make_user(name, groups)
        return self._users[known]

    @contextlib.contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """The name of a new namespace. After the block it is deleted with its objects; this does not wait for the end of that."""
        api = self._connected()
        name = api.create_namespace(prefix)
        try:
            yield name
        finally:
            if self.is_running:
                api.delete_namespace(name)

    # --- within ---

    def _make_user(self, name: str, groups: Sequence[str]) -> Path:
        folder = self.kubeconfig.parent  # where the server has its CA, too
        file = folder / f"user-{len(self._users)}.kubeconfig"
        arguments = [f"--data={folder}", f"--kubeconfig={file}", *(f"--group={group}" for group in groups)]
        done = subprocess.run(  # noqa: S603 - our own program
            [*_DEV, "user", *arguments, "--", name],
            capture_output=True,
            text=True,
            env={**os.environ, **_path()},
            check=False,
        )
        if done.returncode != 0:
            raise ServerError(f"user {name!r}: {done.stderr.strip().removeprefix('aggserver: ')}")
        return file

    def _spawn(self, folder: Path) -> subprocess.Popen[bytes]:
        filenames = [str(each) for each in self._definitions if not isinstance(each, Mapping)]
        objects = [each for each in self._definitions if isinstance(each, Mapping)]
        if objects:
            file = folder / "definitions.json"
            file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
            filenames.append(str(file))
        seeds = [word for name in filenames for word in ("-f", name)]
        with (folder / "aggserver.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                [*_DEV, "--data=:memory:", "--secure-port=0", "--exit-with-parent", *seeds, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                # The temporary folder of the server is in ours, so that it goes even if the server is killed.
                env={**os.environ, **_path(), "TMPDIR": str(folder)},
                # Ctrl-C in a terminal is for the tests, which then end the server.
                start_new_session=True,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> re.Match[str]:
        """Wait for the line that the server prints when it is ready. Raises ServerError."""
        assert process.stdout is not None
        printed = b""
        deadline = time.monotonic() + self._start_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in printed:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise ServerError(f"aggserver was not ready within {self._start_seconds:g} s{self._log_tail()}")
                piece = os.read(process.stdout.fileno(), _PIECE)
                if not piece:
                    raise ServerError(f"aggserver ended with status {process.wait()} before it was ready{self._log_tail()}")
                printed += piece
        found = _READY.match(printed.decode(errors="replace"))
        if found is None:
            raise ServerError(f"aggserver printed {printed!r}, which is not its URL{self._log_tail()}")
        return found

    @property
    def _log_file(self) -> Path | None:
        return self._folder and self._folder / "aggserver.log"

    def _read_log(self, count: int) -> bytes:
        """The last `count` bytes of the log, or all if it is shorter."""
        file = self._log_file
        if file is None:
            return self._last_log[len(self._last_log) - min(count, len(self._last_log)) :]
        try:
            with file.open("rb") as log:
                log.seek(max(file.stat().st_size - count, 0))
                return log.read()
        except FileNotFoundError:
            return b""

    def _log_tail(self) -> str:
        log = self._read_log(_SHOWN_BYTES).decode(errors="replace").rstrip()
        return f"; its log:\n{log}" if log else "; it has logged nothing"

    def _running(self) -> tuple[subprocess.Popen[bytes], re.Match[str]]:
        if self._process is None or self._first_words is None:
            raise ServerError("the server is not started")
        return self._process, self._first_words

    def _connected(self) -> Api:
        if self._api is None:
            raise ServerError("the server is not started")
        return self._api


def _documents(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """All objects of the definitions. Raises ServerError for a source that can't be read."""
    # Imported only here, since most servers get all their objects at the start.
    from aggserver.apiextensions.v1beta1 import to_v1
    from aggserver.standalone import manifests

    found: list[dict[str, Any]] = []
    for each in definitions:
        try:
            found += [dict(each)] if isinstance(each, Mapping) else [document for _, document in manifests.read([str(each)])]
        except manifests.ManifestError as error:
            raise ServerError(str(error)) from None
    return [to_v1(document) for document in found]


def _path() -> dict[str, str]:
    """PYTHONPATH for the child, if it would not find the package of this process otherwise, for example in a checkout."""
    if Path(sysconfig.get_path("purelib")) == _ROOT:
        return {}
    return {"PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])}
