"""Files on disk: detects changes of a file, writes a file as a whole or not at all, and makes errors readable.

Used by whatever reads files again while the server runs (certificates, credentials, definitions), and by whatever leaves files
behind (certificates, kubeconfigs, the SQLite store). Nothing here knows what is in a file.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aggserver.errors import AggserverError

__all__ = ["FileError", "Signature", "file_errors", "replace", "signature", "sync_folder"]

# Time of change in nanoseconds, size in bytes, inode.
Signature = tuple[int, int, int]


class FileError(AggserverError):
    """A file or folder can't be used. The text names it and says why."""


@contextlib.contextmanager
def file_errors() -> Iterator[None]:
    """Turns an OSError of the block, or of the decorated function, into a FileError."""
    try:
        yield
    except OSError as error:
        raise FileError(str(error) if error.filename is None else f"{error.filename}: {error.strerror}") from error


def signature(path: Path) -> Signature | None:
    """A value that differs between two versions of a file; None if there is no file or it can't be accessed.

    Symbolic links are followed: a mounted ConfigMap or Secret changes when a link in its path is replaced.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def replace(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Create or replace a file atomically: readers see the old content or the new one. Only its owner can read it (mode 0600).

    lasting: wait until the content survives a crash of the machine. Raises OSError, and leaves no temporary file then.
    """
    # mkstemp opens with 0600 whatever the umask is.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames, links and removals in the folder survive a crash of the machine. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
