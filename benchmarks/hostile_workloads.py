"""Single requests that make controllers work for as long as they are let: workloads, and what selects or counts their Pods.

They are sent to servers that make Pods (`aggserver dev --pods=run`, kube-controller-manager), as those of `hostile_requests.py`
are. Each has a namespace of its own, and the workload is deleted after it, with its Pods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.hostile_requests import Hostile, Sent, built_in

__all__ = ["HOSTILE_WORKLOADS"]

MANY = 1_000_000
SECONDS = 10.0  # in which a controller shows what it does with a million
_POD = {"containers": [{"name": "c", "image": "i"}]}
_LABELS = {"a": "b"}
_TEMPLATE = {"metadata": {"labels": _LABELS}, "spec": _POD}


def _place(kind: str, namespace: str) -> tuple[str, str]:
    """The apiVersion and the path of the objects of a kind in a namespace."""
    version = {"Pod": "v1", "ReplicationController": "v1", "Service": "v1", "ResourceQuota": "v1", "Job": "batch/v1"}
    version["PodDisruptionBudget"] = "policy/v1"
    group = version.get(kind, "apps/v1")
    return group, f"/{'api' if group == 'v1' else 'apis'}/{group}/namespaces/{namespace}/{kind.lower()}s"


def _in(namespace: str, kind: str, name: str, *before: Sent, labels: dict[str, str] | None = None, **spec: Any) -> Sent:
    """A create in a namespace that is made before."""
    version, path = _place(kind, namespace)
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    made = built_in(path, kind, name, apiVersion=version, metadata=metadata, spec=spec)
    namespaces = () if before else (built_in("/api/v1/namespaces", "Namespace", namespace),)
    return replace(made, before=(*namespaces, *before))


def _workload(kind: str, *, under: dict[str, str] | None = None, **spec: Any) -> Callable[[], Sent]:
    """A workload that is deleted when it was watched. under: the limits of a quota in its namespace."""
    namespace = f"{kind.lower()}-{'limited' if under else 'alone'}"
    selecting = {} if kind == "Job" else {"selector": {"matchLabels": _LABELS}}
    pod = {"spec": {**_POD, "restartPolicy": "Never"}} if kind == "Job" else _TEMPLATE

    def make() -> Sent:
        quotas = (_in(namespace, "ResourceQuota", "few", hard=under),) if under else ()
        before = (built_in("/api/v1/namespaces", "Namespace", namespace), *quotas)
        made = _in(namespace, kind, "many", *before, **selecting, template=pod, **spec)
        return replace(made, after=(Sent("DELETE", f"{made.path}/many?propagationPolicy=Background"),))

    return make


def _pods(namespace: str, count: int, cpu: Callable[[int], str] | None = None) -> tuple[Sent, ...]:
    """The namespace and its Pods. cpu: what each asks for, from its number."""

    def spec(number: int) -> dict[str, Any]:
        asked = {"resources": {"requests": {"cpu": cpu(number)}}} if cpu else {}
        return {"containers": [{**_POD["containers"][0], **asked}]}

    made = [_in(namespace, "Pod", f"p{n}", labels=_LABELS, **spec(n)) for n in range(count)]
    return (built_in("/api/v1/namespaces", "Namespace", namespace), *(replace(each, before=()) for each in made))


def _selected(kind: str, namespace: str, count: int, **spec: Any) -> Callable[[], Sent]:
    return lambda: _in(namespace, kind, "many", *_pods(namespace, count), **spec)


def _counted_pods() -> Sent:
    """Each Pod asks for something else, so that none shares what is kept of another."""
    return _in("counted", "ResourceQuota", "all", *_pods("counted", 5000, lambda n: f"{n + 1}m"), hard={"requests.cpu": "1M"})


def _pod_of_many(kind: str, count: int, **spec: Any) -> Sent:
    """A Pod that each of these selects. They have no addresses, of which a server has a few hundred only."""
    namespace = f"many-{kind.lower()}s"
    selecting = tuple(replace(_in(namespace, kind, f"s{n}", **spec), before=()) for n in range(count))
    before = (built_in("/api/v1/namespaces", "Namespace", namespace), *selecting)
    return _in(namespace, "Pod", "one", *before, labels=_LABELS, **_POD)


def _nodes() -> Sent:
    """A DaemonSet with nodes, which stay: it is the last row."""
    nodes = tuple(built_in("/api/v1/nodes", "Node", f"n{number}", spec={}) for number in range(2000))
    made = _workload("DaemonSet")()
    return replace(made, before=(*made.before, *nodes))


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
_HEADLESS = {"clusterIP": "None", "selector": _LABELS, "ports": [{"port": 80}]}
_BUDGET = {"minAvailable": 1, "selector": {"matchLabels": _LABELS}}

HOSTILE_WORKLOADS = (
    Hostile("Deployment of 1,000,000", _workload("Deployment", replicas=MANY), SECONDS),
    Hostile("ReplicaSet of 1,000,000 below a quota of 10", _workload("ReplicaSet", under={"pods": "10"}, replicas=MANY), SECONDS),
    Hostile(
        "StatefulSet of 1,000,000 with claims",
        _workload(
            "StatefulSet",
            replicas=MANY,
            podManagementPolicy="Parallel",
            volumeClaimTemplates=[{"metadata": {"name": "v"}, "spec": _CLAIM}],
        ),
        SECONDS,
    ),
    Hostile("Job of 1,000,000 at once", _workload("Job", parallelism=MANY, completions=MANY), SECONDS),
    Hostile(
        "Job of 100,000 indexes", _workload("Job", parallelism=100_000, completions=100_000, completionMode="Indexed"), SECONDS
    ),
    Hostile("quota of 5,000 Pods that differ", _counted_pods),
    Hostile("Service of 5,000 Pods", _selected("Service", "served", 5000, **_HEADLESS), 5.0),
    Hostile("PodDisruptionBudget of 5,000 Pods", _selected("PodDisruptionBudget", "disrupted", 5000, **_BUDGET), 5.0),
    Hostile("Pod of 5,000 Services", partial(_pod_of_many, "Service", 5000, **_HEADLESS), SECONDS),
    Hostile("Pod of 5,000 PodDisruptionBudgets", partial(_pod_of_many, "PodDisruptionBudget", 5000, **_BUDGET), SECONDS),
    Hostile("DaemonSet on 2,000 nodes", _nodes, SECONDS),
)
