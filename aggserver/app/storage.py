"""The storage that `--storage` and `--data` ask for: opened, and kept small by a background task."""

from __future__ import annotations

import shlex
from pathlib import Path

from aggserver.app.errors import StartError
from aggserver.app.tasks import Task
from aggserver.options import Options
from aggserver.storage.compactor import compact_regularly
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME

__all__ = ["IN_MEMORY", "compaction", "data_folder", "open_storage"]

IN_MEMORY = ":memory:"


def data_folder(data: str) -> Path:
    """The folder of --data, made for its owner alone if it isn't there. Raises StartError."""
    folder = Path(data)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            # Most often it is made in a project's folder, and has keys in it.
            (folder / ".gitignore").write_text("*\n")
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        at = "" if str(error.filename) in (data, "None") else f" ({error.filename})"
        raise StartError(f"--data {shlex.quote(data)}: the folder can't be made or used: {why}{at}") from None
    return folder


async def open_storage(options: Options) -> Storage:
    """etcd, or the storage of the data folder, made if it isn't there, or one that forgets. Raises Unavailable."""
    storage: Storage
    if options.storage == "etcd":
        storage = _etcd(options)
    elif options.data == IN_MEMORY:
        storage = MemoryStorage()
    else:
        storage = SQLiteStorage(data_folder(options.data) / FILE_NAME, options.sqlite_synchronous)
    await storage.start()
    return storage


def _etcd(options: Options) -> Storage:
    try:
        # Only who asks for it has its library, and waits for it.
        from aggserver.storage.etcd import EtcdStorage
    except ModuleNotFoundError as error:
        raise Unavailable(f"--storage etcd needs {error.name}: pip install 'aggserver[etcd]'") from error
    return EtcdStorage(
        options.etcd_servers,
        options.etcd_prefix,
        ca_file=options.etcd_cafile,
        cert_file=options.etcd_certfile,
        key_file=options.etcd_keyfile,
    )


def compaction(storage: Storage, options: Options) -> list[Task]:
    """The task that keeps the storage from growing by every write, unless that is left to others."""
    if options.storage != "etcd":
        return [("compaction", lambda: compact_regularly(storage, options.sqlite_compaction_interval_seconds))]
    interval = options.etcd_compaction_interval_seconds
    # How much history others need in an etcd that they share is nothing that the number of writes can say.
    return [("compaction", lambda: compact_regularly(storage, interval, bounded=False))] if interval else []
