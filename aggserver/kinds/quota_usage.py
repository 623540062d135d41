"""What ResourceQuotas count of the built-in kinds: Pods and what they request, Services, claims of volumes and of devices.

Of all other kinds the objects are counted (`admission/quota.py`). A Pod whose grace period is over counts until its next change.
What a Pod uses of devices by the name of an extended resource is not counted.
Pure. Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core, pkg/quota/v1/install/registry.go, v1.36.3; k8s.io/component-helpers
resource/helpers.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from aggserver.admission.quota import Amounts, Counted, Evaluator, Measure, add
from aggserver.kinds.resource_names import is_extended, is_native
from aggserver.kinds.resources import is_huge_pages, larger, pod_limits, pod_requests, qos_class
from aggserver.meta import quantity
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["Evaluators", "counted_resource"]

_COMPUTED = ("cpu", "memory", "ephemeral-storage")
_OF_PODS = frozenset(
    {"count/pods", "pods", *_COMPUTED, *(f"{which}.{name}" for which in ("requests", "limits") for name in _COMPUTED)}
)
# What each container must give if a quota limits it.
_REQUIRED = _OF_PODS - {"count/pods", "pods"} - {name for name in _OF_PODS if "ephemeral-storage" in name}
_OF_SERVICES = frozenset({"count/services", "services", "services.nodeports", "services.loadbalancers"})
_CLAIMS, _STORAGE = "persistentvolumeclaims", "requests.storage"
_OF_CLASS = ".storageclass.storage.k8s.io/"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
# The most devices that one request for all of them can get.
_MOST_DEVICES = 32
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"

# Resources whose number has another name, too.
_ALIASES = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
# What no quota counts.
_IGNORED = frozenset(
    {
        ("", "bindings"),
        ("", "componentstatuses"),
        ("", "events"),
        ("", "namespaces"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("events.k8s.io", "events"),
    }
)


class Evaluators:
    """The evaluator of each resource. clock: in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._special: Mapping[tuple[str, str], Evaluator] = {
            ("", "pods"): _Pods(clock),
            ("", "services"): _Services(),
            ("", _CLAIMS): _Claims(),
            ("resource.k8s.io", "resourceclaims"): _DeviceClaims(),
            **{("", resource): Counted("", resource, resource) for resource in _ALIASES},
        }

    def of(self, group: str, resource: str) -> Evaluator | None:
        """None for what is never counted."""
        if (group, resource) in _IGNORED:
            return None
        return self._special.get((group, resource)) or Counted(group, resource)

    def of_quota(self, names: Iterable[str], is_stored: Callable[[str, str], bool]) -> dict[tuple[str, str], Evaluator]:
        """The resources whose objects must be counted for a quota of these names. is_stored: whether a resource has objects here.

        That is asked first: a quota may name tens of thousands that nobody serves.
        """
        names = list(names)
        found = {key: each for key, each in self._special.items() if is_stored(*key) and each.matching(names)}
        for name in names:
            key = counted_resource(name)
            if key is not None and key not in found and is_stored(*key) and (evaluator := self.of(*key)) is not None:
                found[key] = evaluator
        return found


def counted_resource(name: str) -> tuple[str, str] | None:
    """The group and resource of `count/<resource>.<group>`."""
    if not name.startswith("count/"):
        return None
    resource, _, group = name.removeprefix("count/").partition(".")
    return group, resource


# --- Pods ---


class _Pods:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        if subresource:
            return subresource == "resize" and old is not None
        return old is None or _is_terminating(old) != _is_terminating(obj)

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in _OF_PODS or _is_of_containers(name)]

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        spec = obj["spec"]
        if _whole(spec, "requests") or _whole(spec, "limits"):
            return ""
        missing: dict[str, set[str]] = {}
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            given = _computed(resources.get("requests") or {}, resources.get("limits") or {})
            for name in _REQUIRED.intersection(names) - given.keys():
                missing.setdefault(name, set()).add(container.get("name") or "")
        said = "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))
        return said and f"must specify {said}"

    def measure(self, obj: JSONObject) -> Measure:
        spec = obj["spec"]
        usage = {"count/pods": "1"}
        if self._is_alive(obj):
            usage |= {"pods": "1", **_computed(_requests(obj), _limits(obj))}
        return Measure(tuple(sorted(usage.items())), tuple(_pod_scopes(spec)))

    def _is_alive(self, pod: JSONObject) -> bool:
        metadata = pod["metadata"]
        if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
            return False
        deleted, grace = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
        if deleted is None or grace is None:
            return True
        return bool(self._clock() <= datetime.fromisoformat(deleted).timestamp() + grace)


def _is_terminating(pod: JSONObject) -> bool:
    seconds: int | None = pod["spec"].get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _is_of_containers(name: str) -> bool:
    """Whether it is an amount of huge pages or of an extended resource."""
    if name.startswith(("hugepages-", "requests.hugepages-", "requests.deviceclass.resource.kubernetes.io/")):
        return True
    return not is_native(name) and name.startswith("requests.")


def _computed(requests: Amounts, limits: Amounts) -> dict[str, str]:
    """What quotas call the requests and limits."""
    found: dict[str, str] = {}
    for name, amount in requests.items():
        if name in _COMPUTED or is_huge_pages(name):
            found[name] = found[f"requests.{name}"] = amount
        elif is_extended(name) or name.startswith("deviceclass.resource.kubernetes.io/"):
            found[f"requests.{name}"] = amount
    for name in _COMPUTED:
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _whole(spec: JSONMapping, member: str) -> Amounts:
    """The amounts that are given for the Pod as a whole, of those that can be."""
    given: Amounts = (spec.get("resources") or {}).get(member) or {}
    return {name: amount for name, amount in given.items() if name in ("cpu", "memory") or is_huge_pages(name)}


def _requests(pod: JSONObject) -> Amounts:
    spec = pod["spec"]
    requests = {**pod_requests(_effective(pod, "requests")), **_whole(spec, "requests")}
    for name, amount in (spec.get("overhead") or {}).items():
        requests[name] = add(requests[name], amount) if name in requests else amount
    return requests


def _limits(pod: JSONObject) -> Amounts:
    spec = pod["spec"]
    limits = {**pod_limits(_effective(pod, "limits")), **_whole(spec, "limits")}
    for name, amount in (spec.get("overhead") or {}).items():
        if name in limits and quantity.parse(limits[name]).value:
            limits[name] = add(limits[name], amount)
    return limits


def _effective(pod: JSONObject, member: str) -> JSONMapping:
    """The spec, with the resources of containers that are being resized: the most of what is wanted, has been granted, and is
    in effect. If the node can't resize them, what is wanted does not count.
    """
    spec: JSONMapping = pod["spec"]
    status = pod.get("status") or {}
    states = {
        each.get("name"): each
        for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        if each.get("resources") is not None
    }
    if not states:
        return spec
    pending = (each for each in status.get("conditions") or () if each.get("type") == "PodResizePending")
    is_infeasible = any(each.get("reason") == "Infeasible" for each in pending)

    def resized(container: JSONMapping, *, is_first: bool) -> JSONMapping:
        state = states.get(container.get("name"))
        if state is None or (is_first and container.get("restartPolicy") != "Always"):
            return container
        resources = container.get("resources") or {}
        amounts = (state["resources"] or {}).get(member) or {}
        if member == "requests":
            amounts = larger(amounts, state.get("allocatedResources") or {})
        if not is_infeasible:
            amounts = larger(resources.get(member) or {}, amounts)
        return {**container, "resources": {**resources, member: amounts}}

    return {
        **spec,
        "containers": [resized(each, is_first=False) for each in spec.get("containers") or ()],
        "initContainers": [resized(each, is_first=True) for each in spec.get("initContainers") or ()],
    }


def _pod_scopes(spec: JSONMapping) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield ("Terminating" if _is_terminating({"spec": spec}) else "NotTerminating"), ()
    yield ("BestEffort" if qos_class(spec) == "BestEffort" else "NotBestEffort"), ()
    name = spec.get("priorityClassName")
    yield "PriorityClass", (name,) if name else ()
    if _leaves_namespace(spec.get("affinity") or {}):
        yield "CrossNamespacePodAffinity", ()


def _leaves_namespace(affinity: JSONMapping) -> bool:
    """Whether a term of the affinity to other Pods is about those of other namespaces."""
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        required = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for term in (*required, *(each.get("podAffinityTerm") or {} for each in weighted)):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


# --- others ---


class _Services:
    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        return not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in _OF_SERVICES]

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        return ""

    def measure(self, obj: JSONObject) -> Measure:
        spec = obj["spec"]
        ports = spec.get("ports") or ()
        of = spec.get("type")
        node_ports = len(ports) if of in ("NodePort", "LoadBalancer") else 0
        if of == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
            node_ports = sum(1 for port in ports if port.get("nodePort"))
        usage = {"count/services": "1", "services": "1"}
        if node_ports:
            usage["services.nodeports"] = quantity.text(quantity.Quantity(node_ports), "")
        if of == "LoadBalancer":
            usage["services.loadbalancers"] = "1"
        return Measure(tuple(sorted(usage.items())))


class _Claims:
    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        return subresource in ("", "status")

    def matching(self, names: Iterable[str]) -> list[str]:
        ends = tuple(f"{_OF_CLASS}{name}" for name in (_CLAIMS, _STORAGE))
        return [name for name in names if name in (f"count/{_CLAIMS}", _CLAIMS, _STORAGE) or name.endswith(ends)]

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        return ""

    def measure(self, obj: JSONObject) -> Measure:
        spec, status = obj["spec"], obj.get("status") or {}
        usage = {f"count/{_CLAIMS}": "1", _CLAIMS: "1"}
        of = (obj["metadata"].get("annotations") or {}).get(_OLD_CLASS) or spec.get("storageClassName")
        if of:
            usage[f"{of}{_OF_CLASS}{_CLAIMS}"] = "1"
        storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
        if storage is not None:
            allocated = (status.get("allocatedResources") or {}).get("storage", "0")
            storage = _whole_bytes(larger({"": storage}, {"": allocated})[""])
            usage[_STORAGE] = storage
            if of:
                usage[f"{of}{_OF_CLASS}{_STORAGE}"] = storage
        classes = {
            spec.get("volumeAttributesClassName"),
            status.get("currentVolumeAttributesClassName"),
            (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
        }
        return Measure(tuple(sorted(usage.items())), (("VolumeAttributesClass", tuple(sorted(filter(None, classes)))),))


def _whole_bytes(amount: str) -> str:
    number = quantity.parse(amount)
    whole = number.rounded(0)
    return amount if quantity.Quantity(whole).compare(number) == 0 else quantity.text(quantity.Quantity(whole), amount)


class _DeviceClaims:
    def handles(self, operation: str, subresource: str, obj: JSONObject, old: JSONObject | None) -> bool:
        return not subresource

    def matching(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name == "count/resourceclaims.resource.k8s.io" or name.endswith(_DEVICES)]

    def constraints(self, names: Sequence[str], obj: JSONObject) -> str:
        return ""

    def measure(self, obj: JSONObject) -> Measure:
        devices: dict[str, int] = {}
        for request in (obj["spec"].get("devices") or {}).get("requests") or ():
            alternatives = request.get("firstAvailable") or [request.get("exactly") or {}]
            most: dict[str, int] = {}
            for each in alternatives:
                if of := each.get("deviceClassName"):
                    most[of] = max(most.get(of, 0), _number(each))
            for of, number in most.items():
                devices[of] = devices.get(of, 0) + number
        usage = {f"{of}{_DEVICES}": quantity.text(quantity.Quantity(number), "") for of, number in devices.items()}
        return Measure(tuple(sorted({"count/resourceclaims.resource.k8s.io": "1", **usage}.items())))


def _number(request: JSONMapping) -> int:
    """How many devices are requested at most."""
    mode = request.get("allocationMode")
    return _MOST_DEVICES if mode == "All" else request.get("count") or 0 if mode == "ExactCount" else 0
