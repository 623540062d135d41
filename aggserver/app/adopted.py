"""What every server serves of adopted definitions: what the journal says, whether this server moves families or not.

Definitions come from the host, and after a restart without it from our store, where they are kept for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aggserver.adoption.families import GroupVersion, is_served
from aggserver.adoption.host import Host
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import Record
from aggserver.adoption.steps import is_frozen, is_hidden
from aggserver.apiextensions.definition import Definition
from aggserver.app.engine import Engine
from aggserver.storage.interface import StorageError

__all__ = ["Adopted"]

log = logging.getLogger("aggserver.adoption")

# Seconds between attempts after a failure.
_RETRY_SECONDS = 2.0


class Adopted:
    """The adopted definitions that are served.

    installation: see `installation.installation_id`. want: called with all adopted definitions by name, returns when they are
    served beside others. moves: whether this server holds the Lease. on_change: called when `serve` is to be called again.
    """

    def __init__(
        self,
        journal: Journal,
        host: Host,
        engine: Engine,
        installation: str,
        want: Callable[[Mapping[str, Definition]], Awaitable[None]],
        moves: Callable[[], bool],
        on_change: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._host = host
        self._engine = engine
        self._installation = installation
        self._want = want
        self._moves = moves
        self._on_change = on_change
        self._serving = asyncio.Lock()
        self._is_served = False
        # By name, the uids of definitions that are not served any more, although a record still has them.
        self._withdrawn: dict[str, str] = {}
        self._marked: set[GroupVersion] = set()
        # The resourceVersion of each definition as the journal keeps it, so that other changes do not read it again.
        self._kept: dict[str, str] = {}
        self._keeping: asyncio.TimerHandle | None = None
        self._unkept = ""

    def healthy(self) -> str | None:
        """For readiness: adopted definitions must be served before clients are led here."""
        return self._journal.trouble() if self._is_served else "the records of adopted definitions have not been read yet"

    def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()

    async def restore(self) -> None:
        """Serve what the store has, also if the host can't be reached. Tries until the store can be read."""
        while True:
            try:
                await self._journal.ready()
                await self._host.restore(await self._journal.definitions())
                await self.serve()
            except StorageError as error:
                log.warning("adopted definitions can't be read yet: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def serve(self) -> None:
        """Serve what the journal says, and only that. Raises StorageError."""
        async with self._serving:
            records = list(self._journal.records.values())
            held = {name: uid for record in records for name, uid in record.uids.items()}
            self._withdrawn = {name: uid for name, uid in self._withdrawn.items() if held.get(name) == uid}
            wanted: dict[str, Definition] = {}
            group_versions: set[GroupVersion] = set()
            for record in filter(is_served, records):
                for name, uid in record.uids.items():
                    definition = self._host.definition(name, uid)
                    if definition is not None and self._withdrawn.get(name) != uid:
                        wanted[name] = definition
                        group_versions |= {(definition.group, each.name) for each in definition.versions if each.served}
            if not self._moves():
                await self._freeze(records)
            self._engine.installer.mark_adopted(self._marked - group_versions, "")
            self._engine.installer.mark_adopted(group_versions, self._installation)
            self._marked = group_versions
            await self._want(wanted)
            self._is_served = True
            await self._keep(wanted)

    async def _keep(self, wanted: Iterable[str]) -> None:
        """Keep the definitions in the store, for a restart without the host. If the store is full, this is tried again later."""
        if self._keeping is not None:
            self._keeping.cancel()
        try:
            for name in wanted:
                crd = self._host.crd(name)
                if crd is None or not self._host.is_current(name):
                    continue
                state = crd["metadata"].get("resourceVersion", "")
                if self._kept.get(name) != state:
                    await self._journal.keep_definition(crd)
                    self._kept[name] = state
        except StorageError as error:
            if str(error) != self._unkept:
                log.warning("a definition can't be kept yet: %s", error)
            self._unkept = str(error)
            self._keeping = asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._on_change)
        else:
            self._unkept = ""

    async def withdraw(self, definitions: Iterable[str]) -> None:
        """Stop serving these definitions, although the record still has them. Raises StorageError."""
        uids = {name: uid for record in self._journal.records.values() for name, uid in record.uids.items()}
        names = list(definitions)
        self._withdrawn |= {name: uids[name] for name in names if name in uids}
        await self.serve()
        for name in names:
            self._kept.pop(name, None)
            await self._journal.forget_definition(name)

    async def _freeze(self, records: Iterable[Record]) -> None:
        """Refuse writes and reads as the records say, in a server that does not move: the one that moves does so by its steps."""
        for record in records:
            for name in record.uids:
                if is_frozen(record):
                    await self._engine.definitions.freeze(name, reads=is_hidden(record))
                else:
                    self._engine.definitions.thaw(name)
