"""The storage that `--storage` and `--data` ask for, the task that compacts it, and the cluster's own etcd."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aggserver.app.errors import StartError
from aggserver.app.tasks import Task
from aggserver.options import Options
from aggserver.storage.compactor import compact_regularly
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME
from aggserver.storage.store_format import check_format

__all__ = ["IN_MEMORY", "compaction", "data_folder", "files_last", "open_host_etcd", "open_storage"]

IN_MEMORY = ":memory:"


def data_folder(data: str) -> Path:
    """The folder of --data, created for its owner only if it doesn't exist. Raises StartError."""
    folder = Path(data)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(folder.iterdir()):
            # The folder is often in a project's repository, and will contain private keys.
            ignored = folder / ".gitignore"
            ignored.touch(mode=0o600)  # whatever the umask is: others must not be able to change what git ignores
            ignored.write_text("*\n")
    except OSError as error:
        why = "it is no folder" if isinstance(error, FileExistsError) else error.strerror
        at = "" if str(error.filename) in (data, "None") else f" ({error.filename})"
        raise StartError(f"--data {shlex.quote(data)}: the folder can't be made or used: {why}{at}") from None
    return folder


def files_last(options: Options) -> bool:
    """Whether files beside the data must survive a crash of the machine, so that writes wait for the disk, as the data's do."""
    return options.data != IN_MEMORY and options.sqlite_synchronous != "off"


async def open_storage(options: Options, *, writes: bool = True) -> Storage:
    """Opens etcd or kine, the SQLite file in the data folder, or a storage in memory. Raises Unavailable and StartError.

    writes: whether anything will be written, for which kine lets one process at a time.
    """
    storage: Storage
    if options.storage == "etcd":
        return await _open_etcd(options, writes)
    if options.data == IN_MEMORY:
        storage = MemoryStorage()
    else:
        storage = SQLiteStorage(data_folder(options.data) / FILE_NAME, options.sqlite_synchronous)
    await storage.start()
    return storage


async def _open_etcd(options: Options, writes: bool) -> Storage:
    with _needed_for("--storage etcd"):
        from aggserver.storage.etcd import EtcdStorage, IsKine
        from aggserver.storage.kine import KineStorage
    storage: Storage = EtcdStorage(
        options.etcd_servers,
        options.etcd_prefix,
        ca_file=options.etcd_cafile,
        cert_file=options.etcd_certfile,
        key_file=options.etcd_keyfile,
    )
    try:
        await storage.start()
    except IsKine:
        storage = KineStorage(
            options.etcd_servers,
            options.etcd_prefix,
            ca_file=options.etcd_cafile,
            cert_file=options.etcd_certfile,
            key_file=options.etcd_keyfile,
            writes=writes,
        )
        await storage.start()
    try:
        await check_format(storage)
    except BaseException:
        await storage.close()
        raise
    return storage


async def open_host_etcd(options: Options) -> Storage | None:
    """Opens the etcd of --host-etcd-servers, which is the cluster's own; None without that option. Raises Unavailable."""
    if not options.host_etcd_servers:
        return None
    with _needed_for("--host-etcd-servers"):
        from aggserver.storage.etcd import EtcdStorage, IsKine
    storage = EtcdStorage(
        options.host_etcd_servers,
        options.host_etcd_prefix,
        ca_file=options.host_etcd_cafile,
        cert_file=options.host_etcd_certfile,
        key_file=options.host_etcd_keyfile,
    )
    try:
        await storage.start()
    except IsKine as error:
        raise Unavailable(
            f"--host-etcd-servers: {error}. Kine does not tell all writes of a cluster in order, so no objects are moved by it: "
            "leave the option out, and they are moved through the cluster's API"
        ) from error
    except Unavailable as error:
        # The client's errors name the options --etcd-..., whichever etcd it connects to.
        raise Unavailable(str(error).replace("--etcd-", "--host-etcd-")) from error
    return storage


@contextmanager
def _needed_for(flag: str) -> Iterator[None]:
    """Around the imports of etcd's client, whose library is optional and slow to import. Raises Unavailable without it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise Unavailable(f"{flag} needs {error.name}: pip install 'aggserver[etcd]'") from error


def compaction(storage: Storage, options: Options) -> list[Task]:
    """The task that compacts the storage regularly; none if the options leave that to others."""
    if options.storage != "etcd":
        return [("compaction", lambda: compact_regularly(storage, options.sqlite_compaction_interval_seconds))]
    interval = options.etcd_compaction_interval_seconds
    # By age only: the number of our writes doesn't tell how much history other users of this etcd need.
    return [("compaction", lambda: compact_regularly(storage, interval, bounded=False))] if interval else []
