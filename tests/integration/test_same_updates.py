"""Random changes of Pods, Jobs, StatefulSets, claims and Services: kube-apiserver and aggserver refuse the same, with one text.

`cases_kind_changes.py` has the cases by name. The chance is the same in each run; each change is made to what those before have
made of an object.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.cases_kind_changes import NEAR, seen, volume_claim, zone
from tests.integration.comparison import MERGE_PATCH, Ask
from tests.integration.kinds import in_namespace, minimal, on
from tests.integration.sides import Side, both, played

_CHANGES = 12
_CONTAINER = {"name": "c", "image": "example.com/i"}
_TOLERATIONS = [
    {"operator": "Exists"},
    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3},
    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9},
    {"key": "a", "value": "b"},
]
_GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
_Pool = Mapping[str, Sequence[Any]]
# Of each member the values that it may get; what is not given to an object at first, is not there.
_OF_PODS: _Pool = {
    "activeDeadlineSeconds": [None, 5, 9],
    "affinity": [None, {}, zone("a"), zone("a", "b"), NEAR],
    "containers": [
        [_CONTAINER],
        [{**_CONTAINER, "image": "j"}],
        [{**_CONTAINER, "resources": {"requests": {"cpu": "1"}}}],
        [{**_CONTAINER, "env": [{"name": "A", "value": "b"}]}],
        [_CONTAINER, {"name": "d", "image": "i"}],
    ],
    "nodeSelector": [None, {"a": "b"}, {"a": "c"}, {"d": "e"}],
    "schedulingGates": [None, _GATES[:1], _GATES[1:], _GATES],
    "terminationGracePeriodSeconds": [30, 1, 5],
    "tolerations": [None, *(_TOLERATIONS[:end] for end in range(1, 5)), _TOLERATIONS[2:]],
    "volumes": [None, [], [{"name": "v", "emptyDir": {}}]],
}
_IN_TEMPLATES = [{"spec": {name: value}} for name, values in _OF_PODS.items() for value in values if name[0] != "a" or value != 5]
_PORTS = [
    {"port": 80, "name": "a"},
    {"port": 81, "name": "b"},
    {"port": 80, "name": "c", "protocol": "UDP"},
    {"port": 82, "name": "d", "nodePort": 31501},
]
# The specs that objects begin with, and their changes.
_KINDS: Mapping[str, tuple[Sequence[dict[str, Any]], _Pool]] = {
    "core/pods": ([{}, {"schedulingGates": _GATES}, {"tolerations": _TOLERATIONS[:2]}, {"activeDeadlineSeconds": 7}], _OF_PODS),
    "batch/jobs": (
        [{}, {"suspend": True}, {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}],
        {
            "backoffLimit": [None, 3],
            "completionMode": [None, "NonIndexed", "Indexed"],
            "completions": [None, 1, 2, 3],
            "parallelism": [None, 1, 2, 3],
            "suspend": [True, False, None],
            "template": [{"metadata": {"labels": {"x": "y"}}}, {"metadata": {"annotations": {"x": "y"}}}, *_IN_TEMPLATES],
        },
    ),
    "apps/statefulsets": (
        [{}, {"volumeClaimTemplates": [volume_claim()]}],
        {
            "minReadySeconds": [None, 3],
            "ordinals": [None, {"start": 1}],
            "podManagementPolicy": [None, "OrderedReady", "Parallel"],
            "replicas": [None, 0, 3],
            "serviceName": [None, "s", "t"],
            "template": [each for each in _IN_TEMPLATES if "activeDeadlineSeconds" not in each["spec"]],
            "updateStrategy": [None, {"type": "OnDelete", "rollingUpdate": None}],
            "volumeClaimTemplates": [None, [], [volume_claim()], [volume_claim("2Gi")], [volume_claim("1024Mi")]],
        },
    ),
    "core/persistentvolumeclaims": (
        [{}, {"storageClassName": "a"}, {"volumeName": "v"}],
        {
            "accessModes": [["ReadWriteOnce"], ["ReadWriteMany"]],
            "resources": [{"requests": {"storage": size}} for size in ("500Mi", "1024Mi")] + [{"limits": {"storage": "5Gi"}}],
            "storageClassName": [None, "a", "b", ""],
            "volumeAttributesClassName": [None, "x", ""],
            "volumeMode": [None, "Filesystem", "Block"],
            "volumeName": [None, "v", "w"],
        },
    ),
    "core/services": (
        [
            {},
            {"clusterIP": None},
            {"clusterIP": None, "type": "NodePort"},
            {"clusterIP": None, "type": "LoadBalancer"},
            {"clusterIP": None, "type": "ExternalName", "externalName": "a.b"},
        ],
        {
            "allocateLoadBalancerNodePorts": [None, True, False],
            "clusterIP": [None, "", "None"],
            "clusterIPs": [None, [], ["None"]],
            "externalIPs": [None, ["192.0.2.1"]],
            "externalName": [None, "a.b", "A_"],
            "externalTrafficPolicy": [None, "Local", "Cluster"],
            "ipFamilies": [None, ["IPv4"], ["IPv6"], ["IPv4", "IPv6"]],
            # No other: kube-apiserver panics where a Service becomes headless that prefers both.
            "ipFamilyPolicy": [None, "SingleStack"],
            "loadBalancerClass": [None, "a", "b"],
            "ports": [_PORTS[:1], _PORTS[:3], _PORTS[1:], _PORTS[3:], []],
            "selector": [None, {"a": "b"}],
            "sessionAffinity": [None, "None", "ClientIP"],
            "type": ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"],
        },
    ),
}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("updates"), (), ("same-updates",)) as pair:
        yield pair


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("which", _KINDS)
def test_same_updates(sides: tuple[Side, Side], which: str, seed: int) -> None:
    chance = random.Random(f"{which} {seed}")
    for number, beginning in enumerate(_KINDS[which][0]):
        upstream, ours = played(sides, f"update-{seed}-{number}", in_namespace("same-updates", _steps(which, beginning, chance)))
        # Upstream tells of gates in no order.
        assert [(each.status, sorted(each.body)) for each in ours] == [(each.status, sorted(each.body)) for each in upstream]


def _steps(which: str, beginning: dict[str, Any], chance: random.Random) -> Iterator[Ask]:
    base, pool = minimal(which), _KINDS[which][1]
    yield on("POST", which, {**base, "spec": {**base["spec"], **beginning}}, compared=False)
    for _ in range(_CHANGES):
        names = chance.sample(list(pool), chance.randint(1, 3))
        spec = {name: chance.choice(pool[name]) for name in names}
        yield on("PATCH", which, {"spec": spec}, kind=MERGE_PATCH, pick=seen)
    yield on("DELETE", which, query="propagationPolicy=Background&gracePeriodSeconds=0", compared=False)
