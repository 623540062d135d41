"""Moves: the phases of one family's move, to this server and back.

The record is written before a phase takes effect, and every step can be repeated. So after a crash at any moment the same step is
repeated, or the move goes back:
- Copying and Guarding begin anew. Nothing is served here yet, and the guard is taken off first.
- From Switching on a step is repeated. Until the record says Adopted nothing is written on either side: the host's guard refuses
  writes, and here they are frozen. So a move that fails before that can go back without losing anything.
- GivingBack and SwitchingBack are repeated. Writes are frozen here before the last difference is read, and our copies are deleted
  only after the host serves what it has been given.
What is wanted may change at any moment. A copy is given up at once. The short steps after it are not interrupted, but before
clients may write here, the host itself is asked again what is wanted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from aggserver.adoption.copy.copying import AHEAD, Copier, Copies, drop, stopped
from aggserver.adoption.families import Family, Wanted
from aggserver.adoption.give_back.to_etcd import RAISED_AT_ONCE, objects_prefix, raising
from aggserver.adoption.leftovers.cleaning import Cleaning
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import LED_HERE, Copied, Given, Moving, Phase, Progress, Record, ReportMessage
from aggserver.adoption.steps import GUARDED, Actions, Step, fits, joined
from aggserver.adoption.wants import ChangedError, Wants
from aggserver.cluster.pacing import Sleep
from aggserver.errors import AggserverError
from aggserver.meta import codec
from aggserver.meta.times import format_time, parse_time
from aggserver.storage.interface import Storage

__all__ = ["CATCH_UP_SECONDS", "Moves", "Observe", "Pace"]

log = logging.getLogger("aggserver.adoption")

# Called after each change of a family's record, and with the progress of its copy, or of the way back. moving: None except then.
Observe = Callable[[Record, Moving | None], None]

# How long the host's writes may wait for the copy to catch up, before the move is given up.
CATCH_UP_SECONDS = 15.0
# How long to wait for late writes of the host: longer than kube-apiserver lets a request take.
LATE_SECONDS = 75.0
# Revisions that the host may lack when a release begins in which other servers of the store refuse writes.
NEAR = 1_000
# By then watches at the host have ended: kube-apiserver ends them about a second after their definition has changed.
ENDED_SECONDS = 5.0
# After this time watches at the host that a crash may have left open have timed out.
WATCHES_SECONDS = 3600.0

_DEFINITIONS = "/apiextensions.k8s.io/customresourcedefinitions/"


class Moves:
    """Carries out the steps of moves. The arguments are those of `mover.Mover`.

    Every method raises AggserverError, and TimeoutError if the copy lags behind.
    """

    def __init__(
        self,
        storage: Storage,
        journal: Journal,
        steps: Actions,
        wants: Wants,
        observe: Observe,
        report: ReportMessage,
        *,
        clock: Callable[[], float],
        now: Callable[[], float],
        sleep: Sleep,
    ) -> None:
        self._storage = storage
        self._journal = journal
        self._steps = steps
        self._wants = wants
        self._observe = observe
        self._report = report
        self._clock = clock
        self._now = now
        self._sleep = sleep
        # One family at a time. Stopping to follow late writes, a task of its own, also needs the lock.
        self.turn = asyncio.Lock()
        # The adopted families that this process has resumed or moved, and those whose watches at the host it has ended.
        self.resumed: set[str] = set()
        self._watches_ended: set[str] = set()
        # Families that must not be guarded although their record says Guarding: the move was given up while our store takes no
        # writes.
        self.unguarded: set[str] = set()
        # Adopted families with a group-version that for a moment the host was found to serve itself again.
        self.led_away: set[str] = set()
        # By family that is copied: `Family.generations` when the copy began.
        self._generations: dict[str, Mapping[str, int]] = {}
        self._cleaning = Cleaning(journal, steps, wants, self.write, report)
        self._copies = Copies(storage, report, clock=clock, sleep=sleep)
        self._background: set[asyncio.Task[None]] = set()

    @property
    def cleaned(self) -> Mapping[str, str]:
        """The requests for cleanups that were answered, for `steps.next_step`."""
        return self._cleaning.answered

    async def close(self) -> None:
        """End the tasks in the background."""
        await stopped(list(self._background))
        await self._copies.close()

    async def do(self, name: str, step: Step) -> None:
        """Do the step that `steps.next_step` returned for the family."""
        record, family = self._journal.get(name), self._wants.families.get(name)
        if step is Step.BEGIN:
            assert family is not None
            await self._begin(family)
            return
        assert record is not None
        match step:
            case Step.MOVE:
                await (self._switch(record) if record.phase is Phase.SWITCHING else self._copy(record))
            case Step.BACK:
                await self.back(record, "")
            case Step.RESUME:
                await self._resume(record)
            case Step.RELEASE:
                await self._release(record, through_api=family is not None and family.through_api)
            case Step.FINISH:
                await self._switch_back(record)
            case Step.DISCARD:
                assert family is not None
                await self.part(record, family.discard)
            case _:
                assert family is not None
                await self._follow_family(step, record, family)

    # --- to this server ---

    def new(self, family: Family, *, shared: bool) -> Record:
        return Record(family.name, dict(family.uids), list(family.group_versions), Phase.COPYING, shared, self.time())

    async def _begin(self, family: Family) -> None:
        shared = [await self._is_shared(name, uid) for name, uid in family.uids.items()]
        if any(shared) != all(shared):
            raise AggserverError("our store has some of the host's definitions, and not others")
        # Before anything is copied: each attempt of a move that can't succeed would refuse writes of clients for a moment.
        await self._steps.try_to_us(family.group_versions)
        record = self.new(family, shared=all(shared))
        if record.shared:
            await self.write(record.at(Phase.SWITCHING, self.time()))
            await self._switch(self._journal.records[record.family])
            return
        await self._check_empty(record.definitions)
        await self.write(record)
        await self._copy(record)

    async def _check_empty(self, definitions: Sequence[str]) -> None:
        for name in definitions:
            if count := await self._storage.count(objects_prefix(name)):
                raise AggserverError(
                    f"our store has {count} objects of {name} already, which are not copies: nothing is overwritten"
                )

    async def _is_shared(self, name: str, uid: str) -> bool:
        found = await self._storage.get(_DEFINITIONS + name)
        if found is None:
            return False
        try:
            return bool(codec.decode_stored(found.value)["metadata"]["uid"] == uid)
        except (ValueError, KeyError, TypeError):
            raise AggserverError(
                f"{self._storage.location(found.key)} can't be read, so whose store this is is not known"
            ) from None

    async def _copy(self, record: Record) -> None:
        await self._end_following(record.family)
        family = self._wants.families.get(record.family)
        self._generations[record.family] = family.generations if family is not None else {}
        copiers = await self._wants.during(
            self._copy_all(record), lambda: self._check_wanted(record, self._wants.families.get(record.family))
        )
        self._check_wanted(record, self._wants.families.get(record.family))
        # From here on clients wait, so the host must be able to follow: its etcd may be full.
        await self._steps.check_host()
        record = record.at(Phase.GUARDING, self.time())
        await self.write(record)
        self.unguarded.discard(record.family)
        await self.guard()
        async with asyncio.timeout(CATCH_UP_SECONDS):
            copied = dict(zip(copiers, await asyncio.gather(*map(_caught_up, copiers.values())), strict=True))
        # From the next record on, every server must refuse writes of these objects.
        for name in record.definitions:
            await self._steps.freeze(name)
        record = replace(record.at(Phase.SWITCHING, self.time()), copied=copied)
        await self.write(record)
        await self._switch(record)

    async def _copy_all(self, record: Record) -> Mapping[str, Copier]:
        for name in record.definitions:
            await self._steps.add_finalizer(name)
        prefixes = {name: objects_prefix(name) for name in record.definitions}
        copiers = await self._copies.begin(
            record.family,
            prefixes,
            self._steps.source,
            partial(self._observe, record),
            lambda name: self._steps.has(name, record.uids[name]),
        )
        for copier in copiers.values():
            await copier.near()
        return copiers

    async def _switch(self, record: Record) -> None:
        """Lead clients here. Until the record says Adopted, none of them can write on either side."""
        copiers = self._copies.get(record.family)
        passed = 0
        if record.shared:
            for name in record.definitions:
                await self._steps.add_finalizer(name)
        else:
            for name in record.definitions:
                await self._steps.freeze(name)
            await self.guard()
            await self._pass_host(record)
        await self._steps.serve(record)
        for name, copier in copiers.items():
            copier.switched(record.copied[name])
        await self._steps.to_us(record.group_versions)
        # A definition may have been created in these group-versions before the last kube-apiserver led here.
        self._wants.set_families(await self._steps.families(_groups([record])))
        self._check_wanted(record, self._wants.families.get(record.family))
        if not record.shared:
            # Clients got newer revisions from the host until it led the last of them here, and its watches that are still open
            # deliver newer ones until they end.
            passed = await self._pass_host(record, AHEAD)
        await self.write(record.at(Phase.ADOPTED, self.time()))
        self.resumed.add(record.family)
        for name in record.definitions:
            self._steps.thaw(name)
        if not record.shared:
            self._start(self._end_host_watches(record, passed))
            self._start(self._end_late(record.family, copiers))

    async def _pass_host(self, record: Record, ahead: int = 0) -> int:
        """Make clients that have revisions of the host list anew, and never see revisions go back. Returns ours before that.

        ahead: how many more revisions clients may still get from the host.
        """
        passed = await self._storage.advance(await self._steps.host_revision() + ahead)
        for name in record.definitions:
            await self._steps.mark(name)
        return passed

    def _check_wanted(self, record: Record, family: Family | None) -> None:
        if family is None or not fits(record, family):
            why = [*family.obstacles, *([family.reason] if family.reason else [])] if family is not None else []
            raise ChangedError("; ".join(why) or "what it consists of, or what it serves, has changed")
        # The host prunes objects by the schema: if it changed during the copy, copied objects may lack fields.
        if family.generations != self._generations.get(record.family, family.generations):
            raise ChangedError("the spec of a definition has changed")

    async def _resume(self, record: Record) -> None:
        """Set up a family that was adopted before this process began, or of which a step has failed."""
        if record.phase is Phase.GIVING_BACK:
            await self.stay_adopted(record, "")
            return
        if record.phase is Phase.WAITING:
            record = record.at(Phase.ADOPTED, self.time())
            await self.write(record)
        if not record.shared:
            await self.guard()
        await self._steps.serve(record)
        for name in record.definitions:
            self._steps.thaw(name)
        # Mark it as led away until `to_us` succeeds: if that fails, what the host served until then is unknown.
        known, self.led_away = record.family not in self.led_away, self.led_away | {record.family}
        led_away = await self._steps.to_us(record.group_versions) or not known
        passed = 0
        if led_away and not record.shared:
            # Clients may have the host's revisions, and watches there that get no more events.
            passed = await self._pass_host(record, AHEAD)
        self.led_away.discard(record.family)
        self.resumed.add(record.family)
        recent = self._now() - parse_time(record.since) < WATCHES_SECONDS and record.family not in self._watches_ended
        if (recent or led_away) and not record.shared:
            self._start(self._end_host_watches(record, passed))

    async def _end_host_watches(self, record: Record, passed: int = 0) -> None:
        """End the watches that clients have open at the host. passed: the revision up to which clients have to list anew.

        Such a watch gets no events of writes here, but bookmarks with later revisions of the host. A client that resumed here
        from such a revision would miss earlier writes here, so it has to list anew, too.
        """
        self._watches_ended.add(record.family)
        for name in record.definitions:
            try:
                await self._steps.end_watches(name)
            except AggserverError as error:
                log.warning("%s: clients that watched %s at the host may miss events: %s", record.family, name, error)
                self._report(record.family, str(error))
        await self._sleep(ENDED_SECONDS)
        try:
            if await self._steps.host_revision() > passed:
                await self._pass_host(record)
        except AggserverError as error:
            log.warning("%s: clients that watched at the host may miss events: %s", record.family, error)

    # --- late writes ---

    async def _end_late(self, family: str, copiers: Mapping[str, Copier]) -> None:
        """Wait for late writes, then stop following the host, unless the family was released since, and maybe moved again.

        copiers: those of the move.
        """
        await self._sleep(LATE_SECONDS)
        async with self.turn:
            if self._copies.get(family) is copiers:
                await self._end_following(family)

    async def _end_following(self, family: str) -> None:
        """Stop following the host, and add the late writes to the record."""
        copiers, record = await self._copies.end(family), self._journal.get(family)
        if record is None or record.phase is not Phase.ADOPTED:
            return
        copied = dict(record.copied)
        copied |= {name: await copier.with_late(copied[name]) for name, copier in copiers.items() if name in copied}
        if all(copied[name].digest == each.digest for name, each in record.copied.items()):
            return
        try:
            await self.write(replace(record, copied=copied))
        except AggserverError as error:
            log.warning("%s: late writes of the host could not be recorded: %s", family, error)

    # --- an adopted family changes ---

    async def _follow_family(self, step: Step, record: Record, family: Family) -> None:
        match step:
            case Step.EMPTY:
                await self._empty(record, sorted(record.uids.keys() & set(family.deleted)))
            case Step.HOLD:
                for name in family.unheld:
                    await self._steps.add_finalizer(name)
                # The watch may not have delivered the finalizer yet.
                self._wants.set_families(await self._steps.families(_groups([record])))
            case Step.JOIN:
                await self._join(record, family)
            case Step.SWITCH:
                await self._follow_versions(record, family)
            case _:
                await self._end_following(record.family)
                await self._cleaning.clean(self._journal.get(record.family) or record, family)

    async def _join(self, record: Record, family: Family) -> None:
        new = sorted(family.uids.keys() - record.uids.keys())
        if not record.shared:
            await self._check_empty(new)
        for name in new:
            await self._steps.add_finalizer(name)
        record = joined(record, family, await self._steps.host_revision())
        await self.write(record)
        if not record.shared:
            await self.guard()
        await self._steps.serve(record)
        await self._steps.to_us(record.group_versions)

    async def _follow_versions(self, record: Record, family: Family) -> None:
        gone = sorted(set(record.group_versions) - set(family.group_versions))
        both = replace(record, group_versions=sorted({*record.group_versions, *family.group_versions}))
        if both != record:
            await self.write(both)
            await self._steps.to_us(list(family.group_versions))
        await self._steps.remove(gone)
        await self.write(replace(both, group_versions=list(family.group_versions)))

    async def _empty(self, record: Record, deleted: Sequence[str]) -> None:
        """Delete the objects of deleted definitions, then let the definitions go, as upstream's finalizer controller does."""
        await self._end_following(record.family)
        record = self._journal.get(record.family) or record
        for name in deleted:
            if message := await self._steps.empty(name):
                self._report(record.family, message)
        await self.part(record, deleted)

    async def part(self, record: Record, names: Sequence[str]) -> None:
        """Take definitions out of the record, delete their objects here, and leave the definitions to the host."""
        await self._end_following(record.family)
        record = self._journal.get(record.family) or record
        if record.uids.keys() <= set(names):
            await self.back(record, "")
            return
        await self._steps.withdraw(names)
        for name in names:
            if not record.shared:
                await drop(self._storage, objects_prefix(name))
            await self._steps.remove_finalizer(name, record.uids[name])
        # Their group-versions stay in the record until `Step.SWITCH` removes them.
        uids = {name: uid for name, uid in record.uids.items() if name not in names}
        await self.write(replace(record, uids=uids, copied={name: record.copied[name] for name in record.copied if name in uids}))
        await self.guard()

    # --- back to the host ---

    async def _release(self, record: Record, *, through_api: bool) -> None:
        await self._end_following(record.family)
        record = self._journal.get(record.family) or record
        if record.shared:
            await self.back(record, "")
            return
        for name in record.definitions:
            await self._steps.close_leftovers(name)
        await self._raise_host(record)
        record = replace(record.at(Phase.GIVING_BACK, self.time()), through_api=through_api)
        await self.write(record)
        self.resumed.discard(record.family)
        await self._steps.advance_host(await self._storage.revision())
        backs = {name: self._steps.give_back(record, name) for name in record.definitions}
        begun = set()
        for name, back in backs.items():
            if not await back.unchanged(record.copied[name]):
                await back.check(record.copied[name])
                self._report_given(record, await back.first(record.copied[name], self._progress(record)))
                begun.add(name)
        for name in record.definitions:
            await self._steps.freeze(name)
        if any(back.through_api for back in backs.values()) and begun:
            await self._lead_back(record)
        for name, back in backs.items():
            if name not in begun:
                if await back.unchanged(record.copied[name]):
                    continue
                await back.check(record.copied[name])
                if back.through_api and not begun:
                    await self._lead_back(record)
                begun.add(name)
            self._report_given(record, await back.rest(record.copied[name], self._progress(record)))
        # After the next record the release can't go back, and reads wait. So writes that the host may refuse come before it.
        await self._steps.advance_host(await self._storage.revision())
        await self._steps.check_host()
        # A definition that is being deleted must not be given back: the objects that the host has deleted would be there again.
        self._wants.set_families(await self._steps.families(_groups([record])))
        if (now := self._wants.families.get(record.family)) is not None and now.deleted:
            raise ChangedError(f"{', '.join(now.deleted)} is being deleted")
        await self.back(record, "")

    def _progress(self, record: Record) -> Progress:
        """Shows how much of one definition is given back, as a copy does."""
        return Pace(partial(self._observe, record), self._clock)

    async def _raise_host(self, record: Record) -> None:
        """Bring the host's revision near ours while clients go on. Only writes raise it, so that may take an hour."""
        reported = ""
        while True:
            host = await self._steps.host_revision()
            lacking = await self._storage.revision() - host
            if lacking <= NEAR:
                return
            part = min(lacking, RAISED_AT_ONCE)
            await self._steps.advance_host(host + part)
            if await self._steps.host_revision() < host + part:
                return  # there is no access to the host's etcd
            if not reported and lacking > part:
                reported = f"the cluster's etcd has to advance first, by {raising(lacking)}; clients go on meanwhile"
                self._report(record.family, reported)
            log.info("%s: the cluster's etcd has advanced by %d revisions, %d are lacking", record.family, part, lacking - part)
            family = self._wants.families.get(record.family)
            if family is None or family.wanted is not Wanted.RELEASE:
                raise ChangedError("it is not to be released any more")

    async def _lead_back(self, record: Record) -> None:
        """Lead clients to the host before it has all objects, which go there through its API."""
        await self._steps.check_host()
        for name in record.definitions:
            await self._steps.freeze(name, reads=True)
        await self._steps.to_host(record.group_versions)

    def _report_given(self, record: Record, given: Given) -> None:
        for each in given.messages:
            self._report(record.family, each)
        if given.written or given.deleted:
            log.info("%s: gave back %d objects and %d deletions", record.family, given.written, given.deleted)

    async def stay_adopted(self, record: Record, why: str) -> None:
        """End a release that failed: the family stays adopted. Writes are taken again once clients are surely led here."""
        record = record.at(Phase.ADOPTED, self.time(), why)
        await self.write(record)
        await self._resume(record)

    async def well(self, name: str) -> None:
        """Remove the reason of an earlier failure from the record of an adopted family."""
        record = self._journal.get(name)
        if record is not None and record.phase is Phase.ADOPTED and record.reason:
            await self.write(replace(record, reason=""))

    async def back(self, record: Record, why: str) -> None:
        """Go back from any phase in which the host has all objects."""
        if not record.shared:
            if record.phase is Phase.GUARDING:
                # Clients use the host. Their writes must not be refused until our store has room for the next record.
                self.unguarded.add(record.family)
                await self.guard()
            for name in record.definitions:
                await self._steps.freeze(name)
        await self.write(record.at(Phase.SWITCHING_BACK, self.time(), why))
        await self._switch_back(self._journal.records[record.family])

    async def _switch_back(self, record: Record) -> None:
        await self._end_following(record.family)
        if not record.shared:
            if record.copied:  # before Switching, no client has seen a revision of ours
                # In two steps: most of it while reads are served, which also go on if the host's etcd is full, then the rest.
                await self._steps.advance_host(await self._storage.revision())
            for name in record.definitions:
                await self._steps.freeze(name, reads=True)
            if record.copied:
                await self._steps.advance_host(await self._storage.revision())
        await self._steps.to_host(record.group_versions)
        if not record.shared:
            await self.guard(without=record.family)
        await self._steps.withdraw(record.definitions)
        for name in record.definitions:
            if not record.shared:
                await drop(self._storage, objects_prefix(name))
            self._steps.thaw(name)
            await self._steps.remove_finalizer(name, record.uids[name])
        await self._remove(record)

    # --- small things ---

    async def guard(self, *, without: str = "") -> None:
        left_out = {without, *self.unguarded}
        records = [each for each in self._journal.records.values() if not each.shared and each.family not in left_out]
        await self._steps.guard(frozenset(name for each in records if each.phase in GUARDED for name in each.uids))

    async def catch_up(self) -> None:
        """Bring the records up to date with what happened to adopted definitions while no server was running.

        Asks the host itself, since a watch may be behind, and a family that is taken for lost is not served any more.
        """
        records = self._journal.records.values()
        for family in await self._steps.families(_groups(records)) if records else ():
            record = self._journal.get(family.name)
            if record is None or record.phase not in LED_HERE:
                continue
            # Definitions that are gone and have no objects here. If they have any, a person must decide.
            empty = [
                name for name in record.uids if name not in family.uids and not await self._storage.count(objects_prefix(name))
            ]
            if family.lost:
                await self.write(record.at(Phase.WAITING, self.time(), family.lost))
            elif empty:
                await self.part(record, empty)

    async def write(self, record: Record) -> None:
        """Write the record and observe it. Raises StorageError."""
        await self._journal.write(record)
        self._observe(record, None)

    async def _remove(self, record: Record) -> None:
        await self._journal.remove(record.family)
        self.resumed.discard(record.family)
        self.unguarded.discard(record.family)
        self.led_away.discard(record.family)
        self._watches_ended.discard(record.family)
        self._generations.pop(record.family, None)
        self._observe(record.at(Phase.WAITING, self.time(), record.reason), None)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def time(self) -> str:
        return format_time(self._now())


class Pace:
    """A `record.Progress` that estimates the seconds left, by the time since the present pass over the objects began."""

    def __init__(self, observe: Callable[[Moving], None], clock: Callable[[], float]) -> None:
        self._observe = observe
        self._clock = clock
        self._began = self._last = clock()
        self._done = 0

    def __call__(self, done: int, total: int, size: int) -> None:
        if done < self._done:  # another pass, which began when the one before it ended
            self._began = self._last
        self._done, self._last = done, self._clock()
        left = (self._last - self._began) / done * (total - done) if done else None
        self._observe(Moving(done, size, total - done, left))


def _groups(records: Iterable[Record]) -> set[str]:
    return {group for record in records for group, _ in record.group_versions}


async def _caught_up(copier: Copier) -> Copied:
    return await copier.copied(await copier.caught_up())
