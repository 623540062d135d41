"""LogFile: when a new file is begun, how the old one is called, and which are removed or compressed."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from aggserver.audit.log_file import LogFile
from aggserver.disk import FileError
from tests.fakes.clock import FakeClock

# 2026-01-02T03:04:05.250Z
NOW = 1767323045.25
STAMP = "2026-01-02T03-04-05.250"


def opened(folder: Path, **more: Any) -> LogFile:
    given: dict[str, Any] = {"max_bytes": 10, "max_backups": 0, "max_days": 0, "compress": False, "clock": FakeClock(NOW), **more}
    return LogFile(folder / "logs" / "audit.log", **given)


def found(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "logs").iterdir())}


def test_the_file_and_its_folder_are_for_the_owner_only(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "logs", tmp_path / "logs/audit.log")] == ["0o700", "0o600"]


def test_a_new_file_before_the_old_one_is_too_long(tmp_path: Path) -> None:
    file = opened(tmp_path)
    for content in (b"12345", b"67890", b"next"):
        file.write(content)
    file.close()
    assert found(tmp_path) == {f"audit-{STAMP}.log": b"1234567890", "audit.log": b"next"}


def test_files_of_the_same_moment(tmp_path: Path) -> None:
    file = opened(tmp_path)
    for content in (b"1" * 10, b"2" * 10, b"3" * 10):
        file.write(content)
    file.close()
    assert list(found(tmp_path)) == [f"audit-{STAMP}.log", "audit-2026-01-02T03-04-05.251.log", "audit.log"]


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.write(b"12345678")
    first.close()
    (tmp_path / "logs/audit.log").chmod(0o640)
    second = opened(tmp_path)
    second.write(b"9")
    second.write(b"new one")
    second.close()
    assert found(tmp_path) == {f"audit-{STAMP}.log": b"123456789", "audit.log": b"new one"}
    assert (tmp_path / "logs/audit.log").stat().st_mode & 0o777 == 0o640


def test_without_rotation(tmp_path: Path) -> None:
    file = opened(tmp_path, max_bytes=0)
    file.write(b"x" * 1000)
    file.close()
    assert list(found(tmp_path)) == ["audit.log"]


def test_what_is_longer_than_a_file(tmp_path: Path) -> None:
    file = opened(tmp_path)
    with pytest.raises(OSError, match="write length 11 exceeds maximum file size 10"):
        file.write(b"x" * 11)
    file.write(b"x")
    file.close()


def test_a_file_that_somebody_has_removed(tmp_path: Path) -> None:
    file = opened(tmp_path)
    file.write(b"x" * 10)
    (tmp_path / "logs/audit.log").unlink()
    file.write(b"y")
    file.close()
    assert found(tmp_path) == {"audit.log": b"y"}


@pytest.mark.parametrize(
    ("limits", "kept"), [({"max_backups": 2}, 2), ({"max_days": 2}, 1), ({"max_backups": 1, "max_days": 9}, 1), ({}, 4)]
)
def test_old_files_are_removed(tmp_path: Path, limits: dict[str, int], kept: int) -> None:
    (tmp_path / "logs").mkdir()
    for day in ("2025-12-31T00-00-00.000", "2026-01-01T00-00-00.000", "2025-12-30T00-00-00.000"):
        (tmp_path / "logs" / f"audit-{day}.log").write_bytes(b"old")
    for other in ("audit-2020.log", "audit-old.log", "other-2025-12-30T00-00-00.000.log"):
        (tmp_path / "logs" / other).write_bytes(b"not ours")
    file = opened(tmp_path, **limits)
    if not limits:
        file.write(b"x" * 10)
        file.write(b"y")
    file.close()
    names = [name for name in found(tmp_path) if name.startswith("audit-20") and "T" in name]
    assert len(names) == kept
    assert names == sorted(names)
    assert len(found(tmp_path)) == kept + 4


@pytest.mark.parametrize("limit", [{"max_backups": 3}, {"max_days": 3}])
def test_the_newest_stay(tmp_path: Path, limit: dict[str, int]) -> None:
    (tmp_path / "logs").mkdir()
    days = [f"audit-2026-01-0{day}T00-00-00.000.log.gz" for day in (1, 2)] + ["audit-2025-12-31T04-00-00.000.log"]
    for name in (*days, "audit-2025-12-20T00-00-00.000.log"):
        (tmp_path / "logs" / name).write_bytes(b"old")
    opened(tmp_path, **limit).close()
    assert sorted(found(tmp_path)) == sorted([*days, "audit.log"])


def test_rotated_files_are_compressed(tmp_path: Path) -> None:
    file = opened(tmp_path, compress=True)
    file.write(b"1234567890")
    file.write(b"next")
    file.close()
    content = found(tmp_path)
    assert gzip.decompress(content.pop(f"audit-{STAMP}.log.gz")) == b"1234567890"
    assert content == {"audit.log": b"next"}
    assert (tmp_path / "logs" / f"audit-{STAMP}.log.gz").stat().st_mode & 0o777 == 0o600


def test_a_write_that_is_done_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    file = opened(tmp_path)
    file.write(b"12345678")
    file.close()
    assert found(tmp_path) == {"audit.log": b"12345678"}


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "logs").write_bytes(b"")
    with pytest.raises(FileError, match="logs"):
        opened(tmp_path)
