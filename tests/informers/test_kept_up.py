"""Tasks that fail are started again, after pauses that grow only while they go on failing."""

from __future__ import annotations

import pytest

from aggserver.informers.kept_up import kept_up


async def test_a_task_without_an_end_is_run_again() -> None:
    pauses, runs = list[float](), 0

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise TimeoutError  # of the test, which has seen enough

    async def run() -> None:
        nonlocal runs
        runs += 1

    with pytest.raises(TimeoutError):
        await kept_up("a task", run, endless=True, sleep=sleep, clock=lambda: 0.0)
    assert (runs, pauses) == (3, [1.0, 2.0, 4.0])


async def test_pauses_begin_anew_after_a_good_time() -> None:
    # Seconds that each run takes before it fails; the last one ends.
    runs, now, pauses = [0.0, 1.0, 60.0, 61.0, 0.0, 3600.0], 0.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    async def run() -> None:
        nonlocal now
        if not runs:
            return
        now += runs.pop(0)
        raise ValueError("no")

    await kept_up("a task", run, sleep=sleep, clock=lambda: now)
    assert pauses == [1.0, 2.0, 4.0, 1.0, 2.0, 1.0]
