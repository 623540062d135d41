"""When freed memory is given back to the system."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.app import memory

MB = 1 << 20


class FakeHeap:
    """`looks`: what is free at each look; a trim leaves it so."""

    def __init__(self, *looks: int) -> None:
        self.looks = list(looks)
        self.trimmed: list[int] = []

    def free_bytes(self) -> int:
        return self.looks[0] * MB

    def trim(self) -> None:
        self.trimmed.append(self.looks[0])


LOOKS: dict[str, tuple[list[int], list[int]]] = {
    # name: (MB free at each look, those at which it was given back)
    "little": ([1, 4, 4, 4], []),
    "much, at rest": ([1, 80, 80, 80], [80]),
    "much, but taken again": ([1, 80, 1, 80, 1, 80, 1], []),
    "slowly more": ([1, 4, 7, 10, 13, 16, 19], [10, 19]),
    "given back and taken again": ([1, 80, 80, 2, 80, 80, 80], [80, 80]),
    "more of it": ([1, 80, 80, 100, 100], [80, 100]),
}


@pytest.mark.parametrize("name", LOOKS)
async def test_looks(name: str) -> None:
    looks, trimmed = LOOKS[name]
    heap = FakeHeap(*looks)

    async def sleep(seconds: float) -> None:
        heap.looks.pop(0)
        if not heap.looks:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await memory.give_back_regularly(heap, sleep)
    assert heap.trimmed == trimmed


async def test_without_glibc_there_is_nothing_to_do() -> None:
    await memory.give_back_regularly(None)


def test_the_heap_of_this_process() -> None:
    heap = memory.glibc()
    if heap is not None:
        heap.trim()
        assert heap.free_bytes() > 0
