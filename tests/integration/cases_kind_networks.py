"""Cases for `test_same_kinds.py`: IPAddresses, ServiceCIDRs, flow control, storage classes of all sorts, and PriorityClasses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.integration.comparison import MERGE_PATCH, Case, Cases
from tests.integration.kinds import minimal, on

__all__ = ["CASES"]

_IPS, _RANGES = "networking.k8s.io/ipaddresses", "networking.k8s.io/servicecidrs"
_SCHEMAS = "flowcontrol.apiserver.k8s.io/flowschemas"
_LEVELS = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
_CAPACITIES, _CLASSES = "storage.k8s.io/csistoragecapacities", "storage.k8s.io/volumeattributesclasses"
_PRIORITIES = "scheduling.k8s.io/priorityclasses"


def _tries(which: str, specs: list[Any]) -> Case:
    """A create of each, which is not kept."""
    return [on("POST", which, minimal(which, spec=spec), query="dryRun=All") for spec in specs]


def _what_is_meant(body: Any) -> Any:
    """Of an error that shows one of Go's internal structs, or an object whose status a controller writes: without those."""
    if body.get("kind") == "Status":
        return body.get("reason"), [cause["field"] for cause in body["details"].get("causes", ())]
    metadata = {
        name: value for name, value in body["metadata"].items() if name not in ("resourceVersion", "managedFields", "uid")
    }
    return {**body, "metadata": {**metadata, "creationTimestamp": ""}, "status": {}}


def _named(body: Any) -> Any:
    return sorted(item["metadata"]["name"] for item in body["items"])


_LIMITED = {"limitResponse": {"type": "Reject"}}
_RULE: Mapping[str, Any] = {
    "subjects": [{"kind": "User", "user": {"name": "u"}}],
    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}],
}


def _rules(**members: Any) -> dict[str, Any]:
    return {"priorityLevelConfiguration": {"name": "exempt"}, "rules": [{**_RULE, **members}]}


def _resource(**members: Any) -> dict[str, Any]:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a"]}
    return _rules(resourceRules=[{**rule, **members}])


def _queue(**members: Any) -> dict[str, Any]:
    return {"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": members}}}


CASES: Cases = {
    "addresses-names": [
        on("POST", _IPS, minimal(_IPS, {"name": name}), query="dryRun=All")
        for name in ("192.0.2.1", "192.0.02.1", "::ffff:192.0.2.1", "2001:DB8::1", "2001:db8::0:1", "fe80::1%eth0", "x", "1.2.3")
    ],
    "addresses-parents": _tries(
        _IPS,
        [
            {},
            {"parentRef": {}},
            {"parentRef": {"resource": "a/b", "name": "..", "namespace": "c%"}},
            {"parentRef": {"group": "A_b", "resource": "a", "name": "b"}},
        ],
    ),
    "addresses-updates": [
        on("POST", _IPS, minimal(_IPS), compared=False),
        on("PATCH", _IPS, {"spec": {"parentRef": {"name": "other"}}}, kind=MERGE_PATCH, pick=_what_is_meant),
        on("PATCH", _IPS, {"metadata": {"labels": {"a": "b"}}}, kind=MERGE_PATCH),
        on("DELETE", _IPS),
    ],
    "ranges": _tries(
        _RANGES,
        [
            {},
            {"cidrs": []},
            *({"cidrs": [text]} for text in ("x", "192.0.2.0", "192.0.2.1/24", "192.0.02.0/24", "192.0.2.0/024", "192.0.2.0/33")),
            *({"cidrs": [text]} for text in ("::ffff:192.0.2.0/120", "2001:DB8::/64", "2001:db8::1/64", "2001:db8::/64", "/24")),
            {"cidrs": ["192.0.2.0/24", "198.51.100.0/24"]},
            {"cidrs": ["192.0.2.0/24", "x"]},
            {"cidrs": ["2001:db8::/64", "192.0.2.0/24"]},
            {"cidrs": ["192.0.2.0/24", "198.51.100.0/24", "2001:db8::/64"]},
        ],
    ),
    "ranges-updates": [
        on("POST", _RANGES, minimal(_RANGES), compared=False),
        on("PATCH", _RANGES, {"spec": {"cidrs": ["203.0.113.64/28"]}}, kind=MERGE_PATCH),
        on("PATCH", _RANGES, {"spec": {"cidrs": []}}, kind=MERGE_PATCH, pick=_what_is_meant),
        on("PATCH", _RANGES, {"spec": {"cidrs": ["203.0.113.0/28", "203.0.113.16/28"]}}, kind=MERGE_PATCH),
        on("PATCH", _RANGES, {"spec": {"cidrs": ["203.0.113.0/28", "2001:db8:9::/112"]}}, kind=MERGE_PATCH),
        on("PATCH", _RANGES, {"spec": {"cidrs": ["203.0.113.0/28"]}}, kind=MERGE_PATCH),
        on("DELETE", _RANGES, compared=False),
    ],
    "ranges-of-every-cluster": [
        on("GET", _RANGES, name="kubernetes", pick=lambda body: [body["spec"], body["metadata"]["name"]])
    ],
    "flow-schemas-of-every-cluster": [
        on("GET", _SCHEMAS, name="", pick=_named),
        *(
            on("GET", _SCHEMAS, name=name, pick=_what_is_meant)
            for name in ("exempt", "probes", "system-leader-election", "system-node-high", "kube-scheduler", "catch-all")
        ),
        on("PATCH", _SCHEMAS, {"spec": {"matchingPrecedence": 7}}, name="exempt", kind=MERGE_PATCH, pick=_what_is_meant),
    ],
    "flow-schemas": [
        on("POST", _SCHEMAS, minimal(_SCHEMAS), pick=_what_is_meant),
        on("PATCH", _SCHEMAS, {"spec": {"matchingPrecedence": 7}}, kind=MERGE_PATCH, pick=_what_is_meant),
        on("DELETE", _SCHEMAS, pick=lambda body: body["status"]),
    ],
    "flow-schemas-bad": _tries(
        _SCHEMAS,
        [
            {},
            {"priorityLevelConfiguration": {"name": "A_"}, "matchingPrecedence": -1},
            {"priorityLevelConfiguration": {"name": "a"}, "matchingPrecedence": 1, "distinguisherMethod": {"type": "By"}},
            {"priorityLevelConfiguration": {"name": "a"}, "matchingPrecedence": 10001, "rules": [{}]},
            _rules(subjects=[{"kind": "User"}, {"kind": "Group", "user": {"name": "u"}}, {"kind": "Other"}]),
            _rules(subjects=[{"kind": "ServiceAccount", "serviceAccount": {"name": "A", "namespace": "B"}}]),
            _rules(subjects=[{"kind": "ServiceAccount", "serviceAccount": {}, "group": {"name": "g"}}]),
            _rules(nonResourceRules=[{"verbs": ["*", "get"], "nonResourceURLs": ["*", "/a"]}]),
            _rules(nonResourceRules=[{"verbs": ["gets"], "nonResourceURLs": ["", "a", "/ a", "//", "/*/a", "/a*", "/a/*", "/"]}]),
            _resource(verbs=["*", "get"], apiGroups=["*", ""], resources=["*", "pods"], namespaces=["*", "a"]),
            _resource(verbs=["watch", "x"], namespaces=["A", "b"]),
            _resource(namespaces=[]),
            _resource(namespaces=[], clusterScope=True),
        ],
    ),
    "priority-levels-of-every-cluster": [
        on("GET", _LEVELS, name="", pick=_named),
        *(
            on("GET", _LEVELS, name=name, pick=_what_is_meant)
            for name in ("exempt", "catch-all", "system", "leader-election", "workload-low", "global-default")
        ),
        on(
            "PATCH",
            _LEVELS,
            {"spec": {"limited": {"lendablePercent": 7}}},
            name="catch-all",
            kind=MERGE_PATCH,
            pick=_what_is_meant,
        ),
        on("PATCH", _LEVELS, {"spec": {"exempt": {"lendablePercent": 700}}}, name="exempt", kind=MERGE_PATCH),
    ],
    "priority-levels-bad": _tries(
        _LEVELS,
        [
            {},
            {"type": "Exempt"},
            {"type": "Other"},
            {"type": "Limited"},
            {"type": "Limited", "limited": _LIMITED, "exempt": {}},
            {"type": "Limited", "limited": {**_LIMITED, "nominalConcurrencyShares": -1, "borrowingLimitPercent": -1}},
            {"type": "Limited", "limited": {**_LIMITED, "lendablePercent": 101}},
            {"type": "Limited", "limited": {"limitResponse": {"type": "Reject", "queuing": {}}}},
            {"type": "Limited", "limited": {"limitResponse": {"type": "Queue"}}},
            {"type": "Limited", "limited": {"limitResponse": {}}},
            _queue(queues=-1, handSize=-1, queueLengthLimit=-1),
            _queue(queues=10_000_001, handSize=1),
            _queue(queues=4, handSize=5),
            _queue(queues=1024, handSize=7),
            _queue(queues=1024, handSize=6),
        ],
    ),
    "storage-capacities": [
        on("POST", _CAPACITIES, minimal(_CAPACITIES, storageClassName="A_", capacity="-1"), query="dryRun=All"),
        on("POST", _CAPACITIES, minimal(_CAPACITIES, storageClassName=""), query="dryRun=All"),
        on("POST", _CAPACITIES, minimal(_CAPACITIES, capacity="1.5Gi"), compared=False),
        on("PATCH", _CAPACITIES, {"capacity": "2Gi"}, kind=MERGE_PATCH),
        on("PATCH", _CAPACITIES, {"storageClassName": "d"}, kind=MERGE_PATCH),
        on("PATCH", _CAPACITIES, {"nodeTopology": {}}, kind=MERGE_PATCH, pick=_what_is_meant),
        on("DELETE", _CAPACITIES),
    ],
    "attributes-classes": [
        on("POST", _CLASSES, minimal(_CLASSES, driverName="A_b/C_d", parameters={}), query="dryRun=All"),
        on("POST", _CLASSES, minimal(_CLASSES, driverName="a b", parameters={"": "x"}), query="dryRun=All"),
        on("POST", _CLASSES, minimal(_CLASSES, parameters={f"p{number}": "" for number in range(513)}), query="dryRun=All"),
        on("POST", _CLASSES, minimal(_CLASSES, {"finalizers": []}), query="dryRun=All"),
        on("POST", _CLASSES, minimal(_CLASSES), compared=False),
        on("PATCH", _CLASSES, {"driverName": "e.example.com", "parameters": {"c": "d"}}, kind=MERGE_PATCH),
        on("PATCH", _CLASSES, {"metadata": {"labels": {"a": "b"}}}, kind=MERGE_PATCH),
        on("DELETE", _CLASSES, compared=False),
    ],
    "priority-classes": [
        on("GET", _PRIORITIES, name="system-node-critical", pick=_what_is_meant),
        on("GET", _PRIORITIES, name="system-cluster-critical", pick=_what_is_meant),
        on("DELETE", _PRIORITIES, name="system-cluster-critical"),
        on("POST", _PRIORITIES, minimal(_PRIORITIES, value=1_000_000_001)),
        on("POST", _PRIORITIES, minimal(_PRIORITIES, {"name": "system-other"})),
        # A dry run, since each Pod without a class would have this class in the tests that follow.
        on("PATCH", _PRIORITIES, {"globalDefault": True}, name="system-node-critical", kind=MERGE_PATCH, query="dryRun=All"),
    ],
}
