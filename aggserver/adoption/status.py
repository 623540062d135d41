"""Status: reports adoption to people and programs, in a ConfigMap, in Events on the definitions, and in metrics.

The ConfigMap `aggserver-adoption` in the service's namespace has one key for each definition, its value is JSON, see `entry`. It
is written when something has changed, at most once a second, and corrected when somebody else has changed it. Etcd takes a
request of 1.5 MiB and the API a ConfigMap of 1 MiB. With very many definitions, entries are shortened, and in the end left out.
Everything up to `Status` is pure.
Source: k8s.io/api core/v1/types.go (Event, MaxSecretSize), k8s.io/apimachinery pkg/apis/meta/v1/types.go (Condition), and
k8s.io/client-go tools/record/events_cache.go (the limits of Events), v0.36.3.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random as randomness
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.adoption.records.record import LED_HERE, NOTE, Moving, Phase, Record
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.pacing import RECONNECT, Sleep
from aggserver.cluster.problems import Problems
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.times import format_time
from aggserver.monitoring.adoption import AdoptionMetrics

__all__ = ["CONFIG_MAP", "LEFT_OUT", "LOOK_SECONDS", "Notice", "Status", "entry", "event", "fitted", "notice"]

log = logging.getLogger("aggserver.adoption")

CONFIG_MAP = "aggserver-adoption"
# The key whose value is how many definitions are left out of the ConfigMap. No definition has this name: theirs have dots.
LEFT_OUT = "left-out"

# Of all keys and values; metadata and escapes come on top. The API's limit is 1 MiB.
MOST_BYTES = 900 * 1024
MOST_TEXT = 500  # characters of a reason; events may have 1,024
SHORT_TEXT = 80

# How many Events may wait to be sent, and how many one definition may have at once and per second, as in client-go.
MOST_EVENTS = 2000
BURST = 25
EVENTS_A_SECOND = 1 / 300
MOST_DEFINITIONS = 4096

# How often to check whether the ConfigMap is still what was written.
LOOK_SECONDS = 10.0

EVENTS = "/api/v1/namespaces/default/events"
COMPONENT = "aggserver"

# Reason and message of the Event of each phase.
_NOTICES = {
    Phase.COPYING: ("AdoptionCopying", "objects are copied to aggserver; clients go on at the cluster's etcd"),
    Phase.GUARDING: ("AdoptionGuarding", "writes are refused for a moment, with Retry-After, until the last ones are copied"),
    Phase.SWITCHING: ("AdoptionSwitching", "the APIServices become aggserver's"),
    Phase.ADOPTED: ("Adopted", "requests for these objects are served by aggserver"),
    Phase.GIVING_BACK: ("ReleaseGivingBack", "what has changed since the adoption goes back to the cluster"),
    Phase.SWITCHING_BACK: ("ReleaseSwitchingBack", "the APIServices become kube-apiserver's again"),
}


class Notice(NamedTuple):
    """What an Event says of a definition."""

    reason: str
    message: str
    warning: bool = False


# --- the ConfigMap ---


def entry(
    record: Record,
    definition: str,
    moving: Moving | None,
    problems: Sequence[str],
    message: JSONMapping | None,
    before: JSONMapping,
    now: str,
) -> JSONObject:
    """The ConfigMap's entry for a definition. Members without a value are left out.

    family, phase, shared, since and reason are the record's. progress, while it is copied or given back: objects and bytes,
    objects remaining, secondsLeft (see `Moving`). copied: objects and bytes that stay in the cluster's etcd. adoptedSince: RFC
    3339. told: the last message and its time. conditions: Adopted, Progressing, Degraded, in the form of metav1.Condition.

    problems: what is wrong although it is adopted. before: the last entry, {} if there is none; it gives the times of changes.
    now: RFC 3339, for what changes within a phase.
    """
    shown: JSONObject = {"family": record.family, "phase": record.phase.value, "since": record.since, "shared": record.shared}
    if record.reason:
        shown["reason"] = _cut(record.reason, MOST_TEXT)
    if moving is not None:
        shown["progress"] = {"objects": moving.objects, "bytes": moving.size, "remaining": moving.remaining}
        if moving.seconds_left is not None:
            shown["progress"]["secondsLeft"] = round(moving.seconds_left)
    copied = record.copied.get(definition)
    if copied is not None:
        shown["copied"] = {"objects": copied.count, "bytes": copied.size}
    if record.phase is Phase.ADOPTED:
        shown["adoptedSince"] = before.get("adoptedSince") or record.since
    elif record.phase in (Phase.GIVING_BACK, Phase.SWITCHING_BACK) and "adoptedSince" in before:
        shown["adoptedSince"] = before["adoptedSince"]
    if message:
        shown["told"] = dict(message)
    shown["conditions"] = _conditions(record, problems, before.get("conditions") or (), now)
    return shown


def _conditions(record: Record, problems: Sequence[str], before: Iterable[JSONMapping], now: str) -> list[JSONObject]:
    """Adopted and Progressing change with the phase, and so at its time; Degraded at any time."""
    last = {each["type"]: each for each in before}
    reason, trouble = record.phase.value, "; ".join(problems)
    wanted = [
        ("Adopted", record.phase in LED_HERE, reason, _cut(record.reason, MOST_TEXT)),
        ("Progressing", record.phase not in (Phase.WAITING, Phase.ADOPTED), reason, ""),
        ("Degraded", bool(trouble), "Problems" if trouble else "AsExpected", _cut(trouble, MOST_TEXT)),
    ]
    made = []
    for kind, holds, why, message in wanted:
        status = "True" if holds else "False"
        if last.get(kind, {}).get("status") == status:
            at = last[kind]["lastTransitionTime"]
        else:
            at = now if kind == "Degraded" and (holds or kind in last) else record.since
        made.append({"type": kind, "status": status, "reason": why, "message": message, "lastTransitionTime": at})
    return made


def fitted(entries: Mapping[str, JSONObject], most: int = MOST_BYTES) -> dict[str, str]:
    """The data of the ConfigMap, of at most `most` bytes. Entries of adopted families are shortened first, and left out first."""
    data = {name: _text(each) for name, each in sorted(entries.items())}
    room = most - sum(map(_size, data.items()))
    order = sorted(data, key=lambda name: (entries[name]["phase"] != Phase.ADOPTED.value, name))
    for name in order:
        if room >= 0:
            return data
        short = _text(_shortened(entries[name]))
        room += len(data[name].encode()) - len(short.encode())
        data[name] = short
    left_out = 0
    for name in order:
        if room >= 0:
            break
        if not left_out:
            room -= _size((LEFT_OUT, "000000"))
        room += _size((name, data.pop(name)))
        left_out += 1
    return {**data, LEFT_OUT: str(left_out)} if left_out else data


def _shortened(full: JSONMapping) -> JSONObject:
    kept = {key: full[key] for key in ("family", "phase", "since", "shared", "progress", "copied", "adoptedSince") if key in full}
    return kept | ({"reason": _cut(full["reason"], SHORT_TEXT)} if "reason" in full else {})


def _text(value: JSONMapping) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(item: tuple[str, str]) -> int:
    return len(item[0].encode()) + len(item[1].encode())


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


# --- Events ---


def notice(before: Record | None, after: Record | None) -> Notice | None:
    """What an Event says of the step from one record of a family to the next; None if no Event is due.

    before, after: None if there was or is no record.
    """
    if after is None or (after.phase is Phase.WAITING and not after.reason):
        gone = before is not None and before.phase is Phase.SWITCHING_BACK
        return Notice("Released", "requests for these objects are served by kube-apiserver again") if gone else None
    if before is not None and (before.phase, before.reason) == (after.phase, after.reason):
        return None
    if after.phase is Phase.WAITING:
        return Notice("AdoptionWaiting", after.reason, warning=True)
    if after.reason:
        return Notice(_NOTICES[after.phase][0], after.reason, warning=True)
    return Notice(*_NOTICES[after.phase])


def event(definition: str, uid: str, notified: Notice, now: str, count: int = 1, first: str = "") -> JSONObject:
    """An Event on a definition. Its name is a hash of what it says, so that a repetition has the same name and is counted.

    now, first: RFC 3339.
    """
    identity = "\0".join((definition, uid, notified.reason, notified.message))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{definition[:200]}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "name": definition,
            "uid": uid,
        },
        "reason": notified.reason,
        "message": _cut(notified.message, 1000),
        "type": "Warning" if notified.warning else "Normal",
        "source": {"component": COMPONENT},
        "firstTimestamp": first or now,
        "lastTimestamp": now,
        "count": count,
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
    }


# --- the writer ---


class Status:
    """Writes the status to the host. Methods are called on the event loop and return at once; `run` is the task that writes.

    namespace: the service's. Only one server may run it at a time: the one that moves. now: seconds since 1970; clock: monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        metrics: AdoptionMetrics,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
    ) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._namespace = namespace
        self._metrics = metrics
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._records: dict[str, Record] = {}
        # Families whose record is from `restore`: it is not known yet whether the ConfigMap shows it.
        self._restored: set[str] = set()
        self._moving: dict[str, Moving] = {}
        self._problems: dict[str, Sequence[str]] = {}
        self._messages: dict[str, JSONObject] = {}
        self._entries: dict[str, JSONObject] = {}
        self._written: Mapping[str, str] | None = None  # None: not known
        self._events: OrderedDict[tuple[str, str, Notice], None] = OrderedDict()
        self._budgets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._changed = asyncio.Event()
        self._changed.set()
        self._trouble = Problems()  # of which the log tells

    def restore(self, records: Iterable[Record]) -> None:
        """Set all records of the journal, before `run`: `observe` is called only for those that change.

        A record that the ConfigMap does not show yet gets its Events after the ConfigMap was read.
        """
        self._records = {record.family: record for record in records}
        self._restored = set(self._records)

    def observe(self, record: Record, moving: Moving | None = None) -> None:
        """Set a family's present record, and make the Events of the step. moving: the progress of its copy or release.

        A family that is Waiting without a reason after SwitchingBack is forgotten.
        """
        self._restored.discard(record.family)
        before = self._records.get(record.family)
        if before is not None and before.phase is Phase.SWITCHING_BACK and notice(before, record) == notice(before, None):
            self.forget(record.family)
            return
        self._records[record.family] = record
        if moving is None:
            self._moving.pop(record.family, None)
        else:
            self._moving[record.family] = moving
        # What the ConfigMap shows already had its Events before a restart.
        if before is not None or not self._is_shown(record):
            self._add_events(record, notice(before, record))
        self._changed.set()

    def forget(self, family: str) -> None:
        """Forget a family that has no record any more and does not wait to be adopted."""
        before = self._records.pop(family, None)
        self._moving.pop(family, None)
        self._problems.pop(family, None)
        self._messages.pop(family, None)
        if before is not None:
            self._add_events(before, notice(before, None))
        self._changed.set()

    def wanted(self, families: Collection[str]) -> None:
        """Forget waiting families that are not wanted any more. families: all that are to be adopted or have a record."""
        gone = [name for name, record in self._records.items() if record.phase is Phase.WAITING and name not in families]
        for name in gone:
            self.forget(name)

    def problems(self, family: str, problems: Sequence[str]) -> None:
        """Set what is wrong with an adopted family now; () if nothing."""
        if list(problems) != list(self._problems.get(family, ())):
            self._problems[family] = list(problems)
            self._changed.set()

    def report(self, family: str, message: str, reason: str = NOTE, *, warning: bool = True) -> None:
        """Report a message to people, as an Event and in the ConfigMap. It is a `record.ReportMessage`."""
        record = self._records.get(family)
        if record is None:
            return
        self._messages[family] = {"message": _cut(message, MOST_TEXT), "time": format_time(self._now())}
        self._add_events(record, Notice(reason, message, warning))
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled. What can't be written now is written later; moves do not wait for it."""
        pauses = RECONNECT.pauses(self._random)
        while True:
            await self._until_due()
            self._changed.clear()
            trouble = ""
            try:
                await self._write()
            except (ClusterError, Unreachable) as error:
                trouble = f"the ConfigMap {CONFIG_MAP} can't be written: {error}"
                self._written = None
            try:
                # Also if the ConfigMap is refused: then people have only the Events.
                await self._send_events()
            except Unreachable as error:
                trouble = f"Events can't be written: {error}"
            if self._trouble.changed(trouble) and trouble:
                log.warning("%s", trouble)
            if trouble:
                self._changed.set()
                await self._sleep(next(pauses))
            else:
                pauses = RECONNECT.pauses(self._random)
                await self._sleep(1.0)

    async def _until_due(self) -> None:
        """Wait until there is something to write, or somebody else has changed the ConfigMap."""
        waits = [asyncio.create_task(self._changed.wait()), asyncio.create_task(self._look())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _look(self) -> bool:
        """Read the ConfigMap every LOOK_SECONDS, until it is not what was written here."""
        while True:
            await self._sleep(LOOK_SECONDS)
            try:
                found = await self._found()
            except (ClusterError, Unreachable):
                continue
            if self._written and (found or {}).get("data") != self._written:
                self._written = None
                return True

    # --- the ConfigMap ---

    async def _write(self) -> None:
        found: JSONObject | None = None
        if self._written is None:
            found = await self._found()
            self._remember((found or {}).get("data") or {})
            for record in [self._records[family] for family in sorted(self._restored & self._records.keys())]:
                if not self._is_shown(record):
                    self._add_events(record, notice(None, record))
            self._restored = set()
        data = fitted(self._made())
        self._count()
        if data == self._written:
            return
        body: JSONObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": CONFIG_MAP, "namespace": self._namespace, "labels": {"app.kubernetes.io/managed-by": COMPONENT}},
            "data": data,
        }
        if self._written is None and found is None:
            await self._cluster.request("POST", self._path, body=body)
        else:
            try:
                await self._cluster.request("PUT", f"{self._path}/{CONFIG_MAP}", body=body)
            except ClusterError as error:
                if error.code != 404:
                    raise
                await self._cluster.request("POST", self._path, body=body)
        self._written = data

    async def _found(self) -> JSONObject | None:
        return await find(self._cluster, f"{self._path}/{CONFIG_MAP}")

    def _remember(self, data: Mapping[str, str]) -> None:
        """Take over the entries that the ConfigMap has, for the times of changes before a restart."""
        for name, text in data.items():
            try:
                found = json.loads(text)
            except ValueError:
                continue
            if isinstance(found, dict):
                self._entries.setdefault(name, found)

    def _made(self) -> dict[str, JSONObject]:
        made = {}
        for family, record in self._records.items():
            for name in record.definitions:
                before = self._entries.get(name, {})
                given = self._moving.get(family), self._problems.get(family, ()), self._messages.get(family)
                made[name] = entry(record, name, *given, before, format_time(self._now()))
        self._entries = made
        return made

    def _is_shown(self, record: Record) -> bool:
        shown = [self._entries.get(name, {}) for name in record.definitions]
        return all((each.get("phase"), each.get("since")) == (record.phase.value, record.since) for each in shown)

    def _count(self) -> None:
        phases = dict.fromkeys((phase.value for phase in Phase), 0)
        for record in self._records.values():
            phases[record.phase.value] += len(record.uids)
        self._metrics.phases(phases)

    # --- Events ---

    def _add_events(self, record: Record, notified: Notice | None) -> None:
        if notified is None:
            return
        for name, uid in sorted(record.uids.items()):
            if self._may_add_event(name):
                self._events[name, uid, notified] = None
        while len(self._events) > MOST_EVENTS:
            self._events.popitem(last=False)

    def _may_add_event(self, definition: str) -> bool:
        """Whether the definition may have another Event now. Takes one from its budget."""
        at = self._clock()
        left, seen = self._budgets.pop(definition, (float(BURST), at))
        left = min(float(BURST), left + (at - seen) * EVENTS_A_SECOND)
        self._budgets[definition] = (max(left - 1, 0.0) if left >= 1 else left, at)
        if len(self._budgets) > MOST_DEFINITIONS:
            self._budgets.popitem(last=False)
        return left >= 1

    async def _send_events(self) -> None:
        while self._events:
            key = next(iter(self._events))
            try:
                await self._send(*key)
            except ClusterError as error:
                # Give the Event up, as everywhere in Kubernetes: Events are best effort.
                log.warning("an Event on %s can't be written: %s", key[0], error)
            self._events.pop(key, None)

    async def _send(self, definition: str, uid: str, notified: Notice) -> None:
        now = format_time(self._now())
        made: dict[str, Any] = event(definition, uid, notified, now)
        try:
            await self._cluster.request("POST", EVENTS, body=made)
        except ClusterError as error:
            if error.reason != "AlreadyExists":
                raise
            path = f"{EVENTS}/{made['metadata']['name']}"
            found = await self._cluster.request("GET", path)
            patch = {"count": int(found.get("count") or 1) + 1, "lastTimestamp": now}
            await self._cluster.request("PATCH", path, body=patch)
