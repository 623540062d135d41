"""`aggserver doctor` at a real control plane: nothing is found where all is well, and each thing that is broken is found.

The server is stopped while things are broken, so that it mends none of them and others' tests see nothing of it. There are no
nodes: pods are objects whose status is written here. What a kubelet, a clock or a firewall does is in tests/commands/doctor.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import copy
import json
import os
import shlex
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aggserver.adoption.families import ADOPTION, FINALIZER
from aggserver.adoption.leftovers.version import VERSION
from aggserver.adoption.records.record import LEASE
from aggserver.adoption.status import CONFIG_MAP
from aggserver.adoption.switch.guard import configuration
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.certificates.issuing import KeyPair, issue_serving, new_ca
from aggserver.cluster import ClusterError
from aggserver.cluster.client import ClusterClient, connect
from aggserver.commands.doctor.command import diagnose
from aggserver.commands.doctor.finding import Finding
from aggserver.commands.doctor.gather import Gatherer
from aggserver.meta.times import format_micro_time, format_time
from aggserver.options import parse
from tests.integration.aggregation import API_SERVICE, NAMESPACE, SERVICE, Aggregation
from tests.integration.direct import Direct
from tests.integration.server import running
from tests.waiting import HANG_SECONDS, POLL_SECONDS

# docs/doctor.md, with KUBECONFIG.
COMMAND = "aggserver doctor"
RUNS = [COMMAND]

HERE = f"/api/v1/namespaces/{NAMESPACE}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{SERVICE}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_BINDINGS = f"{RBAC}/clusterrolebindings"
BINDINGS = f"{RBAC}/namespaces/{NAMESPACE}/rolebindings"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = f"{ADMISSION}/validatingadmissionpolicies/aggserver-api-services"
POLICY_BINDING = f"{ADMISSION}/validatingadmissionpolicybindings/aggserver-api-services"
GUARDS = f"{ADMISSION}/validatingwebhookconfigurations"
SECRET = f"{HERE}/secrets/{SERVICE}-certificates"
OURS = f"{API_SERVICES}/{API_SERVICE}"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
LABEL = "aggserver.io/adopt"
SICK = "patients.doctor.example.com"

Object = dict[str, Any]
Change = Callable[[ClusterClient], AbstractAsyncContextManager[None]]


# --- what is broken, and mended


def edited(path: str, change: Callable[[Object], Any]) -> Change:
    """The object changed, and as it was afterwards."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        before = await cluster.request("GET", path)
        await _put(cluster, path, change)
        try:
            yield
        finally:
            await _put(cluster, path, lambda found: found.update(copy.deepcopy(before)))

    return breaking


async def _put(cluster: ClusterClient, path: str, change: Callable[[Object], Any]) -> None:
    for left in reversed(range(5)):
        found = await cluster.request("GET", path)
        version = found["metadata"]["resourceVersion"]
        change(found)
        found["metadata"]["resourceVersion"] = version
        try:
            await cluster.request("PUT", path, body=found)
            return
        except ClusterError as error:
            if error.code != 409 or not left:
                raise


def deleted(path: str) -> Change:
    """Without the object, which is there again afterwards."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        before = await cluster.request("GET", path)
        await cluster.request("DELETE", path)
        try:
            yield
        finally:
            for member in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
                before["metadata"].pop(member, None)
            before.pop("status", None)
            await cluster.request("POST", path.rpartition("/")[0], body=before)

    return breaking


def made(collection: str, made_object: Object, status: Object | None = None) -> Change:
    """With one more object, which is surely gone afterwards."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        found = await cluster.request("POST", collection, body=made_object)
        path = f"{collection}/{found['metadata']['name']}"
        try:
            if status is not None:
                await cluster.request("PATCH", f"{path}/status", body={"status": status})
            yield
        finally:
            await _remove(cluster, path)

    return breaking


async def _remove(cluster: ClusterClient, path: str) -> None:
    with contextlib.suppress(ClusterError):
        await cluster.request("PATCH", path, body={"metadata": {"finalizers": None}})
    await cluster.request("DELETE", path, body={"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    with contextlib.suppress(ClusterError):
        while True:
            await cluster.request("GET", path)
            await asyncio.sleep(POLL_SECONDS)


def arguments(*more: str, account: str = SERVICE) -> Change:
    def change(deployment: Object) -> None:
        pod = deployment["spec"]["template"]["spec"]
        pod["containers"][0]["args"] += more
        pod["serviceAccountName"] = account

    return edited(DEPLOYMENT, change)


def spec(**members: Any) -> Callable[[Object], None]:
    return lambda found: found["spec"].update(members)


def as_the_manifest(**members: Any) -> Change:
    """The Service in front of pods, as in a cluster with nodes."""
    whole = {"selector": {"app.kubernetes.io/name": SERVICE}, "type": "ClusterIP", "externalName": None}
    ports = [{"name": "https", "port": 443, "targetPort": "https"}]
    return edited(f"{HERE}/services/{SERVICE}", spec(**{**whole, "ports": ports, **members}))


def certificate(cert_pem: bytes) -> Change:
    return edited(SECRET, lambda found: found["data"].update({"tls.crt": base64.b64encode(cert_pem).decode()}))


def issued(start: float = 0.0, days: int = 365, name: str = f"{SERVICE}.{NAMESPACE}.svc") -> bytes:
    """A certificate of another CA. start: seconds from now."""
    now = time.time() + start
    return issue_serving(new_ca("another", now), [name], [], now, days).cert_pem


def bundle(pem: bytes) -> Change:
    return edited(OURS, spec(caBundle=base64.b64encode(pem).decode() or None))


def pod(status: Object) -> Change:
    """A pod of the Deployment, with that status."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        template = (await cluster.request("GET", DEPLOYMENT))["spec"]["template"]
        metadata = {"name": "sick", "labels": template["metadata"]["labels"]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        async with made(f"{HERE}/pods", body, status)(cluster):
            yield

    return breaking


def container(state: Object, **more: Any) -> Object:
    return {
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {
                "name": SERVICE,
                "image": "aggserver:0.1.0",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
                **more,
            }
        ],
    }


def definition(
    labels: dict[str, str], *, annotations: dict[str, str] | None = None, finalizers: list[str] | None = None
) -> Change:
    group = SICK.partition(".")[2]
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": SICK, "labels": labels, "annotations": annotations or {}, "finalizers": finalizers or []},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "patients", "kind": "Patient"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    return made(DEFINITIONS, body)


def leftovers_version(crd: Object) -> None:
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": VERSION, "storage": False})


def lease(ahead: float = 0.0) -> Change:
    """Somebody moves definitions. ahead: of the holder's clock, in seconds."""
    now = format_micro_time(int(time.time() + ahead), 0)
    held = {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": now, "acquireTime": now}
    kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return made(LEASES, {**kind, "metadata": {"name": LEASE}, "spec": held})


def status(**entry: Any) -> Change:
    """The status of a definition, as the server writes it."""
    whole = {"family": SICK, "since": format_time(time.time()), "shared": False, "conditions": [], **entry}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return made(f"{HERE}/configmaps", {**kind, "metadata": {"name": CONFIG_MAP}, "data": {SICK: json.dumps(whole)}})


def guard() -> Change:
    """The guard, as the server writes it, with the bundle of the APIService."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        pem = base64.b64decode((await cluster.request("GET", OURS))["spec"]["caBundle"])
        plural, _, group = SICK.partition(".")
        body = configuration([(group, plural)], "abc", Service(NAMESPACE, SERVICE), pem, "nobody")
        async with made(GUARDS, body)(cluster):
            yield

    return breaking


def all_rights() -> Change:
    account = {"kind": "ServiceAccount", "name": SERVICE, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    return made(CLUSTER_BINDINGS, {**kind, "metadata": {"name": "doctor-test"}, "roleRef": role, "subjects": [account]})


def policy(old: str, new: str) -> Change:
    def change(found: Object) -> None:
        first = found["spec"]["validations"][0]
        assert old in first["expression"]
        first["expression"] = first["expression"].replace(old, new)

    return edited(POLICY, change)


def for_adoption() -> Change:
    return policy("has(state.spec.service)", "!has(state.spec.service) || has(state.spec.service)")


def answering(*, code: int = 200, ahead: float = 0.0, own_ca: bool = True) -> Change:
    """Something answers in the server's place. ahead: of its clock, in seconds. own_ca: its certificate is of the server's CA."""

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        port = (await cluster.request("GET", OURS))["spec"]["service"]["port"]
        kept = {key: base64.b64decode(text) for key, text in (await cluster.request("GET", SECRET))["data"].items()}
        ca = KeyPair(kept["ca.crt"], kept["ca.key"]) if own_ca else new_ca("another", time.time())
        pair = issue_serving(ca, [f"{SERVICE}.{NAMESPACE}.svc"], [], time.time())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.cert_pem + pair.key_pem)
            file.flush()
            tls.load_cert_chain(file.name)

        async def answer(request: web.BaseRequest) -> web.Response:
            kind = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "stable.example.com/v1", "resources": []}
            headers = {"Date": formatdate(time.time() + ahead, usegmt=True)}
            return web.json_response(kind, status=code, headers=headers)

        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        try:
            # So that kube-apiserver looks at once, and not only after half a minute.
            await cluster.request("PATCH", OURS, body={"metadata": {"annotations": {"doctor-test": str(time.time())}}})
            yield
        finally:
            await runner.cleanup()
            await cluster.request("PATCH", OURS, body={"metadata": {"annotations": {"doctor-test": str(time.time())}}})

    return breaking


def elsewhere(name: str) -> Change:
    """The APIService leads to another Service."""
    return edited(OURS, lambda found: found["spec"]["service"].update(name=name))


def led_here(version: str) -> Change:
    """A group-version of the definition leads to the server, as after its adoption. Before the definition is made: otherwise
    kube-apiserver makes the APIService.
    """

    @contextlib.asynccontextmanager
    async def breaking(cluster: ClusterClient) -> AsyncIterator[None]:
        ours = await cluster.request("GET", OURS)
        group = SICK.partition(".")[2]
        body = {
            "apiVersion": ours["apiVersion"],
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}", "labels": {"app.kubernetes.io/managed-by": "aggserver-adoption"}},
            "spec": {**ours["spec"], "group": group, "version": version},
        }
        async with made(API_SERVICES, body)(cluster):
            yield

    return breaking


# The server as one that adopts, with all that belongs to it.
SELECTED = arguments(f"--adopt={LABEL}=true")
ADOPTS = (SELECTED, all_rights(), for_adoption())
MOVES = (*ADOPTS, lease())
LABELLED = {LABEL: "true"}

# What is found in each case anyhow: the server does not run.
AWAY = "api-service"

CASES: dict[str, tuple[tuple[Change, ...], set[str], str]] = {
    # The Service, and what is behind it.
    "no Service": ((deleted(f"{HERE}/services/{SERVICE}"),), {"service"}, "manifests/service.yaml"),
    "another port": (
        (as_the_manifest(), pod({})),
        {"service-port", "pod-not-ready"},
        "which APIService v1.stable.example.com names",
    ),
    "another selector": (
        (as_the_manifest(selector={"app": "x"}),),
        {"service-port", "service-selector", "deployment-pods"},
        "its selector app=x does not match",
    ),
    "another target port": (
        (as_the_manifest(ports=[{"port": 443, "targetPort": "web"}]),),
        {"service-port", "service-target-port", "deployment-pods"},
        "the container's port web",
    ),
    "no Deployment": ((as_the_manifest(), deleted(DEPLOYMENT)), {"service-port", "deployment"}, "manifests/deployment.yaml"),
    "no replicas": (
        (as_the_manifest(), edited(DEPLOYMENT, spec(replicas=0))),
        {"service-port", "deployment-scaled"},
        "kubectl scale deployment aggserver --namespace aggserver-system --replicas 1",
    ),
    "no pods": ((as_the_manifest(),), {"service-port", "deployment-pods"}, "it has no pod"),
    "an image that can't be pulled": (
        (as_the_manifest(), pod(container({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}))),
        {"service-port", "pod-image"},
        "its image aggserver:0.1.0 can't be pulled (ImagePullBackOff): not found",
    ),
    "no memory": (
        (
            as_the_manifest(),
            pod(
                container(
                    {"waiting": {"reason": "CrashLoopBackOff"}},
                    lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                )
            ),
        ),
        {"service-port", "pod-memory"},
        "--limits memory=2Gi",
    ),
    "no node": (
        (
            as_the_manifest(),
            pod(
                {
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/3 nodes are available",
                        }
                    ]
                }
            ),
        ),
        {"service-port", "pod-pending"},
        "0/3 nodes are available",
    ),
    "no account": (
        (as_the_manifest(), arguments(account="nobody")),
        {"service-port", "deployment-pods", "service-account", "rights", "api-service-policy"},
        "ServiceAccount aggserver-system/nobody: it does not exist",
    ),
    # Flags.
    "a URL without a scheme": (
        (arguments("--adopt=", "--kube-apiservers=127.0.0.1:6443"),),
        {"arguments"},
        "127.0.0.1:6443 has no scheme; write https://127.0.0.1:6443",
    ),
    "another Service's name": (
        (as_the_manifest(), arguments("--service-name=other")),
        {"service-port", "deployment-pods", "arguments-service"},
        "the Service aggserver-system/other",
    ),
    # Certificates.
    "no Secret": (
        (deleted(SECRET),),
        {"certificate-secret"},
        "Secret aggserver-system/aggserver-certificates: it does not exist",
    ),
    "an expired certificate": (
        (certificate(issued(-400 * 86400)),),
        {"certificate-times", "ca-bundle"},
        "has expired at",
    ),
    "a certificate of the future": ((certificate(issued(86400)),), {"certificate-times", "ca-bundle"}, "is not valid before"),
    "a certificate for another name": (
        (certificate(issued(name="other.svc")),),
        {"certificate-names", "ca-bundle"},
        "is for other.svc, and not for aggserver.aggserver-system.svc",
    ),
    "no certificate": ((certificate(b"nothing"),), {"certificate"}, "its certificate can't be read"),
    "another CA": ((bundle(issued()),), {"ca-bundle"}, "does not have the CA that signed the server's certificate"),
    "an expired caBundle": ((bundle(issued(-400 * 86400)),), {"ca-bundle"}, "no certificate is verified by it"),
    "no verification": (
        (edited(OURS, spec(caBundle=None, insecureSkipTLSVerify=True)),),
        {"api-service-insecure"},
        "insecureSkipTLSVerify is true",
    ),
    "a certificate of another CA": (
        (answering(own_ca=False),),
        set(),
        "the caBundle of the APIService does not have the CA that signed the server's certificate",
    ),
    "a server that does not know the aggregator": ((answering(code=401),), set(), "--proxy-client-cert-file"),
    "a clock that is ahead": ((answering(ahead=600.0),), {"clock", "-" + AWAY}, "s ahead of kube-apiserver's"),
    "nothing is wrong": ((answering(),), {"-" + AWAY}, ""),
    # Rights.
    "no right to reviews": (
        (deleted(f"{CLUSTER_BINDINGS}/aggserver:auth-delegator"),),
        {"rights"},
        "create subjectaccessreviews.authorization.k8s.io",
    ),
    "no right to the ConfigMap": (
        (deleted(f"{RBAC}/namespaces/kube-system/rolebindings/aggserver:auth-reader"),),
        {"rights"},
        "kubectl apply --filename manifests/auth-reader.yaml",
    ),
    "no right to the cluster": ((deleted(f"{CLUSTER_BINDINGS}/aggserver"),), {"rights"}, "manifests/cluster-access.yaml"),
    "one right less": (
        (
            edited(
                f"{RBAC}/clusterroles/aggserver",
                lambda found: found["rules"][-1]["verbs"].remove("delete"),
            ),
        ),
        {"rights"},
        "it lacks the permission to delete apiservices.apiregistration.k8s.io",
    ),
    "no right to the Secret": ((deleted(f"{BINDINGS}/aggserver:certificate-store"),), {"rights"}, "certificate-store.yaml"),
    "no right to Leases for an App": (
        (arguments("--app=hello:app"), deleted(f"{BINDINGS}/aggserver:tasks")),
        {"rights"},
        "manifests/task-lease.yaml",
    ),
    "no rights to adopt": (
        (SELECTED, for_adoption(), lease(), definition(LABELLED)),
        {"rights", "adoption-overlooked"},
        "kubectl create clusterrole aggserver:adopted-patients.doctor.example.com",
    ),
    "no policy": ((deleted(POLICY),), {"api-service-policy"}, "manifests/api-service-policy.yaml"),
    "no binding of the policy": ((deleted(POLICY_BINDING),), {"api-service-policy"}, "ValidatingAdmissionPolicyBinding"),
    "a policy for another Service": (
        (policy(f'name == "{SERVICE}"', 'name == "other"'),),
        {"api-service-policy"},
        "of another Service than aggserver-system/aggserver",
    ),
    "a policy without adoption": ((SELECTED, all_rights(), lease()), {"api-service-policy"}, "components: [adoption]"),
    # Definitions.
    "a definition that is none": (
        (edited(f"{HERE}/configmaps/aggserver-definitions", lambda found: found["data"].update({"x.yaml": "kind: Pod"})),),
        {"definition"},
        "x.yaml, document 1",
    ),
    "no APIService": ((deleted(OURS),), {"api-service-missing", "-" + AWAY}, f"APIService {API_SERVICE}: it does not exist"),
    "somebody else's APIService": (
        (elsewhere("other"),),
        {"api-service-of-others", "service"},
        "it is served by the Service aggserver-system/other",
    ),
    # Adoption.
    "nobody adopts": ((definition(LABELLED),), {"adoption-label"}, "the server behind aggserver-system/aggserver has no --adopt"),
    "another value of the label": (
        (*MOVES, definition({LABEL: "yes"})),
        {"adoption-label"},
        "kubectl label --overwrite crd patients.doctor.example.com aggserver.io/adopt=true",
    ),
    "a definition that was released": (
        (*MOVES, definition(LABELLED, annotations={ADOPTION: "release"})),
        {"adoption-obstacle"},
        "kubectl annotate crd patients.doctor.example.com aggserver.io/adoption-",
    ),
    "a definition that nobody looks at": ((*MOVES, definition(LABELLED)), {"adoption-overlooked"}, "says nothing of it"),
    "nobody holds the Lease": ((*ADOPTS, definition(LABELLED)), {"lease"}, "no aggserver moves definitions"),
    "a Lease of the future": ((*ADOPTS, lease(600.0)), {"lease-clock"}, "s ahead"),
    "a move that waits": (
        (*MOVES, definition(LABELLED), status(phase="Waiting", reason="the cluster's etcd is full")),
        {"move-waiting"},
        "it does not move: the cluster's etcd is full",
    ),
    "a move that does not end": (
        (*MOVES, definition(LABELLED), guard(), status(phase="Guarding", since="2026-01-01T00:00:00Z")),
        {"move-stuck"},
        "it is Guarding since 2026-01-01T00:00:00Z",
    ),
    "an adopted definition that is not well": (
        (
            *MOVES,
            led_here("v1"),
            definition(LABELLED),
            guard(),
            status(phase="Adopted", conditions=[{"type": "Degraded", "status": "True", "message": "damaged"}]),
        ),
        {"adopted-degraded"},
        "not well: damaged",
    ),
    "no guard": ((*MOVES, led_here("v1"), definition(LABELLED), status(phase="Adopted")), {"guard"}, "it does not exist"),
    "a version that leads elsewhere": (
        (*MOVES, definition(LABELLED), guard(), status(phase="Adopted")),
        {"adopted-elsewhere"},
        "doctor.example.com/v1 does not lead here",
    ),
    "a guard that was left": ((*ADOPTS, guard()), {"lease", "guard-left"}, "kubectl delete validatingwebhookconfiguration"),
    "a finalizer that was left": ((definition({}, finalizers=[FINALIZER]),), {"adopted-finalizer"}, "release --from-backup FILE"),
    "a version of leftovers": (
        (definition({}), edited(f"{DEFINITIONS}/{SICK}", leftovers_version)),
        {"leftovers-version"},
        VERSION,
    ),
    "an APIService without a definition": ((led_here("v1"),), {"adopted-api-service"}, "kubectl delete apiservice v1."),
}


async def _at_once(seconds: float) -> None:
    """In place of the sleep before a Lease is looked at again."""


def has(found: Sequence[Finding], text: str) -> bool:
    return not text or any(text in f"{each.where}: {each.what}; {each.why}; {each.mend}" for each in found)


class Examined:
    """The cluster while the server is stopped, and the doctor in this process."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._options = parse(["doctor", "--kubeconfig", str(aggregation.plane.kubeconfig)], {})
        self._runner = asyncio.Runner()
        self._cluster = self.run(connect(str(aggregation.plane.kubeconfig), "doctor-test"))

    def run(self, work: Awaitable[Any]) -> Any:
        async def awaited() -> Any:
            return await work

        return self._runner.run(awaited())

    def close(self) -> None:
        self.run(self._cluster.close())
        self._runner.close()

    async def findings(self) -> list[Finding]:
        found = await Gatherer(self._cluster, self._options, lambda line: None, sleep=_at_once).installations()
        assert {key: why for facts in found for key, why in facts.unread.items()} == {}
        return [each for facts in found for each in diagnose(facts)]

    async def with_changes(self, changes: tuple[Change, ...], expected: set[str], text: str) -> list[Finding]:
        """What is found with the changes: once it is as expected, or at last. RBAC and conditions take a moment."""
        async with contextlib.AsyncExitStack() as stack:
            for change in changes:
                await stack.enter_async_context(change(self._cluster))
            ends = time.monotonic() + HANG_SECONDS
            while True:
                found = await self.findings()
                if ({each.check for each in found} == expected and has(found, text)) or time.monotonic() > ends:
                    return found
                await asyncio.sleep(POLL_SECONDS)


@pytest.fixture(scope="module")
def examined(aggregation: Aggregation) -> Iterator[Examined]:
    with aggregation.stopped():
        made = Examined(aggregation)
        yield made
        made.close()


def doctor(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *shlex.split(COMMAND), *words],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )


def test_nothing_is_found_where_all_is_well(aggregation: Aggregation) -> None:
    done = doctor(aggregation.plane.kubeconfig)
    assert (done.stdout, done.returncode) == (f"looked at {NAMESPACE}/{SERVICE}: nothing is wrong\n", 0)
    assert "asking" in done.stderr


def test_a_server_says_which_flag_cannot_work(aggregation: Aggregation, tmp_path: Path) -> None:
    with running(server := aggregation.beside(tmp_path / "server", 0, "--kube-apiservers=https://127.0.0.1:1")):
        server.wait_for(r"--kube-apiservers: https://127\.0\.0\.1:1 does not answer: .*; no definition moves meanwhile")
        assert b"[+]flags ok, with a warning: reason withheld\n" in Direct(server.port).get("/readyz?verbose").body


def test_a_user_who_may_not_look(aggregation: Aggregation) -> None:
    done = doctor(aggregation.plane.user("visitor"), "--service-namespace", NAMESPACE, "-o", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["findings"]) == (2, False, [])
    assert {"APIServices", "service", "pods", "rights"} <= {each["what"] for each in found["notLookedAt"]}


def test_the_command_with_findings(aggregation: Aggregation, examined: Examined) -> None:
    done = doctor(aggregation.plane.kubeconfig, "--context", "aggserver-test", "-o", "json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["installations"], found["notLookedAt"]) == (
        1,
        False,
        [f"{NAMESPACE}/{SERVICE}"],
        [],
    )
    [finding] = found["findings"]
    assert finding["object"] == f"APIService {API_SERVICE}"
    # Which of these it is depends on when kube-apiserver looked last.
    assert finding["why"].startswith(("nothing listens there", "the server has ended the connection")), finding
    assert finding["mend"].startswith("kubectl ")


@pytest.mark.parametrize(("changes", "checks", "text"), CASES.values(), ids=CASES)
def test_what_is_broken_is_found(examined: Examined, changes: tuple[Change, ...], checks: set[str], text: str) -> None:
    expected = {AWAY, *checks} if "-" + AWAY not in checks else checks - {"-" + AWAY}
    found = examined.run(examined.with_changes(changes, expected, text))
    assert {each.check for each in found} == expected
    assert has(found, text), found


def test_all_is_mended(examined: Examined) -> None:
    assert {each.check for each in examined.run(examined.findings())} == {AWAY}
