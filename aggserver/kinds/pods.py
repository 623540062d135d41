"""The subresources of a Pod: `/binding`, `/eviction`, `/ephemeralcontainers` and `/resize`.

A Binding assigns the Pod to a node. An Eviction deletes it if its PodDisruptionBudget allows that. The other two change a part of
the spec that no other endpoint can change.
Source: k8s.io/kubernetes pkg/registry/core/pod/{strategy.go,storage/{storage,eviction}.go}, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from aggserver.informers.informer import ALL
from aggserver.kinds.pod_updates import semantic
from aggserver.kinds.resources import qos_class
from aggserver.kinds.strategy import ALL_METADATA, KindStatusStrategy, KindStrategy
from aggserver.merge.fieldset import FieldSet
from aggserver.meta import codec, errors
from aggserver.meta.errors import Cause, StatusError
from aggserver.meta.field import FieldError, Path, forbidden, invalid
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.registry.deletion import check_preconditions
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Verdict
from aggserver.scheme.types import lookup
from aggserver.scheme.validation import validate

__all__ = ["Bindings", "EphemeralContainersStrategy", "Evictions", "ResizeStrategy", "set_condition"]

_MIRROR, _EPHEMERAL = "kubernetes.io/config.mirror", "core/v1.EphemeralContainer"
_RESIZED, _AMOUNTS = ("cpu", "memory"), ("requests", "limits")
_ENDED = ("Succeeded", "Failed")
_BUDGET = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_MANY = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


def _success() -> StoredObject:
    """The response to a create that stores nothing: a Status with its code, as upstream."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return StoredObject("", codec.encode_json(status), 0)


def set_condition(status: JSONObject, type_: str, now: str, **members: str) -> None:
    """Set a condition to true. now: as in metadata."""
    conditions = list(status.get("conditions") or ())
    new = {"type": type_, "status": "True", "lastProbeTime": None, "lastTransitionTime": now, **members}
    for index, each in enumerate(conditions):
        if each.get("type") == type_:
            if each.get("status") == "True" and each.get("lastTransitionTime"):
                new["lastTransitionTime"] = each["lastTransitionTime"]
            conditions[index] = new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions


class _ByServer(KindStrategy):
    """The strategy of writes by the server itself: no validation, and no field manager."""

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        return None

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        return Verdict([])


def _by_server(store: Store) -> Store:
    strategy = store.strategy
    assert isinstance(strategy, KindStrategy)
    return store.with_strategy(_ByServer(strategy.kind, tracks_fields=False))


class Bindings:
    """The implementation of `/binding`. store: of Pods."""

    def __init__(self, store: Store) -> None:
        self._store = _by_server(store)

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        context, metadata = request.context, obj["metadata"]
        name = context.name or metadata.get("name", "")
        if name != metadata.get("name", ""):
            raise errors.bad_request("name in URL does not match name in Binding object")
        if why := _target_problem(obj.get("target") or {}):
            raise StatusError(500, "", why)
        await request.admission.mutate(obj, None)
        await request.admission.validate(obj, None)

        async def bound(pod: JSONObject) -> JSONObject:
            self._bind(name, pod, obj)
            return pod

        write = request.options._replace(uid=metadata.get("uid") or "")
        await self._store.update(WriteRequest(context, write), name, bound)
        return _success()

    def _bind(self, name: str, pod: JSONObject, binding: JSONObject) -> None:
        why = ""
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif node := pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{node}"'
        elif pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            raise errors.conflict("", "pods/binding", name, why)
        pod["spec"]["nodeName"] = binding["target"]["name"]
        metadata, given = pod["metadata"], binding["metadata"]
        for part in ("annotations", "labels"):
            if given.get(part):
                metadata[part] = {**(metadata.get(part) or {}), **given[part]}
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        set_condition(status, "PodScheduled", self._store.now())


def _target_problem(target: JSONObject) -> str:
    kind, found = target.get("kind") or "", []
    if kind not in ("", "Node"):
        found.append(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        found.append("target.name: Required value")
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


class Evictions:
    """The implementation of `/eviction`. store: of Pods. budgets: returns the store of PodDisruptionBudgets."""

    def __init__(self, store: Store, budgets: Callable[[], Store]) -> None:
        self._pods = store
        self._server_pods = _by_server(store)
        self._budgets = budgets

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        context = request.context
        name = context.name
        if name != obj["metadata"].get("name", ""):
            raise errors.bad_request("name in URL does not match name in Eviction object")
        given = _options(obj.get("deleteOptions") or {}, request.options)
        await request.admission.mutate(obj, None)
        await request.admission.validate(obj, None)
        pod = (await self._pods.get(context, name)).decoded()
        status = pod.get("status") or {}
        is_over = status.get("phase") in _ENDED or "deletionTimestamp" in pod["metadata"]
        if not is_over and status.get("phase") != "Pending":
            await self._ask_budget(context, pod, given.dry_run)
        await self._evict(context, name, given)
        return _success()

    async def _ask_budget(self, context: Context, pod: JSONObject, dry_run: bool) -> None:
        """Take one of the disruptions that the Pod's budget allows. Raises StatusError 429 if there is none left."""
        budgets = self._budgets()
        labels = pod["metadata"].get("labels") or {}
        found = [each.decoded() for each in (await budgets.list(context, ALL)).items]
        found = [budget for budget in found if _selects(budget, labels)]
        if len(found) > 1:
            raise StatusError(500, "", _TOO_MANY)
        if not found:
            return
        (budget,) = found
        if not _is_ready(pod) and _allows_unready_eviction(budget):
            return
        writer = _by_server(budgets)

        async def decremented(current: JSONObject) -> JSONObject:
            _decrement(current, pod["metadata"]["name"], writer.now())
            return current

        await writer.update(WriteRequest(context, WriteOptions(dry_run=dry_run)), budget["metadata"]["name"], decremented)

    async def _evict(self, context: Context, name: str, options: DeleteOptions) -> None:
        async def marked(pod: JSONObject) -> JSONObject:
            check_preconditions("", "Pod", pod["metadata"], options)
            members = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
            set_condition(pod.setdefault("status", {}), "DisruptionTarget", self._pods.now(), **members)
            return pod

        if not options.dry_run:
            written = await self._server_pods.update(WriteRequest(context, WriteOptions()), name, marked)
            if options.resource_version is not None:
                options = replace(options, resource_version=written.object.resource_version)
        await self._pods.delete(context, name, options)


def _options(given: JSONObject, options: WriteOptions) -> DeleteOptions:
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        dry_run=options.dry_run or bool(given.get("dryRun")),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=given.get("propagationPolicy") or "",
        orphan_dependents=given.get("orphanDependents"),
        grace_period_seconds=given.get("gracePeriodSeconds"),
    )


def _selects(budget: JSONObject, labels: JSONObject) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None:
        return False
    try:
        return LabelSelector.from_object(selector).matches(labels)
    except SelectorError:
        return False


def _is_ready(pod: JSONObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _allows_unready_eviction(budget: JSONObject) -> bool:
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    is_healthy = 0 < desired <= (status.get("currentHealthy") or 0)
    return budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or is_healthy


def _decrement(budget: JSONObject, pod: str, now: str) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    allowed = status.get("disruptionsAllowed") or 0
    if allowed < 0:
        raise errors.forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if allowed == 0:
        needed, has = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
        raise _refused(f"The disruption budget {name} needs {needed} healthy pods and has {has} currently")
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _set_no_disruptions(status, now, budget["metadata"].get("generation") or 0)
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: now}


def _set_no_disruptions(status: JSONObject, now: str, generation: int) -> None:
    """Set the condition DisruptionAllowed to False."""
    new = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": now,
        "observedGeneration": generation,
    }
    kept = [each for each in status.get("conditions") or () if each.get("type") != new["type"]]
    status["conditions"] = [*kept, new]


def _refused(message: str, retry_after: int = 0) -> StatusError:
    causes = [Cause("DisruptionBudget", message)]
    return StatusError(429, "TooManyRequests", _BUDGET, causes=causes, retry_after=retry_after)


class _OfPart(KindStatusStrategy):
    """A strategy that keeps all but a part of the spec."""

    _changes: tuple[str, ...]  # members of the spec
    _not_static: str  # the text for Pods that a kubelet makes

    def _resets(self) -> FieldSet:
        return {}  # as upstream, a field manager owns all that it has sent, even fields that were not changed

    def _part(self, spec: JSONObject, old: JSONObject) -> JSONObject:
        """The members of the new spec that are taken over."""
        return {name: spec[name] for name in self._changes if name in spec}

    def _kept_metadata(self) -> tuple[str, ...]:
        return ALL_METADATA

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, now: str) -> None:
        kept = {name: value for name, value in old["spec"].items() if name not in self._changes}
        spec: JSONObject = {**kept, **self._part(obj["spec"], old["spec"])}
        self._keep_metadata(obj, old)
        obj["spec"] = spec
        if "status" in old:
            obj["status"] = old["status"]
        if spec != old["spec"]:
            obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1

    def validate_update(self, obj: JSONObject, old: JSONObject) -> Verdict:
        if _MIRROR in (old["metadata"].get("annotations") or {}):
            return Verdict([forbidden(Path(""), self._not_static)])
        rules = self._own_rules(obj, old)
        return Verdict([*validate(obj, lookup(self.kind.type_name), rules), *self._changed_part(obj["spec"], old["spec"])])

    def _changed_part(self, spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
        """What of the part may not change so."""
        raise NotImplementedError


class EphemeralContainersStrategy(_OfPart):
    """Containers can only be added. The texts of refused changes lack the difference that upstream appends."""

    subresource = "ephemeralcontainers"
    _changes = ("ephemeralContainers",)
    _not_static = "static pods do not support ephemeral containers"

    def _changed_part(self, spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
        now, where = (
            {each.get("name"): each for each in spec.get("ephemeralContainers") or ()},
            Path("spec").child(*self._changes),
        )
        for each in old.get("ephemeralContainers") or ():
            what = f"existing ephemeral containers {quote(each.get('name') or '')}"
            if each.get("name") not in now:
                yield forbidden(where, f"{what} may not be removed\n")
            elif semantic(now[each.get("name")], _EPHEMERAL) != semantic(each, _EPHEMERAL):
                yield forbidden(where, f"{what} may not be changed\n")


class ResizeStrategy(_OfPart):
    subresource = "resize"
    _changes = ("containers", "initContainers", "resources")
    _not_static = "static pods cannot be resized"

    def _changed_part(self, spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
        path = Path("spec")
        if (before := qos_class(old)) != qos_class(spec):
            yield invalid(path, before, "Pod QOS Class may not change as a result of resizing")
        pairs = list(zip(spec.get("containers") or (), old.get("containers") or (), strict=True))
        for index, (container, was) in enumerate(pairs):
            now, had = container.get("resources") or {}, was.get("resources") or {}
            for name in ("requests", "limits"):
                if not (had.get(name) or {}).keys() <= (now.get(name) or {}).keys():
                    where = path.child("containers").index(index).child("resources").child(name)
                    yield forbidden(where, f"resource {name} cannot be removed")
        for container, was in pairs:
            if _fixed_resources(container) != _fixed_resources(was):
                yield forbidden(path, "only cpu and memory resources are mutable")

    def _part(self, spec: JSONObject, old: JSONObject) -> JSONObject:
        part = {name: _resized(spec.get(name) or [], old.get(name) or []) for name in ("containers", "initContainers")}
        if "resources" in spec:
            part["resources"] = spec["resources"]
        return {name: value for name, value in part.items() if value}


def _fixed_resources(container: JSONObject) -> list[JSONObject]:
    """The resources of a container that can't change."""
    given = container.get("resources") or {}
    return [{name: amount for name, amount in (given.get(which) or {}).items() if name not in _RESIZED} for which in _AMOUNTS]


def _resized(containers: list[Any], old: list[Any]) -> list[Any]:
    """The old containers with the new resources; containers can't be added, removed or renamed."""
    if [each.get("name") for each in containers] != [each.get("name") for each in old]:
        return old
    return [
        {**before, **{name: after[name] for name in ("resources", "resizePolicy") if name in after}}
        for before, after in zip(old, containers, strict=True)
    ]
