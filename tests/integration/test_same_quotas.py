"""The same writes in a namespace with quotas, the same answers and the same usage: kube-apiserver and aggserver side by side.

Each case has a namespace of its own. What a controller decides in its own time is waited for, on both sides alike.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.cases_kind_limits import claim, inside, opened, pod
from tests.integration.comparison import MERGE_PATCH, Ask, Seen, ask, without_order
from tests.integration.kinds import NAMESPACE
from tests.integration.server import eventually
from tests.integration.sides import Side, both
from tests.waiting import HANG_SECONDS

_CRONTABS = "crontabs.quota.example.com"
_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": _CRONTABS},
    "spec": {
        "group": "quota.example.com",
        "scope": "Namespaced",
        "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@dataclass(frozen=True)
class Until:
    """A step: wait until the usage of the quota is this."""

    used: dict[str, str]
    name: str = "q"


Step = Ask | Until


def _quota(hard: dict[str, str], name: str = "q", **spec: Any) -> list[Step]:
    """A quota, once it is in force."""
    return [_made(hard, name, compared=False, **spec), Until(dict.fromkeys(hard, "0"), name)]


def _made(hard: dict[str, str], name: str = "q", *, compared: bool = True, **spec: Any) -> Ask:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    return inside("POST", "resourcequotas", body, compared=compared)


def _resources(requests: Any = None, limits: Any = None) -> Any:
    return {name: value for name, value in (("requests", requests), ("limits", limits)) if value is not None}


def _pods(*bodies: Any, **more: Any) -> list[Step]:
    return [inside("POST", "pods", body, **more) for body in bodies]


def _template(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": name}, "template": pod()}


def _service(name: str, of: str = "ClusterIP", *ports: Any, **spec: Any) -> Any:
    given = [{"name": f"p{index}", "port": 80 + index, **each} for index, each in enumerate(ports or ({},))]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"type": of, "ports": given, **spec}}


def _of_refusals(body: Any) -> Any:
    """Of an object only its name: addresses are allotted by chance."""
    return body if body["kind"] == "Status" else body["metadata"]["name"]


def _services(*bodies: Any) -> list[Step]:
    return [inside("POST", "services", body, pick=_of_refusals) for body in bodies]


def _crontab(method: str, name: str, body: Any = None, query: str = "", **more: Any) -> Ask:
    path = "/apis/quota.example.com/v1/namespaces/$name/crontabs"
    path = f"{path}/{name}" if method != "POST" else path
    return ask(method, f"{path}?{query}" if query else path, body, **more)


def _tab(name: str) -> Any:
    return {"apiVersion": "quota.example.com/v1", "kind": "CronTab", "metadata": {"name": name}}


_GONE = '{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}'
_STATUS = inside("GET", "resourcequotas", None, "q", pick=lambda body: body["status"])


def _deleted(resource: str, name: str) -> Ask:
    return inside("DELETE", resource, _GONE, name, compared=False)


def _merge(resource: str, name: str, body: Any, below: str = "", **more: Any) -> Ask:
    return inside("PATCH", resource, body, name, below, kind=MERGE_PATCH, **more)


_CPU = {"cpu": "100m"}
_SPREAD = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["other"]}
        ]
    }
}


def _priority(operator: str, *values: str) -> dict[str, Any]:
    return {"scopeName": "PriorityClass", "operator": operator, **({"values": list(values)} if values else {})}


def _selected(*expressions: Any) -> dict[str, Any]:
    return {"scopeSelector": {"matchExpressions": list(expressions)}}


CASES: dict[str, list[Step]] = {
    "quota-counts": [
        # Others come into a namespace in their own time: the ConfigMap with the CA, the ServiceAccount.
        *_quota({"count/replicationcontrollers": "1", "replicationcontrollers": "2", "count/podtemplates": "1"}),
        *(inside("POST", "podtemplates", _template(name)) for name in ("a", "b")),
        Until({"count/replicationcontrollers": "0", "replicationcontrollers": "0", "count/podtemplates": "1"}),
        _STATUS,
        _deleted("podtemplates", "a"),
        Until({"count/replicationcontrollers": "0", "replicationcontrollers": "0", "count/podtemplates": "0"}),
    ],
    "quota-pods": [
        *_quota(
            {
                "pods": "2",
                "count/pods": "3",
                "requests.cpu": "1",
                "limits.memory": "1Gi",
                "requests.ephemeral-storage": "2Gi",
            }
        ),
        *_pods(
            pod("none"),
            pod("half", _resources(_CPU), _resources(_CPU, {"memory": "1Mi"})),
            pod("first", _resources(_CPU, {"memory": "1Mi"}), initContainers=[{"name": "i", "image": "x"}]),
            pod("a", _resources({"cpu": "300m"}, {"memory": "512Mi", "ephemeral-storage": "1Gi"})),
            pod("large", _resources({"cpu": "800m"}, {"memory": "600Mi"})),
            pod("storage", _resources({"cpu": "1m"}, {"memory": "1Mi", "ephemeral-storage": "1.5Gi"})),
        ),
        *_pods(pod("dry", _resources(_CPU, {"memory": "1Mi"})), query="dryRun=All"),
        *_pods(pod("b", _resources({"cpu": "0.5"}, {"memory": "0.5Gi"})), pod("c", _resources(_CPU, {"memory": "0"}))),
        _STATUS,
        *_pods(pod("a", _resources({"cpu": "1m"}, {"memory": "0"}))),
        _merge("pods", "a", {"status": {"phase": "Succeeded"}}, "status", compared=False),
        Until(
            {
                "pods": "1",
                "count/pods": "2",
                "requests.cpu": "500m",
                "limits.memory": "512Mi",
                "requests.ephemeral-storage": "0",
            }
        ),
        *_pods(pod("c", _resources(_CPU, {"memory": "0"}))),
        _deleted("pods", "b"),
        Until({"pods": "1", "count/pods": "2", "requests.cpu": "100m", "limits.memory": "0", "requests.ephemeral-storage": "0"}),
    ],
    "quota-whole-pods": [
        *_quota({"cpu": "1", "limits.cpu": "2"}),
        *_pods(
            pod("whole", {}, {}, resources=_resources({"cpu": "600m"}, {"cpu": "1"})),
            pod("over", {}, {}, resources=_resources({"cpu": "600m"}, {"cpu": "1"})),
            pod(
                "init",
                _resources({"cpu": "100m"}, {"cpu": "200m"}),
                initContainers=[{"name": "i", "image": "x", "resources": _resources({"cpu": "400m"}, {"cpu": "500m"})}],
            ),
        ),
        Until({"cpu": "1", "limits.cpu": "1500m"}),
        _STATUS,
    ],
    "quota-extended": [
        *_quota({"requests.example.com/gpu": "3", "requests.hugepages-2Mi": "4Mi", "hugepages-2Mi": "8Mi"}),
        *_pods(
            pod("a", _resources({"example.com/gpu": "2"}, {"example.com/gpu": "2"})),
            pod("b", _resources({"example.com/gpu": "2"}, {"example.com/gpu": "2"})),
            pod("c", _resources({"cpu": "1", "hugepages-2Mi": "4Mi"}, {"cpu": "1", "hugepages-2Mi": "4Mi"})),
            pod("d", _resources({"cpu": "1", "hugepages-2Mi": "2Mi"}, {"cpu": "1", "hugepages-2Mi": "2Mi"})),
        ),
        Until({"requests.example.com/gpu": "2", "requests.hugepages-2Mi": "4Mi", "hugepages-2Mi": "4Mi"}),
        _STATUS,
    ],
    "quota-terminating": [
        *_quota({"pods": "1"}, scopes=["Terminating"]),
        *_quota({"pods": "1"}, "r", scopes=["NotTerminating"]),
        *_pods(pod("a"), pod("b"), pod("c", activeDeadlineSeconds=60), pod("d", activeDeadlineSeconds=60)),
        Until({"pods": "1"}),
        Until({"pods": "1"}, "r"),
        _deleted("pods", "c"),
        Until({"pods": "0"}),
        _merge("pods", "a", {"spec": {"activeDeadlineSeconds": 60}}),
        Until({"pods": "1"}),
        Until({"pods": "0"}, "r"),
    ],
    "quota-best-effort": [
        *_quota({"pods": "1"}, scopes=["BestEffort"]),
        *_quota({"pods": "1", "requests.cpu": "1"}, "r", scopes=["NotBestEffort"]),
        *_pods(pod("a"), pod("b"), pod("c", _resources(_CPU)), pod("d", _resources(_CPU)), pod("e", _resources({"memory": "1"}))),
        Until({"pods": "1"}),
        Until({"pods": "1", "requests.cpu": "100m"}, "r"),
    ],
    "quota-priority": [
        *_quota({"pods": "1"}, **_selected(_priority("In", "system-cluster-critical"))),
        *_quota({"pods": "1"}, "r", **_selected(_priority("DoesNotExist"))),
        *_quota({"pods": "0"}, "s", **_selected(_priority("In", "other"))),
        *_pods(
            pod("a", priorityClassName="system-cluster-critical"),
            pod("b", priorityClassName="system-cluster-critical"),
            pod("c"),
            pod("d"),
            pod("e", priorityClassName="system-node-critical"),
        ),
        Until({"pods": "1"}),
        Until({"pods": "1"}, "r"),
        Until({"pods": "0"}, "s"),
    ],
    "quota-affinity": [
        *_quota({"pods": "0"}, scopes=["CrossNamespacePodAffinity"]),
        *_pods(pod("a", affinity=_SPREAD), pod("b")),
    ],
    "quota-services": [
        *_quota({"services": "4", "services.nodeports": "3", "services.loadbalancers": "1", "count/services": "5"}),
        *_services(
            _service("a"),
            _service("b", "NodePort", {}, {}),
            _service("c", "NodePort", {}, {}),
            _service("d", "LoadBalancer"),
            _service("e", "LoadBalancer"),
            _service("f", "LoadBalancer", allocateLoadBalancerNodePorts=False),
        ),
        Until({"services": "3", "services.nodeports": "3", "services.loadbalancers": "1", "count/services": "3"}),
        _merge("services", "a", {"spec": {"type": "NodePort"}}, pick=_of_refusals),
        _merge("services", "d", {"spec": {"type": "ClusterIP"}}, pick=_of_refusals),
        Until({"services": "3", "services.nodeports": "2", "services.loadbalancers": "0", "count/services": "3"}),
        _merge("services", "a", {"spec": {"type": "NodePort"}}, pick=_of_refusals),
        Until({"services": "3", "services.nodeports": "3", "services.loadbalancers": "0", "count/services": "3"}),
        _STATUS,
    ],
    "quota-claims": [
        *_quota(
            {
                "persistentvolumeclaims": "4",
                "requests.storage": "5Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "2Gi",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "silver.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
            }
        ),
        *(
            inside("POST", "persistentvolumeclaims", body)
            for body in (
                claim("1Gi", "a"),
                claim("3Gi", "b", storageClassName="gold"),
                claim("1.5Gi", "c", storageClassName="gold"),
                claim("1Mi", "d", storageClassName="gold"),
                claim("1Mi", "e", storageClassName="silver"),
                claim("4Gi", "f"),
                claim("1500m", "g"),
            )
        ),
        _STATUS,
        _deleted("persistentvolumeclaims", "c"),
        Until(
            {
                "persistentvolumeclaims": "2",
                "requests.storage": "1073741826",
                "gold.storageclass.storage.k8s.io/requests.storage": "0",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
                "silver.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
            }
        ),
    ],
    "quota-of-quotas": [
        *_quota({"resourcequotas": "2", "count/resourcequotas": "2"})[:1],
        Until({"resourcequotas": "1", "count/resourcequotas": "1"}),
        _made({"pods": "1"}, "r"),
        _made({"pods": "1"}, "s"),
        _STATUS,
    ],
    "quota-changed": [
        *_quota({"pods": "2"}),
        *_pods(pod("a"), pod("b"), pod("c")),
        # kube-controller-manager counts what its cache has: when it has seen the deletion, it knows the first Pod.
        _deleted("pods", "b"),
        Until({"pods": "1"}),
        _merge("resourcequotas", "q", {"spec": {"hard": {"pods": "1", "services": "1"}}}, compared=False),
        Until({"pods": "1", "services": "0"}),
        *_pods(pod("b")),
        _merge("resourcequotas", "q", {"spec": {"hard": {"pods": "0", "services": None}}}, compared=False),
        Until({"pods": "1"}),
        *_pods(pod("c")),
        _STATUS,
        _merge("pods", "a", {"metadata": {"labels": {"a": "b"}}}),
        _merge("resourcequotas", "q", {"status": {"used": {"pods": "7"}}}, "status", pick=lambda body: body["status"]),
    ],
    "quota-two": [
        *_quota({"pods": "5"}),
        *_quota({"pods": "1"}, "r"),
        *_pods(pod("a"), pod("b")),
        Until({"pods": "1"}),
        Until({"pods": "1"}, "r"),
    ],
    "quota-with-limits": [
        *_quota({"requests.cpu": "1", "limits.cpu": "2"}),
        inside(
            "POST",
            "limitranges",
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l"},
                "spec": {"limits": [{"type": "Container", "default": {"cpu": "900m"}, "defaultRequest": {"cpu": "400m"}}]},
            },
            compared=False,
        ),
        *_pods(pod("a"), pod("b"), pod("c")),
        Until({"requests.cpu": "800m", "limits.cpu": "1800m"}),
    ],
    "quota-resize": [
        *_quota({"requests.cpu": "500m"}),
        *_pods(pod("a", _resources({"cpu": "100m"}, {"cpu": "1"})), pod("b", _resources({"cpu": "100m"}, {"cpu": "1"}))),
        *(
            inside(
                "PATCH",
                "pods",
                {"spec": {"containers": [{"name": "c0", "resources": {"requests": {"cpu": cpu}}}]}},
                "a",
                "resize",
                kind="application/strategic-merge-patch+json",
            )
            for cpu in ("450m", "300m")
        ),
        Until({"requests.cpu": "400m"}),
    ],
    "quota-invalid": [
        *(
            _made(hard, **spec)
            for hard, spec in (
                ({"other": "1"}, {}),
                ({"storage": "1"}, {}),
                ({"a b/c": "1"}, {}),
                ({"example.com/gpu": "1500m"}, {}),
                ({"requests.example.com/gpu": "1"}, {}),
                ({"pods": "1500m"}, {}),
                ({"pods": "-1"}, {}),
                ({"requests.cpu": "-1m"}, {}),
                ({"count/widgets.example.com": "1.5"}, {}),
                ({"pods": "1"}, {"scopes": ["Other"]}),
                ({"services": "1"}, {"scopes": ["BestEffort"]}),
                ({"requests.cpu": "1"}, {"scopes": ["BestEffort"]}),
                ({"requests.ephemeral-storage": "1"}, {"scopes": ["NotBestEffort"]}),
                ({"requests.storage": "1"}, {"scopes": ["VolumeAttributesClass"]}),
                ({"pods": "1"}, {"scopes": ["VolumeAttributesClass"]}),
                ({"pods": "1"}, {"scopes": ["BestEffort", "NotBestEffort"]}),
                ({"pods": "1"}, {"scopes": ["Terminating", "NotTerminating"]}),
                ({"pods": "1"}, _selected({"scopeName": "Other", "operator": "Exists"})),
                ({"services": "1"}, _selected(_priority("Exists"))),
                ({"services": "1"}, _selected(_priority("In", "a"))),
                ({"pods": "1"}, _selected(_priority("In"))),
                ({"pods": "1"}, _selected(_priority("Exists", "a"))),
                ({"pods": "1"}, _selected(_priority("Like", "a"))),
                ({"pods": "1"}, _selected(_priority(""))),
                ({"pods": "1"}, _selected({"scopeName": "Terminating", "operator": "In", "values": ["a"]})),
                (
                    {"pods": "1"},
                    _selected(*({"scopeName": name, "operator": "Exists"} for name in ("Terminating", "NotTerminating"))),
                ),
                ({"requests.cpu": "2", "limits.cpu": "1"}, {}),
            )
        ),
        _merge("resourcequotas", "q", {"spec": {"scopes": ["Terminating"]}}, pick=lambda body: {**body, "status": None}),
        _merge("resourcequotas", "q", {"spec": {"hard": {"other": "1"}}}, pick=lambda body: {**body, "status": None}),
        _merge("resourcequotas", "q", {"status": {"used": {"other": "1"}}}, "status", pick=lambda body: {**body, "status": None}),
        _merge("resourcequotas", "q", {"status": {"hard": {"pods": "-1"}}}, "status", pick=lambda body: {**body, "status": None}),
    ],
    "quota-custom": [
        *_quota({f"count/{_CRONTABS}": "2"}),
        _crontab("POST", "a", _tab("a")),
        _crontab("POST", "b", _tab("b"), "dryRun=All"),
        _crontab("PATCH", "b", _tab("b"), "fieldManager=m", kind="application/apply-patch+yaml"),
        _crontab("POST", "c", _tab("c")),
        _crontab("POST", "c", {**_tab("c"), "metadata": {"generateName": "generated-"}}),
        _crontab("PATCH", "d", _tab("d"), "fieldManager=m", kind="application/apply-patch+yaml"),
        _crontab("PATCH", "a", {"spec": {"a": 1}}, kind=MERGE_PATCH),
        _STATUS,
    ],
}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("quotas"), [_DEFINITION], (NAMESPACE,)) as pair:
        yield pair


def _counts_crontabs(side: Side) -> bool:
    """kube-controller-manager counts what it knows when it sees a quota, and looks for new kinds every half a minute."""
    side.play(NAMESPACE, [_made({f"count/{_CRONTABS}": "1", "pods": "1"}, "probe", compared=False)])
    try:
        eventually(lambda: _used(side, NAMESPACE, "probe"), "the probe is counted")
        return len(_used(side, NAMESPACE, "probe")) == 2
    finally:
        side.play(NAMESPACE, [_deleted("resourcequotas", "probe")])


@pytest.mark.parametrize("name", CASES)
def test_same_answers(sides: tuple[Side, Side], name: str) -> None:
    case = [*opened(), *CASES[name]]
    if name == "quota-custom":
        eventually(partial(_counts_crontabs, sides[0]), "kube-controller-manager knows the kind")
    with ThreadPoolExecutor(2) as pool:
        upstream, ours = pool.map(lambda side: _played(side, name, case), sides)
    assert ours == upstream


def _played(side: Side, name: str, case: Sequence[Step]) -> list[Any]:
    found: list[Seen] = []
    for step in case:
        if isinstance(step, Until):
            _wait(side, name, step)
        else:
            found += side.play(name, [step])
    side.play(name, [ask("DELETE", f"/api/v1/namespaces/{name}", compared=False)])
    return list(map(without_order, found))


def _wait(side: Side, namespace: str, until: Until) -> None:
    what = f"{namespace}: the usage of {until.name}: {until.used}"
    eventually(lambda: _used(side, namespace, until.name) == until.used, what)


def _used(side: Side, namespace: str, name: str) -> Any:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"
    status = json.loads(side.client.request("GET", path, {"accept": "application/json"}).body)["status"]
    return status.get("used")


def test_a_hundred_at_once(sides: tuple[Side, Side]) -> None:
    """Exactly as many as there is room for."""
    for side in sides:
        side.play("at-once", [*opened(), _made({"count/podtemplates": "10"}, compared=False)])
        _wait(side, "at-once", Until({"count/podtemplates": "0"}))
        with ThreadPoolExecutor(20) as pool:
            codes = sorted(pool.map(partial(_code, side), range(100)))
        assert codes == [201] * 10 + [403] * 90
        assert _used(side, "at-once", "q") == {"count/podtemplates": "10"}


def _code(side: Side, number: int) -> int:
    """How the creation of an object in a connection of its own is answered."""
    connection = http.client.HTTPSConnection(*side.client.address, context=side.client.context, timeout=HANG_SECONDS)
    try:
        path, body = "/api/v1/namespaces/at-once/podtemplates", json.dumps(_template(f"t{number}"))
        connection.request("POST", path, body, {"content-type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()
