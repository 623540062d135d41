from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from aggserver import disk


def test_signature_of_another_file_is_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert disk.signature(path) is None
    path.write_bytes(b"one")
    first = disk.signature(path)
    assert first is not None
    assert disk.signature(path) == first
    path.write_bytes(b"three")
    assert disk.signature(path) != first


def test_signature_follows_links_in_the_path(tmp_path: Path) -> None:
    """As the kubelet swaps the content of a mounted volume: the same size, the same times, another inode."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(name.encode())
        os.utime(tmp_path / name / "file", ns=(1, 1))
    (tmp_path / "data").symlink_to("old")
    first = disk.signature(tmp_path / "data" / "file")
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(tmp_path / "data")
    assert disk.signature(tmp_path / "data" / "file") != first


def test_replace_is_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o644)
    disk.replace(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_replace_is_on_the_disk_before_it_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, steps = tmp_path / "file", []
    fsync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append(
            "sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"sync {os.fstat(descriptor).st_size} bytes"
        )
        fsync(descriptor)

    def renamed(source: str, target: Path) -> None:
        steps.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    disk.replace(path, b"content")
    assert steps == ["sync 7 bytes", "rename", "sync folder"]


def test_replace_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        disk.replace(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["missing", "missing/file"])
def test_file_errors_name_the_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(disk.FileError, match=f"^{tmp_path / name}: No such file or directory$"), disk.file_errors():
        (tmp_path / name).read_bytes()


def test_file_errors_without_a_file() -> None:
    with pytest.raises(disk.FileError, match=r"^no room$"), disk.file_errors():
        raise OSError("no room")
