"""Acknowledged writes survive SIGKILL, and the file is not damaged, repeatedly with the same file."""

import asyncio
import sys
from pathlib import Path

import pytest

from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_maintenance import check

ROOT = Path(__file__).parents[2]
ROUNDS = 12


async def acknowledged(path: Path, round_: int, synchronous: str) -> dict[str, int]:
    """Kill a writer after a number of answers that differs per round. Returns the last printed revision of each key."""
    command = (sys.executable, "-m", "tests.storage.crash_writer", path, str(round_), synchronous)
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    lines = [await process.stdout.readline() for _ in range(120 + 37 * round_)]
    process.kill()
    lines += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    # Lines are shorter than PIPE_BUF, so none is torn.
    return {key: int(revision) for key, revision in (line.decode().split() for line in lines)}


@pytest.mark.parametrize("synchronous", ["full", pytest.param("normal", marks=pytest.mark.long)])
async def test_nothing_acknowledged_is_lost(tmp_path: Path, synchronous: str) -> None:
    path = tmp_path / "store.db"
    newest = 1
    for round_ in range(ROUNDS):
        told = await acknowledged(path, round_, synchronous)
        assert min(told.values()) > newest
        # The file as the kill left it, and as the next server opens it.
        assert "is sound" in check(path, lambda line: None)
        store = SQLiteStorage(path)
        await store.start()
        try:
            found = {item.key: item for item in (await store.list(f"/g.io/foos/r{round_}/")).items}
            for key, revision in told.items():
                # A later update may have been committed but not printed.
                assert found[key].revision >= revision
                assert found[key].value[5:6] == (b"1" if found[key].revision == found[key].create_revision else b"2")
            newest = await store.revision()
            assert newest >= max(told.values())
        finally:
            await store.close()
        assert "is sound" in check(path, lambda line: None)
