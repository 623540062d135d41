"""`python -m benchmarks.resources`: what functions in Python cost: hooks for each create, and a virtual list beside a stored one.

One process, no socket: whole servers of the tests, with all their filters and a storage in memory, so that the share of a hook is
larger than beside a disk. The servers take turns. Rates are per second of CPU time, of all threads, which depends less than the
time on what else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from aggserver import App, FieldError, Metadata, Request
from tests.fakes.asgi import Client
from tests.resources.stored_apps import Site, serving, site

ROUNDS, COUNT, CLIENTS = 5, 400, 16
LISTED = 10_000
# The aims: of creates with hooks, and of a virtual list after the first, beside those without and of stored objects.
HOOKED, VIRTUAL = 0.85, 0.5


@dataclass
class Row:
    metadata: Metadata
    title: str
    state: str = "open"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resources", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=COUNT, help="creates of each round")
    options = parser.parse_args(arguments)
    asyncio.run(
        _compare("creates", options.count, {"without hooks": _without, "async hooks": _async, "plain hooks": _plain}, HOOKED)
    )
    asyncio.run(_lists())
    return 0


# --- creates ---


def _without() -> App[None]:
    app: App[None] = App()
    app.stored("paas.example.com/v1", Site)
    return app


def _async() -> App[None]:
    app: App[None] = App()
    sites = app.stored("paas.example.com/v1", Site)

    @sites.default
    async def fill(request: Request[None], new: Site, old: Site | None) -> None:
        new.metadata.labels["owner"] = request.user.name

    @sites.validate
    async def check(request: Request[None], new: Site, old: Site | None) -> list[FieldError]:
        return [FieldError(".spec.image", "must have a fixed tag")] if new.spec.image.endswith(":latest") else []

    return app


def _plain() -> App[None]:
    app: App[None] = App()
    sites = app.stored("paas.example.com/v1", Site)

    @sites.default
    def fill(request: Request[None], new: Site, old: Site | None) -> None:
        new.metadata.labels["owner"] = request.user.name

    @sites.validate
    def check(request: Request[None], new: Site, old: Site | None) -> Iterable[FieldError]:
        if new.spec.image.endswith(":latest"):
            yield FieldError(".spec.image", "must have a fixed tag")

    return app


async def _compare(what: str, count: int, apps: dict[str, Callable[[], App[None]]], aim: float) -> None:
    rates: dict[str, list[float]] = {name: [] for name in apps}
    async with AsyncExitStack() as stack:
        clients = {name: (await stack.enter_async_context(serving(make()))).admin for name, make in apps.items()}
        for client in clients.values():
            await _creates(client, "warm", CLIENTS)
        for turn in range(ROUNDS):
            for name, client in clients.items():
                rates[name].append(await _rate(count, lambda client=client, turn=turn: _creates(client, f"t{turn}", count)))
    _report(what, rates, aim)


async def _creates(client: Client, prefix: str, count: int) -> None:
    async def some(number: int) -> None:
        for each in range(number, count, CLIENTS):
            path = "/apis/paas.example.com/v1/namespaces/default/sites"
            answer = await client.post(path, site(f"{prefix}-{each}", replicas=2, labels={"app": "web"}))
            assert answer.status == 201, answer.body

    await asyncio.gather(*(some(number) for number in range(CLIENTS)))


# --- lists ---


async def _lists() -> None:
    app: App[None] = App()
    app.stored("kept.example.com/v1", Row)
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "state": {"type": "string"}}}
    rows: Any = app.virtual("shown.example.com/v1", kind="Row", schema=schema, poll=3600)

    @rows.list
    async def listed(request: Any) -> list[dict[str, Any]]:
        return [
            {"metadata": {"name": f"r{each}", "namespace": "default"}, "title": f"row {each}", "state": "open"}
            for each in range(LISTED)
        ]

    paths = {"stored": "/apis/kept.example.com/v1/rows", "virtual, polled": "/apis/shown.example.com/v1/rows"}
    rates: dict[str, list[float]] = {name: [] for name in paths}

    async def pause(slept: list[float], seconds: float) -> None:
        await asyncio.Event().wait()

    async with serving(app, sleep=pause) as running:
        client = running.admin
        head = {"apiVersion": "kept.example.com/v1", "kind": "Row", "state": "open"}
        for each in range(LISTED):
            given = {**head, "metadata": {"name": f"r{each}"}, "title": f"row {each}"}
            await client.post("/apis/kept.example.com/v1/namespaces/default/rows", given)
        for path in paths.values():
            answer = await client.get(path)
            assert len(answer.json()["items"]) == LISTED, answer.body[:300]
        for _ in range(ROUNDS):
            for name, path in paths.items():
                rates[name].append(await _rate(1, lambda path=path: client.get(path)))
    _report(f"lists of {LISTED:,}", rates, VIRTUAL)


# --- figures ---


async def _rate(count: int, work: Callable[[], Awaitable[object]]) -> float:
    began = time.process_time()
    await work()
    return count / (time.process_time() - began)


def _report(what: str, rates: dict[str, list[float]], aim: float) -> None:
    first, *_ = (statistics.median(each) for each in rates.values())
    for name, each in rates.items():
        rate = statistics.median(each)
        print(f"{what:16} {name:16} {rate:8.1f}/s {rate / first:6.2f}  aim {aim}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
