"""Metrics of storage and caches, and those of the process, as they are read from what counts them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aggserver.cluster.figures import ClientFigures
from aggserver.informers.work_queue import WorkQueue
from aggserver.monitoring.catalog import MetricsCatalog
from aggserver.monitoring.process import cluster_metrics, process_metrics, tls_metrics
from aggserver.monitoring.routes import version_info
from aggserver.monitoring.stores import StoreMetrics
from aggserver.registry.environment import Environment
from aggserver.storage.figures import RequestFigures, StorageFigures
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage


def environment(storage) -> Environment:
    return Environment(storage=storage, clock=float, monotonic=float, new_uid=str, random=int)


def series(catalog: MetricsCatalog) -> dict[str, float]:
    lines = [line for line in catalog.exposition().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def test_commits_of_a_sqlite_store(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "store.db")
    catalog = MetricsCatalog()
    StoreMetrics(catalog, environment(storage))
    assert "aggserver_storage_revision" not in series(catalog)  # it is not open
    await storage.start()
    try:
        await asyncio.gather(*(storage.create(f"/g/r/n/{name}", b"x") for name in "abc"))
        await storage.update("/g/r/n/a", b"y", 2)
        await storage.compact(await storage.revision())
        found = series(catalog)
    finally:
        await storage.close()
    assert found["aggserver_storage_commit_writes_sum"] == 4
    assert found["aggserver_storage_commit_writes_count"] == found["aggserver_storage_commit_duration_seconds_count"]
    assert found["aggserver_storage_revision"] == found["aggserver_storage_compacted_revision"] == 5
    assert found["aggserver_storage_compaction_steps_total"] == 1
    assert found["aggserver_storage_commit_failures_total"] == 0
    assert found['apiserver_storage_size_bytes{storage_cluster_id="sqlite"}'] > 4096
    assert found["aggserver_storage_log_bytes"] > 0


async def test_caches_by_resource() -> None:
    storage = MemoryStorage()
    await storage.start()
    catalog, made = MetricsCatalog(), environment(storage)
    StoreMetrics(catalog, made)
    cacher, core, unread = made.cacher("g", "things"), made.cacher("", "pods"), made.cacher("g", "others")
    value = b'{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a","namespace":"n"}}'
    await storage.create("/g/things/n/a", value)
    await cacher.ready()
    await core.ready()
    watch = await cacher.watch("/g/things/")
    revision = await storage.create("/g/things/n/b", value)
    changed = cacher.get("/g/things/n/b")
    assert changed is not None
    await storage.update("/g/things/n/b", value, revision)
    found = series(catalog)
    things = '{group="g",resource="things"}'
    assert found[f"apiserver_resource_objects{things}"] == found['apiserver_storage_objects{resource="things.g"}'] == 2
    assert found['apiserver_storage_objects{resource="pods"}'] == 0
    assert found[f"apiserver_watch_cache_resource_version{things}"] == cacher.revision
    assert found[f"apiserver_watch_cache_events_received_total{things}"] == 2
    assert found[f"apiserver_watch_cache_initializations_total{things}"] == found[f"apiserver_init_events_total{things}"] == 1
    assert found[f"aggserver_watch_cache_watches{things}"] == 1
    assert found[f"aggserver_watch_cache_window_changes{things}"] == 2
    assert found[f"aggserver_watch_cache_window_bytes{things}"] == changed.size
    assert not any("others" in name for name in found)
    watch.close()
    cacher.close()
    assert not any(things in name for name in series(catalog))
    del unread


class _Failed(Exception):
    pass


class _Answer(Exception):
    pass


def test_requests_to_etcd() -> None:
    times = iter((0.0, 0.03, 0.0, 7.0, 0.0, 0.0))
    figures = RequestFigures(times.__next__, (_Answer,))
    with figures.timed("get", "/g/things/n/a"):
        pass
    with pytest.raises(_Failed), figures.timed("get", "/g/things/n/a"):
        raise _Failed
    with pytest.raises(_Answer), figures.timed("list", "/core/pods/"):
        raise _Answer

    class Remote(MemoryStorage):
        def figures(self) -> StorageFigures:
            return StorageFigures(requests=figures)

    catalog = MetricsCatalog()
    StoreMetrics(catalog, environment(Remote()))
    found = series(catalog)
    things = 'group="g",operation="get",resource="things"'
    assert found[f"etcd_requests_total{{{things}}}"] == 2
    assert found[f"etcd_request_errors_total{{{things}}}"] == 1
    assert found['etcd_request_duration_seconds_bucket{group="g",le="0.05",operation="get",resource="things"}'] == 1
    assert found['etcd_requests_total{group="",operation="list",resource="pods"}'] == 1
    assert 'etcd_request_errors_total{group="",operation="list",resource="pods"}' not in found


async def test_work_queues() -> None:
    times = {"now": 100.0}
    catalog = MetricsCatalog()
    process_metrics(catalog, version_info("1.0"), "1.0", lambda: times["now"])
    handling = asyncio.Event()

    async def handle(key: str) -> float | None:
        if key == "fails":
            raise ValueError
        handling.set()
        await asyncio.Event().wait()
        return None

    queue: WorkQueue[str] = WorkQueue("things", handle, lambda seconds, callback: None)
    for key in ("fails", "long", "waiting", "waiting"):
        queue.add(key)
    running = asyncio.create_task(queue.run())
    await handling.wait()
    queue.figures.begun["long"] = 60.0
    found = series(catalog)
    things = '{name="things"}'
    assert found[f"workqueue_adds_total{things}"] == 3
    assert found[f"workqueue_retries_total{things}"] == 1
    assert found[f"workqueue_depth{things}"] == 1
    assert found[f"workqueue_queue_duration_seconds_count{things}"] == 2
    assert found[f"workqueue_work_duration_seconds_count{things}"] == 1
    assert found[f"workqueue_unfinished_work_seconds{things}"] == 40.0
    assert found[f"workqueue_longest_running_processor_seconds{things}"] == 40.0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert f"workqueue_depth{things}" not in series(catalog)
    assert 'git_version="v1.36' in next(name for name in found if name.startswith("kubernetes_build_info"))


def test_requests_to_the_cluster() -> None:
    figures = ClientFigures()
    figures.answered("GET", "/api/v1/namespaces", "200", 0.02)
    figures.answered("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "201", 0.6)
    figures.answered("POST", "/apis/authentication.k8s.io/v1/tokenreviews", "<error>", 6.0)
    catalog = MetricsCatalog()
    cluster_metrics(catalog, lambda: [("10.0.0.1:443", figures)])
    tls_metrics(catalog, lambda: 3)
    found = series(catalog)
    assert found['rest_client_requests_total{code="200",host="10.0.0.1:443",method="GET"}'] == 1
    assert found['rest_client_requests_total{code="<error>",host="10.0.0.1:443",method="POST"}'] == 1
    assert found['rest_client_request_duration_seconds_bucket{host="10.0.0.1:443",le="0.025",verb="GET"}'] == 1
    assert found['apiserver_delegated_authz_request_total{code="201"}'] == 1
    assert found['apiserver_delegated_authn_request_duration_seconds_bucket{code="<error>",le="5.0"}'] == 0
    assert found["apiserver_tls_handshake_errors_total"] == 3
