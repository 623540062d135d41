"""QuotaLedger: the usage of each quota: what the stored objects use, and what the writes under way are going to use.

A quota's totals are made from the tallies of the resources that it names, and then kept by each change of an object. A write that
admission has permitted is reserved until the tally has seen its object, or the write has failed. Admission begins from these
totals, so that what is used is never less than what is stored or about to be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from aggserver.admission.quota import Amounts, Evaluator, Measure, add, is_within, negative, selectors
from aggserver.admission.sources import Collection
from aggserver.controllers.quota.tallies import Tallies
from aggserver.informers.work_queue import CallLater, in_turns
from aggserver.meta import quantity
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["QuotaLedger"]

_Resource = tuple[str, str]
# Seconds after which a write has ended: the time of a request.
_LONGEST_WRITE = 60.0
_MEASURES = 200  # distinct measures that are added before other tasks run


@dataclass(slots=True, eq=False)
class _Reservation:
    """after: the revision of the object that the write replaces."""

    key: ObjectKey
    after: int
    amounts: Mapping[str, Amounts]


@dataclass(slots=True, eq=False)
class _Totals:
    """What a quota counts. spec: of the quota. names: of each resource, those that it counts of it. used: by the objects."""

    spec: JSONMapping
    names: Mapping[_Resource, frozenset[str]]
    used: dict[str, str]
    requirements: list[JSONMapping] = field(default_factory=list)

    def change(self, resource: _Resource, before: Measure | None, after: Measure | None) -> None:
        names = self.names.get(resource)
        if names is None or before == after:
            return
        for measure, sign in ((after, 1), (before, -1)):
            if measure is not None:
                self.add(names, measure, sign)

    def add(self, names: frozenset[str], measure: Measure, times: int) -> None:
        if is_within(measure, self.requirements):
            for name, amount in measure.usage:
                if name in names:
                    self.used[name] = add(self.used[name], _times(amount, times))


def _times(amount: str, times: int) -> str:
    if times == 1:
        return amount
    if times == -1:
        return negative(amount)
    number = quantity.parse(amount)
    return quantity.text(quantity.Quantity(number.value * times, number.scale, number.is_short), amount)


class QuotaLedger:
    """`admission.resource_quota.UsageLedger`. quotas: all there are. resources: returns those that a quota of some names needs.

    active: whether changes of objects are followed, so that reservations come to an end.
    changed: called with a namespace whose usage has changed. lost: called when all must be counted again.
    """

    def __init__(
        self,
        storage: Storage,
        quotas: Collection,
        resources: Callable[[Iterable[str]], Mapping[_Resource, Evaluator]],
        changed: Callable[[str], None],
        lost: Callable[[], None],
        later: CallLater,
    ) -> None:
        self._storage = storage
        self._quotas = quotas
        self._resources = resources
        self._changed = changed
        self._lost = lost
        self._later = later
        self.active = False
        self._tallies: dict[_Resource, Tallies] = {}
        self._totals: dict[str, dict[str, _Totals]] = {}  # by namespace and name
        self._making: dict[tuple[str, str], _Totals] = {}  # changes since their objects were taken
        self._reserved: dict[ObjectKey, list[_Reservation]] = {}
        self._pending: dict[tuple[str, str], dict[str, str]] = {}  # by namespace and name of the quota

    # --- for admission ---

    def truth(self, quota: JSONObject) -> JSONObject:
        metadata, spec, status = quota["metadata"], quota.get("spec") or {}, quota.get("status") or {}
        totals = self._totals.get(metadata["namespace"], {}).get(metadata["name"])
        if totals is None or totals.spec != spec:
            return quota
        pending = self._pending.get((metadata["namespace"], metadata["name"]), {})
        given, hard = status.get("used") or {}, spec.get("hard") or {}
        used = {}
        for name in sorted(hard):
            if name in totals.used:
                used[name] = add(totals.used[name], pending[name]) if name in pending else totals.used[name]
            elif name in given:
                used[name] = given[name]  # nobody here can count it
        if _same(used, given) and _same(hard, status.get("hard") or {}):
            return quota
        members = {"hard": dict(hard), "used": used}
        return {**quota, "status": {name: amounts for name, amounts in members.items() if amounts}}

    def reserve(self, key: ObjectKey, after: int, amounts: Mapping[str, Amounts]) -> object:
        reservation = _Reservation(key, after, amounts)
        if not self.active:
            return reservation
        self._reserved.setdefault(key, []).append(reservation)
        self._expect(reservation, 1)
        return reservation

    def release(self, token: object) -> None:
        assert isinstance(token, _Reservation)
        waiting = self._reserved.get(token.key, [])
        if token in waiting:
            waiting.remove(token)
            if not waiting:
                del self._reserved[token.key]
            self._expect(token, -1)

    def _expect(self, reservation: _Reservation, times: int) -> None:
        for name, amounts in reservation.amounts.items():
            key = reservation.key.namespace, name
            pending = self._pending.setdefault(key, {})
            for resource, amount in amounts.items():
                pending[resource] = add(pending.get(resource, "0"), _times(amount, times))
                if pending[resource] == "0":
                    del pending[resource]
            if not pending:
                del self._pending[key]

    # --- for the controller ---

    async def prepare(self, namespace: str) -> None:
        """Make the totals of the quotas of a namespace that have none, or have another spec now. Raises StorageError."""
        quotas = self._quotas.within(namespace)
        known = self._totals.get(namespace, {})
        for name in known.keys() - quotas.keys():
            del known[name]
        needed: set[_Resource] = set()
        for name, quota in list(quotas.items()):
            spec = quota.get("spec") or {}
            resources = self._resources(spec.get("hard") or {})
            needed.update(resources)
            totals = known.get(name)
            if totals is None or totals.spec != spec or totals.names.keys() != resources.keys():
                known.pop(name, None)
                await self._total(namespace, name, quota, resources)
        for resource in [each for each, tallies in self._tallies.items() if namespace in tallies and each not in needed]:
            self._tallies[resource].forget(namespace)
        if not self._totals.get(namespace):
            self._totals.pop(namespace, None)

    async def _total(self, namespace: str, name: str, quota: JSONObject, resources: Mapping[_Resource, Evaluator]) -> None:
        spec = quota.get("spec") or {}
        for resource, evaluator in resources.items():
            tallies = self._tallies.get(resource)
            if tallies is None:
                lost = partial(self._lose, resource)
                tallies = self._tallies[resource] = Tallies(self._storage, *resource, evaluator, self._see, lost)
            await tallies.count(namespace)
        hard = spec.get("hard") or {}
        names = {resource: frozenset(evaluator.matching(hard)) for resource, evaluator in resources.items()}
        counted: frozenset[str] = frozenset().union(*names.values())
        totals = _Totals(spec, names, dict.fromkeys(sorted(counted), "0"), selectors(quota))
        # Take the numbers before anything else runs, and let the new totals follow all changes from here on.
        numbers = {resource: list(self._tallies[resource].numbers(namespace).items()) for resource in names}
        sums = _Totals(spec, names, totals.used.copy(), totals.requirements)
        self._making[namespace, name] = totals
        try:
            for resource, measures in numbers.items():
                async for measure, number in in_turns(measures, _MEASURES):
                    sums.add(names[resource], measure, number)
        finally:
            del self._making[namespace, name]
        for each, amount in sums.used.items():
            totals.used[each] = add(amount, totals.used[each])
        if name in self._quotas.within(namespace):
            self._totals.setdefault(namespace, {})[name] = totals

    def close(self) -> None:
        for tallies in self._tallies.values():
            tallies.close()

    def _see(self, key: ObjectKey, revision: int, before: Measure | None, after: Measure | None) -> None:
        """An object has changed."""
        resource = key.group, key.resource
        for totals in self._totals.get(key.namespace, {}).values():
            totals.change(resource, before, after)
        for (namespace, _), totals in self._making.items():
            if namespace == key.namespace:
                totals.change(resource, before, after)
        for reservation in [each for each in self._reserved.get(key, ()) if each.after < revision]:
            self.release(reservation)
        self._changed(key.namespace)

    def _lose(self, resource: _Resource) -> None:
        """The watch of a resource was lost, and with it the events of objects for which something is reserved."""
        self._totals.clear()
        reserved = [each for key, waiting in self._reserved.items() if (key.group, key.resource) == resource for each in waiting]

        def forget() -> None:
            for each in reserved:
                self.release(each)
                self._changed(each.key.namespace)

        self._later(_LONGEST_WRITE, forget)
        self._lost()


def _same(left: Amounts, right: Amounts) -> bool:
    return left == right or (
        left.keys() == right.keys() and all(quantity.parse(left[name]).compare(quantity.parse(right[name])) == 0 for name in left)
    )
