"""Signals for the command that a server was started for. tests/test_dev.py has what users see of it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from aggserver.app.processes import run_command

# Says with its exit status which signal came.
TOLD = """
import os, signal
signal.signal(signal.SIGUSR1, lambda number, _: os._exit(number + 40))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
signal.pause()
"""


async def test_a_signal_that_comes_while_the_command_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = asyncio.create_subprocess_exec
    stopped: list[str] = []
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stopped.append, "the server")

    async def start_slowly(*arguments: Any, **options: Any) -> Any:
        # Until it has its handler, the command has the signal blocked, which it inherits.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        process = await start(*arguments, **options)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        os.kill(os.getpid(), signal.SIGUSR1)
        handled = asyncio.Event()
        asyncio.get_running_loop().call_soon(handled.set)
        await handled.wait()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start_slowly)
    try:
        assert await run_command([sys.executable, "-c", TOLD], {}) == signal.SIGUSR1 + 40
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1)
    assert stopped == []
