"""`aggserver adopt plan|status|release|cleanup`: reads the host, asks the server for something by annotations, and follows it.

plan creates only access reviews. release and cleanup annotate definitions; the server that has adopted them does the work and
shows its progress in its status ConfigMap. A release from a backup is done here, since its server is lost.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from aggserver.admission.cluster_sources import GUARD_LABEL
from aggserver.adoption.families import ADOPTION, ASKED, CLEANUP, DISCARD, RELEASE, THROUGH_API, Family, kept
from aggserver.adoption.give_back.from_backup import opened_backup, release_from_backup
from aggserver.adoption.records.record import LEASE
from aggserver.adoption.status import CONFIG_MAP, LEFT_OUT
from aggserver.adoption.switch.guard import guard_name
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.client import connect
from aggserver.cluster.configuration import SERVICE_ACCOUNT_FOLDER
from aggserver.commands.adopt import follow, holder, report
from aggserver.commands.adopt.plan import Facts, HostAccess, Sample, access_of, access_of_server, chosen, plan
from aggserver.errors import AggserverError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector
from aggserver.meta.times import format_time
from aggserver.options import Options
from aggserver.storage.interface import Storage

__all__ = ["Adopt", "AdoptError", "run"]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
AUTHENTICATION = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

# The label of a node of k3s or RKE2 that runs etcd.
ETCD_NODES = "node-role.kubernetes.io/etcd=true"
IN_KINE = (
    "the cluster is k3s, and no node runs etcd: unless it was given an etcd by --datastore-endpoint, its objects are in kine. "
    "Adoption works through the API. --host-etcd-servers can't name kine, so what was changed here goes back only with "
    "--through-api: objects that were created here get a new uid"
)

SAMPLE = 100  # objects of each definition that are read
PAGE = 500
AT_ONCE = 8
POLL_SECONDS = 0.5

Say = Callable[[str], None]


class AdoptError(AggserverError):
    """The command can't be carried out, or was not. The text says what to do."""


async def run(options: Options, version: str, say: Say, open_host_etcd: Callable[[Options], Awaitable[Storage | None]]) -> bool:
    """Run the command. Returns whether nothing stands in the way of a plan, or the command was carried out.

    Raises AdoptError, CantGiveBack, ConfigurationError, FileError, StorageError, ClusterError and Unreachable.
    """
    cluster = await connect(str(options.kubeconfig or ""), f"aggserver/{version}")
    try:
        if options.from_backup is not None:
            return await from_backup(cluster, options, options.from_backup, say, open_host_etcd)
        return await Adopt(cluster, options, say).run()
    finally:
        await cluster.close()


async def from_backup(
    cluster: Cluster,
    options: Options,
    file: Path,
    say: Say,
    open_host_etcd: Callable[[Options], Awaitable[Storage | None]],
) -> bool:
    """Give definitions back from a backup: those that the options name by their full names, or all. Raises as `run`."""

    def print_message(line: str) -> None:
        say(json.dumps({"message": line}, ensure_ascii=False) if options.output == "json" else line)

    host = await open_host_etcd(options)
    try:
        async with opened_backup(file, print_message) as own:
            names = options.definition_names
            await release_from_backup(own, cluster, host, print_message, definitions=names, through_api=options.through_api)
    finally:
        if host is not None:
            await host.close()
    return True


class Adopt:
    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        say: Say,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._say = say
        self._clock = clock
        self._now = now
        self._sleep = sleep
        self._namespace = options.service_namespace or _own_namespace()
        self._is_release = options.command == "adopt release"

    async def run(self) -> bool:
        match self._options.command:
            case "adopt plan":
                return await self._plan()
            case "adopt status":
                return await self._status()
            case _:
                return await self._ask()

    # --- plan ---

    async def _plan(self) -> bool:
        selector = LabelSelector.parse(self._options.adopt or "")  # checked with the options
        service = Service(self._namespace, self._options.service_name, self._options.service_port)
        unread: list[str] = []
        facts = Facts(
            crds=[kept(crd, whole=True) for crd in await self._list(DEFINITIONS)],
            api_services=await self._list(API_SERVICES),
            webhooks=await self._admission("webhookconfigurations", {"labelSelector": f"{GUARD_LABEL}!=true"}, unread),
            policies=await self._admission("admissionpolicies", {}, unread),
            has_host_etcd=bool(self._options.host_etcd_servers),
        )
        wanted = chosen(facts, selector, service)
        names = {name for family in wanted for name in family.definitions}
        crds = [crd for crd in facts.crds if crd["metadata"]["name"] in names]
        obstacles, notes = await self._installation(service.namespace, service.name)
        needed = access_of_server(self._namespace, guard_name(service))
        needed += [access for crd in crds for access in access_of(crd, has_host_etcd=facts.has_host_etcd)]
        denied, unknown = await self._denied(needed)
        facts = replace(
            facts,
            samples=await self._samples(wanted, facts.crds),
            denied=denied,
            obstacles=obstacles,
            notes=[*unread, *notes, *unknown, *await self._store()],
        )
        found = plan(facts, wanted, self._options.max_object_bytes)
        self._print(found, report.plan_text(found))
        return bool(found["ok"])

    async def _admission(self, kinds: str, query: Mapping[str, str], unread: list[str]) -> list[JSONObject]:
        """The objects of both kinds. unread: gets a note if they can't be read."""
        try:
            return [each for step in ("mutating", "validating") for each in await self._list(f"{ADMISSION}/{step}{kinds}", query)]
        except ClusterError as error:
            unread.append(f"which {kinds} concern the objects is not known: {error}")
            return []

    async def _list(self, path: str, query: Mapping[str, str] | None = None) -> list[JSONObject]:
        """All objects of a collection; [] if the host does not serve it."""
        items: list[JSONObject] = []
        more = dict(query or {})
        while True:
            try:
                page = await self._cluster.request("GET", path, query={"limit": str(PAGE), **more}, timeout=60.0)
            except ClusterError as error:
                if error.code == 404:
                    return items
                raise
            items += page.get("items") or []
            if not page["metadata"].get("continue"):
                return items
            more["continue"] = page["metadata"]["continue"]

    async def _installation(self, namespace: str, name: str) -> tuple[list[str], list[str]]:
        """What stands in the way of every adoption, and notes on what can't be found out."""
        obstacles, notes = [], []
        try:
            data = (await self._cluster.request("GET", AUTHENTICATION)).get("data") or {}
            if not data.get("requestheader-client-ca-file"):
                obstacles.append(
                    "kube-apiserver has no client certificate for the aggregation layer: it needs "
                    "--requestheader-client-ca-file, --proxy-client-cert-file and --proxy-client-key-file"
                )
        except ClusterError as error:
            notes.append(f"whether the aggregation layer is set up is not known: {error}")
        try:
            service = await self._cluster.request("GET", f"/api/v1/namespaces/{namespace}/services/{name}")
        except ClusterError as error:
            why = "there is none" if error.code == 404 else str(error)
            return [*obstacles, f"the Service {namespace}/{name} of --service-namespace and --service-name: {why}"], notes
        is_external = service["spec"].get("type") == "ExternalName"
        if not is_external and all(p.get("port") != self._options.service_port for p in service["spec"].get("ports") or ()):
            obstacles.append(f"the Service {namespace}/{name} has no port {self._options.service_port}")
        try:
            if not is_external and not await self._has_endpoints(namespace, name):
                obstacles.append(f"the Service {namespace}/{name} has no ready endpoints: does aggserver run?")
        except ClusterError as error:
            notes.append(f"whether the Service {namespace}/{name} has ready endpoints is not known: {error}")
        return obstacles, notes

    async def _has_endpoints(self, namespace: str, name: str) -> bool:
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        found = await self._cluster.request("GET", path, query={"labelSelector": f"kubernetes.io/service-name={name}"})
        endpoints = [each for item in found.get("items") or () for each in item.get("endpoints") or ()]
        return any((each.get("conditions") or {}).get("ready") is not False for each in endpoints)

    async def _store(self) -> list[str]:
        """A note if the cluster's objects are in kine, as far as its API shows that."""
        try:
            version = str((await self._cluster.request("GET", "/version")).get("gitVersion"))
            if "+k3s" not in version or await self._list("/api/v1/nodes", {"labelSelector": ETCD_NODES}):
                return []
        except ClusterError as error:
            return [f"whether the cluster's objects are in etcd is not known: {error}"]
        return [IN_KINE]

    async def _denied(self, needed: Sequence[HostAccess]) -> tuple[list[HostAccess], list[str]]:
        """The access that the server's service account lacks, and a note if the host can't be asked."""
        user = f"system:serviceaccount:{self._namespace}:{self._options.service_account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self._namespace}", "system:authenticated"]
        limit = asyncio.Semaphore(AT_ONCE)

        async def ask(access: HostAccess) -> bool:
            attributes = access._asdict()
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": user, "groups": groups, "resourceAttributes": {k: v for k, v in attributes.items() if v}},
            }
            async with limit:
                found = await self._cluster.request("POST", REVIEWS, body=body)
            return bool(found["status"].get("allowed"))

        try:
            allowed = await asyncio.gather(*map(ask, needed))
        except ClusterError as error:
            return [], [f"whether {user} has the permissions that adoption needs is not known: {error}"]
        return [access for access, may in zip(needed, allowed, strict=True) if not may], []

    async def _samples(self, wanted: Sequence[Family], crds: Sequence[JSONMapping]) -> dict[str, Sample]:
        by_name = {str(crd["metadata"]["name"]): crd for crd in crds}
        # One after the other: the time to read is measured.
        return {name: await self._sample(by_name[name]) for family in wanted for name in family.definitions}

    async def _sample(self, crd: JSONMapping) -> Sample:
        spec = crd["spec"]
        served = [version["name"] for version in spec["versions"] if version["served"]]
        stored = [version["name"] for version in spec["versions"] if version["storage"] and version["served"]]
        if not served:
            return Sample(0, 0, 0, 0, 0.0)
        path = f"/apis/{spec['group']}/{(stored or served)[0]}/{spec['names']['plural']}"
        began = self._clock()
        try:
            page = await self._cluster.request("GET", path, query={"limit": str(SAMPLE)}, timeout=60.0)
        except (ClusterError, Unreachable) as error:
            return Sample(0, 0, 0, 0, 0.0, str(error))
        took = self._clock() - began
        sizes = [len(orjson.dumps(item)) for item in page.get("items") or ()]
        count = len(sizes) + int(page["metadata"].get("remainingItemCount") or 0)
        return Sample(count, len(sizes), sum(sizes), max(sizes, default=0), took)

    # --- status ---

    async def _status(self) -> bool:
        entries, left_out = await self._entries()
        server = _Server(self._cluster, self._namespace, self._clock, self._now)
        trouble = await server.look()
        if not trouble and holder.is_doubtful(server.lease, self._now()):
            await self._sleep(holder.SURE_SECONDS)
            trouble = await server.look()
        shown = holder.shown(server.lease, trouble)
        notes = await self._store()
        found = {"definitions": entries, "leftOut": left_out, "server": shown, "notes": notes}
        self._print(found, report.status_text(entries, left_out, shown, notes))
        return True

    async def _entries(self) -> tuple[dict[str, JSONObject], int]:
        path = f"/api/v1/namespaces/{self._namespace}/configmaps/{CONFIG_MAP}"
        data: Mapping[str, str] = (await find(self._cluster, path) or {}).get("data") or {}
        return {name: json.loads(text) for name, text in data.items() if name != LEFT_OUT}, int(data.get(LEFT_OUT, "0"))

    # --- release and cleanup ---

    async def _ask(self) -> bool:
        first, _ = await self._entries()
        names = await self._names(first)
        if missing := [name for name in names if name not in first]:
            raise AdoptError(
                f"{', '.join(missing)}: not adopted by a server of namespace {self._namespace}; see aggserver adopt status"
            )
        now = format_time(self._now())
        if self._is_release:
            what = DISCARD if self._options.discard else RELEASE
            annotations = {ADOPTION: what, ASKED: now, THROUGH_API: "true" if self._options.through_api else None}
            outcome = follow.discarded if self._options.discard else follow.released
        else:
            annotations, outcome = {CLEANUP: now}, follow.cleaned
        for name in names:
            await self._cluster.request("PATCH", f"{DEFINITIONS}/{name}", body={"metadata": {"annotations": annotations}})
        return await self._follow(names, first, outcome)

    async def _names(self, adopted: Mapping[str, Any]) -> list[str]:
        """The names of the definitions that the arguments mean: plural.group, or the plural, singular, kind or a short name."""
        if self._options.all_definitions:
            if not adopted:
                raise AdoptError(f"nothing is adopted by a server of namespace {self._namespace}")
            return sorted(adopted)
        known: dict[str, set[str]] = {}
        for crd in await self._list(DEFINITIONS):
            name, names = str(crd["metadata"]["name"]), crd["spec"]["names"]
            for word in (
                name,
                names["plural"],
                names.get("singular") or "",
                names["kind"].lower(),
                *(names.get("shortNames") or ()),
            ):
                known.setdefault(word, set()).add(name)
        found = set()
        for word in self._options.definition_names:
            meant = known.get(word.lower(), set())
            # If several definitions have the name, only adopted ones are meant.
            meant = meant & adopted.keys() or meant
            if len(meant) != 1:
                raise AdoptError(
                    f"{word}: " + (f"may be {', '.join(sorted(meant))}" if meant else "the cluster has no such definition")
                )
            found |= meant
        return sorted(found)

    async def _follow(
        self,
        names: Sequence[str],
        first: Mapping[str, JSONObject],
        outcome_of: Callable[[JSONMapping | None, JSONMapping | None], follow.Ending],
    ) -> bool:
        """Print each step of each definition until all are done, and when no server moves definitions. Returns whether all
        succeeded.
        """
        ends = self._clock() + self._options.wait_seconds
        seen: dict[str, JSONObject | None] = {name: first[name] for name in names}
        outcomes: dict[str, follow.Ending] = {}
        server, trouble = _Server(self._cluster, self._namespace, self._clock, self._now), ""
        while True:
            entries, _ = await self._entries()
            for name in names:
                if name in outcomes:
                    continue
                now = entries.get(name)
                outcome = outcome_of(first[name], now)
                # A definition that is back may wait to be adopted anew; that is not what was asked for.
                is_back = self._is_release and outcome is follow.Ending.DONE
                if text := follow.line(name, seen[name], None if is_back else now):
                    self._print({"definition": name, "entry": now}, text, one_line=True)
                seen[name] = now
                if outcome is not follow.Ending.GOING_ON:
                    outcomes[name] = outcome
            if len(outcomes) == len(names):
                return self._ended(names, [name for name in names if outcomes[name] is follow.Ending.FAILED])
            before, trouble = trouble, await server.look()
            if trouble != before:
                text = f"waiting: {trouble}" if trouble else "an aggserver moves definitions again"
                self._print({"message": text}, text, one_line=True)
            if self._clock() >= ends:
                late = ", ".join(name for name in names if name not in outcomes)
                why = trouble or "the server goes on, see its log and aggserver adopt status"
                raise AdoptError(f"{late}: not done within {self._options.wait_seconds:g} s, but it stays asked for: {why}")
            await self._sleep(POLL_SECONDS)

    def _ended(self, names: Sequence[str], failed: Sequence[str]) -> bool:
        if not failed:
            if self._is_release:
                text = follow.after_release(names, DISCARD if self._options.discard else RELEASE)
                self._print({"message": text}, text, one_line=True)
            return True
        what = "released" if self._is_release else "cleaned up"
        raise AdoptError(f"{', '.join(failed)}: not {what}, for the reason above; it stays adopted, and nothing is lost")

    def _print(self, found: JSONMapping, text: str, *, one_line: bool = False) -> None:
        if self._options.output == "json":
            text = json.dumps(found, indent=None if one_line else 2, ensure_ascii=False)
        self._say(text)


class _Server:
    """Which server moves definitions, by the Lease. lease: its last known state, None if there is none."""

    def __init__(self, cluster: Cluster, namespace: str, clock: Callable[[], float], now: Callable[[], float]) -> None:
        self.lease: JSONObject | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._clock = clock
        self._now = now
        self._since: float | None = None  # when the Lease was first seen in this state

    async def look(self) -> str:
        """Why no server moves definitions, or why that is not known; '' if one does."""
        before = self.lease
        try:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases/{LEASE}"
            self.lease = await self._cluster.request("GET", path)
        except ClusterError as error:
            self.lease = None
            if error.code != 404:
                return f"whether an aggserver moves definitions is not known: {error}"
        if self._since is None or self.lease != before:
            self._since = self._clock()
        return holder.problem(self.lease, self._namespace, self._clock() - self._since, self._now())


def _own_namespace() -> str:
    try:
        return Path(SERVICE_ACCOUNT_FOLDER / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"
