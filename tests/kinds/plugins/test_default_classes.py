"""The class that an object gets which names none, on a server in memory."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.served import Kinds
from aggserver.registry.stored import StoredObject
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_of_many_priority_classes_only_the_default_is_decoded(
    server: LocalServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new Pod without a class asks which one it is."""
    kinds = Kinds(server.environment, server.engine.admission, plugins=frozenset({"Priority"}))
    server.engine.installer.install([("built-in kinds", kinds.served())])
    for number in range(20):
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"c{number}"}}
        assert (await client.post(CLASSES, {**made, "value": number, "globalDefault": number == 7})).status == 201
    decoded, found = StoredObject.decoded, list[str]()

    def counted(self: StoredObject) -> Any:
        found.append(self.key)
        return decoded(self)

    monkeypatch.setattr(StoredObject, "decoded", counted)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    answer = (await client.post("/api/v1/namespaces/default/pods", pod)).json()
    assert (answer["spec"]["priority"], answer["spec"]["priorityClassName"]) == (7, "c7")
    assert [key for key in found if "priorityclasses" in key] == ["/scheduling.k8s.io/priorityclasses/c7"]
    kinds.end_watches()
