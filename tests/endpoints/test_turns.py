"""Turns: one piece per iteration of the event loop, and which of the long responses it belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from aggserver.endpoints import turns as turns_module
from aggserver.endpoints.turns import Turns
from tests.fakes.clock import CountedLoop, settled


@pytest.fixture
async def loop() -> CountedLoop:
    return CountedLoop()


Made = list[tuple[str, int]]


def pieces(name: str, count: int, made: Made, loop: CountedLoop, size: int = 100) -> Iterator[bytes]:
    for _ in range(count):
        made.append((name, loop.turn))
        yield b"x" * size


async def take(turns: Turns, given: Iterator[bytes]) -> int:
    return sum([len(piece) async for piece in turns.each(given, lambda: False)])


def order(made: Made) -> str:
    return "".join(name for name, _ in made)


async def test_the_loop_goes_on_between_two_pieces(loop: CountedLoop) -> None:
    made: Made = []
    turns = Turns()
    sizes = await asyncio.gather(*(take(turns, pieces(name, 5, made, loop)) for name in "abc"))
    loop.stop()
    assert sizes == [500] * 3
    assert len({turn for _, turn in made}) == 15


@pytest.mark.parametrize(("others", "turns_taken"), [(0, 2), (1, 2), (2, 3), (20, 3)])
async def test_several_pieces_in_a_turn_while_few_wait(loop: CountedLoop, others: int, turns_taken: int) -> None:
    made: Made = []
    turns = Turns()

    async def together() -> None:
        async for _ in turns.each(pieces("a", 6, made, loop), lambda: False, 4):
            pass

    # The first turn is taken before the others come.
    await asyncio.gather(together(), *(take(turns, pieces("b", 2, [], loop)) for _ in range(others)))
    loop.stop()
    assert len({turn for _, turn in made}) == turns_taken


async def test_first_come_first_finished(loop: CountedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns_module, "_SHORT", 0)
    made: Made = []
    turns = Turns()
    await asyncio.gather(*(take(turns, pieces(name, 4, made, loop)) for name in "abc"))
    loop.stop()
    # Each response generates its first piece before the others go on.
    assert order(made) == "abcaaabbbccc"


async def test_a_short_answer_passes_long_ones(loop: CountedLoop) -> None:
    made: Made = []
    turns = Turns()
    long = [asyncio.create_task(take(turns, pieces(name, 20, made, loop, turns_module._SHORT))) for name in "ab"]
    await settled()
    before = len(made)
    assert before < 40
    await take(turns, pieces("c", 3, made, loop))
    assert order(made)[before:].rindex("c") <= 6
    await asyncio.gather(*long)
    loop.stop()


async def test_who_waits_for_his_client_holds_up_nobody(loop: CountedLoop) -> None:
    made: Made = []
    turns = Turns()
    slow = turns.each(pieces("a", 3, made, loop), lambda: False)
    await anext(slow)
    assert await take(turns, pieces("b", 3, made, loop)) == 300
    await slow.aclose()
    loop.stop()
    assert order(made) == "abbb"


@pytest.mark.parametrize("passes", range(6))
async def test_one_that_is_given_up_passes_its_turn_on(loop: CountedLoop, passes: int) -> None:
    made: Made = []
    turns = Turns()
    tasks = [asyncio.create_task(take(turns, pieces(name, 5, made, loop))) for name in "abc"]
    for _ in range(passes):
        await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await take(turns, pieces("d", 2, made, loop)) == 200
    loop.stop()
    assert (order(made).count("a"), order(made).count("c")) == (5, 5)


async def test_nothing_is_made_for_nobody(loop: CountedLoop) -> None:
    made: Made = []
    async for _ in Turns().each(pieces("a", 9, made, loop), lambda: len(made) == 2):
        pass
    loop.stop()
    assert order(made) == "aa"


async def test_a_piece_that_fails_lets_the_others_go_on(loop: CountedLoop) -> None:
    made: Made = []
    turns = Turns()

    def failing() -> Iterator[bytes]:
        yield b"x"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await take(turns, failing())
    assert await take(turns, pieces("a", 2, made, loop)) == 200
    loop.stop()
