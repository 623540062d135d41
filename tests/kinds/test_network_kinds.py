"""Addresses, ranges, flow control and priorities: what is refused, and what every cluster has.

`tests/integration/cases_kind_networks.py` compares the same with kube-apiserver.
"""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds import seeds
from aggserver.kinds.flow_control import conditions_problems
from aggserver.kinds.immutable import changed_immutables
from aggserver.kinds.kind_rules import kind_problems
from aggserver.meta.names import ip_address_name
from tests.kinds.written import written

NOW = "2026-01-02T03:04:05Z"
FLOW_SCHEMA, LEVEL = "flowcontrol/v1.FlowSchema", "flowcontrol/v1.PriorityLevelConfiguration"
RANGE, CLASS = "networking/v1.ServiceCIDR", "scheduling/v1.PriorityClass"

NAMES = {
    "192.0.2.1": "",
    "2001:db8::1": "",
    "192.0.02.1": "must not have leading 0s",
    "2001:DB8::1": 'must be in canonical form ("2001:db8::1")',
    "::ffff:192.0.2.1": "must not be an IPv4-mapped IPv6 address",
    "fe80::1%eth0": "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
    "x": "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
}
RANGES = {
    "192.0.2.0/24": "",
    "2001:db8::/64": "",
    "192.0.2.1/24": "must not have bits set beyond the prefix length",
    "192.0.02.0/24": "must not have leading 0s in IP or prefix length",
    "192.0.2.0/024": "must not have leading 0s in IP or prefix length",
    "192.0.2.0": "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    "192.0.2.0/33": "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
    "2001:DB8::/64": 'must be in canonical form ("2001:db8::/64")',
}


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_addresses(name: str) -> None:
    assert ip_address_name(name, False) == ([NAMES[name]] if NAMES[name] else [])


@pytest.mark.parametrize("text", RANGES)
def test_ranges(text: str) -> None:
    told = [str(problem) for problem in kind_problems(RANGE, {"spec": {"cidrs": [text]}})]
    assert told == ([f'spec.cidrs[0]: Invalid value: "{text}": {RANGES[text]}'] if RANGES[text] else [])


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (["192.0.2.0/24"], ["192.0.2.0/24", "2001:db8::/64"], []),
        (["192.0.2.0/24"], ["192.0.2.0/24", "198.51.100.0/24"], ["spec.cidrs"]),
        (["192.0.2.0/24"], ["198.51.100.0/24"], ["spec.cidrs[0]"]),
        (["192.0.2.0/24", "2001:db8::/64"], ["192.0.2.0/24"], ["spec.cidrs"]),
    ],
)
def test_a_range_of_the_other_family_may_be_added(before: list[str], now: list[str], told: list[str]) -> None:
    problems = changed_immutables(RANGE, {"spec": {"cidrs": now}}, {"spec": {"cidrs": before}})
    assert [str(problem.path) for problem in problems] == told


@pytest.mark.parametrize("type_name", [FLOW_SCHEMA, LEVEL, RANGE, CLASS])
def test_what_every_cluster_has_is_valid_and_has_its_defaults(type_name: str) -> None:
    made = seeds.seeds(type_name, "10.0.0.0/24", NOW)
    for obj in made:
        spec = obj.get("spec")
        assert kind_problems(type_name, obj) == []
        assert written(type_name, obj).get("spec") == spec
    assert len({obj["metadata"]["name"] for obj in made}) == len(made)


def test_only_system_classes_are_kept() -> None:
    assert seeds.kept(CLASS, "system-node-critical")
    assert not seeds.kept(CLASS, "mine")
    assert not seeds.kept(RANGE, "system-node-critical")


MANDATORY: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "a FlowSchema": (FLOW_SCHEMA, "catch-all", {"matchingPrecedence": 5}, ["spec"]),
    "one that is only suggested": (FLOW_SCHEMA, "global-default", {"matchingPrecedence": 5}, []),
    "the exempt level": (LEVEL, "exempt", {"exempt": {"lendablePercent": 7}}, []),
    "the last level": (
        LEVEL,
        "catch-all",
        {"limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}},
        ["spec"],
    ),
}


@pytest.mark.parametrize("case", MANDATORY)
def test_the_spec_of_mandatory_objects_is_fixed(case: str) -> None:
    type_name, name, changes, told = MANDATORY[case]
    (obj,) = (each for each in seeds.seeds(type_name, "", NOW) if each["metadata"]["name"] == name)
    obj["spec"] = {**obj["spec"], **changes}
    assert [str(problem.path) for problem in kind_problems(type_name, obj)] == told


LEVELS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a hand that needs 60 bits": ({"queues": 1024, "handSize": 6, "queueLengthLimit": 1}, []),
    "a hand that needs 70 bits": ({"queues": 1024, "handSize": 7, "queueLengthLimit": 1}, ["handSize"]),
    "a hand larger than the deck": ({"queues": 4, "handSize": 5, "queueLengthLimit": 1}, ["handSize"]),
    "nothing": ({"queues": 0, "handSize": 0, "queueLengthLimit": 0}, ["queueLengthLimit", "queues", "handSize"]),
}


@pytest.mark.parametrize("case", LEVELS)
def test_queues(case: str) -> None:
    queuing, told = LEVELS[case]
    limited = {"limitResponse": {"type": "Queue", "queuing": queuing}}
    obj = {"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": limited}}
    where = "spec.limited.limitResponse.queuing."
    assert [str(problem.path).removeprefix(where) for problem in kind_problems(LEVEL, obj)] == told


def test_conditions_of_the_same_type() -> None:
    obj = {"status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}}
    assert [str(problem.path) for problem in conditions_problems(obj, {})] == [
        "status.conditions[1].type",
        "status.conditions[2].type",
    ]


def test_reserved_priorities() -> None:
    told = {
        name: [str(problem.path) for problem in kind_problems(CLASS, {"metadata": {"name": name}, "value": value})]
        for name, value in (("a", 10**9), ("b", 10**9 + 1), ("system-x", 1), ("system-node-critical", 2_000_001_000))
    }
    assert told == {"a": [], "b": ["value"], "system-x": ["metadata.name"], "system-node-critical": []}
