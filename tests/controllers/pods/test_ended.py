"""Pods whose deletion was begun, and not finished, are removed at the start."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.pods.ended import remove_ended_pods
from aggserver.informers.informer import ALL
from aggserver.kinds.served import Kinds
from aggserver.meta import codec
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.storage import keys
from tests.fakes.server import ADMIN, LocalServer

CONTEXT = Context(ADMIN, "default")
WRITE = WriteOptions(field_manager="test")
ENDED = {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 0}
# Metadata of a Pod -> whether it stays.
PODS: dict[str, tuple[dict[str, Any], bool]] = {
    "ended": (ENDED, False),
    "has-time": ({**ENDED, "deletionGracePeriodSeconds": 30}, True),
    "kept": ({**ENDED, "finalizers": ["example.com/a"]}, True),
    "not-deleted": ({"annotations": {"a": '"deletionGracePeriodSeconds":0'}}, True),
    "alive": ({}, True),
}


@pytest.mark.parametrize("page", [1, 500])
async def test_what_stays(server: LocalServer, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.controllers.pods.ended._PAGE", page)
    for name, (metadata, _) in PODS.items():
        spec = {"containers": [{"name": "c", "image": "i"}]}
        whole = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", **metadata}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": whole, "spec": spec}
        await server.storage.create(f"{keys.resource_prefix('', 'pods')}default/{name}", codec.encode_json(pod))
    pods = Kinds(server.environment, server.engine.admission).store("", "pods")
    await remove_ended_pods(server.storage, pods)
    left = {keys.split(item.key).name for item in (await pods.list(CONTEXT, ALL)).items}
    assert left == {name for name, (_, stays) in PODS.items() if stays}


async def test_a_killed_deletion(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Kinds(server.environment, server.engine.admission).store("", "pods")
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pods.strategy.conform(pod)
    await pods.create(WriteRequest(CONTEXT, WRITE), pod)

    async def killed(key: str, revision: int, guard: object = None) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(server.storage, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            await pods.delete(CONTEXT, "p", DeleteOptions(grace_period_seconds=0))
    assert "deletionTimestamp" in (await pods.get(CONTEXT, "p")).decoded()["metadata"]
    await remove_ended_pods(server.storage, pods)
    assert not (await pods.list(CONTEXT, ALL)).items
