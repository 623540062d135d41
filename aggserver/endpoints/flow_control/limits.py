"""How many seats each priority level has of the server's, by shares, and how many of them it lends.

A seat is what a request of one object takes while it is served. A level may use more than its own as long as others need less:
they lend a part of theirs, and what they do not lend stays free for them. kube-apiserver decides every ten seconds how many seats
are lent; here it is decided for each request, since all levels are in one process and nothing has to be agreed upon.
Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/apf_controller.go, v0.36.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from aggserver.meta.json_types import JSONMapping

__all__ = ["LevelLimits", "Queuing", "limits", "queuing"]

# A single request takes at most this part of the seats of its level.
_LARGEST_PART = 0.15


class Queuing(NamedTuple):
    """queues: 0 if requests that find no seat are rejected. length: of each queue, in requests."""

    queues: int
    hand: int
    length: int


class LevelLimits(NamedTuple):
    """Seats. nominal: those of its own. lower: that are never lent. upper: with borrowed ones. widest: for one request."""

    nominal: int
    lower: int
    upper: int
    widest: int


def queuing(spec: JSONMapping) -> Queuing:
    """The queues of a valid PriorityLevelConfiguration's spec."""
    given = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing")
    return Queuing(given["queues"], given["handSize"], given["queueLengthLimit"]) if given else Queuing(0, 0, 0)


def limits(specs: Mapping[str, JSONMapping], total: int) -> dict[str, LevelLimits]:
    """The limits of each level, by name. specs: of valid PriorityLevelConfigurations. total: the seats of the server."""
    parts = {name: spec.get("limited") or spec.get("exempt") or {} for name, spec in specs.items()}
    shares = {name: part.get("nominalConcurrencyShares") or 0 for name, part in parts.items()}
    all_shares = sum(shares.values()) or 1
    found = {}
    for name, part in parts.items():
        nominal = math.ceil(total * shares[name] / all_shares)
        lent = _rounded(nominal * (part.get("lendablePercent") or 0) / 100)
        borrowed = part.get("borrowingLimitPercent")
        more = total if borrowed is None else _rounded(nominal * borrowed / 100)
        hand = queuing(specs[name]).hand
        widest = max(1, min(math.ceil(nominal * _LARGEST_PART), nominal // hand)) if hand else max(1, nominal)
        found[name] = LevelLimits(nominal, nominal - lent, nominal + more, widest)
    return found


def _rounded(number: float) -> int:
    """Halves upwards, as Go's math.Round."""
    return math.floor(number + 0.5)
