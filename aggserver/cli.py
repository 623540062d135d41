"""The command line: parse, set up logging and signals, run, and say in one line what went wrong.

aggserver dev      a server of its own, without a cluster
aggserver serve    behind a cluster's aggregation layer
aggserver cel      check and run expressions, and the rules of definitions
aggserver storage  check, backup, restore, compact: for the SQLite store of either
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import aggserver
from aggserver.options import STORAGE, Options, OptionsError, parse
from aggserver.server.serving import Server, loop_factory

__all__ = ["main"]

log = logging.getLogger("aggserver")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 done, or stopped as asked; 1 could not start or go on, or found what is wrong; 2 not understood."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv, os.environ)
    except OptionsError as error:
        print(f"aggserver: {error}", file=sys.stderr)
        return 2
    if options.command == "version":
        print(f"aggserver {aggserver.__version__}")
        return 0
    if options.command == "cel":
        return _cel(options)
    _log_to_stderr(options.log_level)
    try:
        run = _storage if options.command in STORAGE else _serve
        run(options)
    except Exception as error:
        if not _is_for_people(error):
            raise
        print(f"aggserver: {error}", file=sys.stderr)
        return 1
    return 0


def _serve(options: Options) -> None:
    # Each mode brings its own libraries: standalone starts without those that talk to a cluster.
    if options.command == "dev":
        from aggserver.app.standalone import run
    else:
        from aggserver.app.aggregated import run
    # The storage's threads take the interpreter back from a busy loop this soon (5 ms else): 16 writers got 1,880 writes a second
    # at the default, 3,270 so.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run(options, _say, _stop_on_signals))


def _cel(options: Options) -> int:
    from aggserver.app import cel

    try:
        return int(not cel.run(options, _say))
    except cel.InputError as error:
        print(f"aggserver: {error}", file=sys.stderr)
        return 2


def _storage(options: Options) -> None:
    from aggserver.storage import sqlite_maintenance as maintenance
    from aggserver.storage.sqlite_file import FILE_NAME
    from aggserver.storage.sqlite_repair import repair

    if options.storage == "etcd":
        _say(asyncio.run(_check_etcd(options)))
        return
    path = Path(options.data) / FILE_NAME
    file = options.file or Path()
    commands = {
        "storage check": lambda: (repair if options.repair else maintenance.check)(path, _progress),
        "storage backup": lambda: maintenance.backup(path, file, _progress),
        "storage restore": lambda: maintenance.restore(path, file, _progress, options.bump_revision),
        "storage compact": lambda: maintenance.compact(path, _progress),
    }
    _say(commands[options.command]())


async def _check_etcd(options: Options) -> str:
    from aggserver.app.engine import data_folder, open_storage
    from aggserver.registry.stored import make_decodable
    from aggserver.storage import etcd_maintenance as maintenance

    storage = await open_storage(options)
    try:
        if options.repair:
            return await maintenance.repair(storage, make_decodable, _progress, data_folder(options.data))
        return await maintenance.check(storage, make_decodable, _progress)
    finally:
        await storage.close()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_for_people(error: Exception) -> bool:
    """Whether the text alone says what to do: what our own modules raise for it, and what the system refuses."""
    return isinstance(error, OSError) or type(error).__module__.startswith("aggserver.")


def _say(line: str) -> None:
    print(line, flush=True)


def _stop_on_signals(server: Server) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.request_stop)


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True
    )
    if level != "debug":
        # Libraries speak of every connection; what matters of it we say ourselves.
        for noisy in ("hypercorn", "asyncio"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
