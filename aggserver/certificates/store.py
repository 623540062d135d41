"""Where the server's own certificates are kept between starts: the interface, and a folder on disk.

`secret_store.py` is the other implementation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from aggserver import disk

__all__ = ["CertificateStore", "FolderStore", "StoreConflictError"]

CA_CERT, CA_KEY = "ca.crt", "ca.key"
NEXT_CA_CERT, NEXT_CA_KEY = "next-ca.crt", "next-ca.key"
OLD_CA_CERTS = "old-ca.crt"
SERVING_CERT, SERVING_KEY = "tls.crt", "tls.key"
NAMES = frozenset({CA_CERT, CA_KEY, NEXT_CA_CERT, NEXT_CA_KEY, OLD_CA_CERTS, SERVING_CERT, SERVING_KEY})


class StoreConflictError(Exception):
    """Another replica has saved between our load and our save; its certificates are valid now."""


class CertificateStore(Protocol):
    """A folder or a Secret. Keys are the file names above, values PEM."""

    async def load(self) -> dict[str, bytes]:
        """All files; empty at the first start."""

    async def save(self, files: dict[str, bytes]) -> None:
        """Replaces all files. Raises StoreConflictError if they have changed since `load`."""


class FolderStore:
    """A folder on disk: 0700, files 0600, each replaced atomically. Other files in the folder are left alone.

    lasting: whether the files must survive a crash of the machine.
    """

    def __init__(self, path: Path, *, lasting: bool = True) -> None:
        self.path = path
        self._lasting = lasting

    async def load(self) -> dict[str, bytes]:
        return {name: (self.path / name).read_bytes() for name in NAMES if (self.path / name).is_file()}

    async def save(self, files: dict[str, bytes]) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            disk.replace(self.path / name, content, lasting=self._lasting)
        for name in NAMES - files.keys():
            (self.path / name).unlink(missing_ok=True)
