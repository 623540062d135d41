"""Run by test_crash.py as a process of its own: writes until it is killed, and says on stdout what was acknowledged."""

import asyncio
import os
import sys
from pathlib import Path

from aggserver.storage.sqlite import SQLiteStorage


async def main(path: Path, round_: str) -> None:
    store = SQLiteStorage(path)
    await store.start()

    async def write(worker: int) -> None:
        number = 0
        while True:
            key = f"/g.io/foos/r{round_}/{worker}-{number}"
            created = await store.create(key, b"1" * 500)
            os.write(1, f"{key} {created}\n".encode())
            if number % 2:
                updated = await store.update(key, b"2" * 500, created)
                os.write(1, f"{key} {updated}\n".encode())
            number += 1

    await asyncio.gather(*(write(worker) for worker in range(8)))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
