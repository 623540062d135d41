"""Reads what the checks need from a cluster, with a limit on each request, many at a time, and a line on each part.

Nothing is changed. What can't be read, such as what the user of the kubeconfig may not see, is noted with the reason; the checks
that need it find nothing.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, TypeVar

from aggserver.adoption.families import kept
from aggserver.adoption.records.record import LEASE
from aggserver.adoption.status import CONFIG_MAP, LEFT_OUT
from aggserver.adoption.switch.guard import guard_name
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import ADOPTION, API_SERVICES, MANAGED_BY, MANAGED_BY_LABEL, Service
from aggserver.apiextensions.definition import DefinitionError, parse
from aggserver.apiextensions.files import FolderSource, Loaded
from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.client import ClusterClient
from aggserver.commands.adopt import holder
from aggserver.commands.adopt.plan import HostAccess
from aggserver.commands.doctor import access, rights
from aggserver.commands.doctor.arguments import DeployedOptions, container_of, options_of
from aggserver.commands.doctor.found import InstallationFacts, Probe, condition, labels, name, selects
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector
from aggserver.meta.times import parse_time
from aggserver.options import Options

__all__ = ["Gatherer"]

T = TypeVar("T")

Tell = Callable[[str], None]

AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"

# The label of all objects of manifests/.
OURS = "app.kubernetes.io/name=aggserver"

PAGE = 500
AT_ONCE = 8
SECONDS = 10.0
LIST_SECONDS = 30.0

# Group-versions that are asked for. A server that answers for these answers for the others.
MOST_PROBES = 20
# Pods whose log is read, and how much of each.
MOST_LOGS = 5
_WARNINGS = {"fieldSelector": "type=Warning"}
LINES, LOG_BYTES = "20", "16384"


@dataclass(slots=True)
class _Unread:
    """What could not be read, by its name, with the reason."""

    reasons: dict[str, str] = field(default_factory=dict)

    async def read(self, what: str, reading: Awaitable[T], otherwise: T) -> T:
        """What was read; `otherwise` if it is not there, or can't be read, which is noted."""
        try:
            return await reading
        except ClusterError as error:
            if error.code != 404:
                self.reasons[what] = str(error)
        except Unreachable as error:
            self.reasons[what] = str(error)
        return otherwise


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all installations of a cluster share. skew: by how many seconds kube-apiserver's clock is ahead of this one's."""

    kubernetes: str
    skew: float
    api_services: Sequence[JSONMapping]
    crds: Sequence[JSONMapping]
    authentication: JSONMapping | None
    policies: Sequence[JSONMapping]
    bindings: Sequence[JSONMapping]
    unread: Mapping[str, str]


class Gatherer:
    """Reads a cluster. tell: is called with a line on what is read next. now: seconds since 1970."""

    def __init__(
        self,
        cluster: ClusterClient,
        options: Options,
        tell: Tell,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._tell = tell
        self._now = now
        self._sleep = sleep
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def installations(self) -> list[InstallationFacts]:
        """The facts of each installation, sorted; none if there is none. Raises ClusterError and Unreachable if kube-apiserver
        does not answer, or does not know the user.
        """
        self._tell(f"asking {self._cluster.server} for its version and clock")
        version, skew = await self._version()
        self._tell("reading APIServices, definitions and admission policies")
        unread = _Unread()
        api_services, crds, authentication, policies, bindings = await asyncio.gather(
            unread.read("APIServices", self._list(API_SERVICES), []),
            unread.read("definitions of the cluster", self._list(DEFINITIONS), []),
            unread.read("authentication", self._get(AUTHENTICATION), None),
            unread.read("policy", self._list(f"{ADMISSION}/validatingadmissionpolicies"), []),
            unread.read("policy", self._list(f"{ADMISSION}/validatingadmissionpolicybindings"), []),
        )
        shared = _Shared(version, skew, api_services, crds, authentication, policies, bindings, unread.reasons)
        found = []
        for service in await self._services(api_services):
            self._tell(f"looking at the installation behind Service {service.namespace}/{service.name}")
            found.append(await self._installation(service, shared))
        return found

    async def _version(self) -> tuple[str, float]:
        before = self._now()
        answer = await self._cluster.answer("/version", seconds=SECONDS)
        if answer.status != 200:
            raise ClusterError(answer.status, "", " ".join(answer.text.split())[:300])
        try:
            version = str(json.loads(answer.text)["gitVersion"])
        except (ValueError, KeyError, TypeError):
            raise ClusterError(answer.status, "", f"{self._cluster.server}/version is not that of a kube-apiserver") from None
        return version, _ahead(answer.date, before, self._now())

    async def _services(self, api_services: Sequence[JSONMapping]) -> list[Service]:
        """The Services of all installations: those that APIServices of aggserver lead to, and those with the manifests' label."""
        found: dict[tuple[str, str], int] = {}
        for each in api_services:
            target = each["spec"].get("service")
            if target and labels(each).get(MANAGED_BY_LABEL) in (MANAGED_BY, ADOPTION):
                found[target["namespace"], target["name"]] = target.get("port") or 443
        unread = _Unread()
        labelled = await unread.read("services", self._list("/api/v1/services", {"labelSelector": OURS}), [])
        for each in labelled:
            ports = each["spec"].get("ports") or ()
            found.setdefault((each["metadata"]["namespace"], name(each)), ports[0]["port"] if ports else 443)
        namespace = self._options.service_namespace
        if namespace:
            found = {key: port for key, port in found.items() if key[0] == namespace}
            found = found or {(namespace, self._options.service_name): 443}
        return [Service(*key, port) for key, port in sorted(found.items())]

    # --- one installation ---

    async def _installation(self, service: Service, shared: _Shared) -> InstallationFacts:
        unread = _Unread(dict(shared.unread))
        namespace = service.namespace
        here, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
        of_service = {"labelSelector": f"kubernetes.io/service-name={service.name}"}
        async with asyncio.TaskGroup() as tasks:

            def one(what: str, path: str) -> asyncio.Task[JSONObject | None]:
                return tasks.create_task(unread.read(what, self._get(path), None))

            def many(what: str, path: str, query: Mapping[str, str] | None = None) -> asyncio.Task[list[JSONObject]]:
                return tasks.create_task(unread.read(what, self._list(path, query), []))

            space = one("service", here)
            service_object = one("service", f"{here}/services/{service.name}")
            slices = many("endpoints", f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", of_service)
            deployments = many("deployment", f"{apps}/deployments")
            all_pods = many("pods", f"{here}/pods")
            network_policies = many("network policies", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies")
            status = one("status", f"{here}/configmaps/{CONFIG_MAP}")
            leases = many("Lease", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
            guard = one("guard", f"{ADMISSION}/validatingwebhookconfigurations/{guard_name(service)}")
        front = service_object.result()
        lease = next((each for each in leases.result() if name(each) == LEASE), None)
        deployment = _behind(front, deployments.result(), service)
        deployed = DeployedOptions(None)
        account = self._options.service_account
        if deployment is not None:
            template = deployment["spec"]["template"]
            deployed = options_of(template, namespace)
            account = template["spec"].get("serviceAccountName") or account
        selector = self._selector(deployed.options, lease, status.result())
        pods = _of(front, deployment, all_pods.result())
        chosen = _chosen(shared.crds, selector)
        grants = _grants(service, deployed.options, selector, chosen, leases.result())
        loaded = Loaded(())
        if deployment is not None and deployed.options is not None and deployed.options.definitions is not None:
            loaded = await unread.read(
                "definitions", self._folder(deployment, namespace, str(deployed.options.definitions)), Loaded(())
            )
        secret_name, certificate_member = _secret(service, deployment, deployed.options)
        self._tell(f"asking for {sum(len(each.rights) for each in grants)} rights, and kube-apiserver to pass on requests")
        facts = InstallationFacts(service=service, now=0.0, service_object=front, api_services=shared.api_services)
        async with asyncio.TaskGroup() as tasks:
            denied = tasks.create_task(unread.read("rights", self._denied(namespace, account, grants), []))
            probes_made = tasks.create_task(self._probes(facts.ours()))
            direct = tasks.create_task(self._direct(facts))
            secret = tasks.create_task(
                unread.read("secret", self._get(f"{here}/secrets/{secret_name}") if secret_name else _none(), None)
            )
            own_account = tasks.create_task(unread.read("account", self._get(f"{here}/serviceaccounts/{account}"), None))
            events = tasks.create_task(unread.read("events", self._list(f"{here}/events", _WARNINGS), []))
            logs = tasks.create_task(self._logs(namespace, pods, deployment))
        probes = probes_made.result()
        api_services = shared.api_services
        if any(not probes[name(each)][0].is_answered for each in facts.ours() if name(each) in probes):
            # A condition that was read before the failure may have been that of before, and now says why.
            self._tell("a request failed: reading the conditions of APIServices again")
            api_services = await unread.read("APIServices", self._list(API_SERVICES), list(api_services))
        lease_problem, lease = await self._lease_problem(namespace, selector, lease, shared.skew)
        now = self._now() + shared.skew
        user = f"system:serviceaccount:{namespace}:{account}"
        policy, binding = _policy(shared, user)
        return InstallationFacts(
            service=service,
            now=now,
            account=account,
            kubernetes=shared.kubernetes,
            has_namespace=space.result() is not None,
            has_account=own_account.result() is not None,
            service_object=front,
            slices=slices.result(),
            deployment=deployment,
            pods=pods,
            events=events.result(),
            logs=logs.result(),
            network_policies=network_policies.result(),
            options=deployed.options,
            options_problem=deployed.problem,
            api_services=api_services,
            probes={each: probe for each, (probe, _) in probes.items()},
            direct=direct.result(),
            ahead=next((ahead - shared.skew for _, ahead in probes.values() if ahead is not None), None),
            authentication=shared.authentication,
            secret_name=secret_name,
            certificate_member=certificate_member,
            secret=secret.result(),
            grants=grants,
            denied=denied.result(),
            policy=policy,
            binding=binding,
            definitions=loaded.definitions,
            definition_problems=[str(each) for each in loaded.problems],
            crds=[kept(crd, whole=False) for crd in shared.crds],
            refused=_refused(chosen),
            selector=selector,
            entries=_entries(status.result()),
            lease=lease,
            lease_problem=lease_problem,
            task_leases=[each for each in leases.result() if _is_left(each, service, now)],
            guard=guard.result(),
            unread=unread.reasons,
        )

    def _selector(self, options: Options | None, lease: object, status: object) -> str | None:
        """Of the definitions to adopt; None if the installation has nothing to do with adoption."""
        if self._options.adopt is not None:
            return self._options.adopt
        if options is not None:
            return options.adopt
        # The server runs elsewhere: these show that it adopts, and not what.
        return "aggserver.io/adopt=true" if lease is not None or status is not None else None

    async def _folder(self, deployment: JSONMapping, namespace: str, folder: str) -> Loaded:
        """What the server reads from its folder of definitions, as far as that is made of ConfigMaps."""
        with tempfile.TemporaryDirectory(prefix="aggserver-doctor-") as made:
            for config_map in _config_maps(deployment, folder):
                found = await self._get(f"/api/v1/namespaces/{namespace}/configmaps/{config_map}")
                for key, text in ((found or {}).get("data") or {}).items():
                    if "/" not in key:
                        await asyncio.to_thread(Path(made, key).write_text, text)
            return await asyncio.to_thread(_load, Path(made))

    async def _denied(self, namespace: str, account: str, grants: Iterable[rights.Grant]) -> list[HostAccess]:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        user = {"user": f"system:serviceaccount:{namespace}:{account}", "groups": groups}

        async def is_denied(right: HostAccess) -> bool:
            attributes = {key: value for key, value in right._asdict().items() if value}
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {**user, "resourceAttributes": attributes},
            }
            async with self._limit:
                answer = await self._cluster.request("POST", REVIEWS, body=body, timeout=SECONDS)
            return not answer["status"].get("allowed")

        asked = list(dict.fromkeys(right for grant in grants for right in grant.rights))
        denied = await asyncio.gather(*map(is_denied, asked))
        return [right for right, lacks in zip(asked, denied, strict=True) if lacks]

    async def _probes(self, found: Sequence[JSONMapping]) -> dict[str, tuple[Probe, float | None]]:
        """What each group-version answers through the aggregator, and by how much the answering clock is ahead of this one's."""

        async def ask(api_service: JSONMapping) -> tuple[Probe, float | None]:
            spec = api_service["spec"]
            async with self._limit:
                before = self._now()
                try:
                    answer = await self._cluster.answer(f"/apis/{spec['group']}/{spec['version']}", seconds=SECONDS)
                except Unreachable as error:
                    return Probe(0, error.why), None
                after = self._now()
            # Of a failure the aggregator answers itself.
            ahead = _ahead(answer.date, before, after) if answer.status == 200 and answer.date else None
            return Probe(answer.status, _message(answer.text)), ahead

        asked = found[:MOST_PROBES]
        return dict(zip(map(name, asked), await asyncio.gather(*map(ask, asked)), strict=True))

    async def _direct(self, facts: InstallationFacts) -> Probe | None:
        """What the server says of its readiness, by way of the Service and not of the aggregator."""
        if not facts.has_pods:
            return None
        service = facts.service
        path = f"/api/v1/namespaces/{service.namespace}/services/https:{service.name}:{service.port}/proxy/readyz"
        try:
            answer = await self._cluster.answer(path, query={"verbose": ""}, seconds=SECONDS)
        except Unreachable as error:
            return Probe(0, error.why)
        return Probe(answer.status, answer.text)

    async def _logs(self, namespace: str, pods: Sequence[JSONMapping], deployment: JSONMapping | None) -> dict[str, list[str]]:
        """The last lines of pods that are not ready or were restarted; of one that has ended, those before its end."""
        container = container_of(deployment["spec"]["template"]) if deployment is not None else None

        async def read(pod: JSONMapping) -> list[str]:
            statuses = (pod.get("status") or {}).get("containerStatuses") or ()
            waits = any((each.get("state") or {}).get("waiting") for each in statuses)
            restarted = any(each.get("restartCount") for each in statuses)
            query = {"tailLines": LINES, "limitBytes": LOG_BYTES}
            if waits and restarted:
                query["previous"] = "true"
            if container is not None:
                query["container"] = str(container["name"])
            try:
                answer = await self._cluster.answer(
                    f"/api/v1/namespaces/{namespace}/pods/{name(pod)}/log", query=query, seconds=SECONDS
                )
            except Unreachable:
                return []
            return answer.text.splitlines() if answer.status == 200 else []

        looked_at = [pod for pod in pods if _is_worth_its_log(pod)][:MOST_LOGS]
        return dict(zip(map(name, looked_at), await asyncio.gather(*map(read, looked_at)), strict=True))

    async def _lease_problem(
        self, namespace: str, selector: str | None, lease: JSONObject | None, skew: float
    ) -> tuple[str, JSONObject | None]:
        """As `aggserver adopt status`: a Lease that looks as if nobody holds it is looked at again some seconds later."""
        if selector is None:
            return "", lease
        if not holder.is_doubtful(lease, self._now() + skew):
            return "", lease
        self._tell("the Lease of moves looks as if nobody holds it: looking again in 5 s")
        await self._sleep(holder.SURE_SECONDS)
        unread = _Unread()
        later = await unread.read("Lease", self._get(_lease(namespace)), None)
        if unread.reasons:
            return "", lease
        unchanged = holder.SURE_SECONDS if later == lease else 0.0
        return holder.problem(later, namespace, unchanged, self._now() + skew), later

    # --- requests ---

    async def _get(self, path: str) -> JSONObject | None:
        async with self._limit:
            return await self._cluster.request("GET", path, timeout=SECONDS)

    async def _list(self, path: str, query: Mapping[str, str] | None = None) -> list[JSONObject]:
        items: list[JSONObject] = []
        more = dict(query or {})
        while True:
            async with self._limit:
                page = await self._cluster.request("GET", path, query={"limit": str(PAGE), **more}, timeout=LIST_SECONDS)
            items += page.get("items") or []
            if not page["metadata"].get("continue"):
                return items
            more["continue"] = page["metadata"]["continue"]


async def _none() -> JSONObject | None:
    return None


def _lease(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}"


def _ahead(date: str, before: float, after: float) -> float:
    """By how many seconds a clock is ahead of this one. date: the header of its answer, which has whole seconds."""
    try:
        told = parsedate_to_datetime(date).timestamp() + 0.5
    except ValueError:
        return 0.0
    return told - (before + after) / 2


def _message(text: str) -> str:
    """The message of a Status, or the text itself."""
    try:
        answer = json.loads(text)
    except ValueError:
        return text
    return str(answer.get("message") or text) if isinstance(answer, dict) and answer.get("kind") == "Status" else text


def _load(folder: Path) -> Loaded:
    return FolderSource(folder, lambda loaded: None).poll() or Loaded(())


def _behind(front: JSONMapping | None, deployments: Sequence[JSONObject], service: Service) -> JSONObject | None:
    """The Deployment behind a Service: the one that its selector matches, or else the one whose server has the Service's name."""
    selector = ((front or {}).get("spec") or {}).get("selector") or {}
    for each in deployments:
        if selects(selector, (each["spec"]["template"].get("metadata") or {}).get("labels") or {}):
            return each
    for each in deployments:
        if container_of(each["spec"]["template"]) is not None:
            options, _ = options_of(each["spec"]["template"], service.namespace)
            if service.name == (options.service_name if options is not None else name(each)):
                return each
    return None


def _of(front: JSONMapping | None, deployment: JSONMapping | None, pods: Sequence[JSONObject]) -> list[JSONObject]:
    """The pods that the Service or the Deployment selects."""
    selectors = [((front or {}).get("spec") or {}).get("selector") or {}]
    if deployment is not None:
        selectors.append(deployment["spec"]["selector"].get("matchLabels") or {})
    return [pod for pod in pods if any(selects(selector, labels(pod)) for selector in selectors)]


def _is_worth_its_log(pod: JSONMapping) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return (condition(pod, "Ready") or {}).get("status") != "True" or any(each.get("restartCount") for each in statuses)


def _chosen(crds: Sequence[JSONMapping], selector: str | None) -> list[JSONMapping]:
    if selector is None:
        return []
    wanted = LabelSelector.parse(selector)
    return [kept(crd, whole=True) for crd in crds if wanted.matches(labels(crd))]


def _refused(chosen: Iterable[JSONMapping]) -> dict[str, str]:
    found = {}
    for crd in chosen:
        try:
            parse(crd)
        except DefinitionError as error:
            found[name(crd)] = str(error)
    return found


def _grants(
    service: Service,
    options: Options | None,
    selector: str | None,
    chosen: Iterable[JSONMapping],
    leases: Iterable[JSONMapping],
) -> list[rights.Grant]:
    """The rights that the server needs. options: None if they are not known."""
    found = rights.grants()
    if options is None or (options.tls_cert_file is None and options.cert_dir is None):
        found += rights.grants_of_certificates(service)
    prefix = f"{service.name}-app-"
    if (options is not None and options.apps) or any(name(each).startswith(prefix) for each in leases):
        found += rights.grants_of_tasks(service)
    if selector is not None:
        lists = options is None or not options.kube_apiservers
        found += rights.grants_of_adoption(service, guard_name(service), lists_kube_apiservers=lists)
        has_etcd = options is not None and bool(options.host_etcd_servers)
        found += [rights.grant_of_objects(crd, has_host_etcd=has_etcd) for crd in chosen]
    return [each for each in found if each.rights]


def _config_maps(deployment: JSONMapping, folder: str) -> list[str]:
    """The ConfigMaps whose files the container has in the folder."""
    spec = deployment["spec"]["template"]["spec"]
    container = container_of(deployment["spec"]["template"]) or {}
    mounted = {each["name"] for each in container.get("volumeMounts") or () if each["mountPath"].rstrip("/") == folder}
    found = []
    for volume in spec.get("volumes") or ():
        if volume["name"] in mounted:
            sources = [volume, *((volume.get("projected") or {}).get("sources") or ())]
            found += [each["configMap"]["name"] for each in sources if each.get("configMap")]
    return found


def _secret(service: Service, deployment: JSONMapping | None, options: Options | None) -> tuple[str, str]:
    """The Secret with the serving certificate, and its key; '' if there is none that is known."""
    if options is None or (options.tls_cert_file is None and options.cert_dir is None):
        return f"{service.name}-certificates", "tls.crt"
    if options.tls_cert_file is None or deployment is None:
        return "", ""
    folder, key = str(options.tls_cert_file.parent), options.tls_cert_file.name
    container = container_of(deployment["spec"]["template"]) or {}
    mounted = {each["name"] for each in container.get("volumeMounts") or () if each["mountPath"].rstrip("/") == folder}
    for volume in deployment["spec"]["template"]["spec"].get("volumes") or ():
        if volume["name"] in mounted and volume.get("secret"):
            return str(volume["secret"]["secretName"]), key
    return "", ""


def _policy(shared: _Shared, user: str) -> tuple[JSONMapping | None, JSONMapping | None]:
    """The admission policy that is about the service account, and its binding."""
    policy = next((each for each in shared.policies if access.is_about(each, user)), None)
    if policy is None:
        return None, None
    bound = (each for each in shared.bindings if each["spec"].get("policyName") == name(policy))
    return policy, next(bound, None)


def _entries(status: JSONMapping | None) -> dict[str, JSONMapping] | None:
    if status is None:
        return None
    found: dict[str, Any] = {}
    for key, text in (status.get("data") or {}).items():
        if key == LEFT_OUT:
            continue
        try:
            value = json.loads(text)
        except ValueError:
            continue  # the server corrects it within seconds
        if isinstance(value, dict):
            found[key] = value
    return found


def _is_left(lease: JSONMapping, service: Service, now: float) -> bool:
    """Whether a Lease of an App's tasks has a holder that has not renewed it for twice its duration."""
    spec = lease.get("spec") or {}
    if not name(lease).startswith(f"{service.name}-app-") or not spec.get("holderIdentity") or not spec.get("renewTime"):
        return False
    return now > parse_time(str(spec["renewTime"])) + 2 * float(spec.get("leaseDurationSeconds") or 0)
