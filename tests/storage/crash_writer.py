"""The process that test_crash.py kills: writes until then, and prints every acknowledged write.

Meanwhile it compacts history, truncates the log and advances the revision continuously, so that most kills happen during these.
"""

import asyncio
import os
import sys
from pathlib import Path

from aggserver.storage import sqlite_file, sqlite_writer
from aggserver.storage.sqlite import SQLiteStorage


async def main(path: Path, round_: str, synchronous: str) -> None:
    sqlite_file.LOG_LIMIT = 1 << 16
    sqlite_writer.COMPACTION_STEP = 20
    store = SQLiteStorage(path, synchronous)
    await store.start()

    async def write(worker: int) -> None:
        number = 0
        while True:
            key = f"/g.io/foos/r{round_}/{worker}-{number}"
            created = await store.create(key, b'{"a":1}' + b" " * 500)
            os.write(1, f"{key} {created}\n".encode())
            if number % 2:
                updated = await store.update(key, b'{"a":2}' + b" " * 500, created)
                os.write(1, f"{key} {updated}\n".encode())
            number += 1

    async def compact() -> None:
        while True:
            await store.compact(max(0, await store.revision() - 50))
            await store.list("/g.io/foos/")
            await store.advance(await store.revision() + 30)

    await asyncio.gather(compact(), *(write(worker) for worker in range(8)))


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
