"""The processes around a server: the command that it was started for, and the parent that it must not outlive."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

__all__ = ["BY_SIGNAL", "is_in_foreground", "run_command", "until_orphaned"]

# Exit statuses of shells; the last is added to the signal's number.
_CANNOT_RUN, _NOT_FOUND, BY_SIGNAL = 126, 127, 128

# Signals that are passed on to the command. The server stops when the command has ended.
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
# A terminal sends these to the command as well, so they are not passed on if this process is in a terminal's foreground.
_OF_TERMINALS = frozenset({signal.SIGINT, signal.SIGQUIT})

# Seconds that a command has after SIGTERM, before it is killed.
_END_SECONDS = 5.0

# Seconds between checks of our parent's id. Only Linux has a call to wait for the parent's end, prctl(PR_SET_PDEATHSIG), and it
# watches the thread that started us instead of its process.
_PARENT_SECONDS = 0.25


async def run_command(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Runs a command with our standard streams, our environment and `variables`. Passes signals on to it.

    Returns its exit status; 128 plus the signal's number if a signal ended it; 127 if there is no such program; 126 if it can't
    be run. If cancelled, ends the command.
    """
    process: asyncio.subprocess.Process | None = None
    early: list[signal.Signals] = []

    def received(number: signal.Signals) -> None:
        if process is None:
            early.append(number)
        else:
            _pass_on(process, number)

    loop = asyncio.get_running_loop()
    # Added before the command is started, so that no signal is lost that arrives meanwhile: it would stop the server.
    for each in _PASSED_ON:
        loop.add_signal_handler(each, received, each)
    try:
        process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **variables})
    except FileNotFoundError:
        return _cannot(command[0], "no such command", _NOT_FOUND)
    except OSError as error:
        return _cannot(command[0], error.strerror or str(error), _CANNOT_RUN)
    for each in early:
        _pass_on(process, each)
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        await _end(process)
        raise
    return status if status >= 0 else BY_SIGNAL - status


def _cannot(program: str, why: str, status: int) -> int:
    print(f"aggserver: {program}: {why}", file=sys.stderr)
    return status


def _pass_on(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None and not (number in _OF_TERMINALS and is_in_foreground()):
        process.send_signal(number)


def is_in_foreground() -> bool:
    """Whether this process is in the foreground of a terminal, whose Ctrl-C goes to it and to the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def until_orphaned(
    parent: int, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, get_parent: Callable[[], int] = os.getppid
) -> None:
    """Returns when the process `parent`, which started us, has ended: then our parent is another process."""
    while get_parent() == parent:
        await sleep(_PARENT_SECONDS)
