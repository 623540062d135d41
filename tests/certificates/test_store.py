"""The folder that keeps certificates: who may read it, and what a save leaves alone."""

from __future__ import annotations

import stat

from aggserver.certificates.store import FolderStore


async def test_folder(tmp_path):
    folder = tmp_path / "a" / "certificates"
    store = FolderStore(folder)
    assert await store.load() == {}
    await store.save({"ca.crt": b"1", "tls.key": b"2"})
    (folder / "notes.txt").write_bytes(b"mine")
    await store.save({"ca.crt": b"3"})
    assert await store.load() == {"ca.crt": b"3"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "ca.crt").stat().st_mode) == 0o600
    assert sorted(path.name for path in folder.iterdir()) == ["ca.crt", "notes.txt"]
