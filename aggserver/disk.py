"""Files on disk: telling whether one has changed, writing one that is whole or not there, and saying what is wrong with one.

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
    """What differs between two versions of a file; None where there is none that can be looked at.

    It is that of the file behind symbolic links: a mounted ConfigMap or Secret changes by a swap of a link in its path.
    """
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def replace(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file, or write it anew: readers see the old content or the new one.

    lasting: after a crash of the machine too, for which this waits. Only its owner can read it (mode 0600).
    Raises OSError, and leaves nothing behind then.
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
    """Makes what was renamed, linked or removed in the folder last through a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
