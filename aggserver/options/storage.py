"""Where objects are kept, and what the commands of `aggserver storage` do with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aggserver.options import convert, flag
from aggserver.options.commands import BOTH, CHECKED, DEV_USER, STORAGE
from aggserver.options.flag import option

__all__ = ["StorageOptions"]

STORAGES = ("sqlite", "etcd")


# ruff: noqa: RUF009  -- option calls dataclasses.field, so its result is a valid default
@dataclass(frozen=True, kw_only=True)
class StorageOptions:
    """Fields of Options; see the help of each."""

    data: str = option(
        "/var/lib/aggserver",
        "data",
        convert.text,
        flag.STORAGE,
        "folder of the database and of other kept files; :memory: keeps nothing on disk",
        metavar="DIR",
        commands=BOTH | STORAGE | DEV_USER,
        dev=".aggserver",
    )
    sqlite_synchronous: str = option(
        "full",
        "sqlite-synchronous",
        convert.one_of("full", "normal", "off"),
        flag.STORAGE,
        "full: a write is on disk before it is answered; normal: faster, but a power failure may lose the last ones; off: or all",
        metavar="MODE",
        commands=BOTH,
    )
    sqlite_compaction_interval_seconds: float = option(
        300.0,
        "sqlite-compaction-interval",
        convert.seconds,
        flag.STORAGE,
        "compaction interval: history is kept for one to two intervals, and for 500,000 writes at most; 0 leaves only that limit",
        metavar="DURATION",
        commands=BOTH,
    )
    migrate_storage: bool = option(
        True,
        "migrate-storage",
        convert.boolean,
        flag.STORAGE,
        "rewrite stored objects in the background after a change of their storage version, then trim status.storedVersions",
        commands=BOTH,
    )
    repair: bool = option(
        False,
        "repair",
        convert.boolean,
        flag.STORAGE,
        "remove damaged entries, after copying them to the --data folder; no server may use a SQLite store meanwhile",
        commands=frozenset({"storage check"}),
    )
    file: Path | None = option(
        None,
        "file",
        convert.path,
        flag.STORAGE,
        "the backup file",
        metavar="FILE",
        commands=frozenset({"storage backup", "storage restore"}),
        positional=True,
    )
    bump_revision: int = option(
        1_000_000_000,
        "bump-revision",
        convert.positive,
        flag.STORAGE,
        "how much to add to the backup's revision, so that resourceVersions are higher than any handed out since the backup",
        metavar="N",
        commands=frozenset({"storage restore"}),
    )
    storage: str = option(
        "sqlite",
        "storage",
        convert.one_of(*STORAGES),
        flag.STORAGE,
        "where objects are stored. sqlite: a file in the --data folder; etcd: a cluster that several servers can share",
        metavar="KIND",
        commands=CHECKED,
    )
    etcd_servers: tuple[str, ...] = option(
        (),
        "etcd-servers",
        convert.texts,
        flag.STORAGE,
        "URLs of the etcd members, such as https://host:2379, comma-separated",
        metavar="URLS",
        commands=CHECKED,
    )
    etcd_cafile: Path | None = option(
        None,
        "etcd-cafile",
        convert.path,
        flag.STORAGE,
        "CA bundle to verify etcd's certificates with (default: the system's)",
        metavar="FILE",
        commands=CHECKED,
    )
    etcd_certfile: Path | None = option(
        None, "etcd-certfile", convert.path, flag.STORAGE, "client certificate for etcd", metavar="FILE", commands=CHECKED
    )
    etcd_keyfile: Path | None = option(
        None, "etcd-keyfile", convert.path, flag.STORAGE, "private key of --etcd-certfile", metavar="FILE", commands=CHECKED
    )
    etcd_prefix: str = option(
        "/registry", "etcd-prefix", convert.text, flag.STORAGE, "prefix of all keys in etcd", metavar="PATH", commands=CHECKED
    )
    etcd_compaction_interval_seconds: float = option(
        300.0,
        "etcd-compaction-interval",
        convert.seconds,
        flag.STORAGE,
        "interval of compaction requests to etcd, and how long history is kept at least; 0 sends none",
        metavar="DURATION",
        commands=BOTH,
    )
