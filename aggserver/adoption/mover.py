"""Mover: adopts and releases families of definitions, one after the other.

`steps.next_step` decides what a family needs next, and `moves.py` does it. Here is the rest: which family is next, what a failure
leads to, and when a step is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aggserver.adoption.families import Family, GroupVersion, Wanted
from aggserver.adoption.moves import CATCH_UP_SECONDS, Moves, Observe
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import Moving, Phase, Record, Refused, ReportMessage
from aggserver.adoption.steps import Actions, Step, next_step
from aggserver.adoption.wants import ChangedError, Wants
from aggserver.cluster.pacing import Sleep
from aggserver.errors import AggserverError
from aggserver.meta.backoff import Backoff
from aggserver.storage.interface import Storage, StorageError

__all__ = ["Mover"]

log = logging.getLogger("aggserver.adoption")

RETRY = Backoff(initial=2.0, longest=300.0)


class Mover:
    """Runs the moves. storage: our store. observe, report: called on the event loop, must not raise.

    clock: monotonic, in seconds. now: seconds since 1970.
    """

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        steps: Actions,
        observe: Observe,
        report: ReportMessage,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._wants = Wants()
        self._moves = Moves(storage, journal, steps, self._wants, self._observe_move, report, clock=clock, now=now, sleep=sleep)
        self._journal = journal
        self._observe = observe
        self._report = report
        self._clock = clock
        self._sleep = sleep
        # By family, after a failure: when to try again, and what was wanted when it failed.
        self._retries: dict[str, tuple[float, Family | None]] = {}
        self._pauses: dict[str, Iterator[float]] = {}
        # By family, the step that failed last. The record of an adopted family has the reason.
        self._failing: dict[str, Step] = {}
        # By family whose release the host has refused: `asked` and `through_api` of that request.
        self._refused: dict[str, tuple[str, bool]] = {}
        self._waiting: dict[str, Record] = {}
        # Families whose record could not be written, so that their status shows something else than the journal has.
        self._unrecorded: set[str] = set()

    @property
    def waiting(self) -> Mapping[str, Record]:
        """The families that have not begun to move, by name, each with the reason. They are not in the journal."""
        return self._waiting

    def idle(self) -> bool:
        """Whether no step is under way, due or waiting to be tried again."""
        names = self._journal.records.keys() | self._wants.families.keys()
        return not self._moves.turn.locked() and not any(map(self._step, names))

    def want(self, families: Sequence[Family]) -> None:
        """Set what is wanted now. families: all that are to be adopted or have a record."""
        for family in families:
            if family.wanted is not Wanted.RELEASE:
                self._refused.pop(family.name, None)
        self._wants.set_families(families)

    async def run(self) -> None:
        """Move families until cancelled. The journal must be running."""
        try:
            await self._journal.ready()
            async with self._moves.turn:
                await self._restore()
            while True:
                self._wants.changed.clear()
                name, step = self._due()
                if step is None:
                    await self._pause()
                    continue
                async with self._moves.turn:
                    await self._attempt(name, step)
        finally:
            await self._moves.close()

    # --- what to do, and when ---

    async def _restore(self) -> None:
        """Set the guard to what the records say. A move that was interrupted in Guarding begins anew, without the guard.

        Definitions that went back to the cluster while this server was away are neither led here again nor guarded.
        """
        guarding = [record for record in self._journal.records.values() if record.phase is Phase.GUARDING]
        self._moves.unguarded |= {record.family for record in guarding}
        pauses = RETRY.pauses()
        while True:
            try:
                if (damaged := self._journal.unreadable()) is not None:
                    # Without this record the family's objects would lose the host's guard, and belong to nobody in our store.
                    raise damaged
                await self._moves.catch_up()
                await self._moves.guard()
                for record in guarding:
                    with contextlib.suppress(StorageError):  # the store may be full, and the record is not needed
                        await self._moves.write(record.at(Phase.COPYING, self._moves.time()))
            except AggserverError as error:
                log.warning("moves can't go on yet: %s", error)
                for name in self._journal.records:
                    self._report(name, f"moves can't go on yet: {error}")
                await self._sleep(next(pauses))
            else:
                return

    def led_away(self, group_version: GroupVersion) -> None:
        """Resume the adopted families that have this group-version: for a moment the host was found to serve it itself again."""
        for name, record in self._journal.records.items():
            if group_version in record.group_versions:
                self._moves.led_away.add(name)
                self._moves.resumed.discard(name)
        self._wants.changed.set()

    def _due(self) -> tuple[str, Step | None]:
        records = self._journal.records
        for name in sorted(records.keys() | self._wants.families.keys()):
            family = self._wants.families.get(name)
            step = self._step(name)
            if step is None:
                self._wait_for(name, family if name not in records else None)
            elif name not in self._retries or self._retries[name][0] <= self._clock() or self._retries[name][1] != family:
                return name, step
        for name in self._waiting.keys() - self._wants.families.keys():
            del self._waiting[name]
        return "", None

    def _step(self, name: str) -> Step | None:
        record, family = self._journal.get(name), self._wants.families.get(name)
        if family is None and record is not None and record.phase is not Phase.SWITCHING_BACK:
            return None  # `want` has not been called for it yet
        is_refused = family is not None and self._refused.get(name) == (family.asked, family.through_api)
        if is_refused and family is not None:
            # It stays adopted until its release is asked for again.
            family = replace(family, wanted=Wanted.KEEP)
        step = next_step(record, family, resumed=name in self._moves.resumed, cleaned=self._moves.cleaned)
        return None if is_refused and step is Step.CLEAN else step

    def _wait_for(self, name: str, family: Family | None) -> None:
        if family is not None:
            reason = "; ".join(family.obstacles) or "; ".join(f"{each} is being deleted" for each in family.deleted)
            self._show_waiting(family, reason)

    def _show_waiting(self, family: Family, reason: str) -> None:
        before = self._waiting.get(family.name)
        record = self._moves.new(family, shared=False).at(Phase.WAITING, before.since if before else self._moves.time(), reason)
        if record != before:
            self._waiting[family.name] = record
            self._observe(record, None)

    async def _pause(self) -> None:
        """Wait until something changes, or a failed step is to be tried again."""
        due = [at for name, (at, _) in self._retries.items() if self._step(name) is not None]
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(self._wants.changed.wait())]
        if due:
            waits.append(asyncio.create_task(self._slept(max(0.0, min(due) - self._clock()))))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _slept(self, seconds: float) -> None:
        await self._sleep(seconds)

    async def _attempt(self, name: str, step: Step) -> None:
        family = self._wants.families.get(name)
        try:
            await self._moves.do(name, step)
            if self._failing.get(name) is step:
                del self._failing[name]
                await self._moves.well(name)
        except ChangedError as error:
            log.info("%s: the move is given up, and begins anew when it can: %s", name, error)
            self._report(name, f"the move is given up, and begins anew when it can: {error}")
            await self._give_up(name, "")
        except AggserverError as error:
            await self._failed(name, step, family, str(error) or type(error).__name__, lasting=isinstance(error, Refused))
        except TimeoutError:
            why = f"the copy has not caught up with the host within {CATCH_UP_SECONDS:g} s"
            await self._failed(name, step, family, why)
        else:
            # Going back or resuming is no success: if the step that failed comes next, its pauses go on growing.
            if self._step(name) is None:
                self._retries.pop(name, None)
                self._pauses.pop(name, None)
            if name in self._unrecorded and (record := self._journal.get(name)) is not None:
                self._unrecorded.discard(name)
                self._observe(record, None)

    async def _failed(self, name: str, step: Step, family: Family | None, why: str, *, lasting: bool = False) -> None:
        """Handle the failure of a step. lasting: a release that is tried again only when it is asked for again."""
        if lasting and family is not None:
            self._refused[name] = family.asked, family.through_api
            command = f"aggserver adopt release {name} --through-api"
            log.warning("%s: %s failed, and is not tried again before this command: `%s`: %s", name, step, command, why)
        else:
            pause = next(self._pauses.setdefault(name, RETRY.pauses()))
            self._retries[name] = self._clock() + pause, family
            log.warning("%s: %s failed, trying again in %g s: %s", name, step, pause, why)
        self._failing[name] = step
        self._report(name, why)
        await self._give_up(name, why)

    async def _give_up(self, name: str, why: str) -> None:
        """After a failure, bring the family back to a phase in which clients can go on."""
        record = self._journal.get(name)
        try:
            if record is None:
                if why and (family := self._wants.families.get(name)) is not None:
                    self._show_waiting(family, why)
            elif record.phase in (Phase.COPYING, Phase.GUARDING, Phase.SWITCHING):
                await self._moves.back(record, why)
            elif record.phase is Phase.GIVING_BACK:
                await self._moves.stay_adopted(record, why)
            else:
                # A step of an adopted family may be half done: let `Step.RESUME` set everything up anew.
                self._moves.resumed.discard(name)
                if record.reason != why:
                    await self._moves.write(replace(record, reason=why))
        except (AggserverError, TimeoutError) as error:
            log.warning("%s: can't go back yet: %s", name, error)
            record = self._journal.get(name)
            if record is not None:
                # Our store may take no writes. The status shows the reason nevertheless.
                both = "; ".join(dict.fromkeys(filter(None, (why, f"it can't go back yet: {error}"))))
                self._unrecorded.add(name)
                self._observe(replace(record, reason=both), None)

    def _observe_move(self, record: Record, moving: Moving | None) -> None:
        """Observe a record of the journal. One that was removed comes with the phase Waiting."""
        family = self._wants.families.get(record.family)
        if record.phase is Phase.WAITING and record == self._journal.get(record.family):
            pass  # the record is kept, although the host serves its definitions by itself
        elif record.phase is Phase.WAITING and record.reason and family is not None and family.wanted is Wanted.ADOPT:
            self._waiting[record.family] = record
        else:
            self._waiting.pop(record.family, None)
            if record.phase is Phase.WAITING:
                # It is released: drop the reason of an earlier failure.
                record = record.at(Phase.WAITING, record.since)
        self._observe(record, moving)
