"""The command line: parses options, sets up logging and signals, runs a command, and reports errors in one line.

aggserver dev         a server without a cluster
aggserver dev user    a client certificate and a kubeconfig for a user of that server
aggserver serve       a server behind a cluster's aggregation layer
aggserver cel         checks and runs CEL expressions, and the rules of definitions
aggserver convert     converts objects between the versions of a definition
aggserver new         writes a project with resources in Python
aggserver manifests   prints what a cluster needs to run it
aggserver schema      prints the schema of a Python class
aggserver envtest     writes programs that replace envtest's
aggserver adopt       plan, status, release, cleanup: for the definitions that `aggserver serve` adopts
aggserver doctor      finds out why the APIServices of a cluster are unavailable, and what mends that
aggserver storage     check, backup, restore, migrate, compact: for the storage of either server
aggserver completion  prints a script by which a shell completes all these

The kube-apiserver that `aggserver envtest` writes runs `aggserver kube-apiserver` with the flags of kube-apiserver. This runs
`aggserver dev` with the corresponding options.

Each command imports what it needs when it runs: `aggserver --help` loads no library but argparse.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aggserver
from aggserver.errors import AggserverError
from aggserver.options import ADOPT, STORAGE, Options, parse

if TYPE_CHECKING:
    import socket

    from aggserver.app.python_apps import LoadedApps
    from aggserver.server.serving import Server

__all__ = ["main"]

# The exit status in shells of a command that Ctrl-C has ended.
_INTERRUPTED = 130

# The same of one that wrote to a pipe that nobody read.
_UNREAD = 141

# The command that kube-apiserver's stand-in runs.
_STAND_IN = "kube-apiserver"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0 for success or a requested stop, 1 for a failure or a negative check, 2 for wrong
    arguments.

    For `aggserver dev -- COMMAND` it is the command's.
    """
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # Who reads the output has enough, as `| head` has. What is not written yet must not fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _UNREAD
    except Exception as error:
        cause = _only(error)
        if not isinstance(cause, AggserverError):
            raise
        print(f"aggserver: {cause}", file=sys.stderr)
        return cause.exit_status


def _run(argv: Sequence[str]) -> int:
    remark = ""
    if argv[:1] == [_STAND_IN]:
        from aggserver.commands.envtest import kube_apiserver

        argv, remark = kube_apiserver.translate(argv[1:], os.environ)
    options = parse(argv, os.environ)
    if options.command == "version":
        print(f"aggserver {aggserver.__version__}")
        return 0
    if options.command == "completion":
        from aggserver.options.completion import script

        print(script(options.shell))
        return 0
    if options.command == "cel":
        from aggserver.commands.cel import command

        return int(not command.run(options, _say))
    if options.command == "convert":
        from aggserver.commands.convert import command as convert

        return int(not convert.run(options, _say))
    if options.command == "schema":
        from aggserver.commands.schema import command as schema

        schema.run(options, _say)
        return 0
    if options.command == "envtest":
        from aggserver.commands.envtest import command as envtest

        envtest.run(options, aggserver.__version__, _say)
        return 0
    if options.command == "new":
        from aggserver.commands.new import command as new

        new.run(options, aggserver.__version__, _say)
        return 0
    if options.command == "manifests":
        from aggserver.app.in_process import installed
        from aggserver.app.python_apps import load
        from aggserver.commands.manifests import command as manifests

        apps = load(options.apps)
        manifests.run(
            options,
            installed(apps).everything(),
            _say,
            runs_tasks=any(app.tasks for _, app in apps),
            is_stored=any(app.has_sidecar for _, app in apps),
            needs=[need for _, app in apps for need in app.needed],
        )
        return 0
    if options.command in ADOPT:
        import asyncio

        from aggserver.app.storage import open_host_etcd
        from aggserver.commands.adopt import command as adopt

        return int(not asyncio.run(adopt.run(options, aggserver.__version__, _say, open_host_etcd)))
    if options.command == "doctor":
        import asyncio

        from aggserver.commands.doctor import command as doctor

        return asyncio.run(doctor.run(options, aggserver.__version__, os.environ, _say, _progress))
    from aggserver.app.logs import log_to

    modules = dict(options.vmodule)
    log_to(sys.stderr, options.log_level, os.environ, form=options.logging_format, verbosity=options.verbosity, modules=modules)
    if options.command == "dev user":
        import asyncio

        from aggserver.app.user import make_user

        _say(asyncio.run(make_user(options)))
        return 0
    if remark:
        import logging

        logging.getLogger(__name__).info("aggserver %s %s", aggserver.__version__, remark)
    if options.command in STORAGE:
        return _storage(options)
    return _logged(options) if options.command == "serve" else _serve(options)


def _logged(options: Options) -> int:
    """Run `aggserver serve`. Nobody watches it, so the error that ends it is a line of its log like the others, with a time."""
    try:
        return _serve(options)
    except Exception as error:
        import logging

        cause = _only(error)
        if not isinstance(cause, AggserverError):
            raise
        logging.getLogger(__name__).critical("%s", cause)
        return cause.exit_status


def _serve(options: Options) -> int:
    # Most of a start is imports, whose objects live for ever. Searching these for garbage took a seventh of a start, so the
    # collector is off until they are frozen.
    gc.disable()
    from aggserver.app.logs import log_unhandled

    log_unhandled()

    if options.reload:
        # `standalone`, too, so that a new process has only the modules of the App to import.
        from aggserver.app import reloading, standalone  # noqa: F401

        return reloading.run(options, _run_dev, _say)
    apps: LoadedApps = ()
    if options.apps:
        from aggserver.app.python_apps import load

        apps = load(options.apps)

    # Only the mode's own libraries: `dev` starts faster without those that talk to a cluster.
    if options.command == "dev":
        return _run_dev(options, apps, _say, None)
    from aggserver.app import aggregated

    return _run_server(partial(aggregated.run, options, apps, _stop_on_signals))


def _run_dev(options: Options, apps: LoadedApps, say: Callable[[str], None], listener: socket.socket | None) -> int:
    from aggserver.app import standalone

    return _run_server(partial(standalone.run, options, apps, say, _stop_on_signals, listener))


def _run_server(serving: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Runs a server on a new event loop, when all of its modules and the Apps are imported."""
    import asyncio

    from aggserver.server.serving import loop_factory

    gc.freeze()
    gc.enable()
    # A write allocates and frees some thousand objects, hardly any of them in cycles. With the default threshold of 700 the
    # collector ran several times for each, which took a tenth of an apply.
    gc.set_threshold(10_000, 20, 20)
    # After 0.5 ms instead of 5, a storage thread gets the interpreter back from a busy event loop: 16 writers made 3,270 writes a
    # second, and 1,880 with the default.
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(serving())


def _storage(options: Options) -> int:
    from aggserver.storage import sqlite_maintenance as maintenance
    from aggserver.storage.sqlite_file import FILE_NAME
    from aggserver.storage.sqlite_repair import repair

    if options.command == "storage migrate":
        import asyncio

        from aggserver.app.migrate import migrate

        _say(asyncio.run(migrate(options)))
        return 0
    if options.storage == "etcd":
        import asyncio

        _say(asyncio.run(_check_etcd(options)))
        return 0
    path = Path(options.data) / FILE_NAME
    file = options.file or Path()
    commands = {
        "storage check": lambda: (repair if options.repair else maintenance.check)(path, _progress),
        "storage backup": lambda: maintenance.backup(path, file, _progress),
        "storage restore": lambda: maintenance.restore(path, file, _progress, options.bump_revision),
        "storage compact": lambda: maintenance.compact(path, _progress),
    }
    _say(commands[options.command]())
    return 0


async def _check_etcd(options: Options) -> str:
    from aggserver.app.storage import data_folder, open_storage
    from aggserver.app.stored_values import decode
    from aggserver.storage import etcd_maintenance as maintenance

    storage = await open_storage(options, writes=options.repair)
    try:
        if options.repair:
            return await maintenance.repair(storage, decode, _progress, data_folder(options.data))
        return await maintenance.check(storage, decode, _progress)
    finally:
        await storage.close()


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _only(error: Exception) -> Exception:
    """The only error in an exception group, or the error itself."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _say(line: str) -> None:
    print(line, flush=True)


def _stop_on_signals(server: Server) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.request_stop)
