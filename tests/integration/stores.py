"""What is in the store of servers under test, read past them: the records of moves, and the objects.

It can be asked while no server runs, and tells of a phase sooner than any server does.
"""

from __future__ import annotations

import base64
import contextlib
import json
import sqlite3
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tests.waiting import HANG_SECONDS

__all__ = ["EtcdStore", "SQLiteStore", "Store"]


class Store(Protocol):
    def record(self, family: str) -> Mapping[str, Any] | None:
        """The record of a family's move; None if there is none."""

    def count(self, prefix: str) -> int:
        """How many keys there are under a prefix, which ends with `/`."""


class SQLiteStore:
    def __init__(self, file: Path) -> None:
        self._file = file

    def record(self, family: str) -> Mapping[str, Any] | None:
        query = "SELECT CAST(events.value AS BLOB) FROM current JOIN events USING (revision) WHERE current.key = ?"
        rows = self._rows(query, f"/aggserver/adoptions/{family}")
        return json.loads(rows[0][0]) if rows else None

    def count(self, prefix: str) -> int:
        rows = self._rows("SELECT count(*) FROM current WHERE key >= ? AND key < ?", prefix, f"{prefix[:-1]}0")
        return int(rows[0][0])

    def _rows(self, query: str, *arguments: str) -> list[Any]:
        # Read-only, so that it never takes the place of the server that is dead: recovery and checkpoints are the next one's.
        uri = f"{self._file.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=HANG_SECONDS)) as connection:
            return connection.execute(query, arguments).fetchall()


class EtcdStore:
    """url: of etcd, without TLS. The prefix is kube-apiserver's, as aggserver's by default."""

    def __init__(self, url: str) -> None:
        self._url = url

    def record(self, family: str) -> Mapping[str, Any] | None:
        found = self._range(f"/registry/aggserver/adoptions/{family}").get("kvs")
        return json.loads(base64.b64decode(found[0]["value"])) if found else None

    def count(self, prefix: str) -> int:
        return int(self._range(f"/registry{prefix}", f"/registry{prefix[:-1]}0", count_only=True).get("count", 0))

    def objects(self, prefix: str) -> list[dict[str, Any]]:
        """All objects under a prefix."""
        found = self._range(f"/registry{prefix}", f"/registry{prefix[:-1]}0").get("kvs", [])
        return [json.loads(base64.b64decode(each["value"])) for each in found]

    def _range(self, key: str, end: str = "", **more: Any) -> dict[str, Any]:
        body = {"key": _encoded(key), "range_end": _encoded(end), **more}
        request = urllib.request.Request(f"{self._url}/v3/kv/range", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


def _encoded(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
