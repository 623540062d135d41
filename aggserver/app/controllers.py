"""The controllers of a server without a cluster: the tasks of those that `--controllers` enables.

They are the part of kube-controller-manager without which unwanted objects would stay, or expected ones be missing. No request
needs them. They start after the server's first line was printed, so that nobody who waits for that line waits for their modules
to be imported.
Source of the names: k8s.io/kubernetes cmd/kube-controller-manager/names, v1.36.3.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from aggserver.app.engine import Engine
from aggserver.app.tasks import Task
from aggserver.options import Options, is_controller_enabled
from aggserver.registry.store import Store
from aggserver.storage.interface import Storage

__all__ = ["controllers"]

_Run = Callable[[], Coroutine[Any, Any, None]]


def controllers(
    options: Options,
    engine: Engine,
    storage: Storage,
    namespaces: Store,
    ca_bundle: Callable[[], bytes],
    ready: asyncio.Event,
    rare: Mapping[str, _Run],
) -> list[Task]:
    """The tasks of the enabled controllers.

    namespaces: their store. ca_bundle: returns the CAs by which clients verify the server, as PEM. ready: set once the first line
    was printed. rare: further controllers by their names.
    """

    def namespace() -> _Run:
        from aggserver.controllers.namespaces.controller import NamespaceController

        return NamespaceController(namespaces, engine.installer, storage, time.time).run

    def garbage_collector() -> _Run:
        from aggserver.controllers.garbage.collector import GarbageCollector

        return GarbageCollector(engine.installer, storage, time.time).run

    def service_accounts() -> _Run:
        from aggserver.controllers.namespaces.objects import NamespaceObjects, default_service_account

        return NamespaceObjects(default_service_account(), namespaces, engine.installer, storage).run

    def root_ca_publisher() -> _Run:
        from aggserver.controllers.namespaces.objects import NamespaceObjects, root_ca

        return NamespaceObjects(root_ca(ca_bundle().decode()), namespaces, engine.installer, storage).run

    makers: dict[str, Callable[[], _Run]] = {
        "namespace-controller": namespace,
        "garbage-collector-controller": garbage_collector,
        **{name: functools.partial(lambda run: run, run) for name, run in rare.items()},
    }
    if options.kinds == "all":
        makers["serviceaccount-controller"] = service_accounts
        makers["root-ca-certificate-publisher-controller"] = root_ca_publisher

    def workloads() -> _Run:
        from aggserver.controllers.pods.runner import PodRunner
        from aggserver.controllers.workloads.controller import WorkloadController

        if options.pods == "pending":
            return WorkloadController(engine.installer, storage, time.time).run
        runner = PodRunner(engine.installer, storage, time.time, options.job_seconds)
        controller = WorkloadController(engine.installer, storage, time.time, runner.sync)

        async def run() -> None:
            await runner.make_node()
            await controller.run()

        return run

    def started(make: Callable[[], _Run]) -> _Run:
        make = functools.cache(make)  # make the controller once, also if its task is restarted

        async def run() -> None:
            await ready.wait()
            await make()()

        return run

    tasks = [(name, started(make)) for name, make in makers.items() if is_controller_enabled(name, options.controllers)]
    return [*tasks, ("controllers of workloads", started(workloads))] if options.pods != "keep" else tasks
