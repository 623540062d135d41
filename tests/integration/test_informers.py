"""Real informers see the truth: client-go's and the Python client's, through ends and restarts of the server.

What their handlers are told and what their stores have at the end is held against the history that `tests/history` makes of
acknowledged writes and of its own witnesses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.informer import SharedInformer

from tests.controlplane.binaries import obtain_program
from tests.history.clients import witnesses
from tests.history.informers import InformerRecording, check_informer
from tests.history.recording import Object
from tests.history.scenarios import SCENARIOS, run
from tests.history.wire import GROUP, KINDS, Shared
from tests.integration.server import eventually

# Seconds for informers to come to the end: client-go waits for up to 30 s between attempts to reach a server that is gone.
_END_SECONDS = 60.0

Recordings = dict[str, InformerRecording]


async def at_end(shared: Shared, recordings: Recordings) -> None:
    """Waits until the handlers know what is there. If that never comes to be, the check says what they lack."""
    final = {resource: sorted(items, key=_name) for resource, items in shared.final.items()}

    def there() -> bool:
        return all(sorted(recordings[resource].known.values(), key=_name) == final[resource] for resource in KINDS)

    with contextlib.suppress(AssertionError):
        await asyncio.to_thread(eventually, there, "the informers are at the end", _END_SECONDS)


def _name(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def plain(obj: dict[str, Any]) -> Object:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


@contextlib.asynccontextmanager
async def go_informers(kubeconfig: Path, shared: Shared, recordings: Recordings, *, watch_list: bool) -> AsyncIterator[None]:
    """client-go's dynamic informers in a process of their own, over HTTP/2."""
    program = await asyncio.to_thread(obtain_program, "informer", os.environ, print)
    group, _, version = GROUP.partition("/")
    process = await asyncio.create_subprocess_exec(
        program,
        str(kubeconfig),
        *(f"{resource}.{version}.{group}" for resource in KINDS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
        env=os.environ | {"KUBE_FEATURE_WatchListClient": str(watch_list).lower()},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    reading = asyncio.create_task(_read(process.stdout, recordings))
    try:
        yield
        await at_end(shared, recordings)
        process.stdin.close()
        await reading
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read(lines: asyncio.StreamReader, recordings: Recordings) -> None:
    async for line in lines:
        said = json.loads(line)
        recording = recordings[said["resource"]]
        if said["did"] == "list":
            recording.lists += 1
        elif said["did"] == "end":
            recording.items = [plain(item) for item in said.get("items", [])]
        else:
            old = said.get("old")
            recording.told(said["did"], plain(said["object"]), old and plain(old))


@contextlib.asynccontextmanager
async def python_informers(kubeconfig: Path, shared: Shared, recordings: Recordings) -> AsyncIterator[None]:
    """Those of the package `kubernetes`, in threads of their own."""
    api = client.CustomObjectsApi(config.new_client_from_config(str(kubeconfig)))
    informers = {resource: _informer(api, recording) for resource, recording in recordings.items()}
    for informer in informers.values():
        informer.start()
    try:
        yield
        await at_end(shared, recordings)
        for resource, informer in informers.items():
            recordings[resource].items = [plain(item) for item in informer.cache.list()]
    finally:
        for informer in informers.values():
            await asyncio.to_thread(informer.stop)
        api.api_client.close()


def _informer(api: client.CustomObjectsApi, recording: InformerRecording) -> SharedInformer:
    group, _, version = GROUP.partition("/")

    def read(watch: bool = False, **query: Any) -> Any:
        """:rtype: object"""
        found = api.list_cluster_custom_object(group, version, recording.resource, watch=watch, **query)
        if watch:
            return found
        recording.lists += 1
        # As the typed APIs answer, which is what the informer reads.
        return SimpleNamespace(
            items=found["items"], metadata=SimpleNamespace(resource_version=found["metadata"]["resourceVersion"])
        )

    informer = SharedInformer(read)
    for event, what in (("ADDED", "add"), ("MODIFIED", "update"), ("DELETED", "delete")):
        informer.add_event_handler(event, lambda obj, what=what: recording.told(what, plain(obj)))
    # It tries again at once and for ever; a server that starts needs the processor more.
    informer.add_event_handler("ERROR", lambda error: threading.Event().wait(0.1))
    return informer


INFORMERS: dict[str, Callable[[Path, Shared, Recordings], contextlib.AbstractAsyncContextManager[None]]] = {
    "client-go, WatchList": lambda *to: go_informers(*to, watch_list=True),
    "client-go, list and watch": lambda *to: go_informers(*to, watch_list=False),
    "Python": python_informers,
}


RUNS = [("killed", "sqlite"), ("killed in compaction", "sqlite"), ("killed in compaction", "etcd"), ("etcd killed", "etcd")]


@pytest.mark.parametrize(("name", "store"), RUNS)
def test_informers_see_the_truth(name: str, store: str, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 20)
    recordings = {kind: {resource: InformerRecording(kind, resource) for resource in KINDS} for kind in INFORMERS}

    @contextlib.asynccontextmanager
    async def beside(kubeconfig: Path, shared: Shared) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as informers:
            for kind, run_informers in INFORMERS.items():
                await informers.enter_async_context(run_informers(kubeconfig, shared, recordings[kind]))
            yield

    verdict = asyncio.run(run(SCENARIOS[name], store, seed, tmp_path, witnesses, beside))
    assert not verdict.faults, f"{verdict}\nseed {seed}"
    for recording in (recording for of_kind in recordings.values() for recording in of_kind.values()):
        faults = check_informer(verdict.truth, recording)
        assert not faults, "\n".join([f"{len(faults)} faults, seed {seed}; the first:", *faults[:5]])
        assert recording.entries
