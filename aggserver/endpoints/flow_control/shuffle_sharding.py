"""Shuffle sharding: the few queues of a priority level that the requests of one flow may wait in.

A flow is dealt a hand of queues by its hash. Two flows rarely have the same hand, so that a flow which fills all of its queues
leaves others at least one that it does not fill.
Pure. Source: k8s.io/apiserver pkg/util/shufflesharding/shufflesharding.go, hashFlowID in pkg/util/flowcontrol, v0.36.3.
"""

from __future__ import annotations

import hashlib

__all__ = ["deal", "flow_hash"]


def flow_hash(schema: str, distinguisher: str) -> int:
    """The hash of a flow, 64 bits. schema: the name of its FlowSchema. distinguisher: its user or namespace, or ''."""
    text = schema.encode("utf-8", "surrogatepass") + b"\0" + distinguisher.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little")


def deal(hash_value: int, deck: int, hand: int) -> tuple[int, ...]:
    """`hand` different numbers from 0 to deck - 1. Each hand is as likely as any other."""
    rest = hash_value
    cards: list[int] = []
    for dealt in range(hand):
        rest, card = divmod(rest, deck - dealt)
        # The card-th of those that were not dealt yet.
        for taken in sorted(cards):
            if card >= taken:
                card += 1
        cards.append(card)
    return tuple(cards)
