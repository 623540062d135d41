"""The guard at two kube-apiservers: what each refuses, how clients take it, who is exempt, and when it is known to be there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from aggserver.adoption.switch.guard import CONFIGURATIONS, Guard, GuardError, guard_name, own_name
from aggserver.adoption.switch.refusals import refusing
from aggserver.apiextensions.registration import Service
from aggserver.certificates.issuing import issue_serving, new_ca
from aggserver.cluster import Cluster
from aggserver.cluster.client import connect
from aggserver.cluster.replicas import connect_each
from aggserver.endpoints.request import AnyResponse, Handler, Request
from aggserver.options import Options
from aggserver.server.serving import Server, bind
from aggserver.server.tls import TLSConfig
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.fakes.definitions import CRONTABS, GROUP, WIDGETS, crontab, widget
from tests.fakes.server import LocalServer
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

NAMESPACE = "guarding"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:aggserver"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/crontabs"
OLDER = f"/apis/{GROUP}/v1beta1/namespaces/{NAMESPACE}/crontabs"
OTHERS = f"/apis/{GROUP}/v1/widgets"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
GUARDED = (GROUP, "crontabs")

# The rights that the guard takes, and that over the objects themselves.
OBJECTS_OF_TEST: list[dict[str, Any]] = [
    CRONTABS,
    WIDGETS,
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "aggserver", "namespace": NAMESPACE}},
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "guarding"},
        "rules": [
            {
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": ["validatingwebhookconfigurations"],
                "verbs": ["get", "create", "update", "delete"],
            },
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list"]},
            {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "guarding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "guarding"},
        "subjects": [{"kind": "ServiceAccount", "name": "aggserver", "namespace": NAMESPACE}],
    },
]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        manifest = "\n---\n".join(map(json.dumps, OBJECTS_OF_TEST))
        plane.kubectl("apply", "-f", "-", input=manifest)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", KUBECTL_LIMIT)
        for server in plane.servers:
            for path in (OBJECTS, OTHERS):
                get = ("get", "--raw", path, "--server", server)
                eventually(lambda get=get: not plane.kubectl(*get, check=False).returncode, f"{path} at {server}")  # type: ignore[misc]
        yield plane


@pytest.fixture(scope="module")
def account(plane: ControlPlane) -> Path:
    """The kubeconfig of the server's account."""
    token = plane.kubectl("create", "token", "aggserver", "-n", NAMESPACE).stdout.strip()
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = plane.folder / "account.kubeconfig"
    path.write_text(json.dumps(config))
    return path


class Asked:
    """Counts the reviews that this server was sent."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, next_handler: Handler) -> Handler:
        async def handler(request: Request) -> AnyResponse:
            self.count += 1
            return await next_handler(request)

        return handler


@dataclass(frozen=True)
class Setup:
    """cluster: as the server's account; clusters: the same at each kube-apiserver. admins: administrators there."""

    plane: ControlPlane
    service: Service
    ca_bundle: Callable[[], bytes]
    guard: Guard
    cluster: Cluster
    clusters: Sequence[Cluster]
    admins: Sequence[Client]
    asked: Asked

    async def kubectl(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """This process answers the webhooks meanwhile."""
        return await asyncio.to_thread(self.plane.kubectl, *arguments, "-n", NAMESPACE, **more)

    async def each(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> list[Any]:
        """What each kube-apiserver answers an administrator: (code, header Retry-After, Status or object)."""
        found = []
        for admin in self.admins:
            raw = None if body is None else json.dumps(body).encode()
            answer = await asyncio.to_thread(admin.request, method, path, {"content-type": content_type}, raw)
            found.append((answer.status, answer.header("retry-after"), json.loads(answer.body)))
        return found


@pytest.fixture
async def setup(plane: ControlPlane, account: Path, server: LocalServer, tmp_path: Path) -> AsyncIterator[Setup]:
    """A server with the guard's filter in this process, behind a Service; no guard, and no objects."""
    now, asked = time.time(), Asked()
    ca = new_ca("guarding", now)
    pair = issue_serving(ca, [f"aggserver.{NAMESPACE}.svc"], [], now)
    tls = TLSConfig()
    tls.update(cert_pem=pair.cert_pem, key_pem=pair.key_pem)
    app = server.engine.asgi(
        cast(Any, None), server.rules, Options(command="serve"), before_authentication={"asked": asked, "guard": refusing()}
    )
    ours = Server(app, [bind("127.0.0.1", 0)], tls, on_stopping=lambda: None, on_shutdown=lambda: None)
    # Another Service each time: kube-apiserver keeps connections to webhooks.
    service = Service(NAMESPACE, "aggserver", ours.port)
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "aggserver", "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    await asyncio.to_thread(plane.kubectl, "apply", "-f", "-", input=json.dumps(manifest))
    async with AsyncExitStack() as stack:
        serving = asyncio.create_task(ours.run())
        await ours.listening.wait()
        cluster = await connect(str(account), "guarding")
        stack.push_async_callback(cluster.close)
        replicas = connect_each(cluster, str(account), plane.servers, "guarding")
        stack.push_async_callback(replicas.close)
        ca_bundle = partial(bytes, ca.cert_pem)
        guard = Guard(cluster, service, ca_bundle, limit_seconds=60.0)
        clusters = await replicas.clusters()
        admins = []
        for number, url in enumerate(plane.servers):
            config = json.loads(plane.kubeconfig.read_text())
            config["clusters"][0]["cluster"]["server"] = url
            path = tmp_path / f"admin-{number}"
            path.write_text(json.dumps(config))
            admins.append(stack.enter_context(Client(path)))
        yield Setup(plane, service, ca_bundle, guard, cluster, clusters, admins, asked)
        await guard.set([])
        await guard.seen(clusters)
        ours.request_stop()
        await serving
    await asyncio.to_thread(plane.kubectl, "delete", "crontabs,widgets", "--all", "-n", NAMESPACE)


def named(name: str) -> dict[str, Any]:
    made = crontab(name)
    made["metadata"]["namespace"] = NAMESPACE
    return made


MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"

# (method, path, body, content type) of what an administrator may not do while the guard is there. `one` is an object.
WRITES: dict[str, tuple[str, str, Any, str]] = {
    "create": ("POST", OBJECTS, named("two"), "application/json"),
    "create in another version": ("POST", OLDER, {**named("two"), "apiVersion": f"{GROUP}/v1beta1"}, "application/json"),
    "dry run": ("POST", f"{OBJECTS}?dryRun=All", named("two"), "application/json"),
    "merge patch": ("PATCH", f"{OBJECTS}/one", {"spec": {"image": "a"}}, MERGE),
    "apply": ("PATCH", f"{OBJECTS}/one?fieldManager=a&force=true", named("one"), APPLY),
    "apply of a new one": ("PATCH", f"{OBJECTS}/two?fieldManager=a", named("two"), APPLY),
    "status": ("PATCH", f"{OBJECTS}/one/status", {"status": {"note": "a"}}, MERGE),
    "scale": ("PATCH", f"{OBJECTS}/one/scale", {"spec": {"replicas": 3}}, MERGE),
    "delete": ("DELETE", f"{OBJECTS}/one", None, "application/json"),
    "delete of a collection": ("DELETE", OBJECTS, None, "application/json"),
}


REFUSAL = (
    'admission webhook "writes.guard.aggserver.io" denied the request: '
    "crontabs.stable.example.com is moving between the cluster's etcd and aggserver, try again in a second"
)


async def test_each_refuses_every_write_until_the_guard_goes(setup: Setup) -> None:
    await setup.cluster.request("POST", OBJECTS, body=crontab("one"))
    before = await setup.cluster.request("GET", OBJECTS)
    await setup.guard.set([GUARDED])
    await setup.guard.seen(setup.clusters)
    for what, write in WRITES.items():
        for code, retry_after, status in await setup.each(*write):
            assert (code, retry_after) == (503, "1"), (what, status)
            assert status == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": REFUSAL,
                "reason": "ServiceUnavailable",
                "details": {"retryAfterSeconds": 1},
                "code": 503,
            }, what
    for code, _, found in await setup.each("GET", OBJECTS):
        assert (code, found["items"]) == (200, before["items"])
    await setup.guard.set([])
    await setup.guard.seen(setup.clusters)
    for number, write in enumerate([WRITES["merge patch"], WRITES["status"]]):
        assert [code for code, _, _ in await setup.each(*write)] == [200, 200], number
    assert [code for code, _, _ in await setup.each(*WRITES["delete"])] == [200, 404]


async def test_what_the_host_made_of_it_is_as_wanted(setup: Setup) -> None:
    """With kube-apiserver's defaults it is still equal, so that a restart changes nothing."""
    path = f"{CONFIGURATIONS}/{guard_name(setup.service)}"
    await setup.guard.set([GUARDED])
    made = await setup.cluster.request("GET", path)
    again = Guard(setup.cluster, setup.service, setup.ca_bundle)
    await again.set([GUARDED])
    assert await setup.cluster.request("GET", path) == made
    await again.seen(setup.clusters)


async def test_others_are_untouched(setup: Setup) -> None:
    await setup.guard.set([GUARDED])
    await setup.guard.seen(setup.clusters)
    asked = setup.asked.count
    for number, admin in enumerate(setup.admins):
        for path, body in (
            (OTHERS, widget(f"w{number}")),
            (CONFIGMAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}),
        ):
            answer = await asyncio.to_thread(
                admin.request, "POST", path, {"content-type": "application/json"}, json.dumps(body).encode()
            )
            assert answer.status == 201, answer.body
    assert setup.asked.count == asked


async def test_this_servers_account_is_exempt(setup: Setup) -> None:
    assert await own_name(setup.cluster) == ACCOUNT
    await setup.guard.set([GUARDED])
    await setup.guard.seen(setup.clusters)
    asked = setup.asked.count
    for cluster in setup.clusters:
        await cluster.request("POST", OBJECTS, body=crontab("mine"))
        await cluster.request("PATCH", f"{OBJECTS}/mine", body={"metadata": {"annotations": {"aggserver.io/caught-up": "a"}}})
        await cluster.request("DELETE", f"{OBJECTS}/mine")
    assert setup.asked.count == asked


async def test_more_and_fewer_resources(setup: Setup) -> None:
    async def codes(**more: tuple[str, str]) -> tuple[set[int], set[int]]:
        await setup.guard.set(more.values())
        await setup.guard.seen(setup.clusters)
        crontabs = await setup.each("POST", f"{OBJECTS}?dryRun=All", crontab("a"))
        widgets = await setup.each("POST", f"{OTHERS}?dryRun=All", widget("a"))
        return {code for code, _, _ in crontabs}, {code for code, _, _ in widgets}

    both = {"one": GUARDED, "other": (GROUP, "widgets")}
    assert await codes(one=GUARDED) == ({503}, {201})
    assert await codes(**both) == ({503}, {503})
    assert await codes(other=(GROUP, "widgets")) == ({201}, {503})
    assert await codes(**both) == ({503}, {503})
    assert await codes() == ({201}, {201})


async def test_clients_of_client_go_wait_until_it_is_over(setup: Setup) -> None:
    await setup.guard.set([GUARDED])
    await setup.guard.seen(setup.clusters)
    asked = setup.asked.count
    server = setup.plane.servers[1]
    made = asyncio.create_task(setup.kubectl("create", "-f", "-", "--server", server, input=json.dumps(named("late"))))
    # It was refused twice, so it has come back once.
    await asyncio.to_thread(eventually, lambda: setup.asked.count >= asked + 2, "kubectl comes back")
    assert not made.done()
    await setup.guard.set([])
    assert (await made).stdout == "crontab.stable.example.com/late created\n"
    assert "aggserver" not in (await made).stderr


async def test_who_can_not_reach_this_server_does_not_count(setup: Setup, plane: ControlPlane) -> None:
    """The Service leads nowhere, so that writes fail, though not with a 503 that clients wait out."""
    nowhere = Service(NAMESPACE, "nowhere", 443)
    guard = Guard(setup.cluster, nowhere, lambda: new_ca("a", time.time()).cert_pem, limit_seconds=1.0)
    await guard.set([GUARDED])
    try:
        with pytest.raises(GuardError, match="within 1 s that the guard is in force") as raised:
            await guard.seen(setup.clusters)
        for server in plane.servers:
            assert f"{server}: its probe was let pass" in str(raised.value)
        assert {code for code, _, _ in await setup.each(*WRITES["create"])} == {500}
    finally:
        await guard.set([])
        await guard.seen(setup.clusters)
