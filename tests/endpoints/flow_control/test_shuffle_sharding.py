"""Hands of queues: complete, different, and as many of each."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from aggserver.endpoints.flow_control.shuffle_sharding import deal, flow_hash


@pytest.mark.parametrize(("deck", "hand"), [(1, 1), (4, 4), (5, 3), (6, 2)])
def test_every_hand_is_dealt_equally_often(deck: int, hand: int) -> None:
    ways = math.perm(deck, hand)
    dealt = Counter(deal(number, deck, hand) for number in range(3 * ways))
    assert set(dealt) == set(itertools.permutations(range(deck), hand))
    assert set(dealt.values()) == {3}


@pytest.mark.parametrize(
    ("number", "deck", "hand", "cards"),
    [
        # The digits of the number, by falling bases, count the cards that are left.
        (0, 128, 6, (0, 1, 2, 3, 4, 5)),
        (5 + 128 * 5, 128, 2, (5, 6)),
        (5 + 128 * 4, 128, 2, (5, 4)),
        (3 + 8 * (2 + 7 * 2), 8, 3, (3, 2, 4)),
    ],
)
def test_hands(number: int, deck: int, hand: int, cards: tuple[int, ...]) -> None:
    assert deal(number, deck, hand) == cards


def test_a_hash_is_of_both_names() -> None:
    # The first eight bytes of SHA-256 of both, with a zero byte between them, as a little-endian number.
    assert flow_hash("global-default", "alice") == 17644606172554983095
    assert len({flow_hash("a", "bc"), flow_hash("ab", "c"), flow_hash("a", ""), flow_hash("", "a")}) == 4
