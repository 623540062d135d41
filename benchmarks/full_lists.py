"""`python -m benchmarks.full_lists`: memory while several clients list all objects at once, as informers do when they begin.

What kills kube-apiserver are full lists at the same time: KEP-5116 tells of sixteen informers. Both servers have the same large
objects, and the lists come over HTTP/2, each on a connection of its own, plain and compressed, which client-go asks for. The
figure is the peak of the server's resident memory above that at rest. The aim for aggserver is 64 MB, however many lists there
are. `--write-docs` writes the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from aggserver.meta.json_types import JSONObject
from benchmarks.client import LoadError, build, call, run_load
from benchmarks.report import BASELINE, MEASURED, Section, machine, number
from benchmarks.resident import at_rest, sampled
from benchmarks.run import COLLECTION, DEFINITION, Say, conditions, define, progress, scratch_folder, server_of, show
from benchmarks.servers import REPOSITORY, Server
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["Figures", "full_lists_document", "main"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("full lists", ".full_lists")
NAMESPACE = "bench"
AIM = 64e6


@dataclass(frozen=True)
class Figures:
    """Bytes of the server at rest and more at the peak; CPU seconds and bytes of one list, 0 if the lists have `failed`."""

    server: str
    clients: int
    gzip: bool
    rest: int
    more: int
    cpu_seconds: float
    body: float
    failed: str = ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_lists", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=500, help="objects in the list (default 500)")
    parser.add_argument("--size", type=int, default=100_000, help="bytes of an object (default 100,000)")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16], help="lists at once (default 1 4 16)")
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    options = parser.parse_args(arguments)
    say = progress()
    found: list[Figures] = []
    try:
        with scratch_folder() as folder:
            binary = build(folder, say)
            for name in [options.only] if options.only else [BASELINE, MEASURED]:
                with server_of(name, folder, say) as server:
                    found += _measure(server, binary, options, say)
    except (LoadError, ProcessError, BinariesError, ToolchainError, OSError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    text = full_lists_document(found, options.objects, options.size, conditions())
    show(text, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(server: Server, binary: Path, options: argparse.Namespace, say: Say) -> list[Figures]:
    define(server.access, [NAMESPACE], _definition())
    flags: dict[str, str | int] = {"size": options.size, "namespace": NAMESPACE}
    run_load(binary, server.access, {**flags, "workload": "create", "clients": 16, "count": options.objects})
    call(server.access, "GET", f"{COLLECTION}?limit=1")
    found = []
    for gzip in (False, True):
        for clients in options.clients:
            rest, before = at_rest(server), _seconds(server)
            wanted: dict[str, str | int] = {"workload": "list-all", "clients": clients, "connections": clients, "count": clients}
            failed, body = "", 0.0
            with sampled(server) as peak:
                try:
                    result = run_load(binary, server.access, {**flags, **wanted, "gzip": "true" if gzip else "false"})
                    body = result["bytes"] / clients
                except LoadError as error:
                    server.check()
                    failed = str(error)
            spent = 0.0 if failed else (_seconds(server) - before) / clients
            found.append(Figures(server.name, clients, gzip, rest, peak[0] - rest, spent, body, failed))
            say(f"{server.name}, {clients} at once{', gzip' if gzip else ''}: {(peak[0] - rest) / 1e6:+.0f} MB {failed}")
    return found


def _definition() -> JSONObject:
    """That of the other benchmarks, without the limit of the list that makes an object large."""
    definition: JSONObject = yaml.safe_load(DEFINITION.read_text())
    for version in definition["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["env"]["maxItems"]
    return definition


def _seconds(server: Server) -> float:
    return server.usage()[server.name].cpu_seconds


def full_lists_document(found: Sequence[Figures], objects: int, size: int, made: Mapping[str, Any]) -> str:
    """The table."""
    servers = list(dict.fromkeys(each.server for each in found))
    both = " / ".join(servers)
    lines = [
        f"{machine(made)}, {objects:,} objects of {size:,} bytes, HTTP/2. "
        f"Peak of memory above that at rest; in bold what is within {AIM / 1e6:.0f} MB.",
        "",
        f"| lists at once | {' | '.join(servers)} | CPU ms of a list: {both} | MB of a list: {both} |",
        "|" + "---|" * (3 + len(servers)),
    ]
    for gzip, clients in dict.fromkeys((each.gzip, each.clients) for each in found):
        row = [each for each in found if (each.gzip, each.clients) == (gzip, clients)]
        title = f"{clients}{', gzip' if gzip else ''}"
        costs = " / ".join("n/a" if each.failed else number(1e3 * each.cpu_seconds) for each in row)
        bodies = " / ".join("n/a" if each.failed else number(each.body / 1e6) for each in row)
        lines.append(f"| {title} | {' | '.join(map(_more, row))} | {costs} | {bodies} |")
    rests = ", ".join(f"{name} {number(next(each.rest for each in found if each.server == name) / 1e6)} MB" for name in servers)
    failures = [f"- {each.server}, {each.clients} at once: not all came: {each.failed}" for each in found if each.failed]
    return "\n".join([*lines, *([""] if failures else []), *failures, "", f"At rest before the first list: {rests}."])


def _more(each: Figures) -> str:
    text = f"{number(each.more / 1e6)} MB"
    if each.failed:
        return f"{text}, and failed"
    return f"**{text}**" if each.more <= AIM and each.server == MEASURED else text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
