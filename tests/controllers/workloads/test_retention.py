"""Who owns the claims of a StatefulSet: by a table of its policy and of what there is."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.workloads.plan import Plan
from aggserver.controllers.workloads.retention import owners_of_claim
from tests.controllers.workloads.test_plans import owner, pod, stateful

TEMPLATES = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]


def reference(kind: str, uid: str, *, controller: bool = True, name: str = "") -> dict[str, Any]:
    version = {"StatefulSet": "apps/v1", "Pod": "v1"}.get(kind, "example.com/v1")
    name = name or {"StatefulSet": "web", "Pod": "web-0"}.get(kind, "mine")
    found = {"apiVersion": version, "kind": kind, "name": name, "uid": uid}
    return found | ({"controller": True, "blockOwnerDeletion": True} if controller else {})


SET, POD = reference("StatefulSet", "1"), reference("Pod", "2")
OTHER, MINE = reference("Backup", "9", controller=False), reference("Backup", "9")
OLD_SET, OLD_POD = reference("StatefulSet", "0"), reference("Pod", "0")
RETAIN, DELETE = {"whenScaled": "Retain", "whenDeleted": "Retain"}, {"whenScaled": "Delete", "whenDeleted": "Delete"}
SCALED, DELETED = {**RETAIN, "whenScaled": "Delete"}, {**RETAIN, "whenDeleted": "Delete"}
OWNERS: dict[str, tuple[dict[str, str], bool, list[Any], list[Any] | None]] = {
    # name: (the policy, whether the Pod is to go, the references that there are, and are to be; None: as they are)
    "kept": (RETAIN, False, [], None),
    "kept, although it is to go": (RETAIN, True, [OTHER], None),
    "not kept before": (RETAIN, False, [SET, OTHER], [OTHER]),
    "with the set": (DELETED, False, [OTHER], [OTHER, SET]),
    "with the set already": (DELETED, False, [SET], None),
    "with the set, although the Pod is to go": (DELETED, True, [], [SET]),
    "with its Pod, which stays": (SCALED, False, [], None),
    "with its Pod, which goes": (SCALED, True, [], [POD]),
    "with its Pod, which stays after all": (SCALED, False, [POD], []),
    "with both": (DELETE, False, [], [SET]),
    "with both, the Pod goes": (DELETE, True, [SET], [POD]),
    "that of a former set": (DELETE, False, [OLD_SET], None),
    "that of a former Pod": (DELETE, False, [OLD_POD], None),
    "that of another controller": (DELETE, False, [MINE], None),
    "that of another controller and ours": (DELETE, False, [MINE, SET], [MINE]),
    "an owner that does not control": (DELETED, False, [reference("StatefulSet", "1", controller=False)], [SET]),
}


@pytest.mark.parametrize("name", OWNERS)
def test_the_owners_of_a_claim(name: str) -> None:
    policy, is_surplus, references, wanted = OWNERS[name]
    web = owner("StatefulSet", persistentVolumeClaimRetentionPolicy=policy)
    of = {"apiVersion": "v1", **pod("web-0", uid="2")}
    assert owners_of_claim(web, of, references, is_surplus=is_surplus) == wanted


def planned(pods: list[dict[str, Any]], claims: dict[str, Any], **spec: Any) -> Plan:
    more = {"podManagementPolicy": "Parallel", "volumeClaimTemplates": TEMPLATES, **spec}
    return stateful(owner("StatefulSet", persistentVolumeClaimRetentionPolicy=DELETE, **more), pods, claims)


def test_claims_are_owned_before_their_pod_goes() -> None:
    pods = [{"apiVersion": "v1", **pod(f"web-{number}", uid="2")} for number in range(2)]
    plan = planned(pods, {"data-web-0": [], "data-web-1": [], "other": []}, replicas=1)
    found = {name: [each["kind"] for each in references] for name, references in plan.own}
    assert found == {"data-web-0": ["StatefulSet"], "data-web-1": ["Pod"]}
    assert [each["metadata"]["name"] for each in plan.delete] == ["web-1"]


def test_a_pod_waits_for_the_claims_of_the_former_one_to_go() -> None:
    plan = planned([], {"data-web-0": [OLD_POD]}, replicas=2)
    assert [each["metadata"]["name"] for each in plan.create if each["kind"] == "Pod"] == ["web-1"]
    assert plan.again == 1.0
    assert planned([], {"data-web-0": [OLD_POD]}, replicas=2, podManagementPolicy="OrderedReady").create == []
