from __future__ import annotations

import asyncio

import pytest

from aggserver.cluster.answers import Answers
from tests.fakes.clock import FakeClock


async def test_an_answer_holds_for_its_time() -> None:
    clock = FakeClock()
    answers: Answers[str, str] = Answers(10, clock)
    asked: list[str] = []

    async def question() -> tuple[str, float]:
        asked.append("x")
        return f"answer {len(asked)}", 10.0

    assert await answers.ask("k", question) == "answer 1"
    clock.advance(9.9)
    assert await answers.ask("k", question) == "answer 1"
    assert answers.get("k") == "answer 1"
    clock.advance(0.1)
    assert answers.get("k") is None
    assert await answers.ask("k", question) == "answer 2"


async def test_equal_questions_are_one() -> None:
    answers: Answers[str, int] = Answers(10, FakeClock())
    gate = asyncio.Event()
    asked: list[int] = []

    async def question() -> tuple[int, float]:
        asked.append(1)
        await gate.wait()
        return 7, 0.0

    waiting = [asyncio.create_task(answers.ask("k", question)) for _ in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*waiting) == [7] * 5
    assert len(asked) == 1
    assert answers.get("k") is None, "an answer that holds for no time is not kept"


async def test_a_failure_reaches_all_and_is_not_kept() -> None:
    answers: Answers[str, int] = Answers(10, FakeClock())
    outcomes: list[int | Exception] = [ValueError("no"), 3]

    async def question() -> tuple[int, float]:
        outcome = outcomes.pop(0)
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, 5.0

    both = await asyncio.gather(answers.ask("k", question), answers.ask("k", question), return_exceptions=True)
    assert [str(one) for one in both] == ["no", "no"]
    assert await answers.ask("k", question) == 3


async def test_who_goes_away_does_not_take_the_answer_with_them() -> None:
    answers: Answers[str, int] = Answers(10, FakeClock())
    gate = asyncio.Event()

    async def question() -> tuple[int, float]:
        await gate.wait()
        return 7, 5.0

    first = asyncio.create_task(answers.ask("k", question))
    second = asyncio.create_task(answers.ask("k", question))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second == 7
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_the_least_recently_used_goes_first() -> None:
    answers: Answers[str, str] = Answers(2, FakeClock())

    async def ask(key: str) -> None:
        async def question() -> tuple[str, float]:
            return key, 60.0

        await answers.ask(key, question)

    await ask("a")
    await ask("b")
    assert answers.get("a") == "a"
    await ask("c")
    assert [answers.get(key) for key in "abc"] == ["a", None, "c"]
