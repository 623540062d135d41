"""Profiles: what tools read of them, and what they are bounded by."""

from __future__ import annotations

import gzip
import sys
import threading

import pytest

from aggserver.debugging.profile import MAX_DEPTH, MAX_STACKS, Profile, frames_of
from aggserver.debugging.sampler import PERIOD, Busy, Sampler


def inner():
    return frames_of(sys._getframe())


def outer():
    return inner()


def deep(depth):
    return deep(depth - 1) if depth else frames_of(sys._getframe())


def test_the_innermost_frame_comes_first():
    assert [code.co_name for code, _ in outer()[:3]] == ["inner", "outer", "test_the_innermost_frame_comes_first"]


def test_only_the_innermost_frames_of_a_deep_stack():
    assert len(deep(2 * MAX_DEPTH)) == MAX_DEPTH


def test_collapsed():
    profile = Profile(PERIOD)
    stack = outer()[:2]
    profile.add("Main Thread; a", stack, 3_000_000)
    profile.add("Main Thread; a", stack, 1_500_000)
    profile.add("idle", stack, 0)
    (line,) = profile.collapsed()
    names, _, value = line.rpartition(" ")
    assert value == "4500\n"
    thread, first, last = names.split(";")
    assert thread == "Main_Thread,_a"
    assert (":outer:" in first, ":inner:" in last) == (True, True)


def test_stacks_beyond_the_limit_are_one():
    profile = Profile(PERIOD)
    code = inner.__code__
    for line in range(MAX_STACKS + 50):
        profile.add("t", ((code, line),), 1_000_000)
    lines = list(profile.collapsed())
    assert len(lines) == MAX_STACKS + 1
    assert lines[-1] == "t;(stacks_beyond_the_limit) 50000\n".replace("_beyond_the_", " beyond the ")


def test_one_profile_is_the_same_bytes():
    profile = Profile(PERIOD)
    profile.add("main", outer()[:2], 1)
    assert profile.pprof(1, 2) == profile.pprof(1, 2)
    assert b"outer" in gzip.decompress(profile.pprof(1, 2))


class Waiting:
    """A thread that waits in a function that is known by its name."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self.wait_for_the_end, name="waiting")

    def wait_for_the_end(self) -> None:
        self.begun.set()
        self.end.wait()

    def __enter__(self):
        self.thread.start()
        self.begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.end.set()
        self.thread.join()


def test_the_time_of_each_thread():
    times = iter([100, 100, 100 + 7_000_000, 100 + 7_000_000])
    with Waiting() as waiting:
        own = waiting.thread.native_id
        sampler = Sampler(lambda number: next(times) if number == own else 5)
        profile, known = Profile(PERIOD), {}
        sampler.sample(profile, known, count=False)
        sampler.sample(profile, known)
        assert list(profile.collapsed()) == []
        sampler.sample(profile, known)
        (line,) = profile.collapsed()
        assert line.startswith("waiting;")
        assert line.endswith(" 7000\n")
        assert "wait_for_the_end" in line


def test_a_thread_whose_time_is_not_known_counts_as_busy():
    with Waiting():
        profile = Profile(PERIOD)
        Sampler(lambda number: None).sample(profile, {})
        assert [line.rpartition(" ")[2] for line in profile.collapsed() if line.startswith("waiting;")] == ["10000\n"]


def test_the_own_thread_is_left_out():
    profile = Profile(PERIOD)
    Sampler(lambda number: None).sample(profile, {})
    assert not any("test_the_own_thread" in line for line in profile.collapsed())


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's clocks of threads")
def test_the_clock_of_a_thread():
    spent = []
    with Waiting() as waiting:
        sampler = Sampler()
        assert sampler._cpu(waiting.thread.native_id) >= 0
        before = sampler._cpu(threading.get_native_id())
        spent = sum(number * number for number in range(100_000))
        assert spent
        assert sampler._cpu(threading.get_native_id()) > before
    assert sampler._cpu(4_194_303) is None


def test_one_at_a_time():
    sampler = Sampler()
    begun, stop = threading.Event(), threading.Event()

    def cpu(number: int) -> int:
        begun.set()
        return 1

    sampler._cpu = cpu
    first = threading.Thread(target=lambda: sampler.take(stop, 60))
    first.start()
    begun.wait()
    with pytest.raises(Busy):
        sampler.take(threading.Event(), 1)
    stop.set()
    first.join()
    done = threading.Event()
    done.set()
    _, began, took = sampler.take(done, 60)
    assert began > 0
    assert took < 60_000_000_000
