"""The seats of the levels of every cluster, as kube-apiserver's metrics tell them, and of others."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.endpoints.flow_control.limits import LevelLimits, Queuing, limits, queuing
from aggserver.kinds.flow_control import priority_levels

# nominal, lower, upper, and the seats of the widest request.
OF_EVERY_CLUSTER = {
    "catch-all": (13, 13, 613, 13),
    "exempt": (0, 0, 600, 1),
    "global-default": (49, 24, 649, 8),
    "leader-election": (25, 25, 625, 4),
    "node-high": (98, 73, 698, 15),
    "system": (74, 50, 674, 12),
    "workload-high": (98, 49, 698, 15),
    "workload-low": (245, 24, 845, 37),
}


def level(shares: int, lendable: int = 0, borrowing: int | None = None, hand: int = 0) -> dict[str, Any]:
    response: dict[str, Any] = {"type": "Reject"}
    if hand:
        response = {"type": "Queue", "queuing": {"queues": 64, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": "Limited", "limited": limited | ({} if borrowing is None else {"borrowingLimitPercent": borrowing})}


def test_those_of_every_cluster() -> None:
    found = limits({obj["metadata"]["name"]: obj["spec"] for obj in priority_levels()}, 600)
    assert found == {name: LevelLimits(*of) for name, of in OF_EVERY_CLUSTER.items()}


@pytest.mark.parametrize(
    ("specs", "total", "wanted"),
    [
        pytest.param([level(1), level(3)], 4, [(1, 1, 5, 1), (3, 3, 7, 3)], id="by shares"),
        pytest.param([level(1), level(2)], 100, [(34, 34, 134, 34), (67, 67, 167, 67)], id="rounded up"),
        pytest.param([level(1, 25, 50)], 10, [(10, 7, 15, 10)], id="half a seat is rounded up"),
        pytest.param([level(0)], 10, [(0, 0, 10, 1)], id="no shares"),
        pytest.param([level(1, borrowing=0, hand=8)], 10, [(10, 10, 10, 1)], id="the widest by the hand"),
        pytest.param([level(1, borrowing=0, hand=1)], 10, [(10, 10, 10, 2)], id="the widest by its part"),
    ],
)
def test_limits(specs: list[dict[str, Any]], total: int, wanted: list[tuple[int, int, int, int]]) -> None:
    found = limits({str(number): spec for number, spec in enumerate(specs)}, total)
    assert list(found.values()) == [LevelLimits(*of) for of in wanted]


def test_queues() -> None:
    assert queuing(level(1, hand=3)) == Queuing(64, 3, 50)
    assert queuing(level(1)) == queuing({"type": "Exempt", "exempt": {}}) == Queuing(0, 0, 0)
