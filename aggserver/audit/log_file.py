"""LogFile: appends to a file, which is renamed and begun anew before it becomes too long.

`audit.log` becomes `audit-2006-01-02T15-04-05.000.log`, in UTC, or the same with `.gz` where rotated files are compressed. Of
those, the oldest are removed: by their number, and by the age that their names tell. Compressing and removing is done in a
thread, so that no request waits for it.
Source: gopkg.in/natefinch/lumberjack.v2, which upstream uses; k8s.io/apiserver pkg/server/options/audit.go (ensureLogFile),
v0.36.3.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from aggserver import disk

__all__ = ["LogFile"]

log = logging.getLogger("aggserver.audit")

MEGABYTE = 2**20
_DAY_SECONDS = 24 * 3600
_COMPRESSED = ".gz"
_TIME = "%Y-%m-%dT%H-%M-%S"


class LogFile:
    """Creates the file, and its folder, if they are missing. max_bytes: 0 for no rotation. max_backups, max_days: 0 for no limit.

    clock: in seconds since 1970. Only one thread at a time may write. Raises FileError if the file can't be written.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        max_backups: int,
        max_days: int,
        compress: bool,
        clock: Callable[[], float],
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._max_backups = max_backups
        self._max_days = max_days
        self._compress = compress
        self._clock = clock
        self._cleaner = ThreadPoolExecutor(1, "audit-log")
        with disk.file_errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open(0o600)
        if max_bytes:
            self._clean()

    def write(self, content: bytes) -> None:
        """Append. Raises OSError, and then the file may have a part of it."""
        if self._max_bytes:
            if len(content) > self._max_bytes:
                raise OSError(f"write length {len(content)} exceeds maximum file size {self._max_bytes}")
            if self._size + len(content) > self._max_bytes:
                self._rotate()
        written = os.write(self._descriptor, content)
        self._size += written
        while written < len(content):  # the disk is full, or a signal came
            more = os.write(self._descriptor, content[written:])
            self._size += more
            written += more

    def close(self) -> None:
        """Waits until rotated files are compressed."""
        self._cleaner.shutdown()
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def _open(self, mode: int) -> None:
        self._descriptor = os.open(self._path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, mode)
        self._size = os.fstat(self._descriptor).st_size

    def _rotate(self) -> None:
        mode = os.fstat(self._descriptor).st_mode & 0o777
        with contextlib.suppress(FileNotFoundError):  # somebody has removed it
            self._path.rename(self._backup_name())
        old = self._descriptor
        self._open(mode)
        os.close(old)
        self._cleaner.submit(self._clean)

    def _backup_name(self) -> Path:
        """A name that is free: files that are rotated within a millisecond get later times."""
        milliseconds = int(self._clock() * 1000)
        while True:
            moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
            path = self._path.with_name(f"{self._stem}{moment.strftime(_TIME)}.{milliseconds % 1000:03d}{self._path.suffix}")
            if not path.exists() and not path.with_name(path.name + _COMPRESSED).exists():
                return path
            milliseconds += 1

    @property
    def _stem(self) -> str:
        return f"{self._path.stem}-"

    def _clean(self) -> None:
        """Remove and compress rotated files."""
        try:
            kept = self._removed_old(sorted(self._backups(), reverse=True))
            if self._compress:
                for path in kept:
                    if path.suffix != _COMPRESSED:
                        _compress(path)
        except Exception:
            log.exception("rotated files of %s can't be cleaned up", self._path)

    def _backups(self) -> Iterator[tuple[float, Path]]:
        """(time by its name, path) of each rotated file."""
        suffix = self._path.suffix
        for path in self._path.parent.iterdir():
            middle = path.name.removesuffix(_COMPRESSED)
            if not (middle.startswith(self._stem) and middle.endswith(suffix)):
                continue
            text, _, fraction = middle[len(self._stem) : len(middle) - len(suffix)].partition(".")
            with contextlib.suppress(ValueError):
                moment = datetime.strptime(text, _TIME).replace(tzinfo=UTC)
                yield moment.timestamp() + int(fraction) / 1000, path

    def _removed_old(self, found: list[tuple[float, Path]]) -> list[Path]:
        """Remove what is too old or too much of `found`, the newest first. Returns the rest."""
        since = self._clock() - self._max_days * _DAY_SECONDS if self._max_days else 0.0
        kept: list[Path] = []
        times: set[float] = set()  # a file and its compressed copy, left by a crash, count once
        for time, path in found:
            times.add(time)
            if time < since or (self._max_backups and len(times) > self._max_backups):
                path.unlink(missing_ok=True)
            else:
                kept.append(path)
        return kept


def _compress(path: Path) -> None:
    """Put a compressed file, with the same mode, in the place of a file."""
    target = path.with_name(path.name + _COMPRESSED)
    descriptor = os.open(target, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, path.stat().st_mode & 0o777)
    try:
        with path.open("rb") as source, os.fdopen(descriptor, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw) as packed:
            shutil.copyfileobj(source, packed, MEGABYTE)
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    path.unlink()
