"""What was acknowledged is there after SIGKILL, twenty times over the same file."""

import asyncio
import sys
from pathlib import Path

from aggserver.storage.sqlite import SQLiteStorage

ROOT = Path(__file__).parents[2]


async def acknowledged(path: Path, round_: int) -> dict[str, int]:
    """Kills a writer after a number of answers that differs from round to round; the last revision it told of each key."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.storage.crash_writer", path, str(round_), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lines = [await process.stdout.readline() for _ in range(20 + 17 * round_)]
    process.kill()
    lines += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    # Lines are shorter than PIPE_BUF, so none is torn.
    return {key: int(revision) for key, revision in (line.decode().split() for line in lines)}


async def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    newest = 1
    for round_ in range(20):
        told = await acknowledged(path, round_)
        assert min(told.values()) > newest
        store = SQLiteStorage(path)
        await store.start()
        try:
            found = {item.key: item for item in (await store.list(f"/g.io/foos/r{round_}/")).items}
            for key, revision in told.items():
                # An update that was committed but not told of any more may have come after.
                assert found[key].revision >= revision
                assert found[key].value[:1] == (b"1" if found[key].revision == found[key].create_revision else b"2")
            events = await store.history("/", newest, await store.revision(), 1_000_000)
            assert [event.revision for event in events] == list(range(newest + 1, await store.revision() + 1))
            newest = await store.revision()
        finally:
            await store.close()
