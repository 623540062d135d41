"""`python -m benchmarks.definitions`: time, CPU and memory of creating many definitions.

16 clients create the definitions on each server, after a fresh start. Measured are the time until all are Established, the memory
they add and the CPU they take, and then the first response of /openapi/v2, which includes all of them. It is separate from the
workloads of benchmarks/run.py, because so many definitions would affect those.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from benchmarks.client import Access, LoadError
from benchmarks.report import BASELINE, MEASURED
from benchmarks.run import DEFINITION, RESULTS
from benchmarks.servers import Aggserver, KubeApiserver, Server
from tests.controlplane.binaries import obtain

COUNT = 500
CLIENTS = 16
GROUPS = 25
TIMEOUT = 300.0
LOOK_INTERVAL = 0.05
PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.definitions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many definitions (default {COUNT})")
    parser.add_argument("--only", choices=(BASELINE, MEASURED), help="only this server")
    parser.add_argument("--profile", type=Path, metavar="FILE", help=f"run {MEASURED} under cProfile, which writes FILE")
    options = parser.parse_args(arguments)
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="definitions-", dir=RESULTS) as scratch:
        for server in _servers(Path(scratch), options):
            print(json.dumps(_measure(server, options.count)), flush=True)
    return 0


def _servers(folder: Path, options: argparse.Namespace) -> Iterator[Server]:
    """The servers, each started when it is requested, and stopped before the next."""
    if options.only != MEASURED:
        with KubeApiserver(obtain(os.environ, lambda line: print(line, file=sys.stderr)), folder / BASELINE) as baseline:
            yield baseline
    if options.only != BASELINE:
        with Aggserver(folder / MEASURED, profile=options.profile) as measured:
            yield measured


def _measure(server: Server, count: int) -> dict[str, Any]:
    definitions = list(_definitions(count))
    before = _usage(server)
    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda share: _create(server.access, share), [definitions[start::CLIENTS] for start in range(CLIENTS)]))
    created = time.monotonic() - began
    with _connection(server.access) as connection:
        while _established(connection) < count:
            if time.monotonic() - began > TIMEOUT:
                raise LoadError(f"{server.name}: not all definitions are Established after {TIMEOUT:.0f} s")
            time.sleep(LOOK_INTERVAL)
        established = time.monotonic() - began
        after = _usage(server)
        asked = time.monotonic()
        document = _ask(connection, "GET", "/openapi/v2")
        answered = time.monotonic() - asked
    return {
        "server": server.name,
        "definitions": count,
        "created_seconds": round(created, 2),
        "established_seconds": round(established, 2),
        "cpu_seconds": round(after[0] - before[0], 2),
        "added_megabytes": round((after[1] - before[1]) / 1e6),
        "openapi_v2_seconds": round(answered, 2),
        "openapi_v2_megabytes": round(len(document) / 1e6, 1),
        "cpu_seconds_with_openapi": round(_usage(server)[0] - before[0], 2),
        "added_megabytes_with_openapi": round((_usage(server)[1] - before[1]) / 1e6),
    }


def _definitions(count: int) -> Iterator[bytes]:
    """Copies of the definition of the benchmarks, in GROUPS groups."""
    text = json.dumps(yaml.safe_load(DEFINITION.read_text()))
    for index in range(count):
        crd = json.loads(text)
        group, names = f"group{index % GROUPS}.bench.aggserver.dev", crd["spec"]["names"]
        names["plural"], names["singular"] = f"{names['plural']}{index}", f"{names['singular']}{index}"
        names["kind"], names["listKind"] = f"{names['kind']}{index}", f"{names['kind']}{index}List"
        names.pop("shortNames", None)
        crd["spec"]["group"] = group
        crd["metadata"]["name"] = f"{names['plural']}.{group}"
        yield json.dumps(crd).encode()


def _create(access: Access, definitions: Sequence[bytes]) -> None:
    with _connection(access) as connection:
        for body in definitions:
            _ask(connection, "POST", PATH, body)


def _established(connection: http.client.HTTPConnection) -> int:
    items = json.loads(_ask(connection, "GET", PATH))["items"]
    conditions = [{each["type"]: each["status"] for each in item["status"].get("conditions") or ()} for item in items]
    return sum(each.get("Established") == "True" for each in conditions)


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None) -> bytes:
    connection.request(method, path, body, {"Content-Type": "application/json", "Accept": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise LoadError(f"{method} {path}: {answer.status} {content[:300]!r}")
    return content


@contextlib.contextmanager
def _connection(access: Access) -> Iterator[http.client.HTTPConnection]:
    context = ssl.create_default_context(cafile=str(access.authority))
    context.load_cert_chain(access.certificate, access.key)
    address = urlsplit(access.server)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=context, timeout=TIMEOUT)
    try:
        yield connection
    finally:
        connection.close()


def _usage(server: Server) -> tuple[float, int]:
    """(CPU seconds, resident bytes) of all of a server's programs."""
    found = server.usage().values()
    return sum(each.cpu_seconds for each in found), sum(each.resident_bytes for each in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
