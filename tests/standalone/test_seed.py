"""Objects that are created at the start: their order, what is there already, and what is said of those that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.chain import Attributes, Chain
from aggserver.admission.namespace_lifecycle import NamespaceLifecycle
from aggserver.kinds.namespaces import StoredNamespaces
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.standalone import seed
from aggserver.standalone.seed import SeedError
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, definition, version, widget
from tests.fakes.server import LocalServer


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> None:
    server.run()


async def plant(server: LocalServer, *objects: Any) -> None:
    pairs = [("seed.yaml", obj) for obj in objects]
    lifecycle = NamespaceLifecycle(StoredNamespaces(server.namespaces))
    await seed.plant(pairs, server.engine.installer, server.controller.settled, Chain([lifecycle]))


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def placed(obj: dict[str, Any], name: str) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "namespace": name}}


async def test_definitions_and_namespaces_go_first(server: LocalServer, client: Client) -> None:
    await plant(server, placed(crontab(), "team"), widget(), crontab("two"), namespace("team"), CRONTABS, WIDGETS)
    assert (await client.get(f"{CRONTABS_PATH.replace('default', 'team')}/one")).status == 200
    assert (await client.get(f"{CRONTABS_PATH}/two")).status == 200
    assert (await client.get(f"{WIDGETS_PATH}/one")).status == 200


async def test_what_is_there_is_brought_up_to_date(server: LocalServer, client: Client) -> None:
    objects = (CRONTABS, namespace("team"), crontab(image="a"))
    await plant(server, *objects)
    first = (await client.get(f"{CRONTABS_PATH}/one")).json()
    await plant(server, *objects)
    assert (await client.get(f"{CRONTABS_PATH}/one")).json() == first
    await client.merge(f"{CRONTABS_PATH}/one/status", {"status": {"replicas": 3}})
    await plant(server, CRONTABS, crontab(image="b"))
    changed = (await client.get(f"{CRONTABS_PATH}/one")).json()
    assert (changed["spec"]["image"], changed["metadata"]["uid"]) == ("b", first["metadata"]["uid"])
    assert changed["status"] == {"replicas": 3}


class RefusesAll:
    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        raise errors.internal_error("failed calling webhook")


async def test_no_webhook_is_asked() -> None:
    server = LocalServer(validating_plugins=[RefusesAll()])
    await server.start()
    server.run()
    for _ in range(2):
        await plant(server, CRONTABS, crontab())
    client = server.client()
    assert (await client.get(f"{CRONTABS_PATH}/one")).status == 200
    assert (await client.merge(f"{CRONTABS_PATH}/one", {"spec": {"image": "c"}})).status == 500
    await server.stop()


async def test_nothing_to_plant(server: LocalServer) -> None:
    await plant(server)


REFUSED: dict[str, tuple[list[Any], str]] = {
    # name: (objects, what is said)
    "a kind that nothing serves": (
        [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}],
        "seed.yaml: Pod p: this server does not store Pod of v1",
    ),
    "no apiVersion": ([{"kind": "Pod", "metadata": {}}], "seed.yaml: Pod : this server does not store Pod of None"),
    "what is not kept": (
        [{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}],
        "seed.yaml: SelfSubjectReview : this server does not store SelfSubjectReview of authentication.k8s.io/v1",
    ),
    "an object that is refused": (
        [CRONTABS, crontab("A b")],
        'seed.yaml: CronTab A b: CronTab.stable.example.com "A b" is invalid: metadata.name: Invalid value: "A b"',
    ),
    "labels of a wrong type": (
        [CRONTABS, {**crontab(), "metadata": {"name": "one", "labels": {"a": 1}}}],
        "seed.yaml: CronTab one: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
    ),
    "a namespace that is not there": (
        [CRONTABS, placed(crontab(), "team")],
        'seed.yaml: CronTab one: namespaces "team" not found',
    ),
    "a definition that is refused": (
        [{**CRONTABS, "spec": {**CRONTABS["spec"], "scope": "Some"}}],
        f"seed.yaml: CustomResourceDefinition crontabs.{GROUP}: CustomResourceDefinition.apiextensions.k8s.io",
    ),
    "a definition whose names are taken": (
        [CRONTABS, definition("tabs", "CronTab", version("v1", {}))],
        f'seed.yaml: CustomResourceDefinition tabs.{GROUP}: "CronTabList" is already in use',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(server: LocalServer, name: str) -> None:
    objects, text = REFUSED[name]
    with pytest.raises(SeedError) as refused:
        await plant(server, *objects)
    assert str(refused.value).startswith(text)
