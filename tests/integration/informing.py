"""Real informers beside a server, with a recording of each: client-go's and the Python client's.

What their handlers are told and what their stores have at the end is held against the history that `tests/history` makes of
acknowledged writes and of its own witnesses.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubernetes import client, config
from kubernetes.informer import SharedInformer

from tests.controlplane.binaries import obtain_program
from tests.history.informers import InformerRecording
from tests.history.recording import Object
from tests.history.wire import GROUP, KINDS, Shared
from tests.integration.server import eventually

__all__ = ["Recordings", "go_informers", "python_informers"]

Recordings = dict[str, InformerRecording]


async def at_end(shared: Shared, recordings: Recordings) -> None:
    """Waits until the handlers know what is there. If that never comes to be, the check says what they lack."""
    final = {resource: sorted(items, key=_name) for resource, items in shared.final.items()}

    def there() -> bool:
        return all(sorted(recordings[resource].known.values(), key=_name) == final[resource] for resource in KINDS)

    with contextlib.suppress(AssertionError):
        await asyncio.to_thread(eventually, there, "the informers are at the end")


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
