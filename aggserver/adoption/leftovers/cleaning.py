"""Cleaning: the removal of what a move left in the cluster's etcd, when somebody asks for it.

It may be interrupted at any moment. Before the first object is removed the record says that the removal has begun, and it has the
number of objects until all are gone; so the removal goes on after a restart. A refused removal is reported to whoever asked for
it, and is not tried again before somebody asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from aggserver.adoption.families import Family
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import CantGiveBack, Record, ReportMessage, none_left, silent
from aggserver.adoption.steps import Actions, Step, next_step, to_clean
from aggserver.adoption.wants import ChangedError, Wants

__all__ = ["Cleaning"]


class Cleaning:
    """Removes the leftovers of families.

    write, report: as in `moves.Moves`. answered: by definition, the time of the last request that was carried out or refused.
    """

    def __init__(
        self,
        journal: Journal,
        steps: Actions,
        wants: Wants,
        write: Callable[[Record], Awaitable[None]],
        report: ReportMessage,
    ) -> None:
        self._journal = journal
        self._steps = steps
        self._wants = wants
        self._write = write
        self._report = report
        self.answered: dict[str, str] = {}

    async def clean(self, record: Record, family: Family) -> None:
        """Remove the leftovers that an adopted family is asked to, and the version that an interrupted removal may have left.

        Raises AggserverError.
        """
        for name in to_clean(record, family, self.answered):
            record = self._journal.get(record.family) or record
            try:
                count = await self._wants.during(self._remove(record, name), partial(self._check_wanted, record.family))
            except CantGiveBack:
                self.answered[name] = family.cleanup[name]
                raise
            self.answered[name] = family.cleanup[name]
            record = self._journal.get(record.family) or record
            copied = none_left(record.copied[name].host_revision)
            await self._write(replace(record, copied={**record.copied, name: copied}))
            self._report(record.family, f"{count} objects of {name} were removed from the cluster's etcd")
        for name in family.opened:
            await self._steps.close_leftovers(name)
        # The host's watch may be behind: without this, the next step would close the definitions again.
        if (wanted := self._wants.families.get(record.family)) is not None:
            self._wants.families[record.family] = replace(wanted, opened=())

    async def _remove(self, record: Record, name: str) -> int:
        async with self._steps.leftovers(record, name) as leftovers:
            copied = await leftovers.check_removable(record.copied[name])
            await self._write(replace(record, copied={**record.copied, name: copied}, reason=""))
            return await leftovers.remove(copied, silent)

    def _check_wanted(self, family: str) -> None:
        """End the removal when something else is wanted: with many objects it takes long. It is resumed later.

        Raises ChangedError.
        """
        record, wanted = self._journal.get(family), self._wants.families.get(family)
        if record is None or wanted is None or next_step(record, wanted, cleaned=self.answered) is not Step.CLEAN:
            raise ChangedError("something else is wanted than the removal of what the move left")
