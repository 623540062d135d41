"""The switch of a group-version at two kube-apiservers: where its requests go, and what clients see before, during and after.

`aggserver serve --definitions` has the same definition as the host; the objects of the two tell who answers.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.switch.switching import ADOPTED_HEADER, DEFINITIONS, Switcher, SwitchError, end_watches, proxied
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.cluster import Cluster, ClusterError
from aggserver.cluster.client import connect
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.aggregation import EXAMPLE, NAMESPACE, SERVICE, Aggregation
from tests.integration.raw import Client
from tests.integration.server import eventually
from tests.integration.watching import watching
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT, holding

GROUP = "stable.example.com"
PAIRS = [(GROUP, "v1")]
NAME = f"v1.{GROUP}"
DEFINITION = f"crontabs.{GROUP}"
DISCOVERY = f"/apis/{GROUP}/v1"
OBJECTS = f"{DISCOVERY}/namespaces/default/crontabs"
INSTALLATION = "of the test"

# Another definition, which the server does not have: nobody but the test looks after its APIService.
OTHER_GROUP = "switched.example.com"
OTHER_PAIRS = [(OTHER_GROUP, "v1")]
OTHER_NAME = f"v1.{OTHER_GROUP}"
OTHER_DEFINITION = f"crontabs.{OTHER_GROUP}"
OTHER_DISCOVERY = f"/apis/{OTHER_GROUP}/v1"

# Seconds until a kube-apiserver must have followed, on a busy machine.


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        plane.kubectl("apply", "--server-side", "-f", str(EXAMPLE))
        plane.kubectl("apply", "-f", "-", input=EXAMPLE.read_text().replace(GROUP, OTHER_GROUP))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", KUBECTL_LIMIT)
        yield plane


@pytest.fixture(scope="module")
def aggregation(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    made = Aggregation(plane, tmp_path_factory.mktemp("aggregated"))
    # The server registers its definitions, and on the way back would race with kube-apiserver, while there is no APIService.
    role = plane.get("clusterrole", SERVICE)
    for rule in role["rules"]:
        if "apiservices" in rule["resources"]:
            rule["verbs"].remove("create")
    plane.kubectl("replace", "-f", "-", input=json.dumps(role))
    yield made
    assert made.server.stop() == 0, made.server.output
    # Kept registered is only what nobody has adopted.
    assert "updated APIService" not in made.log


class Host:
    """clusters: a client of each kube-apiserver, as an administrator; kubeconfigs: for more of them."""

    def __init__(self, plane: ControlPlane, clusters: Sequence[Cluster], kubeconfigs: Sequence[Path]) -> None:
        self.plane = plane
        self.kubeconfigs = kubeconfigs
        self.clusters = clusters
        self.cluster = clusters[0]
        self.problems: list[tuple[str, str]] = []
        self.led_away: list[tuple[str, str]] = []

    def switcher(self, service: Service, ca_bundle: bytes) -> Switcher:
        made = Switcher(
            self.cluster,
            service,
            INSTALLATION,
            lambda name, problem: self.problems.append((name, problem)),
            self.led_away.append,
        )
        made.trust(ca_bundle)
        return made

    async def kubectl(self, *arguments: str) -> str:
        done: subprocess.CompletedProcess[str] = await asyncio.to_thread(self.plane.kubectl, *arguments)
        return done.stdout

    async def api_service(self, name: str = NAME) -> dict[str, Any]:
        return await self.cluster.request("GET", f"{API_SERVICES}/{name}")


@pytest.fixture
async def host(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Host]:
    clusters, kubeconfigs = [], []
    for number, url in enumerate(plane.servers):
        config = json.loads(plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = url
        path = tmp_path / f"{number}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(config))
        kubeconfigs.append(path)
        clusters.append(await connect(str(path), "switching"))
    yield Host(plane, clusters, kubeconfigs)
    for cluster in clusters:
        await cluster.close()


async def names(cluster: Cluster) -> list[str]:
    """Of the objects; what can't be read at the moment, as after a change of the definition, is tried again."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        try:
            found = await cluster.request("GET", OBJECTS)
        except ClusterError as error:
            if error.code != 429 or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return sorted(item["metadata"]["name"] for item in found["items"])


async def create(cluster: Cluster, name: str) -> None:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": {"image": "x"}}
    await cluster.request("POST", OBJECTS, body=body)


async def served(host: Host, *expected: str) -> None:
    """Each kube-apiserver answers with these objects."""
    for cluster in host.clusters:

        async def there(cluster: Cluster = cluster) -> bool:
            return await names(cluster) == sorted(expected)

        await holding(there, f"{expected} at {cluster.server}")


# --- a real server behind the Service ---


def serving_ca(plane: ControlPlane) -> bytes | None:
    """The CA of the server's own certificate, from the Secret in which it keeps them."""
    for secret in plane.get("secrets", "-n", NAMESPACE)["items"]:
        for name, value in (secret.get("data") or {}).items():
            if name == "ca.crt":
                return base64.b64decode(value)
    return None


@pytest.fixture
async def ours(host: Host, aggregation: Aggregation) -> AsyncIterator[Switcher]:
    ca_bundle = await asyncio.to_thread(eventually, lambda: serving_ca(host.plane), "the server's CA")
    switcher = host.switcher(Service(NAMESPACE, SERVICE, aggregation.port), ca_bundle)
    yield switcher
    await switcher.to_host(PAIRS)
    await proxied(host.clusters, PAIRS, "", seconds=HANG_SECONDS)
    await names(host.cluster)
    await host.cluster.request("DELETE", OBJECTS)


class Seen:
    """What clients are told of the API, all the time: whatever differs from the first answer is kept."""

    # Discovery of all groups, as clients ask for it since Kubernetes 1.26, of the group, and of the version.
    PATHS = ("/apis", f"/apis/{GROUP}", DISCOVERY)
    ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"

    def __init__(self, kubeconfigs: Sequence[Path]) -> None:
        self._kubeconfigs = kubeconfigs
        self._over = threading.Event()
        self.different: list[Any] = []
        self.answers = 0

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[None]:
        looking = asyncio.gather(*(asyncio.to_thread(self._look, kubeconfig) for kubeconfig in self._kubeconfigs))
        try:
            yield
        finally:
            self._over.set()
            await looking

    async def on(self) -> None:
        """Until they have looked at all of it a few times more."""
        goal = self.answers + 3 * len(self.PATHS) * len(self._kubeconfigs)
        await holding(lambda: self.answers >= goal, "clients look at the API")

    def _look(self, kubeconfig: Path) -> None:
        first: dict[str, Any] = {}
        with Client(kubeconfig) as client:
            while not self._over.wait(0.005):
                for path in self.PATHS:
                    answer = client.request("GET", path, {"accept": self.ACCEPT})
                    found = answer.status, _of_group(json.loads(answer.body))
                    self.answers += 1
                    if found != first.setdefault(path, found):
                        self.different.append((kubeconfig, path, found))


def _of_group(document: Any) -> Any:
    """What a discovery document says of the group; other groups come and go."""
    if "items" in document:
        return [item for item in document["items"] if item["metadata"]["name"] == GROUP]
    return document


async def told(host: Host) -> list[str]:
    """What a person is told of the resource, and what a client knows of its documents."""
    spec = await host.kubectl("explain", "crontabs.spec")
    resources = await host.kubectl("api-resources", f"--api-group={GROUP}", "-o", "wide")
    documents = await host.cluster.request("GET", "/openapi/v3")
    return [spec, resources, *sorted(path for path in documents["paths"] if GROUP in path)]


async def test_there_and_back(host: Host, ours: Switcher) -> None:
    before = await host.api_service()
    told_before = await told(host)
    assert "cronSpec" in told_before[0]
    await create(host.cluster, "at-the-host")
    seen = Seen(host.kubeconfigs)
    async with seen.looking():
        await ours.to_us(PAIRS)
        await served(host)
        await create(host.clusters[1], "here")
        await served(host, "here")
        await seen.on()
        assert await told(host) == told_before
        # Switched already: the same again changes nothing.
        version = (await host.api_service())["metadata"]["resourceVersion"]
        await ours.to_us(PAIRS)
        assert (await host.api_service())["metadata"]["resourceVersion"] == version
        await host.cluster.request("DELETE", f"{OBJECTS}/here")
        await ours.to_host(PAIRS)
        await served(host, "at-the-host")
        await seen.on()
    assert seen.different == []
    assert await told(host) == told_before
    after = await host.api_service()
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert "annotations" not in after["metadata"]
    # kube-apiserver made it anew. If it were the same, the aggregator would still ask us about discovery.
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert host.problems == []


class Watcher:
    """A watch of the objects at one kube-apiserver."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self._cluster = cluster
        self._version = version
        self.told: list[str] = []
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        query = {"watch": "true", "timeoutSeconds": "120", "resourceVersion": self._version}
        async for event in self._cluster.watch(OBJECTS, query):
            self.told.append(event["object"]["metadata"]["name"])


async def test_the_hosts_watches_are_blind_until_they_are_ended(host: Host, ours: Switcher) -> None:
    definition = await host.cluster.request("GET", f"{DEFINITIONS}/{DEFINITION}")
    await names(host.cluster)
    version = (await host.cluster.request("GET", OBJECTS))["metadata"]["resourceVersion"]
    watchers = [Watcher(cluster, version) for cluster in host.clusters]
    with watching(host.plane, "default") as kubectl:
        await create(host.cluster, "seen")
        await holding(lambda: _has([watcher.told for watcher in watchers], "seen"), "the watches have begun")
        await ours.to_us(PAIRS)
        await served(host)
        await create(host.cluster, "not-seen")
        await end_watches(host.cluster, DEFINITION)
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.gather(*(watcher.task for watcher in watchers))
        assert await asyncio.to_thread(kubectl.end) == (0, "")
    assert [watcher.told[-1] for watcher in watchers] == ["seen", "seen"]
    # The category was there for a moment only; nothing else was touched, above all not who owns what.
    after = await host.cluster.request("GET", f"{DEFINITIONS}/{DEFINITION}")
    assert (after["spec"], after["status"]) == (definition["spec"], definition["status"])
    assert after["metadata"]["generation"] == definition["metadata"]["generation"]
    assert _owners(after) == _owners(definition)
    # Who watches again watches here.
    again = Watcher(host.clusters[1], (await host.cluster.request("GET", OBJECTS))["metadata"]["resourceVersion"])
    await create(host.cluster, "seen-again")
    await holding(lambda: _has([again.told], "seen-again"), "the new watch sees writes")
    again.task.cancel()
    await host.cluster.request("DELETE", OBJECTS)


async def _has(told: Sequence[Sequence[str]], name: str) -> bool:
    return all(name in each for each in told)


def _owners(definition: dict[str, Any]) -> list[Any]:
    """Who owns which fields, without when."""
    entries = definition["metadata"]["managedFields"]
    return sorted((entry["manager"], entry.get("subresource", ""), json.dumps(entry["fieldsV1"])) for entry in entries)


# --- what the aggregator passes on ---


class Stub:
    """Answers discovery of the group-version as adopted, by a certificate that a test replaces."""

    def __init__(self, plane: ControlPlane) -> None:
        plane.kubectl("apply", "-f", "-", input=json.dumps(self._service()))
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    @staticmethod
    def _service() -> dict[str, Any]:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "stub", "namespace": "default"}, "spec": spec}

    def certify(self, ca: KeyPair, folder: Path) -> None:
        pair = issue_serving(ca, ["stub.default.svc"], [], time.time())
        for name, content in (("tls.crt", pair.cert_pem), ("tls.key", pair.key_pem)):
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)
        self.context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{OTHER_GROUP}/v1", "resources": []}
        # Every request on a connection of its own, so that a new certificate shows at once.
        headers = {ADOPTED_HEADER: INSTALLATION, "Connection": "close"}
        return web.json_response(body, headers=headers, status=200 if request.path == OTHER_DISCOVERY else 404)


@pytest.fixture
async def stub(plane: ControlPlane) -> AsyncIterator[tuple[Stub, int]]:
    made = await asyncio.to_thread(Stub, plane)
    runner = web.ServerRunner(web.Server(made.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.context)
    await site.start()
    yield made, runner.addresses[0][1]
    await runner.cleanup()


async def test_each_kube_apiserver_is_seen_to_follow(host: Host, stub: tuple[Stub, int], tmp_path: Path) -> None:
    server, port = stub
    now = time.time()
    first, second = new_ca("first", now), new_ca("second", now)
    server.certify(first, tmp_path)
    switcher = host.switcher(Service("default", "stub", port), first.cert_pem)
    await proxied(host.clusters, OTHER_PAIRS, "", seconds=HANG_SECONDS)
    await switcher.to_us(OTHER_PAIRS)
    await proxied(host.clusters, OTHER_PAIRS, INSTALLATION, seconds=HANG_SECONDS)
    with pytest.raises(SwitchError, match=f"{host.cluster.server}: .* the server of installation '{INSTALLATION}' answers"):
        await proxied(host.clusters, OTHER_PAIRS, "", seconds=0.1)
    keeping = asyncio.create_task(switcher.run())
    try:
        # The certificate is of another CA, which the aggregator is told of.
        server.certify(second, tmp_path)
        switcher.trust(second.cert_pem)
        await proxied(host.clusters, OTHER_PAIRS, INSTALLATION, seconds=HANG_SECONDS)
        assert base64.b64decode((await host.api_service(OTHER_NAME))["spec"]["caBundle"]) == second.cert_pem
        # Somebody deletes it: kube-apiserver makes a local one, or ours is quicker. Either way it is ours in the end.
        await host.cluster.request("DELETE", f"{API_SERVICES}/{OTHER_NAME}")

        async def ours() -> bool:
            with contextlib.suppress(ClusterError):
                return "service" in (await host.api_service(OTHER_NAME))["spec"]
            return False

        await holding(ours, "it is taken again")
        await proxied(host.clusters, OTHER_PAIRS, INSTALLATION, seconds=HANG_SECONDS)
        await switcher.to_host(OTHER_PAIRS)
        await proxied(host.clusters, OTHER_PAIRS, "", seconds=HANG_SECONDS)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
    assert host.problems == []


async def test_why_a_kube_apiserver_does_not_follow(host: Host) -> None:
    switcher = host.switcher(Service("default", "missing"), new_ca("any", time.time()).cert_pem)
    await switcher.to_us(OTHER_PAIRS)
    try:

        async def judged() -> bool:
            conditions = (await host.api_service(OTHER_NAME))["status"]["conditions"]
            return any(each["type"] == "Available" and each["status"] == "False" for each in conditions)

        await holding(judged, "it is found unavailable")
        with pytest.raises(
            SwitchError, match=r'condition Available is False: service/missing in "default" is not present'
        ) as caught:
            await proxied(host.clusters, OTHER_PAIRS, INSTALLATION, seconds=0.1)
        assert f"{host.cluster.server}: APIService {OTHER_NAME}: 503" in str(caught.value)
        # Somebody else's, for another installation.
        other = Switcher(host.cluster, Service("default", "missing"), "another", lambda *_: None, lambda _: None)
        other.trust(b"any")
        with pytest.raises(SwitchError, match="adopted by the installation 'of the test', and this one is 'another'"):
            await other.to_us(OTHER_PAIRS)
        await other.to_host(OTHER_PAIRS)
        assert "service" in (await host.api_service(OTHER_NAME))["spec"]
    finally:
        await switcher.to_host(OTHER_PAIRS)
    await proxied(host.clusters, OTHER_PAIRS, "", seconds=HANG_SECONDS)


async def test_the_definition_is_deleted(host: Host) -> None:
    """kube-apiserver leaves an APIService behind that is not its own. Runs last: no test has the definition afterwards."""
    switcher = host.switcher(Service("default", "missing"), new_ca("any", time.time()).cert_pem)
    await switcher.to_us(OTHER_PAIRS)
    await host.cluster.request("DELETE", f"{DEFINITIONS}/{OTHER_DEFINITION}")

    async def gone(path: str) -> bool:
        try:
            await host.cluster.request("GET", path)
        except ClusterError as error:
            return error.code == 404
        return False

    await holding(lambda: gone(f"{DEFINITIONS}/{OTHER_DEFINITION}"), "the definition is gone")
    assert "service" in (await host.api_service(OTHER_NAME))["spec"]
    await switcher.remove(OTHER_PAIRS)
    await switcher.remove(OTHER_PAIRS)
    assert await gone(f"{API_SERVICES}/{OTHER_NAME}")
