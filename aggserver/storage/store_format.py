"""The format of a store in etcd, so that no server writes to one that it does not understand.

The record KEY has the number of the format, under the prefix of all keys. A store without it has the first format, which all
versions so far read and write. The version that brings another format writes the record before anything in that format. Servers
that know only older ones then refuse to start, as with the schema version of the SQLite file (`sqlite_file.py`). docs/upgrades.md
says what follows for replicas of two versions.
Source: etcd's own `clusterVersion`, go.etcd.io/etcd/server/v3 etcdserver/api/membership: a member does not join a newer cluster.
"""

from __future__ import annotations

from aggserver.meta.json_types import JSONObject
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.records import DamagedRecord, decode

__all__ = ["KEY", "KNOWN", "check_format"]

KEY = "/aggserver/store/format"
KNOWN = 1


async def check_format(storage: Storage) -> None:
    """Raises Unavailable if a newer version has given the store another format, or if the record of the format can't be read."""
    found = await storage.get(KEY)
    if found is None:
        return
    try:
        number = decode(found, _number)
    except DamagedRecord as error:
        # Unlike other damaged records it can't be left to a repair, which would have to know the format.
        raise Unavailable(
            f"the format of the store is unknown, since {storage.location(KEY)} is not as a server writes it ({error.why}): put "
            'back what it was by `etcdctl put`, {"format": N}, see docs/upgrades.md'
        ) from None
    if number > KNOWN:
        raise Unavailable(
            f"the store {storage.location('/')} has a newer version's format ({number}, known is {KNOWN}): start that version, "
            "or restore a snapshot of etcd from before that upgrade, see docs/upgrades.md"
        )


def _number(record: JSONObject) -> int:
    number = record["format"]
    if type(number) is not int or number < 1:
        raise ValueError(f"format is {number!r}")
    return number
