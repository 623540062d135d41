"""Fence: no server writes objects of an adopted definition after the record of its move says that they are frozen.

Several servers share a store in etcd, and one of them moves families. It must be sure that nobody writes any more before it reads
the last differences. The others learn of a record by their watches of etcd, and a server that was held up may learn of it much
later. So every write has the record's revision as a condition in its own transaction: once the record has changed, the store
refuses the write, whoever sends it and however late. During a release only the server that wrote the record goes on to take
writes, and knows by itself when it has frozen them (`registry/gate.py`); if another server takes its place, that changes the
record.
Source: none; the same is done for storage versions in `registry/storage_version.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.adoption.records.journal import RECORDS, Journal
from aggserver.adoption.records.record import Phase
from aggserver.adoption.steps import is_frozen
from aggserver.meta import errors
from aggserver.storage.interface import Precondition

__all__ = ["RecordFence"]


class RecordFence:
    """A `registry.gate.WriteFence` for one definition. has_own: whether a definition is served although no record has it."""

    def __init__(self, journal: Journal, definition: str, has_own: Callable[[str], bool]) -> None:
        self._journal = journal
        self._definition = definition
        self._has_own = has_own

    async def guard(self) -> Precondition | None:
        """The condition on the next write, None if it needs none. Raises StatusError (503) while nothing may be written."""
        found = self._journal.holding(self._definition)
        if found is None:
            if self._has_own(self._definition):
                return None
            raise self._moving()  # it has gone back to the cluster since the request began
        record, revision = found
        if record.shared:
            return None  # kube-apiserver and this server write to the same etcd
        if is_frozen(record) and not (record.phase is Phase.GIVING_BACK and self._journal.wrote(record.family)):
            raise self._moving()
        return Precondition(RECORDS + record.family, revision)

    async def newest(self) -> Precondition | None:
        """As `guard`, after reading the record again. Raises StorageError, too."""
        found = self._journal.holding(self._definition)
        if found is not None:
            await self._journal.look(found[0].family)
        return await self.guard()

    def _moving(self) -> errors.StatusError:
        text = f"the objects of {self._definition} are being moved; please try again"
        return errors.service_unavailable(text, retry_after=1)
